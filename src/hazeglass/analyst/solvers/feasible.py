"""A positive definite W inside the box, for `cd` when it was asked for by name: the paper's start, or a dear one."""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.factor import FloatArray, cholesky
from hazeglass.analyst.nearest_psd import psd_distance
from hazeglass.analyst.objective import clip_into_box
from hazeglass.analyst.penalty import Penalty
from hazeglass.analyst.solvers.attempt import Start


def feasible_start(S: FloatArray, penalty: Penalty) -> Start | None:
    """S with the penalty added to its diagonal (Algorithm 1's start) where that is positive definite.

    Else the nearest positive semidefinite matrix, mixed with the fitted variances as far as the box allows.
    """
    if penalty.alpha == 0:
        return None
    fitted = np.diagonal(S) + penalty.diagonal
    raised = S + np.diag(np.broadcast_to(penalty.diagonal, fitted.shape))
    if cholesky(raised) is not None:
        return Start(np.diag(1.0 / fitted), raised)
    paid = penalty.full()
    near = psd_distance(S, paid / penalty.alpha)
    if not near.upper < penalty.alpha:
        return None
    off = ~np.eye(penalty.size, dtype=bool) & (near.nearest != 0)
    room = (paid - np.abs(near.nearest - S))[off] / np.abs(near.nearest[off])
    share = float(np.clip(np.min(room, initial=1.0), 0.0, 1.0))
    W = clip_into_box((1.0 - share) * near.nearest, S, penalty)
    if cholesky(W) is None:
        return None
    return Start(np.diag(1.0 / fitted), W)
