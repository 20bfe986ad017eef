"""Compiled passes over the whole of S: what is wrong with it, and which columns hang together."""

from __future__ import annotations

import numpy as np

from hazeglass.analyst.solvers.compiled import inlined, kernel


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
def find_root(root, i):  # type: ignore[no-untyped-def]
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


@kernel
def join_columns(S, lam, root):  # type: ignore[no-untyped-def]
    """root[i] = the first column of i's component in the graph |S_ij| > lam_ij; returns the number of components."""
    p = S.shape[0]
    full = lam.shape[0] > 1
    for i in range(p):
        root[i] = i
    apart = p
    for i in range(p):
        if apart == 1:
            break
        s = S[i]
        paid = lam[i if full else 0]
        here = find_root(root, i)
        for j in range(i + 1, p):
            if abs(s[j]) > paid[j]:
                other = find_root(root, j)
                apart -= other != here
                root[max(here, other)] = min(here, other)
                here = min(here, other)
    for i in range(p):
        root[i] = find_root(root, i)
    return apart
