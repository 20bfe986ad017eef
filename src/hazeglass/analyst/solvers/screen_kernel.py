"""Compiled passes over the whole of S: what is wrong with it, and which columns hang together."""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.solvers.compiled import inlined, kernel

CHUNK = 64  # entries looked at together: where none is an edge, which is soon known, none is looked at by itself


@kernel
def inspect(bits, key, part, parts, miss):  # type: ignore[no-untyped-def]
    """Add to miss, which is 0 in the end where the matrix behind these bits is symmetric, and return its largest entry.

    miss = (B - B') key in whole numbers modulo 2^64, of rows part, part + parts, ...: no rounding, one pass, and no
    walk down the columns. The entry comes as bits without their sign, shifted by one.
    """
    p = bits.shape[0]
    one = np.uint64(1)
    largest = np.uint64(0)
    for i in range(part, p, parts):
        row = bits[i]
        own = key[i]
        total = np.uint64(0)
        for j in range(p):
            total += row[j] * key[j]
            miss[j] -= own * row[j]
            size = row[j] << one
            largest = size if size > largest else largest
        miss[i] += total
    return largest


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
    apart = p
    for i in range(p):
        if apart == 1:
            break
        s = S[i]
        paid = lam[i if full else 0]
        root = find_root(parent, i)
        for first in range(i + 1, p, CHUNK):
            last = first + CHUNK if first + CHUNK < p else p
            here, limit = s[first:last], paid[first:last]
            edges = 0
            for j in range(here.shape[0]):
                edges += abs(here[j]) > limit[j]
            if edges == 0:
                continue
            for j in range(here.shape[0]):
                if abs(here[j]) > limit[j]:
                    other = find_root(parent, first + j)
                    apart -= other != root
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
