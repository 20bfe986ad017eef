"""Rows cut into folds and subsamples, in memory or on disk; covariances come out corrected, on the full data's scale.

Means and scatter of released rows are accumulated part by part: memory is set by a part, not by the number of rows. Two
sets of rows are merged as Chan, Golub and LeVeque (1983) do, which loses no digits to large means. Parts are merged in
their order whoever reads them, so that every engine gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Engine
from hazeglass.errors import InputError
from hazeglass.glasso.linalg import FloatArray

SEED = 0
Indices = npt.NDArray[np.int64]
Pairs = list[tuple[FloatArray, FloatArray]]  # of training and held-out covariances


@dataclass(frozen=True, eq=False)
class Scatter:
    """Number of rows, their mean, and the sum of (x - mean)(x - mean)^T."""

    n: int
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> Scatter:
        """Of rows in memory."""
        p = rows.shape[1]
        if len(rows) == 0:
            return cls(0, np.zeros(p), np.zeros((p, p)))
        mean = rows.mean(axis=0)
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred)

    def __add__(self, other: Scatter) -> Scatter:
        """Of both sets of rows."""
        n = self.n + other.n
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        shift = other.mean - self.mean
        between = np.outer(shift, shift) * (self.n / n * other.n)
        return Scatter(n, self.mean + shift * (other.n / n), self.scatter + other.scatter + between)

    def covariance(self) -> FloatArray:
        """Unbiased covariance."""
        return self.scatter / (self.n - 1)


def scatter_of(release: Release, engine: Engine) -> Scatter:
    """Of all rows of a table release."""
    return reduce(Scatter.__add__, engine.map(_PartScatter(release), release.parts))


def rows_of(release: Release) -> FloatArray:
    """The rows of a table release."""
    table = release.table()
    return np.column_stack([table.column(name).to_numpy() for name in release.manifest.names]).astype(np.float64)


@dataclass(frozen=True)
class _PartScatter:
    release: Release

    def __call__(self, part: str) -> Scatter:
        return reduce(Scatter.__add__, (Scatter.of(block) for block in self.release.blocks(part)))


@dataclass(frozen=True)
class _PartGroups:
    """The scatters of groups of a part's rows.

    `groups` says, from the number of a part and how many rows it has, which of them belong to each group, in order.
    """

    release: Release
    groups: Callable[[int, int], Sequence[Indices]]

    def __call__(self, numbered: tuple[int, str]) -> list[Scatter]:
        number, part = numbered
        groups = self.groups(number, self.release.part_rows(part))
        empty = Scatter.of(np.zeros((0, len(self.release.columns))))
        found, start = [empty] * len(groups), 0
        for block in self.release.blocks(part):
            for k, rows in enumerate(groups):
                low, high = np.searchsorted(rows, [start, start + len(block)])
                found[k] += Scatter.of(block[rows[low:high] - start])
            start += len(block)
        return found


def _check_folds(count: int, n: int) -> None:
    """Refuse a number of folds that leaves fewer than two rows in one."""
    if not 2 <= count <= n // 2:
        raise InputError(f"the number of folds must lie between 2 and half the rows ({n // 2}), got {count}.")


def _subsample(number: int, n: int, size: int) -> Indices:
    """Row numbers, drawn without replacement, the same ones wherever the rows are."""
    return np.random.default_rng((SEED, number)).choice(n, size, replace=False)


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Rows, the covariance of the noise in each, and the standard deviations that covariances are divided by."""

    rows: FloatArray
    noise: FloatArray
    standard_deviations: FloatArray

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def covariance(self, chosen: npt.NDArray[np.intp]) -> FloatArray:
        """Corrected covariance of some of the rows."""
        part = np.cov(self.rows[chosen], rowvar=False) - self.noise
        return np.asarray(part / np.outer(self.standard_deviations, self.standard_deviations))

    def folds(self, count: int) -> Pairs:
        """Pairs of training and held-out covariance; which row goes where is drawn with a fixed seed."""
        _check_folds(count, self.n)
        parts = np.array_split(np.random.default_rng(SEED).permutation(self.n), count)
        every = np.arange(self.n)
        return [(self.covariance(np.setdiff1d(every, held)), self.covariance(held)) for held in parts]

    def subsamples(self, count: int, size: int) -> Callable[[int], FloatArray]:
        """The covariance of a random subsample by its number, for numbers below `count`."""
        return lambda number: self.covariance(_subsample(number, self.n, size))


@dataclass(frozen=True, eq=False)
class RowsOnDisk:
    """The same for the rows of a table release too large for memory, read part by part."""

    release: Release
    noise: FloatArray
    standard_deviations: FloatArray
    engine: Engine

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.release.n

    def folds(self, count: int) -> Pairs:
        """Pairs of training and held-out covariance; rows are dealt to folds part by part, with a fixed seed."""
        _check_folds(count, self.n)

        def dealt(number: int, rows: int) -> Sequence[Indices]:
            order = np.random.default_rng((SEED, number)).permutation(rows)
            return [np.sort(fold) for fold in np.array_split(order, count)]

        held = self._scatters(dealt)
        training = [reduce(Scatter.__add__, held[:k] + held[k + 1 :]) for k in range(count)]
        return [(self._scaled(a), self._scaled(b)) for a, b in zip(training, held, strict=True)]

    def subsamples(self, count: int, size: int) -> Callable[[int], FloatArray]:
        """The covariances of random subsamples by their number, all read in one pass."""
        wanted = [np.sort(_subsample(number, self.n, size)) for number in range(count)]
        ends = np.cumsum([self.release.part_rows(part) for part in self.release.parts])

        def drawn(number: int, rows: int) -> Sequence[Indices]:
            start = ends[number] - rows
            cuts = (np.searchsorted(chosen, [start, start + rows]) for chosen in wanted)
            return [chosen[a:b] - start for chosen, (a, b) in zip(wanted, cuts, strict=True)]

        scatters = self._scatters(drawn)
        return lambda number: self._scaled(scatters[number])

    def _scatters(self, groups: Callable[[int, int], Sequence[Indices]]) -> list[Scatter]:
        """Of groups of rows, in one pass over the parts."""
        parts = self.engine.map(_PartGroups(self.release, groups), enumerate(self.release.parts))
        return reduce(lambda one, other: [a + b for a, b in zip(one, other, strict=True)], parts)

    def _scaled(self, scatter: Scatter) -> FloatArray:
        corrected = scatter.covariance() - self.noise
        return np.asarray(corrected / np.outer(self.standard_deviations, self.standard_deviations))
