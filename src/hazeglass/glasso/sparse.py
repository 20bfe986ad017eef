"""Two short cuts for a sparse T: its log determinant, and the duality gap beside a feasible W.

log det T: eliminate columns of low degree one by one, factor the dense rest. Eliminating a column with d neighbours
costs d^2 steps and joins them all, so columns go in order of degree until the degrees left make one dense Cholesky
factor of the rest the cheaper way. It is the same factorisation in another order: T is positive definite exactly when
every pivot and the rest are.

The gap: with T > 0 and M = T W - I similar to the symmetric E = T^(1/2) W T^(1/2) - I,

    gap(T, W) = [tr(S T) + penalty(T) - tr(W T)] + [tr(E) - log det(I + E)]

The first bracket is complementary slackness; the second is at most |E|^2 / (2 (1 - |E|)) when |E| < 1, which
also proves W > 0. The Frobenius norm of E is at most that of any matrix similar to it: D M D^-1 with
D = sqrt(diag(W)), whose entries have no unit. So W is never factored. Derivation: docs/maths/solvers.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hazeglass.glasso.cd_kernels import add_rows
from hazeglass.glasso.compiled import inlined, kernel
from hazeglass.glasso.linalg import FloatArray, cholesky, logdet


def sparse_logdet(T: FloatArray, start: NDArray[np.int64], column: NDArray[np.int64]) -> float | None:
    """log det T, or None where T is not positive definite; T is destroyed. (start, column): its rows, compressed."""
    p = T.shape[0]
    limit = min(16 + p // 60, 64)
    shape = (p, limit)
    total, left = eliminate(
        T, start, column, np.ones(p, np.bool_), np.empty(shape, np.int32), np.empty((2, p), np.int64), np.empty(limit)
    )
    if np.isnan(total):
        return None
    if left == 0:
        return float(total)
    factor = cholesky(T[:left, :left])
    return None if factor is None else float(total) + logdet(factor)


@inlined
def merge(near, size, v, around, d, i):  # type: ignore[no-untyped-def]
    """Take v out of near, the neighbours of i, and put in those of v (around); returns their number, limit + 1 at most.

    Past the limit i has too many to ever be eliminated, and near is not read any more.
    """
    for a in range(size):
        if near[a] == v:
            size -= 1
            near[a] = near[size]
            break
    for b in range(d):
        new = around[b]
        known = new == i
        for a in range(size):
            known |= near[a] == new
        if not known:
            if size == near.shape[0]:
                return size + 1
            near[size] = new
            size += 1
    return size


@kernel
def eliminate(T, start, column, alive, adjacent, long, weight):  # type: ignore[no-untyped-def]
    """Eliminate columns of degree <= limit, lowest first, and move the rest into the first rows and columns of T.

    Returns the sum of log pivots (NaN: one is not positive) and how many columns are left. alive holds True; adjacent,
    long and weight are scratch.
    """
    p, limit = adjacent.shape
    degree, work = long[0], long[1]
    for i in range(p):
        degree[i] = 0
        for a in range(start[i], start[i + 1]):
            if column[a] != i:
                if degree[i] < limit:
                    adjacent[i, degree[i]] = column[a]
                degree[i] += 1
    total = 0.0
    for level in range(limit + 1):
        filled = start[0]
        for v in range(p):
            if alive[v] and degree[v] == level:
                work[filled] = v
                filled += 1
        while filled > 0:
            filled -= 1
            v = work[filled]
            if not alive[v] or degree[v] > level:
                continue
            alive[v] = False
            pivot = T[v, v]
            if not pivot > 0.0:
                return np.nan, 0
            total += np.log(pivot)
            d = degree[v]
            around = adjacent[v]
            for a in range(d):
                weight[a] = T[v, around[a]]
            for a in range(d):
                i = around[a]
                row = T[i]
                share = weight[a] / pivot
                for b in range(d):
                    row[around[b]] -= share * weight[b]
                if degree[i] <= limit:
                    degree[i] = merge(adjacent[i], degree[i], v, around, d, i)
            for a in range(d):
                i = around[a]
                if degree[i] <= level and filled < p:
                    work[filled] = i
                    filled += 1
    left = start[0]
    for i in range(p):
        if alive[i]:
            row, out = T[i], T[left]
            for a in range(left):
                out[a] = row[work[a]]
            out[left] = row[i]
            work[left] = i
            left += 1
    return total, left


@kernel
def inverse_miss(start, column, entry, W, sd, enough, row):  # type: ignore[no-untyped-def]
    """Squared Frobenius norm of D (T W - I) D^-1; row is scratch.

    It ends early with a part of the sum where that is more than enough and the whole promises to stay below 0.2.
    """
    p = W.shape[0]
    total = 0.0
    for i in range(p):
        for j in range(p):
            row[j] = 0.0
        begin, end = start[i], start[i + 1]
        add_rows(W, column[begin:end], entry[begin:end], end - begin, row)
        row[i] -= 1.0
        here = 0.0
        for j in range(p):
            scaled = row[j] / sd[j]
            here += scaled * scaled
        total += here * sd[i] * sd[i]
        if total > enough and total * p < 0.2 * (i + 1):
            break
    return total
