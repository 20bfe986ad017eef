"""Give every column's block of features the identity as its own covariance."""

from __future__ import annotations

import numpy as np

from hazeglass.glasso.linalg import FloatArray

__all__ = ["block_whitener", "raised_blocks", "whitened_blocks"]

# A block's own eigenvalues are kept above this: whitening must not blow up a direction that only noise fills.
_FLOOR = 0.05


def block_whitener(covariance: FloatArray, size: int) -> FloatArray:
    """The block-diagonal L for which L S L^T has identity blocks on its diagonal, but for the floor."""
    whitener = np.zeros_like(covariance)
    for k in range(len(covariance) // size):
        span = slice(k * size, (k + 1) * size)
        values, vectors = np.linalg.eigh(covariance[span, span])
        whitener[span, span] = (vectors / np.sqrt(np.maximum(values, _FLOOR))) @ vectors.T
    return whitener


def whitened_blocks(covariance: FloatArray, size: int) -> FloatArray:
    """The covariance after each block of `size` features was given the identity as its own covariance."""
    whitener = block_whitener(covariance, size)
    return np.asarray(whitener @ covariance @ whitener.T)


def raised_blocks(covariance: FloatArray, size: int, doubt: FloatArray) -> tuple[FloatArray, list[int]]:
    """The covariance with each column's own eigenvalues at least _FLOOR and `doubt` of it; which columns needed that.

    A direction of a column that noise alone could fill says nothing; left as it is it could even be negative.
    """
    raised, hidden = covariance.copy(), []
    for k, least in enumerate(doubt):
        span = slice(k * size, (k + 1) * size)
        values, vectors = np.linalg.eigh(covariance[span, span])
        if values[0] < least:
            hidden.append(k)
        raised[span, span] = (vectors * np.maximum(values, max(_FLOOR, float(least)))) @ vectors.T
    return raised, hidden
