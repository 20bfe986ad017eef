"""The adaptive graphical lasso is a weighted one: certified, and the same as R's with the same weights."""

from __future__ import annotations

import numpy as np
import pytest
from hazeglass_experiments.baselines import adaptive_graphical_lasso
from hazeglass_experiments.baselines.adaptive import adaptive_weights

from hazeglass.errors import SolverInputError, UnboundedObjectiveError
from hazeglass.glasso import graphical_lasso


def correlation(n=120, p=15, seed=3):
    rng = np.random.default_rng(seed)
    mix = np.eye(p) + 0.6 * np.eye(p, k=1)
    return np.corrcoef(rng.standard_normal((n, p)) @ mix, rowvar=False)


def test_strong_pairs_pay_less_and_absent_ones_stay_absent():
    first = graphical_lasso(correlation(), 0.15).precision
    weights = adaptive_weights(first, 0.5)
    assert np.array_equal(np.isinf(weights), first == 0)
    assert np.all(weights >= 1)
    order = np.argsort(
        np.abs(first / np.sqrt(np.outer(np.diagonal(first), np.diagonal(first))))[np.triu_indices(15, 1)]
    )
    assert np.all(np.diff(weights[np.triu_indices(15, 1)][order][first[np.triu_indices(15, 1)][order] != 0]) <= 1e-12)
    second = adaptive_graphical_lasso(correlation(), 0.15)
    assert np.all(second.adjacency <= (first != 0))
    assert 0 < second.adjacency.sum() < np.count_nonzero(np.triu(first, 1)) * 2


def test_the_second_fit_meets_the_conditions_of_its_weighted_problem():
    """W - S = alpha w sign(T) on the edges, |W - S| <= alpha w off them."""
    S, alpha = correlation(), 0.1
    weights = adaptive_weights(graphical_lasso(S, alpha).precision, 0.5)
    T = adaptive_graphical_lasso(S, alpha).precision
    slope = np.linalg.inv(T) - S
    edges = T != 0
    assert np.abs(slope[edges] - alpha * weights[edges] * np.sign(T[edges])).max() < 1e-3
    assert np.all(np.abs(slope[~edges]) <= alpha * weights[~edges] + 1e-3)


def test_without_gamma_it_is_the_graphical_lasso_again():
    S = correlation()
    again = adaptive_graphical_lasso(S, 0.1, gamma=0.0).precision
    assert np.allclose(again, graphical_lasso(S, 0.1, tol=1e-9).precision, atol=1e-3)


R_PROGRAM = """
p <- number(2)
give(glasso::glasso(take(1, p, p), rho = take(3, p, p), thr = 1e-10, maxit = 1e4)$wi)
"""


def test_the_precision_is_that_of_r_glasso_with_the_same_weights(ask_r):
    S, alpha = correlation(), 0.1
    weights = adaptive_weights(graphical_lasso(S, alpha).precision, 0.5)
    penalties = np.where(np.isinf(weights), 1e6, alpha * weights)
    theirs = ask_r("glasso", R_PROGRAM, S, 15, penalties).reshape(15, 15)
    assert np.allclose(adaptive_graphical_lasso(S, alpha).precision, theirs, atol=2e-3)


def test_an_indefinite_covariance_is_solved_above_its_distance_and_refused_below():
    corrected = correlation() - 0.3 * np.eye(15)
    assert np.linalg.eigvalsh(corrected)[0] < 0
    assert np.linalg.eigvalsh(adaptive_graphical_lasso(corrected, 0.3).precision)[0] > 0
    with pytest.raises(UnboundedObjectiveError, match="Use alpha >"):
        adaptive_graphical_lasso(corrected, 0.001)


def test_wrong_input_is_named():
    with pytest.raises(SolverInputError, match="gamma must be finite and >= 0"):
        adaptive_graphical_lasso(correlation(), 0.1, gamma=-1.0)
    with pytest.raises(SolverInputError, match="alpha must be finite and > 0"):
        adaptive_graphical_lasso(correlation(), 0.1, initial_alpha=0.0)
