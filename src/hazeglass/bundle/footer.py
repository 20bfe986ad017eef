"""A Parquet footer and the heads of its pages, walked through before pyarrow sees the file.

pyarrow ends the whole process on some footers that contradict themselves, and a small one can make it fill the memory.
So the footer is read here first (Thrift's compact protocol) and must be the one that our writer writes for these pages:
the fields below and no others, each of its type, in order and in its only spelling; as many column chunks as columns;
nothing compressed, nothing encrypted, nothing in another file, no notes, no statistics, and one count of rows
throughout. The pages fill the file from its first bytes to the footer and hold as many values as there are rows. So a
footer follows from the columns, the lengths of the pages and the version of pyarrow in release.json, and no bit of it
is left to say anything else. What is inside the pages is for contents.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from hazeglass.errors import BundleError

_MAGIC = b"PAR1"
# Kinds of values, as the protocol numbers them.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 8, 9, 12
_UNCOMPRESSED, _REQUIRED, _OPTIONAL = 0, 0, 1
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _RUN_LENGTHS, _PLACES = 0, 3, 8  # values as they are, levels, and places in a dictionary
_VERSION = 2
_LARGEST_PAGE_HEAD, _ENCODINGS = 64, 8  # bytes before a page, and how many encodings a chunk lists
_LARGEST_CHUNK_COPY = 1 << 13  # a name has at most 1000 characters
_VALUES_PER_PAGE = 1000  # pyarrow ends no page, but for a chunk's last, before it holds 1024
_WRITER = "parquet-cpp-arrow version "
# Arrow's types that a release has, the numbers of the Parquet types that hold them, and what is said of them beside.
PHYSICAL_TYPES = {"int8": 1, "int64": 2, "double": 5, "string": 6}
_SAID_OF_TYPE = {1: (15, {"integer": {"bits": 8, "signed": None}}), 6: (0, {"text": {}})}
_LEVELS = {"definition": _RUN_LENGTHS, "repetition": _RUN_LENGTHS}


class Page(NamedTuple):
    """A page: whether it is the dictionary of its chunk, how many values it holds, and where its bytes lie."""

    is_dictionary: bool
    values: int
    begin: int
    end: int


class Chunk(NamedTuple):
    """The values of one column in one row group; where it has a dictionary, that is the first page.

    `text_bytes` is how long its texts are said to be together, `present` how many values are; None where nothing is.
    """

    pages: list[Page]
    text_bytes: int | None
    present: int | None


class RowGroup(NamedTuple):
    """Some rows of a part, a chunk for each column."""

    rows: int
    chunks: list[Chunk]


class _Struct:
    """The fields that a structure may have, by number: a kind of value, a _Struct, or a list of one of these.

    `kept` names those that are looked at. `steps` says what the byte before a field means after which field: the number
    and kind of the one that follows, the shape of what is in it, and its name. A byte that is not there has no place.
    """

    def __init__(self, fields: Mapping[int, Any], kept: Mapping[int, str] | None = None) -> None:
        kept = kept or {}
        self.steps: dict[tuple[int, int], tuple[int, int, Any, str | None]] = {}
        for number, shape in fields.items():
            kind = _LIST if isinstance(shape, list) else _STRUCT if isinstance(shape, _Struct) else shape
            # A step is 1 to 15: 0 would spell the number out, which is never needed; so no field comes twice.
            for before in range(max(0, number - 15), number):
                self.steps[before, (number - before) << 4 | kind] = (number, kind, shape, kept.get(number))


_EMPTY = _Struct({})
_PAGE_ENCODING = _Struct({1: _I32, 2: _I32, 3: _I32}, {1: "kind", 2: "encoding", 3: "pages"})
_SIZES = _Struct({1: _I64, 2: [_I64], 3: [_I64]}, {1: "text_bytes", 2: "repetitions", 3: "levels"})
_CHUNK_DETAILS = _Struct(
    {1: _I32, 2: [_I32], 3: [_BINARY], 4: _I32, 5: _I64, 6: _I64, 7: _I64, 9: _I64, 11: _I64}
    | {13: [_PAGE_ENCODING], 16: _SIZES},
    {1: "type", 2: "encodings", 3: "path", 4: "codec", 5: "values", 6: "unpacked_bytes", 7: "bytes"}
    | {9: "first_page", 11: "dictionary", 13: "page_encodings", 16: "sizes"},
)
_CHUNK = _Struct({2: _I64, 3: _CHUNK_DETAILS}, {2: "copied_at", 3: "details"})
_ROW_GROUP = _Struct(
    {1: [_CHUNK], 2: _I64, 3: _I64, 5: _I64, 6: _I64, 7: _I16},
    {1: "chunks", 2: "unpacked_bytes", 3: "rows", 5: "first_page", 6: "bytes", 7: "number"},
)
_INTEGER = _Struct({1: _BYTE, 2: _TRUE}, {1: "bits", 2: "signed"})
_LOGICAL_TYPE = _Struct({1: _EMPTY, 10: _INTEGER}, {1: "text", 10: "integer"})
_SCHEMA_ELEMENT = _Struct(
    {1: _I32, 3: _I32, 4: _BINARY, 5: _I32, 6: _I32, 10: _LOGICAL_TYPE},
    {1: "type", 3: "repetition", 4: "name", 5: "children", 6: "converted", 10: "logical"},
)
_NOTE = _Struct({1: _BINARY, 2: _BINARY})
_FOOTER = _Struct(
    {1: _I32, 2: [_SCHEMA_ELEMENT], 3: _I64, 4: [_ROW_GROUP], 5: [_NOTE], 6: _BINARY}
    | {7: [_Struct({1: _EMPTY}, {1: "by type"})]},
    {1: "version", 2: "schema", 3: "rows", 4: "row_groups", 5: "notes", 6: "writer", 7: "orders"},
)
_DATA_HEAD = _Struct(
    {1: _I32, 2: _I32, 3: _I32, 4: _I32, 5: _EMPTY},
    {1: "values", 2: "encoding", 3: "definition", 4: "repetition", 5: "statistics"},
)
_DICTIONARY_HEAD = _Struct({1: _I32, 2: _I32, 3: _FALSE}, {1: "values", 2: "encoding", 3: "sorted"})
_PAGE = _Struct(
    {1: _I32, 2: _I32, 3: _I32, 5: _DATA_HEAD, 7: _DICTIONARY_HEAD},
    {1: "kind", 2: "unpacked_bytes", 3: "bytes", 5: "data", 7: "dictionary"},
)


class _Habits(NamedTuple):
    """What versions of pyarrow do in different ways: say twice what a chunk is, number row groups, state sizes."""

    says_twice: bool
    numbers: bool
    states_sizes: bool


def read_footer(
    file: BinaryIO, name: str, types: Mapping[str, int], row_groups: int, largest: int, version: str
) -> list[RowGroup]:
    """The row groups of a part; refused unless its columns are those of `types` and its footer is sound.

    `types` gives the number of each column's Parquet type; `row_groups` and `largest` bound how many
    row groups the file and how many bytes the footer has; `version` is that of pyarrow in release.json.
    """
    major = version.partition(".")[0]
    number = int(major) if major.isdecimal() else 0
    habits = _Habits(says_twice=number < 18, numbers=number < 20, states_sizes=number >= 20)
    raw, end = _footer_bytes(file, name, largest)
    try:
        footer, size = _structure(raw, 0, _FOOTER, max(row_groups, len(types) + 1, _ENCODINGS))
    except (OtherFooterError, IndexError):
        size, footer = -1, {}
    if size != len(raw):
        raise BundleError(f"{name} is not a readable Parquet file as releases hold them. Ask for a new copy.")
    try:
        _check_schema(name, footer["schema"], types)
        _check_row_groups(name, footer, row_groups, version, habits)
        return _row_groups(file, name, footer, end, habits)
    except KeyError:
        raise BundleError(f"{name} leaves out what every Parquet file states. Ask for a new copy.") from None


def _footer_bytes(file: BinaryIO, name: str, largest: int) -> tuple[bytes, int]:
    """The bytes between the pages and the file's last eight, which state how many they are; and where they begin."""
    begin = file.read(4)
    size = file.seek(0, 2)
    tail = _read(file, max(0, size - 8), 8)
    length = int.from_bytes(tail[:4], "little")
    if begin != _MAGIC or tail[4:] != _MAGIC or length > size - 12:
        raise BundleError(f"{name} is not a readable Parquet file as releases hold them. Ask for a new copy.")
    if length > largest:
        raise BundleError(f"{name} says more about its columns than a release can. Do not rely on it.")
    return _read(file, size - 8 - length, length), size - 8 - length


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _check_schema(name: str, schema: list[dict[str, Any]], types: Mapping[str, int]) -> None:
    """A root, and one optional column of numbers or text below it for each that is expected."""
    root, *columns = schema or [{}]
    said_of_root = {"name": b"schema", "repetition": _REQUIRED, "children": len(columns)}
    if root != said_of_root or any("children" in column for column in columns):
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    if [column["name"] for column in columns] != [expected.encode() for expected in types]:
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    for column, (label, kind) in zip(columns, types.items(), strict=True):
        said = column.get("converted"), column.get("logical")
        expected = _SAID_OF_TYPE.get(kind, (None, None))
        if (column.get("type"), column.get("repetition"), *said) != (kind, _OPTIONAL, *expected):
            raise BundleError(f"{name}: column {label[:100]!r} does not hold numbers of the right kind.")


def written_by(version: str) -> bytes:
    """What a footer says of its writer; of one between two releases release.json says .dev0."""
    return f"{_WRITER}{version.replace('.dev0', '-SNAPSHOT')}".encode()


def _check_row_groups(name: str, footer: dict[str, Any], most: int, version: str, habits: _Habits) -> None:
    """Nothing compressed, no notes, and one count of rows throughout, since readers make room for what it says."""
    columns, counted = footer["schema"][1:], 0
    if (footer["version"], footer["orders"], "notes" in footer) != (_VERSION, [{"by type": {}}] * len(columns), False):
        raise BundleError(f"{name} carries notes that no release has. Ask the publisher for a new copy.")
    if footer["writer"] != written_by(version):
        raise BundleError(f"{name} names another writer than the pyarrow of release.json. Do not rely on it.")
    if len(footer["row_groups"]) > most:
        raise BundleError(f"{name} is cut into more row groups than a release is. Do not rely on it.")
    for number, group in enumerate(footer["row_groups"]):
        rows, chunks = group["rows"], [chunk["details"] for chunk in group["chunks"]]
        if len(chunks) != len(columns):
            raise BundleError(f"{name} holds a row group with other columns than the file. Do not rely on it.")
        counted += rows
        for column, chunk in zip(columns, chunks, strict=True):
            if chunk["codec"] != _UNCOMPRESSED or chunk["unpacked_bytes"] != chunk["bytes"]:
                raise BundleError(f"{name} is compressed; the parts of a release are not. Ask for a new copy.")
            if chunk["values"] != rows or rows < 0:
                raise BundleError(f"{name} counts its rows in two ways. Do not rely on it.")
            if chunk["path"] != [column["name"]] or chunk["type"] != column["type"]:
                raise BundleError(f"{name} holds a row group with other columns than the file. Do not rely on it.")
            if ("sizes" in chunk) != habits.states_sizes:
                raise BundleError(f"{name} says of its columns what no release does. Do not rely on it.")
            if habits.states_sizes and not _are_sizes(chunk["sizes"], rows, column["type"] == PHYSICAL_TYPES["string"]):
                raise BundleError(f"{name} counts its rows in two ways. Do not rely on it.")
        size = sum(chunk["bytes"] for chunk in chunks)
        numbered = number if habits.numbers else None
        if (group["bytes"], group["unpacked_bytes"], group.get("number")) != (size, size, numbered):
            raise BundleError(f"{name} counts its bytes in two ways. Do not rely on it.")
    if counted != footer["rows"]:
        raise BundleError(f"{name} counts its rows in two ways. Do not rely on it.")


def _are_sizes(sizes: dict[str, Any], rows: int, text: bool) -> bool:
    """How many values are missing and how many are there; of text how long it is. Nothing is repeated."""
    levels = sizes.get("levels", [])
    there = {"repetitions", "levels", "text_bytes"} if text else {"repetitions", "levels"}
    return sizes.keys() == there and not sizes["repetitions"] and len(levels) == 2 and sum(levels) == rows


def _row_groups(file: BinaryIO, name: str, footer: dict[str, Any], end: int, habits: _Habits) -> list[RowGroup]:
    """Chunk after chunk and page after page, without a byte between them, up to the footer at `end`."""
    at, groups = len(_MAGIC), []
    try:
        for group in footer["row_groups"]:
            chunks = []
            if group["first_page"] != at:
                raise OtherFooterError
            for chunk in group["chunks"]:
                chunks.append(_chunk(file, name, chunk["details"], at, end))
                at += chunk["details"]["bytes"]
                if habits.says_twice != bool(chunk["copied_at"]):
                    raise OtherFooterError
                if habits.says_twice:
                    raw = _read(file, at, min(_LARGEST_CHUNK_COPY, end - at))
                    copy, size = _structure(raw, 0, _CHUNK, _ENCODINGS)
                    if chunk["copied_at"] != at or copy != chunk:
                        raise OtherFooterError
                    at += size
            groups.append(RowGroup(group["rows"], chunks))
    except (OtherFooterError, IndexError):
        raise BundleError(f"{name} holds pages as no release has them. Ask for a new copy.") from None
    if at != end:
        raise BundleError(f"{name} holds bytes that belong to none of its columns. Do not rely on it.")
    return groups


def _chunk(file: BinaryIO, name: str, chunk: dict[str, Any], at: int, end: int) -> Chunk:
    """The pages of a chunk that begins at `at`: a dictionary and places in it, or values; as many values as rows."""
    until, rows = at + chunk["bytes"], chunk["values"]
    if not 0 <= chunk["bytes"] <= end - at:
        raise BundleError(f"{name} claims to hold more bytes than it has. Do not rely on it.")
    pages: list[Page] = []
    coded, counted, first = "dictionary" in chunk, 0, at
    while at < until:
        kind, page = _page(file, at, until)
        is_first = coded and not pages
        expected = (_DICTIONARY_PAGE, _PLAIN) if is_first else (_DATA_PAGE, _PLACES if coded else _PLAIN)
        if kind != expected or (at == chunk["first_page"]) != (len(pages) == coded) or page.values < (not is_first):
            raise OtherFooterError
        counted += 0 if is_first else page.values
        at = page.end
        pages.append(page)
        if counted > rows or page.values > rows or len(pages) > 3 + rows // _VALUES_PER_PAGE:
            raise OtherFooterError
    if counted != rows or at != until or chunk.get("dictionary", first) != first or len(pages) == coded:
        raise OtherFooterError
    data = {"kind": _DATA_PAGE, "encoding": _PLACES if coded else _PLAIN, "pages": len(pages) - coded}
    stated = [{"kind": _DICTIONARY_PAGE, "encoding": _PLAIN, "pages": 1}, data] if coded else [data]
    encodings = [_PLAIN, _RUN_LENGTHS, _PLACES] if coded else [_RUN_LENGTHS, _PLAIN]
    if chunk["encodings"] != encodings or chunk["page_encodings"] != stated:
        raise OtherFooterError
    sizes = chunk.get("sizes", {})
    return Chunk(pages, sizes.get("text_bytes"), sizes["levels"][1] if sizes else None)


def _page(file: BinaryIO, at: int, until: int) -> tuple[tuple[int, int], Page]:
    """Kind and encoding of the page at `at`, and the page."""
    raw = _read(file, at, min(_LARGEST_PAGE_HEAD, until - at))
    page, size = _structure(raw, 0, _PAGE, 0)
    is_dictionary = page["kind"] == _DICTIONARY_PAGE
    head = page["dictionary" if is_dictionary else "data"]
    others = {"sorted": None} if is_dictionary else {**_LEVELS, "statistics": {}}
    if len(page) != 4 or head != {"values": head["values"], "encoding": head["encoding"], **others}:
        raise OtherFooterError
    if not 0 <= page["bytes"] == page["unpacked_bytes"] <= until - at - size:
        raise OtherFooterError
    begin = at + size
    return (page["kind"], head["encoding"]), Page(is_dictionary, head["values"], begin, begin + page["bytes"])


# ----------------------------------------------------------------------------------------- Thrift's compact protocol


class OtherFooterError(Exception):
    """Not a footer that our writer writes."""


def _structure(raw: bytes, at: int, shape: _Struct, most: int) -> tuple[dict[str, Any], int]:
    """What is kept of a structure, and where it ends; no list has more than `most` elements.

    It is as deep as the shape, so it cannot recurse further.
    """
    found: dict[str, Any] = {}
    steps, number = shape.steps, 0
    while head := raw[at]:
        step = steps.get((number, head))
        if step is None:
            raise OtherFooterError
        number, kind, inner, name = step
        at += 1
        value: Any = None
        if kind == _BINARY:
            length, at = varint(raw, at, 32)
            at += length
            if at > len(raw):
                raise OtherFooterError
            value = name and raw[at - length : at]
        elif kind == _STRUCT:
            value, at = _structure(raw, at, inner, most)
        elif kind == _LIST:
            value, at = _list(raw, at, inner[0], most)
        elif kind == _BYTE:
            value, at = raw[at], at + 1
        elif kind not in (_TRUE, _FALSE):
            value, at = _signed(raw, at, kind)
        if name is not None:
            found[name] = value
    return found, at + 1


def _list(raw: bytes, at: int, inner: Any, most: int) -> tuple[list[Any], int]:
    """A list of at most so many elements."""
    size, kind = raw[at] >> 4, raw[at] & 15
    at += 1
    if size == 15:
        size, at = varint(raw, at, 32)
        if size < 15:  # it fits into the byte before
            raise OtherFooterError
    if kind != (_STRUCT if isinstance(inner, _Struct) else inner) or size > most:
        raise OtherFooterError
    items: list[Any] = []
    for _ in range(size):
        value: Any = None
        if kind == _STRUCT:
            value, at = _structure(raw, at, inner, most)
        elif kind == _BINARY:
            length, at = varint(raw, at, 32)
            at += length
            value = raw[at - length : at]
        else:
            value, at = _signed(raw, at, kind)
        items.append(value)
    return items, at


def _signed(raw: bytes, at: int, kind: int) -> tuple[int, int]:
    """A number of either sign, as long as its kind allows."""
    number, at = varint(raw, at, 64 if kind == _I64 else 32)
    return (number >> 1) ^ -(number & 1), at


def varint(raw: bytes, at: int, bits: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first, and no more of them than its kind has and the number needs."""
    number = raw[at]
    at += 1
    if number < 128:
        return number, at
    number &= 127
    for shift in range(7, bits, 7):
        byte = raw[at]
        at += 1
        number |= (byte & 127) << shift
        if 0 < byte < 128 and not number >> bits:
            return number, at
    raise OtherFooterError
