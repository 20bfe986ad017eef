"""What is inside the pages of a Parquet part: the values that a reader gets, and no byte beside them.

A part is written by pyarrow in one way, and read in that way only. Numbers stand as they are, or are places in a
dictionary that holds each value once, in the order in which they first occur; text always is. So a part cannot carry
what no reader shows: an entry that nothing points to, bytes behind the last value, or bits that fill a byte up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.bundle.footer import PHYSICAL_TYPES, Chunk, OtherFooterError, Page, RowGroup, varint
from hazeglass.errors import BundleError

if TYPE_CHECKING:
    import pyarrow as pa

_WIDTHS = {PHYSICAL_TYPES["int8"]: 4, PHYSICAL_TYPES["int64"]: 8, PHYSICAL_TYPES["double"]: 8}
_TEXT, _SMALL = PHYSICAL_TYPES["string"], PHYSICAL_TYPES["int8"]
_WIDEST_PLACE = 32


def check_pages(raw: bytes, name: str, types: Iterable[int], groups: Iterable[RowGroup]) -> None:
    """Refuse a part with a page that is not filled to its last bit by its values; nothing is decoded for it."""
    kinds = list(types)
    try:
        for group in groups:
            for kind, chunk in zip(kinds, group.chunks, strict=True):
                coded, present = chunk.pages[0].is_dictionary, 0
                for page in chunk.pages:
                    if page.is_dictionary:
                        _check_entries(raw, page, kind)
                    else:
                        present += _check_values(raw, page, None if coded else kind)
                if chunk.present not in (None, present):
                    raise OtherFooterError
    except (OtherFooterError, IndexError):
        raise BundleError(f"{name} holds bytes that are no values of its columns. Do not rely on it.") from None


def _check_entries(raw: bytes, page: Page, kind: int) -> None:
    """Entries of a dictionary, each with its length before it where it is text."""
    at = page.begin
    if kind != _TEXT:
        at += page.values * _WIDTHS[kind]
    else:
        for _ in range(page.values):
            at += 4 + int.from_bytes(raw[at : at + 4], "little")
    if at != page.end:
        raise OtherFooterError


def _check_values(raw: bytes, page: Page, kind: int | None) -> int:
    """Values of a kind, or places in a dictionary, behind the runs that say which are missing; how many are not."""
    at = page.begin + 4
    end = at + int.from_bytes(raw[page.begin : at], "little")
    if end > page.end:
        raise OtherFooterError
    present = _check_runs(raw, at, end, 1, page.values)
    if kind is None:
        _check_runs(raw, end + 1, page.end, raw[end], present)
    elif kind in (_TEXT, _SMALL) or end + present * _WIDTHS[kind] != page.end:  # those are never written as they are
        raise OtherFooterError
    return present


def _check_runs(raw: bytes, at: int, end: int, width: int, left: int) -> int:
    """Runs of numbers of so many bits: one that repeats, or groups of eight, the last filled up with zeros.

    Of numbers of one bit, returns how many are 1.
    """
    ones, size = 0, (width + 7) // 8
    if width > _WIDEST_PLACE:
        raise OtherFooterError
    while left:
        head, begin = varint(raw, at, 32)
        count = head >> 1
        at = begin + (count * width if head & 1 else size)
        if not count or at > end:
            raise OtherFooterError
        if head & 1:
            spare = max(0, 8 * count - left)
            if spare > 7 or _bits_before(raw, at, spare * width):
                raise OtherFooterError
            ones += int.from_bytes(raw[begin:at], "little").bit_count() if width == 1 else 0
            left -= 8 * count - spare
        else:
            value = int.from_bytes(raw[begin:at], "little")
            if count > left or value >> width:
                raise OtherFooterError
            ones += value * count
            left -= count
    if at != end:
        raise OtherFooterError
    return ones


def _bits_before(raw: bytes, at: int, bits: int) -> int:
    size = (bits + 7) // 8
    return int.from_bytes(raw[at - size : at], "little") >> (8 * size - bits)


def check_dictionaries(table: pa.Table, raw: bytes, name: str, chunks: Iterable[Chunk]) -> None:
    """Refuse a row group with a dictionary that is not its values, each once, in the order of their first use."""
    for column, chunk in zip(table.columns, chunks, strict=True):
        if chunk.pages[0].is_dictionary and not _is_used(column.combine_chunks(), raw, chunk):
            raise BundleError(f"{name} holds a dictionary with entries that it does not need. Do not rely on it.")


def _is_used(column: Any, raw: bytes, chunk: Chunk) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    (page, *_) = chunk.pages
    if pa.types.is_dictionary(column.type):
        places, words = column.indices.drop_null(), column.dictionary
        length = pc.sum(pc.binary_length(words).take(places)).as_py() or 0
        in_order = np.array_equal(places.unique().to_numpy(), np.arange(page.values))
        return in_order and len(words.unique()) == page.values and chunk.text_bytes in (None, length)
    stored = column.cast(pa.int32()) if pa.types.is_int8(column.type) else column.view(pa.int64())
    return bool(stored.drop_null().unique().to_numpy().tobytes() == raw[page.begin : page.end])
