"""The first step of adaptive moments: noisy counts of every column's cells, and how they turn cells into rows.

Round after round, each column's cells are counted in a public partition of its range, at first even, then finer where
the counts before say that cells are (features/marginal.py). One row moves one count down and one up in every column, so
a round costs the same however wide the bounds are (docs/maths/marginals.md). An :class:`Encoder` then makes of cells
what a stage takes moments of. It may draw scores inside a leaf: the draws come from a cipher keyed once per release and
depend on nothing but the row's number and the column, so that every pass and every engine sees the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.columns import Scale, unit_step
from hazeglass.bundle.manifest import Round, Standard
from hazeglass.compute.engines import Engine
from hazeglass.features.fitting import Counts
from hazeglass.features.harmonics import DEGREES, FeatureKind, cosines
from hazeglass.features.marginal import (
    LOOK_SHARE,
    Levels,
    Marginal,
    counts_share,
    first_borders,
    is_last_round,
    marginals_of,
    next_borders,
    often_missing,
)
from hazeglass.features.scores import STEPS, score_table
from hazeglass.features.shaping import LARGEST_LINEAR, LINEAR_STEPS
from hazeglass.guarantee.budget import BudgetFilter
from hazeglass.guarantee.lattice import RoundedGaussian
from hazeglass.guarantee.units import Unit, counts_distance
from hazeglass.publisher.choice import FloatArray, IntArray
from hazeglass.publisher.noise import BitSource, draw, keystream, noise_in_rows
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Block, Cells, Rows

_GUIDE = 4096
_ROWS_PER_NONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class NoisyMarginals:
    """What the rounds released: counts by round and column, and what they say of every column."""

    rounds: tuple[Round, ...]
    counts: tuple[tuple[Counts, ...], ...]
    columns: tuple[Marginal, ...]

    @property
    def often_missing(self) -> tuple[int, ...]:
        """Numbers of the columns in which so many cells are missing that it matters which."""
        return often_missing(self.columns)


def marginals_share(plan: Plan, n: int) -> float:
    """Which part of mu^2 the counts get."""
    return counts_share(counts_distance(plan.unit, columns=len(plan.columns)), plan.guarantee.mu, n)


def count_noise(unit: Unit, columns: int, mu: float) -> RoundedGaussian:
    """The noise on every count of a round."""
    return noise_in_rows(counts_distance(unit, columns=columns) / mu, "counts")


def publish_marginals(rows: Rows, plan: Plan, engine: Engine, bits: BitSource, budget: BudgetFilter) -> NoisyMarginals:
    """Look where cells are, at most three times, then count once more with most of the share."""
    size, p = rows.public_size, len(plan.columns)
    own = BudgetFilter(budget.take(marginals_share(plan, size)))
    borders = [first_borders(unit_step(one, plan.scale), levels=not one.ordered) for one in plan.columns]
    rounds: list[Round] = []
    counts: list[tuple[Counts, ...]] = []
    known: tuple[Marginal, ...] = ()
    last, ordered = False, any(one.ordered for one in plan.columns)
    while not last:
        # The last round takes what is left; whether this is it follows from what was released.
        last = is_last_round(len(rounds), known, ordered=ordered)
        mu = own.take(1.0 if last else LOOK_SHARE)
        noise = count_noise(plan.unit, p, mu)
        if known:
            borders = [next_borders(one, noise.scale / size, last=last) for one in known]
        exact = np.concatenate(exact_counts(rows, borders, engine))
        noisy = noisy_counts(exact, noise, bits)
        deviation, ends = math.sqrt(noise.variance), np.cumsum([one.size for one in borders])
        rounds.append(Round(mu, noise.scale))
        counts.append(
            tuple(
                Counts(cuts, part[:-1].astype(np.float64), float(part[-1]), deviation)
                for cuts, part in zip(borders, np.split(noisy, ends[:-1]), strict=True)
            )
        )
        known = _known(counts, plan, size)
    return NoisyMarginals(tuple(rounds), tuple(counts), known)


def _known(counts: Sequence[Sequence[Counts]], plan: Plan, size: int) -> tuple[Marginal, ...]:
    """What all rounds so far say of every column; how many rows persons have is secret."""
    steps, levels = [unit_step(one, plan.scale) for one in plan.columns], [not one.ordered for one in plan.columns]
    return marginals_of(tuple(zip(*counts, strict=True)), steps, levels, None if plan.unit.name == "person" else size)


def noisy_counts(exact: IntArray, noise: RoundedGaussian, bits: BitSource) -> IntArray:
    """The only place where counts meet noise; every one of them gets its own, whatever the axes are."""
    return exact + draw(noise, exact.size, bits).reshape(exact.shape)


def exact_counts(rows: Rows, borders: Sequence[FloatArray], engine: Engine) -> list[IntArray]:
    """How many cells of each column lie in each leaf, and how many are missing: secret."""
    if rows.asked is not None:
        return rows.asked.counts(borders)
    total = [np.zeros(one.size, dtype=np.int64) for one in borders]
    for part in rows.run(engine, _PieceCounts(tuple(one[1:-1] for one in borders))):
        for one, added in zip(total, part, strict=True):
            one += added
    return total


def _guide_of(cuts: FloatArray) -> IntArray:
    """Where to look among the cuts, by the place of a cell in [-2, 2]."""
    begins = -2 + 4 / _GUIDE * np.arange(_GUIDE + 1)
    return np.append(np.searchsorted(cuts, begins[:-1], side="right"), cuts.size)


@dataclass(frozen=True)
class _PieceCounts:
    cuts: tuple[FloatArray, ...]

    def __call__(self, cells: Cells, start: int, blocks: Iterator[Block]) -> list[IntArray]:
        from hazeglass.publisher.kernels import count_cells

        counts = [np.zeros(one.size + 2, dtype=np.int64) for one in self.cuts]
        guides = [_guide_of(one) for one in self.cuts]
        for block in blocks:
            for units, cuts, guide, count in zip(cells.units(block), self.cuts, guides, counts, strict=True):
                count_cells(units, cuts, guide, count)
        return counts


# -------------------------------------------------------------------------------------------------- cells become rows


def standard_of(columns: Sequence[Marginal]) -> Standard:
    """The linear scale: where columns lie and how far they spread, by their marginals."""
    centre, scale = (tuple(getattr(one, name) for one in columns) for name in ("location", "spread"))
    return Standard(centre, scale, LARGEST_LINEAR)


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """How the cells of one column become entries: features/marginal.py, with a guide and the values of its features."""

    step: float
    cuts: FloatArray
    guide: IntArray
    first: IntArray
    draws: IntArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class LevelTable:
    """How the cells of a categorical column become indicators: what a missing one is drawn by, in units of 2^-32."""

    step: float
    drawn: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, known: Levels) -> LevelTable:
        """By the released shares."""
        return cls(known.step, np.rint(np.cumsum(known.shares)[:-1] * 2.0**32).astype(np.uint64))

    @classmethod
    def even(cls, levels: int) -> LevelTable:
        """Before anything is known of the column."""
        return cls(2 / (levels - 1), np.arange(1, levels, dtype=np.uint64) * np.uint64(2**32 // levels))

    @property
    def levels(self) -> int:
        """How many."""
        return self.drawn.size + 1


@dataclass(frozen=True, eq=False)
class Encoder:
    """What a stage takes moments of, from cells. It holds released numbers and no cell.

    of      numbers of the columns that take part; empty for all
    box     entries are moved into [-box, box], where cells are protected
    tables  scores and their cosines; for a categorical column indicators of its levels, which stand behind all others
    key     of the draws: secret, so that it is neither shown nor sent with the rest (:meth:`without_key`)
    lags    how many rows before it a row is stacked with (publisher/sums.py); 0 where rows stand alone
    seasons how many levels each season has whose indicators stand behind the columns
    means   what is taken off the columns in each level of each season (features/harmonics.py)
    """

    scale: Scale
    features: FeatureKind
    of: tuple[int, ...] = ()
    standard: Standard | None = None
    tables: tuple[ColumnTable | LevelTable, ...] = ()
    key: bytes = field(default=b"", repr=False)
    box: float | None = None
    lags: int = 0
    seasons: tuple[int, ...] = ()
    means: tuple[FloatArray, ...] = ()

    @classmethod
    def of_scores(
        cls, columns: Sequence[Marginal], features: FeatureKind, key: bytes, box: float | None = None
    ) -> Encoder:
        """Scores, moved into a box where cells are protected, or cosines of their ranks."""
        return cls("scores", features, tables=tuple(_table(one, features, box) for one in columns), key=key, box=box)

    def without_key(self) -> Encoder:
        """What a scheduler may see; the key reaches the rows by :attr:`Cells.key`."""
        return replace(self, key=b"")

    @property
    def levels(self) -> tuple[int, ...]:
        """How many levels each categorical column has."""
        return self.seasons or tuple(one.levels for one in self.tables if isinstance(one, LevelTable))

    def width(self, columns: int) -> int:
        """How many features a row has, but for indicators of levels; of a stack, those of all its rows."""
        return self.alone(columns) * (self.lags + 1)

    def alone(self, columns: int) -> int:
        """How many one row of the data has."""
        apart = 0 if self.seasons else len(self.levels)
        return ((len(self.of) or columns) - apart) * DEGREES[self.features]

    def rows(self, cells: Cells, block: Block, start: int, out: FloatArray) -> None:
        """Fill `out`, one row per feature of a data row, from a block whose first row has the number `start`."""
        if self.scale == "public":
            cells.unit_box(block, out=out)
            return
        units = cells.units(block)
        if self.features == "presence":
            chosen = units[list(self.of)] if self.of else units
            np.copyto(out, np.where(np.isnan(chosen), -1.0, 1.0))
            return
        own, out = out, out[: len(units)] if self.seasons else out
        if self.standard is not None:
            centre, scale = (np.array(part)[:, None] for part in (self.standard.centre, self.standard.scale))
            np.copyto(out, np.nan_to_num((units - centre) / scale, nan=0.0))
            largest = self.box or self.standard.largest
            np.clip(out, -largest, largest, out=out)
            np.divide(np.rint(out * LINEAR_STEPS, out=out), LINEAR_STEPS, out=out)
        else:
            self._scores(units, self.key or cells.key, start, out)
        self._in_season(cells, len(units), start, own)

    def _in_season(self, cells: Cells, columns: int, start: int, out: FloatArray) -> None:
        """Take off means by season, or put indicators of the seasons' levels behind the columns."""
        if not self.seasons and not self.means:
            return
        codes, behind = cells.codes(start, out.shape[1]), columns
        for size, own in zip(self.seasons, codes, strict=False):
            out[behind : behind + size] = np.arange(size)[:, None] == own
            behind += size
        for means, own in zip(self.means, codes, strict=False):
            out[:columns] -= np.where(own < 0, 0.0, means.T[:, own])
        if self.means and self.box is not None:
            np.clip(out, -self.box, self.box, out=out)

    def _scores(self, units: FloatArray, key: bytes, start: int, out: FloatArray) -> None:
        from hazeglass.publisher.kernels import indicate_levels, score_cells

        size, done, behind = DEGREES[self.features], 0, self.alone(len(units))
        words = _words(key, len(units), start, units.shape[1])
        for k, (table, cells) in enumerate(zip(self.tables, units, strict=True)):
            own = np.ascontiguousarray(words[:, k])
            if isinstance(table, LevelTable):
                indicate_levels(cells, own, table.step, table.drawn, out[behind : behind + table.levels])
                behind += table.levels
                continue
            score_cells(
                cells,
                own,
                table.step,
                table.cuts,
                table.guide,
                table.first,
                table.draws,
                table.values,
                out[done : done + size],
            )
            done += size


def _table(known: Marginal, features: FeatureKind, box: float | None) -> ColumnTable | LevelTable:
    if isinstance(known, Levels):
        return LevelTable.of(known)
    found = score_table(known)
    scores = found.values / STEPS
    if features == "cosines":
        values = np.rint(cosines(scores) * STEPS) / STEPS
    else:
        values = (scores if box is None else np.clip(scores, -box, box))[:, None]
    return ColumnTable(known.step, found.cuts, _guide_of(found.cuts), found.first, found.draws, values)


def _words(key: bytes, columns: int, start: int, rows: int) -> npt.NDArray[np.uint32]:
    """32 bits for every cell, by its row's number and its column alone."""
    parts = []
    while rows > 0:
        nonce, first = divmod(start, _ROWS_PER_NONCE)
        some = min(rows, _ROWS_PER_NONCE - first)
        block, skip = divmod(first * columns * 4, 64)
        stream = np.empty(-(-(skip + some * columns * 4) // 8), dtype=np.uint64)
        keystream(key, nonce.to_bytes(12, "little"), block, stream)
        parts.append(stream.view(np.uint32)[skip // 4 : skip // 4 + some * columns].reshape(some, columns))
        start, rows = start + some, rows - some
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
