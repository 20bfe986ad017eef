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
from hazeglass.errors import DataError
from hazeglass.features.clipping import widen

__all__ = ["SyntheticRows", "check_synthetic_size", "synthetic_rows"]

_BLOCK_ROWS = 1 << 16
_FLOOR = 1e-9

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
    widening = widen(moments.second, stage.radius, moments.mean) if stage.clipped else None
    if widening is None:
        stage_mean, covariance = moments.mean, moments.covariance(n)
    else:
        stage_mean, covariance = widening.mean, widening.row_covariance(n, moments.mean_noise_sd)
    covariance, moved = _repaired(covariance)
    half = np.array([column.half_width for column in columns])
    scale = np.array(stage.scale)
    unit_mean = np.array(stage.centre) + scale * stage_mean
    mean = np.array([column.centre for column in columns]) + half * unit_mean
    note = SyntheticNote(widened=widening is not None, repaired_by=moved, integers_rounded=rounds)
    return SyntheticRows(n, mean, covariance, scale * half, entropy, note)


def _repaired(covariance: FloatArray) -> tuple[FloatArray, float]:
    """The nearest matrix in the Frobenius norm without an eigenvalue below a floor, and the largest change of an entry.

    Noise may leave no eigenvalue above 0, so the floor is a share of the largest in size, whatever its sign.
    """
    values, vectors = np.linalg.eigh(covariance)
    floor = _FLOOR * max(float(np.abs(values).max()), _FLOOR)
    if values[0] >= floor:
        return covariance, 0.0
    repaired = (vectors * np.maximum(values, floor)) @ vectors.T
    return np.asarray(repaired), float(np.abs(repaired - covariance).max())


def check_synthetic_size(rows: int, columns: int) -> None:
    """Refuse a table whose covariance no rows can have, from public numbers."""
    if rows <= columns + 1:
        raise DataError(f"synthetic rows need more rows than columns, got {rows} rows and {columns} columns.")
