"""Proximal Newton on the primal: for inputs where `cd` has no safe start. Needs nothing of S but symmetry.

Each step inverts T, minimises the quadratic model of the smooth part plus the penalty over the active pairs
(those not 0, or whose optimality condition is violated), and goes as far along that direction as T stays positive
definite and f falls enough. Where f has no minimum the iterates run off along a direction that proves it.
"""

from __future__ import annotations

import numpy as np

from hazeglass.glasso.kernels import SHORT, add_rows, descend, inlined, kernel
from hazeglass.glasso.linalg import FloatArray, cholesky, inverse, logdet
from hazeglass.glasso.objective import NO_LIMIT, Attempt, Certificate, Clock, Start, certify, linear_part
from hazeglass.glasso.penalty import Penalty

DEFAULT_MAX_ITER = 200
SUFFICIENT = 1e-3  # Armijo: the share of the predicted decrease that a step must bring
MAX_PASSES = 8
STALL = 10  # steps without halving the gap


def solve(
    S: FloatArray,
    penalty: Penalty,
    *,
    tol: float,
    max_iter: int | None = None,
    start: Start | None = None,
    clock: Clock = NO_LIMIT,
) -> Attempt:
    """Step until the gap is at most tol * p, the problem proves unbounded, no step helps, or the time is spent."""
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
        if clock.over:
            break
        D = _direction(S, penalty, T, W, count, 1.0 if best is None else min(1.0, best.gap / p), clock)
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
    fitted = penalty.fitted(np.diagonal(S))
    return np.diag(1.0 / fitted), np.asfortranarray(np.diag(1.0 / np.sqrt(fitted)))


def _direction(
    S: FloatArray, penalty: Penalty, T: FloatArray, W: FloatArray, count: int, gap: float, clock: Clock
) -> FloatArray:
    """The Newton direction, as precisely as the gap (per column) that is left calls for."""
    active = (T != 0) | (np.abs(S - W) > penalty.off)
    np.fill_diagonal(active, False)
    sizes = np.count_nonzero(active, axis=1)
    start, row = np.concatenate(([0], np.cumsum(sizes))), np.nonzero(active)[1].astype(np.uint64)
    most = int(np.max(sizes))
    D, U, scratch = np.zeros_like(T), np.zeros_like(T), (np.empty((most + SHORT, most)), np.empty(len(T)))
    goal = 0.1 * gap
    for _ in range(2 + count):
        moved = direction_sweep(S, penalty.off, penalty.diagonal, T, W, D, U, start, row, goal, MAX_PASSES, *scratch)
        if moved <= goal or clock.over:
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


@inlined
def dot(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@kernel
def direction_sweep(S, lam, diagonal, T, W, D, U, start, row, tol, max_pass, H, u):  # type: ignore[no-untyped-def]
    """One pass of coordinate descent for the direction; returns the largest move, in fitted standard deviations.

    Letters: T the precision, W its inverse, D the direction, U = D W. The direction minimises
        tr((S - W) D) + 1/2 tr(W D W D) + penalty(T + D)
    over symmetric D that live on the active pairs, one column j with its active rows A at a time: there the Hessian is
    H_ab = W_ab W_jj + W_aj W_bj, gathered once so that the inner descent runs in cache. The active rows of column j
    are row[start[j] : start[j + 1]]. H and u are scratch.
    """
    p = S.shape[0]
    full = lam.shape[0] > 1
    cap = H.shape[1]
    goal, change, pull, paid, inverse = H[cap], H[cap + 1], H[cap + 2], H[cap + 3], H[cap + 4]
    worst = 0.0
    for j in range(p):
        Wj = W[j]
        wjj = Wj[j]
        for i in range(p):
            u[i] = U[i, j]
        move = -(S[j, j] - wjj + diagonal[j] + dot(Wj, u)) / (wjj * wjj)
        D[j, j] += move
        u[j] += move * wjj
        Uj = U[j]
        for i in range(p):
            Uj[i] += move * Wj[i]
        moved = abs(move) * wjj
        worst = moved if moved > worst else worst
        A = row[start[j] : start[j + 1]]
        k = A.shape[0]
        if k == 0:
            continue
        lam_j = lam[j if full else 0]
        for a in range(k):
            i = A[a]
            Wi = W[i]
            pull[a] = -(S[j, i] - Wj[i] + dot(Wi, u))
            goal[a] = T[j, i] + D[j, i]
            change[a] = 0.0
            paid[a] = lam_j[i]
            out = H[a]
            for b in range(k):
                out[b] = Wi[A[b]] * wjj + Wj[i] * Wj[A[b]]
            inverse[a] = 1.0 / H[a, a]
        descend(H, k, pull, paid, goal, change, inverse, tol, max_pass)
        for a in range(k):
            i = A[a]
            step = change[a]
            if step != 0.0:
                D[j, i] += step
                D[i, j] = D[j, i]
                Ui = U[i]
                for b in range(p):
                    Ui[b] += step * Wj[b]
                moved = abs(step) * np.sqrt(wjj * W[i, i])
                worst = moved if moved > worst else worst
        add_rows(W, A, change, k, Uj)
    return worst
