"""Bounds, budgets and radii at their extremes: a release, or one sentence before anything is charged."""

import math
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hazeglass as hg
from hazeglass.errors import HazeglassError, InputError, PlanError
from hazeglass.guarantee.lattice import TAIL_SCALES, lattice_noise
from hazeglass.guarantee.units import Unit
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.moments import design_stages
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.sums import answer_noise, radius_grid, search_radius
from hazeglass.publisher.table import TableMechanism
from simulate import simulate

POWERS = st.floats(-99, 99).map(lambda power: 10.0**power)
EXTREMES = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0**31, 2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, 1e18, 1e19, 1e99]), POWERS
)
BUDGETS = st.one_of(st.sampled_from([5e-324, 1e-300, 1e-12, 1e3]), st.floats(-20, 3).map(lambda power: 10.0**power))
RADII = st.one_of(st.sampled_from([5e-324, 1e-200, 1e-20, 1e-6, 1.0]), st.floats(-30, 0).map(lambda power: 10.0**power))


@st.composite
def documents(draw):
    form = draw(st.sampled_from(["table", "moments", "synthetic"]))
    unit = draw(st.sampled_from(["entry", "readings", "record", "person", "column"][: 5 if form == "table" else 4]))
    release = {"title": "Extreme", "form": form, "protects": unit}
    if unit == "readings":
        release["readings"] = draw(st.sampled_from([1, 96, 10**9]))
    if unit == "person":
        release |= {"id_column": "id", "max_rows": draw(st.sampled_from([1, 3, 10**9]))}
    if unit in ("record", "person"):
        radius = draw(st.one_of(st.none(), RADII, st.just("private") if form != "table" else st.none()))
        release |= {} if radius is None else {"clip_radius": radius}
    columns = []
    for name in ("a", "b"):
        kind = draw(st.sampled_from(["continuous", "integer"]))
        ends = sorted(draw(st.sampled_from([-1, 1])) * draw(EXTREMES) for _ in range(2))
        if kind == "integer":
            ends = [math.floor(end) for end in ends]
        column = {"name": name, "kind": kind, "lower": ends[0], "upper": ends[1]}
        if kind == "integer" and form == "table" and "clip_radius" not in release and draw(st.booleans()):
            column["noise"] = "discrete"
        elif draw(st.booleans()):
            column["transform"] = draw(st.sampled_from(["log", "log1p", "sqrt", "asinh"]))
        columns.append(column)
    return {"release": release, "budget": {"mu": draw(BUDGETS)}, "columns": columns}


def design(plan, rows):
    """All that publishing designs from public numbers."""
    return TableMechanism.design(plan, rows) if plan.form == "table" else design_stages(plan, rows)


def plan_of(document):
    """The plan, or None where it is refused as a plan: other tests look at that."""
    try:
        return Plan.from_dict(document)
    except HazeglassError:
        return None


@settings(max_examples=400)
@given(documents(), st.sampled_from([2, 40, 10**6, 10**12, 10**18]))
def test_every_mechanism_fits_64_bits_or_is_refused(document, rows):
    plan = plan_of(document)
    if plan is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            design(plan, rows)
        except InputError:
            return
        if plan.form != "table":
            for stage in design_stages(plan, rows):
                largest = stage.radius if stage.clipped else 1.0
                deviation = max(stage.steps / stage.mean_weight, math.sqrt(2) * stage.steps**2) * stage.tau
                assert 1 <= stage.steps <= 2**40
                assert rows * (stage.steps * largest) ** 2 + 13.5 * deviation < 2**63
            return
        mechanism = TableMechanism.design(plan, rows)
    for column in mechanism.columns:
        noise, half = column.cell_noise, column.half_width
        reach = math.ceil(TAIL_SCALES * Fraction(lattice_noise(noise.family, noise.scale).scale))
        if mechanism.keeps_integers(column):
            ends = [int(column.lower) - int(noise.step) * reach, int(column.upper) + int(noise.step) * (reach + 1)]
            assert -(2**53) <= min(ends) <= max(ends) <= 2**53
        else:
            assert round(half / noise.step) * (1 + 2.0**-50) < 2**53
            assert reach + round(half / noise.step) < 2**63
        assert 0 < noise.variance < math.inf


CELLS = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -1e308, 1e308, 0.5, 3.0, 2.0**53])


@settings(max_examples=60)
@given(documents(), st.lists(CELLS, min_size=40, max_size=40))
def test_publishing_at_extremes_succeeds_or_says_why_in_one_sentence(document, cells):
    plan = plan_of(document)
    if plan is None:
        return
    table = pa.table({"a": [0.0, *cells[1:]], "b": [*cells[:-1], 1.0], "id": np.arange(40)})
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            release = hg.publish(table, plan, Path(folder) / "r", engine="serial", simulate_seed=1)
        except HazeglassError as error:
            sentence, left = str(error), list(Path(folder).iterdir())
            release = None
        if release is None:
            assert sentence.endswith(".")
            assert "\n" not in sentence
            assert left == []
            return
        assert release.n == 40 or plan.protects == "person"
        if plan.form != "moments":
            assert all(np.isfinite(column.to_numpy()).all() for column in release.table().columns)


ONE = {"kind": "continuous", "lower": 0, "upper": 1}
REFUSED = {
    "noise that wraps 64 bits": ({"kind": "integer", "lower": 0, "upper": 2**53}, {"mu": 1e-4}, {}, r"beyond 2\^53"),
    "bounds beyond 64 bits": ({"kind": "integer", "lower": 0, "upper": 10**30}, {"mu": 1.0}, {}, r"beyond 2\^53"),
    "a tiny budget": (ONE, {"mu": 1e-19}, {}, "more than 64 bits hold"),
    "no noise at all": ({"kind": "integer", "lower": 0, "upper": 1}, {"mu": 1e3}, {}, "no noise at all"),
    "noise below the rounding": (
        {"kind": "continuous", "lower": 1e16, "upper": 1e16 + 64},
        {"mu": 1e3},
        {},
        "lost in the rounding",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_table_that_64_bits_do_not_hold_is_refused_before_anything_is_charged(make_plan, tmp_path, what):
    column, budget, release, words = REFUSED[what]
    plan = make_plan(form="table", budget=budget, columns_as=[{"name": "a", **column}], **release)
    ledger = Ledger.create(tmp_path / "l", "rows", mu_total=1e4, unit=plan.unit)
    with pytest.raises(PlanError, match=words):
        hg.publish(pa.table({"a": np.arange(50)}), plan, tmp_path / "r", ledger=ledger.path, weak_on_purpose=True)
    assert ledger.history() == []
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("release", [{"clip_radius": "private"}, {"adaptive": False}, {}])
def test_moments_that_64_bits_do_not_hold_are_refused_before_anything_is_charged(make_plan, table, tmp_path, release):
    plan = make_plan(budget={"mu": 1e-19}, **release)
    ledger = Ledger.create(tmp_path / "l", "rows", mu_total=1e4, unit=plan.unit)
    with pytest.raises(InputError, match="64"):
        hg.publish(table, plan, tmp_path / "r", ledger=ledger.path)
    assert ledger.history() == []


def test_the_largest_integers_keep_their_stated_noise(make_plan, tmp_path):
    """Just inside what a reader can tell apart nothing wraps: what is drawn has the stated deviation."""
    column = {"name": "a", "kind": "integer", "lower": -(2**45), "upper": 2**45}
    plan = make_plan(form="table", budget={"mu": 3.0}, columns_as=[column])
    raw = np.tile([2.0**45, -(2.0**45)], 20_000)
    release = hg.publish(pa.table({"a": raw}), plan, tmp_path / "r", engine="serial", simulate_seed=1)
    stated = math.sqrt(release.columns[0].cell_noise.variance)
    spread = np.var(release.table()["a"].to_numpy()) - 2.0**90  # whatever the order of the rows is
    assert math.sqrt(spread) == pytest.approx(stated, rel=0.05)
    with pytest.raises(PlanError, match=r"beyond 2\^53"):
        TableMechanism.design(make_plan(form="table", budget={"mu": 0.05}, columns_as=[column]), 10)


def test_a_coarse_integer_lattice_costs_no_more_noise_than_the_promise_needs(make_plan):
    column = {"name": "a", "kind": "integer", "lower": 0, "upper": 10**6}
    plan = make_plan(form="table", protects="entry", budget={"mu": 1e-5}, columns_as=[column])
    noise = TableMechanism.design(plan, 10).columns[0].cell_noise
    assert math.sqrt(noise.variance) == pytest.approx(10**6 / 1e-5, rel=0.05)


@given(BUDGETS, st.sampled_from([1, 10**9]))
def test_the_search_for_a_radius_answers_in_64_bits_or_is_refused(mu, max_rows):
    unit, grid = Unit("person", max_rows=max_rows), radius_grid(4)
    try:
        noise = answer_noise(unit, mu)
    except PlanError:
        return
    assert noise.mu(max_rows) * math.sqrt(7) <= mu
    found = search_radius(np.full(grid.size, 10), None, grid, unit, mu, SeededBits(1))
    assert found.radius in grid


@pytest.mark.parametrize(("columns", "seed"), [("a", 3), ("a", 9), ("ab", 3), ("ab", 4)])
def test_noise_that_drowns_everything_is_no_reason_to_warn(make_plan, columns, seed):
    """Warnings are errors here. What overflows follows from noised numbers; it is given up, and NumPy says nothing."""
    bounds = [{"name": name, "kind": "continuous", "lower": -1.0, "upper": 1.0} for name in columns]
    data = pa.table({name: np.zeros(10) for name in columns})
    plan = make_plan(form="synthetic", columns_as=bounds, budget={"mu": 1e-3})
    assert simulate(data, plan, seed=seed).n == 10
