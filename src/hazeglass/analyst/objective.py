"""The penalised likelihood of an inverse covariance, and the proof that an answer is one.

    minimise over T > 0:   f(T) = -log det T + tr(S T) + sum_ij lambda_ij |T_ij|
    maximise over W > 0:   g(W) = log det W + p          subject to |W_ij - S_ij| <= lambda_ij

f(T) - g(W) >= 0 for every feasible pair, and is 0 only at the solution W = inverse of T: it is the
certificate each answer carries. Derivations: docs/maths/solvers.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hazeglass.analyst.factor import FloatArray, cholesky, inverse, logdet
from hazeglass.analyst.penalty import Penalty


@dataclass(frozen=True, eq=False)
class Certificate:
    """A positive definite T, a dual-feasible W, and what they prove about each other."""

    precision: FloatArray
    covariance: FloatArray
    objective: float
    gap: float
    kkt: float


class Costly(Protocol):
    """Any penalty on a precision matrix."""

    def cost(self, T: FloatArray) -> float: ...


def linear_part(T: FloatArray, S: FloatArray, penalty: Costly) -> float:
    """tr(S T) + penalty(T): equals p at the solution; <= 0 for some T >= 0 proves that f has no minimum."""
    return float(np.vdot(S, T)) + penalty.cost(T)


def objective_value(T: FloatArray, S: FloatArray, penalty: Penalty) -> float:
    """f(T), or infinity where T is not positive definite."""
    factor = cholesky(T)
    return float("inf") if factor is None else linear_part(T, S, penalty) - logdet(factor)


def gradient(T: FloatArray, S: FloatArray) -> FloatArray:
    """Gradient of the smooth part of f: S - inverse of T."""
    factor = cholesky(T)
    if factor is None:
        raise np.linalg.LinAlgError("the gradient needs a positive definite matrix")
    return S - inverse(factor)


def clip_into_box(W: FloatArray, S: FloatArray, penalty: Penalty) -> FloatArray:
    """The nearest matrix with |W - S| <= lambda; on the diagonal S + lambda, which the solution always attains."""
    clipped: FloatArray = np.minimum(W, S + penalty.off)
    np.maximum(clipped, S - penalty.off, out=clipped)
    np.fill_diagonal(clipped, np.diagonal(S) + penalty.diagonal)
    return clipped


def stationarity(T: FloatArray, W: FloatArray, S: FloatArray, penalty: Penalty) -> float:
    """How far W is from S + lambda sign(T) where T is not 0, in units of sqrt((S + lambda)_ii (S + lambda)_jj)."""
    rows, cols = np.nonzero(np.triu(T, 1))
    if rows.size == 0:
        return 0.0
    scale = np.sqrt(np.diagonal(S) + penalty.diagonal)
    paid = penalty.off[0, cols] if penalty.uniform else penalty.off[rows, cols]
    miss = np.abs(W[rows, cols] - S[rows, cols] - paid * np.sign(T[rows, cols]))
    return float(np.max(miss / (scale[rows] * scale[cols])))


def certify(T: FloatArray, S: FloatArray, penalty: Penalty, W: FloatArray | None = None) -> Certificate | None:
    """Prove how good T is; None where T is not positive definite.

    W is the solver's own estimate of the inverse, if it has one; it need not be feasible. What comes back
    is clipped into the box and its positive definiteness verified by Cholesky. Where W fails (or is not
    given) the inverse of T is tried; where that fails as well the gap is infinite, which is true.
    """
    factor = cholesky(T)
    if factor is None:
        return None
    primal = linear_part(T, S, penalty) - logdet(factor)
    for given in (None,) if W is None else (W, None):
        guess = inverse(factor) if given is None else given
        dual = clip_into_box(guess, S, penalty)
        dual_factor = cholesky(dual)
        if dual_factor is not None:
            gap = primal - logdet(dual_factor) - T.shape[0]
            return Certificate(T, dual, primal, max(gap, 0.0), stationarity(T, dual, S, penalty))
    return Certificate(T, guess, primal, float("inf"), float("inf"))
