"""Compiled passes over the whole of S: what is wrong with it, and which columns hang together."""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.solvers.compiled import kernel


@kernel
def inspect(S):  # type: ignore[no-untyped-def]
    """(sum of S * 0, max |S|, max |S - S'|), tile by tile so that the transposed reads stay in cache.

    The first is NaN as soon as one entry is NaN or infinite.
    """
    p = S.shape[0]
    tile = 32
    poison = size = gap = 0.0
    for i in range(p):
        here = 0.0
        for j in range(p):
            here += S[i, j] * 0.0
            size = max(size, abs(S[i, j]))
        poison += here
    for i0 in range(0, p, tile):
        for j0 in range(0, i0 + 1, tile):
            for i in range(i0, min(i0 + tile, p)):
                for j in range(j0, min(j0 + tile, p)):
                    gap = max(gap, abs(S[i, j] - S[j, i]))
    return poison, size, gap


@kernel
def find_root(parent, i):  # type: ignore[no-untyped-def]
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@kernel
def component_labels(S, lam):  # type: ignore[no-untyped-def]
    """Label of each column's component in the graph |S_ij| > lam_ij, numbered by first column."""
    p = S.shape[0]
    full = lam.shape[0] > 1
    parent = np.arange(p)
    for i in range(1, p):
        s = S[i]
        paid = lam[i] if full else lam[0]
        edges = 0
        for j in range(i):
            edges += abs(s[j]) > paid[j]
        if edges == 0:
            continue
        root = find_root(parent, i)
        for j in range(i):
            if abs(s[j]) > paid[j]:
                other = find_root(parent, j)
                if other < root:
                    parent[root] = other
                    root = other
                else:
                    parent[other] = root
    label = np.empty(p, np.int64)
    count = 0
    for i in range(p):
        root = find_root(parent, i)
        if root == i:
            label[i] = count
            count += 1
        else:
            label[i] = label[root]
    return label, count
