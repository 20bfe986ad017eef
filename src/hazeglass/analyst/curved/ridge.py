"""The ridge score: how strongly two columns are tied once the others are accounted for, linear or not.

    T = (S+ + r I)^-1,     strength_ij = | T_ii^-1/2 T_ij T_jj^-1/2 |_F

S+ is the whitened covariance without its negative eigenvalues. The ridge r is the size that the error of S has as an
operator, 2 sqrt(q) times the standard deviation of an entry (the edge of Wigner's semicircle): directions with a
smaller eigenvalue cannot be told from noise. It comes from the stated noise and the number of rows alone.
"""

from __future__ import annotations

import math

import numpy as np

from hazeglass.analyst.curved.blocks import FeatureBlocks
from hazeglass.errors import InputError
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import block_norms

__all__ = ["block_scale", "noise_ridge", "partial_blocks", "ridge_precision", "ridge_strength"]


def noise_ridge(blocks: FeatureBlocks) -> float:
    """The operator norm that sampling and privacy noise give a symmetric matrix of this size."""
    return 2 * math.sqrt(len(blocks.covariance)) * blocks.entry_sd()


def ridge_precision(covariance: FloatArray, ridge: float) -> FloatArray:
    """Inverse of the positive part plus the ridge."""
    if not ridge > 0:
        raise InputError(f"ridge must be above 0, got {ridge!r}.")
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors / (np.maximum(values, 0.0) + ridge)) @ vectors.T)


def ridge_strength(blocks: FeatureBlocks, ridge: float | None = None) -> FloatArray:
    """Strength of every pair of columns, with a zero diagonal; the ridge is :func:`noise_ridge` unless given."""
    precision = ridge_precision(blocks.covariance, noise_ridge(blocks) if ridge is None else ridge)
    strength = block_norms(partial_blocks(precision, blocks.size), blocks.size)
    np.fill_diagonal(strength, 0.0)
    return strength


def partial_blocks(precision: FloatArray, size: int) -> FloatArray:
    """-T_ii^-1/2 T_ij T_jj^-1/2: partial correlations for blocks; those of a column with itself are the identity."""
    scale = block_scale(precision, size)
    partial = -(scale @ precision @ scale)
    for k in range(len(precision) // size):
        span = slice(k * size, (k + 1) * size)
        partial[span, span] = np.eye(size)
    return np.asarray(partial)


def block_scale(precision: FloatArray, size: int) -> FloatArray:
    """Block-diagonal matrix of T_ii^-1/2."""
    scale = np.zeros_like(precision)
    for k in range(len(precision) // size):
        span = slice(k * size, (k + 1) * size)
        values, vectors = np.linalg.eigh(precision[span, span])
        scale[span, span] = (vectors / np.sqrt(values)) @ vectors.T
    return scale
