"""A path gives what single fits give, from warm starts."""

from __future__ import annotations

import numpy as np
import pytest
from covariance_problems import sample_covariance, symmetric_noise

from hazeglass.errors import SolverInputError, UnboundedObjectiveError
from hazeglass.glasso import graphical_lasso, graphical_lasso_path, largest_alpha
from hazeglass.glasso.cd import FIRST_CAPACITY, _Lists


@pytest.mark.parametrize("solver", ["auto", "newton", "admm"])
def test_path_agrees_with_cold_starts(solver: str) -> None:
    S = sample_covariance(40, 100, seed=0)
    path = graphical_lasso_path(S, 8, solver=solver, tol=1e-8)
    assert [answer.alpha for answer in path] == sorted((answer.alpha for answer in path), reverse=True)
    for warm in path:
        cold = graphical_lasso(S, warm.alpha, tol=1e-8)
        assert warm.converged
        assert warm.objective == pytest.approx(cold.objective, abs=2e-8 * 40)


def test_no_edge_is_left_at_the_largest_alpha_and_one_appears_below() -> None:
    S = sample_covariance(20, 100, seed=1)
    top = largest_alpha(S)
    above, below = graphical_lasso_path(S, [top, 0.99 * top])
    assert np.count_nonzero(above.precision) == 20
    assert np.count_nonzero(below.precision) > 20


def test_largest_alpha_skips_free_and_forbidden_pairs() -> None:
    S = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.1], [0.2, 0.1, 1.0]])
    weights = np.ones((3, 3))
    weights[0, 1] = weights[1, 0] = np.inf
    assert largest_alpha(S, weights) == 0.2
    weights[0, 1] = weights[1, 0] = 0.0
    assert largest_alpha(S, weights) == 0.2


def test_answers_come_in_the_order_of_the_penalties() -> None:
    S = sample_covariance(15, 100, seed=2)
    alphas = [0.05, 0.3, 0.1]
    assert [answer.alpha for answer in graphical_lasso_path(S, alphas)] == alphas


def test_path_stops_once_the_graph_is_dense_enough() -> None:
    S = sample_covariance(30, 60, seed=3)
    path = graphical_lasso_path(S, 20, max_density=0.1)
    density = [(np.count_nonzero(answer.precision) - 30) / (30 * 29) for answer in path]
    assert len(path) < 20
    assert density[-1] > 0.1
    assert all(share <= 0.1 for share in density[:-1])


def test_a_penalty_below_the_distance_is_named() -> None:
    S = symmetric_noise(20, 100, 0.5, seed=5)
    with pytest.raises(UnboundedObjectiveError, match=r"d\(S\)|variance"):
        graphical_lasso_path(S, [1.0, 1e-3])


def test_a_path_needs_penalties() -> None:
    with pytest.raises(SolverInputError, match="alphas"):
        graphical_lasso_path(np.eye(3), [])
    with pytest.raises(SolverInputError, match="alphas"):
        graphical_lasso_path(np.eye(3), 0)


def test_a_warm_start_needs_no_more_sweeps_than_a_cold_one() -> None:
    S = sample_covariance(60, 150, seed=6)
    near = graphical_lasso(S, 0.11)
    warm, cold = graphical_lasso(S, 0.1, warm_start=near), graphical_lasso(S, 0.1)
    assert warm.n_iter <= cold.n_iter
    assert graphical_lasso(S, 0.1, warm_start=near.precision).converged


def test_a_warm_start_with_more_neighbours_than_the_first_room_keeps_them_all() -> None:
    p = 3 * FIRST_CAPACITY // 2
    T = np.linalg.inv(sample_covariance(p, 20 * p, seed=4))
    lists = _Lists.of_precision((T + T.T) / 2)
    assert np.array_equal(lists.count, np.full(p, p - 1))
    for j in (0, 1, p - 1):
        others = np.delete(np.arange(p), j)
        assert np.array_equal(lists.index[j, : p - 1], others)
        np.testing.assert_allclose(lists.value[j, : p - 1], -T[j, others] / T[j, j], rtol=1e-10, atol=1e-12)
