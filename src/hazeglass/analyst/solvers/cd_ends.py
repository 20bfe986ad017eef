"""Compiled passes before and after the sweeps of `cd`: where W begins, and the precision it ends with.

Letters as in cd_kernel. Importing this file imports numba: do it where a solver runs.
"""

from __future__ import annotations

from hazeglass.analyst.solvers.compiled import kernel


@kernel
def threshold_into(S, lam, diagonal, rate, W):  # type: ignore[no-untyped-def]
    """W = S moved towards zero by lam, with S + diagonal = 1 / rate on the diagonal: always inside the box.

    Returns the mean over columns of the sum of squared correlations in W (how much columns say about each other)
    and the share of its entries that are not 0.
    """
    p = S.shape[0]
    full = lam.shape[0] > 1
    total = 0.0
    filled = 0
    for i in range(p):
        s, out = S[i], W[i]
        paid = lam[i] if full else lam[0]
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
        paid = lam[i] if full else lam[0]
        for j in range(p):
            low, high = s[j] - paid[j], s[j] + paid[j]
            raised = source[j] if source[j] > low else low
            out[j] = raised if raised < high else high
        out[i] = s[i] + diagonal[i]


@kernel
def count_edges(T, count):  # type: ignore[no-untyped-def]
    """count[j] = non-zeros off the diagonal in row j of T."""
    p = T.shape[0]
    for j in range(p):
        row = T[j]
        here = 0
        for i in range(p):
            here += row[i] != 0.0
        count[j] = here - (row[j] != 0.0)


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
def write_precision(index, value, count, schur, S, lam, diagonal, W, sd, T):  # type: ignore[no-untyped-def]
    """Write the precision into T, which is 0; returns (slackness, tr(S T) + penalty(T), stationarity) beside W.

    T_jj = 1 / schur_j, and T_ij is the mean of what columns i and j say: each adds its half in both places.
    """
    p = S.shape[0]
    full = lam.shape[0] > 1
    for j in range(p):
        T[j, j] = 1.0 / schur[j]
        for a in range(count[j]):
            i = index[j, a]
            half = -0.5 * value[j, a] / schur[j]
            T[j, i] += half
            T[i, j] += half
    slack = linear = worst = 0.0
    for j in range(p):
        s, w, t = S[j], W[j], T[j]
        paid = lam[j] if full else lam[0]
        pays = s[j] + diagonal[j]
        linear += pays * t[j]
        slack += (pays - w[j]) * t[j]
        for a in range(count[j]):
            i = index[j, a]
            both = -value[j, a] / schur[j]
            pull = s[i] + (paid[i] if t[i] > 0.0 else -paid[i])
            linear += pull * both
            slack += (pull - w[i]) * both
            off = abs(pull - w[i]) / (sd[i] * sd[j])
            worst = off if off > worst else worst
    return slack, linear, worst
