"""What clipping rows to a ball does to the second moments of Gaussian rows, and how to undo it.

Rows clipped to the l2 ball of radius r have second moments M = E[min(1, r^2/|x|^2) x x^T]. For Gaussian x, M has the
covariance's eigenvectors and the eigenvalues m_i = l_i c_i(l), c_i(l) = E[min(1, r^2/sum_k l_k g_k^2) g_i^2], g normal.
The map l -> m is inverted by the fixed-point iteration l_i <- m_i / c_i(l), with a fixed, public sample of g.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Widening", "widen"]

FloatArray = npt.NDArray[np.float64]

_DRAWS = 20_000
_SEED = 20_240_229
_ITERATIONS = 300
_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class Widening:
    """Eigenvalues before (`narrow`) and after (`wide`), and the sample the correction was computed with.

    squares  g^2, one row per draw
    shrink   min(1, r^2/|x|^2) for each draw
    """

    vectors: FloatArray
    narrow: FloatArray
    wide: FloatArray
    squares: FloatArray
    shrink: FloatArray

    @property
    def covariance(self) -> FloatArray:
        """The covariance of the rows before they were clipped."""
        return np.asarray((self.vectors * self.wide) @ self.vectors.T)

    @property
    def share_clipped(self) -> float:
        """How many of the rows were longer than the radius."""
        return float(np.mean(self.shrink < 1))


def widen(moments: FloatArray, radius: float) -> Widening | None:
    """Undo clipping; None where the iteration does not converge: the rows were clipped beyond telling."""
    narrow, vectors = np.linalg.eigh(moments)
    squares = np.random.default_rng(_SEED).standard_normal((_DRAWS, narrow.size)) ** 2
    squares /= squares.mean(axis=0)
    wide = narrow.copy()
    limit = 1e3 * max(float(narrow.max()), np.finfo(float).tiny)
    for _ in range(_ITERATIONS):
        shrink = _shrink(wide, squares, radius)
        update = narrow * len(squares) / (shrink @ squares)
        change = float(np.abs(update - wide).max())
        wide = update
        if not math.isfinite(change) or wide.max() > limit:
            return None
        if change <= _TOLERANCE * float(np.abs(wide).max()):
            return Widening(vectors, narrow, wide, squares, _shrink(wide, squares, radius))
    return None


def _shrink(wide: FloatArray, squares: FloatArray, radius: float) -> FloatArray:
    lengths = squares @ np.maximum(wide, 0.0)
    return np.asarray(radius**2 / np.maximum(lengths, radius**2))
