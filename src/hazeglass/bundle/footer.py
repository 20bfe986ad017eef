"""A Parquet footer and the heads of its pages, walked through before pyarrow sees the file.

pyarrow ends the whole process on some footers that contradict themselves, and a small one can make it fill the memory.
So the footer is read here first (Thrift's compact protocol) and must be one that our writer writes: the fields below
and no others, each of its type, in order; as many column chunks as columns; nothing compressed, nothing encrypted,
nothing in another file, no notes, no statistics, and one count of rows throughout. The pages fill the file from its
first bytes to the footer and hold as many values as there are rows. Two readers cannot see two footers in one that
passes, and nothing lies between what they read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hazeglass.errors import BundleError

_MAGIC = b"PAR1"
# Kinds of values, as the protocol numbers them.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 8, 9, 12
_UNCOMPRESSED, _OPTIONAL = 0, 1
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _RUN_LENGTHS, _PLACES = 0, 3, 8  # values as they are, levels, and places in a dictionary
_LARGEST_PAGE_HEAD, _ENCODINGS = 64, 8  # bytes before a page, and how many encodings a chunk lists
_LARGEST_CHUNK_COPY = 1 << 13  # a name has at most 1000 characters
_VALUES_PER_PAGE = 1000  # pyarrow ends no page, but for a chunk's last, before it holds 1024
_WRITER = re.compile(rb"parquet-cpp-arrow version [0-9]{1,3}(\.[0-9]{1,3}){2}(-SNAPSHOT)?")
# Arrow's types that a release has, and the numbers of the Parquet types that hold them.
PHYSICAL_TYPES = {"int8": 1, "int64": 2, "double": 5, "string": 6}


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
                for spelled in (_TRUE, _FALSE) if kind == _TRUE else (kind,):
                    head = (number - before) << 4 | spelled
                    self.steps[before, head] = (number, kind, shape, kept.get(number))


_EMPTY = _Struct({})
_PAGE_ENCODING = _Struct({1: _I32, 2: _I32, 3: _I32}, {1: "kind", 2: "encoding", 3: "pages"})
_SIZES = _Struct({1: _I64, 2: [_I64], 3: [_I64]}, {2: "repetitions", 3: "levels"})
_CHUNK_DETAILS = _Struct(
    {1: _I32, 2: [_I32], 3: [_BINARY], 4: _I32, 5: _I64, 6: _I64, 7: _I64, 9: _I64, 11: _I64}
    | {13: [_PAGE_ENCODING], 16: _SIZES},
    {1: "type", 2: "encodings", 3: "path", 4: "codec", 5: "values", 6: "unpacked_bytes", 7: "bytes"}
    | {9: "first_page", 11: "dictionary", 13: "page_encodings", 16: "sizes"},
)
_CHUNK = _Struct({2: _I64, 3: _CHUNK_DETAILS}, {2: "copied_at", 3: "details"})
_ROW_GROUP = _Struct({1: [_CHUNK], 2: _I64, 3: _I64, 5: _I64, 6: _I64, 7: _I16}, {1: "chunks", 3: "rows"})
_LOGICAL_TYPE = _Struct({1: _EMPTY, 10: _Struct({1: _BYTE, 2: _TRUE})})
_SCHEMA_ELEMENT = _Struct(
    {1: _I32, 3: _I32, 4: _BINARY, 5: _I32, 6: _I32, 10: _LOGICAL_TYPE},
    {1: "type", 3: "repetition", 4: "name", 5: "children"},
)
_NOTE = _Struct({1: _BINARY, 2: _BINARY})
_FOOTER = _Struct(
    {1: _I32, 2: [_SCHEMA_ELEMENT], 3: _I64, 4: [_ROW_GROUP], 5: [_NOTE], 6: _BINARY, 7: [_Struct({1: _EMPTY})]},
    {2: "schema", 3: "rows", 4: "row_groups", 5: "notes", 6: "writer", 7: "orders"},
)
_DATA_HEAD = _Struct(
    {1: _I32, 2: _I32, 3: _I32, 4: _I32, 5: _EMPTY}, {1: "values", 2: "encoding", 3: "definition", 4: "repetition"}
)
_DICTIONARY_HEAD = _Struct({1: _I32, 2: _I32, 3: _TRUE}, {1: "values", 2: "encoding"})
_PAGE = _Struct(
    {1: _I32, 2: _I32, 3: _I32, 5: _DATA_HEAD, 7: _DICTIONARY_HEAD},
    {1: "kind", 2: "unpacked_bytes", 3: "bytes", 5: "data", 7: "dictionary"},
)


def footer_rows(path: Path, name: str, types: Mapping[str, int], row_groups: int, largest: int) -> int:
    """How many rows a part holds; refused unless its columns are those of `types` and its footer is sound.

    `types` gives the number of each column's Parquet type; `row_groups` and `largest` bound how many
    row groups the file and how many bytes the footer has.
    """
    raw = _footer_bytes(path, name, largest)
    try:
        footer, end = _structure(raw, 0, _FOOTER, max(row_groups, len(types) + 1, _ENCODINGS))
    except (_OtherFooterError, IndexError):
        end, footer = -1, {}
    if end != len(raw):
        raise BundleError(f"{name} is not a readable Parquet file as releases hold them. Ask for a new copy.")
    try:
        _check_schema(name, footer["schema"], types)
        _check_row_groups(name, footer, row_groups)
        _check_pages(path, name, footer, path.stat().st_size - 8 - len(raw))
    except KeyError:
        raise BundleError(f"{name} leaves out what every Parquet file states. Ask for a new copy.") from None
    return int(footer["rows"])


def _footer_bytes(path: Path, name: str, largest: int) -> bytes:
    """The bytes between the pages and the file's last eight, which state how many they are."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(4)
        file.seek(max(0, size - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if begin != _MAGIC or tail[4:] != _MAGIC or length > size - 12:
            raise BundleError(f"{name} is not a readable Parquet file as releases hold them. Ask for a new copy.")
        if length > largest:
            raise BundleError(f"{name} says more about its columns than a release can. Do not rely on it.")
        file.seek(size - 8 - length)
        return file.read(length)


def _check_schema(name: str, schema: list[dict[str, Any]], types: Mapping[str, int]) -> None:
    """A root, and one optional column of numbers or text below it for each that is expected."""
    root, *columns = schema or [{}]
    if root.get("children") != len(columns) or any("children" in column for column in columns):
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    if [element["name"] for element in schema] != [b"schema", *(expected.encode() for expected in types)]:
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    for column, (label, kind) in zip(columns, types.items(), strict=True):
        if column.get("type") != kind or column.get("repetition") != _OPTIONAL:
            raise BundleError(f"{name}: column {label[:100]!r} does not hold numbers of the right kind.")


def _check_row_groups(name: str, footer: dict[str, Any], most: int) -> None:
    """Nothing compressed, no notes, and one count of rows throughout, since readers make room for what it says."""
    columns, counted = footer["schema"][1:], 0
    if "notes" in footer or not _WRITER.fullmatch(footer["writer"]) or len(footer["orders"]) != len(columns):
        raise BundleError(f"{name} carries notes that no release has. Ask the publisher for a new copy.")
    if len(footer["row_groups"]) > most:
        raise BundleError(f"{name} is cut into more row groups than a release is. Do not rely on it.")
    for group in footer["row_groups"]:
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
    if counted != footer["rows"]:
        raise BundleError(f"{name} counts its rows in two ways. Do not rely on it.")


def _check_pages(path: Path, name: str, footer: dict[str, Any], end: int) -> None:
    """Chunk after chunk and page after page, without a byte between them, up to the footer."""
    at = len(_MAGIC)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for group in footer["row_groups"]:
            for chunk in group["chunks"]:
                at = _after_chunk(descriptor, name, chunk["details"], at, end)
                if chunk["copied_at"]:  # older versions of pyarrow write it twice
                    raw = os.pread(descriptor, min(_LARGEST_CHUNK_COPY, end - at), at)
                    copy, size = _structure(raw, 0, _CHUNK, _ENCODINGS)
                    if chunk["copied_at"] != at or copy != chunk:
                        raise _OtherFooterError
                    at += size
    except (_OtherFooterError, IndexError):
        raise BundleError(f"{name} holds pages as no release has them. Ask for a new copy.") from None
    finally:
        os.close(descriptor)
    if at != end:
        raise BundleError(f"{name} holds bytes that belong to none of its columns. Do not rely on it.")


def _after_chunk(descriptor: int, name: str, chunk: dict[str, Any], at: int, end: int) -> int:
    """Where a chunk ends that begins at `at`: a dictionary, or none, and data pages with as many values as rows."""
    until, rows, pages = at + chunk["bytes"], chunk["values"], Counter[tuple[int, int]]()
    if not 0 <= chunk["bytes"] <= end - at:
        raise BundleError(f"{name} claims to hold more bytes than it has. Do not rely on it.")
    if chunk.get("dictionary", at) != at:
        raise _OtherFooterError
    if "dictionary" in chunk:
        kind, entries, at = _page(descriptor, at, until)
        pages[kind] += 1
        if kind != (_DICTIONARY_PAGE, _PLAIN) or not 0 <= entries <= rows:
            raise _OtherFooterError
    if chunk["first_page"] != at:
        raise _OtherFooterError
    counted = 0
    while at < until:
        kind, values, at = _page(descriptor, at, until)
        counted += values
        pages[kind] += 1
        known = kind in ((_DATA_PAGE, _PLAIN), (_DATA_PAGE, _PLACES))
        if not known or values < 1 or counted > rows or pages.total() > 3 + rows // _VALUES_PER_PAGE:
            raise _OtherFooterError
    stated = {(one["kind"], one["encoding"]): one["pages"] for one in chunk.get("page_encodings", ())}
    levels = not set(chunk["encodings"]) - {_PLAIN, _RUN_LENGTHS, _PLACES} and len(chunk["encodings"]) <= _ENCODINGS
    if counted != rows or at != until or not levels or ("page_encodings" in chunk and stated != pages):
        raise _OtherFooterError
    return at


def _page(descriptor: int, at: int, until: int) -> tuple[tuple[int, int], int, int]:
    """Kind and encoding of the page at `at`, how many values it holds, and where it ends."""
    raw = os.pread(descriptor, min(_LARGEST_PAGE_HEAD, until - at), at)
    page, size = _structure(raw, 0, _PAGE, 0)
    head = page["dictionary" if page["kind"] == _DICTIONARY_PAGE else "data"]
    level_encodings = {head[name] for name in ("definition", "repetition") if name in head}
    if ("data" in page and "dictionary" in page) or level_encodings - {_RUN_LENGTHS}:
        raise _OtherFooterError
    if not 0 <= page["bytes"] == page["unpacked_bytes"]:
        raise _OtherFooterError
    return (page["kind"], head["encoding"]), head["values"], at + size + page["bytes"]


# ----------------------------------------------------------------------------------------- Thrift's compact protocol


class _OtherFooterError(Exception):
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
            raise _OtherFooterError
        number, kind, inner, name = step
        at += 1
        value: Any = None
        if kind == _BINARY:
            length, at = _varint(raw, at, 32)
            at += length
            if at > len(raw):
                raise _OtherFooterError
            value = name and raw[at - length : at]
        elif kind == _STRUCT:
            value, at = _structure(raw, at, inner, most)
        elif kind == _LIST:
            value, at = _list(raw, at, inner[0], most)
        elif kind == _BYTE:
            at += 1
        elif kind != _TRUE:
            value, at = _signed(raw, at, kind)
        if name is not None:
            found[name] = value
    return found, at + 1


def _list(raw: bytes, at: int, inner: Any, most: int) -> tuple[list[Any], int]:
    """A list of at most so many elements."""
    size, kind = raw[at] >> 4, raw[at] & 15
    at += 1
    if size == 15:
        size, at = _varint(raw, at, 32)
    if kind != (_STRUCT if isinstance(inner, _Struct) else inner) or size > most:
        raise _OtherFooterError
    items: list[Any] = []
    for _ in range(size):
        value: Any = None
        if kind == _STRUCT:
            value, at = _structure(raw, at, inner, most)
        elif kind == _BINARY:
            length, at = _varint(raw, at, 32)
            at += length
            value = raw[at - length : at]
        else:
            value, at = _signed(raw, at, kind)
        items.append(value)
    return items, at


def _signed(raw: bytes, at: int, kind: int) -> tuple[int, int]:
    """A number of either sign, as long as its kind allows."""
    number, at = _varint(raw, at, 64 if kind == _I64 else 32)
    return (number >> 1) ^ -(number & 1), at


def _varint(raw: bytes, at: int, bits: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first, and no more of them than its kind has."""
    number = raw[at]
    at += 1
    if number < 128:
        return number, at
    number &= 127
    for shift in range(7, bits, 7):
        byte = raw[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128 and not number >> bits:
            return number, at
    raise _OtherFooterError
