"""The paper's Algorithm 2, alternating directions: the slow, steady reference, for entries and blocks, any S.

The split is X = Z with -log det X + tr(S X) on X and the penalty on Z; a step costs one eigendecomposition. After each
step W = S + rho U is dual-feasible and complementary to Z, so the pair (Z, W) is certified by two Cholesky factors.
"""

from __future__ import annotations

import numpy as np

from hazeglass.glasso.linalg import FloatArray, cholesky
from hazeglass.glasso.objective import NO_LIMIT, Attempt, Certificate, Clock, Start, certify, linear_part
from hazeglass.glasso.penalty import Penalty, soft_threshold, spread

RELAXATION = 1.6
CHECK_EVERY = 5
ESCAPED = 1e12  # in units of the fitted variances: no float64 certificate could tell this from unbounded


def default_max_iter(p: int) -> int:
    """As many steps as a few minutes allow: 20,000 up to 200 rows of S, 1,600 at 500."""
    return int(np.clip(2e11 / p**3, 500, 20_000))


def solve(
    S: FloatArray,
    penalty: Penalty,
    *,
    tol: float,
    max_iter: int | None = None,
    start: Start | None = None,
    clock: Clock = NO_LIMIT,
) -> Attempt:
    """Run until the gap is at most tol * p, the problem proves unbounded, or steps or time are spent."""
    scale = np.sqrt(penalty.fitted(np.diagonal(S)))
    each = spread(np.outer(scale, scale), penalty.block)
    scaled, scaled_penalty = to_unit_diagonal(S, penalty, scale)
    state = Splitting(scaled, scaled_penalty, None if start is None else start.precision * each)
    last = max_iter or default_max_iter(len(S))
    best: Certificate | None = None
    count = 0
    for count in range(1, last + 1):
        state.advance()
        over = clock.over
        if count % CHECK_EVERY and count != last and not over:
            continue
        if state.escapes():
            return Attempt(None, count, unbounded=True)
        found = certify(state.sparse, scaled, scaled_penalty, scaled + state.rho * state.dual)
        if found is not None and (best is None or found.gap < best.gap):
            best = found
            if best.gap <= tol * len(S):
                break
        if over:
            break
        state.balance()
    if best is None:
        return Attempt(None, count)
    objective = best.objective + 2.0 * penalty.block * float(np.sum(np.log(scale)))
    return Attempt(Certificate(best.precision / each, best.covariance * each, objective, best.gap, best.kkt), count)


def to_unit_diagonal(S: FloatArray, penalty: Penalty, scale: FloatArray) -> tuple[FloatArray, Penalty]:
    """The same problem in units where the fitted variances are 1: f changes by a constant only."""
    units = np.outer(scale, scale)
    off = np.broadcast_to(penalty.off, units.shape) / units
    return S / spread(units, penalty.block), Penalty(penalty.alpha, off, penalty.diagonal / scale**2, penalty.block)


class Splitting:
    """X (positive definite), Z (sparse) and the scaled dual U."""

    def __init__(self, S: FloatArray, penalty: Penalty, start: FloatArray | None) -> None:
        self.S, self.penalty, self.paid, self.rho = S, penalty, penalty.full(), 1.0
        self.sparse = np.eye(S.shape[0]) if start is None else start
        self.positive = self.sparse
        self.dual = np.zeros_like(S)
        self.primal_miss = self.dual_miss = 0.0

    def advance(self) -> None:
        """X solves rho X - inv(X) = rho (Z - U) - S; Z is shrunk; U collects what is left."""
        values, vectors = np.linalg.eigh(self.rho * (self.sparse - self.dual) - self.S)
        # the positive root of rho x^2 - v x - 1 = 0, in the form that does not cancel
        root = np.sqrt(values**2 + 4.0 * self.rho)
        roots = np.where(values > 0, (values + root) / (2.0 * self.rho), 2.0 / (root - values))
        self.positive = (vectors * roots) @ vectors.T
        self.positive = (self.positive + self.positive.T) / 2
        moved = RELAXATION * self.positive + (1.0 - RELAXATION) * self.sparse + self.dual
        sparse = soft_threshold(moved, self.paid / self.rho, self.penalty.block)
        left = float(np.linalg.norm(moved - sparse))
        self.dual_miss = float(np.linalg.norm(sparse - self.sparse)) / max(left, 1e-300)
        self.primal_miss = float(np.linalg.norm(self.positive - sparse)) / float(np.linalg.norm(self.positive))
        self.dual = moved - sparse
        self.sparse = sparse

    def escapes(self) -> bool:
        """Whether f falls for ever: along X, along Z (X has no zeros, so infinite weights hide it), or out of range."""
        if linear_part(self.positive, self.S, self.penalty) <= 0 or float(np.abs(self.positive).max()) > ESCAPED:
            return True
        return linear_part(self.sparse, self.S, self.penalty) <= 0 and cholesky(self.sparse) is not None

    def balance(self) -> None:
        """Move rho towards equal relative residuals."""
        ratio = np.sqrt(max(self.primal_miss, 1e-300) / max(self.dual_miss, 1e-300))
        if 0.5 < ratio < 2.0:
            return
        factor = float(np.clip(ratio, 0.2, 5.0))
        self.rho *= factor
        self.dual /= factor
