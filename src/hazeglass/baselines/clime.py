"""CLIME (Cai, Liu and Luo 2011): for each column of the precision, the sparsest vector that nearly inverts S."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.baselines.estimate import (
    Estimate,
    check_alpha,
    estimate_from_precision,
    smaller_of_mirrored,
    usable_covariance,
)
from hazeglass.errors import SolverInputError
from hazeglass.glasso.linalg import FloatArray

__all__ = ["clime", "clime_column", "refuse_if_infeasible", "smallest_alpha"]

_ZERO = 1e-9  # of the largest entry: what the linear program's own tolerance can leave


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
            refuse_if_infeasible(S, j, alpha)
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
    room = np.ones((p, 1))
    room[j] = diagonal_share
    answer = linprog(
        np.append(np.zeros(p), 1.0),
        A_ub=np.vstack([np.hstack([S, -room]), np.hstack([-S, -room])]),
        b_ub=np.concatenate([unit, -unit]),
        bounds=[(None, None)] * p + [(0, None)],
        method="highs-ds",
    )
    return float("inf") if answer.status != 0 or answer.fun is None else float(answer.fun)


def refuse_if_infeasible(S: FloatArray, j: int, alpha: float, diagonal_share: float = 1.0) -> None:
    """Raise where column j has no solution at this alpha, and name the least alpha that would do."""
    needed = smallest_alpha(S, j, diagonal_share)
    if needed > alpha:
        remedy = f"It needs alpha > {needed:.4g}." if np.isfinite(needed) else "Penalise the diagonal."
        raise SolverInputError(f"column {j} of a singular covariance has no estimate at alpha = {alpha:.4g}. {remedy}")
