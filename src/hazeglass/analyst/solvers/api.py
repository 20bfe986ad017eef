"""The function users call: check, solve, certify, and say so when it did not work."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.analyst.factor import FloatArray, cholesky
from hazeglass.analyst.nearest_psd import Distance, psd_distance
from hazeglass.analyst.penalty import Penalty, make_penalty
from hazeglass.analyst.solvers import admm
from hazeglass.analyst.solvers.attempt import Attempt, Solver
from hazeglass.analyst.validation import as_covariance, check_diagonal
from hazeglass.errors import ConvergenceWarning, SolverInputError, UnboundedObjectiveError

SOLVERS: dict[str, Solver] = {"admm": admm.solve}
DEFAULT_MAX_ITER = 5000


@dataclass(frozen=True, eq=False)
class Solution:
    """A sparse inverse covariance and the proof of how good it is.

    Attributes
    ----------
    precision : array of shape (p, p)
        The minimiser T, positive definite, with exact zeros.
    covariance : array of shape (p, p)
        The dual point W: inside the box |W - S| <= alpha w, positive definite, the inverse of T up to the gap.
    objective : float
        -log det T + tr(S T) + penalty.
    gap : float
        Absolute duality gap: the objective is within `gap` of the smallest possible.
    kkt : float
        Largest |W - S - alpha w sign(T)| over the edges, in units of the fitted standard deviations.
    n_iter : int
        Iterations (sweeps for cd) of the solver that finished, the largest over the components.
    solver : str
        Which solver gave the answer.
    converged : bool
        gap / p <= tol.
    """

    precision: FloatArray
    covariance: FloatArray
    objective: float
    gap: float
    kkt: float
    n_iter: int
    solver: str
    converged: bool


def graphical_lasso(
    covariance: ArrayLike,
    alpha: float,
    *,
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int = DEFAULT_MAX_ITER,
    warm_start: Solution | ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> Solution:
    """Sparse inverse covariance of a symmetric, possibly indefinite matrix.

    Parameters
    ----------
    covariance : array of shape (p, p)
        S. Anything numpy.asarray understands; never written to.
    alpha : float
        The penalty, >= 0.
    weights : array of shape (p, p), optional
        Entry (i, j) pays alpha * weights[i, j]: 0 for a known edge, infinity for a known non-edge.
    penalize_diagonal : bool
        Whether the diagonal pays as well (it must where a corrected variance may be negative).
    solver : {"auto", "admm"}
    tol : float
        Stop when duality gap / p <= tol.
    max_iter : int
        Most iterations of one solver.
    warm_start : Solution or array, optional
        A precision to begin from.
    names : sequence of str, optional
        Column names, used in messages.

    Returns
    -------
    Solution

    Raises
    ------
    SolverInputError
        Something about the input makes no sense.
    UnboundedObjectiveError
        No estimate exists at this penalty; the message says which penalty would do.

    Examples
    --------
    >>> answer = graphical_lasso([[1.0, 0.5], [0.5, 1.0]], alpha=0.1)
    >>> answer.covariance.round(3).tolist()
    [[1.1, 0.4], [0.4, 1.1]]
    """
    S = as_covariance(covariance, names)
    penalty = make_penalty(S.shape[0], alpha, weights, penalize_diagonal)
    _check_settings(solver, tol, max_iter)
    check_diagonal(S, penalty, names)
    start = _start_precision(warm_start, S.shape[0])
    name = "admm" if solver == "auto" else solver
    attempt = SOLVERS[name](S, penalty, tol=tol, max_iter=max_iter, start=start)
    if attempt.unbounded or not attempt.reached(tol):
        refuse_if_unbounded(S, penalty, proven=attempt.unbounded)
    return _finish(attempt, name, tol)


def _finish(attempt: Attempt, name: str, tol: float) -> Solution:
    found = attempt.certificate
    if found is None:
        raise SolverInputError(
            f"{name} found no positive definite estimate in {attempt.n_iter} iterations. Raise max_iter or alpha."
        )
    p = found.precision.shape[0]
    converged = attempt.reached(tol)
    if not converged:
        warnings.warn(
            f"{name} stopped after {attempt.n_iter} iterations with gap/p = {found.gap / p:.2e} > tol = {tol:.0e}. "
            "Raise max_iter or alpha, or accept the gap: the objective is within it of the optimum.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Solution(
        found.precision, found.covariance, found.objective, found.gap, found.kkt, attempt.n_iter, name, converged
    )


def _check_settings(solver: str, tol: float, max_iter: int) -> None:
    if solver != "auto" and solver not in SOLVERS:
        raise SolverInputError(f"solver must be one of auto, {', '.join(SOLVERS)}, got {solver!r}.")
    if not tol > 0:
        raise SolverInputError(f"tol must be > 0, got {tol}. It bounds the duality gap divided by p.")
    if max_iter < 1:
        raise SolverInputError(f"max_iter must be >= 1, got {max_iter}.")


def _start_precision(warm_start: Solution | ArrayLike | None, p: int) -> FloatArray | None:
    if warm_start is None:
        return None
    start = as_covariance(warm_start.precision if isinstance(warm_start, Solution) else warm_start)
    if start.shape[0] != p:
        raise SolverInputError(f"warm_start must be {p}x{p} to match the covariance, got {start.shape}.")
    if cholesky(start) is None:
        raise SolverInputError("warm_start must be a positive definite precision matrix.")
    return start


def refuse_if_unbounded(S: FloatArray, penalty: Penalty, *, proven: bool) -> None:
    """Raise where no estimate exists; return where alpha is above d(S)."""
    alpha = penalty.alpha
    full = penalty.full()
    if alpha > 0:
        relative = full / alpha
        distance = psd_distance(S, relative) if proven else psd_distance(S, relative, threshold=alpha)
    else:
        distance = Distance(S, 0.0, 0.0 if np.linalg.eigvalsh(S)[0] > 0 else float("inf"))
    if not proven and distance.upper < alpha:
        return
    raise UnboundedObjectiveError(_unbounded_message(alpha, distance, penalty))


def _unbounded_message(alpha: float, distance: Distance, penalty: Penalty) -> str:
    if np.isfinite(distance.upper):
        needed = f"Use alpha > {distance.upper:.4g}, or "
        size = f"d(S) = {distance.upper:.4g}"
    else:
        needed = "" if np.all(penalty.diagonal > 0) else "Penalise the diagonal (penalize_diagonal=True), or "
        size = f"d(S) >= {distance.lower:.4g}"
    return (
        f"the penalised likelihood is unbounded at alpha = {alpha:.4g}: an estimate exists only for alpha > d(S), the "
        f"max-norm distance of the covariance to the positive semidefinite cone (weighted like the penalty), and "
        f"{size}. {needed}repair the covariance first: matrix, distance = nearest_psd_max_norm(S)."
    )
