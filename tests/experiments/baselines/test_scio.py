"""SCIO meets its optimality conditions and agrees with a quadratic programme solved by others."""

from __future__ import annotations

import numpy as np
import pytest
from hazeglass_experiments.baselines import as_correlation, clime, scio
from hazeglass_experiments.baselines.columns import scio_columns
from hazeglass_experiments.baselines.lasso import conditions_missed_by

from hazeglass.errors import RepairWarning, SolverInputError


def covariance(n=300, p=10, seed=1):
    rng = np.random.default_rng(seed)
    mix = np.eye(p) + 0.5 * np.eye(p, k=1)
    return np.cov(rng.standard_normal((n, p)) @ mix, rowvar=False)


@pytest.mark.parametrize("penalize_diagonal", [True, False])
@pytest.mark.parametrize("alpha", [0.4, 0.1, 0.01])
def test_every_column_meets_its_optimality_conditions(alpha, penalize_diagonal):
    S = covariance()
    columns, finished = scio_columns(S, alpha, penalize_diagonal)
    assert finished
    for j, unit in enumerate(np.eye(len(S))):
        weights = np.full(len(S), alpha)
        weights[j] = alpha if penalize_diagonal else 0.0
        assert conditions_missed_by(S, unit, weights, columns[:, j]) <= 1e-6 * alpha


def test_without_a_penalty_worth_the_name_it_is_the_inverse():
    S = covariance()
    assert np.allclose(scio(S, 1e-9).precision, np.linalg.inv(S), atol=1e-6)


R_PROGRAM = """
p <- number(2); alpha <- number(3); S <- take(1, p, p)
box <- cbind(diag(p), -diag(p))
give(sapply(1:p, function(j) {
  e <- as.numeric(seq_len(p) == j)
  solve(S, quadprog::solve.QP(solve(S), rep(0, p), box, c(e - alpha, -e - alpha))$solution)
}))
"""


def test_the_columns_are_those_of_the_dual_in_r_quadprog(ask_r):
    """The dual: minimise u' S^-1 u / 2 over |u - e_j| <= alpha, where u = S b."""
    S, alpha = covariance(60, 12, seed=5), 0.15
    theirs = ask_r("quadprog", R_PROGRAM, S, 12, alpha).reshape(12, 12).T
    assert np.allclose(theirs, scio_columns(S, alpha)[0], atol=1e-6)


def test_of_mirrored_entries_the_smaller_is_kept():
    S = covariance(40)
    columns, estimate = scio_columns(S, 0.2)[0], scio(S, 0.2)
    assert np.allclose(np.abs(estimate.precision), np.minimum(np.abs(columns), np.abs(columns.T)))
    assert np.array_equal(estimate.precision, estimate.precision.T)
    assert np.array_equal(estimate.adjacency, (estimate.precision != 0) & ~np.eye(len(S), dtype=bool))


@pytest.mark.parametrize("method", [scio, clime])
def test_a_singular_covariance_needs_a_large_enough_penalty_and_the_message_names_it(method):
    S = np.corrcoef(np.random.default_rng(0).standard_normal((4, 9)), rowvar=False)
    with pytest.raises(SolverInputError, match=r"column \d of a singular covariance has no estimate at alpha = 0.01"):
        method(S, 0.01)
    alpha = 0.01
    for _ in range(9):  # a message names what its column needs; the hungriest column has the last word
        needed = _needed(method, S, alpha)
        if needed is None:
            return
        assert needed > alpha
        alpha = needed
    pytest.fail("the penalties that messages named were never enough")


def _needed(method, S, alpha):
    try:
        method(S, alpha)
    except SolverInputError as error:
        return float(str(error).rpartition("> ")[2].rstrip(".")) * 1.001
    return None


def test_a_free_diagonal_on_a_singular_covariance_is_refused():
    S = np.ones((3, 3))
    with pytest.raises(SolverInputError, match="has no estimate"):
        scio(S, 0.1, penalize_diagonal=False)


def test_correction_brings_the_clean_precision_back():
    S, noise = covariance(), 0.3 * np.eye(10)
    assert np.array_equal(scio(S + noise - noise, 0.1).precision.round(9), scio(S, 0.1).precision.round(9))
    assert np.abs(scio(S + noise, 0.1).precision - scio(S, 0.1).precision).max() > 0.1


def test_an_indefinite_covariance_is_repaired_with_a_warning():
    corrected = as_correlation(covariance() - 0.4 * np.eye(10))
    assert np.linalg.eigvalsh(corrected)[0] < 0
    with pytest.warns(RepairWarning):
        assert scio(corrected, 0.4).precision.shape == (10, 10)
