"""What is inside the pages of a Parquet part: the values that a reader gets, and no byte beside them.

A part is written by pyarrow in one way, and read in that way only. Numbers stand as they are, or are places in a
dictionary that holds each value once, in the order in which they first occur; text always is. So a part cannot carry
what no reader shows: an entry that nothing points to, bytes behind the last value, or bits that fill a byte up.

Cells of released rows: numbers, and in a table such as the stated noise gives.

Whether a single cell has noise cannot be told. That it lies on its column's lattice, and no farther out than noise
reaches, can; so can that a whole column is spread at least as widely as its noise, and that rows which were clipped lie
no farther out than their ball and noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.columns import Column, response_of
from hazeglass.bundle.footer import PHYSICAL_TYPES, Chunk, OtherFooterError, Page, RowGroup, varint
from hazeglass.bundle.writer import repeats
from hazeglass.errors import BundleError
from hazeglass.guarantee.lattice import TAIL_SCALES

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


_LARGEST_VALUE, _LARGEST_WHOLE = 1e150, 2**53
REACH = float(TAIL_SCALES) * 1.01  # of the noise in scales, and a little for where stairs end
_SURE = 8.0  # standard deviations by which no honest column is too narrow
_SURE_OF_ROWS = 64 * math.log(2)  # an honest row or table lies beyond its ball and noise with probability below 2^-63


def check_cells(rows: pa.RecordBatch, described: tuple[Column, ...]) -> None:
    """No gap, no value that is not a number and, in a table, none that its column's noise cannot give."""
    import pyarrow.compute as pc

    for name, column, one in zip(rows.schema.names, rows.columns, described, strict=True):
        finite = not column.null_count and bool(pc.all(pc.is_finite(column)).as_py())
        ends = list(pc.min_max(column).as_py().values()) if finite and len(column) else [0]
        if not finite or max(map(abs, ends)) > _LARGEST_VALUE:
            raise BundleError(f"column {name[:100]!r} holds a cell that is not a number. Ask for a new copy.")
        if str(column.type) == "int64" and max(map(abs, ends)) > _LARGEST_WHOLE:
            raise BundleError(
                f"column {name[:100]!r} holds a whole number beyond 2^53, where floats do not tell one from the next; "
                "no release does. Ask for a new copy."
            )
        noise = one.cell_noise
        if one.response is not None and not 0 <= min(ends) <= max(ends) <= len(one.levels):
            raise BundleError(f"column {name[:100]!r} holds a cell that is none of its levels. Do not rely on it.")
        if noise is None:
            continue
        if not on_lattice(column.to_numpy(), noise.step, noise.offset):
            raise BundleError(f"column {name[:100]!r} holds a cell off its lattice, without noise. Do not rely on it.")
        reach = one.half_width + (REACH * noise.scale + 2) * noise.step
        if not max(abs(end - one.centre) for end in ends) <= reach * (1 + 1e-9):
            raise BundleError(f"column {name[:100]!r} holds a cell that no noise reaches. Do not rely on it.")


def level_words(column: Column) -> tuple[str, ...]:
    """The levels whose numbers, from 0, a column's released cells are; none where they are amounts or have noise."""
    return () if column.cell_noise is not None else column.levels


def as_words(cells: npt.ArrayLike, levels: tuple[str, ...]) -> pa.Array:
    """The words of level numbers; the number behind the last level is a missing cell."""
    import pyarrow as pa

    numbers = np.asarray(cells).astype(np.int64)
    known = (numbers >= 0) & (numbers < len(levels))
    return pa.array(levels, pa.string()).take(pa.array(np.where(known, numbers, 0), mask=~known))


def in_words(rows: pa.Table, described: tuple[Column, ...]) -> pa.Table:
    """The rows with levels as words."""
    for k, column in enumerate(described):
        if levels := level_words(column):
            rows = rows.set_column(k, column.name, as_words(rows.column(k).to_numpy(), levels))
    return rows


def on_lattice(values: npt.NDArray[Any], step: float, offset: float = 0.0) -> bool:
    """Whether each is the offset plus a whole number of steps, as far as 64-bit numbers tell."""
    if values.dtype == np.int64:
        return not ((values - int(offset)) % int(step)).any()
    nearest = offset + step * np.rint((values - offset) / step)
    rounding = 8 * np.spacing(np.maximum(np.abs(values), abs(offset)))
    return bool(np.all(np.abs(values - nearest) <= rounding))


def check_spread(
    columns: tuple[Column, ...], blocks: Iterable[npt.NDArray[np.float64]], radius: float | None = None
) -> None:
    """Refuse a table with a column that varies less than its noise does, which cells without noise often do, or that
    lies farther out on average, or varies more, than cells within its bounds do with that noise; and rows that clipping
    to `radius` and noise cannot make so long, each by itself and all together.

    With x the cells and z noise of variance v, |x + z|^2 about its mean is |x|^2 + 2 x.z + |z|^2, and with k standard
    deviations to be sure it is at least (n - 1) v - k sqrt(2 (n - 1)) v - k^2 v, whatever x is. Of a level that is
    answered with probability q or more there are at least n q - k sqrt(n q) - k^2.
    """
    n, centre = 0, np.array([column.centre for column in columns])
    total, squares, longest = np.zeros(len(columns)), np.zeros(len(columns)), 0.0
    noises = [column.cell_noise for column in columns if column.cell_noise is not None]
    steps = np.array([noise.step for noise in noises])
    answers = [
        (column, k, np.zeros(len(column.levels) + 1, dtype=np.int64))
        for k, column in enumerate(columns)
        if column.response is not None
    ]
    for block in blocks:
        from_centre = block - centre
        for _, k, count in answers:
            count += np.bincount(block[:, k].astype(np.int64), minlength=count.size)
        n += len(block)
        total += from_centre.sum(axis=0)
        squares += np.einsum("ij,ij->j", from_centre, from_centre)
        if radius is not None and len(block):
            longest = max(longest, float(np.square(from_centre / steps).sum(axis=1).max()))
    for column, _, count in answers:
        seldom = n * response_of(column).other
        if count.min() < seldom - _SURE * math.sqrt(seldom) - _SURE**2:
            raise BundleError(f"column {column.name[:100]!r} varies less than its noise does. Do not rely on it.")
    least = n - 1 - _SURE * math.sqrt(2 * (n - 1)) - _SURE**2
    for column, spread in zip(columns, squares - total**2 / n, strict=True):
        noise = column.cell_noise
        if noise is not None and repeats(noise) and not spread >= least * noise.variance:  # narrower noise is often 0
            raise BundleError(f"column {column.name[:100]!r} varies less than its noise does. Do not rely on it.")
    for column, mean, square in zip(columns, np.abs(total) / n, squares / n, strict=True):
        if (noise := column.cell_noise) is not None:
            half, sd = column.half_width + noise.step, math.sqrt(noise.variance)
            most = half + _SURE * sd / math.sqrt(n)
            # |x + z|^2 is at most (|x| + |z|)^2, and |z|^2 / n at most that of the noise.
            if mean > most or math.sqrt(square) > half + sd * (1 + _SURE / math.sqrt(n)):
                raise BundleError(f"column {column.name[:100]!r} lies beyond its bounds and noise. Do not rely on it.")
    if radius is not None and n:
        ball, scales = radius * columns[0].half_width / steps[0], np.array([noise.scale for noise in noises])
        all_rows = float((squares / steps**2).sum())
        if longest > _most_square(1, n, ball, scales) or all_rows > _most_square(n, 1, ball, scales):
            raise BundleError("the table holds rows that clipping and noise cannot make so long. Do not rely on it.")


def _most_square(rows: int, times: int, ball: float, scales: npt.NDArray[np.float64]) -> float:
    """The most that the squared lengths of so many clipped rows with noise come to, in lattice steps, sure enough to be
    asked so many times.

    Let x be all their cells, |x| <= R = sqrt(rows) ball, and y = x + z + u, with z the noise before it was rounded and
    |u| <= sqrt(cells) / 2 what rounding moved. With s the largest scale, x.z <= t s |x|, and |z|^2 is at most
    (sqrt(sum of its variances) + t s)^2, each but with probability exp(-t^2 / 2): so it is for Gaussian noise, and for
    any that is no heavier, as the discrete one (Hsu, Kakade and Zhang 2012).
    """
    far, widest = math.sqrt(rows) * ball, float(scales.max())
    sure = math.sqrt(2 * (_SURE_OF_ROWS + math.log(times))) * widest
    noise = math.sqrt(rows * float(np.square(scales).sum())) + sure
    rounded = math.sqrt(rows * scales.size) / 2
    return (math.sqrt(far**2 + 2 * far * sure + noise**2) + rounded) ** 2 * (1 + 1e-9)


def bytes_per_cell(column: Column) -> float:
    """At least how many a part needs: noise of s steps has log2(4.13 s) bits, and no code takes fewer on average.

    Cells without noise, and those whose noise is narrower than a step, are not written as places in a dictionary.
    """
    noise = column.cell_noise
    return math.log2(4 * noise.scale) / 8 if noise is not None and repeats(noise) else 8.0
