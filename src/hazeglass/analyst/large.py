"""Many columns: penalties tried down to what noise alone moves an entry by, and one chosen (penalty.py, select.py).

The information criterion over refitted graphs is the same as for fewer columns; it is known as exactly as a choice
needs, and of the path only the best fit is kept. On a device everything stays there. This file needs NumPy, and on a
device torch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hazeglass._arrays import Array, factor, is_tensor, set_diagonal, strips, symmetric, to_host
from hazeglass.analyst.large_pooling import Estimate
from hazeglass.analyst.penalty import FURTHER, GAMMA, GRID, MOST_DEGREE, PATIENCE
from hazeglass.errors import HazeglassError
from hazeglass.glasso import Solution, graphical_lasso

_SHARP = 0.002  # of an edge per column: how well the criterion must be known
FINE, COARSE = 1e-6, 1e-4  # duality gaps per column
NONZERO = 1e-10
_FIRST_SPAN, _FORBIDDEN = 1e-2, 1e30
_HALVINGS = 8
_SOME = 64  # rows that typical entries are looked up in


@dataclass(frozen=True, eq=False)
class LargeProblem:
    """One covariance and what its pairs pay, solved where it lies."""

    S: Array
    weights: Array | None
    diagonal: bool = True  # whether it pays

    def fit(self, alpha: float, before: Solution | None, tol: float) -> Solution:
        """The graphical lasso at one penalty."""
        paid = None if self.weights is None else self.weights
        return _solve(self.S, alpha, paid, self.diagonal, before, tol)

    def refit(self, support: Array, tol: float, before: Solution | None = None) -> Solution | None:
        """Without a penalty on a given graph; None where there is no estimate."""
        off = (~support) * _FORBIDDEN if is_tensor(self.S) else np.where(support, 0.0, np.inf)
        try:
            found = _solve(self.S, 1.0, off, False, before, tol, max_iter=300)
        except HazeglassError:
            return None
        return found if found.converged else None

    def is_safe(self, alpha: float) -> bool:
        """Whether the covariance moved towards zero by the penalty is positive definite."""
        moved = self.S * 1.0
        for rows in strips(moved):
            paid = alpha if self.weights is None else alpha * self.weights[rows]
            part = moved[rows]
            part -= part.clip(min=-paid, max=paid) if not is_tensor(part) else _clipped(part, paid)
        own = self.S.diagonal()
        if self.diagonal:
            own = own + (alpha if self.weights is None else alpha * self.weights.diagonal())
        set_diagonal(moved, own * 1.0)
        return factor(moved) is not None


def _clipped(A: Array, most: Array | float) -> Array:
    return A.clip(-most, most) if isinstance(most, float) else A.clip(min=-most).clip(max=most)


def _solve(
    S: Array, alpha: float, off: Array | None, diagonal: bool, before: Any, tol: float, max_iter: int | None = None
) -> Solution:
    """`off` are weights, on a device already checked, with 1e30 for forbidden pairs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not is_tensor(S):
            return graphical_lasso(
                S, alpha, weights=off, penalize_diagonal=diagonal, tol=tol, warm_start=before, max_iter=max_iter
            )
    from hazeglass.glasso.device import solve_tensors

    return solve_tensors(S, alpha, off, diagonal=diagonal, start=before, tol=tol, max_iter=max_iter)


@dataclass(frozen=True, eq=False)
class LargeChoice:
    """The chosen penalty and its fit, and the path that led there."""

    alpha: float
    solution: Solution
    alphas: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    skipped: str | None = None


def problem_of(known: Estimate, variance: Array, *, diagonal: bool = True) -> tuple[LargeProblem, float]:
    """Pairs pay in proportion to the noise in their covariance; and the penalty that is as large as that noise."""
    sd = symmetric(variance) ** 0.5  # products of matrices leave the last digits of mirrored entries apart
    p = len(sd)
    typical = float(sd.sum() - sd.diagonal().sum()) / (p * (p - 1))
    sd /= typical
    return LargeProblem(known.covariance, sd, diagonal), typical


def choose(problem: LargeProblem, noise: float, rows: float, tell: Callable[[float], None]) -> LargeChoice:
    """EBIC as in select.py, down to the noise and no further."""
    S, p = problem.S, len(problem.S)
    top = 1.0001 * _highest(problem)
    least = min(max(noise, 1e-4 * top), top)
    floor = _floor(problem, least, top)
    cost = math.log(rows) + 4 * GAMMA * math.log(p)
    tol = min(COARSE, max(FINE, _SHARP * cost / rows))
    bottom = _FIRST_SPAN * top if problem.is_safe(_FIRST_SPAN * top) else floor
    grid = [a for a in np.geomspace(top, bottom, GRID).tolist() if a >= 0.999 * floor] if bottom < top else [top]
    path = LargeChoice(0.0, None)  # type: ignore[arg-type]
    best: Solution | None = None
    before = again = None
    stopped, seen = "noise" if floor <= 1.001 * least else "barely", -1
    for place, alpha in enumerate(grid):
        before = problem.fit(alpha, before, tol)
        support = _support(before.precision)
        count = (int(support.sum()) - p) // 2
        if count != seen:  # along a path the same number of edges is the same graph
            again = problem.refit(support, tol, again)
        del support
        score = math.inf if again is None else rows * again.objective + count * cost
        path.alphas.append(alpha)
        path.edges.append(count)
        path.scores.append(score)
        seen = count
        if score <= min(path.scores):
            best = before
        tell((place + 1) / len(grid))
        if count > MOST_DEGREE * p / 2 or not before.converged:
            stopped = "dense" if before.converged else "slow"
            break
        if place - int(np.argmin(path.scores)) >= PATIENCE or again is None:
            stopped = "worse"
            break
    least_at = int(np.argmin(path.scores))
    del before, again, S
    assert best is not None
    alpha = path.alphas[least_at]
    fine = best if tol <= FINE else problem.fit(alpha, best, min(tol, FINE * 10))
    skipped = f"Penalties below {path.alphas[-1]:.3g} were not tried: {FURTHER[stopped]}."
    return replace(path, alpha=alpha, solution=fine, skipped=skipped)


def _support(precision: Array) -> Array:
    return abs(precision) > NONZERO


def _highest(problem: LargeProblem) -> float:
    found = 1e-3
    for rows in strips(problem.S):
        part = abs(problem.S[rows])
        if problem.weights is not None:
            part = part / problem.weights[rows]
        set_diagonal(part[:, rows], 0.0)
        found = max(found, float(part.max()))
    return found


def _floor(problem: LargeProblem, least: float, top: float) -> float:
    if least >= top or problem.is_safe(least):
        return least
    low, high = least, top
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if problem.is_safe(middle) else (middle, high)
    return high


def effective_rows(variance: Array) -> float:
    """Rows of clean data that would leave as much error in a typical entry; typical among those of some columns."""
    p = len(variance)
    some = np.unique(np.linspace(0, p - 1, min(p, _SOME)).astype(int)).tolist()
    values = to_host(variance[some])
    values[np.arange(len(some)), some] = np.nan
    return max(2.0, 1 / float(np.nanmedian(values)))
