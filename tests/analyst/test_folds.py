"""Released rows are summed up part by part: the same numbers as in memory, the same bits from every engine."""

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.analyst import source
from hazeglass.analyst.covariance import covariance_of, noise_of
from hazeglass.analyst.select import RowsInMemory, RowsOnDisk, Scatter, rows_of, scatter_of
from hazeglass.compute.engines import get_engine


@pytest.fixture
def release(make_plan, tmp_path, monkeypatch):
    """A table in several parts, with means far from zero."""
    monkeypatch.setattr("hazeglass.bundle.writer._PART_CELLS", 3 * 1024)
    rng = np.random.default_rng(3)
    a = rng.standard_normal(5_000)
    b = 0.8 * a + 0.6 * rng.standard_normal(5_000)
    c = 0.8 * b + 0.6 * rng.standard_normal(5_000)
    columns = [{"name": name, "kind": "continuous", "lower": 1e6 - 4, "upper": 1e6 + 4} for name in "abc"]
    plan = make_plan(form="table", budget={"mu": 20.0}, columns_as=columns)
    made = hg.publish(pa.table({"a": a + 1e6, "b": b + 1e6, "c": c + 1e6}), plan, tmp_path / "r", simulate_seed=1)
    assert len(made.parts) > 2
    return made


def test_the_sum_of_two_is_the_scatter_of_both():
    rows = np.random.default_rng(0).standard_normal((100, 4)) + 1e8
    for cut in (0, 1, 37, 100):
        both = Scatter.of(rows[:cut]) + Scatter.of(rows[cut:])
        assert both.n == 100
        np.testing.assert_allclose(both.covariance(), np.cov(rows, rowvar=False), rtol=1e-6)
        np.testing.assert_allclose(both.mean, rows.mean(axis=0), rtol=1e-15)


def test_every_engine_gives_the_covariance_of_the_rows(release, request):
    expected = np.cov(rows_of(release), rowvar=False)
    serial = scatter_of(release, get_engine("serial"))
    np.testing.assert_allclose(serial.covariance(), expected, rtol=1e-9)
    np.testing.assert_allclose(covariance_of(release).covariance, expected - noise_of(release), rtol=1e-9)
    request.getfixturevalue("cluster")
    for engine in ("threads", "dask"):
        found = scatter_of(release, get_engine(engine))
        assert np.array_equal(found.scatter, serial.scatter)
        assert np.array_equal(found.mean, serial.mean)


def test_rows_on_disk_are_cut_like_rows_in_memory(release, monkeypatch):
    monkeypatch.setattr("hazeglass.bundle.reader._BLOCK_CELLS", 900)  # several blocks in each part
    scale = np.array([1.0, 2.0, 3.0])
    held = RowsInMemory(rows_of(release), noise_of(release), scale)
    streamed = RowsOnDisk(release, noise_of(release), scale, get_engine("threads"))
    there, here = streamed.subsamples(3, 400), held.subsamples(3, 400)
    for number in range(3):
        np.testing.assert_allclose(there(number), here(number), rtol=1e-8)
    folds = streamed.folds(4)
    assert len(folds) == 4
    everything = held.covariance(np.arange(release.n))
    for train, out in folds:  # three quarters and a quarter: together, nearly, everything
        np.testing.assert_allclose((3 * train + out) / 4, everything, rtol=0.01)
        assert not np.allclose(train, out, rtol=1e-4)
    with pytest.raises(hg.errors.InputError, match="number of folds"):
        streamed.folds(1)


def test_selection_from_disk_is_selection_from_memory(release, monkeypatch):
    held = {select: hg.recover(release, select=select, engine="serial") for select in ("stars", "cv")}
    monkeypatch.setattr(source, "_MOST_CELLS", 0)
    stars = hg.recover(release, select="stars")
    assert stars.fit["alpha"] == held["stars"].fit["alpha"]
    assert stars.edges["stability"].equals(held["stars"].edges["stability"])
    assert hg.recover(release, select="cv").pairs == held["cv"].pairs == {frozenset("ab"), frozenset("bc")}


def test_jobs_run_on_the_engine_that_was_asked_for(release, cluster):
    here, there = (hg.recover(release, select="stars", engine=engine) for engine in ("serial", "dask"))
    assert here == there
