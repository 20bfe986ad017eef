"""Brute force over neighbours: what one unit moves in the publisher's own exact counts and sums, in units of the noise.

Whatever the plan, a neighbour may move a round of counts by `counts_distance` and the sums of a stage by
`moments_distance`, and no further. Cells are drawn from what a neighbour would choose: both bounds, far beyond them,
the middle, whatever lies between, and nothing at all.
"""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hazeglass.bundle.columns import Column, origins, unit_step
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.features.fitting import Counts
from hazeglass.features.marginal import Levels, Marginal, first_borders, next_borders
from hazeglass.features.shaping import BOX, Shape, exact_map, first_shape, largest_entry
from hazeglass.guarantee.units import count_weight, counts_distance, moments_distance
from hazeglass.publisher.marginals import Encoder, exact_counts, standard_of
from hazeglass.publisher.moments import exact_sums, plain_stage, stage_of
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.sums import lattice_rows

KINDS = (
    Column("smooth", "continuous", -3.0, 3.0),
    Column("skewed", "continuous", 1.0, 1e4, "log"),
    Column("yes", "integer", 0, 1),
    Column("few", "integer", -2, 7),
    Column("many", "integer", 0, 10_000, "log1p"),
    Column("wide", "continuous", -1e100, 1e100),
    Column("ward", "categorical", levels=("north", "south", "east")),
    Column("side", "categorical", levels=("left", "right")),
    Column("grade", "ordinal", levels=("0", "1", "2", "5")),
    Column("ok", "binary", missing="informative"),
    Column("often", "continuous", -3.0, 3.0, missing="informative"),
    Column("same", "integer", -2, 7, source="smooth"),
    Column("sign", "binary", levels=("-3", "3"), source="smooth"),
)
UNKNOWN = 99.0  # the number of a level that no column has
UNITS = {
    "record": {"protects": "record"},
    "person": {"protects": "person", "id_column": "who", "max_rows": 3, "persons": 40},
    "entry": {"protects": "entry"},
    "readings": {"protects": "readings", "readings": 3},
}
ROWS, CHANGED = 12, 3  # the last rows are the ones that change, so that the others keep their numbers
IN_A_BOX = ("public box", "scores", "linear", "presence")
IN_A_BALL = ("public ball", "scores", "linear", "mapped scores", "mapped linear", "cosines", "presence")


def cell(column, rng):
    if not column.ordered:
        return rng.choice([*range(len(column.levels)), UNKNOWN, math.nan])
    middle, half = (column.lower + column.upper) / 2, (column.upper - column.lower) / 2
    between = middle + half * rng.choice([1e-9, 1e-3, 0.1, 1.0]) * rng.uniform(-1, 1)
    if column.kind == "ordinal":  # numbers of levels, as which cells are written
        return rng.choice([0, 1, 2, 5, 7, math.nan])
    return rng.choice([column.lower, column.upper, column.lower - 1e9, column.upper + 1e9, middle, between, math.nan])


def cells(columns, rows, rng):
    return np.array([[cell(column, rng) for column in columns] for _ in range(rows)]).reshape(rows, len(columns))


def written(column, values):
    if column.ordered:
        return values
    known = dict(enumerate(column.levels))
    return pa.array([None if math.isnan(value) else known.get(int(value), "?") for value in values], pa.string())


def table(plan, values, ids):
    """Cells that several columns are made of are those of the first."""
    named = {}
    for k, (name, column) in enumerate(zip(origins(plan.columns), plan.columns, strict=True)):
        named.setdefault(name, written(column, values[:, k]))
    return pa.table({**named, **({"who": ids} if plan.id_column else {})})


def first_of(plan, at):
    """The first column that is made of the same cells."""
    made_of = origins(plan.columns)
    return made_of.index(made_of[at])


def neighbour(plan, values, rng):
    """The table with one unit of it replaced, and the ids of its rows."""
    others, ids = values[:-CHANGED], [*range(ROWS - CHANGED), *[99] * CHANGED]
    if plan.protects == "person":
        number = int(rng.integers(0, CHANGED + 1))
        fresh = cells(plan.columns, number, rng)
        if number and rng.random() < 0.5:  # all rows of a person alike, which moves sums the furthest
            fresh[:] = fresh[0]
        return np.concatenate([others, fresh]), ids[: len(others) + number]
    other = values.copy()
    if plan.protects == "record":
        other[-1] = cells(plan.columns, 1, rng)[0]
        return other, ids
    at = int(rng.integers(len(plan.columns)))
    for row in range(1, 1 + plan.unit.readings):
        other[-row, first_of(plan, at)] = cell(plan.columns[at], rng)
    return other, ids


def marginals(plan, rows, rng):
    """What a publisher might have learned: two rounds of exact counts and noise of any size."""
    known = []
    for k, column in enumerate(plan.columns):
        step, levels = unit_step(column, plan.scale), not column.ordered
        borders, rounds = first_borders(step, levels=levels), []
        for _ in range(2):
            noise = float(rng.choice([1e-3, 1.0, 30.0]))
            every = [first_borders(unit_step(one, plan.scale), levels=not one.ordered) for one in plan.columns]
            exact = exact_counts(rows, [*every[:k], borders, *every[k + 1 :]], Serial())[k]
            noisy = exact + np.rint(noise * rng.standard_normal(exact.size))
            rounds.append(Counts(borders, noisy[:-1], float(noisy[-1]), max(noise, 0.3)))
            so_far, last = (Levels if levels else Marginal)(tuple(rounds), step), bool(rng.random() < 0.5)
            borders = next_borders(so_far, rng.choice([1e-4, 0.05]), last=last)
        known.append((Levels if levels else Marginal)(tuple(rounds), step))
    return known


def design(plan, form, rows, rng):
    """A stage, the encoder of its rows and its map, of one of the forms."""
    p, size = len(plan.columns), rows.public_size
    boxed = plan.protects in ("entry", "readings")
    mu = float(rng.choice([0.05, 1.0, 40.0]))
    if form.startswith("public"):
        radius = None if form == "public box" else float(rng.uniform(0.05, 1.0) * math.sqrt(p))
        return plain_stage(plan, size, mu, radius), Encoder("public", "columns"), None
    if form == "presence":
        of = tuple(sorted(rng.choice(p, size=int(rng.integers(2, p + 1)), replace=False).tolist()))
        encoder = Encoder(plan.scale, "presence", of=of, box=1.0 if boxed else None)
        return stage_of(plan.unit, size, mu, encoder, first_shape(len(of), shaped=True)), encoder, None
    known, box = marginals(plan, rows, rng), BOX if boxed else None
    if "linear" in form:
        encoder = Encoder("linear", "columns", standard=standard_of(known), box=box)
    else:
        encoder = Encoder.of_scores(known, "cosines" if form == "cosines" else "columns", rng.bytes(32), box)
    width, beside = encoder.width(p), sum(encoder.levels)
    if not form.startswith("mapped"):
        shape = Shape(None, np.zeros(width), float(width), 1.0, beside)
    else:
        size_of_map = rng.choice([1e-3, 1.0, 1e4])
        matrix = exact_map(size_of_map * rng.standard_normal((width, width)), largest_entry(encoder.scale))
        shape = Shape(matrix, rng.standard_normal(width), float(rng.uniform(0.1, width)), 1.0, beside)
    return stage_of(plan.unit, size, mu, encoder, shape), encoder, shape.whole_map


def moved(stage, before, after):
    """How far two tables' sums, and numbers of rows, lie apart, in units of the noise that they get."""
    (first, second, n), (other_first, other_second, m) = before, after
    d1, d2 = (first - other_first).astype(float), (second - other_second).astype(float)
    off, mean = stage.tau * stage.steps**2, stage.tau * stage.steps / stage.mean_weight
    squares = np.sum((d2[np.triu_indices(len(d1), 1)] / off) ** 2) + np.sum((d1 / mean) ** 2)
    squares += np.sum((np.diag(d2) / (math.sqrt(2) * off)) ** 2)
    return math.sqrt(squares + ((n - m) * stage.count_weight / stage.tau) ** 2)


@st.composite
def situations(draw):
    unit = draw(st.sampled_from(sorted(UNITS)))
    boxed = unit in ("entry", "readings")
    form = draw(st.sampled_from(IN_A_BOX if boxed else IN_A_BALL))
    ordered = [column for column in KINDS if column.ordered]
    mixed = form in ("scores", "mapped scores", "presence")
    columns = draw(st.lists(st.sampled_from(KINDS if mixed else ordered), min_size=2, max_size=4, unique=True))
    if form == "mapped scores" and not any(column.ordered for column in columns):
        columns[0] = ordered[0]
    scale = {"scale": "linear"} if "linear" in form else {}
    adaptive = {} if not form.startswith("public") else {"adaptive": False}
    plan = Plan(title="t", form="moments", mu=1.0, columns=tuple(columns), **UNITS[unit], **scale, **adaptive)
    return plan, form, np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@settings(max_examples=60)
@given(situations())
def test_no_neighbour_moves_the_exact_sums_by_more_than_the_promise_allows(situation):
    plan, form, rng = situation
    values, ids = cells(plan.columns, ROWS, rng), [*range(ROWS - CHANGED), *[99] * CHANGED]
    rows = Rows(plan, open_table(table(plan, values, ids)))
    stage, encoder, through = design(plan, form, rows, rng)
    distance = moments_distance(
        plan.unit,
        columns=stage.scored,
        radius=stage.radius,
        mean_weight=stage.mean_weight,
        box=stage.box or 1.0,
        indicators=len(stage.levels),
    )
    assert distance / stage.tau <= stage.mu * (1 + 1e-12)
    assert stage.count_weight == (count_weight(stage.longest) if plan.protects == "person" else 0.0)
    before = exact_sums(rows, stage, encoder, Serial(), through)
    for _ in range(6):
        other = Rows(plan, open_table(table(plan, *neighbour(plan, values, rng))))
        after = exact_sums(other, stage, encoder, Serial(), through)
        assert moved(stage, before, after) <= stage.mu * (1 + 1e-12)


@settings(max_examples=40)
@given(situations())
def test_no_neighbour_moves_the_exact_counts_by_more_than_the_promise_allows(situation):
    plan, _, rng = situation
    values, ids = cells(plan.columns, ROWS, rng), [*range(ROWS - CHANGED), *[99] * CHANGED]
    rows = Rows(plan, open_table(table(plan, values, ids)))
    borders = [one.borders for one in marginals(plan, rows, rng)]
    most = counts_distance(plan.unit, columns=len(plan.columns))
    before = np.concatenate(exact_counts(rows, borders, Serial()))
    assert before.sum() == rows.n * len(plan.columns)  # each cell is counted once in its column
    for _ in range(6):
        other = Rows(plan, open_table(table(plan, *neighbour(plan, values, rng))))
        after = np.concatenate(exact_counts(other, borders, Serial()))
        assert np.linalg.norm(before - after) <= most * (1 + 1e-12)


def constant(plan, value, rows, unlike=None, ids=None):
    """A table of one value, the cells of `unlike` (rows, columns, value) apart."""
    values = np.full((rows, len(plan.columns)), float(value))
    for row, column, other in unlike or []:
        values[row, column] = other
    return Rows(plan, open_table(table(plan, values, ids if ids is not None else list(range(rows)))))


@pytest.mark.parametrize("unit", UNITS)
def test_the_claimed_distances_are_reached(unit):
    """A bound that nothing comes near would waste noise, and a test that cannot fail would prove nothing."""
    columns = tuple(Column(name, "continuous", -1.0, 1.0) for name in "abcd")
    plan = Plan(title="t", form="moments", mu=1.0, columns=columns, adaptive=False, **UNITS[unit])
    changed, ids = {"record": 1, "person": 3, "entry": 1, "readings": 3}[unit], None
    at = range(1 if unit in ("entry", "readings") else 4)
    if unit == "person":
        ids = [*range(5), 9, 9, 9]
    unlike = [(7 - row, column, -1.0) for row in range(changed) for column in at]
    here, there = constant(plan, 1.0, 8, ids=ids), constant(plan, 1.0, 8, unlike, ids)
    counts = [np.concatenate(exact_counts(one, [first_borders(0.0)] * 4, Serial())) for one in (here, there)]
    assert np.linalg.norm(counts[0] - counts[1]) == pytest.approx(counts_distance(plan.unit, columns=4))
    stage = plain_stage(plan, 8, 1.0, radius=2.0 if unit in ("record", "person") else None)
    if unit in ("record", "person"):  # the farthest row is not the opposite one but nearly at a right angle
        unlike = [(7 - row, column, -1.0) for row in range(changed) for column in (0, 1)]
        there = constant(plan, 1.0, 8, unlike, ids)
    sums = [exact_sums(one, stage, Encoder("public", "columns"), Serial()) for one in (here, there)]
    assert stage.mu * (1 - 0.05) < moved(stage, *sums) <= stage.mu


@settings(max_examples=60)
@given(situations())
def test_rounded_rows_stay_in_their_ball_or_box_also_when_they_are_mapped(situation):
    plan, form, rng = situation
    rows = Rows(plan, open_table(table(plan, cells(plan.columns, 40, rng), list(range(40)))))
    stage, encoder, through = design(plan, form, rows, rng)
    (block,) = rows.blocks()
    x = np.empty((stage.size, 40))
    encoder.rows(rows.cells, block, 0, x)
    z = lattice_rows(x if through is None else through @ x, np.array(stage.centre), stage)
    assert np.array_equal(z, np.rint(z))
    z, indicators = z[: stage.scored], z[stage.scored :]
    assert set(np.unique(indicators)) <= {0, stage.steps}
    for part in np.split(indicators, np.cumsum(stage.levels)[:-1]) if stage.levels else ():
        assert np.all(part.sum(axis=0) == stage.steps)  # one level, and no other
    if stage.clipped:
        squared = [sum(int(entry) ** 2 for entry in row) for row in z.T]
        assert max(squared) <= (Fraction(stage.radius) * stage.steps) ** 2
    else:
        assert np.abs(z).max(initial=0) <= stage.box * stage.steps


@pytest.mark.parametrize("protects", ["record", "entry"])
def test_the_claimed_distance_of_levels_is_reached(protects):
    """Two rows of other levels everywhere, and one level of a row that changes, move the sums as far as is claimed."""
    columns = tuple(Column(name, "categorical", levels=("x", "y", "z")) for name in "abcd")
    plan = Plan(title="t", form="moments", mu=1.0, columns=columns, protects=protects)
    values = np.zeros((8, 4))
    other = values.copy()
    other[-1, : 4 if protects == "record" else 1] = 1
    here, there = (Rows(plan, open_table(table(plan, cells, list(range(8))))) for cells in (values, other))
    stage, encoder, _ = design(plan, "scores", here, np.random.default_rng(0))
    sums = [exact_sums(one, stage, encoder, Serial()) for one in (here, there)]
    assert stage.mu * (1 - 0.06) < moved(stage, *sums) <= stage.mu
