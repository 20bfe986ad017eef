"""The moments form: exact sums whatever the engine, the stated noise, and a promise that matches it."""

import math

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.features.shaping import MOST_STAGES, first_shape, largest_entry, next_shape
from hazeglass.guarantee.units import Unit, moments_distance
from hazeglass.publisher import moments as module
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.noise import SecretBits
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.sums import clip_to_lattice
from simulate import simulate


def sums(plan, data, engine="serial"):
    rows = Rows(plan, open_table(data))
    stage = module.plain_stage(plan, rows.n, plan.guarantee.mu)
    return stage, *module.exact_sums(rows, stage, Encoder("public", "columns"), get_engine(engine))[:2]


def test_sums_are_the_same_bits_for_every_engine_block_size_and_source(make_plan, tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    data = pa.table({name: rng.uniform(-5, 5, 70_001) for name in "abc"})
    pq.write_table(data, tmp_path / "d.parquet", row_group_size=999)
    plan = make_plan()
    _, first, second = sums(plan, data)
    for source, engine, rows in [
        (data, "threads", 1 << 16),
        (data, "serial", 100),
        (str(tmp_path / "d.parquet"), "threads", 777),
    ]:
        monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", rows)
        _, again, second_again = sums(plan, source, engine)
        assert np.array_equal(first, again)
        assert np.array_equal(second, second_again)


def test_sums_are_exactly_those_of_the_integer_rows(make_plan):
    rng = np.random.default_rng(1)
    data = pa.table({name: rng.uniform(-4, 4, 500) for name in "abc"})
    plan = make_plan(clip_radius=1.1)
    rows = Rows(plan, open_table(data))
    stage, first, second = sums(plan, data)
    z = clip_to_lattice(rows.cells.unit_box(next(rows.blocks())), steps=stage.steps, radius=stage.radius)
    exact = [[sum(int(r[i]) * int(r[j]) for r in z) for j in range(3)] for i in range(3)]
    assert second.tolist() == exact
    assert first.tolist() == [sum(int(r[i]) for r in z) for i in range(3)]


def base_table(rows):
    return pa.table(dict(zip("abc", rows.T, strict=True)))


def test_the_stated_tau_keeps_the_stated_mu(make_plan, table, tmp_path):
    plan = make_plan()
    release = hg.publish(table, plan, tmp_path / "r")
    for stage in release.manifest.stages:
        needed = moments_distance(plan.unit, columns=3, radius=stage.radius, mean_weight=stage.mean_weight)
        assert stage.tau >= needed / stage.mu * (1 - 1e-12)
    spent = [step.mu for step in (*release.manifest.rounds, *release.manifest.stages)]
    assert math.hypot(*spent) == pytest.approx(release.guarantee.mu)
    counting = math.hypot(*(one.mu for one in release.manifest.rounds))
    assert 0.1 - 1e-9 <= (counting / release.guarantee.mu) ** 2 <= 0.2 + 1e-9


@pytest.mark.parametrize("protects", ["entry", "record"])
def test_released_moments_are_unbiased_with_the_stated_noise(make_plan, protects):
    plan = make_plan(protects=protects, budget={"mu": 2.0}, adaptive=False)
    rng = np.random.default_rng(4)
    raw = rng.uniform(-1.5, 1.5, (300, 3))
    scaled = raw / 4
    errors, means = [], []
    for k in range(400):
        moments = simulate(base_table(raw), plan, seed=k).moments()[0]
        errors.append(((moments.second - scaled.T @ scaled / 300) / moments.second_noise_sd)[np.triu_indices(3)])
        means.append((moments.mean - scaled.mean(axis=0)) / moments.mean_noise_sd)
    z = np.column_stack([errors, means])
    assert np.all(np.abs(z.mean(axis=0)) < 5 / math.sqrt(400))
    assert np.all(np.abs(z.var(axis=0) - 1) < 5 * math.sqrt(2 / 400))
    assert np.all(np.abs(np.corrcoef(z.T)[np.triu_indices(z.shape[1], 1)]) < 5 / math.sqrt(400))


def test_the_diagonal_carries_sqrt_two_times_the_noise(make_plan, table, tmp_path):
    moments = hg.publish(table, make_plan(), tmp_path / "r").moments()[-1]
    off, diagonal = moments.second_noise_sd[0, 1], moments.second_noise_sd[0, 0]
    assert diagonal == pytest.approx(math.sqrt(2) * off, rel=1e-6)


@pytest.mark.parametrize("scale", ["scores", "linear"])
def test_every_stage_follows_from_the_released_numbers_of_the_one_before(make_plan, tmp_path, scale):
    """Strongly dependent columns, so that there are several; and a budget that lets them be seen."""
    rng = np.random.default_rng(3)
    common = rng.standard_normal((4000, 1))
    data = base_table(common + 0.1 * rng.standard_normal((4000, 3)))
    release = hg.publish(data, make_plan(scale=scale, budget={"mu": 5.0}), tmp_path / "r", weak_on_purpose=True)
    stages, moments = release.manifest.stages, release.moments()
    assert 2 < len(stages) <= MOST_STAGES
    assert [stage.mapped for stage in stages] == [False] + [True] * (len(stages) - 1)
    shape = first_shape(3, shaped=True)
    for number, (stage, released) in enumerate(zip(stages, moments, strict=True)):
        assert stage.radius == pytest.approx(shape.radius("columns", 4000, stage.mu))
        assert stage.centre == pytest.approx(tuple(shape.centre))
        assert (shape.share == 1.0) == (number == len(stages) - 1)
        if shape.share < 1.0:
            noise, largest = float(released.second_noise_sd[0, 1]), largest_entry(scale)
            shape = next_shape(shape, stage.radius, released.mean, released.second, noise, number + 1, largest)
            assert np.array_equal(shape.map, moments[number + 1].map)
    last = moments[-1]
    spread = np.linalg.eigvalsh(last.covariance(4000))
    assert spread.max() / spread.min() < 4  # the rows have become round


@pytest.mark.parametrize("protects", ["record", "entry"])
def test_which_cells_are_there_is_counted_where_several_columns_miss_some(make_plan, tmp_path, protects):
    """The first two columns miss the same cells: products of presence say so, which rates alone would not."""
    rng, n = np.random.default_rng(4), 8000
    values = rng.standard_normal((n, 3))
    values[rng.random(n) < 0.3, :2] = np.nan
    release = hg.publish(base_table(values), make_plan(protects=protects, budget={"mu": 3.0}), tmp_path / "r")
    stage, found = release.manifest.stages[0], release.moments()[0]
    assert (stage.features, stage.of, stage.mapped) == ("presence", (0, 1), False)
    assert [feature.column for feature in found.features] == ["a", "b"]
    there = (1 + found.mean) / 2
    both = (1 + found.mean[0] + found.mean[1] + found.second[0, 1]) / 4
    assert there == pytest.approx([0.7, 0.7], abs=0.03)
    assert both == pytest.approx(0.7, abs=0.03)
    alone = base_table(np.where(np.arange(3) == 0, values, 0.3 * rng.standard_normal((n, 3))))
    other = hg.publish(alone, make_plan(protects=protects, budget={"mu": 3.0}), tmp_path / "one")
    assert other.manifest.stages[0].features == "columns"  # one column has no joint rate


def test_many_rows_get_a_coarser_lattice_instead_of_an_overflow(make_plan):
    plan = make_plan()
    for n in (10**3, 10**6, 10**9, 10**12, 10**14):
        for stage in module.design_stages(plan, n):
            largest = n * (stage.steps * stage.radius) ** 2 + 20 * stage.tau * stage.steps**2
            assert largest < 2**62
            assert stage.steps >= 16


def test_a_budget_too_small_for_the_sums_is_refused(make_plan):
    with pytest.raises(hg.errors.DataError, match="do not fit"):
        module.design_stages(make_plan(budget={"mu": 1e-15}), 10**6)


def test_person_and_record_stages_scale_alike():
    one = moments_distance(Unit("record"), columns=4, radius=1.0, mean_weight=0.2)
    assert moments_distance(Unit("person", max_rows=3), columns=4, radius=1.0, mean_weight=0.2) == 3 * one


def test_rows_are_clipped_where_whole_rows_are_protected_and_only_there(make_plan):
    """sqrt(p/3) unless the plan names a radius; the box where single cells are protected."""
    person = {"protects": "person", "id_column": "who", "max_rows": 2}
    for release in ({}, person):
        (stage,) = module.design_stages(make_plan(**release, adaptive=False), 1000)
        assert (stage.clipped, stage.box, stage.radius) == (True, None, pytest.approx(1.0))
        (adaptive,) = module.design_stages(make_plan(**release, budget={"mu": 0.01}), 1000)
        assert (adaptive.clipped, adaptive.radius) == (True, pytest.approx(2.0))  # of 3 columns, and one more
        assert module.design_stages(make_plan(**release, clip_radius=0.7), 1000)[0].radius == 0.7
    for names in ("ab", "abcdef"):  # for three columns sqrt(p/3) is p/3
        (stage,) = module.design_stages(make_plan(columns=tuple(names), adaptive=False), 1000)
        assert stage.radius == pytest.approx(math.sqrt(len(names) / 3))
    for release in ({"protects": "entry"}, {"protects": "readings", "readings": 3}):
        for adaptive in (False, True):
            (stage,) = module.design_stages(make_plan(**release, adaptive=adaptive), 1000)
            assert (stage.clipped, stage.box, stage.radius) == (False, 1.0, pytest.approx(math.sqrt(3)))
    (curved,) = module.design_stages(make_plan(dependence="curved", budget={"mu": 0.01}), 1000)
    assert (curved.features, curved.size, curved.radius) == ("cosines", 9, pytest.approx(math.sqrt(1.3 * 9)))


def test_a_stage_costs_its_share_and_its_lattice_holds_the_largest_cell(make_plan):
    (alone,) = module.design_stages(make_plan(budget={"mu": 2.0}, adaptive=False), 1000)
    assert alone.mu == 2.0
    (bought,) = module.design_stages(make_plan(budget={"mu": 2.0}, clip_radius="private"), 1000)
    assert bought.mu**2 == pytest.approx(0.95 * 4)
    (last,) = module.design_stages(make_plan(budget={"mu": 2.0}), 10**6)
    assert last.mu**2 == pytest.approx(0.9 * 4)
    for stage in (last, alone, bought):
        assert 2**15 < stage.steps * stage.radius <= 2**16  # 16 bits, so that products are exact


def test_what_is_drawn_for_one_release_of_many_is_drawn_for_it_alone(make_plan):
    """The audit adds noise to a stack of sums at once; every entry of every release has its own."""
    stage = module.plain_stage(make_plan(), 100, make_plan().guarantee.mu)
    stack = module.add_noise(np.zeros((50, 3), np.int64), np.zeros((50, 3, 3), np.int64), 100, stage, SecretBits())
    upper = stack.second[:, *np.triu_indices(3)]
    assert np.array_equal(stack.second, stack.second.transpose(0, 2, 1))
    assert np.unique(upper).size == 300
    assert np.unique(stack.mean).size == 150


def test_every_moment_is_its_sum_on_the_scale_of_the_rows_within_its_noise(make_plan):
    """First, second and both noises: a hundred releases of the same sums, each number within six deviations."""
    n, plan = 400, make_plan(budget={"mu": 4.0})
    stage = module.plain_stage(plan, n, plan.guarantee.mu)
    rng = np.random.default_rng(5)
    z = np.rint(rng.uniform(-0.5, 0.5, (n, 3)) * stage.steps).astype(np.int64)
    first, second = np.tile(z.sum(axis=0), (100, 1)), np.tile(z.T @ z, (100, 1, 1))
    noisy = module.add_noise(first, second, n, stage, SecretBits()).divided(n)
    x = z / stage.steps
    mean_sd, second_sd, diagonal_sd = noisy.mean_noise_sd[0], noisy.second_noise_sd[0], noisy.diagonal_noise_sd[0]
    noise = np.full((3, 3), second_sd)
    np.fill_diagonal(noise, diagonal_sd)
    for off, sd in ((noisy.mean - x.mean(axis=0), mean_sd), (noisy.second - x.T @ x / n, noise)):
        scores = off / sd
        assert np.abs(scores).max() < 6
        assert np.all(np.abs(scores.mean(axis=0)) < 6 / math.sqrt(100))
        assert np.all(np.abs(scores.std(axis=0) - 1) < 6 / math.sqrt(200))
    assert mean_sd * n * stage.mean_weight == pytest.approx(stage.tau, rel=1e-3)
    assert second_sd * n == pytest.approx(stage.tau, rel=1e-3)
    assert diagonal_sd * n == pytest.approx(math.sqrt(2) * stage.tau, rel=1e-3)


@pytest.mark.parametrize("release", [{"adaptive": False}, {}, {"scale": "linear"}])
def test_one_column_has_moments_too(make_plan, tmp_path, release):
    plan = make_plan(columns=("a",), budget={"mu": 50.0}, **release)
    made = hg.publish(
        pa.table({"a": np.linspace(-2, 2, 500)}), plan, tmp_path / "r", engine="serial", weak_on_purpose=True
    )
    (moments,) = made.moments()
    assert moments.second.shape == (1, 1)
    expected = np.mean(np.linspace(-0.5, 0.5, 500) ** 2) if release.get("adaptive") is False else 1.0
    # The scale is that of noisy counts of 500 rows; on the public scale it is known.
    assert moments.second[0, 0] == pytest.approx(expected, abs=0.05 if release.get("adaptive") is False else 0.15)


@pytest.mark.parametrize("unit", [{}, {"protects": "person", "id_column": "who", "max_rows": 7}, {"protects": "entry"}])
@pytest.mark.parametrize("mu", [1e-12, 3e-12, 1e-11, 1e-10])
def test_what_is_accepted_before_the_charge_is_not_refused_after_it(make_plan, unit, mu):
    """A stage whose sums do not fit would fail when the budget is spent already; the design must know all of them."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((200, 3))
    values[rng.random((200, 3)) < 0.3] = np.nan
    data = base_table(values).append_column("who", pa.array(range(200)))
    plan = make_plan(budget={"mu": mu}, **unit)
    try:
        module.design_stages(plan, 200)
    except (hg.errors.DataError, hg.errors.PlanError):
        return
    assert simulate(data, plan, seed=1).manifest.stages


SLACK = {
    "shaped or not": {},
    "curved": {"dependence": "curved"},
    "linear": {"scale": "linear"},
    "cells": {"protects": "entry"},
    "one stage": {"adaptive": False},
    "a search": {"clip_radius": "private"},
    "persons": {"protects": "person", "id_column": "who", "max_rows": 2},
    "persons, a search": {"protects": "person", "id_column": "who", "max_rows": 2, "clip_radius": "private"},
}


@pytest.mark.parametrize("name", SLACK)
def test_no_release_takes_more_draws_than_its_slack_is_stated_for(make_plan, monkeypatch, name):
    from hazeglass.guarantee.lattice import total_variation
    from hazeglass.publisher import marginals, sums

    losses, draw = [], module.draw
    for user in (module, marginals, sums):
        monkeypatch.setattr(user, "draw", lambda law, size, bits: losses.append((law, size)) or draw(law, size, bits))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 1)) + rng.normal(size=(200, 3))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    data = base_table(rows).append_column("who", pa.array([str(k // 2) for k in range(200)]))
    plan = make_plan(**SLACK[name], budget={"mu": 3.0})
    for _ in range(3):
        losses.clear()
        module.publish_moments(Rows(plan, open_table(data)), plan, get_engine("serial"), SecretBits())
        assert sum(size for _, size in losses) <= module.most_draws(plan)
        assert sum(size * total_variation(law) for law, size in losses) <= module.most_total_variation(plan)


def test_a_release_that_ended_early_states_the_slack_of_one_that_did_not(make_plan):
    """How many stages there are follows from noise, so the distance of this mechanism from the ideal is that of all."""
    rng = np.random.default_rng(0)
    data = base_table(0.75 * rng.normal(size=(400, 1)) + rng.normal(size=(400, 3)))
    releases = [simulate(data, make_plan(budget={"mu": 0.5}), seed=seed) for seed in range(6)]
    assert len({len(release.manifest.stages) for release in releases}) > 1
    assert len({release.manifest.delta_slack for release in releases}) == 1
