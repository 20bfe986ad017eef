"""Direct dependence beyond the linear, from the moments of Hermite functions of the columns.

Each column is a block of features (z, z^2, z^3, orthogonalised). The blocks are whitened one by one, the matrix is
inverted with a ridge, and a pair of columns is scored by the size of its block of the inverse: small when the two
columns are independent given the other features.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.errors import InputError

__all__ = ["block_scores", "whitened_blocks"]

FloatArray = npt.NDArray[np.float64]

# A block's own eigenvalues are kept above this: whitening must not blow up a direction that only noise fills.
_FLOOR = 0.05


def block_scores(moments: ReleasedMoments, n: int, ridge: float) -> FloatArray:
    """Strength of every pair of columns: the Frobenius norm of its block of the whitened, ridged inverse."""
    if not ridge > 0:
        raise InputError(f"ridge must be above 0, got {ridge!r}.")
    size = max(feature.power for feature in moments.features)
    whitened = whitened_blocks(moments.covariance(n), size)
    values, vectors = np.linalg.eigh(whitened)
    precision = (vectors / (np.maximum(values, 0.0) + ridge)) @ vectors.T
    p = len(precision) // size
    blocks = precision.reshape(p, size, p, size)
    scores = np.sqrt(np.einsum("iajb,iajb->ij", blocks, blocks))
    np.fill_diagonal(scores, 0.0)
    return np.asarray(scores)


def whitened_blocks(covariance: FloatArray, size: int) -> FloatArray:
    """The covariance after each block of `size` features was given the identity as its own covariance."""
    p = len(covariance) // size
    whitener = np.zeros_like(covariance)
    for k in range(p):
        span = slice(k * size, (k + 1) * size)
        values, vectors = np.linalg.eigh(covariance[span, span])
        whitener[span, span] = (vectors / np.sqrt(np.maximum(values, _FLOOR))) @ vectors.T
    return np.asarray(whitener @ covariance @ whitener.T)
