"""The certificate of coordinate descent, with two short cuts for a sparse T: its log determinant, and the gap.

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

from hazeglass.glasso.kernels import add_rows, inlined, kernel
from hazeglass.glasso.linalg import FloatArray, blank, cholesky, logdet
from hazeglass.glasso.objective import Certificate
from hazeglass.glasso.penalty import Penalty

SPARSE_FROM = 150  # columns from which eliminating those of low degree first pays where rows have few entries
PER_PAGE = 1 / 1024  # share of non-zeros below which most small pages of a matrix have none
Lists = tuple[NDArray[np.uint32], FloatArray, NDArray[np.int64], FloatArray]  # index, value, count, schur


def certify_sparse(
    beta: Lists, S: FloatArray, penalty: Penalty, W: FloatArray, sd: FloatArray, tol: float
) -> tuple[float, Certificate | None]:
    """The slackness of W and the precision that beta says, and their certificate where that leaves room for one."""
    p = penalty.size
    most = p + 2 * int(np.sum(beta[2]))
    start, column, entry = np.empty(p + 1, np.int64), np.empty(most, np.int64), np.empty(most)
    box = S, penalty.off, penalty.diagonal, W, sd
    size, slack, linear, kkt = symmetrise(*beta, *box, start, column, entry, np.empty((3, p + 1), np.int64))
    column, entry = column[:size], entry[:size]
    if slack > tol * p:
        return slack, None
    miss = np.inf
    if entry.size * 30 < p * p:  # cheaper than a Cholesky factor of W
        # a sum ended early is above 6 tol p, so the miss is above 3 tol p: never taken for the gap
        rows = start, column.astype(np.uint64), entry
        norm = float(np.sqrt(inverse_miss(*rows, W, sd, 6 * tol * p, np.empty(p))))
        miss = norm * norm / (2.0 * (1.0 - norm)) if norm < 1 else np.inf
        if norm < 0.5 and slack + miss > 3 * tol * p:
            return slack, None
    log_determinant, T = _logdet(start, column, entry)
    if log_determinant is None:
        return slack, None
    objective = linear - log_determinant
    gap = slack + miss
    if gap > tol * p:
        dual_factor = cholesky(W)
        if dual_factor is None:
            return slack, None
        gap = objective - logdet(dual_factor) - p
    dual = W.copy() if gap > tol * p else W  # the next sweep would overwrite it
    return slack, Certificate(T, dual, objective, max(gap, 0.0), kkt)


def _logdet(start: NDArray[np.int64], column: NDArray[np.int64], entry: FloatArray) -> tuple[float | None, FloatArray]:
    """log det of the precision given as compressed rows, None where it is not positive definite; and the precision."""
    p = start.size - 1
    if p >= SPARSE_FROM and column.size < min(30, p // 20) * p:
        found = sparse_logdet(_written(start, column, entry), start, column)
        return found, _written(start, column, entry)
    T = _written(start, column, entry)
    factor = cholesky(T)
    return None if factor is None else logdet(factor), T


def _written(start: NDArray[np.int64], column: NDArray[np.int64], entry: FloatArray) -> FloatArray:
    """The matrix of these compressed rows."""
    p = start.size - 1
    T = blank(p) if column.size < PER_PAGE * p * p else np.zeros((p, p))
    T.reshape(-1)[np.repeat(np.arange(0, p * p, p), np.diff(start)) + column] = entry
    return T


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


@kernel
def symmetrise(index, value, count, schur, S, lam, diagonal, W, sd, start, column, entry, scratch):  # type: ignore[no-untyped-def]
    """The precision as compressed rows: T_jj = 1/schur_j, T_ij the mean of what columns i and j say.

    Fills start, column and entry, the diagonal first in each row; returns how many entries there are, and on the same
    walk what the certificate needs: slackness beside W, tr(S T) + penalty(T), and stationarity.
    """
    p = count.shape[0]
    full = lam.shape[0] > 1
    where, fill, room = scratch[0], scratch[1], scratch[2]
    for j in range(p):
        where[j] = -1
        fill[j] = 1 + count[j]
    # row lengths if every listed entry also created its mirror; the slack is squeezed out below
    for j in range(p):
        for a in range(count[j]):
            fill[index[j, a]] += 1
    room[0] = 0
    for j in range(p):
        room[j + 1] = room[j] + fill[j]
        fill[j] = room[j] + 1
        column[room[j]] = j
        entry[room[j]] = 1.0 / schur[j]
    for j in range(p):
        for a in range(count[j]):
            i = np.int64(index[j, a])
            half = -0.5 * value[j, a] / schur[j]
            column[fill[j]] = i
            entry[fill[j]] = half
            column[fill[i]] = j
            entry[fill[i]] = half
            fill[j] += 1
            fill[i] += 1
    start[0] = 0
    put = start[0]
    slack = linear = worst = 0.0
    for j in range(p):
        for a in range(room[j], room[j + 1]):
            i = column[a]
            if where[i] >= start[j]:
                entry[where[i]] += entry[a]
            else:
                where[i] = put
                column[put] = i
                entry[put] = entry[a]
                put += 1
        s, w = S[j], W[j]
        paid = lam[j if full else 0]
        for a in range(start[j], put):
            i = column[a]
            t = entry[a]
            pays = diagonal[j] if i == j else (paid[i] if t > 0.0 else -paid[i])
            off = s[i] + pays - w[i]
            linear += (s[i] + pays) * t
            slack += off * t
            if i != j:
                off = abs(off) / (sd[i] * sd[j])
                worst = off if off > worst else worst
        start[j + 1] = put
    return put, slack, linear, worst
