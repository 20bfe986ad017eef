"""Synthetic rows have the released moments, or marginals and correlations, and nothing else of the data."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtri
from scipy.stats import ks_2samp, rankdata

import hazeglass as hg
from bundle.forgery import reseal
from hazeglass.analyst.covariance import Measured
from hazeglass.analyst.pooling import pool
from hazeglass.bundle.synthetic import synthetic_rows
from hazeglass.bundle.targets import numbers_of
from hazeglass.errors import BundleError, DataError, PlanError
from hazeglass.features.clipping import widen
from simulate import simulate

NAMES = "abc"


def chain(n, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n) + 1
    b = 0.8 * a + 0.6 * rng.standard_normal(n)
    return pa.table({"a": a, "b": b, "c": 0.8 * b + 0.6 * rng.standard_normal(n)})


@pytest.fixture
def publish(make_plan, tmp_path):
    """A synthetic release of a chain, on one of the scales."""

    def made(n=20_000, **release):
        plan = make_plan(form="synthetic", budget={"mu": 1.0}, **release)
        return hg.publish(chain(n), plan, tmp_path / f"r{len(list(tmp_path.iterdir()))}")

    return made


def matrix(table):
    return np.column_stack([table[name].to_numpy() for name in NAMES])


@pytest.mark.parametrize("release", [{"adaptive": False, "exact": True}, {"scale": "linear", "exact": True}])
def test_sample_mean_and_covariance_are_the_released_ones(publish, release):
    made = publish(**release)
    rows, moments = matrix(made.table()), made.moments()[-1]
    stage, standard = made.manifest.stages[-1], made.manifest.standard
    unclipped = widen(moments.second, stage.radius, moments.mean)
    mean, covariance = unclipped.mean + stage.centre, unclipped.row_covariance(made.n, moments.mean_noise_sd)
    if moments.map is not None:
        back = np.linalg.inv(moments.map)
        mean, covariance = back @ mean, back @ covariance @ back.T
    centre, scale = (0.0, np.ones(3)) if standard is None else (np.array(standard.centre), np.array(standard.scale))
    np.testing.assert_allclose(rows.mean(axis=0), 4.0 * (centre + scale * mean), atol=1e-9)
    expected = 16.0 * covariance * np.outer(scale, scale)
    np.testing.assert_allclose(np.cov(rows, rowvar=False), expected, rtol=1e-7, atol=1e-9)
    assert len(rows) == 20_000


@pytest.mark.parametrize("release", [{}, {"scale": "linear"}, {"protects": "entry"}])
def test_any_tool_that_reads_a_table_finds_the_correlations_of_the_data(publish, release):
    """What a box takes from scores is given back to first order, which is a little too much for strong correlations."""
    found = np.corrcoef(matrix(publish(**release).table()), rowvar=False)
    entry = release.get("protects") == "entry"
    assert np.abs(found - np.corrcoef(matrix(chain(20_000)), rowvar=False)).max() < (0.08 if entry else 0.04)
    precision = np.linalg.inv(found)
    scale = np.sqrt(np.diag(precision))
    assert abs(precision[0, 2] / scale[0] / scale[2]) < (0.3 if entry else 0.1)


def test_columns_have_the_released_distribution_and_stay_within_their_bounds(make_plan):
    """Scores are mapped back through the marginals: skewed columns stay skewed, and whole numbers whole."""
    rng, n = np.random.default_rng(3), 20_000
    data = pa.table({"x": rng.exponential(size=n), "k": rng.poisson(2, n), "g": rng.lognormal(size=n)})
    columns = [
        {"name": "x", "kind": "continuous", "lower": 0.0, "upper": 100.0},
        {"name": "k", "kind": "integer", "lower": 0, "upper": 50},
        {"name": "g", "kind": "continuous", "lower": 1e-3, "upper": 1e5, "transform": "log"},
    ]
    made = simulate(data, make_plan(form="synthetic", budget={"mu": 2.0}, columns_as=columns), seed=1).table()
    assert ks_2samp(made["x"].to_numpy(), data["x"].to_numpy()).statistic < 0.03
    assert ks_2samp(made["g"].to_numpy(), np.log(data["g"].to_numpy())).statistic < 0.03
    x, k = made["x"].to_numpy(), made["k"].to_numpy()
    assert x.min() >= 0
    assert x.max() <= 100
    assert np.array_equal(k, np.rint(k))
    shares = np.bincount(k.astype(int), minlength=6)[:6] / n
    assert shares == pytest.approx(np.bincount(data["k"].to_numpy(), minlength=6)[:6] / n, abs=0.02)


def test_an_indefinite_release_is_repaired(make_plan, tmp_path):
    release = hg.publish(chain(60), make_plan(form="synthetic", adaptive=False), tmp_path / "r", simulate_seed=1)
    assert np.linalg.eigvalsh(release.moments()[-1].covariance(60)).min() < 0
    assert np.all(np.isfinite(matrix(release.table())))


@pytest.mark.parametrize(("width", "columns"), [(1e-4, "a"), (1e-99, "ab"), (1e99, "ab")])
def test_noise_that_leaves_no_positive_variance_fails_no_release(make_plan, width, columns):
    """Equal rows, so that a noisy variance is often negative: failing then, after the charge, would cost a budget."""
    bounds = [{"name": name, "kind": "continuous", "lower": 0.0, "upper": 2 * width} for name in columns]
    data = pa.table({name: np.full(60, width) for name in columns})
    for release in ({"adaptive": False}, {}, {"scale": "linear"}):
        for seed in range(2):
            plan = make_plan(form="synthetic", columns_as=bounds, budget={"mu": 0.5}, **release)
            made = simulate(data, plan, seed=seed).table()
            rows = np.column_stack([made[name].to_numpy() for name in columns])
            assert np.all(np.isfinite(rows))
            assert np.all(rows.std(axis=0) > 0)


def test_the_same_seed_gives_the_same_rows_and_another_one_others(publish):
    release = publish(n=500)
    first = synthetic_rows(release.manifest, release.moments(), release.marginals())
    assert np.array_equal(np.concatenate(list(first.blocks())), matrix(release.table()))
    note = replace(release.manifest.synthetic, seed=release.manifest.synthetic.seed ^ 1)
    second = synthetic_rows(replace(release.manifest, synthetic=note), release.moments(), release.marginals())
    assert not np.array_equal(np.concatenate(list(second.blocks())), matrix(release.table()))


def test_integers_are_rounded_only_when_asked(make_plan, tmp_path):
    columns = [{"name": n, "kind": "integer", "lower": -4, "upper": 4} for n in NAMES]
    plain = hg.publish(chain(500), make_plan(form="synthetic", columns_as=columns), tmp_path / "p")
    rounded = hg.publish(
        chain(500), make_plan(form="synthetic", columns_as=columns, round_integers=True), tmp_path / "i"
    )
    assert pa.types.is_float64(plain.table().schema.field("a").type)
    assert pa.types.is_int64(rounded.table().schema.field("a").type)
    assert rounded.manifest.synthetic.integers_rounded
    assert not plain.manifest.synthetic.integers_rounded


def test_more_columns_than_rows_are_refused(make_plan, tmp_path):
    with pytest.raises(DataError, match="more rows than columns"):
        hg.publish(chain(4), make_plan(form="synthetic"), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_integers_are_rounded_to_the_nearest_and_nothing_else_changes(make_plan, tmp_path):
    columns = [
        {"name": "x", "kind": "continuous", "lower": -4.0, "upper": 4.0},
        {"name": "k", "kind": "integer", "lower": 0, "upper": 50},
    ]
    rng = np.random.default_rng(2)
    data = pa.table({"x": rng.standard_normal(400), "k": rng.poisson(20, 400)})
    plain, rounded = (
        simulate(data, make_plan(form="synthetic", columns_as=columns, round_integers=whole), seed=3).table()
        for whole in (False, True)
    )
    assert rounded["x"].equals(plain["x"])
    assert pa.types.is_int64(rounded["k"].type)
    assert rounded["k"].to_numpy().tolist() == np.rint(plain["k"].to_numpy()).tolist()


@pytest.mark.parametrize("release", [{"adaptive": False}, {"scale": "linear"}, {}])
def test_rows_that_are_not_exact_stay_within_their_bounds(publish, release):
    rows = matrix(publish(n=3000, **release).table())
    assert np.abs(rows).max() <= 4.0


@pytest.mark.parametrize("release", [{"form": "moments", "scale": "linear"}, {"form": "synthetic"}])
def test_exact_rows_are_for_scales_that_keep_covariances(make_plan, release):
    with pytest.raises(PlanError, match='exact = true needs form = "synthetic" with scale = "linear"'):
        make_plan(exact=True, **release)


@pytest.mark.parametrize("change", [{"exact": True}, {"offset": 7}])
def test_a_note_that_no_plan_leads_to_is_refused(publish, change):
    made = publish(n=300)
    document = json.loads((made.path / "release.json").read_text())
    document["synthetic"] |= change
    (made.path / "release.json").write_text(json.dumps(document))
    reseal(made.path)
    with pytest.raises(BundleError, match="in a way that no plan leads to"):
        hg.load(made.path)


def test_rows_have_the_correlations_of_all_stages_and_not_of_the_last_alone(make_plan):
    """As recover pools them, so that a graph from rows is nearly that of the release."""
    rng = np.random.default_rng(4)
    loads = np.eye(6) + 0.8 * np.eye(6, k=1)
    data = pa.table({f"x{k}": column for k, column in enumerate((rng.standard_normal((3000, 6)) @ loads).T)})
    columns = [{"name": name, "kind": "continuous", "lower": -6.0, "upper": 6.0} for name in data.column_names]
    release = simulate(data, make_plan(form="synthetic", budget={"mu": 0.2}, columns_as=columns), seed=2)
    moments, measured = release.moments(), Measured.of(release)
    pooled = pool(measured.stages, measured.n).covariance
    alone = numbers_of(release.manifest, moments[-1:]).covariance
    drawn = np.corrcoef(ndtri((rankdata(np.column_stack(release.table().columns), axis=0) - 0.5) / 3000), rowvar=False)
    assert len(moments) > 2

    def apart(covariance):
        one, other = np.sqrt(np.diag(covariance)), np.sqrt(np.diag(pooled))
        return np.abs(covariance / np.outer(one, one) - pooled / np.outer(other, other)).max()

    assert apart(drawn) < 0.4 * apart(alone)
