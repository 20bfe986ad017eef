"""Rows that stay on disk: folds and subsamples of a table release too large for memory, read part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.scatter import Indices, Scatter, group_scatters
from hazeglass.analyst.selection.crossval import SEED, check_folds, subsample
from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Engine

__all__ = ["StreamedRows"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """What FoldSource is for rows in memory; covariances come out on the full data's scale."""

    release: Release
    noise: FloatArray
    standard_deviations: FloatArray
    engine: Engine

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.release.n

    def folds(self, count: int) -> list[tuple[FloatArray, FloatArray]]:
        """Pairs of training and held-out covariance; rows are dealt to folds part by part, with a fixed seed."""
        check_folds(count, self.n)
        held = group_scatters(self.release, self.engine, _Dealt(count))
        training = [_sum(held[:k] + held[k + 1 :]) for k in range(count)]
        return [(self._scaled(a), self._scaled(b)) for a, b in zip(training, held, strict=True)]

    def subsamples(self, count: int, size: int) -> Callable[[int], FloatArray]:
        """The covariances of random subsamples by their number, all read in one pass."""
        rows = [np.sort(subsample(number, self.n, size)) for number in range(count)]
        ends = np.cumsum([self.release.part_rows(part) for part in self.release.parts])
        scatters = group_scatters(self.release, self.engine, _Drawn(rows, ends))
        return lambda number: self._scaled(scatters[number])

    def _scaled(self, scatter: Scatter) -> FloatArray:
        corrected = scatter.covariance() - self.noise
        return np.asarray(corrected / np.outer(self.standard_deviations, self.standard_deviations))


@dataclass(frozen=True)
class _Dealt:
    """Which rows of a part go to each fold."""

    count: int

    def __call__(self, number: int, rows: int) -> Sequence[Indices]:
        order = np.random.default_rng((SEED, number)).permutation(rows)
        return [np.sort(fold) for fold in np.array_split(order, self.count)]


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Which rows of a part belong to each subsample; `ends` are the row numbers at which the parts end."""

    subsamples: Sequence[Indices]
    ends: Indices

    def __call__(self, number: int, rows: int) -> Sequence[Indices]:
        start = self.ends[number] - rows
        cuts = (np.searchsorted(chosen, [start, start + rows]) for chosen in self.subsamples)
        return [chosen[a:b] - start for chosen, (a, b) in zip(self.subsamples, cuts, strict=True)]


def _sum(scatters: Sequence[Scatter]) -> Scatter:
    total = scatters[0]
    for scatter in scatters[1:]:
        total = total + scatter
    return total
