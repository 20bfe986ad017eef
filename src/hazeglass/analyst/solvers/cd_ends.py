"""Compiled passes before and after the sweeps of `cd`: where W begins, and the precision it ends with.

Letters as in cd_kernel. Importing this file imports numba: do it where a solver runs.
"""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.solvers.compiled import kernel


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
