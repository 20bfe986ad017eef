"""`cd` where its own start is not safe: from a positive definite W inside the box, every lasso solved to the end.

Finding that W (or the proof that there is none) may take a search for the nearest positive semidefinite matrix. It is
worth it close to d(S), where the likelihood hardly has a minimum and newton and admm crawl.
"""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.factor import FloatArray, cholesky
from hazeglass.analyst.nearest_psd import psd_distance
from hazeglass.analyst.objective import clip_into_box
from hazeglass.analyst.penalty import Penalty
from hazeglass.analyst.solvers import cd
from hazeglass.analyst.solvers.attempt import Attempt, Start


def solve(
    S: FloatArray, penalty: Penalty, *, tol: float, max_iter: int | None = None, start: Start | None = None
) -> Attempt:
    """Patient sweeps from a safe start; `start` is not needed. No certificate: no such start was found in time."""
    fitted = np.diagonal(S) + penalty.diagonal
    begin = S + np.diag(np.broadcast_to(penalty.diagonal, fitted.shape))  # the start of the paper's Algorithm 1
    if cholesky(begin) is None:
        if penalty.alpha == 0:
            return Attempt(None, 0)
        steps = int(np.clip(5e10 / penalty.size**3, 100, 20_000))
        near = psd_distance(S, penalty.full() / penalty.alpha, threshold=penalty.alpha, max_steps=steps)
        if near.lower >= penalty.alpha:
            return Attempt(None, 0, unbounded=True)
        if not near.upper < penalty.alpha:
            return Attempt(None, 0)
        begin = _inside(near.nearest, S, penalty)
        if cholesky(begin) is None:
            return Attempt(None, 0)
    return cd.solve(
        S, penalty, tol=tol, max_iter=max_iter, start=Start(np.diag(1.0 / fitted), begin), effort=cd.PATIENT
    )


def _inside(nearest: FloatArray, S: FloatArray, penalty: Penalty) -> FloatArray:
    """`nearest` mixed with the fitted variances as far as the box allows, which makes it positive definite."""
    off = ~np.eye(penalty.size, dtype=bool) & (nearest != 0)
    room = (penalty.full() - np.abs(nearest - S))[off] / np.abs(nearest[off])
    share = float(np.clip(np.min(room, initial=1.0), 0.0, 1.0))
    return clip_into_box((1.0 - share) * nearest, S, penalty)
