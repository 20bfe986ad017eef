"""The table form: unbiased cells, the stated noise, and never less noise than the promise needs."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.errors import PlanError
from hazeglass.guarantee.gdp import RandomisedResponse
from hazeglass.guarantee.lattice import lattice_noise
from hazeglass.publisher.noise import SecretBits
from hazeglass.publisher.table import TableMechanism

INTEGERS = [{"name": "k", "kind": "integer", "lower": 0, "upper": 20}]
MIXED = [
    {"name": "x", "kind": "continuous", "lower": -1.0, "upper": 1.0},
    {"name": "k", "kind": "integer", "lower": -3, "upper": 40},
    {"name": "big", "kind": "integer", "lower": 0, "upper": 10**9},
    {"name": "l", "kind": "continuous", "lower": 1.0, "upper": 10_000.0, "transform": "log"},
]


def spans(mechanism):
    """Largest possible move of each column, in lattice steps, from what the mechanism states about itself."""
    for column in mechanism.columns:
        noise = column.cell_noise
        if mechanism.keeps_integers(column):
            yield math.ceil((column.upper - column.lower) / noise.step), noise
        else:
            yield 2 * round(column.half_width / noise.step), noise


@pytest.mark.parametrize("mu", [0.02, 0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("noise", ["rounded", "discrete"])
def test_a_record_costs_at_most_mu_and_hardly_less(make_plan, mu, noise):
    columns = [dict(column) for column in MIXED]
    for column in columns:
        if column["kind"] == "integer":
            column["noise"] = noise
    plan = make_plan(form="table", budget={"mu": mu}, columns_as=columns)
    costs = [lattice_noise(n.family, n.scale).mu(span) for span, n in spans(TableMechanism.design(plan, 100))]
    total = math.sqrt(sum(cost**2 for cost in costs))
    assert total <= mu * (1 + 1e-12)
    assert total >= 0.99 * mu


LEVELS = [
    {"name": "colour", "kind": "categorical", "levels": ["red", "green", "blue"]},
    {"name": "x", "kind": "continuous", "lower": -1.0, "upper": 1.0},
    {"name": "grade", "kind": "ordinal", "levels": ["low", "mid", "high"]},
    {"name": "side", "kind": "categorical", "levels": ["left", "right"], "missing": "informative"},
]


def cell_costs(mechanism):
    """What a change of one cell costs, column by column."""
    numbers = iter(spans(replace(mechanism, columns=tuple(c for c in mechanism.columns if c.cell_noise))))
    for column in mechanism.columns:
        if column.response is not None:
            yield RandomisedResponse(len(column.levels) + 1, column.response).mu
        else:
            span, noise = next(numbers)
            yield lattice_noise(noise.family, noise.scale).mu(span)


@pytest.mark.parametrize("mu", [0.02, 1.0, 5.0])
@pytest.mark.parametrize(
    ("protects", "extra", "cells"),
    [
        ("record", {}, 5),
        ("person", {"id_column": "who", "max_rows": 3, "row_counts": "public"}, 15),
        ("entry", {}, 1),
        ("readings", {"readings": 7}, 7),
        ("column", {}, 100),
    ],
)
def test_levels_and_numbers_share_the_promise_of_every_unit(make_plan, mu, protects, extra, cells):
    plan = make_plan(form="table", protects=protects, budget={"mu": mu}, columns_as=LEVELS, **extra)
    mechanism = TableMechanism.design(plan, 100)
    costs = list(cell_costs(mechanism))
    assert len(costs) == 5
    if protects in ("entry", "readings", "column"):  # of one cell: side, and whether it is missing
        costs = [*costs[:3], math.hypot(*costs[3:])]
    assert max(costs) * math.sqrt(cells) <= mu * (1 + 1e-9)
    assert min(costs) * math.sqrt(cells) >= 0.99 * mu
    if protects == "record":
        assert math.hypot(*costs) <= mu * (1 + 1e-9)


def test_a_level_is_answered_with_the_stated_probabilities_and_missing_is_one(make_plan):
    plan = make_plan(form="table", protects="entry", budget={"mu": 1.0}, columns_as=LEVELS[:1])
    mechanism, n = TableMechanism.design(plan, 100), 200_000
    law = RandomisedResponse(4, mechanism.columns[0].response)
    for true, cell in enumerate([0.0, 1.0, 2.0, math.nan]):
        raw = [np.full(n, cell)]
        (answers,) = mechanism.release(raw, np.zeros((n, 1)), mechanism.noise(n, SecretBits()))
        share = np.bincount(answers, minlength=4) / n
        expected = np.full(4, law.other)
        expected[true] = law.kept
        assert share.shape == (4,)
        np.testing.assert_allclose(share, expected, atol=5 * math.sqrt(0.25 / n))


def test_clipped_rows_have_no_levels(make_plan):
    with pytest.raises(PlanError, match="clip_radius needs a table without categorical columns"):
        make_plan(form="table", clip_radius=1.0, columns_as=LEVELS)


@pytest.mark.parametrize(
    ("protects", "extra", "factor"), [("entry", {}, 1), ("readings", {"readings": 96}, 96), ("column", {}, 5000)]
)
def test_other_units_cost_at_most_mu(make_plan, protects, extra, factor):
    plan = make_plan(form="table", protects=protects, budget={"mu": 0.7}, columns_as=MIXED, **extra)
    for span, noise in spans(TableMechanism.design(plan, 5000)):
        assert math.sqrt(factor) * span / noise.scale <= 0.7 * (1 + 1e-12)


@pytest.mark.parametrize("asked", ["rounded", "discrete"])
def test_a_column_states_the_family_and_the_variance_of_its_noise_in_its_own_unit(make_plan, asked):
    columns = [{**column, "noise": asked} if column["kind"] == "integer" else column for column in MIXED]
    plan = make_plan(form="table", budget={"mu": 0.3}, columns_as=columns)
    for column in TableMechanism.design(plan, 100).columns:
        noise = column.cell_noise
        assert noise.family == ("discrete-gaussian" if column.noise == "discrete" else "rounded-gaussian")
        assert noise.variance == pytest.approx(lattice_noise(noise.family, noise.scale).variance * noise.step**2)
        assert noise.step.is_integer() or column.kind == "continuous"
        assert 2 * column.half_width / (noise.scale * noise.step) <= 0.3  # one cell alone


def test_clipped_rows_cost_at_most_mu_and_need_less_noise(make_plan):
    boxed = TableMechanism.design(make_plan(form="table"), 100).columns[0].cell_noise
    clipped = TableMechanism.design(make_plan(form="table", clip_radius=0.9), 100).columns[0].cell_noise
    steps = round(4.0 / clipped.step)
    assert 2 * 0.9 * steps / clipped.scale <= hg.GaussianDP.from_budget(1.0, 1e-6).mu * (1 + 1e-12)
    assert clipped.variance < boxed.variance * (0.9**2 / 3) * 1.01


@pytest.mark.parametrize("names", ["a", "ab", "abc"])
def test_rows_of_a_clipped_table_are_shrunk_into_the_ball_before_they_meet_noise(make_plan, names):
    """The corner of the box, sqrt(p) long, is released as a point of the ball, in its old direction."""
    p = len(names)
    radius = 0.6 * math.sqrt(p)
    plan = make_plan(form="table", clip_radius=radius, columns=tuple(names), budget={"mu": 20.0})
    mechanism = TableMechanism.design(plan, 4000)
    corner = np.ones((4000, p))
    released = (
        np.column_stack(
            mechanism.release([4 * column for column in corner.T], corner, mechanism.noise(4000, SecretBits()))
        )
        / 4
    )
    error = math.sqrt(mechanism.columns[0].cell_noise.variance / 4000) / 4
    assert released.mean(axis=0) == pytest.approx(np.full(p, 0.6), abs=6 * error + 0.01)
    inside = np.full((4000, p), 0.3)
    released = (
        np.column_stack(
            mechanism.release([4 * column for column in inside.T], inside, mechanism.noise(4000, SecretBits()))
        )
        / 4
    )
    assert released.mean(axis=0) == pytest.approx(np.full(p, 0.3), abs=6 * error + 0.01)


def test_released_cells_are_unbiased_with_the_stated_variance(make_plan, tmp_path):
    plan = make_plan(form="table", budget={"mu": 8.0}, order="kept")
    rng = np.random.default_rng(3)
    raw = rng.uniform(-3, 3, (40_000, 3))
    release = hg.publish(pa.table(dict(zip("abc", raw.T, strict=True))), plan, tmp_path / "r", weak_on_purpose=True)
    noise = np.column_stack([release.table()[name].to_numpy() for name in "abc"]) - raw
    stated = np.array([column.cell_noise.variance for column in release.columns])
    n = len(raw)
    assert np.all(np.abs(noise.mean(axis=0)) < 5 * np.sqrt(stated / n))
    assert np.all(np.abs(noise.var(axis=0) / stated - 1) < 5 * math.sqrt(2 / n))
    assert np.all(np.abs(np.corrcoef(noise.T)[np.triu_indices(3, 1)]) < 5 / math.sqrt(n))


def test_integer_columns_stay_integers_and_missing_cells_become_the_middle(make_plan, tmp_path):
    columns = [{**INTEGERS[0], "noise": "discrete"}]
    plan = make_plan(form="table", protects="entry", budget={"mu": 30.0}, columns_as=columns, order="kept")
    data = pa.table({"k": pa.array([None] * 3000 + [5] * 3000 + [99] * 3000, type=pa.int64())})
    released = hg.publish(data, plan, tmp_path / "r", weak_on_purpose=True).table()["k"]
    assert pa.types.is_int64(released.type)
    means = released.to_numpy().reshape(3, 3000).mean(axis=1)
    assert means == pytest.approx([10, 5, 20], abs=0.1)


@pytest.mark.parametrize("lower", [-30, 1000])
def test_integers_keep_their_place_on_a_lattice_that_does_not_start_at_zero(make_plan, lower):
    column = {"name": "k", "kind": "integer", "lower": lower, "upper": lower + 9}
    plan = make_plan(form="table", protects="entry", budget={"mu": 20.0}, columns_as=[column])
    mechanism = TableMechanism.design(plan, 9000)
    raw = np.repeat([lower - 5.0, lower + 4.0, lower + 99.0, math.nan], 3000)
    (released,) = mechanism.release([raw], np.zeros((12_000, 1)), mechanism.noise(12_000, SecretBits()))
    means = released.reshape(4, 3000).mean(axis=1) - lower
    assert released.dtype == np.int64
    assert means == pytest.approx([0, 4, 9, 4], abs=0.1)


@pytest.mark.parametrize("clip_radius", [None, 1.2])
def test_without_noise_every_cell_is_its_nearest_lattice_point(make_plan, clip_radius):
    """Nearest, not below: a release has no drift."""
    extra = {} if clip_radius is None else {"clip_radius": clip_radius}
    plan = make_plan(form="table", columns_as=MIXED, budget={"mu": 0.3}, **extra)
    mechanism, rng = TableMechanism.design(plan, 100), np.random.default_rng(8)
    unit_box = rng.uniform(-0.5, 0.5, (100, 4))
    raw = [column.centre + column.half_width * unit_box[:, k] for k, column in enumerate(mechanism.columns)]
    silence = [np.zeros(100, np.int64)] * 4
    for column, exact, released in zip(mechanism.columns, raw, mechanism.release(raw, unit_box, silence), strict=True):
        step = column.cell_noise.step
        assert np.abs(released - exact).max() <= step * (0.5 + 1e-9)
        assert np.abs(np.mean(released - exact)) < 0.2 * step


def test_a_transform_is_applied_after_clamping(make_plan, tmp_path):
    plan = make_plan(form="table", protects="entry", budget={"mu": 50.0}, columns_as=[MIXED[3]], order="kept")
    data = pa.table({"l": np.repeat([0.0, 100.0, 1e9], 2000)})
    released = (
        hg.publish(data, plan, tmp_path / "r", weak_on_purpose=True)
        .table()["l"]
        .to_numpy()
        .reshape(3, 2000)
        .mean(axis=1)
    )
    assert released == pytest.approx([0.0, math.log(100), math.log(1e4)], abs=0.05)


def test_two_releases_of_the_same_rows_share_no_noise(make_plan, table, tmp_path):
    plan = make_plan(form="table")
    first = hg.publish(table, plan, tmp_path / "1").table()["a"].to_numpy()
    second = hg.publish(table, plan, tmp_path / "2").table()["a"].to_numpy()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.25
    assert not np.any(first == second) or np.mean(first == second) < 0.05


def test_a_simulation_repeats_whatever_the_engine(make_plan, tmp_path):
    plan = make_plan(form="table")
    data = pa.table({name: np.zeros(150_000) for name in "abc"})
    runs = [
        hg.publish(data, plan, tmp_path / f"{engine}{k}", engine=engine, simulate_seed=5).table()
        for k, engine in enumerate(["serial", "threads", "threads"])
    ]
    assert runs[0].equals(runs[1])
    assert runs[0].equals(runs[2])
    assert not runs[0].equals(hg.publish(data, plan, tmp_path / "other", simulate_seed=6).table())
