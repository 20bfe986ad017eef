"""The Wishart posterior obeys Bayes' rule, and its moments are those of its own samples."""

from __future__ import annotations

import numpy as np
import pytest
from hazeglass_experiments.baselines import g_wishart
from hazeglass_experiments.baselines.wishart import log_evidence, wishart_posterior
from scipy.stats import multivariate_normal, wishart

from hazeglass.errors import RepairWarning, SolverInputError


def rows_of_a_chain(n=60, p=4, seed=0):
    rng = np.random.default_rng(seed)
    precision = np.eye(p) + 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1))
    return rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision), size=n)


@pytest.mark.parametrize("degrees", [5.5, 9.0, 80.0])
def test_prior_times_likelihood_is_evidence_times_posterior_at_every_precision(degrees):
    """The posterior identity: the log evidence must come out the same wherever it is evaluated."""
    X = rows_of_a_chain()
    S = X.T @ X / len(X)
    posterior = wishart_posterior(S, len(X), degrees)
    prior_scale = np.linalg.inv((degrees - 5) * np.diag(np.diagonal(S)))
    for seed in range(5):
        omega = wishart(20, np.eye(4) / 20).rvs(random_state=seed)
        likelihood = multivariate_normal(np.zeros(4), np.linalg.inv(omega)).logpdf(X).sum()
        prior = wishart(degrees, prior_scale).logpdf(omega)
        after = wishart(posterior.degrees, posterior.scale).logpdf(omega)
        assert likelihood + prior - after == pytest.approx(log_evidence(S, len(X), degrees), rel=1e-9)


def test_mean_and_standard_deviation_are_those_of_samples():
    X = rows_of_a_chain()
    posterior = wishart_posterior(X.T @ X / len(X), len(X), 8.0)
    draws = wishart(posterior.degrees, posterior.scale).rvs(40_000, random_state=1)
    error = posterior.standard_deviation / 200
    assert np.all(np.abs(draws.mean(axis=0) - posterior.mean) < 5 * error)
    assert np.allclose(draws.std(axis=0), posterior.standard_deviation, rtol=0.03)


def test_the_mode_is_where_the_density_is_largest():
    X = rows_of_a_chain()
    posterior = wishart_posterior(X.T @ X / len(X), len(X), 8.0)
    law = wishart(posterior.degrees, posterior.scale)
    top = law.logpdf(posterior.mode)
    rng = np.random.default_rng(2)
    for _ in range(50):
        step = rng.standard_normal((4, 4)) * 0.01
        assert law.logpdf(posterior.mode + step + step.T) < top


def test_the_prior_degrees_chosen_are_the_most_likely():
    X = rows_of_a_chain()
    S = X.T @ X / len(X)
    chosen = wishart_posterior(S, len(X)).prior_degrees
    best = log_evidence(S, len(X), chosen)
    assert all(log_evidence(S, len(X), 5 + beyond) <= best + 1e-9 for beyond in np.geomspace(0.01, 1e5, 300))


def test_an_edge_is_what_lies_far_enough_from_zero():
    X = rows_of_a_chain(2000, 8)
    S = X.T @ X / len(X)
    estimate = g_wishart(S, 4.0, rows=len(X))
    chain = np.eye(8, k=1, dtype=bool) | np.eye(8, k=-1, dtype=bool)
    assert np.array_equal(estimate.adjacency, chain)
    posterior = wishart_posterior(S, len(X))
    assert np.allclose(estimate.precision[chain], posterior.mode[chain])
    assert np.allclose(np.diagonal(estimate.precision), np.diagonal(posterior.mode))
    assert estimate.scores[chain].min() > 4.0
    assert np.allclose(estimate.scores[chain], (np.abs(posterior.mean) / posterior.standard_deviation)[chain])


def test_more_columns_than_rows_still_have_a_posterior():
    X = rows_of_a_chain(6, 30)
    posterior = wishart_posterior(np.cov(X, rowvar=False), 6)
    assert np.linalg.eigvalsh(posterior.scale)[0] > 0


def test_a_corrected_covariance_is_used_and_repaired_where_it_must_be():
    X = rows_of_a_chain(500, 6)
    S = X.T @ X / len(X)
    clean = g_wishart(S, rows=500).scores
    assert np.allclose(g_wishart(S + 0.2 * np.eye(6) - 0.2 * np.eye(6), rows=500).scores, clean)
    with pytest.warns(RepairWarning):
        g_wishart(S - 0.7 * np.eye(6), rows=500)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows must be >= 1, got 0"),
        ({"rows": 10, "prior_degrees": 4.0}, r"must be > p \+ 1 = 4, got 4.0"),
        ({"rows": 10, "alpha": -1.0}, "alpha must be finite and > 0"),
    ],
)
def test_wrong_input_is_named(options, message):
    with pytest.raises(SolverInputError, match=message):
        g_wishart(np.eye(3), **options)
