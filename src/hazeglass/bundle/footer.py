"""A Parquet footer and the heads of its pages, walked through before pyarrow sees the file.

pyarrow ends the whole process on some footers that contradict themselves, and a small one can make it fill the memory.
So the footer is read here first (Thrift's compact protocol) and must be one that our writer writes: the fields below
and no others, each of its type, in order; as many column chunks as columns; nothing compressed, nothing encrypted,
nothing in another file, no notes, no statistics, and one count of rows throughout. The pages fill the file from its
first bytes to the footer and hold as many values as there are rows. Two readers cannot see two footers in one that
passes, and nothing lies between what they read. What is inside the pages is for contents.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from hazeglass.errors import BundleError

_MAGIC = b"PAR1"
# Kinds of values, as the protocol numbers them.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 8, 9, 12
_UNCOMPRESSED, _OPTIONAL = 0, 1
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _RUN_LENGTHS, _PLACES = 0, 3, 8  # values as they are, levels, and places in a dictionary
_VERSION = 2
_LARGEST_PAGE_HEAD, _ENCODINGS = 64, 8  # bytes before a page, and how many encodings a chunk lists
_LARGEST_CHUNK_COPY = 1 << 13  # a name has at most 1000 characters
_VALUES_PER_PAGE = 1000  # pyarrow ends no page, but for a chunk's last, before it holds 1024
_WRITER = re.compile(rb"parquet-cpp-arrow version [0-9]{1,3}(\.[0-9]{1,3}){2}(-SNAPSHOT)?")
# Arrow's types that a release has, the numbers of the Parquet types that hold them, and what is said of them beside.
PHYSICAL_TYPES = {"int8": 1, "int64": 2, "double": 5, "string": 6}
_SAID_OF_TYPE = {1: (15, {"integer": {"bits": 8}}), 6: (0, {"text": {}})}


class Page(NamedTuple):
    """A page: whether it is the dictionary of its chunk, how many values it holds, and where its bytes lie."""

    is_dictionary: bool
    values: int
    begin: int
    end: int


class Chunk(NamedTuple):
    """The values of one column in one row group; where it has a dictionary, that is the first page.

    `text_bytes` is how long its texts are said to be together.
    """

    pages: list[Page]
    text_bytes: int | None


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
_LOGICAL_TYPE = _Struct({1: _EMPTY, 10: _Struct({1: _BYTE, 2: _TRUE}, {1: "bits"})}, {1: "text", 10: "integer"})
_SCHEMA_ELEMENT = _Struct(
    {1: _I32, 3: _I32, 4: _BINARY, 5: _I32, 6: _I32, 10: _LOGICAL_TYPE},
    {1: "type", 3: "repetition", 4: "name", 5: "children", 6: "converted", 10: "logical"},
)
_NOTE = _Struct({1: _BINARY, 2: _BINARY})
_FOOTER = _Struct(
    {1: _I32, 2: [_SCHEMA_ELEMENT], 3: _I64, 4: [_ROW_GROUP], 5: [_NOTE], 6: _BINARY, 7: [_Struct({1: _EMPTY})]},
    {1: "version", 2: "schema", 3: "rows", 4: "row_groups", 5: "notes", 6: "writer", 7: "orders"},
)
_DATA_HEAD = _Struct(
    {1: _I32, 2: _I32, 3: _I32, 4: _I32, 5: _EMPTY}, {1: "values", 2: "encoding", 3: "definition", 4: "repetition"}
)
_DICTIONARY_HEAD = _Struct({1: _I32, 2: _I32, 3: _FALSE}, {1: "values", 2: "encoding"})
_PAGE = _Struct(
    {1: _I32, 2: _I32, 3: _I32, 5: _DATA_HEAD, 7: _DICTIONARY_HEAD},
    {1: "kind", 2: "unpacked_bytes", 3: "bytes", 5: "data", 7: "dictionary"},
)


def read_footer(file: BinaryIO, name: str, types: Mapping[str, int], row_groups: int, largest: int) -> list[RowGroup]:
    """The row groups of a part; refused unless its columns are those of `types` and its footer is sound.

    `types` gives the number of each column's Parquet type; `row_groups` and `largest` bound how many
    row groups the file and how many bytes the footer has.
    """
    raw, end = _footer_bytes(file, name, largest)
    try:
        footer, size = _structure(raw, 0, _FOOTER, max(row_groups, len(types) + 1, _ENCODINGS))
    except (OtherFooterError, IndexError):
        size, footer = -1, {}
    if size != len(raw):
        raise BundleError(f"{name} is not a readable Parquet file as releases hold them. Ask for a new copy.")
    try:
        _check_schema(name, footer["schema"], types)
        _check_row_groups(name, footer, row_groups)
        return _row_groups(file, name, footer, end)
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
    if root.get("children") != len(columns) or any("children" in column for column in columns):
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    if [element["name"] for element in schema] != [b"schema", *(expected.encode() for expected in types)]:
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    for column, (label, kind) in zip(columns, types.items(), strict=True):
        said = column.get("converted"), column.get("logical")
        expected = _SAID_OF_TYPE.get(kind, (None, None))
        if (column.get("type"), column.get("repetition"), *said) != (kind, _OPTIONAL, *expected):
            raise BundleError(f"{name}: column {label[:100]!r} does not hold numbers of the right kind.")


def _check_row_groups(name: str, footer: dict[str, Any], most: int) -> None:
    """Nothing compressed, no notes, and one count of rows throughout, since readers make room for what it says."""
    columns, counted = footer["schema"][1:], 0
    said = footer["version"], len(footer["orders"]), "notes" in footer
    if said != (_VERSION, len(columns), False) or not _WRITER.fullmatch(footer["writer"]):
        raise BundleError(f"{name} carries notes that no release has. Ask the publisher for a new copy.")
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
            sizes = chunk.get("sizes", {})
            levels = sizes.get("levels", [0, rows])
            if len(levels) != 2 or min(levels) < 0 or sum(levels) != rows or sizes.get("repetitions"):
                raise BundleError(f"{name} counts its rows in two ways. Do not rely on it.")
        size = sum(chunk["bytes"] for chunk in chunks)
        if (group["bytes"], group["unpacked_bytes"], group.get("number", number)) != (size, size, number):
            raise BundleError(f"{name} counts its bytes in two ways. Do not rely on it.")
    if counted != footer["rows"]:
        raise BundleError(f"{name} counts its rows in two ways. Do not rely on it.")


def _row_groups(file: BinaryIO, name: str, footer: dict[str, Any], end: int) -> list[RowGroup]:
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
                if chunk["copied_at"]:  # older versions of pyarrow write it twice
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
    until, rows, kinds = at + chunk["bytes"], chunk["values"], Counter[tuple[int, int]]()
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
        kinds[kind] += 1
        counted += 0 if is_first else page.values
        at = page.end
        pages.append(page)
        if counted > rows or page.values > rows or len(pages) > 3 + rows // _VALUES_PER_PAGE:
            raise OtherFooterError
    encodings = {_RUN_LENGTHS, *(encoding for _, encoding in kinds)}
    stated = [((one["kind"], one["encoding"]), one["pages"]) for one in chunk.get("page_encodings", ())]
    if "page_encodings" not in chunk:  # older versions of pyarrow do not state them
        stated = list(kinds.items())
    if counted != rows or at != until or chunk.get("dictionary", first) != first or len(pages) == coded:
        raise OtherFooterError
    if set(chunk["encodings"]) != encodings or len(chunk["encodings"]) > 1 + len(encodings):  # some state one twice
        raise OtherFooterError
    if sorted(stated) != sorted(kinds.items()):
        raise OtherFooterError
    return Chunk(pages, chunk.get("sizes", {}).get("text_bytes"))


def _page(file: BinaryIO, at: int, until: int) -> tuple[tuple[int, int], Page]:
    """Kind and encoding of the page at `at`, and the page."""
    raw = _read(file, at, min(_LARGEST_PAGE_HEAD, until - at))
    page, size = _structure(raw, 0, _PAGE, 0)
    is_dictionary = page["kind"] == _DICTIONARY_PAGE
    head = page["dictionary" if is_dictionary else "data"]
    level_encodings = {head[name] for name in ("definition", "repetition") if name in head}
    if ("data" in page and "dictionary" in page) or level_encodings - {_RUN_LENGTHS}:
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
