"""A fitted field has the given tables, is the one of greatest entropy, and is the same on every computer."""

import hashlib
import itertools
import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hazeglass.markov.draw import check, draw
from hazeglass.markov.field import ONE, Forest, Tables, counted, fit, planted, powers
from hazeglass.markov.tables import Estimates, raked

NOISE = 1e-3


def tables_of(joint, edges, noise=NOISE):
    """What a release without error would say of these columns."""
    p = joint.ndim
    shares = [joint.sum(axis=tuple(k for k in range(p) if k != i)) for i in range(p)]
    pairs = {(i, j): (joint.sum(axis=tuple(k for k in range(p) if k not in (i, j))), noise) for i, j in edges}
    return Estimates(tuple(shares), pairs).whole(1 << 19)


def random_joint(sizes, seed, strength=1.0):
    rng = np.random.default_rng(seed)
    energy = np.zeros(sizes)
    for i, j in itertools.combinations(range(len(sizes)), 2):
        shape = [size if k in (i, j) else 1 for k, size in enumerate(sizes)]
        energy = energy + strength * rng.standard_normal(shape)
    weights = np.exp(energy)
    return weights / weights.sum()


def enumerated(field):
    """The field's distribution, by adding up every row there can be."""
    at, sizes = field.tables.at, field.tables.sizes
    rows = np.array(list(itertools.product(*map(range, sizes)))) + at[:-1]
    energy = field.unary[rows].sum(axis=1).astype(float)
    for i, j in itertools.combinations(range(len(sizes)), 2):
        energy += field.pair[rows[:, i], rows[:, j]]
    weights = np.exp2((energy - energy.max()) / 4096)
    return (weights / weights.sum()).reshape(sizes)


def of_greatest_entropy(joint, edges, rounds=2000):
    """By iterated proportional fitting, which converges to it."""
    p = joint.ndim
    found = np.full(joint.shape, 1 / joint.size)
    for _ in range(rounds):
        for i, j in edges:
            others = tuple(k for k in range(p) if k not in (i, j))
            found = found * (joint.sum(axis=others, keepdims=True) / found.sum(axis=others, keepdims=True))
    return found


@pytest.mark.parametrize(("sizes", "edges"), [((3, 4, 2), "all"), ((2, 3, 3, 2), "ring"), ((5, 2), "all")])
def test_a_fit_is_the_distribution_of_greatest_entropy(sizes, edges):
    p = len(sizes)
    pairs = [(i, i + 1) for i in range(p - 1)] + [(0, p - 1)] if edges == "ring" else None
    pairs = pairs or list(itertools.combinations(range(p), 2))
    joint = random_joint(sizes, seed=4)
    field = fit(tables_of(joint, pairs), seed=1, rows=1 << 14)
    assert np.abs(enumerated(field) - of_greatest_entropy(joint, pairs)).sum() / 2 < 0.01


def test_absent_edges_are_exactly_absent():
    joint = random_joint((2, 3, 3), seed=2)
    field = fit(tables_of(joint, [(0, 1)]), seed=1, rows=2000)
    own, other = field.tables.part(0), field.tables.part(2)
    assert not field.pair[own, other].any()
    assert not field.pair[other, own].any()


@pytest.mark.parametrize("n", [1, 7, 1000, 40_000])
def test_every_column_is_raked_to_its_shares(n):
    joint = random_joint((4, 3, 5), seed=3)
    tables = tables_of(joint, [(0, 1), (1, 2), (0, 2)])
    field = fit(tables, seed=1, rows=1000)
    blocks = list(draw(field, 5, n))
    assert sum(map(len, blocks)) == n
    for block in blocks:
        own = np.diag(counted(tables, block))
        assert np.abs(own - len(block) * tables.shares / ONE).max() < 1


def test_columns_that_say_the_same_are_drawn_alike_and_still_move():
    """Cells change in both at once: single columns could not leave their state."""
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    joint = np.zeros((4, 4, 3))
    joint[np.arange(4), np.arange(4)] = shares[:, None] * random_joint((4, 3), 1) / 1e-9
    joint /= joint.sum()
    tables = tables_of(joint, [(0, 1), (0, 2), (1, 2)])
    field = fit(tables, seed=1, rows=8000)
    rows = np.concatenate(list(draw(field, 2, 8000)))
    assert np.mean(rows[:, 0] == rows[:, 1]) > 0.98
    assert check(field, 2, 8000).passed


def test_chains_that_do_not_move_are_reported():
    """Two copies of one column, and a tree of single columns that cannot move them together."""
    shares = np.full(4, 0.25)
    tables = tables_of(np.diag(shares), [(0, 1)])
    field = fit(tables, seed=1, rows=4000)
    alone = tables.forest
    kept = Forest(alone.order, np.ones_like(alone.span), alone.parent, alone.given, alone.worth)
    frozen = replace(tables)
    frozen.__dict__["forest"] = kept
    found = check(replace(field, tables=frozen), 2, 4000)
    assert found.stuck == (0, 1)
    assert not found.passed


def test_rows_without_the_released_tables_are_reported():
    tables = tables_of(random_joint((3, 3, 3), seed=5), [(0, 1), (1, 2), (0, 2)])
    field = fit(tables, seed=1, rows=8000)
    assert check(field, 2, 8000).passed
    off = replace(field, pair=np.zeros_like(field.pair))
    assert check(off, 2, 8000).apart


def test_other_numbers_of_processors_give_the_same_rows(monkeypatch):
    tables = tables_of(random_joint((3, 4, 2), seed=6), [(0, 1), (1, 2)])
    made = []
    for processors in (1, 3):
        monkeypatch.setattr(os, "cpu_count", lambda count=processors: count)
        made.append(np.concatenate(list(draw(fit(tables, 1, 3000), 2, 3000))))
    assert np.array_equal(*made)


def test_rows_are_the_same_on_every_computer():
    """Of whole numbers, so that a digest made once holds everywhere."""
    shares = np.array([3 << 18, 1 << 18, 1 << 19, 1 << 19])
    pairs = np.zeros((4, 4), dtype=np.int64)
    pairs[:2, 2:] = [[5 << 17, 1 << 17], [-1 << 17, 3 << 17]]
    pairs = np.maximum(pairs + pairs.T, 0)
    tables = Tables((2, 2), shares, pairs, ~np.eye(2, dtype=bool), np.full((2, 2), 64))
    rows = np.concatenate(list(draw(fit(tables, 3, 700), 4, 700)))
    assert hashlib.sha256(rows.tobytes()).hexdigest()[:16] == "23d268150d1b1e10"


def test_powers_are_those_of_two_rounded_down():
    found = powers()
    assert found[0] == 1 << 24
    for k in (1, 7, 2048, 4095):
        below, above = Fraction(int(found[k]), 1 << 24), Fraction(int(found[k]) + 1, 1 << 24)
        assert below**4096 <= Fraction(1, 2**k) < above**4096


def test_a_forest_has_every_column_behind_its_parent():
    tables = tables_of(random_joint((2, 3, 2, 4, 2), seed=8), [(0, 1), (1, 3), (3, 4), (0, 4)])
    forest = tables.forest
    place = {int(column): k for k, column in enumerate(forest.order)}
    assert sorted(place) == list(range(5))
    for column, parent in enumerate(forest.parent):
        if parent >= 0:
            start = place[int(parent)]
            assert start < place[column] < start + forest.span[start]
    assert forest.parent[2] < 0  # column 2 has no edge


def test_chains_begin_with_the_shares():
    tables = tables_of(random_joint((3, 4), seed=9), [(0, 1)])
    rows, _ = planted(tables, 1, 20_000)
    assert np.abs(counted(tables, rows)[:3, 3:] / 20_000 - tables.share_of(0, 1)).max() < 0.015


def test_shares_may_be_nothing():
    """A level that no row has is never drawn, and fails nothing."""
    joint = random_joint((3, 3), seed=10)
    joint[:, 1] = 0
    joint = raked(joint, joint.sum(axis=1), joint.sum(axis=0)) / joint.sum()
    tables = tables_of(joint, [(0, 1)])
    rows = np.concatenate(list(draw(fit(tables, 1, 500), 2, 500)))
    assert not np.any(rows[:, 1] == 1)
