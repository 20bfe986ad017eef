"""A pairwise Markov field with given tables, found by matching moments with many persistent chains.

The field of greatest entropy among all distributions whose columns have the shares p_i and whose pairs the tables P_ij
is p(x) ~ 2^(sum_i b_i(x_i) + sum_ij t_ij(x_i, x_j)), with t_ij = 0 where no table is given: an absent edge is absent.
Chains start as draws from the tree of the strongest pairs, whose couplings log2 P / (p p) are exact for that tree, and
all couplings then follow

    t <- t + step (P - P_chains) / (max(P, P_chains) + noise)

with steps that become smaller; what is kept is the mean of the last third. No cell is believed beyond its noise. Fit
and draws depend on whole numbers alone (docs/maths/markov.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import isqrt

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
States = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

ONE = 1 << 20  # of a share
_UNIT = 1 << 12  # of an exponent
_WHOLE = 1 << 30  # of the weights of a tree
_LARGEST = 14.0  # of a coupling, in bits
_BITS = 1.4426950408889634  # of a unit of natural logarithms, written out so that no library rounds it
_CHAINS, _FEWEST_CHAINS = 8192, 512
_STEPS, _FEWEST_STEPS, _STEP, _SLOWER = 300, 100, 0.3, 15.0
_WORK = 2e10  # additions that a fit may take before steps and chains become fewer


@dataclass(frozen=True, eq=False)
class Tables:
    """What the field is to have, in whole numbers of 1/2^20.

    sizes   states of each column
    shares  of all states, column after column; each column's add up to ONE
    pairs   every pair's table, symmetric; 0 where a pair has none
    edges   which pairs have one
    floor   for each pair, below what its cells are not told from 0 (the noise of a cell, a power of 2)
    """

    sizes: tuple[int, ...]
    shares: IntArray
    pairs: IntArray
    edges: npt.NDArray[np.bool_]
    floor: IntArray

    @cached_property
    def at(self) -> IntArray:
        """The number of each column's first state, and behind them that of all states."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    def part(self, column: int) -> slice:
        """The states of one column."""
        return slice(int(self.at[column]), int(self.at[column + 1]))

    def share_of(self, i: int, j: int) -> FloatArray:
        """The table of a pair, in shares."""
        return np.asarray(self.pairs[self.part(i), self.part(j)] / ONE)

    @cached_property
    def neighbours(self) -> tuple[IntArray, IntArray]:
        """Of each column, as a list and where each begins in it."""
        first = np.concatenate([[0], np.cumsum(self.edges.sum(axis=1))]).astype(np.int64)
        return first, np.nonzero(self.edges)[1].astype(np.int64)

    @cached_property
    def forest(self) -> Forest:
        """The tree of the strongest pairs."""
        return _forest(self)


@dataclass(frozen=True, eq=False)
class Forest:
    """Columns in an order in which every one follows its parent and the columns below it follow at once.

    span    how many columns the subtree at each place has
    given   cumulative weights of a column's states for each state of its parent; a root's stand in its own rows
    worth   the logarithms of these weights
    """

    order: IntArray
    span: IntArray
    parent: IntArray
    given: IntArray
    worth: IntArray


@dataclass(frozen=True, eq=False)
class Field:
    """A fitted field: exponents of states and of pairs of states, in 1/4096 bits."""

    tables: Tables
    unary: npt.NDArray[np.int32]
    pair: npt.NDArray[np.int32]

    def moved(self, rows: States, streams: Words, sweeps: int) -> None:
        """Let chains move, in place."""
        from hazeglass.markov import kernels

        tables, forest = self.tables, self.tables.forest
        shared = (self.unary, self.pair, tables.at, *tables.neighbours)
        tree = (forest.order, forest.span, forest.parent, forest.given, forest.worth)
        _in_threads(rows, streams, lambda x, s: kernels.sweep(x, s, sweeps, *shared, *tree, powers()))

    def raked(self, rows: States, streams: Words, quota: IntArray) -> None:
        """Give every state its quota of the rows, in place."""
        from hazeglass.markov import kernels

        kernels.rake(rows, streams, quota, self.unary, self.pair, self.tables.at, *self.tables.neighbours, powers())


def fit(tables: Tables, seed: int, rows: int, progress: Callable[[float], None] | None = None) -> Field:
    """The field with these tables, as far as so many rows can tell; `progress` hears which share of it is done."""
    work = float(np.sum(tables.edges @ np.array(tables.sizes)) + sum(tables.sizes))
    chains = int(np.clip(rows // 2, _FEWEST_CHAINS, _CHAINS))
    wanted = _STEPS * np.sqrt(chains / _CHAINS)  # what few rows tell is soon told
    steps = int(np.clip(min(wanted, _WORK / (work * chains)), _FEWEST_STEPS, _STEPS))
    chains = int(np.clip(_WORK / (work * steps), min(chains, _CHAINS // 4), chains))
    states, streams = planted(tables, seed, chains)
    unary, pair = _start(tables)
    sum_unary, sum_pair, kept = np.zeros_like(unary), np.zeros_like(pair), 0
    noise = np.repeat(np.repeat(tables.floor, tables.sizes, axis=0), tables.sizes, axis=1) / ONE
    shares, target = tables.shares / ONE, tables.pairs / ONE
    edges = np.repeat(np.repeat(tables.edges, tables.sizes, axis=0), tables.sizes, axis=1)
    least = float(noise.min()) / 8 if noise.size else 0.0
    for number in range(steps):
        _field(tables, unary, pair).moved(states, streams, 1)
        found = counted(tables, states) / chains
        own = np.diag(found).copy()
        step = _STEP * _BITS / (1 + _SLOWER * number / steps)
        pair += np.where(edges, step * (target - found) / (np.maximum(target, found) + noise), 0.0)
        np.clip(pair, -_LARGEST, _LARGEST, out=pair)
        unary += 2 * step * (shares - own) / (np.maximum(shares, own) + least + 1 / chains)
        if number >= 2 * steps // 3:
            sum_unary, sum_pair, kept = sum_unary + unary, sum_pair + pair, kept + 1
        if progress is not None:
            progress((number + 1) / steps)
    return _field(tables, sum_unary / kept, sum_pair / kept)


def _field(tables: Tables, unary: FloatArray, pair: FloatArray) -> Field:
    return Field(tables, np.rint(unary * _UNIT).astype(np.int32), np.rint(pair * _UNIT).astype(np.int32))


def _start(tables: Tables) -> tuple[FloatArray, FloatArray]:
    """Exponents of the tree; those of the other pairs are 0."""
    shares = np.maximum(tables.shares, 1)
    unary = _log2(shares)
    pair = np.zeros(tables.pairs.shape)
    parent = tables.forest.parent
    for i in np.flatnonzero(parent >= 0):
        own, above = tables.part(int(i)), tables.part(int(parent[i]))
        table = _log2(np.maximum(tables.pairs[above, own], 1)) - unary[above][:, None] - unary[own][None, :]
        pair[above, own] = np.clip(table + 20, -_LARGEST, _LARGEST)
        pair[own, above] = pair[above, own].T
    return unary - 20, pair


def _log2(numbers: IntArray) -> FloatArray:
    """Logarithms in whole numbers of 1/4096: the same wherever they are taken."""
    return np.asarray(np.rint(np.log2(numbers) * _UNIT) / _UNIT)


def _forest(tables: Tables) -> Forest:
    p = len(tables.sizes)
    strength = np.zeros((p, p))
    for i in range(p):
        for j in np.flatnonzero(tables.edges[i, :i]):
            strength[i, j] = strength[j, i] = _information(tables, i, int(j))
    parent = np.full(p, -1, dtype=np.int64)
    children: list[list[int]] = [[] for _ in range(p)]
    outside = list(range(p))
    near, best = np.full(p, -1, dtype=np.int64), np.zeros(p)
    while outside:
        i = max(outside, key=lambda k: (best[k], strength[k].sum(), -k))
        outside.remove(i)
        if best[i] > 0:
            parent[i] = near[i]
            children[int(near[i])].append(i)
        closer = strength[i] > best
        near[closer], best[closer] = i, strength[i][closer]
    order: list[int] = []
    span = np.ones(p, dtype=np.int64)
    for root in np.flatnonzero(parent < 0):
        _descend(int(root), children, order, span)
    given, worth = _conditionals(tables, parent)
    return Forest(np.array(order, dtype=np.int64), span, parent, given, worth)


def _descend(root: int, children: list[list[int]], order: list[int], span: IntArray) -> None:
    """Write the tree below a root into `order`, depth first, without recursion: trees may be long."""
    stack: list[tuple[int, bool]] = [(root, False)]
    begun: dict[int, int] = {}
    while stack:
        node, done = stack.pop()
        if done:
            span[begun[node]] = len(order) - begun[node]
            continue
        begun[node] = len(order)
        order.append(node)
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(children[node]))


def _information(tables: Tables, i: int, j: int) -> float:
    """Mutual information of a pair, in whole numbers of 1/2^20 bits."""
    table = tables.pairs[tables.part(i), tables.part(j)]
    apart = _log2(np.maximum(tables.shares[tables.part(i)], 1))[:, None]
    apart = apart + _log2(np.maximum(tables.shares[tables.part(j)], 1))[None, :] - 20
    terms = np.where(table > 0, table * (_log2(np.maximum(table, 1)) - apart), 0.0)
    return float(max(np.rint(terms).astype(np.int64).sum(), 0))


def _conditionals(tables: Tables, parent: IntArray) -> tuple[IntArray, IntArray]:
    """Cumulative weights of each column given its parent, and their logarithms in 1/4096 bits."""
    size = int(tables.at[-1])
    given, worth = np.zeros((size, size), dtype=np.int64), np.zeros((size, size), dtype=np.int64)
    for i, above in enumerate(parent):
        own = tables.part(i)
        rows = tables.part(int(above)) if above >= 0 else slice(own.start, own.start + 1)
        weights = tables.pairs[rows, own] if above >= 0 else tables.shares[None, own]
        weights = np.maximum(weights, 0) + 1  # every state can be reached
        scaled = _rounded(weights)
        given[rows, own] = np.cumsum(scaled, axis=1)
        worth[rows, own] = np.rint(_log2(scaled) * _UNIT).astype(np.int64)
    return given, worth


def _rounded(weights: IntArray) -> IntArray:
    """Rows of positive weights as whole numbers that add up to 2^30, none of them 0."""
    total = weights.sum(axis=1, keepdims=True)
    scaled = np.maximum(weights * _WHOLE // total, 1)
    scaled[np.arange(len(scaled)), np.argmax(weights, axis=1)] += _WHOLE - scaled.sum(axis=1)
    return np.asarray(scaled)


# ------------------------------------------------------------------------------------------------------ chains


def planted(tables: Tables, seed: int, chains: int, number: int = 0) -> tuple[States, Words]:
    """Chains that begin as draws from the tree, and their streams; other numbers give other chains."""
    from hazeglass.markov import kernels

    streams = np.asarray(np.random.SeedSequence((seed, number)).generate_state(chains, np.uint64), dtype=np.uint64)
    rows = np.zeros((chains, len(tables.sizes)), dtype=np.uint8)
    forest = tables.forest
    kernels.plant(rows, streams, forest.order, forest.parent, forest.given, tables.at)
    return rows, streams


def counted(tables: Tables, rows: States) -> IntArray:
    """How many rows have each two states; one state twice is the state itself."""
    from hazeglass.markov import kernels

    size = int(tables.at[-1])
    found: list[IntArray] = []

    def count(part: States, _: Words) -> None:
        own = np.zeros((size, size), dtype=np.int64)
        kernels.count_pairs(part, tables.at, own)
        found.append(own)

    _in_threads(rows, np.zeros(len(rows), dtype=np.uint64), count)
    upper = np.sum(found, axis=0)
    return np.asarray(upper + np.triu(upper, 1).T)


def _in_threads(rows: States, streams: Words, work: Callable[[States, Words], None]) -> None:
    """Share chains out among processors; every chain has its own stream, so the result is the same."""
    threads = max(1, min(os.cpu_count() or 1, 8, len(rows) // _FEWEST_CHAINS))
    ends = [len(rows) * k // threads for k in range(threads + 1)]
    parts = [slice(low, high) for low, high in pairwise(ends)]
    if threads == 1:
        return work(rows, streams)
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, rows[part], streams[part]) for part in parts]:
            done.result()
    return None


@lru_cache(1)
def powers() -> IntArray:
    """2^(24 - k/4096), rounded down, for k = 0 .. 4095: from whole numbers, so that they are the same everywhere."""
    bits = 200
    root = 2 << bits
    for _ in range(12):
        root = isqrt(root << bits)
    found, power = [], 1 << bits
    for _ in range(_UNIT):
        found.append(power >> (bits - 24))
        power = (power << bits) // root
    return np.array(found, dtype=np.int64)
