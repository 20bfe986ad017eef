"""Curved edges: error covariances against simulation, p-values of independent columns, false discoveries, shapes."""

import numpy as np
import pytest

from hazeglass.analyst.blocks import ridge_strength, shape_of, strength_ridge
from hazeglass.analyst.covariance import covariance_of_moments
from hazeglass.analyst.error_model import ErrorModel
from hazeglass.analyst.graph import Origin
from hazeglass.analyst.inference import infer, pilot
from hazeglass.analyst.penalty import Problem
from hazeglass.analyst.recover import graph_of
from hazeglass.analyst.select import ebic
from hazeglass.errors import RepairWarning


def recovered(moments, n, fdr=0.1):
    return graph_of(covariance_of_moments(moments, n), Origin("Simulated", "moments", n), fdr=fdr)


def test_block_covariances_are_those_of_simulated_noise(released_moments):
    """Release the same rows again and again: the spread of a carried block is the one the error model states."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3))
    rows[:, 1] += rows[:, 0] ** 2
    releases = [released_moments(rows, 1.0, rng) for _ in range(3000)]
    covariances = np.array([moments.covariance(300) for moments in releases])
    load = rng.standard_normal((9, 9))
    drawn = (load @ covariances @ load.T).reshape(-1, 3, 3, 3, 3)
    calm = released_moments(rows, 1e9, rng)
    nothing = ErrorModel(np.eye(9), np.zeros((9, 9)), np.zeros((9, 9)))  # without sampling: the rows stay the same
    noise_sd, mean_sd = releases[0].second_noise_sd[0, 1], releases[0].mean_noise_sd[0]
    error = nothing.plus_isotropic(noise_sd).plus_tied_mean(calm.mean, mean_sd)
    pairs = [(0, 1), (0, 2), (1, 2)]
    for number, (i, j) in enumerate(pairs):
        seen = np.cov(drawn[:, i, :, j, :].reshape(-1, 9), rowvar=False)
        told = error.block_covariances(load, 3)[number]
        scale = np.sqrt(np.outer(np.diag(told), np.diag(told)))
        assert np.abs(seen - told).max() < 0.1 * scale.max()
        assert np.abs((seen - told) / scale).max() < 0.12
    entry = covariances.var(axis=0)
    told = error.entry_variance
    assert np.abs(entry / told - 1).max() < 0.15


def test_p_values_of_independent_columns_are_close_to_uniform_and_err_to_the_safe_side(released_moments):
    """Clipping makes products of features vary a little less than the error model says (docs/maths/curved.md)."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(40):
        rows = rng.standard_normal((3000, 6))
        found.append(recovered(released_moments(rows, 1.0, rng), 3000).edges["p_value"].to_numpy())
    values = np.concatenate(found)  # 600 of them, 15 to a release
    assert 0.015 <= np.mean(values < 0.05) <= 0.07
    assert 0.33 <= np.mean(values < 0.5) <= 0.55


@pytest.mark.slow
def test_false_discoveries_on_a_forest_with_curved_links_stay_near_the_nominal_rate(released_moments):
    """A small part of benchmarks/curved.py: hubs whose spokes are parabolas, hinges and lines."""
    rng = np.random.default_rng(2)
    links = [lambda x: x * x, lambda x: np.log1p(np.exp(2 * x)), lambda x: x, np.tanh]
    rates, powers = [], []
    for _ in range(40):
        rows = rng.standard_normal((4000, 8))
        truth = np.zeros((8, 8), dtype=bool)
        for k in (1, 2, 3, 5, 6, 7):
            signal = links[rng.integers(4)](rows[:, k - k % 4])
            rows[:, k] = 0.55 * (signal - signal.mean()) / signal.std() + 0.835 * rows[:, k]
            truth[k, k - k % 4] = truth[k - k % 4, k] = True
        called = recovered(released_moments(rows, 1.0, rng), 4000).adjacency
        rates.append(np.sum(called & ~truth) / max(1, called.sum()))
        powers.append(np.sum(called & truth) / truth.sum())
    assert np.mean(rates) <= 0.12
    assert np.mean(powers) >= 0.95


@pytest.fixture
def four(released_moments):
    """b is a parabola of a, d falls with a, c is alone."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal(20_000)
    b = 0.7 * (a**2 - 1) / np.sqrt(2) + np.sqrt(0.51) * rng.standard_normal(20_000)
    d = -0.5 * a + np.sqrt(0.75) * rng.standard_normal(20_000)
    rows = np.column_stack([a, b, rng.standard_normal(20_000), d])
    return covariance_of_moments(released_moments(rows, 1.0, rng), 20_000)


def test_a_parabola_is_called_curved_and_a_line_keeps_its_sign(four):
    edges = {
        (row["source"], row["target"]): row
        for row in graph_of(four, Origin("Simulated", "moments", four.n), fdr=0.01).edges.to_pylist()
    }
    assert {pair for pair, row in edges.items() if row["selected"]} == {("v0", "v1"), ("v0", "v3")}
    assert edges["v0", "v1"]["shape"] == "curved"
    line = edges["v0", "v3"]
    assert line["shape"] == "linear"
    assert line["precision"] > 0 > line["partial_correlation"]
    assert line["ci_low"] < -0.45 < line["ci_high"]  # clipping and the other features take a little off -0.5


def test_the_shape_is_the_curve_that_made_the_data(four):
    noisy = four.standardised()
    problem = Problem.of(noisy)
    found = infer(noisy, pilot(noisy, problem, ebic(noisy, problem).solution).precision).block
    curve = shape_of(noisy, found, 0, 1)
    assert (curve.x_name, curve.y_name) == ("v0", "v1")
    truth = 0.7 * (curve.x**2 - 1) / np.sqrt(2)
    assert np.abs(curve.y - truth).max() < 0.15
    assert np.all((curve.low < curve.y) & (curve.y < curve.high))
    line = shape_of(noisy, found, 0, 3)
    slope = np.polyfit(line.x, line.y, 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.06)


def test_the_ridge_is_a_half_and_the_noise_and_needs_no_truth(released_moments):
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((5000, 5))
    ridges = []
    for mu in (0.1, 1.0, 10.0):
        noisy = covariance_of_moments(released_moments(rows, mu, rng), 5000).standardised()
        ridges.append(strength_ridge(noisy) - 0.5)
        assert np.abs(np.linalg.eigvalsh(noisy.covariance - np.eye(15))).max() < 1.6 * ridges[-1]
    assert ridges[0] > 3 * ridges[1] > ridges[2]
    strength = ridge_strength(noisy)
    assert strength == pytest.approx(strength.T, abs=1e-12)
    assert not strength.diagonal().any()


def test_heavy_noise_gives_wide_bars_and_no_crash(released_moments):
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((500, 6))
    rows[:, 1] += 2 * rows[:, 0]
    graph = recovered(released_moments(rows, 0.05, rng), 500)
    assert np.isfinite(graph.precision).all()
    assert np.isfinite(graph.edges["p_value"].to_numpy()).all()
    assert graph.fit["hidden_columns"]
    assert any("noise hides" in note for note in graph.fit["notes"])


def test_a_given_penalty_is_used(four):
    graph = graph_of(four, Origin("Simulated", "moments", four.n), alpha=0.4, weights="uniform")
    assert graph.fit["alpha"] == 0.4
    assert graph.fit["alpha_chosen_by"] == "given"
    assert graph.features[:3] == ("v0", "v0^2", "v0^3")
    assert graph.precision.shape == (12, 12)


def test_a_given_penalty_that_is_too_small_for_the_noise_is_repaired_as_for_linear_graphs(released_moments):
    rng = np.random.default_rng(6)
    noisy = covariance_of_moments(released_moments(rng.standard_normal((500, 6)), 0.05, rng), 500)
    with pytest.warns(RepairWarning, match=r"d\(S\)"):
        graph = graph_of(noisy, Origin("Simulated", "moments", 500), alpha=0.05)
    assert graph.fit["repaired_by"] > 0
    assert np.linalg.eigvalsh(graph.precision)[0] > 0
