"""Rows in time: each with the rows before it as one stack, across blocks and pieces, and across no gap.

Which rows end a stack follows from the cells of the order and the series column, which are read once and are no part of
the release. It is a function of the place of a row and of those cells of neighbouring rows, so a row, whatever its own
cells become, is in the same stacks or in fewer or others of at most lags + 1 places (docs/maths/series.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import Series

if TYPE_CHECKING:  # it loads what reads tables, and a preview has none
    from hazeglass.compute.tables import TableSource

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_SINCE = "1970-01-01"
_ALIKE, _FEWEST_ALIKE = 0.4, 100  # correlation with the row before, and rows, from which a hint is given
NEAR = 1e-6  # of a step, by which differences of order cells are rounded


def stacked(rows: FloatArray, lags: int) -> FloatArray:
    """Every row with the `lags` rows before it, feature by feature: x_t, x_t-1, ... of the first, then of the next.

    `rows` holds one row per feature; of w rows in time there are w - lags stacks.
    """
    features, width = rows.shape
    count = max(0, width - lags)
    shifted = [rows[:, lags - k : lags - k + count] for k in range(lags + 1)]
    return np.ascontiguousarray(np.stack(shifted, axis=1).reshape(features * (lags + 1), count))


@dataclass(frozen=True, eq=False)
class PieceEnds:
    """The first and the last rows of a piece, at most as many as there are lags, for stacks across its borders."""

    first: FloatArray
    last: FloatArray
    rows: int


class Stacks:
    """Stacks of the rows of one piece, which come tile by tile."""

    def __init__(self, lags: int, start: int, ends: npt.NDArray[np.uint8] | None) -> None:
        self._lags, self._at, self._packed = lags, start, ends
        self._rows, self._first, self._last = 0, np.zeros((0, 0)), np.zeros((0, 0))

    def after(self, tile: FloatArray) -> FloatArray:
        """The stacks that end in these rows, as far as all of their rows are in this piece."""
        if not self._rows:
            self._first = self._last = tile[:, :0]
        if self._first.shape[1] < self._lags:
            self._first = np.hstack([self._first, tile[:, : self._lags - self._first.shape[1]]])
        joined = np.hstack([self._last, tile])
        begin = self._at + self._rows - self._last.shape[1] + self._lags
        self._rows += tile.shape[1]
        self._last = joined[:, max(0, joined.shape[1] - self._lags) :].copy()
        return _whole(stacked(joined, self._lags), begin, self._packed)

    @property
    def ends(self) -> PieceEnds:
        """What stacks across the borders need."""
        return PieceEnds(self._first, self._last, self._rows)


class Border:
    """Stacks of rows of several pieces, which come in order."""

    def __init__(self, lags: int, ends: npt.NDArray[np.uint8] | None) -> None:
        self._lags, self._packed, self._rows = lags, ends, 0
        self._last: FloatArray | None = None

    def across(self, piece: PieceEnds) -> FloatArray:
        """The stacks that end in this piece and begin before it."""
        last = piece.last[:, :0] if self._last is None else self._last
        if not piece.rows:
            return stacked(last, self._lags)[:, :0]
        joined = np.hstack([last, piece.first])
        begin = self._rows - last.shape[1] + self._lags
        self._rows += piece.rows
        kept = piece.last if piece.rows >= self._lags else np.hstack([last, piece.last])
        self._last = kept[:, max(0, kept.shape[1] - self._lags) :]
        return _whole(stacked(joined, self._lags), begin, self._packed)


def _whole(stacks: FloatArray, begin: int, packed: npt.NDArray[np.uint8] | None) -> FloatArray:
    """Those that no gap goes through; the first of them ends in the row with the number `begin`."""
    if packed is None or not stacks.shape[1]:
        return stacks
    first, last = begin // 8, (begin + stacks.shape[1] + 7) // 8
    kept = np.unpackbits(packed[first:last])[begin - 8 * first :][: stacks.shape[1]].astype(bool)
    return stacks if kept.all() else np.ascontiguousarray(stacks[:, kept])


@dataclass(frozen=True, eq=False)
class Follows:
    """Which rows of the data end a stack, as packed bits, and how many follow the row before them: secret.

    seasons  in which level of each season every row lies, -1 where its order cell cannot be read
    """

    ends: npt.NDArray[np.uint8]
    following: int
    stacks: int
    seasons: npt.NDArray[np.int8] | None = None


def read_order(
    source: TableSource, series: Series, rows: int, masks: Sequence[tuple[npt.NDArray[np.uint8], bytes]] | None = None
) -> Follows:
    """From the order and series columns alone; a cell that cannot be read follows nothing, and nothing follows it.

    Where persons are protected, `masks` says which rows of each piece are used; of others nothing is seen.
    """
    follows, done = np.zeros(rows, dtype=bool), 0
    codes = np.full((len(series.seasons), rows), -1, dtype=np.int8)
    before: _Cells | None = None
    for cells in _cells(source, series, masks):
        here = cells if before is None else before.then(cells)
        joins = here.joins(series.step)
        kept = joins[0 if before is None else 1 :]
        follows[done : done + kept.size] = kept[: max(0, rows - done)]
        codes[:, done : done + kept.size] = cells.seasons[:, : max(0, rows - done)]
        done, before = done + kept.size, here.last
    place = np.arange(rows)
    broken = np.maximum.accumulate(np.where(follows, 0, place)) if rows else place
    ends = place - broken >= series.lags
    return Follows(np.packbits(ends), int(follows.sum()), int(ends.sum()), codes if series.seasons else None)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Order cells, NaN where one cannot be read, and ids of series, None where there is none; of some rows."""

    order: FloatArray | None
    series: npt.NDArray[np.object_] | None
    seasons: npt.NDArray[np.int8]

    @property
    def last(self) -> _Cells:
        order, series = (None if one is None else one[-1:] for one in (self.order, self.series))
        return _Cells(order, series, self.seasons[:, -1:])  # type: ignore[arg-type]

    def then(self, other: _Cells) -> _Cells:
        pairs = ((self.order, other.order), (self.series, other.series))
        order, ids = (None if b is None else np.concatenate([a, b]) for a, b in pairs)
        return _Cells(order, ids, other.seasons)

    def joins(self, step: float) -> BoolArray:
        """Which rows follow the one before them; the first one of all follows none."""
        size = self.order.size if self.order is not None else self.series.size  # type: ignore[union-attr]
        found = np.ones(size, dtype=bool)
        found[:1] = False
        if self.order is not None:
            with np.errstate(all="ignore"):
                found[1:] &= np.abs(np.diff(self.order) - step) <= NEAR * step  # false where one is NaN
        if self.series is not None:
            known = np.array([one is not None for one in self.series], dtype=bool)
            found[1:] &= (self.series[1:] == self.series[:-1]) & known[1:]
        return found


def _cells(
    source: TableSource, series: Series, masks: Sequence[tuple[npt.NDArray[np.uint8], bytes]] | None
) -> Iterator[_Cells]:
    order = () if series.order_column is None else (series.order_column,)
    ids = () if series.series_column is None else (series.series_column,)
    import pyarrow as pa

    from hazeglass.compute.readings import Reading  # it loads what reads tables

    readings = {name: Reading(name, since=_SINCE if series.dated else None) for name in order}
    parts = tuple(f"{series.order_column} {season}" for season in series.seasons)  # no other names are asked for
    readings |= {
        name: Reading(str(series.order_column), part=season) for name, season in zip(parts, series.seasons, strict=True)
    }
    for piece in source.pieces((*order, *parts), ids, readings):
        used = None if masks is None else np.unpackbits(masks[piece.number][0]).astype(bool)
        done = 0
        for batch in piece.batches(Counter()):
            if used is not None:
                here, done = used[done : done + batch.num_rows], done + batch.num_rows
                batch = batch.filter(pa.array(here))
            if not batch.num_rows:
                continue
            yield _Cells(
                batch.column(0).to_numpy(zero_copy_only=False).astype(np.float64) if order else None,
                np.array(batch.column(len(order) + len(parts)).to_pylist(), dtype=object) if ids else None,
                _codes([batch.column(k + 1) for k in range(len(parts))], series.season_levels, batch.num_rows),
            )


def _codes(columns: Sequence[Any], sizes: Sequence[int], rows: int) -> npt.NDArray[np.int8]:
    found = np.full((len(columns), rows), -1, dtype=np.int8)
    for own, column, size in zip(found, columns, sizes, strict=True):
        cells = column.to_numpy(zero_copy_only=False).astype(np.float64)
        known = (cells >= 0) & (cells < size)  # a time of 24:00 is in no hour
        own[:] = np.where(known, cells, -1.0).astype(np.int8)
    return found


def alike_in_time(columns: Sequence[FloatArray]) -> float | None:
    """The largest correlation of a column with itself a row before, where it is far beyond chance: a hint."""
    found = 0.0
    for cells in columns:
        here, before = cells[1:], cells[:-1]
        both = np.isfinite(here) & np.isfinite(before)
        if both.sum() < _FEWEST_ALIKE or here[both].std() == 0 or before[both].std() == 0:
            continue
        found = max(found, float(np.corrcoef(here[both], before[both])[0, 1]))
    return found if found > _ALIKE else None
