"""Synthetic rows have exactly the mean and covariance that were released, and nothing else of the data."""

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.analyst.covariance import covariance_of
from hazeglass.errors import DataError
from hazeglass.features.clipping import widen
from simulate import simulate

NAMES = "abc"


def chain(n, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n) + 1
    b = 0.8 * a + 0.6 * rng.standard_normal(n)
    return pa.table({"a": a, "b": b, "c": 0.8 * b + 0.6 * rng.standard_normal(n)})


@pytest.fixture
def release(make_plan, tmp_path):
    return hg.publish(chain(70_000), make_plan(form="synthetic", budget={"mu": 1.0}), tmp_path / "r")


def matrix(table):
    return np.column_stack([table[name].to_numpy() for name in NAMES])


def test_sample_mean_and_covariance_are_the_released_ones(release):
    rows = matrix(release.table())
    stage, moments = release.manifest.stages[-1], release.moments()[-1]
    factor = np.array(stage.scale) * 4.0
    unclipped = widen(moments.second, stage.radius, moments.mean)
    expected_mean = 4.0 * (np.array(stage.centre) + np.array(stage.scale) * unclipped.mean)
    np.testing.assert_allclose(rows.mean(axis=0), expected_mean, atol=1e-12)
    expected = covariance_of(release).covariance * np.outer(factor, factor)
    np.testing.assert_allclose(np.cov(rows, rowvar=False), expected, rtol=1e-9, atol=1e-12)
    assert len(rows) == 70_000


def test_any_tool_that_reads_a_table_finds_the_same_partial_correlations(release):
    precision = np.linalg.inv(np.corrcoef(matrix(release.table()), rowvar=False))
    scale = np.sqrt(np.diag(precision))
    ordinary = -(precision / np.outer(scale, scale))[np.triu_indices(3, 1)]
    ours = hg.recover(release).edges["partial_correlation"].to_numpy()
    np.testing.assert_allclose(ours, ordinary, atol=0.01)
    assert abs(ordinary[1]) < 0.05


def test_the_widened_covariance_is_that_of_the_rows_before_clipping(release):
    truth = np.cov(matrix(chain(70_000)), rowvar=False)
    assert release.manifest.synthetic.widened
    assert release.manifest.synthetic.repaired_by == 0.0
    assert np.abs(np.cov(matrix(release.table()), rowvar=False) / truth - 1).max() < 0.05


def test_an_indefinite_release_is_repaired_and_says_so(make_plan, tmp_path):
    release = hg.publish(chain(60), make_plan(form="synthetic"), tmp_path / "r", simulate_seed=1)
    assert release.manifest.synthetic.repaired_by > 0
    assert np.all(np.isfinite(matrix(release.table())))


@pytest.mark.parametrize(("width", "columns"), [(1e-4, "a"), (1e-99, "ab"), (1e99, "ab")])
def test_noise_that_leaves_no_positive_variance_fails_no_release(make_plan, width, columns):
    """Equal rows, so that a noisy variance is often negative: failing then, after the charge, would cost a budget."""
    bounds = [{"name": name, "kind": "continuous", "lower": 0.0, "upper": 2 * width} for name in columns]
    data = pa.table({name: np.full(60, width) for name in columns})
    repaired = 0
    for adaptive, seed in ((adaptive, seed) for adaptive in (False, True) for seed in range(6)):
        plan = make_plan(form="synthetic", adaptive=adaptive, columns_as=bounds, budget={"mu": 0.5})
        release = simulate(data, plan, seed=seed)
        repaired += release.manifest.synthetic.repaired_by > 0
        rows = np.column_stack([release.table()[name].to_numpy() for name in columns])
        assert np.all(np.isfinite(rows))
        assert np.all(rows.std(axis=0) > 0)
    assert repaired


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
