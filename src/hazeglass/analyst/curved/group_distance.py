"""How far a symmetric matrix is from the positive semidefinite cone, measured by its blocks, with proof.

    d(S) = min over W >= 0 of max_ij |W_ij - S_ij|_F / w_ij  =  max over Z >= 0, sum w_ij |Z_ij|_F = 1 of -tr(S Z)

Any W bounds d(S) from above and any Z from below; alternating directions produce both. The group graphical lasso has an
estimate at alpha iff alpha > d(S).
"""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.curved.group_penalty import block_norms, spread
from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.nearest_psd import ConeStep, project_l1_ball, weighted_max

__all__ = ["group_distance"]

_STEPS = 2_000
_CHECK_EVERY = 5


def group_distance(S: FloatArray, weights: FloatArray, size: int, *, rtol: float = 0.01) -> tuple[float, float]:
    """Certified bounds on d(S), within rtol of each other unless the steps run out."""
    lowest = float(np.linalg.eigvalsh(S)[0])
    if lowest >= 0:
        return 0.0, 0.0
    unit = float(np.abs(S).max())
    step = ConeStep(
        S / unit, lambda V, radius: _into_ball(V, weights, size, radius), rho=1.0 / max(-lowest / unit, 1e-3) / len(S)
    )
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


def _into_ball(V: FloatArray, weights: FloatArray, size: int, radius: float) -> FloatArray:
    """Projection on sum w_ij |V_ij|_F <= radius: the norms move as in the scalar case, directions stay."""
    norms = block_norms(V, size)
    kept = project_l1_ball(norms, weights, radius)
    factor = np.divide(kept, norms, out=np.zeros_like(norms), where=norms > 0)
    return V * spread(factor, size)
