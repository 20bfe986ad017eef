"""Compiled passes before and after the sweeps of `cd`: where W begins, and the precision it ends with.

Letters as in cd_kernel. Importing this file imports numba: do it where a solver runs.
"""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.solvers.compiled import kernel


@kernel
def threshold_into(S, lam, diagonal, W):  # type: ignore[no-untyped-def]
    """W = S moved towards zero by lam, with S + diagonal on the diagonal: always inside the box.

    Returns the mean over columns of the sum of squared correlations in W (how much columns say about each other)
    and the share of its entries that are not 0.
    """
    p = S.shape[0]
    full = lam.shape[0] > 1
    rate = np.empty(p)
    for i in range(p):
        rate[i] = 1.0 / (S[i, i] + diagonal[i])
    total = 0.0
    filled = 0
    for i in range(p):
        s, out = S[i], W[i]
        paid = lam[i] if full else lam[0]
        here = 0.0
        for j in range(p):
            moved = max(s[j] - paid[j], 0.0) + min(s[j] + paid[j], 0.0)
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
        paid = lam[i] if full else lam[0]
        for j in range(p):
            out[j] = min(max(source[j], s[j] - paid[j]), s[j] + paid[j])
        out[i] = s[i] + diagonal[i]


@kernel
def count_edges(T):  # type: ignore[no-untyped-def]
    """Non-zeros off the diagonal in each row of T."""
    p = T.shape[0]
    count = np.empty(p, np.int64)
    for j in range(p):
        row = T[j]
        here = 0
        for i in range(p):
            here += row[i] != 0.0
        count[j] = here - (row[j] != 0.0)
    return count


@kernel
def fill_lists(T, index, value):  # type: ignore[no-untyped-def]
    """beta_ij = -T_ij / T_jj for every column j."""
    p = T.shape[0]
    for j in range(p):
        row = T[j]
        put = 0
        for i in range(p):
            if row[i] != 0.0 and i != j:
                index[j, put] = i
                value[j, put] = -row[i] / row[j]
                put += 1


@kernel
def symmetrise(index, value, count, schur):  # type: ignore[no-untyped-def]
    """The precision as compressed rows: T_jj = 1/schur_j, T_ij the mean of what columns i and j say.

    Returns (start, column, entry); the diagonal comes first in each row.
    """
    p = count.shape[0]
    total = p
    for j in range(p):
        total += 2 * count[j]
    where, size = np.empty(p, np.int64), np.empty(p, np.int64)
    for j in range(p):
        where[j] = -1
        size[j] = 1
    # row lengths if every listed entry also created its mirror; the slack is squeezed out below
    for j in range(p):
        size[j] += count[j]
        for a in range(count[j]):
            size[index[j, a]] += 1
    start, fill = np.empty(p + 1, np.int64), np.empty(p, np.int64)
    start[0] = 0
    for j in range(p):
        fill[j] = start[j]
        start[j + 1] = start[j] + size[j]
    column = np.empty(total, np.int64)
    entry = np.empty(total)
    for j in range(p):
        column[fill[j]] = j
        entry[fill[j]] = 1.0 / schur[j]
        fill[j] += 1
    for j in range(p):
        for a in range(count[j]):
            i = np.int64(index[j, a])
            half = -0.5 * value[j, a] / schur[j]
            column[fill[j]], entry[fill[j]] = i, half
            column[fill[i]], entry[fill[i]] = j, half
            fill[j] += 1
            fill[i] += 1
    new_start = np.empty(p + 1, np.int64)
    new_start[0] = 0
    put = 0
    for j in range(p):
        begin = put
        for a in range(start[j], start[j + 1]):
            i = column[a]
            if where[i] >= begin:
                entry[where[i]] += entry[a]
            else:
                where[i] = put
                column[put], entry[put] = i, entry[a]
                put += 1
        new_start[j + 1] = put
    return new_start, column[:put], entry[:put]
