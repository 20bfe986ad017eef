"""Compiled loops: how they are compiled, and those of coordinate descent. Importing this file imports numba.

They are compiled once, cached on disk, without the interpreter's lock. Reassociation lets sums use the vector units;
NaN and infinity keep their meaning, because penalties may be infinite. Counters begin at an entry that holds 0, or at
0.0, not at the literal 0: its type would change on the way, and the whole function be typed once more for each such
step. Where no folder for the cache is writable (a read-only installation), kernels live in memory only.

Letters: S the covariance, lam the penalty off the diagonal ((1, p) or (p, p)), W the dual iterate. For one
column j: s = S[j], A the active set of its lasso, G = W[A, A], beta the coefficients, w = W beta the
column's new covariances.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

DONE, GROW, BROKEN = 0, 1, 2
BLOCK = 16  # columns between two copies from rows to columns
SHORT = 5  # vectors over the active set, kept in the last rows of G
_OPTIONS = {"fastmath": {"contract", "reassoc", "nsz"}, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_njit: Any = numba.njit  # its stubs do not know the last option


def announce_compilation(compiled: Any) -> None:
    """Say once, through logging, that a call will first compile for some seconds."""
    if getattr(compiled, "signatures", True):
        return  # compiled or loaded before in this process, or numba was told to compile nothing
    folder = getattr(compiled.stats, "cache_path", None)
    name = f"{compiled.py_func.__module__.rpartition('.')[2]}.{compiled.py_func.__qualname__}-*.nbi"
    if folder is None or not any(Path(folder).glob(name)):
        logging.getLogger("hazeglass").warning("compiling the solvers for this machine: once, a few seconds")


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call; Python calls it."""
    try:
        return _njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found nowhere to write its cache
        return _njit(**_OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A part of kernels, never called from Python: without that entrance and a cache of its own it compiles faster."""
    return _njit(no_cpython_wrapper=True, **_OPTIONS)(function)


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
