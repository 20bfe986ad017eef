"""Clip rows to an l2 ball and put them on a lattice without leaving the ball; the radius may be bought from the data.

A bought radius is a quantile of the row lengths, found by noisy bisection on a public grid. Each step asks how many
rows are at most so long; replacing one row changes the answer by at most 1 (one person: by at most max_rows), so
rounded Gaussian noise of scale max_rows * sqrt(steps) / mu on each answer makes all of them together mu-GDP, however
the questions depend on the answers (adaptive composition). Only the noisy answers are used and released.

Exact sums of what a stage sees: integers, the same bits whoever adds them up and in whichever order. Of rows in time,
each with the rows before it as one stack, across blocks and pieces, and across no gap (publisher/choice.py).

Secret all of it. Noise is added in one place, :func:`hazeglass.publisher.moments.add_noise`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import RadiusSearch, Stage
from hazeglass.compute.engines import Engine
from hazeglass.errors import InputError
from hazeglass.guarantee.lattice import RoundedGaussian, total_variation
from hazeglass.guarantee.units import RADIUS_QUANTILE, Unit, bisect_radius, questions, radius_grid
from hazeglass.publisher.choice import FloatArray, IntArray
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.noise import BitSource, draw, noise_in_rows
from hazeglass.publisher.rows import Block, Cells, Rows

_ULP = 2.0**-52  # twice the largest relative error u of one operation


def clip_to_lattice(rows: FloatArray, *, steps: int, radius: float | None) -> FloatArray:
    """Rows times `steps`, rounded to whole numbers (as floats), inside the ball of `radius * steps`.

    Rounding to the nearest lattice point moves a row by at most sqrt(p)/2, so the row is first shrunk to a ball that
    much smaller: the rounded row stays inside the ball the promise is computed for, and rounding has no drift towards
    zero, which would show as a bias once the rows run into the millions. `radius=None` leaves only the box [-1, 1].
    """
    scaled = rows * steps
    if radius is not None:
        longest = inner_radius(rows.shape[1], steps, radius)
        scaled *= (longest / np.maximum(row_lengths(scaled), longest))[:, None]
    return np.rint(scaled, out=scaled)


def lattice_rows(rows: FloatArray, centre: FloatArray, stage: Stage) -> FloatArray:
    """In place, one row per feature: clip_to_lattice of what a stage sums, about its centre, several times as fast."""
    from hazeglass.publisher.kernels import to_lattice

    scored = stage.scored
    if scored:
        longest = inner_radius(scored, stage.steps, stage.radius) if stage.clipped else math.inf
        to_lattice(rows[:scored], centre[:scored], float(stage.steps), longest)
    rows[scored:] *= stage.steps  # indicators: a level is so many whole steps, and no row of them is too long
    return rows


def inner_radius(columns: int, steps: int, radius: float) -> float:
    """The ball that leaves the rounding its place, and the arithmetic its errors: the promise hangs on no last bit.

    With R = radius * steps and p columns, a squared length summed up in any order is at least 1 - p u of the true one
    (p - 1 additions and a square, underflow apart, which is far below 1). So a row that counts as `longest` long, or
    was shrunk to that by a root, a quotient and a product, is at most (1 + (p + 4) u) * longest long while p u < 1/4.
    The five roundings below add at most 5 u R, and a margin of 2 (p + 16) u R covers both.
    """
    longest = radius * steps * (1 - (columns + 16) * _ULP) - math.sqrt(columns) / 2
    if longest <= 0:
        raise InputError(f"the lattice of {steps} steps is too coarse for rows of length {radius:g}; refine it.")
    return longest


def row_lengths(rows: FloatArray) -> FloatArray:
    """Euclidean lengths, column after column: a row's length is the same bits in whatever block it stands."""
    squares = np.square(rows[:, 0])
    for column in rows.T[1:]:
        squares += np.square(column)
    return np.sqrt(squares, out=squares)


# ---------------------------------------------------------------------------- a radius from the data, by noisy counts


def private_radius(rows: Rows, unit: Unit, mu: float, engine: Engine, bits: BitSource) -> RadiusSearch:
    """The smallest radius of the grid that seems to hold 95 % of the rows."""
    grid = radius_grid(len(rows.plan.columns))
    n = None if unit.name == "person" else rows.n
    return search_radius(rows_within(rows, grid, engine), n, grid, unit, mu, bits)


def rows_within(rows: Rows, grid: FloatArray, engine: Engine) -> IntArray:
    """How many rows are at most as long as each radius: secret."""
    if rows.asked is not None:
        return rows.asked.within(grid)
    histogram = np.zeros(grid.size + 1, dtype=np.int64)
    for part in rows.run(engine, _PieceLengths(tuple(grid.tolist()))):
        histogram += part
    return np.cumsum(histogram[:-1])


def search_radius(
    within: IntArray,
    n: int | None,
    grid: FloatArray,
    unit: Unit,
    mu: float,
    bits: BitSource,
) -> RadiusSearch:
    """Bisection on noisy counts: the only place where the counts meet noise.

    Where the number of rows `n` is secret (None), the first question is for it: all rows lie within the last radius.
    """
    noise = answer_noise(unit, mu)
    noises = iter(draw(noise, questions(unit), bits).tolist())
    asked: list[tuple[float, int]] = []

    def answer(number: int) -> int:
        asked.append((float(grid[number]), int(within[number]) + next(noises)))
        return asked[-1][1]

    n = answer(grid.size - 1) if n is None else n
    found = bisect_radius(answer, grid.size, RADIUS_QUANTILE * n)
    return RadiusSearch(
        mu=mu,
        quantile=RADIUS_QUANTILE,
        noise_scale=noise.scale,
        answers=tuple(asked),
        radius=float(grid[found]),
        total_variation=len(asked) * total_variation(noise),
    )


def answer_noise(unit: Unit, mu: float) -> RoundedGaussian:
    """The noise on each answer."""
    scale = unit.max_rows * math.sqrt(questions(unit)) / mu
    return noise_in_rows(scale, "the search for a clip radius", ", or give clip_radius as a number")


@dataclass(frozen=True)
class _PieceLengths:
    """How many rows of a piece fall between neighbouring radii; the last entry is for none of them."""

    grid: tuple[float, ...]

    def __call__(self, cells: Cells, start: int, blocks: Iterator[Block]) -> IntArray:
        counts = np.zeros(len(self.grid) + 1, dtype=np.int64)
        for block in blocks:
            between = np.searchsorted(self.grid, row_lengths(cells.unit_box(block)), side="left")
            counts += np.bincount(between, minlength=counts.size)
        return counts


_TILE_CELLS = 1 << 18
_FEWEST_TILE_ROWS, _MOST_TILE_ROWS = 1 << 10, 1 << 14


def exact_sums(
    rows: Rows, stage: Stage, encoder: Encoder, engine: Engine, through: FloatArray | None = None
) -> tuple[IntArray, IntArray, int]:
    """The secret sums of the stage's rows and of their products, in lattice steps, and how many rows those were."""
    if rows.asked is not None:
        return (*rows.asked.sums(stage, encoder, through), rows.asked.stacks if encoder.lags else rows.n)
    total, work = Sums.of(stage.size), PieceSums(stage, encoder.without_key(), through)
    border = Border(encoder.lags, rows.ends) if encoder.lags else None
    for found in rows.run(engine, work, encoder.key):
        total.add(found)
        if border is not None and found.ends is not None and found.ends.rows:  # a piece without rows has no columns
            work.add(total, border.across(found.ends))
    return total.first, total.second, total.count


@dataclass(eq=False)
class Sums:
    """Exact sums of rows and of their products, how many rows those were, and what stacks across a border need."""

    first: IntArray
    second: IntArray
    count: int = 0
    ends: PieceEnds | None = None

    @classmethod
    def of(cls, size: int) -> Sums:
        """Of no rows yet."""
        return cls(np.zeros(size, dtype=np.int64), np.zeros((size, size), dtype=np.int64))

    def add(self, other: Sums) -> None:
        """In any order the same bits, because they are integers."""
        self.first += other.first
        self.second += other.second
        self.count += other.count


@dataclass(frozen=True, eq=False)
class PieceSums:
    """The sums of one piece's rows, as integers: adding pieces in any order gives the same bits."""

    stage: Stage
    encoder: Encoder
    through: FloatArray | None = None

    @property
    def secret(self) -> bool:
        """With its key, whoever sees the release could tell drawn scores from others."""
        return bool(self.encoder.key)

    def __call__(self, cells: Cells, start: int, blocks: Iterator[Block]) -> Sums:
        """Sum up, a few thousand rows at a time, so that they stay in the processor's cache."""
        stage, lags = self.stage, self.encoder.lags
        sums, most = Sums.of(stage.size), _tile_rows(stage.size)
        width = stage.size // (lags + 1)  # a stage of seasons has no lags
        memory, mapped = np.empty((width, most)), np.empty((stage.size, most))
        stacks = Stacks(lags, start, cells.ends) if lags else None
        for block in blocks:
            for tile in _tiles(block, most):
                count = tile[0].size
                x = memory if count == most else np.empty((width, count))
                self.encoder.rows(cells, tile, start, x)
                start += count
                self.add(sums, x if stacks is None else stacks.after(x), mapped)
        sums.ends = None if stacks is None else stacks.ends
        return sums

    def add(self, sums: Sums, x: FloatArray, mapped: FloatArray | None = None) -> None:
        """Add rows, no more than a tile of them; `mapped` is memory for a whole tile.

        Products of 16-bit integers summed over a tile are whole numbers below 2^53, exact in floats, so fast matrix
        products may be used and the same bits come out whatever the order of summation.
        """
        if self.through is not None:  # a map on a lattice times cells on another: exact in any order, too
            x = np.matmul(self.through, x, out=mapped if mapped is not None and mapped.shape == x.shape else None)
        z = lattice_rows(x, np.array(self.stage.centre), self.stage)
        sums.first += z.sum(axis=1).astype(np.int64)
        sums.second += (z @ z.T).astype(np.int64)
        sums.count += x.shape[1]


def _tile_rows(features: int) -> int:
    return max(_FEWEST_TILE_ROWS, min(_MOST_TILE_ROWS, _TILE_CELLS // features))


def _tiles(block: Block, rows: int) -> Iterator[Block]:
    """The block again, some rows at a time."""
    for start in range(0, block[0].size, rows):
        yield [column[start : start + rows] for column in block]


# ------------------------------------------------------------------------------------------------------ rows in time


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
