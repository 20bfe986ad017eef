"""Compiled part of `newton`: blocked coordinate descent for the Newton direction.

Letters: T the precision, W its inverse, D the direction, U = D W. The direction minimises
    tr((S - W) D) + 1/2 tr(W D W D) + penalty(T + D)
over symmetric D that live on the active pairs. A block is one column j with its active rows A: within it the
Hessian is H_ab = W_ab W_jj + W_aj W_bj, gathered once so that the inner descent runs in cache.
"""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.solvers.cd_kernel import add_rows, descend
from hazeglass.analyst.solvers.compiled import inlined, kernel


@kernel
def active_pairs(T, W, S, lam):  # type: ignore[no-untyped-def]
    """For each column the rows where T is not 0 or must leave it: (start, row) as compressed columns."""
    p = S.shape[0]
    full = lam.shape[0] > 1
    start = np.empty(p + 1, np.int64)
    start[0] = 0
    for j in range(p):
        paid = lam[j] if full else lam[0]
        count = 0
        for i in range(p):
            count += (i != j) & ((T[j, i] != 0.0) | (abs(S[j, i] - W[j, i]) > paid[i]))
        start[j + 1] = start[j] + count
    row = np.empty(start[p], np.uint64)
    for j in range(p):
        paid = lam[j] if full else lam[0]
        put = start[j]
        for i in range(p):
            if (i != j) and (T[j, i] != 0.0 or abs(S[j, i] - W[j, i]) > paid[i]):
                row[put] = np.uint64(i)
                put += 1
    return start, row


@inlined
def dot(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@kernel
def direction_sweep(S, lam, diagonal, T, W, D, U, start, row, tol, max_pass):  # type: ignore[no-untyped-def]
    """One pass over all blocks; returns the largest move, in units of the fitted standard deviations."""
    p = S.shape[0]
    full = lam.shape[0] > 1
    cap = 0
    for j in range(p):
        cap = max(cap, start[j + 1] - start[j])
    u = np.empty(p)
    H = np.empty((cap, cap))
    goal, before, pull, paid, inverse = np.empty(cap), np.empty(cap), np.empty(cap), np.empty(cap), np.empty(cap)
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
        worst = max(worst, abs(move) * wjj)
        A = row[start[j] : start[j + 1]]
        k = A.shape[0]
        if k == 0:
            continue
        lam_j = lam[j] if full else lam[0]
        for a in range(k):
            i = A[a]
            Wi = W[i]
            pull[a] = -(S[j, i] - Wj[i] + dot(Wi, u))
            goal[a] = T[j, i] + D[j, i]
            before[a] = goal[a]
            paid[a] = lam_j[i]
            out = H[a]
            for b in range(k):
                out[b] = Wi[A[b]] * wjj + Wj[i] * Wj[A[b]]
            inverse[a] = 1.0 / H[a, a]
        descend(H, k, pull, paid, goal, inverse, tol, max_pass)
        for a in range(k):
            i = A[a]
            step = goal[a] - before[a]
            before[a] = step
            if step != 0.0:
                D[j, i] += step
                D[i, j] = D[j, i]
                Ui = U[i]
                for b in range(p):
                    Ui[b] += step * Wj[b]
                worst = max(worst, abs(step) * np.sqrt(wjj * W[i, i]))
        add_rows(W, A, before, k, Uj)
    return worst
