"""Undo the clipping of rows, and carry the error through.

Rows clipped to the l2 ball of radius r have second moments M = E[min(1, r^2/|x|^2) x x^T]. For Gaussian x, M has the
covariance's eigenvectors and the eigenvalues m_i = l_i c_i(l), c_i(l) = E[min(1, r^2/sum_k l_k g_k^2) g_i^2], g normal.
The map l -> m is inverted by the fixed-point iteration l_i <- m_i / c_i(l), with a fixed, public sample of g.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.uncertainty import ErrorModel

__all__ = ["Unclipped", "unclip"]

FloatArray = npt.NDArray[np.float64]

_DRAWS = 20_000
_SEED = 20_240_229
_ITERATIONS = 300
_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class Unclipped:
    """A widened covariance and the error it inherits."""

    covariance: FloatArray
    error: ErrorModel
    share_clipped: float


def unclip(moments: FloatArray, radius: float, n: int, noise_sd: float) -> Unclipped | None:
    """The covariance of Gaussian rows whose second moments after clipping to `radius` are `moments`.

    `noise_sd` is the standard deviation of the isotropic noise in the entries of `moments`. Returns None where the
    iteration does not converge: the rows were clipped so tightly that their spread cannot be told any more.
    """
    values, vectors = np.linalg.eigh(moments)
    squares = np.random.default_rng(_SEED).standard_normal((_DRAWS, values.size)) ** 2
    squares /= squares.mean(axis=0)
    widened = _widen(values, squares, radius)
    if widened is None:
        return None
    covariance = (vectors * widened) @ vectors.T
    shrink = _shrink(widened, squares, radius)
    error = _error(values, widened, vectors, squares, shrink, n, noise_sd)
    return Unclipped(covariance, error, float(np.mean(shrink < 1)))


def _shrink(widened: FloatArray, squares: FloatArray, radius: float) -> FloatArray:
    lengths = squares @ np.maximum(widened, 0.0)
    return np.asarray(np.minimum(1.0, radius**2 / np.maximum(lengths, np.finfo(float).tiny)))


def _widen(values: FloatArray, squares: FloatArray, radius: float) -> FloatArray | None:
    widened = values.copy()
    limit = 1e3 * max(float(values.max()), np.finfo(float).tiny)
    for _ in range(_ITERATIONS):
        kept = _shrink(widened, squares, radius) @ squares / len(squares)
        update = values / kept
        change = float(np.abs(update - widened).max())
        widened = update
        if not math.isfinite(change) or widened.max() > limit:
            return None
        if change <= _TOLERANCE * float(np.abs(widened).max()):
            return widened
    return None


def _error(
    values: FloatArray,
    widened: FloatArray,
    vectors: FloatArray,
    squares: FloatArray,
    shrink: FloatArray,
    n: int,
    noise_sd: float,
) -> ErrorModel:
    """Sampling error and noise of the clipped moments, times the derivative of the widening.

    In the eigenbasis the clipped products have uncorrelated off-diagonal entries (each sign of g is a fair coin), and
    the derivative of an isotropic matrix function is (l_a - l_b)/(m_a - m_b) off the diagonal, the Jacobian dl/dm on
    it.
    """
    positive = np.maximum(widened, 0.0)
    clipped = shrink[:, None] * squares * positive
    products = (clipped.T @ clipped) / len(squares)
    sampling_off = products / n
    sampling_diagonal = (products - np.outer(clipped.mean(axis=0), clipped.mean(axis=0))) / n
    jacobian = np.asarray(np.linalg.inv(_moments_jacobian(positive, squares, shrink)), dtype=np.float64)
    slope = _divided_differences(values, widened, jacobian)
    off = slope**2 * (sampling_off + noise_sd**2)
    diagonal = jacobian @ (sampling_diagonal + 2 * noise_sd**2 * np.eye(values.size)) @ jacobian.T
    return ErrorModel(vectors, off, diagonal)


def _moments_jacobian(positive: FloatArray, squares: FloatArray, shrink: FloatArray) -> FloatArray:
    """d m_a / d l_b = c_a [a = b] - l_a E[1(clipped) (shrink / |x|^2) g_a^2 g_b^2]."""
    lengths = np.maximum(squares @ positive, np.finfo(float).tiny)
    pull = np.where(shrink < 1, shrink / lengths, 0.0)
    kept = shrink @ squares / len(squares)
    mixed = (pull[:, None] * squares).T @ squares / len(squares)
    return np.asarray(np.diag(kept) - positive[:, None] * mixed)


def _divided_differences(values: FloatArray, widened: FloatArray, jacobian: FloatArray) -> FloatArray:
    gap = values[:, None] - values[None, :]
    close = np.abs(gap) <= 1e-6 * float(np.abs(values).max())
    own = np.diag(jacobian)
    limit = 0.5 * (own[:, None] + own[None, :]) - 0.5 * (jacobian + jacobian.T)
    difference = (widened[:, None] - widened[None, :]) / np.where(close, 1.0, gap)
    return np.where(close, np.where(np.eye(values.size, dtype=bool), own, limit), difference)
