"""Answers that need no iteration: one column, two columns, and nothing penalised off the diagonal."""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.objective import certify, clip_into_box
from hazeglass.analyst.penalty import Penalty
from hazeglass.analyst.solvers.attempt import Attempt


def solve(S: FloatArray, penalty: Penalty) -> Attempt | None:
    """The exact solution, or None where no closed form applies.

    With W known its inverse is T: for two columns the best off-diagonal is the point of its interval nearest to 0;
    with no penalty the box is the single point S + diagonal penalty.
    """
    p = penalty.size
    off = penalty.off[~np.eye(p, dtype=bool)] if not penalty.uniform else penalty.off[:, 1:]
    if p > 2 and np.any(off > 0):
        return None
    W = clip_into_box(np.zeros_like(S), S, penalty)
    if p == 1:
        T = 1.0 / W
    elif p == 2:
        determinant = float(W[0, 0] * W[1, 1] - W[0, 1] ** 2)
        if determinant <= 1e-14 * float(W[0, 0] * W[1, 1]):
            return Attempt(None, 0, unbounded=True)
        T = np.array([[W[1, 1], -W[0, 1]], [-W[0, 1], W[0, 0]]]) / determinant
        T += 0.0  # no negative zeros
    else:
        return _inverse(S, penalty, W)
    return Attempt(certify(T, S, penalty, W), 0)


def _inverse(S: FloatArray, penalty: Penalty, W: FloatArray) -> Attempt:
    """T = inverse of W, computed in units where W has ones on its diagonal."""
    scale = np.sqrt(np.diagonal(W))
    units = np.outer(scale, scale)
    values, vectors = np.linalg.eigh(W / units)
    if values[0] <= 1e-14 * values[-1]:
        return Attempt(None, 0, unbounded=True)
    T = (vectors / values) @ vectors.T / units
    return Attempt(certify((T + T.T) / 2, S, penalty, W), 0)
