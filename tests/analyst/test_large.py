"""Many columns by products of matrices: the same answers as the path of fewer columns, wherever both can be taken."""

import importlib.util
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import false_discovery_control

import hazeglass as hg
from hazeglass import _arrays
from hazeglass.analyst import large_graph
from hazeglass.analyst.large import Estimate
from hazeglass.analyst.large_inference import infer, pilot, q_values, recover_large
from hazeglass.analyst.large_pooling import lengths, pool_many
from hazeglass.analyst.pooling import StageMoments, pool
from simulate import simulate

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
P, N = 120, 20_000


def a_correlation(p, seed):
    rng = np.random.default_rng(seed)
    precision = np.eye(p)
    i, j = rng.integers(0, p, (2, p))
    precision[i, j] = precision[j, i] = rng.uniform(0.15, 0.3, p) * rng.choice([-1, 1], p)
    np.fill_diagonal(precision, 1 + np.abs(precision - np.diag(np.diag(precision))).sum(axis=1))
    covariance = np.linalg.inv(precision)
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)


def a_stage(rows, map_, squared_radius, noise_sd, rng):
    """Moments of clipped rows, with noise."""
    p = rows.shape[1]
    y = rows if map_ is None else rows @ map_
    y = y * np.minimum(1, np.sqrt(squared_radius) / np.linalg.norm(y, axis=1))[:, None]
    noise = np.triu(rng.standard_normal((p, p)), 1) * noise_sd
    noise = noise + noise.T + np.diag(rng.standard_normal(p) * np.sqrt(2) * noise_sd)
    mean = y.mean(axis=0) + 1e-4 * rng.standard_normal(p)
    return StageMoments(mean, y.T @ y / len(y) + noise, noise_sd, 1e-4, map_, np.zeros(p), np.sqrt(squared_radius))


@pytest.fixture(scope="module")
def truth():
    return a_correlation(P, 1)


@pytest.fixture(scope="module")
def shaped(truth):
    """Three stages: the rows as they are, and twice nearly round."""
    rng = np.random.default_rng(2)
    rows = rng.multivariate_normal(np.zeros(P), truth, N, method="cholesky")
    values, vectors = np.linalg.eigh(truth)
    maps = [(vectors / np.sqrt(values + edge)) @ vectors.T for edge in (0.5, 0.4)]
    lengths_there = [np.trace(one @ truth @ one) for one in maps]
    return [
        a_stage(rows, None, P + 1, 0.02, rng),
        *(a_stage(rows, one, length + 1, 0.012, rng) for one, length in zip(maps, lengths_there, strict=True)),
    ]


def as_the_others(stages):
    return [replace(stage, map=np.eye(P)) if stage.map is None else stage for stage in stages]


def standard_errors_apart(S, exact):
    upper = np.triu_indices(P, 1)
    return float(np.std((S - exact.covariance)[upper]) / np.sqrt(np.mean(exact.error.entry_variance[upper])))


def test_shaped_stages_are_pooled_as_they_are_entry_by_entry(shaped):
    exact, (found, undone) = pool(as_the_others(shaped), N), pool_many(shaped, N)
    assert undone
    assert standard_errors_apart(found.covariance, exact) < 0.1
    upper = np.triu_indices(P, 1)
    ratio = found.entry_variance()[upper] / exact.error.entry_variance[upper]
    assert 0.9 < ratio.min() <= ratio.max() < 1.1


def test_intervals_hold_the_truth(shaped, truth):
    known = pool_many(shaped, N)[0].standardised(2.0)[0]
    base = pilot(known, known.entry_variance())
    pairs = infer(known, base, np.ones((P, P), dtype=bool), None, None)
    assert pairs.i.size == pairs.tested == P * (P - 1) // 2
    precision = np.linalg.inv(truth)
    scale = np.sqrt(np.diag(precision))
    partial = -(precision / np.outer(scale, scale))[pairs.i, pairs.j]
    assert 0.93 < np.mean(np.abs(pairs.estimate - partial) <= 1.96 * pairs.error) < 0.975


def test_rows_that_were_all_clipped_still_tell_directions(shaped, truth):
    """A ball of half their length: no length is left to tell, and the correlations are those of the rows."""
    rng = np.random.default_rng(5)
    rows = rng.multivariate_normal(np.zeros(P), truth, N, method="cholesky")
    tight = a_stage(rows, None, P / 2, 1e-5, rng)
    assert lengths(replace(tight, second=tight.second * 1.02)) is None
    found, undone = pool_many([replace(tight, second=tight.second * 1.02)], N)
    assert undone
    S = found.standardised(2.0)[0].covariance
    observed = np.corrcoef(rows, rowvar=False)
    upper = np.triu_indices(P, 1)
    assert np.std((S - observed)[upper]) < 0.3 / np.sqrt(N)  # clipping gives rows other weights


@needs_torch
@pytest.mark.parametrize("count", [1, 3])
def test_torch_finds_the_same_numbers(shaped, count):
    import torch

    stages = shaped[:count]
    there = [
        replace(one, second=torch.as_tensor(one.second), map=None if one.map is None else torch.as_tensor(one.map))
        for one in stages
    ]
    here, beside = (recover_large(pool_many(some, N)[0]) for some in (stages, there))
    assert beside.choice.solution.solver == "prox on cpu"
    assert beside.choice.alpha == pytest.approx(here.choice.alpha)
    mine, theirs = (
        {(i, j): k for k, (i, j) in enumerate(zip(x.pairs.i, x.pairs.j, strict=True))} for x in (here, beside)
    )
    both = [(mine[key], theirs[key]) for key in mine.keys() & theirs.keys()]
    one, other = np.array(both).T
    assert len(both) > 0.9 * len(mine)
    np.testing.assert_allclose(here.pairs.estimate[one], beside.pairs.estimate[other], atol=1e-6 if count > 1 else 2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_q_values_of_some_pairs_count_all_as_tests(seed):
    rng = np.random.default_rng(seed)
    p_value = np.concatenate([rng.random(5000), rng.random(60) * 10.0 ** -rng.integers(2, 9, 60)])
    whole = false_discovery_control(p_value)
    kept = np.flatnonzero((p_value <= 0.01) | (rng.random(p_value.size) < 0.02))
    found = q_values(p_value[kept], p_value.size, 0.01)
    assert np.all(found >= whole[kept] - 1e-12)
    for rate in (0.01, 0.05, 0.1, 0.2):
        assert np.count_nonzero(found <= rate) == np.count_nonzero(whole <= rate)


def test_leading_eigenvalues_are_those_of_lapack():
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    values = np.concatenate([[9.0, -7.0, 5.0], rng.uniform(-1, 1, 197)])
    found, vectors = _arrays.leading((Q * values) @ Q.T, 3, 1e-9)
    np.testing.assert_allclose(found, [9.0, -7.0, 5.0], rtol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(vectors * Q[:, :3], axis=0)), 1.0, rtol=1e-6)


def test_rows_alone_have_sampling_error():
    rng = np.random.default_rng(4)
    observed = np.cov(rng.standard_normal((2000, 30)), rowvar=False)
    answer = recover_large(Estimate(2000, observed.copy(), (1 / 2000,), (observed,), noise=0))
    assert answer.rows == pytest.approx(2000, rel=0.1)
    assert np.count_nonzero(answer.pairs.q_value <= 0.1) <= 2


def test_recover_takes_this_path_from_many_columns_on(monkeypatch, truth):
    rng = np.random.default_rng(6)
    rows = np.clip(rng.multivariate_normal(np.zeros(60), a_correlation(60, 7), 4000), -4, 4)
    column = {"kind": "continuous", "lower": -4, "upper": 4}
    plan = hg.Plan.from_dict(
        {
            "release": {"title": "Many", "form": "moments"},
            "budget": {"mu": 6.0},
            "columns": [{"name": f"x{k + 1}", **column} for k in range(60)],
        }
    )
    release = simulate(rows, plan, 8)
    fewer = hg.recover(release)
    monkeypatch.setattr(large_graph, "MANY", 60)
    many = hg.recover(release)
    assert many.edges.num_rows < fewer.edges.num_rows == 60 * 59 // 2
    assert many.fit["pairs"] == fewer.fit["pairs"]
    assert len(many.pairs & fewer.pairs) >= 0.9 * len(many.pairs | fewer.pairs) > 10
    assert many.fit["duality_gap"] <= 1e-4 * 60
    assert set(many.fit) == set(fewer.fit)
    assert many.fit["effective_rows"] == pytest.approx(fewer.fit["effective_rows"], rel=0.15)
    both = np.abs(many.partial_correlations - fewer.partial_correlations)[many.adjacency & fewer.adjacency]
    assert both.max() < 0.02


ALONE = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"scipy", "numba", "pyarrow", "sklearn", "joblib", "narwhals", "cryptography"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import hazeglass.analyst.large_inference, hazeglass.glasso.device
"""


def test_the_array_core_needs_numpy_and_torch_alone():
    subprocess.run([sys.executable, "-c", ALONE], check=True, timeout=120)
