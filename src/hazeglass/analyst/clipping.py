"""Carry the error of clipped moments through their widening (features/clipping.py)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.uncertainty import ErrorModel
from hazeglass.features.clipping import Widening

__all__ = ["widened_error"]

FloatArray = npt.NDArray[np.float64]


def widened_error(widening: Widening, n: int, noise_sd: float) -> ErrorModel:
    """Sampling error and noise of the clipped moments, times the derivative of the widening.

    In the eigenbasis the clipped products have uncorrelated off-diagonal entries (each sign of g is a fair coin), and
    the derivative of an isotropic matrix function is (l_a - l_b)/(m_a - m_b) off the diagonal, the Jacobian dl/dm on
    it. `noise_sd` is the standard deviation of the isotropic noise in the entries of the clipped moments.
    """
    squares, shrink = widening.squares, widening.shrink
    positive = np.maximum(widening.wide, 0.0)
    # Sampling errors are those of products about the mean; the mean itself is subtracted.
    clipped = shrink[:, None] * squares * np.maximum(widening.wide - widening.offset**2, 0.0)
    products = (clipped.T @ clipped) / len(squares)
    sampling_off = products / n
    sampling_diagonal = (products - np.outer(clipped.mean(axis=0), clipped.mean(axis=0))) / n
    jacobian = np.asarray(np.linalg.inv(_moments_jacobian(positive, squares, shrink)), dtype=np.float64)
    slope = _divided_differences(widening.narrow, widening.wide, jacobian)
    off = slope**2 * (sampling_off + noise_sd**2)
    diagonal = jacobian @ (sampling_diagonal + 2 * noise_sd**2 * np.eye(positive.size)) @ jacobian.T
    return ErrorModel(widening.vectors, off, diagonal)


def _moments_jacobian(positive: FloatArray, squares: FloatArray, shrink: FloatArray) -> FloatArray:
    """d m_a / d l_b = c_a [a = b] - l_a E[1(clipped) (shrink / |x|^2) g_a^2 g_b^2]."""
    lengths = np.maximum(squares @ positive, np.finfo(float).tiny)
    pull = np.where(shrink < 1, shrink / lengths, 0.0)
    kept = shrink @ squares / len(squares)
    mixed = (pull[:, None] * squares).T @ squares / len(squares)
    return np.asarray(np.diag(kept) - positive[:, None] * mixed)


def _divided_differences(narrow: FloatArray, wide: FloatArray, jacobian: FloatArray) -> FloatArray:
    gap = narrow[:, None] - narrow[None, :]
    close = np.abs(gap) <= 1e-6 * float(np.abs(narrow).max())
    own = np.diag(jacobian)
    limit = 0.5 * (own[:, None] + own[None, :]) - 0.5 * (jacobian + jacobian.T)
    difference = (wide[:, None] - wide[None, :]) / np.where(close, 1.0, gap)
    return np.where(close, np.where(np.eye(narrow.size, dtype=bool), own, limit), difference)
