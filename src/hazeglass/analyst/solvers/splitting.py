"""Alternating directions for a penalised likelihood, whatever the penalty: one eigendecomposition per step, any S.

The split is X = Z with -log det X + tr(S X) on X and the penalty on Z. After each step W = S + rho U is dual-feasible
and complementary to Z, so the pair (Z, W) is certified by two Cholesky factors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hazeglass.analyst.factor import FloatArray, cholesky
from hazeglass.analyst.objective import Certificate
from hazeglass.analyst.solvers.attempt import Attempt

RELAXATION = 1.6
CHECK_EVERY = 5
ESCAPED = 1e12  # in units of the fitted variances: no float64 certificate could tell this from unbounded

Shrink = Callable[[FloatArray, float], FloatArray]  # the penalty's proximal step for (Z, rho)
Linear = Callable[[FloatArray], float]  # tr(S T) + penalty(T)


def default_max_iter(p: int) -> int:
    """As many steps as a few minutes allow: 20,000 up to 200 columns, 1,600 at 500."""
    return int(np.clip(2e11 / p**3, 500, 20_000))


class Splitting:
    """X (positive definite), Z (sparse) and the scaled dual U."""

    def __init__(self, S: FloatArray, shrink: Shrink, linear: Linear, start: FloatArray | None) -> None:
        self.S, self.shrink, self.linear, self.rho = S, shrink, linear, 1.0
        self.sparse = np.eye(S.shape[0]) if start is None else start
        self.positive = self.sparse
        self.dual = np.zeros_like(S)
        self.primal_miss = self.dual_miss = 0.0

    def run(self, certify: Callable[[FloatArray, FloatArray], Certificate | None], tol: float, last: int) -> Attempt:
        """Step until (Z, W) is certified to tol * p, the problem proves unbounded, or `last` steps are done."""
        best: Certificate | None = None
        count = 0
        for count in range(1, last + 1):
            self.advance()
            if count % CHECK_EVERY and count != last:
                continue
            if self.escapes():
                return Attempt(None, count, unbounded=True)
            found = certify(self.sparse, self.S + self.rho * self.dual)
            if found is not None and (best is None or found.gap < best.gap):
                best = found
                if best.gap <= tol * len(self.S):
                    break
            self.balance()
        return Attempt(best, count)

    def advance(self) -> None:
        """X solves rho X - inv(X) = rho (Z - U) - S; Z is shrunk; U collects what is left."""
        values, vectors = np.linalg.eigh(self.rho * (self.sparse - self.dual) - self.S)
        # the positive root of rho x^2 - v x - 1 = 0, in the form that does not cancel
        root = np.sqrt(values**2 + 4.0 * self.rho)
        roots = np.where(values > 0, (values + root) / (2.0 * self.rho), 2.0 / (root - values))
        self.positive = (vectors * roots) @ vectors.T
        self.positive = (self.positive + self.positive.T) / 2
        moved = RELAXATION * self.positive + (1.0 - RELAXATION) * self.sparse + self.dual
        sparse = self.shrink(moved, self.rho)
        left = float(np.linalg.norm(moved - sparse))
        self.dual_miss = float(np.linalg.norm(sparse - self.sparse)) / max(left, 1e-300)
        self.primal_miss = float(np.linalg.norm(self.positive - sparse)) / float(np.linalg.norm(self.positive))
        self.dual = moved - sparse
        self.sparse = sparse

    def escapes(self) -> bool:
        """Whether f falls for ever: along X, along Z (X has no zeros, so infinite weights hide it), or out of range."""
        if self.linear(self.positive) <= 0 or float(np.abs(self.positive).max()) > ESCAPED:
            return True
        return self.linear(self.sparse) <= 0 and cholesky(self.sparse) is not None

    def balance(self) -> None:
        """Move rho towards equal relative residuals."""
        ratio = np.sqrt(max(self.primal_miss, 1e-300) / max(self.dual_miss, 1e-300))
        if 0.5 < ratio < 2.0:
            return
        factor = float(np.clip(ratio, 0.2, 5.0))
        self.rho *= factor
        self.dual /= factor
