"""The certificate is honest: never negative, zero only at the solution, true for any feasible pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hazeglass.errors import SolverInputError
from hazeglass.glasso.objective import certify, linear_part
from hazeglass.glasso.penalty import make_penalty


def random_problem(p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((p + 3, p))
    factor = rng.standard_normal((p, p)) * (rng.random((p, p)) < 0.5)
    return rows.T @ rows / p, factor @ factor.T / p + 0.1 * np.eye(p)


@settings(deadline=None, max_examples=60)
@given(p=st.integers(1, 12), seed=st.integers(0, 10_000), alpha=st.floats(0.01, 2.0), diagonal=st.booleans())
def test_gap_is_never_smaller_than_the_distance_to_the_optimum(p: int, seed: int, alpha: float, diagonal: bool) -> None:
    S, T = random_problem(p, seed)
    penalty = make_penalty(p, alpha, None, diagonal)
    found = certify(T, S, penalty)
    other = certify(np.diag(1.0 / (np.diagonal(S) + penalty.diagonal)), S, penalty)
    assert found is not None
    assert other is not None
    assert found.gap >= found.objective - other.objective - 1e-9 * abs(found.objective)


def test_gap_is_zero_at_the_inverse_when_nothing_is_penalised() -> None:
    S, _ = random_problem(8, 3)
    found = certify(np.linalg.inv(S), S, make_penalty(8, 0.0))
    assert found is not None
    assert found.gap < 1e-9


def test_certificate_refuses_a_matrix_that_is_not_positive_definite() -> None:
    S, _ = random_problem(4, 0)
    assert certify(-np.eye(4), S, make_penalty(4, 0.1)) is None


def test_dual_point_lies_in_the_box() -> None:
    S, T = random_problem(7, 5)
    weights = np.ones((7, 7))
    weights[0, 1] = weights[1, 0] = 0.0
    weights[2, 3] = weights[3, 2] = np.inf
    penalty = make_penalty(7, 0.2, weights)
    W = penalty.into_box(np.linalg.inv(T), S)
    assert np.all(np.abs(W - S) <= penalty.full() + 1e-12)
    assert W[0, 1] == S[0, 1]


def test_a_forbidden_edge_costs_infinity_and_an_absent_one_nothing() -> None:
    weights = np.array([[1.0, np.inf], [np.inf, 1.0]])
    penalty = make_penalty(2, 0.0, weights)
    assert penalty.cost(np.eye(2)) == 0.0
    assert penalty.cost(np.ones((2, 2))) == np.inf
    assert linear_part(np.eye(2), np.eye(2), penalty) == 2.0


@pytest.mark.parametrize(
    "weights", [np.ones((2, 3)), -np.ones((3, 3)), np.full((3, 3), np.nan), np.triu(np.ones((3, 3)))]
)
def test_weights_that_make_no_sense_are_refused(weights: np.ndarray) -> None:
    with pytest.raises(SolverInputError, match="weights must be"):
        make_penalty(3, 0.1, weights)


@pytest.mark.parametrize("alpha", [-0.1, np.nan, np.inf, "much"])
def test_alpha_that_makes_no_sense_is_refused(alpha: float) -> None:
    with pytest.raises(SolverInputError, match="alpha must be"):
        make_penalty(3, alpha)
