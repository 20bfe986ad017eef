"""The column-wise methods: neighbourhood selection (Meinshausen and Bühlmann 2006), SCIO (Liu and Luo 2015) and CLIME
(Cai, Liu and Luo 2011). Each solves one small problem for every column, from the covariance alone.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.errors import SolverInputError
from hazeglass.glasso.linalg import FloatArray

from .estimate import (
    Estimate,
    check_alpha,
    estimate_from_precision,
    smaller_of_mirrored,
    usable_covariance,
    warn_unless,
)
from .lasso import solve_lasso

__all__ = ["clime", "clime_column", "neighbourhood_selection", "regressions", "scio", "scio_columns", "smallest_alpha"]

_TOLERANCE = 1e-6  # of alpha: how well the optimality conditions are met
_ZERO = 1e-9  # of the largest entry: what the linear program's own tolerance can leave


def neighbourhood_selection(covariance: ArrayLike, alpha: float, *, rule: Literal["or", "and"] = "or") -> Estimate:
    """Join i and j where the lasso of one of them (or: either, and: both) keeps the other.

        for each j:   minimise over b, b_j = 0:   b' S b / 2 - S_j' b + alpha sum_k |b_k|

    Parameters
    ----------
    covariance : array of shape (p, p)
        S; an indefinite one is repaired first (see `usable_covariance`).
    alpha : float
        The penalty, on the scale of the covariance.
    rule : {"or", "and"}
        The score of a pair is the larger or the smaller of its two coefficients' sizes.

    Examples
    --------
    >>> S = [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> neighbourhood_selection(S, 0.1).scores.round(3).tolist()
    [[0.0, 0.4, 0.0], [0.4, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if rule not in ("or", "and"):
        raise SolverInputError(f"rule must be 'or' or 'and', got {rule!r}.")
    alpha = check_alpha(alpha)
    sizes = np.abs(regressions(usable_covariance(covariance), alpha))
    scores = np.maximum(sizes, sizes.T) if rule == "or" else np.minimum(sizes, sizes.T)
    return Estimate(f"neighbourhood selection ({rule})", alpha, scores)


def regressions(S: FloatArray, alpha: float) -> FloatArray:
    """Column j holds the lasso coefficients of column j on the others."""
    found, finished = np.zeros_like(S), True
    for j in range(len(S)):
        weights = np.full(len(S), alpha)
        weights[j] = np.inf  # a column does not explain itself
        found[:, j], met = solve_lasso(S, S[j], weights, _TOLERANCE * alpha)
        finished = finished and met
    warn_unless(finished, "neighbourhood selection")
    return found


def scio(covariance: ArrayLike, alpha: float, *, penalize_diagonal: bool = True) -> Estimate:
    """Sparse precision, column by column, of two mirrored entries the one nearer to zero.

        for each j:   minimise over b:   b' S b / 2 - b_j + alpha sum_k |b_k|

    Parameters
    ----------
    covariance : array of shape (p, p)
        S; an indefinite one is repaired first (see `usable_covariance`).
    alpha : float
        The penalty. On a singular S it must be large enough for a minimiser to exist; the error says how large.
    penalize_diagonal : bool
        Whether b_j pays too, as in the article. (The authors' R package leaves it free unless told otherwise.)

    Examples
    --------
    >>> scio([[1.0, 0.5], [0.5, 1.0]], 0.1).precision.round(3).tolist()
    [[1.133, -0.467], [-0.467, 1.133]]
    """
    alpha = check_alpha(alpha)
    S = usable_covariance(covariance)
    columns, finished = scio_columns(S, alpha, penalize_diagonal)
    warn_unless(finished, "SCIO")
    return estimate_from_precision("SCIO", alpha, smaller_of_mirrored(columns))


def scio_columns(S: FloatArray, alpha: float, penalize_diagonal: bool = True) -> tuple[FloatArray, bool]:
    """The minimisers as columns, before they are made symmetric, and whether all meet their optimality conditions."""
    found, finished = np.zeros_like(S), True
    for j, unit in enumerate(np.eye(len(S))):
        weights = np.full(len(S), alpha)
        if not penalize_diagonal:
            weights[j] = 0.0
        found[:, j], met = solve_lasso(S, unit, weights, _TOLERANCE * alpha)
        if not met:
            _refuse_if_infeasible(S, j, alpha, 1.0 if penalize_diagonal else 0.0)
            finished = False
    return found, finished


def clime(covariance: ArrayLike, alpha: float) -> Estimate:
    """Sparse precision by one linear program per column, of two mirrored entries the one nearer to zero.

        for each j:   minimise over b:   sum_k |b_k|   subject to   max |S b - e_j| <= alpha

    Parameters
    ----------
    covariance : array of shape (p, p)
        S; an indefinite one is repaired first (see `usable_covariance`).
    alpha : float
        The tolerance. On a singular S it must be large enough for the constraints to be met; the error says how large.

    Examples
    --------
    >>> clime([[1.0, 0.5], [0.5, 1.0]], 0.1).precision.round(3).tolist()
    [[1.133, -0.467], [-0.467, 1.133]]
    """
    alpha = check_alpha(alpha)
    S = usable_covariance(covariance)
    columns = np.zeros_like(S)
    for j in range(len(S)):
        found = clime_column(S, j, alpha)
        if found is None:
            _refuse_if_infeasible(S, j, alpha)
            raise SolverInputError(
                f"the linear program of column {j} was not solved at alpha = {alpha:.4g}. Raise alpha."
            )
        columns[:, j] = found
    return estimate_from_precision("CLIME", alpha, smaller_of_mirrored(columns))


def clime_column(S: FloatArray, j: int, alpha: float) -> FloatArray | None:
    """One column by the dual simplex method; None where the constraints cannot be met."""
    from scipy.optimize import linprog

    p = len(S)
    unit = np.eye(p)[j]
    both = np.hstack([S, -S])  # b = positive part - negative part
    answer = linprog(
        np.ones(2 * p),
        A_ub=np.vstack([both, -both]),
        b_ub=np.concatenate([alpha + unit, alpha - unit]),
        method="highs-ds",
    )
    if answer.status != 0 or answer.x is None:
        return None
    b = answer.x[:p] - answer.x[p:]
    b[np.abs(b) <= _ZERO * np.max(np.abs(b))] = 0.0
    return np.asarray(b)


def smallest_alpha(S: FloatArray, j: int, diagonal_share: float = 1.0) -> float:
    """The least alpha at which max |S b - e_j| <= alpha has a solution (row j must be within diagonal_share alpha)."""
    from scipy.optimize import linprog

    p = len(S)
    unit = np.eye(p)[j]
    slack = np.ones((p, 1))
    slack[j] = diagonal_share
    answer = linprog(
        np.append(np.zeros(p), 1.0),
        A_ub=np.vstack([np.hstack([S, -slack]), np.hstack([-S, -slack])]),
        b_ub=np.concatenate([unit, -unit]),
        bounds=[(None, None)] * p + [(0, None)],
        method="highs-ds",
    )
    return float("inf") if answer.status != 0 or answer.fun is None else float(answer.fun)


def _refuse_if_infeasible(S: FloatArray, j: int, alpha: float, diagonal_share: float = 1.0) -> None:
    """Raise where column j has no solution at this alpha, and name the least alpha that would do."""
    needed = smallest_alpha(S, j, diagonal_share)
    if needed > alpha:
        remedy = f"It needs alpha > {needed:.4g}." if np.isfinite(needed) else "Penalise the diagonal."
        raise SolverInputError(f"column {j} of a singular covariance has no estimate at alpha = {alpha:.4g}. {remedy}")
