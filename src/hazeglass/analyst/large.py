"""Many columns: what is known of their covariance, penalties tried down to what noise alone moves an entry by, and one
chosen (noisy.py, penalty.py, select.py for fewer).

The information criterion over refitted graphs is the same as for fewer columns; it is known as exactly as a choice
needs, and of the path only the best fit is kept. On a device everything stays there. This file needs NumPy, and on a
device torch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hazeglass._arrays import (
    Array,
    FloatArray,
    diagonal_matrix,
    factor,
    is_tensor,
    on,
    set_diagonal,
    strips,
    symmetric,
    to_host,
)
from hazeglass.analyst.penalty import FURTHER, GAMMA, GRID, MOST_DEGREE, PATIENCE, Choice, least_safe
from hazeglass.errors import HazeglassError
from hazeglass.glasso import Solution, graphical_lasso

_SHARP = 0.002  # of an edge per column: how well the criterion must be known
FINE, COARSE = 1e-6, 1e-4  # duality gaps per column
NONZERO = 1e-10
_FIRST_SPAN, _FORBIDDEN = 1e-2, 1e30
_HALVINGS = 8
_SOME = 64  # rows that typical entries are looked up in
_PROBES, _SEED = 128, 20_241_118  # vectors of random signs that tell a trace


@dataclass(frozen=True, eq=False)
class Estimate:
    """A covariance of many columns, and its error as independent parts, each a covariance kernel w P (x) P.

    Var(a E b) = sum_r w_r [(a P_r a)(b P_r b) + (a P_r b)^2]. P_r is U diag(f_r) U^T where `factors` holds a vector
    f_r, and itself where it holds a matrix; `basis` is U, None for the identity.

    middle, back  the covariance and the columns in coordinates in which noise is nearly even: middle = back S back^T;
                  None where that is the covariance itself
    """

    n: int
    covariance: Array
    weights: tuple[float, ...]
    factors: tuple[Array, ...]
    basis: Array | None = None
    middle: Array | None = None
    back: Array | None = None
    noise: int = 1  # how many of the parts, the first ones, are noise and not sampling
    distrust: tuple[float, int] = (0.0, 0)
    share_clipped: float = 0.0

    def products(self, load: Array | None = None) -> list[tuple[float, Array]]:
        """Weights, and load P load^T of every part (None: of the columns themselves)."""
        seen = load if self.basis is None else (self.basis if load is None else load @ self.basis)
        found = []
        for weight, f in zip(self.weights, self.factors, strict=True):
            if seen is None:
                own = f if f.ndim == 2 else diagonal_matrix(f)
            else:
                own = seen @ f @ seen.T if f.ndim == 2 else (seen * f) @ seen.T
            found.append((weight, own))
        return found

    def entry_variance(self) -> Array:
        """Of every entry of the covariance."""
        total = None
        for weight, P in self.products():
            own = P.diagonal()
            part = P * P
            for rows in strips(part):
                part[rows] += own[rows, None] * own[None, :]
            part *= weight
            total = part if total is None else added(total, part)
        return total

    def own_variances(self) -> list[tuple[float, Array]]:
        """Weights, and the diagonal of every part's P."""
        squares = None if self.basis is None else self.basis * self.basis
        return [
            (weight, f.diagonal() if f.ndim == 2 else (f if squares is None else squares @ f))
            for weight, f in zip(self.weights, self.factors, strict=True)
        ]

    def squared_norms(self) -> list[float]:
        """Weight times the sum of the squares of every part's P, by vectors of random signs."""
        signs = random_signs(self.covariance)
        seen = signs if self.basis is None else self.basis.T @ signs
        found = []
        for weight, f in zip(self.weights, self.factors, strict=True):
            there = f @ seen if f.ndim == 2 else f[:, None] * seen
            if self.basis is not None:
                there = self.basis @ there
            found.append(weight * float((there**2).sum()) / signs.shape[1])
        return found

    def trace_variance(self) -> float:
        """Of the noise in the trace."""
        return 2 * sum(self.squared_norms()[: self.noise])

    def total_variance(self) -> float:
        """Sum of the variances of all entries."""
        traces = sum(weight * float(own.sum()) ** 2 for weight, own in self.own_variances())
        return traces + sum(self.squared_norms())

    def standardised(self, doubt: float) -> tuple[Estimate, FloatArray, np.ndarray]:
        """On the correlation scale, each variance raised to `doubt` standard errors; what columns were divided by, and
        which variances were raised."""
        variance = self.covariance.diagonal()
        error = sum(2 * w * to_host(own) ** 2 for w, own in self.own_variances())
        own, least = to_host(variance), doubt * np.sqrt(error)
        low = own < (1 - 1e-9) * least
        deviation = np.sqrt(np.maximum(own, least))
        rate = on(self.covariance, 1 / deviation)
        S = self.covariance * rate[:, None]
        S *= rate
        set_diagonal(S, 1.0)
        if self.basis is not None:
            return replace(self, covariance=S, basis=self.basis * rate[:, None], back=self.back / rate), deviation, low
        factors = tuple(
            rate**2 * f if f.ndim == 1 else (S if f is self.covariance else f * rate[:, None] * rate)
            for f in self.factors
        )
        return replace(self, covariance=S, factors=factors), deviation, low


def random_signs(like: Array) -> Array:
    """Columns of random signs, the same ones for every matrix of this size: products with them tell traces."""
    return on(like, np.random.default_rng(_SEED).choice([-1.0, 1.0], (len(like), _PROBES)))


def added(one: Array, other: Array) -> Array:
    """The sum, in the place of the first."""
    one += other
    return one


@dataclass(frozen=True, eq=False)
class LargeProblem:
    """One covariance and what its pairs pay, solved where it lies (penalty.Problem for fewer columns)."""

    S: Array
    weights: Array | None
    noise: float  # the penalty that is as large as what noise leaves in an entry
    diagonal: bool = True  # whether it pays

    def fit(self, alpha: float, before: Solution | None, tol: float) -> Solution:
        """The graphical lasso at one penalty."""
        return _solve(self.S, alpha, self.weights, self.diagonal, before, tol)

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


def problem_of(known: Estimate, variance: Array, *, diagonal: bool = True) -> LargeProblem:
    """Pairs pay in proportion to the noise in their covariance."""
    sd = symmetric(variance) ** 0.5  # products of matrices leave the last digits of mirrored entries apart
    p = len(sd)
    typical = float(sd.sum() - sd.diagonal().sum()) / (p * (p - 1))
    sd /= typical
    return LargeProblem(known.covariance, sd, typical, diagonal)


def choose(problem: LargeProblem, rows: float, tell: Callable[[float], None]) -> Choice:
    """EBIC as in select.py, down to the noise and no further."""
    p = len(problem.S)
    top = 1.0001 * _highest(problem)
    least = min(max(problem.noise, 1e-4 * top), top)
    floor = least if least >= top or problem.is_safe(least) else least_safe(problem.is_safe, least, top, _HALVINGS)
    cost = math.log(rows) + 4 * GAMMA * math.log(p)
    tol = min(COARSE, max(FINE, _SHARP * cost / rows))
    bottom = _FIRST_SPAN * top if problem.is_safe(_FIRST_SPAN * top) else floor
    grid = [a for a in np.geomspace(top, bottom, GRID).tolist() if a >= 0.999 * floor] if bottom < top else [top]
    alphas: list[float] = []
    scores: list[float] = []
    edges: list[int] = []
    best: Solution | None = None
    before = again = None
    stopped, seen = "noise" if floor <= 1.001 * least else "barely", -1
    for place, alpha in enumerate(grid):
        before = problem.fit(alpha, before, tol)
        support = abs(before.precision) > NONZERO
        count = (int(support.sum()) - p) // 2
        if count != seen:  # along a path the same number of edges is the same graph
            again = problem.refit(support, tol, again)
        del support
        alphas.append(alpha)
        edges.append(count)
        scores.append(math.inf if again is None else rows * again.objective + count * cost)
        seen = count
        if scores[-1] <= min(scores):
            best = before
        tell((place + 1) / len(grid))
        if count > MOST_DEGREE * p / 2 or not before.converged:
            stopped = "dense" if before.converged else "slow"
            break
        if place - int(np.argmin(scores)) >= PATIENCE or again is None:
            stopped = "worse"
            break
    del before, again
    assert best is not None
    alpha = alphas[int(np.argmin(scores))]
    fine = best if tol <= FINE else problem.fit(alpha, best, min(tol, FINE * 10))
    skipped = f"Penalties below {alphas[-1]:.3g} were not tried: {FURTHER[stopped]}."
    return Choice("ebic", alpha, fine, tuple(alphas), tuple(scores), tuple(edges), skipped=skipped)


def _highest(problem: LargeProblem) -> float:
    found = 1e-3
    for rows in strips(problem.S):
        part = abs(problem.S[rows])
        if problem.weights is not None:
            part = part / problem.weights[rows]
        set_diagonal(part[:, rows], 0.0)
        found = max(found, float(part.max()))
    return found


def effective_rows(variance: Array) -> float:
    """Rows of clean data that would leave as much error in a typical entry; typical among those of some columns."""
    p = len(variance)
    some = np.unique(np.linspace(0, p - 1, min(p, _SOME)).astype(int)).tolist()
    values = to_host(variance[some])
    values[np.arange(len(some)), some] = np.nan
    return max(2.0, 1 / float(np.nanmedian(values)))
