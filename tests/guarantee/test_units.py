"""The sensitivities of the mechanisms, confirmed by brute force over neighbours."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from hazeglass.errors import InputError
from hazeglass.guarantee.units import UNITS, Unit, counts_distance, mean_weight, moments_distance, table_distance

COLUMNS = range(2, 7)


def moments_change(x, y, a):
    """Distance of two rows' contributions in units of tau: T1 scaled by a, off-diagonals once, diagonal over sqrt 2."""
    second = np.outer(x, x) - np.outer(y, y)
    upper = second[np.triu_indices(len(x), 1)]
    return math.sqrt(np.sum(upper**2) + np.sum(np.diag(second) ** 2) / 2 + a**2 * np.sum((x - y) ** 2))


def largest_over_the_ball(p, r, a, seed):
    """Climb from random starts over pairs of rows in the ball of radius r."""
    rng = np.random.default_rng(seed)

    def pair(v):
        x, y = v[:p], v[p:]
        return x * min(1, r / np.linalg.norm(x)), y * min(1, r / np.linalg.norm(y))

    best = 0.0
    for _ in range(8):
        answer = minimize(lambda v: -moments_change(*pair(v), a), 3 * rng.standard_normal(2 * p), method="L-BFGS-B")
        best = max(best, -answer.fun)
    return best


@pytest.mark.parametrize("p", COLUMNS)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_record_moments_in_the_ball_reach_and_never_exceed_the_formula(p, share):
    r = math.sqrt(p / 3)
    claimed = moments_distance(Unit("record"), columns=p, radius=r, mean_weight=share * r)
    found = largest_over_the_ball(p, r, share * r, seed=p)
    assert found <= claimed * (1 + 1e-9)
    assert found >= claimed * (1 - 1e-4)


@pytest.mark.parametrize("p", COLUMNS)
def test_record_moments_in_the_box_never_exceed_the_formula(p):
    a = 0.4
    claimed = moments_distance(Unit("record"), columns=p, radius=math.sqrt(p), mean_weight=a)
    corners = [np.array(c, dtype=float) for c in itertools.product((-1, 0, 1), repeat=p)] if p <= 4 else [
        np.array(c, dtype=float) for c in itertools.product((-1, 1), repeat=p)
    ]  # fmt: skip
    found = max(moments_change(x, y, a) for x, y in itertools.combinations(corners, 2))
    assert found <= claimed * (1 + 1e-12)
    assert found >= 0.8 * claimed


@pytest.mark.parametrize("p", COLUMNS)
@pytest.mark.parametrize("a", [0.1, 0.5, 1.0])
def test_entry_moments_reach_and_never_exceed_the_formula(p, a):
    claimed = moments_distance(Unit("entry"), columns=p, radius=math.sqrt(p), mean_weight=a)
    grid = np.linspace(-1, 1, 9)
    found = 0.0
    for rest in itertools.product((-1.0, 0.3, 1.0), repeat=p - 1):
        for old, new in itertools.product(grid, grid):
            x, y = np.array([old, *rest]), np.array([new, *rest])
            found = max(found, moments_change(x, y, a))
    assert found <= claimed * (1 + 1e-12)
    assert found == pytest.approx(claimed)


@pytest.mark.parametrize("p", COLUMNS)
@pytest.mark.parametrize("a", [0.1, 1.0])
@pytest.mark.parametrize("box", [1.0, 1.5])
def test_columns_that_are_made_of_one_cell_move_moments_as_far_as_the_formula_and_no_farther(p, a, box):
    rng = np.random.default_rng(p)
    for g in range(1, p + 1):
        claimed = moments_distance(Unit("entry", together=g), columns=p, radius=9.0, mean_weight=a, box=box)

        def pair(v, g=g):
            changed, other = box * np.sin(v[:p]), box * np.sin(v[p:])
            return changed, np.concatenate([other[:g], changed[g:]])

        climbs = [
            minimize(lambda v: -moments_change(*pair(v), a), 9 * rng.standard_normal(2 * p), method="L-BFGS-B")
            for _ in range(12)
        ]
        found = max(-climb.fun for climb in climbs)
        assert found <= claimed * (1 + 1e-9)
        assert found >= claimed * (0.8 if g > p / 2 else 1 - 1e-6)  # no corner of the box is at just that angle


def test_columns_that_are_made_of_one_cell_move_tables_and_counts_together():
    assert table_distance(Unit("entry", together=3), columns=4, rows=9) == pytest.approx(2 * math.sqrt(3))
    assert table_distance(Unit("readings", readings=5, together=3), columns=4, rows=9) == pytest.approx(
        2 * math.sqrt(15)
    )
    assert table_distance(Unit("column", together=3), columns=4, rows=9) == pytest.approx(2 * math.sqrt(27))
    assert table_distance(Unit("record", together=3), columns=4, rows=9) == 4.0
    assert counts_distance(Unit("entry", together=3), columns=4) == pytest.approx(math.sqrt(6))
    assert counts_distance(Unit("readings", readings=5, together=3), columns=4) == pytest.approx(5 * math.sqrt(6))


@pytest.mark.parametrize("k", [1, 3, 7])
def test_readings_moments_reach_and_never_exceed_the_formula(k):
    p, a = 4, 0.3
    claimed = moments_distance(Unit("readings", readings=k), columns=p, radius=2.0, mean_weight=a)
    rng = np.random.default_rng(k)

    def change(old, new):
        """Sum over k rows, each with its first cell replaced."""
        second = old.T @ old - new.T @ new
        upper = second[np.triu_indices(p, 1)]
        first = a * (old - new).sum(axis=0)
        return math.sqrt(np.sum(upper**2) + np.sum(np.diag(second) ** 2) / 2 + np.sum(first**2))

    aligned, flipped = np.ones((k, p)), np.ones((k, p))
    flipped[:, 0] = -1
    assert change(aligned, flipped) == pytest.approx(claimed)
    for _ in range(300):
        old = rng.uniform(-1, 1, (k, p))
        new = old.copy()
        new[:, 0] = rng.uniform(-1, 1, k)
        assert change(old, new) <= claimed


@pytest.mark.parametrize("p", COLUMNS)
def test_table_distances_are_those_of_the_farthest_neighbours(p):
    n, k, m, r = 9, 4, 3, 1.1
    ones, minus = np.ones((n, p)), -np.ones((n, p))

    def flip(rows, columns):
        table = ones.copy()
        table[np.ix_(rows, columns)] = minus[np.ix_(rows, columns)]
        return float(np.linalg.norm(ones - table))

    every = list(range(p))
    assert table_distance(Unit("entry"), columns=p, rows=n) == pytest.approx(flip([0], [0]))
    assert table_distance(Unit("readings", readings=k), columns=p, rows=n) == pytest.approx(flip(list(range(k)), [0]))
    assert table_distance(Unit("record"), columns=p, rows=n) == pytest.approx(flip([0], every))
    assert table_distance(Unit("person", max_rows=m), columns=p, rows=n) == pytest.approx(flip(list(range(m)), every))
    assert table_distance(Unit("column"), columns=p, rows=n) == pytest.approx(flip(list(range(n)), [0]))
    assert table_distance(Unit("record"), columns=p, rows=n, radius=r) == pytest.approx(2 * r)


def test_a_person_of_m_rows_moves_moments_m_times_as_far_as_a_record():
    p, r, a, m = 3, 1.2, 0.4, 5
    one = moments_distance(Unit("record"), columns=p, radius=r, mean_weight=a)
    assert moments_distance(Unit("person", max_rows=m), columns=p, radius=r, mean_weight=a) == pytest.approx(m * one)


def test_moments_refuse_to_protect_a_column_and_say_why():
    with pytest.raises(InputError, match="whole column"):
        moments_distance(Unit("column"), columns=3, radius=1.0, mean_weight=0.1)


def test_moments_of_one_column_cannot_protect_entries():
    with pytest.raises(InputError, match="at least 2 columns"):
        moments_distance(Unit("entry"), columns=1, radius=1.0, mean_weight=0.1)


def test_the_mean_never_weighs_more_than_half_the_radius():
    assert mean_weight(2.0, rows=2, mu=0.01) == pytest.approx(1.0)
    assert mean_weight(2.0, rows=10**8, mu=1.0) == pytest.approx(2.0 / 100)
    with pytest.raises(InputError, match="must not exceed"):
        moments_distance(Unit("record"), columns=3, radius=1.0, mean_weight=1.1)


@pytest.mark.parametrize("name", UNITS)
def test_every_unit_has_words(name):
    assert len(Unit(name, readings=96, max_rows=8).in_words) > 10


# ---- where a promise for one unit is one for another, by brute force. A table is a tuple of rows (id, cells).

WEIGHT = 0.3
SHAPES = [(2, 4), (4, 2)]  # rows and columns: more of the one, more of the other
COMPARED = [
    *(Unit(name) for name in ("entry", "record", "column")),
    *(Unit("readings", readings=k) for k in (1, 3)),
    *(Unit("person", max_rows=m) for m in (1, 2)),
]


def replaced(table, rows):
    return tuple(rows.get(k, row) for k, row in enumerate(table))


def neighbours(unit, table):
    """Tables that differ in one unit; cells are -1 or 1, an id may become another's, a new one, or missing."""
    p = len(table[0][1])
    contents, ids = list(itertools.product((-1, 1), repeat=p)), ("a", "b", "new", None)
    if unit.name == "record":
        for k, identifier, cells in itertools.product(range(len(table)), ids, contents):
            yield replaced(table, {k: (identifier, cells)})
    elif unit.name == "person":
        for person in {identifier for identifier, _ in table} - {None}:
            others = tuple(row for row in table if row[0] != person)
            for number, name in itertools.product(range(1, unit.max_rows + 1), (person, "new")):
                for theirs in itertools.product(contents, repeat=number):
                    yield others + tuple((name, cells) for cells in theirs)
    else:
        most = {"entry": 1, "readings": unit.readings, "column": len(table)}[unit.name]
        for some in itertools.combinations(range(len(table)), min(most, len(table))):
            for column, new in itertools.product(range(p), itertools.product((-1, 1), repeat=len(some))):
                cells = [list(table[k][1]) for k in some]
                for row, value in zip(cells, new, strict=True):
                    row[column] = value
                yield replaced(table, {k: (table[k][0], tuple(c)) for k, c in zip(some, cells, strict=True)})
            for new in itertools.product(ids, repeat=len(some)):  # the id column is a column, too
                yield replaced(table, {k: (name, table[k][1]) for k, name in zip(some, new, strict=True)})


@functools.cache
def released(unit, form, table, persons=None):
    """What is public about the table, and what gets noise, in units of it. `persons` is their number in the plan."""
    if unit.name == "person":
        kept, ids = [], {identifier for identifier, _ in table if identifier is not None}
        for k, (identifier, cells) in enumerate(table):
            if identifier is not None and [row[0] for row in table[:k]].count(identifier) < unit.max_rows:
                kept.append(cells)
        public = len(ids) if persons is None else len(ids) <= persons  # more ids than persons are refused
        x = np.array(kept, dtype=float).reshape(len(kept), len(table[0][1]))
    else:
        public, x = len(table), np.array([cells for _, cells in table], dtype=float)
    if form == "table":
        return public, x.ravel()
    second = x.T @ x
    upper = second[np.triu_indices(len(second), 1)]
    return public, np.concatenate([WEIGHT * x.sum(axis=0), upper, np.diag(second) / math.sqrt(2)])


def claimed_distance(unit, form, n, p):
    if form == "table":
        return table_distance(unit, columns=p, rows=n)
    return moments_distance(unit, columns=p, radius=math.sqrt(p), mean_weight=WEIGHT)


def farthest(mine, other, persons=None):
    """How far neighbours in the other unit are apart, in units of what a release for mine claims; infinitely far where
    something public differs."""
    forms = {"person": ["moments"], "column": ["table"]}.get(mine.name, ["table", "moments"])
    found = 0.0
    for (n, p), form in itertools.product(SHAPES, forms):
        claimed = claimed_distance(mine, form, n, p)
        patterns = itertools.product(("a", "b", None), repeat=n)
        same, other_half = [(1,) * p] * n, [(1, -1) * (p // 2)] * (n // 2)
        for ids, cells in itertools.product(patterns, (same, same[n // 2 :] + other_half)):
            table = tuple(zip(ids, cells, strict=True))
            public, here = released(mine, form, table, persons)
            for neighbour in neighbours(other, table):
                theirs, there = released(mine, form, neighbour, persons)
                if public != theirs:
                    return math.inf
                found = max(found, float(np.linalg.norm(here - there)) / claimed)
    return found


@pytest.mark.parametrize("mine", COMPARED, ids=lambda unit: f"{unit.name}-{unit.readings}-{unit.max_rows}")
def test_a_unit_covers_another_exactly_where_its_promise_holds_for_it(mine):
    for other in COMPARED:
        assert mine.covers(other) == (farthest(mine, other) <= 1 + 1e-12), (mine, other)


@pytest.mark.parametrize("other", [Unit("record"), Unit("entry")], ids=lambda unit: unit.name)
@pytest.mark.parametrize("person", [Unit("person", max_rows=m) for m in (1, 2)], ids=lambda unit: str(unit.max_rows))
def test_a_changed_id_shows_in_the_number_of_ids_and_in_the_refusal_of_too_many(person, other):
    """Why a person covers neither a record nor a cell, be the persons counted from the data or stated in the plan."""
    assert farthest(person, other) == farthest(person, other, persons=2) == math.inf
    assert not person.covers(other)


def test_a_record_that_changes_its_id_moves_two_persons_even_where_their_number_shows_nothing():
    assert farthest(Unit("person", max_rows=1), Unit("record"), persons=4) > 1.99


def test_a_person_is_covered_whatever_the_caps_are():
    """What exceeds a cap never enters."""
    for mine, other in itertools.product((1, 2), repeat=2):
        assert Unit("person", max_rows=mine).covers(Unit("person", max_rows=other))
    assert Unit("person", max_rows=2).covers(Unit("person", max_rows=300))


def test_a_clipped_row_never_counts_for_more_than_the_box_it_lies_in():
    boxed = table_distance(Unit("record"), columns=4, rows=9)
    assert table_distance(Unit("record"), columns=4, rows=9, radius=100.0) == boxed == 4.0


def test_a_cell_of_a_clipped_row_moves_no_further_than_the_row():
    assert table_distance(Unit("entry"), columns=4, rows=9, radius=0.5) == 1.0
    assert table_distance(Unit("readings", readings=9), columns=4, rows=9, radius=0.5) == 3.0
    assert table_distance(Unit("entry"), columns=4, rows=9, radius=1.5) == 2.0


def test_the_mean_may_weigh_as_much_as_the_radius_and_no_more():
    assert moments_distance(Unit("record"), columns=3, radius=1.5, mean_weight=1.5) == pytest.approx(4.5)
    with pytest.raises(InputError, match="must not exceed"):
        moments_distance(Unit("person", max_rows=2), columns=3, radius=1.5, mean_weight=1.5000001)


def test_two_columns_are_enough_to_protect_entries():
    assert moments_distance(Unit("entry"), columns=2, radius=1.0, mean_weight=0.0) == pytest.approx(2.0)


# ---- rows of numbers and of levels

BOX = 1.25


def mixed_row(numbers, levels, width=3):
    """Numbers, then an indicator of each level."""
    return np.concatenate([numbers, *(np.eye(width)[level] for level in levels)])


def sums_of(row):
    second = np.outer(row, row)
    return np.concatenate([WEIGHT * row, second[np.triu_indices(len(row), 1)], np.diag(second) / math.sqrt(2)])


@pytest.mark.parametrize(("numbers", "levels"), [(0, 2), (0, 4), (1, 1), (1, 3), (2, 1), (3, 2)])
def test_the_distance_of_one_cell_is_the_largest_over_all_cells_of_numbers_and_levels(numbers, levels):
    claimed = moments_distance(
        Unit("entry"), columns=numbers, radius=0.0, mean_weight=WEIGHT, box=BOX, indicators=levels
    )
    found = 0.0
    for ends in itertools.product((-BOX, 0.0, BOX), repeat=numbers):
        here = sums_of(mixed_row(np.array(ends), [0] * levels))
        changed = [(list(ends), [1] + [0] * (levels - 1))]
        changed += [
            ([*ends[:k], new, *ends[k + 1 :]], [0] * levels) for k in range(numbers) for new in (-BOX, 0.3, BOX)
        ]
        found = max(found, *(float(np.linalg.norm(here - sums_of(mixed_row(np.array(x), y)))) for x, y in changed))
    assert found == pytest.approx(claimed)
    three = Unit("readings", readings=3)
    assert moments_distance(
        three, columns=numbers, radius=0.0, mean_weight=WEIGHT, box=BOX, indicators=levels
    ) == pytest.approx(3 * claimed)


@pytest.mark.parametrize(("numbers", "levels"), [(0, 3), (2, 2), (3, 1)])
def test_no_two_rows_of_numbers_in_a_ball_and_levels_are_farther_apart_than_claimed(numbers, levels):
    rng, radius = np.random.default_rng(numbers), 1.5
    claimed = moments_distance(
        Unit("record"), columns=numbers, radius=radius if numbers else 0.0, mean_weight=WEIGHT, indicators=levels
    )
    found = 0.0
    for _ in range(3000):
        pair = []
        for _ in range(2):
            x = rng.standard_normal(numbers)
            x = radius * x / max(float(np.linalg.norm(x)), 1e-9) if numbers else x
            pair.append(sums_of(mixed_row(x, rng.integers(0, 3, levels))))
        found = max(found, float(np.linalg.norm(pair[0] - pair[1])))
    assert 0.97 * claimed < found <= claimed * (1 + 1e-12)
