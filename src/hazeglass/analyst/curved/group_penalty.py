"""The penalty of blocks: each pair of columns pays for the Frobenius norm of its block of the precision.

    minimise over T > 0:   f(T) = -log det T + tr(S T) + sum_ij lambda_ij |T_ij|_F       (T_ij a block, i = j included)
    maximise over W > 0:   g(W) = log det W + q          subject to |W_ij - S_ij|_F <= lambda_ij

tr(S T) + penalty(T) >= tr(W T) for every feasible W, and tr(W T) - log det(W T) >= q, so f(T) - g(W) >= 0: the same
certificate as the scalar one, which is the case of blocks of one (docs/maths/curved.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hazeglass.analyst.factor import FloatArray, cholesky, inverse, logdet
from hazeglass.analyst.objective import Certificate, linear_part

__all__ = ["GroupPenalty", "block_norms", "certify_blocks"]


def block_norms(matrix: FloatArray, size: int) -> FloatArray:
    """Frobenius norm of every block of `size` rows and columns."""
    p = len(matrix) // size
    return np.asarray(np.sqrt(np.square(matrix).reshape(p, size, p, size).sum(axis=(1, 3))))


def spread(values: FloatArray, size: int) -> FloatArray:
    """One value per block, repeated over the block's entries."""
    return np.repeat(np.repeat(values, size, axis=0), size, axis=1)


@dataclass(frozen=True, eq=False)
class GroupPenalty:
    """lambda for every pair of blocks; 0 leaves a block free, infinity forbids it."""

    alpha: float
    paid: FloatArray
    size: int

    def cost(self, T: FloatArray) -> float:
        """The whole penalty of T; infinite where a forbidden block is not zero."""
        norms = block_norms(T, self.size)
        with np.errstate(invalid="ignore"):
            return float(np.sum(np.where(norms == 0, 0.0, self.paid * norms)))

    def shrink(self, T: FloatArray, rho: float) -> FloatArray:
        """The proximal step: every block shortened by lambda / rho, to zero where it is shorter than that."""
        norms = block_norms(T, self.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(norms > 0, np.maximum(0.0, 1.0 - self.paid / (rho * norms)), 0.0)
        return T * spread(factor, self.size)

    def into_balls(self, W: FloatArray, S: FloatArray) -> FloatArray:
        """The nearest matrix whose blocks lie within lambda of those of S."""
        move = W - S
        norms = block_norms(move, self.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(norms > self.paid, self.paid / norms, 1.0)
        return S + move * spread(factor, self.size)


def certify_blocks(T: FloatArray, S: FloatArray, penalty: GroupPenalty, W: FloatArray) -> Certificate | None:
    """Prove how good T is; None where T is not positive definite.

    W need not be feasible: its blocks are moved into their balls first, and its positive definiteness is verified by
    Cholesky. Where that fails the inverse of T is tried, and where that fails as well the gap is infinite.
    """
    factor = cholesky(T)
    if factor is None:
        return None
    primal = linear_part(T, S, penalty) - logdet(factor)
    for guess in (W, inverse(factor)):
        dual = penalty.into_balls(guess, S)
        dual = (dual + dual.T) / 2
        dual_factor = cholesky(dual)
        if dual_factor is not None:
            gap = primal - logdet(dual_factor) - len(T)
            return Certificate(T, dual, primal, max(gap, 0.0), _stationarity(T, dual, S, penalty))
    return Certificate(T, guess, primal, float("inf"), float("inf"))


def _stationarity(T: FloatArray, W: FloatArray, S: FloatArray, penalty: GroupPenalty) -> float:
    """How far W - S is from lambda T / |T|_F on the blocks that are not zero."""
    norms = block_norms(T, penalty.size)
    paid = np.where(np.isfinite(penalty.paid), penalty.paid, 0.0)
    pull = np.divide(paid, norms, out=np.zeros_like(norms), where=norms > 0)
    miss = block_norms(W - S - T * spread(pull, penalty.size), penalty.size)
    return float(np.max(miss[norms > 0], initial=0.0))
