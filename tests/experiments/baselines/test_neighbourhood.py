"""Neighbourhood selection meets its optimality conditions and agrees with two other implementations."""

from __future__ import annotations

import numpy as np
import pytest
from hazeglass_experiments.baselines import as_correlation, neighbourhood_selection, usable_covariance
from hazeglass_experiments.baselines.columns import regressions
from hazeglass_experiments.baselines.estimate import entry_scores
from hazeglass_experiments.baselines.lasso import conditions_missed_by, solve_lasso

from hazeglass.errors import RepairWarning, SolverInputError


def chain_rows(n=200, p=12, seed=0):
    """Rows whose graph is the chain 0 - 1 - ... - p-1."""
    rng = np.random.default_rng(seed)
    precision = np.eye(p) + 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1))
    return rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision), size=n)


@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("n", [8, 200])
def test_every_regression_meets_its_optimality_conditions(n, alpha):
    S = np.corrcoef(chain_rows(n), rowvar=False)
    found = regressions(S, alpha)
    for j in range(len(S)):
        weights = np.full(len(S), alpha)
        weights[j] = np.inf
        assert found[j, j] == 0
        assert conditions_missed_by(S, S[j], weights, found[:, j]) <= 1e-6 * alpha


def test_nearly_collinear_columns_are_solved_exactly():
    """Condition number 1e10: coordinate descent alone would need millions of sweeps."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 1)) + 1e-5 * rng.standard_normal((500, 30))
    S = np.corrcoef(X, rowvar=False)
    for alpha in (0.1, 1e-3, 1e-5):
        weights = np.full(29, alpha)
        b, met = solve_lasso(S[1:, 1:], S[0, 1:], weights, 1e-6 * alpha)
        assert met
        assert conditions_missed_by(S[1:, 1:], S[0, 1:], weights, b) <= 1e-6 * alpha


def test_the_regressions_are_those_of_scikit_learn():
    from sklearn.linear_model import Lasso

    X = chain_rows()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = regressions(np.corrcoef(X, rowvar=False), 0.05)
    for j in range(X.shape[1]):
        rest = np.delete(X, j, axis=1)
        theirs = Lasso(alpha=0.05, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(rest, X[:, j]).coef_
        assert np.allclose(np.delete(ours[:, j], j), theirs, atol=1e-6)


R_PROGRAM = """
X <- take(1, number(2), number(3))
fit <- function(rule) huge::huge(X, lambda = number(4), method = "mb", sym = rule, verbose = FALSE)
give(cbind(as.matrix(fit("or")$beta[[1]]), as.matrix(fit("or")$path[[1]]), as.matrix(fit("and")$path[[1]])))
"""


def test_coefficients_and_graphs_are_those_of_r_huge(ask_r):
    X, alpha = chain_rows(150, 20, seed=4), 0.12
    coefficients, either, both = ask_r("huge", R_PROGRAM, X, *X.shape, alpha).reshape(3, 20, 20)
    S = np.corrcoef(X, rowvar=False)
    assert np.allclose(coefficients.T, regressions(S, alpha), atol=1e-3)  # huge stops early
    assert np.array_equal(either.astype(bool), neighbourhood_selection(S, alpha, rule="or").adjacency)
    assert np.array_equal(both.astype(bool), neighbourhood_selection(S, alpha, rule="and").adjacency)


def test_and_keeps_a_part_of_what_or_keeps():
    S = np.corrcoef(chain_rows(40), rowvar=False)
    either, both = (neighbourhood_selection(S, 0.1, rule=rule) for rule in ("or", "and"))
    assert np.all(both.adjacency <= either.adjacency)
    assert both.adjacency.sum() < either.adjacency.sum()
    for estimate in (either, both):
        assert np.array_equal(estimate.scores, estimate.scores.T)
        assert not np.any(np.diagonal(estimate.scores))


def test_the_chain_is_found():
    scores = neighbourhood_selection(np.corrcoef(chain_rows(5000), rowvar=False), 0.1).scores
    chain = np.eye(12, k=1, dtype=bool) | np.eye(12, k=-1, dtype=bool)
    others = ~chain & ~np.eye(12, dtype=bool)
    assert scores[chain].min() > scores[others].max()


def test_an_indefinite_covariance_has_its_small_eigenvalues_raised_and_is_said_to():
    S = np.corrcoef(chain_rows(), rowvar=False)
    corrected = as_correlation(S - 0.3 * np.eye(len(S)))
    values = np.linalg.eigvalsh(corrected)
    assert values[0] < 0
    with pytest.warns(
        RepairWarning, match=r"eigenvalues below 0\.\d+ were raised to it, which moved entries by up to 0\."
    ):
        estimate = neighbourhood_selection(corrected, 0.1)
    with pytest.warns(RepairWarning):
        repaired = usable_covariance(corrected)
    assert np.allclose(np.linalg.eigvalsh(repaired), np.maximum(values, -values[0]))
    assert np.array_equal(estimate.scores, neighbourhood_selection(repaired, 0.1).scores)  # no second warning


def test_a_semidefinite_covariance_is_left_as_it_is():
    S = np.corrcoef(chain_rows(6), rowvar=False)
    assert np.array_equal(usable_covariance(S), (S + S.T) / 2)


def test_correction_brings_the_clean_regressions_back():
    """Subtracting the known noise gives the answer of clean rows; leaving it in shrinks every coefficient."""
    X = chain_rows(200_000)
    noisy = X + 0.7 * np.random.default_rng(5).standard_normal(X.shape)
    clean = regressions(np.cov(X, rowvar=False), 0.02)
    corrected = regressions(np.cov(noisy, rowvar=False) - 0.49 * np.eye(12), 0.02)
    left_in = regressions(np.cov(noisy, rowvar=False), 0.02)
    assert np.abs(corrected - clean).max() < 0.05
    assert np.abs(left_in - clean).max() > 0.1


def test_scores_along_a_path_are_the_largest_penalty_that_keeps_the_edge():
    S = np.corrcoef(chain_rows(), rowvar=False)
    alphas = [0.3, 0.05, 0.1]
    scores = entry_scores(lambda alpha: neighbourhood_selection(S, alpha), alphas)
    assert set(np.unique(scores)) <= {0.0, *alphas}
    assert np.array_equal(scores == 0.3, neighbourhood_selection(S, 0.3).adjacency)
    with pytest.raises(SolverInputError, match="at least one"):
        entry_scores(lambda alpha: neighbourhood_selection(S, alpha), [])


@pytest.mark.parametrize(
    ("covariance", "options", "message"),
    [
        (np.eye(3), {"alpha": 0.0}, "alpha must be finite and > 0, got 0.0"),
        (np.eye(3), {"alpha": "much"}, "alpha must be one number > 0"),
        (np.eye(3), {"alpha": 0.1, "rule": "xor"}, "'or' or 'and', got 'xor'"),
        (np.diag([1.0, -0.5, 1.0]), {"alpha": 0.1}, r"every variance must be > 0, got -0.5 in column 1"),
        (np.zeros((2, 3)), {"alpha": 0.1}, "square matrix"),
    ],
)
def test_wrong_input_is_named(covariance, options, message):
    with pytest.raises(SolverInputError, match=message):
        neighbourhood_selection(covariance, **options)
