"""Every mechanism keeps its claim under attack, and the attack comes close: neither is loose."""

import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from hazeglass.audit.attack import attack_table, certify, far_rows, lowest_bit, raw_rows
from hazeglass.audit.moments_attack import attack_jitter, attack_loop, attack_moments, stage_view
from hazeglass.audit.run import _plan, mechanisms, parts, run_attacks, targets_of
from hazeglass.audit.steps import StepsAttack, made_up_rows, table_of, views_of
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.guarantee.budget import compose
from hazeglass.guarantee.lattice import lattice_noise
from hazeglass.guarantee.units import moments_distance
from hazeglass.publisher import marginals, moments
from hazeglass.publisher.moments import exact_sums, publish_moments
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Rows

# Fewer runs certify a smaller share of mu, the more so the smaller mu is.
RUNS = {0.5: 1 << 17, 1.0: 1 << 16, 2.0: 1 << 15}


def ratios_of(targets, runs, seed):
    result = run_attacks(list(targets), runs, bits=SeededBits(seed), confidence=0.99)
    return {finding.name: finding.ratio for finding in result.findings}


def outside(ratios):
    """Several responses together tell less than the normal numbers that their mu stands for; one tells as much."""
    least = {name: 0.75 if "response" in name and "entry" not in name else 0.85 for name in ratios}
    return {name: ratio for name, ratio in ratios.items() if not least[name] <= ratio <= 1}


@pytest.mark.slow
@pytest.mark.parametrize("mu", RUNS)
def test_certified_is_at_most_claimed_and_at_least_85_per_cent_of_it(mu):
    ratios = ratios_of(mechanisms(mu), RUNS[mu], round(10 * mu))
    assert len(ratios) == 32
    assert outside(ratios) == {}


@pytest.mark.slow
def test_every_step_with_a_budget_of_its_own_keeps_it_and_wastes_little():
    ratios = ratios_of(parts(), 1 << 16, 5)
    assert len(ratios) == 37
    assert outside(ratios) == {}


@pytest.mark.parametrize(
    "release",
    [{}, {"form": "synthetic"}, {"period_column": "month", "period": "1", "clip_radius": 1.0, "periods": 12}],
)
def test_a_plan_that_states_how_few_persons_there_are_is_attacked(release):
    form = {"form": "moments", **release}.pop("form")
    rest = {key: value for key, value in release.items() if key != "form"}
    (target,) = targets_of(_plan(2.0, form, "person", persons=60, **rest))
    (found,) = run_attacks([target], 1 << 14, bits=SeededBits(7)).findings
    assert 0.85 <= found.ratio <= 1


IN_TIME = {"rows": "series", "order_column": "taken", "order_step": "1 hour", "seasons": ["weekday"]}


@pytest.mark.parametrize(
    ("unit", "release", "least"),
    [
        ("record", {"rows": "series", "scale": "linear"}, 0.9),
        ("record", IN_TIME, 0.8),
        ("record", {"rows": "series", "lags": 2}, 0.7),
        ("person", {"rows": "series"}, 0.6),
        ("person", {**IN_TIME, "series_column": "who", "persons": 300}, 0.6),
        ("person", {"rows": "series", "series_column": "id"}, 0.2),
        ("entry", {"rows": "series"}, 0.65),
    ],
)
def test_all_steps_of_a_release_of_rows_in_time_keep_their_total(unit, release, least):
    """For persons, cells and more lags no rows are known that meet the bound."""
    targets = targets_of(_plan(2.0, "moments", unit, names="ab", **release))
    (found,) = run_attacks(list(targets), 1 << 14, bits=SeededBits(6)).findings
    assert least <= found.ratio <= 1


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_real_loop_keeps_its_total():
    """Nothing is held fixed: partitions, scores, maps and shares follow from what each run released before."""
    runs, least = (1600, 0.85) if os.environ.get("HAZEGLASS_TRUST") == "all" else (200, 0.6)
    attack = attack_loop(_plan(3.0, "moments", "record", names="ab"), 3000)
    sides = (attack.scores(side, runs, SeededBits(70 + side)) for side in (0, 1))
    certificate = certify(*sides, statistics=attack.statistics, level=0.05)  # a release takes a while, so there are few
    assert least <= certificate.mu / 3.0 <= 1


def test_every_form_unit_and_family_is_attacked():
    attacked = {(target.form, target.unit) for target in mechanisms(1.0)}
    assert attacked >= {("table", unit) for unit in ("entry", "readings", "record", "person", "column")}
    assert attacked >= {("moments", unit) for unit in ("entry", "readings", "record", "person")}
    assert ("synthetic", "record") in attacked
    noises = {target.noise for target in mechanisms(1.0)}
    assert {"rounded", "discrete", "rounded, clipped", "one stage", "counts and stages"} <= noises
    assert {"counts and stages, linear scale", "counts and stages, curved"} <= noises


RELEASES = [
    ("record", {}),
    ("person", {}),
    ("entry", {}),
    ("readings", {}),
    ("record", {"scale": "linear"}),
    ("person", {"dependence": "curved"}),
]


@pytest.mark.parametrize(("unit", "release"), RELEASES)
@pytest.mark.parametrize("side", [0, 1])
def test_without_noise_a_release_is_what_the_attack_adds_noise_to(monkeypatch, unit, release, side):
    """The steps of the attack hold the exact numbers that publish_moments would release on the way."""
    plan = _plan(1.0, "moments", unit, names="abc", **release)
    for place in (marginals, moments):
        monkeypatch.setattr(place, "draw", lambda law, size, bits: np.zeros(size, dtype=np.int64))
    others = made_up_rows(plan, 600, missing=0.02)
    changed = max(plan.unit.readings, plan.unit.max_rows)
    sides = tuple(
        table_of(plan, np.vstack([np.tile(row, (changed, 1)), others])) for row in ([0.9, 0, 1], [-1, 0, 1.0])
    )
    bits = SeededBits(9)
    drawn = publish_moments(sides[side], plan, get_engine("serial"), bits)
    attack = StepsAttack(tuple(view.step(sides) for view in views_of(plan, drawn, bits.key())))
    released = (*drawn.marginals.counts, *drawn.stages)
    outputs = [step.of_release(one) for step, one in zip(attack.steps, released, strict=True)]
    for step, output in zip(attack.steps, outputs, strict=True):
        assert step.move.size > 0
        assert output == pytest.approx(side * step.move, abs=1e-9)


@pytest.mark.parametrize("unit", ["record", "person", "entry", "readings"])
def test_the_shares_of_all_steps_are_the_promise(unit):
    """What the pair moves is close to the claim, and never above it, though each step was given a share of its own."""
    attack = attack_moments(_plan(0.7, "moments", unit), 5000)
    reached = [float(np.linalg.norm(step.move)) for step in attack.steps]
    assert len(reached) >= 3
    assert 0.96 * 0.7 < compose(reached) <= 0.7


@pytest.mark.parametrize("unit", ["record", "entry"])
def test_many_runs_of_drawn_scores_are_as_the_publisher_draws_them(unit):
    attack = attack_jitter(_plan(1.0, "moments", unit, "whole"))
    first, second, n = attack.sums(1, 1, SeededBits(4))
    rows = Rows(attack.plan, open_table(pa.table(dict(zip(attack.plan.names, attack.rows[1].T, strict=True)))))
    encoder = replace(attack.view.encoder, key=SeededBits(4).uint64(4).tobytes())
    published = exact_sums(rows, attack.view.stage, encoder, get_engine("serial"))
    assert n == rows.n
    assert np.array_equal(first[0], published[0])
    assert np.array_equal(second[0], published[1])
    again = attack.sums(1, 40, SeededBits(5))[1]
    assert len(np.unique(again[:, 0, 1])) > 20  # every run draws anew


@pytest.mark.parametrize(
    ("unit", "kind", "release"),
    [
        ("record", "first", {}),
        ("record", "shaped", {}),
        ("record", "shaped", {"scale": "linear"}),
        ("record", "first", {"dependence": "curved"}),
        ("record", "presence", {}),
        ("entry", "first", {}),
        ("entry", "first", {"scale": "linear"}),
        ("entry", "presence", {}),
    ],
)
def test_no_pair_of_rows_is_farther_apart_than_a_stage_is_charged_for(unit, kind, release):
    """Random neighbours, missing cells and cells beyond the bounds among them, against the stage's mu."""
    plan = _plan(1.0, "moments", unit, **release)
    others = table_of(plan, made_up_rows(plan, 300, missing=0.1 if kind == "presence" else 0.0))
    view = stage_view(plan, publish_moments(others, plan, get_engine("serial"), SeededBits(2)), 300, kind)
    assert (view.through is not None) == (kind == "shaped")
    rng = np.random.default_rng(8)
    x, y = (np.clip(rng.normal(0, rng.choice([0.03, 0.5, 3.0], (20_000, 4))), -1, 1) for _ in range(2))
    x, y = (np.where(rng.random(one.shape) < 0.2, np.nan, one) for one in (x, y))
    if unit == "entry":
        y[:, 1:] = x[:, 1:]
    assert view.apart(plan, x, y).max() <= 1 + 1e-12


def test_the_pair_of_rows_reaches_the_sensitivity(make_plan):
    for columns in ("ab", "abc", "abcd", "abcdefghijk"):
        attack = attack_moments(make_plan(columns=columns, adaptive=False, budget={"mu": 0.7}), 5000)
        assert 0.98 * 0.7 < np.linalg.norm(attack.steps[0].move) <= 0.7


def test_rows_for_one_column_are_as_far_apart_as_one_column_allows(make_plan):
    plan = make_plan(columns=("a",), adaptive=False, budget={"mu": 1.0})
    result = run_attacks(list(targets_of(plan)), 1 << 15, bits=SeededBits(3))
    assert 0.3 < result.findings[0].ratio <= 1
    assert len(far_rows(1, 0.1)) > 1


@pytest.mark.parametrize("family", ["rounded", "discrete"])
def test_the_tables_statistic_is_its_likelihood_ratio(make_plan, family):
    columns = [{"name": "k", "kind": "integer", "lower": 0, "upper": 5, "noise": family}]
    plan = make_plan(form="table", protects="entry", budget={"mu": 1.0}, columns_as=columns)
    attack = attack_table(plan, 2)
    noise = attack.mechanism.columns[0].cell_noise
    law = lattice_noise(noise.family, noise.scale)
    outputs = np.arange(-10, 16)
    exact = law.log_pmf(outputs - 5) - law.log_pmf(outputs)
    linear = outputs * attack.weights[0, 0]
    slope = np.polyfit(linear, exact, 1)
    residual = np.abs(exact - np.polyval(slope, linear)).max()
    assert residual < (1e-9 if family == "discrete" else 1e-3)


def test_a_plan_of_mixed_columns_is_attacked_column_by_column(make_plan):
    columns = [
        {"name": "x", "kind": "continuous", "lower": -1.0, "upper": 1.0},
        {"name": "y", "kind": "continuous", "lower": 1.0, "upper": 1e4, "transform": "log"},
        {"name": "z", "kind": "continuous", "lower": 0.0, "upper": 7.0},
        {"name": "k", "kind": "integer", "lower": 0, "upper": 9, "noise": "discrete"},
    ]
    for protects, count in (("entry", 3), ("record", 1)):
        plan = make_plan(form="table", protects=protects, budget={"mu": 1.0}, columns_as=columns)
        result = run_attacks(list(targets_of(plan)), 1 << 16, bits=SeededBits(4))
        assert len(result.findings) == count
        assert all(0.85 <= finding.ratio <= 1 for finding in result.findings)


@pytest.mark.parametrize("transform", [None, "log", "log1p", "sqrt", "asinh"])
def test_raw_rows_come_back_to_their_place(make_plan, transform):
    column = {"name": "a", "kind": "continuous", "lower": 1.0, "upper": 50.0}
    plan = make_plan(form="table", columns_as=[column | ({"transform": transform} if transform else {})])
    places = np.array([[-1.0], [-0.3], [0.0], [0.8], [1.0]])
    raw = raw_rows(places, plan.columns)
    assert raw.min() < 1.0
    assert raw.max() > 50.0
    rows = Rows(plan, open_table(pa.table({"a": raw[:, 0]})))
    assert rows.cells.unit_box(next(rows.blocks())) == pytest.approx(places, abs=1e-12)


def test_lowest_bits_are_found():
    assert lowest_bit(np.array([1.0, -0.5, 3.0, 12.0, 0.1])).tolist() == [0, -1, 0, 2, -55]


def test_attacked_distances_agree_with_the_formula(make_plan):
    """Entries and readings: the changed cells move the sums by exactly the sensitivity the noise is made for."""
    for protects, extra in (("entry", {}), ("readings", {"readings": 5})):
        plan = make_plan(protects=protects, budget={"mu": 1.0}, adaptive=False, **extra)
        step = attack_moments(plan, 400).steps[0]
        stage = step.stage
        formula = moments_distance(plan.unit, columns=3, radius=stage.radius, mean_weight=stage.mean_weight)
        assert np.linalg.norm(step.move) == pytest.approx(formula / stage.tau, rel=1e-12)


def test_a_wide_plan_is_attacked_in_time(make_plan):
    plan = make_plan(columns=[f"c{k}" for k in range(80)], budget={"mu": 1.0})
    attack = attack_moments(plan, 20_000)
    assert 0.8 < compose([float(np.linalg.norm(step.move)) for step in attack.steps]) <= 1


def test_a_plan_with_columns_that_are_made_of_others_is_attacked_like_any():
    columns = [
        {
            "name": "when",
            "kind": "continuous",
            "since": "2024-01-01",
            "lower": 0,
            "upper": 366,
            "missing": "informative",
        },
        {"name": "month", "kind": "ordinal", "part": "month", "source": "when"},
        {"name": "ok", "kind": "binary"},
    ]
    for unit in ("record", "entry"):
        document = {"release": {"title": "t", "form": "moments", "protects": unit}, "budget": {"mu": 2.0}}
        (target,) = targets_of(Plan.from_dict({**document, "columns": columns}))
        (ratio,) = ratios_of([target], 1 << 12, 3).values()
        assert 0.0 < ratio <= 1
