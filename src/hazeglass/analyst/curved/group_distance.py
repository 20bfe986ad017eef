"""How far a symmetric matrix is from the positive semidefinite cone, measured by its blocks, with proof.

    d(S) = min over W >= 0 of max_ij |W_ij - S_ij|_F / w_ij  =  max over Z >= 0, sum w_ij |Z_ij|_F = 1 of -tr(S Z)

Any W bounds d(S) from above and any Z from below; alternating directions produce both. The group graphical lasso has an
estimate at alpha iff alpha > d(S).
"""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.curved.group_penalty import block_norms, spread
from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.nearest_psd import project_l1_ball, weighted_max

__all__ = ["group_distance"]

_STEPS = 2_000
_CHECK_EVERY = 5


def group_distance(S: FloatArray, weights: FloatArray, size: int, *, rtol: float = 0.01) -> tuple[float, float]:
    """Certified bounds on d(S), within rtol of each other unless the steps run out."""
    lowest = float(np.linalg.eigvalsh(S)[0])
    if lowest >= 0:
        return 0.0, 0.0
    unit = float(np.abs(S).max())
    step = _Step(S / unit, weights, size, rho=1.0 / max(-lowest / unit, 1e-3) / len(S))
    lower, upper = 0.0, np.inf
    for count in range(_STEPS):
        near, left_over = step.advance()
        if count % _CHECK_EVERY:
            continue
        upper = min(upper, weighted_max(block_norms(near - S / unit, size), weights))
        norms = block_norms(left_over, size)
        gain = -float(np.vdot(S / unit, left_over))
        with np.errstate(invalid="ignore"):
            paid = float(np.sum(np.where(norms == 0, 0.0, weights * norms)))
        if gain > 0:
            lower = max(lower, gain / paid if paid > 0 else np.inf)
        if upper - lower <= rtol * upper:
            break
        if count % (4 * _CHECK_EVERY) == 0:
            step.balance()
    return min(lower, upper) * unit, upper * unit


class _Step:
    """One step: project on the cone, then apply the prox of the largest weighted norm of a block."""

    def __init__(self, target: FloatArray, weights: FloatArray, size: int, rho: float) -> None:
        self.target, self.weights, self.size, self.rho = target, weights, size, rho
        self.near = target.copy()
        self.dual = np.zeros_like(target)
        self.primal_miss = self.dual_miss = 0.0

    def advance(self) -> tuple[FloatArray, FloatArray]:
        """A positive semidefinite candidate for W, and one (not yet scaled) for Z."""
        values, vectors = np.linalg.eigh(self.near - self.dual)
        psd = (vectors * np.maximum(values, 0.0)) @ vectors.T
        left_over = (vectors * np.maximum(-values, 0.0)) @ vectors.T
        moved = 1.6 * psd - 0.6 * self.near + self.dual
        self.dual = self._into_ball(moved - self.target)
        near = moved - self.dual
        self.dual_miss = self.rho * float(np.linalg.norm(near - self.near))
        self.primal_miss = float(np.linalg.norm(psd - near))
        self.near = near
        return psd, left_over

    def _into_ball(self, V: FloatArray) -> FloatArray:
        """Projection on sum w_ij |V_ij|_F <= 1/rho: the norms move as in the scalar case, directions stay."""
        norms = block_norms(V, self.size)
        kept = project_l1_ball(norms, self.weights, 1.0 / self.rho)
        factor = np.divide(kept, norms, out=np.zeros_like(norms), where=norms > 0)
        return V * spread(factor, self.size)

    def balance(self) -> None:
        """Keep the two residuals, each relative to its variable, within a factor of 9 of each other."""
        primal = self.primal_miss / max(float(np.linalg.norm(self.near)), 1e-300)
        dual = self.dual_miss / max(self.rho * float(np.linalg.norm(self.dual)), 1e-300)
        factor = float(np.sqrt(max(primal, 1e-300) / max(dual, 1e-300)))
        if 1 / 3 < factor < 3:
            return
        factor = float(np.clip(factor, 0.2, 5.0))
        if 1e-9 < self.rho * factor < 1e9:
            self.rho *= factor
            self.dual /= factor
