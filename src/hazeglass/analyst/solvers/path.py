"""Solutions along a decreasing penalty, each begun from the one before.

The warm start carries three things over: W clipped into the new, smaller box; the coefficients; and the active sets,
which are the sequential screen: pairs outside them are looked at once per column, and gathered only if they violate.
Components are screened exactly at each penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.penalty import make_penalty
from hazeglass.analyst.solvers.api import Solution, check_settings, solve_checked
from hazeglass.analyst.solvers.attempt import Start
from hazeglass.analyst.threads import in_threads
from hazeglass.analyst.validation import as_covariance, check_diagonal
from hazeglass.errors import SolverInputError


def largest_alpha(covariance: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The smallest penalty at which no edge is left: max over i != j of |S_ij| / w_ij.

    Free pairs (weight 0) stay edges at any penalty and forbidden ones (infinite) never are: neither counts.

    Examples
    --------
    >>> largest_alpha([[1.0, 0.5], [0.5, 1.0]])
    0.5
    """
    S = as_covariance(covariance)
    unit = make_penalty(S.shape[0], 1.0, weights)
    paid = np.broadcast_to(unit.off, S.shape)
    counts = ~np.eye(S.shape[0], dtype=bool) & (paid > 0)
    return float(np.max(np.abs(S[counts]) / paid[counts], initial=0.0))


@dataclass(frozen=True, eq=False)
class _Problem:
    """Everything of a path but the penalty."""

    S: FloatArray
    weights: ArrayLike | None
    penalize_diagonal: bool
    solver: str
    tol: float
    max_iter: int | None
    names: Sequence[str] | None

    def solve(self, alpha: float, before: Solution | None) -> Solution:
        penalty = make_penalty(self.S.shape[0], alpha, self.weights, self.penalize_diagonal)
        check_diagonal(self.S, penalty, self.names)
        start = None if before is None else Start(before.precision, before.covariance)
        return solve_checked(self.S, penalty, solver=self.solver, tol=self.tol, max_iter=self.max_iter, start=start)


def graphical_lasso_path(
    covariance: ArrayLike,
    alphas: ArrayLike | int = 20,
    *,
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_density: float | None = None,
    names: Sequence[str] | None = None,
    n_threads: int = 1,
) -> list[Solution]:
    """Graphical lasso at several penalties.

    Parameters
    ----------
    covariance, weights, penalize_diagonal, solver, tol, max_iter, names
        As for :func:`graphical_lasso`.
    alphas : sequence of float, or int
        The penalties, in any order; or how many to take, evenly on the log scale from the smallest penalty
        without edges down to a hundredth of it.
    max_density : float, optional
        Stop once a solution has more than this share of all possible edges; that solution is the last one.
    n_threads : int
        Threads; thread k takes every n_threads-th penalty. With max_density only one is used.

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
    S = as_covariance(covariance, names)
    check_settings(solver, tol, max_iter)
    grid = _grid(S, alphas, weights)
    problem = _Problem(S, weights, penalize_diagonal, solver, tol, max_iter, names)
    order = np.argsort(-grid, kind="stable")
    several = 1 if max_density is not None else max(n_threads, 1)
    chains = [order[k::several] for k in reversed(range(several))]  # the one that ends with the smallest first
    parts = in_threads(lambda chain: _follow(problem, grid, chain, max_density), chains, len(chains))
    solved = {place: answer for part in parts for place, answer in part.items()}
    return [solved[place] for place in sorted(solved)]


def _follow(
    problem: _Problem,
    grid: FloatArray,
    chain: NDArray[np.intp],
    max_density: float | None,
) -> dict[int, Solution]:
    """Solve the penalties of one chain from large to small."""
    answers: dict[int, Solution] = {}
    before: Solution | None = None
    p = problem.S.shape[0]
    for place in chain:
        before = problem.solve(float(grid[place]), before)
        answers[int(place)] = before
        if max_density is not None and np.count_nonzero(before.precision) - p > max_density * p * (p - 1):
            break
    return answers


def _grid(S: FloatArray, alphas: ArrayLike | int, weights: ArrayLike | None) -> FloatArray:
    if isinstance(alphas, int | np.integer):
        if alphas < 1:
            raise SolverInputError(f"alphas must be at least one penalty, got {alphas}.")
        top = largest_alpha(S, weights)
        return top * np.logspace(0, -2, int(alphas)) if top > 0 else np.zeros(1)
    grid = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if grid.ndim != 1 or grid.size == 0:
        raise SolverInputError(f"alphas must be a sequence of penalties, got shape {grid.shape}.")
    return grid
