"""Proximal Newton on the primal: for inputs where `cd` has no safe start. Needs nothing of S but symmetry.

Each step inverts T, minimises the quadratic model of the smooth part plus the penalty over the active pairs
(those not 0, or whose optimality condition is violated), and goes as far along that direction as T stays positive
definite and f falls enough. Where f has no minimum the iterates run off along a direction that proves it.
"""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.factor import FloatArray, cholesky, inverse, logdet
from hazeglass.analyst.objective import Certificate, certify, linear_part
from hazeglass.analyst.penalty import Penalty
from hazeglass.analyst.solvers.attempt import Attempt, Start

DEFAULT_MAX_ITER = 200
SUFFICIENT = 1e-3  # Armijo: the share of the predicted decrease that a step must bring
MAX_PASSES = 8
STALL = 10  # steps without halving the gap


def solve(
    S: FloatArray, penalty: Penalty, *, tol: float, max_iter: int | None = None, start: Start | None = None
) -> Attempt:
    """Step until the gap is at most tol * p, the problem proves unbounded, or no step helps."""
    p = penalty.size
    T, factor = _begin(S, penalty, start)
    value = linear_part(T, S, penalty) - logdet(factor)
    best: Certificate | None = None
    mark, last_progress, tried = np.inf, 0, 0
    for count in range(1, (max_iter or DEFAULT_MAX_ITER) + 1):
        tried = count
        W = inverse(factor)
        found = certify(T, S, penalty, W)
        if found is not None and (best is None or found.gap < best.gap):
            best = found
            if best.gap <= tol * p:
                break
            if best.gap < mark / 2:
                mark, last_progress = best.gap, count
        D = _direction(S, penalty, T, W, count, 1.0 if best is None else min(1.0, best.gap / p))
        step = _line_search(S, penalty, T, W, D, value)
        if step is None:
            break
        T, factor, value = step
        if linear_part(T, S, penalty) <= 0:
            return Attempt(None, count, unbounded=True)
        if best is not None and np.isfinite(best.gap) and count - last_progress > STALL:
            break
    return Attempt(best, tried)


def _begin(S: FloatArray, penalty: Penalty, start: Start | None) -> tuple[FloatArray, FloatArray]:
    """The start without its forbidden entries, or the diagonal; and its Cholesky factor."""
    if start is not None:
        T = start.precision.copy()
        if penalty.has_infinite:
            T[np.isinf(np.broadcast_to(penalty.off, T.shape)) & ~np.eye(len(T), dtype=bool)] = 0.0
        factor = cholesky(T)
        if factor is not None:
            return T, factor
    fitted = np.diagonal(S) + penalty.diagonal
    return np.diag(1.0 / fitted), np.asfortranarray(np.diag(1.0 / np.sqrt(fitted)))


def _direction(S: FloatArray, penalty: Penalty, T: FloatArray, W: FloatArray, count: int, gap: float) -> FloatArray:
    """The Newton direction, as precisely as the gap (per column) that is left calls for."""
    from hazeglass.analyst.solvers.newton_kernel import SHORT, direction_sweep

    active = (T != 0) | (np.abs(S - W) > penalty.off)
    np.fill_diagonal(active, False)
    sizes = np.count_nonzero(active, axis=1)
    start, row = np.concatenate(([0], np.cumsum(sizes))), np.nonzero(active)[1].astype(np.uint64)
    most = int(np.max(sizes))
    D, U, scratch = np.zeros_like(T), np.zeros_like(T), (np.empty((most + SHORT, most)), np.empty(len(T)))
    goal = 0.1 * gap
    for _ in range(2 + count):
        moved = direction_sweep(S, penalty.off, penalty.diagonal, T, W, D, U, start, row, goal, MAX_PASSES, *scratch)
        if moved <= goal:
            break
    return D


def _line_search(
    S: FloatArray, penalty: Penalty, T: FloatArray, W: FloatArray, D: FloatArray, value: float
) -> tuple[FloatArray, FloatArray, float] | None:
    """Halve the step until f falls by a share of what the model predicts; None where nothing is left to gain."""
    before = penalty.cost(T)
    predicted = float(np.vdot(S, D) - np.vdot(W, D)) + penalty.cost(T + D) - before
    if not predicted < 0:
        return None
    size = 1.0
    for _ in range(40):
        new = T + size * D
        factor = cholesky(new)
        if factor is not None:
            new_value = linear_part(new, S, penalty) - logdet(factor)
            if new_value <= value + SUFFICIENT * size * predicted + 1e-13 * abs(value):
                return new, factor, new_value
        size /= 2
    return None
