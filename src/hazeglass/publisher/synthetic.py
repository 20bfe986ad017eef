"""The synthetic form: rows drawn from nothing but released moments, with exactly their mean and covariance.

Normal draws are whitened so that their sample mean is exactly 0 and their sample covariance exactly I, then coloured.
This is post-processing of the release: it costs no privacy, and its randomness need not be secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import Column, Stage, SyntheticNote
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.bundle.synthetic import synthetic_target
from hazeglass.errors import DataError

__all__ = ["SyntheticRows", "check_synthetic_size", "synthetic_rows"]

_BLOCK_ROWS = 1 << 16

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Blocks of made-up rows, in the unit of the released (transformed) columns.

    The covariance is that of rows divided by `scale`: columns of very different units have no common scale.
    """

    n: int
    mean: FloatArray
    covariance: FloatArray
    scale: FloatArray
    entropy: int
    note: SyntheticNote

    def blocks(self) -> Iterator[FloatArray]:
        """The rows; drawn twice from the same generator, first to learn their mean and covariance, then to use them."""
        centre, whitener = self._whitening()
        colour = self.scale[:, None] * np.linalg.cholesky(self.covariance)
        for block in self._normals():
            yield (block - centre) @ whitener @ colour.T + self.mean

    def _normals(self) -> Iterator[FloatArray]:
        p = len(self.mean)
        for start in range(0, self.n, _BLOCK_ROWS):
            rng = np.random.default_rng((self.entropy, start))
            yield rng.standard_normal((min(_BLOCK_ROWS, self.n - start), p))

    def _whitening(self) -> tuple[FloatArray, FloatArray]:
        p = len(self.mean)
        first, second = np.zeros(p), np.zeros((p, p))
        for block in self._normals():
            first += block.sum(axis=0)
            second += block.T @ block
        centre = first / self.n
        covariance = (second - self.n * np.outer(centre, centre)) / (self.n - 1)
        return centre, np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)).T)


def synthetic_rows(
    stage: Stage, moments: ReleasedMoments, columns: tuple[Column, ...], n: int, entropy: int, rounds: bool
) -> SyntheticRows:
    """Rows for one stage's moments: widened where rows were clipped, moved to the nearest covariance if need be."""
    target = synthetic_target(stage, moments, columns, n, widened=stage.clipped)
    note = SyntheticNote(widened=target.widened, repaired_by=target.moved, integers_rounded=rounds)
    return SyntheticRows(n, target.mean, target.covariance, target.unit, entropy, note)


def check_synthetic_size(rows: int, columns: int) -> None:
    """Refuse a table whose covariance no rows can have, from public numbers."""
    if rows <= columns + 1:
        raise DataError(f"synthetic rows need more rows than columns, got {rows} rows and {columns} columns.")
