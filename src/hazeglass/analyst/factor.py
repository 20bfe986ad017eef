"""Cholesky factors of symmetric matrices: the one test of positive definiteness used everywhere.

Matrices are symmetric and C-ordered, so their transpose is handed to LAPACK without a copy.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]


def cholesky(A: FloatArray, *, overwrite: bool = False) -> FloatArray | None:
    """The upper factor R with R'R = A (rubbish below the diagonal), or None where A is not positive definite."""
    from scipy.linalg.lapack import dpotrf

    factor, info = dpotrf(A.T, lower=0, clean=0, overwrite_a=overwrite)
    if info != 0:
        return None
    pivots = np.diagonal(factor)
    return factor if bool(np.all(np.isfinite(pivots)) and np.all(pivots > 0)) else None


def logdet(factor: FloatArray) -> float:
    """log det A from its Cholesky factor."""
    return 2.0 * float(np.sum(np.log(np.diagonal(factor))))


def inverse(factor: FloatArray) -> FloatArray:
    """The full symmetric inverse of A from its Cholesky factor (which is overwritten)."""
    from scipy.linalg.lapack import dpotri

    half, info = dpotri(factor, lower=0, overwrite_c=1)
    if info != 0:  # pragma: no cover (a factor with positive pivots always inverts)
        raise np.linalg.LinAlgError(f"dpotri failed with info={info}")
    full = np.ascontiguousarray(half.T)  # C order: the valid half is now the lower one
    mirror_lower(full)
    return full


def mirror_lower(A: FloatArray, block: int = 64) -> None:
    """Copy the lower triangle of A onto the upper one, in place and block by block so that it stays in cache."""
    p = A.shape[0]
    for start in range(0, p, block):
        stop = min(start + block, p)
        corner = A[start:stop, start:stop]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        A[start:stop, stop:] = A[stop:, start:stop].T


def soft_threshold(A: FloatArray, threshold: FloatArray | float) -> FloatArray:
    """A moved towards zero by `threshold`, entry by entry; entries smaller than that become 0."""
    shrunk = np.abs(A)
    shrunk -= threshold
    np.maximum(shrunk, 0.0, out=shrunk)
    return np.copysign(shrunk, A, out=shrunk)
