"""The penalised likelihood of an inverse covariance, and the proof that an answer is one.

    minimise over T > 0:   f(T) = -log det T + tr(S T) + sum_ij lambda_ij |T_ij|_F
    maximise over W > 0:   g(W) = log det W + p          subject to |W_ij - S_ij|_F <= lambda_ij

T_ij is an entry, or a block of features. f(T) - g(W) >= 0 for every feasible pair, and is 0 only at the solution
W = inverse of T: it is the certificate each answer carries. Derivations: docs/maths/solvers.md, docs/maths/curved.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from hazeglass.glasso.linalg import FloatArray, cholesky, inverse, logdet
from hazeglass.glasso.penalty import Penalty, block_norms, rescale


@dataclass(frozen=True, eq=False)
class Start:
    """Where to begin: a positive definite precision and (nearly) its inverse."""

    precision: FloatArray = field(repr=False)
    covariance: FloatArray = field(repr=False)

    def part(self, rows: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Start:
        """The start of a subset of the columns; its precision is positive definite as well."""
        here = np.ix_(rows, rows)
        return Start(self.precision[here], self.covariance[here])


@dataclass(frozen=True, eq=False)
class Certificate(Start):
    """A positive definite T, a dual-feasible W, and what they prove about each other; others may start here."""

    objective: float
    gap: float
    kkt: float


@dataclass(frozen=True, eq=False)
class Attempt:
    """The best certified answer a solver found, if any; `unbounded` means it proved that there is none."""

    certificate: Certificate | None
    n_iter: int
    unbounded: bool = False
    solver: str = ""

    def reached(self, tol: float) -> bool:
        return self.certificate is not None and self.certificate.gap <= tol * self.certificate.precision.shape[0]


class Clock:
    """A time budget: seconds of this thread's processor time from now on, None for no limit."""

    def __init__(self, seconds: float | None = None) -> None:
        self.limited = seconds is not None
        self._end = time.thread_time() + (seconds or 0.0)

    @property
    def over(self) -> bool:
        """Whether the time is spent."""
        return self.limited and time.thread_time() > self._end


NO_LIMIT = Clock()


class Solver(Protocol):
    """Minimise f over T > 0 until gap/p <= tol or the clock says stop; max_iter None is the solver's own limit."""

    def __call__(
        self,
        S: FloatArray,
        penalty: Penalty,
        *,
        tol: float,
        max_iter: int | None = None,
        start: Start | None = None,
        clock: Clock = ...,
    ) -> Attempt: ...


def linear_part(T: FloatArray, S: FloatArray, penalty: Penalty) -> float:
    """tr(S T) + penalty(T): equals p at the solution; <= 0 for some T >= 0 proves that f has no minimum."""
    return float(np.vdot(S, T)) + penalty.cost(T)


def certify(T: FloatArray, S: FloatArray, penalty: Penalty, W: FloatArray | None = None) -> Certificate | None:
    """Prove how good T is; None where T is not positive definite.

    W is the solver's own estimate of the inverse, if it has one; it need not be feasible. What comes back
    is moved into the box and its positive definiteness verified by Cholesky. Where W fails (or is not
    given) the inverse of T is tried; where that fails as well the gap is infinite, which is true.
    """
    factor = cholesky(T)
    if factor is None:
        return None
    primal = linear_part(T, S, penalty) - logdet(factor)
    for given in (None,) if W is None else (W, None):
        guess = inverse(factor) if given is None else given
        dual = penalty.into_box(guess, S)
        dual_factor = cholesky(dual)
        if dual_factor is not None:
            gap = primal - logdet(dual_factor) - T.shape[0]
            return Certificate(T, dual, primal, max(gap, 0.0), _stationarity(T, dual, S, penalty))
    return Certificate(T, guess, primal, float("inf"), float("inf"))


def _stationarity(T: FloatArray, W: FloatArray, S: FloatArray, penalty: Penalty) -> float:
    """How far W is from S + lambda T / |T|_F where T is not 0, in units of the fitted standard deviations."""
    edges = block_norms(T, penalty.block) > 0
    paid = np.where(edges, penalty.full(), 0.0)
    miss = block_norms(W - S - rescale(T, paid, penalty.block), penalty.block)
    sd = np.sqrt(penalty.fitted(np.diagonal(S)))
    return float(np.max((miss / np.outer(sd, sd))[edges], initial=0.0))
