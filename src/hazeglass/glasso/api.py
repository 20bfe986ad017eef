"""What users call: one problem or a path of them. Check, solve, certify, and say so when it did not work.

The warm start along a path carries three things over: W clipped into the new, smaller box; the coefficients; and the
active sets, which are the sequential screen: pairs outside them are looked at once per column, and gathered only if
they violate. Components are screened exactly at each penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.errors import ConvergenceWarning, SolverInputError, warn
from hazeglass.glasso.distance import refuse_if_unbounded
from hazeglass.glasso.linalg import FloatArray, as_covariance, cholesky, inverse
from hazeglass.glasso.objective import NO_LIMIT, Attempt, Certificate, Clock, Start
from hazeglass.glasso.penalty import Penalty, block_norms, check_diagonal, make_penalty

SECONDS, MANY = 8.0, 300  # of processor time for one problem, of so many columns or fewer


@dataclass(frozen=True, eq=False)
class Solution(Certificate):
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
    alpha : float
        The penalty it was solved at.
    """

    n_iter: int
    solver: str
    converged: bool
    alpha: float


def graphical_lasso(
    covariance: ArrayLike,
    alpha: float,
    *,
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    block_size: int = 1,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    warm_start: Solution | ArrayLike | None = None,
    max_seconds: float | None = None,
    names: Sequence[str] | None = None,
    device: str = "cpu",
) -> Solution:
    """Sparse inverse covariance of a symmetric, possibly indefinite matrix.

    Parameters
    ----------
    covariance : array-like of shape (p * block_size, p * block_size)
        S. Anything numpy.asarray understands; never written to.
    alpha : float
        The penalty, >= 0.
    weights : array-like of shape (p, p), optional
        Entry (i, j) pays alpha * weights[i, j]: 0 for a known edge, infinity for a known non-edge.
    penalize_diagonal : bool, default=True
        Whether the diagonal pays as well (it must where a corrected variance may be negative).
    block_size : int, default=1
        Features per column, one column after the other. A block of features pays for its Frobenius norm, so that a
        pair of columns keeps or loses all of it; only admm does this, on the CPU.
    solver : {"auto", "cd", "newton", "admm"}, default="auto"
        "auto" tries them, cd first, until one proves its answer. Whichever it is, independent groups of columns
        are solved one by one, and groups of one or two columns in closed form.
    tol : float, default=1e-6
        Stop when duality gap / rows of S <= tol.
    max_iter : int, optional
        Most iterations of one solver; None for its own limit.
    max_seconds : float, optional
        Most seconds of processor time, about: what was found by then comes back, with its gap and a warning. None for
        eight with solver="auto" (more from 300 columns on), which only problems close to d(S) ever need, and for no
        limit with a solver's name.
    warm_start : Solution or array-like, optional
        A precision to begin from.
    names : sequence of str, optional
        Column names, used in messages.
    device : str, default="cpu"
        "cpu", or where torch shall compute, e.g. "cuda": for thousands of columns. The certificate is the same.
        It goes with solver="auto"; a torch tensor as covariance gives tensors back.

    Returns
    -------
    Solution

    Raises
    ------
    SolverInputError
        Something about the input makes no sense.
    UnboundedObjectiveError
        No estimate exists at this penalty; the message says which penalty would do.
    MissingExtraError
        Another device than the CPU was asked for and torch is not installed.

    Examples
    --------
    >>> answer = graphical_lasso([[1.0, 0.5], [0.5, 1.0]], alpha=0.1)
    >>> answer.covariance.round(3).tolist()
    [[1.1, 0.4], [0.4, 1.1]]
    """
    problem = _Problem(covariance, weights, penalize_diagonal, block_size, solver, tol, max_iter, names, device)
    rows = problem.S.shape[0]
    if max_seconds is None and solver == "auto":
        max_seconds = SECONDS * max(1.0, rows / MANY) ** 1.5
    return problem.solve(alpha, _start_from(warm_start, rows), Clock(max_seconds))


def graphical_lasso_path(
    covariance: ArrayLike,
    alphas: ArrayLike | int = 20,
    *,
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    block_size: int = 1,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_density: float | None = None,
    names: Sequence[str] | None = None,
    device: str = "cpu",
) -> list[Solution]:
    """Graphical lasso at several penalties, each begun from the one before.

    Parameters
    ----------
    covariance, weights, penalize_diagonal, block_size, solver, tol, max_iter, names, device
        As for :func:`graphical_lasso`.
    alphas : sequence of float, or int, default=20
        The penalties, in any order; or how many to take, evenly on the log scale from the smallest penalty
        without edges down to a hundredth of it.
    max_density : float, optional
        Stop once a solution has more than this share of all possible edges; that solution is the last one.

    Returns
    -------
    list of Solution
        One per penalty, in the order of `alphas` (decreasing for an int); each knows its `alpha`.

    Examples
    --------
    >>> path = graphical_lasso_path([[1.0, 0.5], [0.5, 1.0]], [0.6, 0.1])
    >>> [bool(answer.precision[0, 1]) for answer in path]
    [False, True]
    """
    problem = _Problem(covariance, weights, penalize_diagonal, block_size, solver, tol, max_iter, names, device)
    grid = _grid(problem, alphas)
    answers: dict[int, Solution] = {}
    start: Start | None = None
    for place in np.argsort(-grid, kind="stable"):
        found = problem.solve(float(grid[place]), start)
        answers[int(place)] = start = found
        if max_density is not None and _density(found, block_size) > max_density:
            break
    return [answers[place] for place in sorted(answers)]


def largest_alpha(covariance: ArrayLike, weights: ArrayLike | None = None, block_size: int = 1) -> float:
    """The smallest penalty at which no edge is left: max over i != j of |S_ij| / w_ij.

    Free pairs (weight 0) stay edges at any penalty and forbidden ones (infinite) never are: neither counts.

    Examples
    --------
    >>> largest_alpha([[1.0, 0.5], [0.5, 1.0]])
    0.5
    """
    norms = block_norms(as_covariance(covariance), block_size)
    paid = np.broadcast_to(make_penalty(len(norms), 1.0, weights).off, norms.shape)
    counts = ~np.eye(len(norms), dtype=bool) & (paid > 0)
    return float(np.max(norms[counts] / paid[counts], initial=0.0))


@dataclass(eq=False)
class _Problem:
    """Everything but the penalty, checked; S is a tensor where the problem is solved on a device."""

    covariance: InitVar[Any]
    weights: Any
    penalize_diagonal: bool
    block_size: int
    solver: str
    tol: float
    max_iter: int | None
    names: Sequence[str] | None
    device: str
    S: Any = field(init=False)

    def __post_init__(self, covariance: Any) -> None:
        self._check_settings()
        if self.device == "cpu":
            self.S = as_covariance(covariance, self.names)
        else:
            from hazeglass.glasso.device import to_device

            self.S = to_device(covariance, self.device)
            self.weights = self.weights.cpu() if hasattr(self.weights, "cpu") else self.weights
        self.as_tensors = self.device != "cpu" and type(covariance).__module__.partition(".")[0] == "torch"
        rows = self.S.shape[0]
        if self.block_size < 1 or rows % self.block_size:
            raise SolverInputError(f"block_size must divide the {rows} rows of the covariance, got {self.block_size}.")

    def _check_settings(self) -> None:
        solver, device = self.solver, self.device
        if solver != "auto":
            from hazeglass.glasso.components import SOLVERS

            if solver not in SOLVERS:
                raise SolverInputError(f"solver must be one of auto, {', '.join(SOLVERS)}, got {solver!r}.")
        if not self.tol > 0:
            raise SolverInputError(f"tol must be > 0, got {self.tol}. It bounds the duality gap divided by p.")
        if self.max_iter is not None and self.max_iter < 1:
            raise SolverInputError(f"max_iter must be >= 1, got {self.max_iter}.")
        if self.block_size > 1 and (solver not in ("auto", "admm") or device != "cpu"):
            raise SolverInputError(
                f"blocks of {self.block_size} features are solved by admm on the CPU, got solver={solver!r}, "
                f"device={device!r}."
            )
        if device != "cpu" and solver != "auto":
            raise SolverInputError(
                f'device={device!r} goes with solver="auto": it has one way of its own, got {solver!r}.'
            )

    def solve(self, alpha: float, start: Start | None, clock: Clock = NO_LIMIT) -> Solution:
        """Raise where the problem is unbounded, warn where it did not converge."""
        p = self.S.shape[0] // self.block_size
        penalty = make_penalty(p, alpha, self.weights, self.penalize_diagonal, self.block_size)
        if self.device == "cpu":
            answer = self._solve_here(penalty, start, clock)
        else:
            from hazeglass.glasso.device import solve_on_device

            check_diagonal(self.S.diagonal().cpu().numpy(), penalty, self.names)
            answer = solve_on_device(
                self.S, penalty, start, tol=self.tol, max_iter=self.max_iter, as_tensors=self.as_tensors
            )
        found, steps, name = answer.certificate, answer.n_iter, answer.solver
        if found is None:
            raise SolverInputError(
                f"{name} found no positive definite estimate in {steps} iterations, though one exists. "
                'Use solver="auto", or raise max_iter or alpha.'
            )
        converged = answer.reached(self.tol)
        if not converged:
            what = "max_seconds" if clock.over else "max_iter"
            warn(
                f"{name} stopped after {steps} iterations with gap/p = {found.gap / found.precision.shape[0]:.2e} > "
                f"tol = {self.tol:.0e}. Raise {what} or alpha, or accept the gap: the objective is within it of the "
                "optimum.",
                ConvergenceWarning,
            )
        return Solution(**vars(found), n_iter=steps, solver=name, converged=converged, alpha=penalty.alpha)

    def _solve_here(self, penalty: Penalty, start: Start | None, clock: Clock) -> Attempt:
        from hazeglass.glasso.components import solve_problem

        check_diagonal(np.diagonal(self.S), penalty, self.names)
        solver, tol, most = self.solver, self.tol, self.max_iter
        answer = solve_problem(self.S, penalty, start, solver=solver, tol=tol, max_iter=most, clock=clock)
        known = answer.certificate is not None and np.isfinite(
            answer.certificate.gap
        )  # a finite gap: an estimate exists
        if answer.unbounded or not (answer.reached(self.tol) or known):
            refuse_if_unbounded(self.S, penalty, proven=answer.unbounded)
        return answer


def _start_from(warm_start: Any, p: int) -> Start | None:
    """Check a warm start and complete it with its inverse."""
    if warm_start is None:
        return None
    start = warm_start
    if not isinstance(start, Start):
        precision = as_covariance(warm_start)
        factor = cholesky(precision)
        if factor is None:
            raise SolverInputError("warm_start must be a positive definite precision matrix.")
        start = Start(precision, inverse(factor))
    if start.precision.shape[0] != p:
        raise SolverInputError(f"warm_start must be {p}x{p} to match the covariance, got {start.precision.shape}.")
    return start


def _grid(problem: _Problem, alphas: ArrayLike | int) -> FloatArray:
    if isinstance(alphas, int | np.integer):
        if alphas < 1:
            raise SolverInputError(f"alphas must be at least one penalty, got {alphas}.")
        S = problem.S if problem.device == "cpu" else problem.S.cpu().numpy()
        top = largest_alpha(S, problem.weights, problem.block_size)
        return top * np.logspace(0, -2, int(alphas)) if top > 0 else np.zeros(1)
    grid = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if grid.ndim != 1 or grid.size == 0:
        raise SolverInputError(f"alphas must be a sequence of penalties, got shape {grid.shape}.")
    return grid


def _density(answer: Solution, block_size: int) -> float:
    """The share of all pairs that are edges."""
    norms = answer.precision if block_size == 1 else block_norms(answer.precision, block_size)
    p = len(norms)
    return (int((norms != 0).sum()) - p) / max(1, p * (p - 1))
