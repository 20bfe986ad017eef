"""CLIME is feasible, and its dual proves that no feasible vector is smaller."""

from __future__ import annotations

import numpy as np
import pytest
from hazeglass_experiments.baselines import clime, usable_covariance
from hazeglass_experiments.baselines.columns import clime_column, smallest_alpha
from scipy.optimize import linprog

from hazeglass.errors import RepairWarning


def covariance(n=100, p=12, seed=2):
    rng = np.random.default_rng(seed)
    mix = np.eye(p) + 0.5 * np.eye(p, k=1)
    return np.cov(rng.standard_normal((n, p)) @ mix, rowvar=False)


def dual_value(S, j, alpha):
    """max y_j - alpha sum |y|  subject to  max |S y| <= 1, solved by another method of another form."""
    p = len(S)
    reward = np.eye(p)[j]
    both = np.hstack([S, -S])
    answer = linprog(
        alpha * np.ones(2 * p) - np.concatenate([reward, -reward]),
        A_ub=np.vstack([both, -both]),
        b_ub=np.ones(2 * p),
        method="highs-ipm",
    )
    return -answer.fun


@pytest.mark.parametrize("alpha", [0.3, 0.1, 0.02])
@pytest.mark.parametrize("shift", [0.0, -0.4])
def test_every_column_is_feasible_and_as_small_as_its_dual_says(alpha, shift):
    """Shifted, the matrix is indefinite, as a corrected covariance may be: the programme does not mind."""
    S = covariance() + shift * np.eye(12)
    assert (np.linalg.eigvalsh(S)[0] < 0) == (shift < 0)
    for j in range(12):
        b = clime_column(S, j, alpha)
        assert np.abs(S @ b - np.eye(12)[j]).max() <= alpha + 1e-7
        assert np.abs(b).sum() == pytest.approx(dual_value(S, j, alpha), rel=1e-6)


R_PROGRAM = """
p <- number(2); alpha <- number(3); S <- take(1, p, p)
A <- rbind(cbind(S, -S), cbind(-S, S))
give(sapply(1:p, function(j) {
  e <- as.numeric(seq_len(p) == j)
  lpSolve::lp("min", rep(1, 2 * p), A, rep("<=", 2 * p), c(alpha + e, alpha - e))$objval
}))
"""


def test_the_columns_are_as_small_as_those_of_r_lpsolve(ask_r):
    S, alpha = covariance(seed=6), 0.1
    ours = [np.abs(clime_column(S, j, alpha)).sum() for j in range(12)]
    assert np.allclose(ours, ask_r("lpSolve", R_PROGRAM, S, 12, alpha), atol=1e-6)


def test_an_indefinite_covariance_is_repaired_with_a_warning():
    indefinite = covariance() - 0.4 * np.eye(12)
    with pytest.warns(RepairWarning):
        repaired = usable_covariance(indefinite)
    with pytest.warns(RepairWarning):
        assert np.array_equal(clime(indefinite, 0.1).precision, clime(repaired, 0.1).precision)


def test_with_almost_no_tolerance_it_is_the_inverse():
    S = covariance()
    assert np.allclose(clime(S, 1e-7).precision, np.linalg.inv(S), atol=1e-4)


def test_a_large_tolerance_leaves_nothing():
    S = covariance()
    assert not clime(S, 1.0).precision.any()
    assert not clime(S, 1.0).adjacency.any()


def test_of_mirrored_entries_the_smaller_is_kept():
    S = covariance()
    columns = np.column_stack([clime_column(S, j, 0.1) for j in range(12)])
    precision = clime(S, 0.1).precision
    assert np.array_equal(precision, precision.T)
    assert np.allclose(np.abs(precision), np.minimum(np.abs(columns), np.abs(columns.T)))


def test_the_least_tolerance_is_the_border():
    S = np.corrcoef(np.random.default_rng(3).standard_normal((5, 8)), rowvar=False)
    for j in range(8):
        border = smallest_alpha(S, j)
        assert clime_column(S, j, border * 1.001) is not None
        assert clime_column(S, j, border * 0.99) is None
