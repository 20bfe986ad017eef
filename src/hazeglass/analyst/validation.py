"""What must hold of a covariance before a solver sees it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.penalty import Penalty
from hazeglass.errors import SolverInputError, UnboundedObjectiveError

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
    poison, gap = _inspect(matrix, n_threads)
    if poison == 0.0 and gap == 0.0:
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


def _inspect(A: FloatArray, n_threads: int) -> tuple[float, float]:
    from hazeglass.analyst.solvers.compiled import announce_compilation
    from hazeglass.analyst.solvers.screen_kernel import TILE, inspect

    announce_compilation(inspect)
    if n_threads == 1:
        poison, gap = inspect(A, 0, 1, np.empty((TILE, TILE)))
        return float(poison), float(gap)
    with ThreadPoolExecutor(n_threads) as pool:
        parts = list(pool.map(lambda part: inspect(A, part, n_threads, np.empty((TILE, TILE))), range(n_threads)))
    return float(sum(part[0] for part in parts)), float(sum(part[1] for part in parts))


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
