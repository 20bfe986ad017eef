"""Means and scatter of released rows, accumulated part by part: memory is set by a part, not by the number of rows.

Two sets of rows are merged as Chan, Golub and LeVeque (1983) do, which loses no digits to large means. Parts are merged
in their order whoever reads them, so that every engine gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Engine

__all__ = ["Scatter", "group_scatters", "scatter_of"]

FloatArray = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


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


def group_scatters(release: Release, engine: Engine, groups: Callable[[int, int], Sequence[Indices]]) -> list[Scatter]:
    """Of groups of rows, in one pass over the parts.

    `groups` says, from the number of a part and how many rows it has, which of them belong to each group, in order.
    """
    work = _PartGroups(release, groups)
    parts = engine.map(work, enumerate(release.parts))
    return reduce(lambda one, other: [a + b for a, b in zip(one, other, strict=True)], parts)


@dataclass(frozen=True)
class _PartScatter:
    release: Release

    def __call__(self, part: str) -> Scatter:
        return reduce(Scatter.__add__, (Scatter.of(block) for block in self.release.blocks(part)))


@dataclass(frozen=True)
class _PartGroups:
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
