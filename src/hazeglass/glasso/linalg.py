"""Matrices as every solver takes them: checked once, then symmetric and C-ordered; factors, inverses, blank ones.

A Cholesky factor is the one test of positive definiteness used everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from mmap import ACCESS_COPY, mmap
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hazeglass.errors import SolverInputError

FloatArray: TypeAlias = NDArray[np.float64]

ASYMMETRY = 1e-8  # relative to the largest entry: what a dot product's rounding can leave
WORTH_A_MAPPING = 1 << 19  # entries
STRIP = 256  # rows compared with their mirror at a time: few enough to stay in cache


def as_covariance(S: ArrayLike, names: Sequence[str] | None = None) -> FloatArray:
    """S as a finite, exactly symmetric, C-ordered float64 matrix; the caller's array is never written to."""
    try:
        matrix = np.asarray(S, dtype=np.float64)
    except (TypeError, ValueError):
        raise SolverInputError("the covariance must be a square matrix of real numbers.") from None
    check_square(matrix.shape)
    matrix = np.ascontiguousarray(matrix)
    if not matrix.flags.writeable:
        matrix = matrix.copy()  # never written to, but compiled code knows two kinds of array: one is enough
    finite = np.isfinite(matrix)
    if not np.all(finite):
        column = int(np.flatnonzero(~np.all(finite, axis=0))[0])
        raise SolverInputError(
            f"the covariance must be finite, got NaN or infinity in column {column_name(column, names)}. "
            "Fill or drop the missing values first."
        )
    if _is_symmetric(matrix):
        return matrix
    check_symmetric(float(np.max(np.abs(matrix - matrix.T))), float(np.max(np.abs(matrix))))
    return (matrix + matrix.T) / 2


def _is_symmetric(A: FloatArray) -> bool:
    starts = range(0, len(A), STRIP)
    return all(np.array_equal(A[k : k + STRIP, k:], A[k:, k : k + STRIP].T) for k in starts)


def check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise SolverInputError(f"the covariance must be a square matrix, got shape {shape}.")


def check_symmetric(worst: float, largest: float) -> None:
    """Refuse entries that differ from their mirror by more than rounding."""
    if worst > ASYMMETRY * largest:
        raise SolverInputError(
            f"the covariance must be symmetric, got entries that differ from their mirror by up to {worst:.3g}. "
            "Pass (S + S.T) / 2 if that is what you mean."
        )


def column_name(index: int, names: Sequence[str] | None) -> str:
    return f"{index}" if names is None else f"{names[index]!r}"


def cholesky(A: FloatArray) -> FloatArray | None:
    """The upper factor R with R'R = A (rubbish below the diagonal), or None where A is not positive definite."""
    from scipy.linalg.lapack import dpotrf

    factor, info = dpotrf(A.T, lower=0, clean=0)  # the transpose of a C-ordered matrix is what LAPACK takes
    pivots = np.diagonal(factor)
    return factor if info == 0 and bool(np.all(np.isfinite(pivots)) and np.all(pivots > 0)) else None


def logdet(factor: FloatArray) -> float:
    """log det A from its Cholesky factor."""
    return 2.0 * float(np.sum(np.log(np.diagonal(factor))))


def inverse(factor: FloatArray) -> FloatArray:
    """The full symmetric inverse of A from its Cholesky factor (which is overwritten)."""
    from scipy.linalg.lapack import dpotri

    half = dpotri(factor, lower=0, overwrite_c=1)[0]
    lower = np.tril(half.T)
    return np.asarray(lower + np.tril(lower, -1).T)


def blank(p: int) -> FloatArray:
    """np.zeros((p, p)) for a matrix that will stay mostly zero: it takes memory only where something is written.

    NumPy asks for large pages, and then one entry fills two megabytes: the two answers for ten thousand columns in
    groups of a hundred take 1.6 GB instead of 0.1. An anonymous mapping of our own has small pages.
    """
    if p * p < WORTH_A_MAPPING:
        return np.zeros((p, p))
    return np.frombuffer(mmap(-1, 8 * p * p, access=ACCESS_COPY), np.float64).reshape(p, p)
