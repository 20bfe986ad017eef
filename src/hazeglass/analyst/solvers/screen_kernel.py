"""Compiled passes over the whole of S: what is wrong with it, and which columns hang together."""

from __future__ import annotations

from hazeglass.analyst.solvers.compiled import inlined, kernel

TILE = 96


@kernel
def inspect(S, part, parts, buffer):  # type: ignore[no-untyped-def]
    """(sum of 0 * S, sum of |S - S'|): the first is not 0 when an entry is NaN or infinite, the second when asymmetric.

    Tile by tile, each transposed into a buffer first, so that reads stay in cache and sums use the vector units.
    Of several parts, each takes every so many-th row of tiles.
    """
    p = S.shape[0]
    tile = buffer.shape[0]
    poison = gap = 0.0
    for i0 in range(part * tile, p, parts * tile):
        rows = tile if i0 + tile <= p else p - i0
        for j0 in range(0, i0 + 1, tile):
            cols = tile if j0 + tile <= p else p - j0
            for j in range(cols):
                source = S[j0 + j]
                for i in range(rows):
                    buffer[i, j] = source[i0 + i]
            for i in range(rows):
                ours, theirs = S[i0 + i], buffer[i]
                for j in range(cols):
                    gap += abs(ours[j0 + j] - theirs[j])
                    poison += ours[j0 + j] * 0.0
    return poison, gap


@inlined
def find_root(parent, i):  # type: ignore[no-untyped-def]
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@kernel
def component_labels(S, lam, parent, label):  # type: ignore[no-untyped-def]
    """Label each column's component in the graph |S_ij| > lam_ij, numbered by first column; returns their number.

    parent is scratch.
    """
    p = S.shape[0]
    full = lam.shape[0] > 1
    for i in range(p):
        parent[i] = i
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
    count = 0
    for i in range(p):
        root = find_root(parent, i)
        if root == i:
            label[i] = count
            count += 1
        else:
            label[i] = label[root]
    return count
