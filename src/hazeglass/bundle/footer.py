"""A Parquet footer, walked through before pyarrow sees the file.

pyarrow ends the whole process on some footers that contradict themselves, and a small one can make it fill the memory.
So the footer is read here first (Thrift's compact protocol) and must be one that our writer writes: the fields below
and no others, each of its type, in order; as many column chunks as columns; nothing compressed, nothing encrypted,
nothing in another file, and one count of rows throughout. Two readers cannot see two footers in one that passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hazeglass.errors import BundleError

_MAGIC = b"PAR1"
# Kinds of values, as the protocol numbers them.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 8, 9, 12
_UNCOMPRESSED, _OPTIONAL = 0, 1
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
_STATISTICS = _Struct({1: _BINARY, 2: _BINARY, 3: _I64, 4: _I64, 5: _BINARY, 6: _BINARY, 7: _TRUE, 8: _TRUE})
_PAGE_ENCODING = _Struct({1: _I32, 2: _I32, 3: _I32})
_SIZES = _Struct({1: _I64, 2: [_I64], 3: [_I64]})
_CHUNK_DETAILS = _Struct(
    {1: _I32, 2: [_I32], 3: [_BINARY], 4: _I32, 5: _I64, 6: _I64, 7: _I64, 9: _I64, 11: _I64, 12: _STATISTICS}
    | {13: [_PAGE_ENCODING], 16: _SIZES},
    {1: "type", 3: "path", 4: "codec", 5: "values", 6: "unpacked_bytes", 7: "bytes"},
)
_CHUNK = _Struct({2: _I64, 3: _CHUNK_DETAILS}, {3: "details"})
_ROW_GROUP = _Struct({1: [_CHUNK], 2: _I64, 3: _I64, 5: _I64, 6: _I64, 7: _I16}, {1: "chunks", 3: "rows"})
_LOGICAL_TYPE = _Struct({1: _EMPTY, 10: _Struct({1: _BYTE, 2: _TRUE})})
_SCHEMA_ELEMENT = _Struct(
    {1: _I32, 3: _I32, 4: _BINARY, 5: _I32, 6: _I32, 10: _LOGICAL_TYPE},
    {1: "type", 3: "repetition", 4: "name", 5: "children"},
)
_NOTE = _Struct({1: _BINARY, 2: _BINARY}, {1: "key"})
_FOOTER = _Struct(
    {1: _I32, 2: [_SCHEMA_ELEMENT], 3: _I64, 4: [_ROW_GROUP], 5: [_NOTE], 6: _BINARY, 7: [_Struct({1: _EMPTY})]},
    {2: "schema", 3: "rows", 4: "row_groups", 5: "notes"},
)


def footer_rows(path: Path, name: str, types: Mapping[str, Sequence[int]], row_groups: int, largest: int) -> int:
    """How many rows a part holds; refused unless its columns are those of `types` and its footer is sound.

    `types` gives the numbers of the Parquet types that each column may have; `row_groups` and `largest` bound how many
    row groups the file and how many bytes the footer has.
    """
    raw = _footer_bytes(path, name, largest)
    try:
        footer, end = _structure(raw, 0, _FOOTER, max(row_groups, len(types) + 1))
    except (_OtherFooterError, IndexError):
        end, footer = -1, {}
    if end != len(raw):
        raise BundleError(f"{name} is not a readable Parquet file as releases hold them. Ask for a new copy.")
    try:
        _check_schema(name, footer["schema"], types)
        _check_row_groups(name, footer, row_groups, path.stat().st_size)
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


def _check_schema(name: str, schema: list[dict[str, Any]], types: Mapping[str, Sequence[int]]) -> None:
    """A root, and one optional column of numbers or text below it for each that is expected."""
    root, *columns = schema or [{}]
    if root.get("children") != len(columns) or any("children" in column for column in columns):
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    if [column["name"] for column in columns] != [expected.encode() for expected in types]:
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    for column, (label, allowed) in zip(columns, types.items(), strict=True):
        if column.get("type") not in allowed or column.get("repetition") != _OPTIONAL:
            raise BundleError(f"{name}: column {label[:100]!r} does not hold numbers of the right kind.")


def _check_row_groups(name: str, footer: dict[str, Any], most: int, size: int) -> None:
    """Nothing compressed, no notes, and one count of rows throughout, since readers make room for what it says."""
    if any(note["key"] != b"ARROW:schema" for note in footer.get("notes", ())):
        raise BundleError(f"{name} carries notes that no release has. Ask the publisher for a new copy.")
    if len(footer["row_groups"]) > most:
        raise BundleError(f"{name} is cut into more row groups than a release is. Do not rely on it.")
    columns, counted, held = footer["schema"][1:], 0, 0
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
            if chunk["path"] != [column["name"]] or chunk["type"] != column["type"] or chunk["bytes"] < 0:
                raise BundleError(f"{name} holds a row group with other columns than the file. Do not rely on it.")
            held += chunk["bytes"]
    if counted != footer["rows"]:
        raise BundleError(f"{name} counts its rows in two ways. Do not rely on it.")
    if held > size:
        raise BundleError(f"{name} claims to hold more bytes than it has. Do not rely on it.")


# ----------------------------------------------------------------------------------------- Thrift's compact protocol


class _OtherFooterError(Exception):
    """Not a footer that our writer writes."""


def _structure(raw: bytes, at: int, shape: _Struct, most: int) -> tuple[dict[str, Any], int]:
    """What is kept of a structure, and where it ends; no list that is kept has more than `most` elements.

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
            value, at = _list(raw, at, inner[0], name is not None, most)
        elif kind == _BYTE:
            at += 1
        elif name is not None:
            value, at = _varint(raw, at, 64 if kind == _I64 else 32)
            value = (value >> 1) ^ -(value & 1)
        elif kind != _TRUE:
            while raw[at] > 127:
                at += 1
            at += 1
        if name is not None:
            found[name] = value
    return found, at + 1


def _list(raw: bytes, at: int, inner: Any, keep: bool, most: int) -> tuple[list[Any], int]:
    """A list, gathered only where it is kept."""
    size, kind = raw[at] >> 4, raw[at] & 15
    at += 1
    if size == 15:
        size, at = _varint(raw, at, 32)
    if kind != (_STRUCT if isinstance(inner, _Struct) else inner) or (keep and size > most):
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
            while raw[at] > 127:
                at += 1
            at += 1
        if keep:
            items.append(value)
    return items, at


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
