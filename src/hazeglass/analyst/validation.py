"""What must hold of a covariance before a solver sees it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.penalty import Penalty
from hazeglass.analyst.threads import in_threads
from hazeglass.errors import SolverInputError, UnboundedObjectiveError

INFINITE = 0x7FF0 << 49  # the bits of infinity, shifted by one like those `inspect` returns
ASYMMETRY = 1e-8  # relative to the largest entry: what a dot product's rounding can leave


def as_covariance(S: ArrayLike, names: Sequence[str] | None = None, n_threads: int = 1) -> FloatArray:
    """S as a finite, exactly symmetric, C-ordered float64 matrix; the caller's array is never written to."""
    try:
        matrix = np.asarray(S, dtype=np.float64)
    except (TypeError, ValueError):
        raise SolverInputError("the covariance must be a square matrix of real numbers.") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise SolverInputError(f"the covariance must be a square matrix, got shape {matrix.shape}.")
    matrix = np.ascontiguousarray(matrix)
    if not matrix.flags.writeable:
        matrix = matrix.copy()  # never written to, but compiled code knows two kinds of array: one is enough
    if _is_finite_and_symmetric(matrix, n_threads):
        return matrix
    if not np.all(np.isfinite(matrix)):
        column = int(np.flatnonzero(~np.all(np.isfinite(matrix), axis=0))[0])
        raise SolverInputError(
            f"the covariance must be finite, got NaN or infinity in column {column_name(column, names)}. "
            "Fill or drop the missing values first."
        )
    worst = float(np.max(np.abs(matrix - matrix.T)))
    if worst > ASYMMETRY * float(np.max(np.abs(matrix))):
        raise SolverInputError(
            f"the covariance must be symmetric, got entries that differ from their mirror by up to {worst:.3g}. "
            "Pass (S + S.T) / 2 if that is what you mean."
        )
    return (matrix + matrix.T) / 2


def _is_finite_and_symmetric(A: FloatArray, n_threads: int) -> bool:
    """One pass over the bits of A. "True" is wrong with a chance of about 2^-64; 0 beside -0 counts as asymmetric."""
    from hazeglass.analyst.solvers.compiled import announce_compilation
    from hazeglass.analyst.solvers.screen_kernel import inspect

    announce_compilation(inspect)
    bits, key = A.view(np.uint64), _scrambled(A.shape[0])
    miss = np.zeros((n_threads, A.shape[0]), np.uint64)
    largest = in_threads(lambda part: inspect(bits, key, part, n_threads, miss[part]), range(n_threads), n_threads)
    return bool(max(largest) < INFINITE and not np.any(np.sum(miss, axis=0)))


def _scrambled(count: int) -> NDArray[np.uint64]:
    """Odd numbers that follow no pattern an asymmetric matrix could have."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    odd: NDArray[np.uint64] = x | np.uint64(1)
    return odd


def column_name(index: int, names: Sequence[str] | None) -> str:
    return f"{index}" if names is None else f"{names[index]!r}"


def check_diagonal(S: FloatArray, penalty: Penalty, names: Sequence[str] | None = None) -> None:
    """S_ii + lambda_ii is the fitted variance of column i: it must be positive, or no estimate exists."""
    fitted = np.diagonal(S) + penalty.diagonal
    bad = np.flatnonzero(~(fitted > 0))
    if bad.size == 0:
        return
    first = int(bad[0])
    variance, paid = float(S[first, first]), float(penalty.diagonal[first])
    more = f" (and {bad.size - 1} more columns)" if bad.size > 1 else ""
    if paid > 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = float(np.max((-np.diagonal(S) / penalty.diagonal)[bad])) * penalty.alpha
        remedy = (
            f"An estimate exists only for alpha > d(S), and d(S) >= {needed:.4g}. Use alpha > {needed:.4g}, or drop "
            "the column, or repair the covariance first: matrix, distance = nearest_psd_max_norm(S)."
        )
    else:
        remedy = (
            "With a free diagonal d(S) is infinite. Drop the column, or penalise its diagonal with alpha > 0 "
            "(penalize_diagonal=True), or repair the covariance first: matrix, distance = nearest_psd_max_norm(S)."
        )
    raise UnboundedObjectiveError(
        f"column {column_name(first, names)}{more} has variance {variance:.4g} and diagonal penalty {paid:.4g} "
        f"at alpha = {penalty.alpha:.4g}: their sum must be positive, or the likelihood is unbounded. {remedy}"
    )
