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

SHORT = 5  # vectors over a column's active rows, kept in the last rows of H


@inlined
def dot(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@kernel
def direction_sweep(S, lam, diagonal, T, W, D, U, start, row, tol, max_pass, H, u):  # type: ignore[no-untyped-def]
    """One pass over all blocks; returns the largest move, in units of the fitted standard deviations.

    The active rows of column j are row[start[j] : start[j + 1]]. H and u are scratch.
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
