"""The steps of a release of moments as an attacker sees them, and the two rows that all of them tell apart best.

A view is what one step looks at rows through: a partition whose cells are counted, or an encoder, a map and a ball. It
says how far apart two rows are, and makes a step of two tables. A step holds the exact numbers of both, computed once
by the publisher's own block code; the publisher's own noise code then runs many times on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from hazeglass.audit.attack import far_rows, raw_rows
from hazeglass.bundle.manifest import Stage
from hazeglass.compute.engines import get_engine
from hazeglass.guarantee.lattice import RoundedGaussian
from hazeglass.publisher.marginals import Encoder, exact_counts, noisy_counts
from hazeglass.publisher.moments import NoisyMoments, add_noise, exact_sums
from hazeglass.publisher.noise import BitSource
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Cells, Rows
from hazeglass.publisher.sums import lattice_rows

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Sums = tuple[Integers, Integers, int]  # of rows, of their products, and how many
T = TypeVar("T")
Pair = tuple[T, T]  # under D and under D'
_STARTS, _SWEEPS = 4, 3
_SEARCHED = 64  # beyond so many columns a search would take minutes, and finds little


class Step(Protocol):
    """Noisy numbers, in units of their noise, as differences from what D would give without it."""

    @property
    def move(self) -> Floats:
        """How far D' lies from D."""

    def outputs(self, side: int, runs: int, bits: BitSource) -> Floats:
        """The noise step, many times on the same exact numbers: one row a run."""


class View(Protocol):
    """What a step looks at rows through."""

    def apart(self, plan: Plan, x: Floats, y: Floats) -> Floats:
        """Squared distances of rows of the [-1, 1] scale, pair by pair, in units of the step's noise."""

    def step(self, sides: Pair[Rows]) -> Step:
        """The step on two tables."""


@dataclass(frozen=True, eq=False)
class CountsStep:
    """One round of counts: those that D and D' differ in. Others have noise of their own and say nothing."""

    noise: RoundedGaussian
    differing: npt.NDArray[np.bool_]
    counts: Pair[Integers]

    @cached_property
    def move(self) -> Floats:
        return np.asarray((self.counts[1] - self.counts[0]) / math.sqrt(self.noise.variance))

    def outputs(self, side: int, runs: int, bits: BitSource) -> Floats:
        exact = np.broadcast_to(self.counts[side], (runs, self.move.size))
        return self._in_noise(noisy_counts(exact, self.noise, bits))

    def of_release(self, counts: Floats) -> Floats:
        """All of the round's released counts, one after the other."""
        return self._in_noise(counts[self.differing])

    def _in_noise(self, counts: Floats | Integers) -> Floats:
        return np.asarray((counts - self.counts[0]) / math.sqrt(self.noise.variance))


@dataclass(frozen=True, eq=False)
class StageStep:
    """One stage of moments, or one draw of a lifetime, whose lattices are finer."""

    stage: Stage
    sums: Pair[Sums]
    fine: int = 1

    @cached_property
    def move(self) -> Floats:
        return self._flat(self.sums[1]) - self._flat(self.sums[0])

    def outputs(self, side: int, runs: int, bits: BitSource) -> Floats:
        return self.of_sums(add_noise(*repeated(self.sums[side], runs), self.stage, bits, self.fine))

    def of_sums(self, noisy: NoisyMoments) -> Floats:
        """Of sums that were not divided by the number of rows; leading axes are releases."""
        return in_noise(self.stage, noisy.mean, noisy.second, noisy.rows / self.fine) - self._flat(self.sums[0])

    def _flat(self, sums: Sums) -> Floats:
        (first, second, rows), steps = sums, self.stage.steps
        counted = np.asarray(rows / self.fine)
        return in_noise(self.stage, first / (steps * self.fine), second / (steps**2 * self.fine), counted)


def repeated(sums: Sums, runs: int) -> Sums:
    """The same sums for every run."""
    first, second, rows = sums
    return np.broadcast_to(first, (runs, *first.shape)), np.broadcast_to(second, (runs, *second.shape)), rows


def in_noise(stage: Stage, mean: Floats, second: Floats, rows: Floats | Integers) -> Floats:
    """Sums as one vector in units of their noise, which is tau / a on the mean, tau off the diagonal, sqrt(2) tau on
    it, and tau / b on the number of rows where that is secret."""
    p = mean.shape[-1]
    upper, lower = np.triu_indices(p, 1)
    diagonal = second[..., np.arange(p), np.arange(p)] / math.sqrt(2)
    parts: list[Floats] = [stage.mean_weight * mean, second[..., upper, lower], np.asarray(diagonal, dtype=np.float64)]
    if stage.count_weight:
        parts.append(np.asarray(stage.count_weight * rows[..., None], dtype=np.float64))
    return np.concatenate(parts, axis=-1) / stage.tau


@dataclass(frozen=True, eq=False)
class CountsView:
    """Every column's cells are counted between borders."""

    borders: Sequence[Floats]
    noise: RoundedGaussian

    def apart(self, plan: Plan, x: Floats, y: Floats) -> Floats:
        return np.asarray(2 * np.sum(self._leaves(plan, x) != self._leaves(plan, y), axis=0) / self.noise.variance)

    def step(self, sides: Pair[Rows]) -> CountsStep:
        here, there = (np.concatenate(exact_counts(rows, self.borders, get_engine("serial"))) for rows in sides)
        differing = here != there
        return CountsStep(self.noise, differing, (here[differing], there[differing]))

    def _leaves(self, plan: Plan, rows: Floats) -> Integers:
        units = Cells(plan).units(_block(plan, rows))
        leaves = [
            np.searchsorted(cuts[1:-1], cells, side="right") for cuts, cells in zip(self.borders, units, strict=True)
        ]
        return np.where(np.isnan(units), -1, leaves)


@dataclass(frozen=True, eq=False)
class StageView:
    """Rows are encoded, mapped, recentred and clipped."""

    stage: Stage
    encoder: Encoder
    through: Floats | None = None

    def apart(self, plan: Plan, x: Floats, y: Floats) -> Floats:
        left, right = (self.lattice(Cells(plan), _block(plan, rows)) / self.stage.steps for rows in (x, y))
        squares = (np.sum(left**2, axis=0) ** 2 + np.sum(right**2, axis=0) ** 2) / 2 - np.sum(left * right, axis=0) ** 2
        mean = self.stage.mean_weight**2 * np.sum((left - right) ** 2, axis=0)
        return np.asarray((squares + mean) / self.stage.tau**2)

    def step(self, sides: Pair[Rows]) -> StageStep:
        under, neighbour = (self._sums(rows) for rows in sides)
        return StageStep(self.stage, (under, neighbour))

    def lattice(self, cells: Cells, block: Sequence[Floats]) -> Floats:
        """The rows that are summed up, in lattice steps, one row per feature."""
        rows = np.empty((self.stage.size, block[0].size))
        self.encoder.rows(cells, block, 0, rows)
        if self.through is not None:
            rows = self.through @ rows
        return lattice_rows(rows, np.array(self.stage.centre), self.stage)

    def _sums(self, rows: Rows) -> Sums:
        return exact_sums(rows, self.stage, self.encoder, get_engine("serial"), self.through)


def _block(plan: Plan, unit_box: Floats) -> list[Floats]:
    return [np.ascontiguousarray(cells) for cells in raw_rows(unit_box, plan.columns).T]


def farthest(plan: Plan, views: Sequence[View], places: Floats, free: Sequence[int]) -> Pair[Floats]:
    """Two rows as far apart as can be found for all views together; they differ in the columns `free` alone.

    Their cells lie at `places`, one column of them a column. The search starts from the pairs that are farthest in a
    ball and changes one cell after the other as long as that helps; all starts go on at once.
    """
    count, p = places.shape
    starts = np.rint((np.array(far_rows(p, 0.1)) + 1) / 2 * (count - 1)).astype(np.int64)
    at = np.vstack([starts, starts // 2 + count // 4])  # those, and nearer to the middle
    at[:, 1] = np.where(np.isin(np.arange(p), free), at[:, 1], at[:, 0])

    def apart(tried: Integers) -> Floats:
        cells = places[tried, np.arange(p)]
        return np.asarray(sum(view.apart(plan, cells[:, 0], cells[:, 1]) for view in views))

    at = at[np.argsort(-apart(at))[:_STARTS]]
    moves = [(k, sides) for k in range(p) for sides in (([0], [1]) if k in free else ([0, 1],))]
    for k, sides in moves * min(_SWEEPS, _SEARCHED // p):
        tried = np.repeat(at[:, None], count, axis=1)  # start, place, side, column
        tried[:, :, sides, k] = np.arange(count)[None, :, None]
        found = apart(tried.reshape(-1, 2, p)).reshape(len(at), count)
        at = tried[np.arange(len(at)), found.argmax(axis=1)]
    x, y = places[at[apart(at).argmax()], np.arange(p)]
    return x, y
