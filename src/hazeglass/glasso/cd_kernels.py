"""Compiled part of `cd`: where W begins, sweeps of coordinate descent over its columns, the precision it ends with.

Letters: S the covariance, lam the penalty off the diagonal ((1, p) or (p, p)), W the dual iterate. For one
column j: s = S[j], A the active set of its lasso, G = W[A, A], beta the coefficients, w = W beta the
column's new covariances.
"""

from __future__ import annotations

import numpy as np

from hazeglass.glasso.compiled import inlined, kernel

DONE, GROW, BROKEN = 0, 1, 2
BLOCK = 16  # columns between two copies from rows to columns
SHORT = 5  # vectors over the active set, kept in the last rows of G


@inlined
def add_rows(W, A, step, k, w):  # type: ignore[no-untyped-def]
    """w += sum over a < k of step[a] * W[A[a], :], four rows at a time so that w is read and written less."""
    for a in range(0, k, 4):
        b = a + 1 if a + 1 < k else a  # past the end: the first of the four again, times 0
        c = a + 2 if a + 2 < k else a
        d = a + 3 if a + 3 < k else a
        r0, r1, r2, r3 = W[A[a]], W[A[b]], W[A[c]], W[A[d]]
        s0 = step[a]
        s1 = step[b] if b > a else 0.0
        s2 = step[c] if c > a else 0.0
        s3 = step[d] if d > a else 0.0
        for i in range(w.shape[0]):
            w[i] += s0 * r0[i] + s1 * r1[i] + s2 * r2[i] + s3 * r3[i]


@inlined
def add_fresh_rows(W, A, step, k, w, done, j, keep):  # type: ignore[no-untyped-def]
    """add_rows while columns done..j-1 of W are only up to date in their rows: those entries come from there."""
    for i in range(done, j):
        keep[i - done] = w[i]
    add_rows(W, A, step, k, w)
    for i in range(done, j):
        row = W[i]
        total = keep[i - done]
        for a in range(k):
            total += step[a] * row[A[a]]
        w[i] = total


@inlined
def add_violators(s, w, lam, j, sd, A, beta, k, slack, excess):  # type: ignore[no-untyped-def]
    """Append to A the inactive entries that leave the box by more than slack; returns the new size (or -1: no room)."""
    p = w.shape[0]
    slack *= sd[j]
    count = 0.0
    for i in range(p):
        excess[i] = abs(s[i] - w[i]) - lam[i] - slack * sd[i]
        count += excess[i] > 0.0
    count -= excess[j] > 0.0
    if count == 0.0:
        return k
    excess[j] = -1.0
    for a in range(k):
        excess[A[a]] = -1.0
    for i in range(p):
        if excess[i] > 0.0:
            if k == A.shape[0]:
                return -1
            A[k] = np.uint64(i)
            beta[k] = 0.0
            k += 1
    return k


@inlined
def gather(W, A, k, G, done, j):  # type: ignore[no-untyped-def]
    """G = W[A, A], so that the inner descent runs in cache. Columns done..j-1 of W are read from their rows."""
    for a in range(k):
        row = W[A[a]]
        out = G[a]
        for b in range(k):
            out[b] = row[A[b]]
    for b in range(k):
        if done <= A[b] < j:
            row = W[A[b]]
            for a in range(k):
                G[a, b] = row[A[a]]


@inlined
def descend(G, k, pull, lam, beta, moved, inverse, tol, max_pass):  # type: ignore[no-untyped-def]
    """Coordinate descent on min 1/2 b'Gb - s'b + lam|b|, keeping pull = s - G b and adding up how far b moved.

    Stops when no step moves the fit by more than tol standard deviations (step^2 G_aa <= tol^2).
    """
    limit = tol * tol
    for _ in range(max_pass):
        worst = 0.0
        for a in range(k):
            old = beta[a]
            scale = inverse[a]
            target = pull[a] * scale + old
            cut = lam[a] * scale
            high, low = target - cut, target + cut
            new = (high if high > 0.0 else 0.0) + (low if low < 0.0 else 0.0)
            step = new - old
            if step != 0.0:
                beta[a] = new
                moved[a] += step
                row = G[a]
                for b in range(k):
                    pull[b] -= step * row[b]
                size = step * step / scale
                worst = size if size > worst else worst
        if worst <= limit:
            return


@inlined
def write_row(W, s, lam, w, j, done):  # type: ignore[no-untyped-def]
    """Put w, clipped into the box, into row j of W, and into column j of the rows done..j-1."""
    row = W[j]
    fitted = row[j]
    for i in range(w.shape[0]):
        low, high = s[i] - lam[i], s[i] + lam[i]
        raised = w[i] if w[i] > low else low
        row[i] = raised if raised < high else high
    row[j] = fitted
    for i in range(done, j):
        W[i, j] = row[i]


@inlined
def mirror_rows(W, done, stop):  # type: ignore[no-untyped-def]
    """Copy rows done..stop-1 of W into their columns: a few columns at once, because each cache line holds eight."""
    p = W.shape[0]
    for i in range(p):
        out = W[i]
        if done <= i < stop:
            for j in range(done, i):
                W[j, i] = out[j]
            continue
        for j in range(done, stop):
            out[j] = W[j, i]


@kernel
def sweep(S, lam, W, sd, index, value, count, schur, first, inner_tol, rounds, max_pass, A, G, long):  # type: ignore[no-untyped-def]
    """Update columns first..p-1 of W and their coefficients (index, value, count); sd = sqrt(diag(W)).

    Each column adds what violates its box to its active set and solves the lasso there, `rounds` times at most; what
    then violates is for the next sweep. Returns (status, column reached). GROW: the column's active set does not fit;
    BROKEN: a Schur complement is not positive, so W was not positive definite. A, G and long are scratch, made by the
    caller: allocating here would cost seconds of compilation.
    """
    p = S.shape[0]
    cap = A.shape[0]
    full = lam.shape[0] > 1
    w, spare = long[0], long[1]
    beta, step, pull, paid, inverse = G[cap], G[cap + 1], G[cap + 2], G[cap + 3], G[cap + 4]
    done = first
    status = DONE
    j = first
    while j < p:
        if j - done == BLOCK:
            mirror_rows(W, done, j)
            done = j
        s = S[j]
        lam_j = lam[j if full else 0]
        k = count[j]
        for a in range(k):
            A[a] = index[j, a]
            beta[a] = value[j, a]
            step[a] = beta[a]
        for i in range(p):
            w[i] = 0.0
        for round in range(rounds + 1):
            add_fresh_rows(W, A, step, k, w, done, j, spare)
            if round == rounds:
                break
            known = k
            k = add_violators(s, w, lam_j, j, sd, A, beta, k, inner_tol, spare)
            if k < 0 or (k == known and round > 0):
                break
            gather(W, A, k, G, done, j)
            for a in range(k):
                i = A[a]
                paid[a] = lam_j[i]
                inverse[a] = 1.0 / G[a, a]
                pull[a] = s[i] - w[i]
                step[a] = 0.0
            descend(G, k, pull, paid, beta, step, inverse, inner_tol * sd[j], max_pass)
        if k < 0:
            status = GROW
            break
        count[j] = 0
        explained = 0.0
        for a in range(k):
            if beta[a] != 0.0:
                explained += beta[a] * w[A[a]]
                index[j, count[j]] = A[a]
                value[j, count[j]] = beta[a]
                count[j] += 1
        schur[j] = W[j, j] - explained
        if not schur[j] > 0.0:
            status = BROKEN
            break
        write_row(W, s, lam_j, w, j, done)
        j += 1
    mirror_rows(W, done, j)
    return status, j


@kernel
def threshold_into(S, lam, diagonal, rate, W):  # type: ignore[no-untyped-def]
    """W = S moved towards zero by lam, with S + diagonal = 1 / rate on the diagonal: always inside the box.

    Returns the mean over columns of the sum of squared correlations in W (how much columns say about each other)
    and the share of its entries that are not 0.
    """
    p = S.shape[0]
    full = lam.shape[0] > 1
    total = filled = 0.0
    for i in range(p):
        s, out = S[i], W[i]
        paid = lam[i if full else 0]
        here = 0.0
        for j in range(p):
            high, low = s[j] - paid[j], s[j] + paid[j]
            moved = (high if high > 0.0 else 0.0) + (low if low < 0.0 else 0.0)
            out[j] = moved
            here += moved * moved * rate[j]
            filled += moved != 0.0
        here -= out[i] * out[i] * rate[i]
        out[i] = s[i] + diagonal[i]
        total += here * rate[i]
    return total / p, filled / (p * p)


@kernel
def clip_into(guess, S, lam, diagonal, W):  # type: ignore[no-untyped-def]
    """W = guess clipped into the box around S."""
    p = S.shape[0]
    full = lam.shape[0] > 1
    for i in range(p):
        s, source, out = S[i], guess[i], W[i]
        paid = lam[i if full else 0]
        for j in range(p):
            low, high = s[j] - paid[j], s[j] + paid[j]
            raised = source[j] if source[j] > low else low
            out[j] = raised if raised < high else high
        out[i] = s[i] + diagonal[i]


@kernel
def fill_lists(T, index, value, count):  # type: ignore[no-untyped-def]
    """beta_ij = -T_ij / T_jj for every column j. Where not all have room, count still says how many there are."""
    p, room = index.shape
    for j in range(p):
        row = T[j]
        count[j] = 0
        put = count[j]
        for i in range(p):
            if row[i] != 0.0 and i != j:
                if put < room:
                    index[j, put] = i
                    value[j, put] = -row[i] / row[j]
                put += 1
        count[j] = put


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
