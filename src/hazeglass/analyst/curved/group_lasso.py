"""The graphical lasso over blocks: which pairs of columns are tied through any of their features.

Alternating directions, as for single entries (solvers/splitting.py); W lies in the dual balls after each step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.analyst.curved.group_distance import group_distance
from hazeglass.analyst.curved.group_penalty import GroupPenalty, certify_blocks
from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.objective import linear_part
from hazeglass.analyst.solvers import Solution
from hazeglass.analyst.solvers.attempt import Attempt
from hazeglass.analyst.solvers.splitting import Splitting, default_max_iter
from hazeglass.analyst.validation import as_covariance
from hazeglass.errors import ConvergenceWarning, SolverInputError, UnboundedObjectiveError, warn

__all__ = ["group_graphical_lasso", "solve_blocks"]


def group_graphical_lasso(
    covariance: ArrayLike,
    alpha: float,
    size: int,
    *,
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    tol: float = 1e-6,
    max_iter: int | None = None,
    warm_start: Solution | None = None,
) -> Solution:
    """Inverse covariance whose blocks of `size` features vanish together.

    Parameters
    ----------
    covariance : array of shape (p * size, p * size)
        S, symmetric, possibly indefinite; columns come one after the other, `size` features each.
    alpha : float
        The penalty, >= 0: block (i, j) pays alpha * weights[i, j] times its Frobenius norm.
    size : int
        Features per column.
    weights : array of shape (p, p), optional
        0 for a known edge, infinity for a known non-edge.
    penalize_diagonal : bool
        Whether the blocks of the columns themselves pay as well; they must where S is indefinite.
    tol : float
        Stop when duality gap / (p * size) <= tol.
    max_iter : int
        Most iterations; None for 20,000, fewer for many features.
    warm_start : Solution, optional
        Where to begin.

    Returns
    -------
    Solution
        Its `covariance` is the dual point: positive definite, every block within its ball about that of S.

    Examples
    --------
    >>> answer = group_graphical_lasso(np.eye(4), alpha=0.1, size=2)
    >>> answer.covariance[0].round(4).tolist()
    [1.0707, 0.0, 0.0, 0.0]
    """
    S = as_covariance(covariance)
    penalty = _make_penalty(len(S), alpha, size, weights, penalize_diagonal)
    if not tol > 0:
        raise SolverInputError(f"tol must be > 0, got {tol}. It bounds the duality gap divided by the features.")
    found = solve_blocks(S, penalty, tol, max_iter or default_max_iter(len(S)), warm_start)
    best, count, reached = found.certificate, found.n_iter, found.reached(tol)
    if found.unbounded or not reached:
        _refuse_if_unbounded(S, penalty, proven=found.unbounded)
    if best is None:
        raise SolverInputError(f"no positive definite estimate was found in {count} iterations. Raise alpha.")
    if not reached:
        warn(
            f"the group graphical lasso stopped after {count} iterations with gap/q = {best.gap / len(S):.2e} > tol = "
            f"{tol:.0e}. Raise max_iter or alpha, or accept the gap: the objective is within it of the optimum.",
            ConvergenceWarning,
        )
    return Solution(
        best.precision, best.covariance, best.objective, best.gap, best.kkt, count, "group-admm", reached, penalty.alpha
    )


def _make_penalty(
    features: int, alpha: float, size: int, weights: ArrayLike | None, penalize_diagonal: bool
) -> GroupPenalty:
    if size < 1 or features % size:
        raise SolverInputError(f"size must divide the {features} features of the covariance, got {size}.")
    if not (np.isfinite(alpha) and alpha >= 0):
        raise SolverInputError(f"alpha must be finite and >= 0, got {alpha}.")
    p = features // size
    given = np.ones((p, p)) if weights is None else np.array(weights, dtype=np.float64)
    if given.shape != (p, p) or np.isnan(given).any() or (given < 0).any() or not np.array_equal(given, given.T):
        raise SolverInputError(f"weights must be a symmetric {p}x{p} matrix of numbers >= 0, one per pair of columns.")
    with np.errstate(invalid="ignore"):
        paid = np.where(np.isinf(given), np.inf, alpha * given)
    if not penalize_diagonal:
        np.fill_diagonal(paid, 0.0)
    elif np.isinf(np.diagonal(paid)).any():
        raise SolverInputError("weights on the diagonal must be finite: a block of zeros is never positive definite.")
    return GroupPenalty(float(alpha), paid, size)


def solve_blocks(S: FloatArray, penalty: GroupPenalty, tol: float, last: int, start: Solution | None = None) -> Attempt:
    """The best certified answer within `last` steps."""
    state = Splitting(
        S,
        shrink=penalty.shrink,
        linear=lambda T: linear_part(T, S, penalty),
        start=None if start is None else start.precision,
    )
    return state.run(lambda T, W: certify_blocks(T, S, penalty, W), tol, last)


def _refuse_if_unbounded(S: FloatArray, penalty: GroupPenalty, *, proven: bool) -> None:
    """Raise where no estimate exists; return where alpha is above d(S)."""
    if penalty.alpha > 0:
        lower, upper = group_distance(S, penalty.paid / penalty.alpha, penalty.size)
        proven = proven or lower >= penalty.alpha
    else:
        lower, upper = group_distance(S, np.ones_like(penalty.paid), penalty.size)
        proven = proven or bool(np.linalg.eigvalsh(S)[0] <= 0)
    if proven:
        known = f"= {upper:.4g}" if upper - lower <= 0.01 * upper else f"lies between {lower:.4g} and {upper:.4g}"
        raise UnboundedObjectiveError(
            f"the penalised likelihood is unbounded at alpha = {penalty.alpha:.4g}: an estimate exists only for alpha "
            f"> d(S), the distance of the covariance to the positive semidefinite cone in the largest (weighted) "
            f"Frobenius norm of a block, and d(S) {known}. Use alpha > {upper:.4g}, or raise the diagonal of S first."
        )
