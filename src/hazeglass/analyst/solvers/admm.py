"""The paper's Algorithm 2, alternating directions: the slow, steady reference. See splitting.py for the steps."""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.factor import FloatArray, soft_threshold
from hazeglass.analyst.objective import Certificate, certify, linear_part
from hazeglass.analyst.penalty import Penalty
from hazeglass.analyst.solvers.attempt import Attempt, Start
from hazeglass.analyst.solvers.splitting import Splitting, default_max_iter


def solve(
    S: FloatArray, penalty: Penalty, *, tol: float, max_iter: int | None = None, start: Start | None = None
) -> Attempt:
    """Run until the gap is at most tol * p, the problem proves unbounded, or max_iter steps are done."""
    scale = np.sqrt(np.diagonal(S) + penalty.diagonal)
    scaled, scaled_penalty = to_unit_diagonal(S, penalty, scale)
    paid = scaled_penalty.full()
    state = Splitting(
        scaled,
        shrink=lambda T, rho: soft_threshold(T, paid / rho),
        linear=lambda T: linear_part(T, scaled, scaled_penalty),
        start=None if start is None else start.precision * np.outer(scale, scale),
    )
    last = max_iter or default_max_iter(len(scale))
    found = state.run(lambda T, W: certify(T, scaled, scaled_penalty, W), tol, last)
    return Attempt(found.certificate and _to_original(found.certificate, scale), found.n_iter, found.unbounded)


def to_unit_diagonal(S: FloatArray, penalty: Penalty, scale: FloatArray) -> tuple[FloatArray, Penalty]:
    """The same problem in units where the fitted variances S_ii + lambda_ii are 1: f changes by a constant only."""
    units = np.outer(scale, scale)
    off = np.broadcast_to(penalty.off, units.shape) / units
    return S / units, Penalty(penalty.alpha, off, penalty.diagonal / scale**2)


def _to_original(found: Certificate, scale: FloatArray) -> Certificate:
    units = np.outer(scale, scale)
    objective = found.objective + 2.0 * float(np.sum(np.log(scale)))
    return Certificate(found.precision / units, found.covariance * units, objective, found.gap, found.kkt)
