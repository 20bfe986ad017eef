"""The moments form: exact sums whatever the engine, the stated noise, and a promise that matches it."""

import math

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.analyst.covariance import covariance_of
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.features.standardise import standardisation
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.units import Unit, moments_distance
from hazeglass.publisher import moments as module
from hazeglass.publisher.randomness import SecretBits
from hazeglass.publisher.rows import Rows
from simulate import simulate


def sums(plan, data, engine="serial"):
    rows = Rows(plan, open_table(data))
    stage = module.first_stage(plan, rows.n, plan.guarantee)
    return stage, *module.exact_sums(rows, stage, get_engine(engine))


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
    z = module.clip_to_lattice(rows.cells.unit_box(next(rows.blocks())), steps=stage.steps, radius=stage.radius)
    exact = [[sum(int(r[i]) * int(r[j]) for r in z) for j in range(3)] for i in range(3)]
    assert second.tolist() == exact
    assert first.tolist() == [sum(int(r[i]) for r in z) for i in range(3)]


def test_no_neighbour_moves_the_sums_by_more_than_the_promise_allows(make_plan):
    """Replace one row by another, in the lattice integers themselves, and measure in units of the actual noise."""
    plan = make_plan(budget={"mu": 0.8}, adaptive=False)
    rng = np.random.default_rng(2)
    base = rng.uniform(-4, 4, (20, 3))
    worst = 0.0
    for _ in range(200):
        other = base.copy()
        other[7] = rng.choice([-1, 1], 3) * rng.choice([4.0, 400.0, 2.0, 0.0], 3)
        stage, first, second = sums(plan, base_table(base))
        _, first2, second2 = sums(plan, base_table(other))
        d1, d2 = (first - first2).astype(float), (second - second2).astype(float)
        noise_off, noise_mean = stage.tau * stage.steps**2, stage.tau * stage.steps / stage.mean_weight
        moved = np.sum((d2[np.triu_indices(3, 1)] / noise_off) ** 2)
        moved += np.sum((np.diag(d2) / (math.sqrt(2) * noise_off)) ** 2) + np.sum((d1 / noise_mean) ** 2)
        worst = max(worst, math.sqrt(moved))
    assert worst <= 0.8 * (1 + 1e-12)
    assert worst >= 0.5


def base_table(rows):
    return pa.table(dict(zip("abc", rows.T, strict=True)))


def test_the_stated_tau_keeps_the_stated_mu(make_plan, table, tmp_path):
    plan = make_plan()
    release = hg.publish(table, plan, tmp_path / "r")
    stages = release.manifest.stages
    for stage in stages:
        needed = moments_distance(plan.unit, columns=3, radius=stage.radius, mean_weight=stage.mean_weight)
        assert stage.tau >= needed / stage.mu * (1 - 1e-12)
    assert GaussianDP(stages[0].mu).compose(GaussianDP(stages[1].mu)).mu == pytest.approx(release.guarantee.mu)
    assert stages[0].mu ** 2 == pytest.approx(0.1 * release.guarantee.mu**2)


@pytest.mark.parametrize(("protects", "adaptive"), [("entry", None), ("record", False)])
def test_released_moments_are_unbiased_with_the_stated_noise(make_plan, tmp_path, protects, adaptive):
    extra = {} if adaptive is None else {"adaptive": adaptive}
    plan = make_plan(protects=protects, budget={"mu": 2.0}, **extra)
    rng = np.random.default_rng(4)
    raw = rng.uniform(-1.5, 1.5, (300, 3))
    scaled = raw / 4
    errors, means = [], []
    for k in range(400):
        moments = hg.publish(base_table(raw), plan, tmp_path / str(k)).moments()[0]
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


def test_the_second_stage_uses_only_released_numbers(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(), tmp_path / "r")
    first, stage = release.moments()[0], release.manifest.stages[1]
    noise = float(first.mean_noise_sd[0]), float(first.second_noise_sd[0, 0])
    centre, scale = standardisation(first.mean, np.diag(first.second), *noise)
    assert stage.centre == pytest.approx(tuple(centre), rel=1e-9)
    assert stage.scale == pytest.approx(tuple(scale), rel=1e-9)


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
        for stage in module.design_stages(make_plan(**release), 1000):
            assert stage.clipped
        assert module.design_stages(make_plan(**release), 1000)[0].radius == pytest.approx(1.0)
        assert module.design_stages(make_plan(**release), 1000)[1].radius == pytest.approx(math.sqrt(3))
        assert module.design_stages(make_plan(**release, clip_radius=0.7), 1000)[0].radius == 0.7
    for names in ("ab", "abcdef"):  # for three columns sqrt(p/3) is p/3
        first, second = module.design_stages(make_plan(columns=tuple(names)), 1000)
        assert first.radius == pytest.approx(math.sqrt(len(names) / 3))
        assert second.radius == pytest.approx(math.sqrt(len(names)))
    for release in ({"protects": "entry"}, {"protects": "readings", "readings": 3}):
        (stage,) = module.design_stages(make_plan(**release), 1000)
        assert not stage.clipped
        assert stage.radius == pytest.approx(math.sqrt(3))
    curved = module.design_stages(make_plan(dependence="curved"), 1000)[1]
    assert (curved.features, curved.radius) == ("hermite", pytest.approx(3.0))


def test_a_stage_costs_its_share_and_its_lattice_holds_the_largest_cell(make_plan):
    plan = make_plan(budget={"mu": 2.0})
    first, second = module.design_stages(plan, 1000)
    assert first.mu**2 == pytest.approx(0.1 * 4)
    assert second.mu**2 == pytest.approx(0.9 * 4)
    (alone,) = module.design_stages(make_plan(budget={"mu": 2.0}, adaptive=False), 1000)
    assert alone.mu == 2.0
    (bought,) = module.design_stages(make_plan(budget={"mu": 2.0}, clip_radius="private"), 1000)
    assert bought.mu**2 == pytest.approx(0.95 * 4)
    for stage in (first, second, alone, bought):
        assert 2**15 < stage.steps * stage.radius <= 2**16  # 16 bits, so that products are exact


def test_what_is_drawn_for_one_release_of_many_is_drawn_for_it_alone(make_plan):
    """The audit adds noise to a stack of sums at once; every entry of every release has its own."""
    stage = module.first_stage(make_plan(), 100, make_plan().guarantee)
    stack = module.add_noise(np.zeros((50, 3), np.int64), np.zeros((50, 3, 3), np.int64), 100, stage, SecretBits())
    upper = stack.second[:, *np.triu_indices(3)]
    assert np.array_equal(stack.second, stack.second.transpose(0, 2, 1))
    assert np.unique(upper).size == 300
    assert np.unique(stack.mean).size == 150


def test_every_moment_is_its_sum_on_the_scale_of_the_rows_within_its_noise(make_plan):
    """First, second and both noises: a hundred releases of the same sums, each number within six deviations."""
    n, plan = 400, make_plan(budget={"mu": 4.0})
    stage = module.first_stage(plan, n, plan.guarantee)
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


def test_one_column_has_moments_too(make_plan, tmp_path):
    plan = make_plan(columns=("a",), budget={"mu": 50.0})
    release = hg.publish(pa.table({"a": np.linspace(-2, 2, 500)}), plan, tmp_path / "r", engine="serial")
    (first, _) = release.moments()
    assert first.second.shape == (1, 1)
    assert first.second[0, 0] == pytest.approx(np.mean(np.linspace(-0.5, 0.5, 500) ** 2), abs=0.01)


MEANS = np.array([0.3, -0.2, 0.0, 0.5, 0.1, -0.4, 0.2, 0.0])
VARIANCES = np.array([0.1, 0.05, 0.2, 0.12, 0.08, 0.1, 0.15, 0.09])
SQUARES = VARIANCES + MEANS**2


def test_without_noise_they_are_taken_as_they_are():
    centre, scale = standardisation(MEANS, SQUARES, 1e-9, 1e-9)
    assert centre == pytest.approx(MEANS)
    assert scale**2 == pytest.approx(VARIANCES)


def test_a_noisy_first_stage_costs_little():
    """1000 rows of 20 columns at epsilon = 1 are worth 71 clean rows; with the noisy numbers themselves, 34."""
    columns = [{"name": f"x{k + 1}", "kind": "continuous", "lower": -3.0, "upper": 3.0} for k in range(20)]
    plan = hg.Plan.from_dict(
        {"release": {"title": "t", "form": "moments"}, "budget": {"epsilon": 1.0, "delta": 1e-6}, "columns": columns}
    )
    worth = []
    for seed in range(8):
        rows = np.random.default_rng(seed).standard_normal((1000, 20))
        worth.append(covariance_of(simulate(rows, plan, seed)).standardised().effective_rows())
    assert np.mean(worth) > 55


def test_a_drowned_column_gets_a_scale_that_is_finite_and_in_the_box():
    centre, scale = standardisation(np.full(3, 5.0), np.array([-40.0, 30.0, 2.0]), 50.0, 100.0)
    assert np.all(centre == 0)
    assert np.all((scale > 0) & (scale <= 1))


def test_a_single_column_under_any_noise_is_standardised():
    """Its variance is its own average, so the spread about it is 0 and all of it is noise."""
    for noise in (1e-9, 1.0, 1e6):
        centre, scale = standardisation(np.array([0.0]), np.array([0.2]), noise, noise)
        assert centre[0] == 0
        assert 0 < scale[0] <= 1


def test_many_releases_at_once_are_standardised_one_by_one():
    rng = np.random.default_rng(1)
    mean, squares = rng.normal(size=(5, 4)) * 0.2, rng.uniform(0.1, 0.3, size=(5, 4))
    together = standardisation(mean, squares, 0.1, 0.05)
    for k in range(5):
        alone = standardisation(mean[k], squares[k], 0.1, 0.05)
        assert together[0][k] == pytest.approx(alone[0])
        assert together[1][k] == pytest.approx(alone[1])
