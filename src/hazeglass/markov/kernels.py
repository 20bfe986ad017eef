"""Compiled loops over chains of rows, in whole numbers only, so that every computer draws the same rows.

A field gives a row x the weight 2^(e/4096), e = sum_i unary[x_i] + sum_ij pair[x_i, x_j]. States are counted through
all columns: `at[i]` is the number of the first state of column i. Each chain has a stream of its own (splitmix64), so
the order in which chains are worked on does not matter. Importing this file imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

BITS = 12  # of the fraction of an exponent
WEIGHT = 24  # bits of the largest weight
MOST_STATES = 256  # of a column


def _compiled(function: Callable[..., Any]) -> Any:
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found nowhere to write its cache
        return numba.njit(nogil=True)(function)


@_compiled
def _random(stream):  # type: ignore[no-untyped-def]
    """The stream's next state, and 31 random bits."""
    stream = stream + np.uint64(0x9E3779B97F4A7C15)
    z = (stream ^ (stream >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return stream, np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(33))


@_compiled
def _energies(row, i, e, unary, pair, at, first, beside):  # type: ignore[no-untyped-def]
    """Exponents of the states of column i, the others being as they are."""
    low = at[i]
    size = at[i + 1] - low
    for a in range(size):
        e[a] = unary[low + a]
    for k in range(first[i], first[i + 1]):
        j = beside[k]
        table = pair[at[j] + row[j]]
        for a in range(size):
            e[a] += table[low + a]
    return size


@_compiled
def _pick(e, size, allowed, w, powers, stream):  # type: ignore[no-untyped-def]
    """One of the allowed states, by its weight."""
    most = np.int32(-(1 << 30))
    for a in range(size):
        if allowed[a] and e[a] > most:
            most = e[a]
    total = np.int64(0)
    for a in range(size):
        below = np.int64(most) - e[a]
        shift = below >> BITS
        if allowed[a] and shift <= WEIGHT:
            total += powers[below & ((1 << BITS) - 1)] >> shift
        w[a] = total
    stream, u = _random(stream)
    place = (u * total) >> 31
    a = 0
    while w[a] <= place:
        a += 1
    return stream, a


@_compiled
def sweep(rows, streams, sweeps, unary, pair, at, first, beside, order, span, parent, given, worth, powers):  # type: ignore[no-untyped-def]
    """Let every chain move `sweeps` times: subtrees of the start's tree together, then every column by itself."""
    p = rows.shape[1]
    e, w = np.zeros(MOST_STATES, np.int32), np.zeros(MOST_STATES, np.int64)
    allowed = np.ones(MOST_STATES, np.bool_)
    new, place = np.zeros(p, np.uint8), np.zeros(p, np.int64)
    for k in range(p):
        place[order[k]] = k
    for r in range(rows.shape[0]):
        row, stream = rows[r], streams[r]
        for _ in range(sweeps):
            for _ in range(p // 4 + 1):
                stream, u = _random(stream)
                stream = _regrow(
                    row, (u * p) >> 31, new, place, stream, unary, pair, at, first, beside, order, span, parent,
                    given, worth, powers,
                )  # fmt: skip
            for i in range(p):
                size = _energies(row, i, e, unary, pair, at, first, beside)
                stream, a = _pick(e, size, allowed, w, powers, stream)
                row[i] = a
        streams[r] = stream


@_compiled
def _from_parent(row, i, parent, given, at, stream):  # type: ignore[no-untyped-def]
    """A state of column i given its parent's, by cumulative weights of 2^30 in all; a root's stand in its own rows."""
    above = at[parent[i]] + row[parent[i]] if parent[i] >= 0 else at[i]
    stream, u = _random(stream)
    u >>= 1
    a = 0
    while given[above, at[i] + a] <= u:
        a += 1
    return stream, a


@_compiled
def plant(rows, streams, order, parent, given, at):  # type: ignore[no-untyped-def]
    """Begin every chain with a draw from the tree."""
    for r in range(rows.shape[0]):
        row, stream = rows[r], streams[r]
        for i in order:
            stream, a = _from_parent(row, i, parent, given, at, stream)
            row[i] = a
        streams[r] = stream


@_compiled
def _regrow(row, start, new, place, stream, unary, pair, at, first, beside, order, span, parent, given, worth, powers):  # type: ignore[no-untyped-def]
    """Propose new states for the subtree at place `start` of the order; Metropolis and Hastings decide."""
    end = start + span[start]
    for k in range(row.size):
        new[k] = row[k]
    gain = np.int64(0)
    for k in range(start, end):
        i = order[k]
        stream, a = _from_parent(new, i, parent, given, at, stream)
        new[i] = a
        above = parent[i]
        here, there = (at[i], at[i]) if above < 0 else (at[above] + row[above], at[above] + new[above])
        gain += worth[here, at[i] + row[i]] - worth[there, at[i] + a]
        gain += unary[at[i] + a] - unary[at[i] + row[i]]
    for k in range(start, end):
        i = order[k]
        old_table, new_table = pair[at[i] + row[i]], pair[at[i] + new[i]]
        for m in range(first[i], first[i + 1]):
            j = beside[m]
            if place[j] < start or place[j] >= end or place[j] > k:
                gain += new_table[at[j] + new[j]] - old_table[at[j] + row[j]]
    stream, u = _random(stream)
    shift = (-gain) >> BITS
    if gain >= 0 or (shift <= WEIGHT and (u >> (31 - WEIGHT)) < powers[(-gain) & ((1 << BITS) - 1)] >> shift):
        for k in range(start, end):
            row[order[k]] = new[order[k]]
    return stream


@_compiled
def count_pairs(rows, at, found):  # type: ignore[no-untyped-def]
    """Add to `found` how many rows have two states, for columns i <= j."""
    p = rows.shape[1]
    for r in range(rows.shape[0]):
        for i in range(p):
            table = found[at[i] + rows[r, i]]
            for j in range(i, p):
                table[at[j] + rows[r, j]] += 1


@_compiled
def rake(rows, streams, quota, unary, pair, at, first, beside, powers):  # type: ignore[no-untyped-def]
    """Move as few cells as it takes to give every state its quota of the rows, the likeliest moves first."""
    n, p = rows.shape
    e, w = np.zeros(MOST_STATES, np.int32), np.zeros(MOST_STATES, np.int64)
    allowed, more = np.zeros(MOST_STATES, np.bool_), np.zeros(MOST_STATES, np.int64)
    for i in range(p):
        size = at[i + 1] - at[i]
        for a in range(size):
            more[a] = -quota[at[i] + a]
        for r in range(n):
            more[rows[r, i]] += 1
        left = np.int64(0)
        for a in range(size):
            allowed[a] = more[a] < 0
            left += abs(more[a])
        for turn in range(9):
            r = 0
            while r < n and left > 0:
                now = rows[r, i]
                if more[now] > 0:
                    _energies(rows[r], i, e, unary, pair, at, first, beside)
                    allowed[now] = turn < 8  # whoever did not move by choice moves in the last turn
                    streams[r], a = _pick(e, size, allowed, w, powers, streams[r])
                    allowed[now] = False
                    if a != now:
                        rows[r, i] = a
                        more[now] -= 1
                        more[a] += 1
                        allowed[a] = more[a] < 0
                        left -= 2
                r += 1
