"""On indefinite input every bounded problem is certified, every unbounded one is named, and nothing hangs."""

from __future__ import annotations

import os
import re
import time

import numpy as np
import pytest
from covariance_problems import indefinite_family
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hazeglass.errors import ConvergenceWarning, UnboundedObjectiveError
from hazeglass.glasso import graphical_lasso
from hazeglass.glasso.distance import psd_distance

ALL = os.environ.get("HAZEGLASS_TRUST") == "all"
FACTORS = (0.3, 0.9, 1.03, 1.2, 2.0, 5.0)


def check_case(kind: int, p: int, seed: int, factor: float, penalize_diagonal: bool, solver: str = "auto") -> None:
    S = indefinite_family(kind, p, seed)
    weights = np.ones((p, p)) if penalize_diagonal else 1.0 - np.eye(p)
    distance = psd_distance(S, weights, rtol=0.02)
    if not np.isfinite(distance.upper):
        alpha = factor * float(np.max(np.abs(S)))
    elif distance.upper > 0:
        alpha = factor * distance.upper
    else:
        alpha = 0.05 * factor * float(np.mean(np.diagonal(S)))
    begin = time.perf_counter()
    if distance.lower >= alpha:
        with pytest.raises(UnboundedObjectiveError) as refusal:
            graphical_lasso(S, alpha, penalize_diagonal=penalize_diagonal, solver=solver)
        assert_names_the_ways_out(str(refusal.value), alpha, penalize_diagonal)
    elif alpha > distance.upper:
        answer = graphical_lasso(S, alpha, penalize_diagonal=penalize_diagonal, solver=solver)
        assert answer.converged
        assert answer.gap <= 1e-6 * p
        assert np.linalg.eigvalsh(answer.precision)[0] > 0
        paid = alpha * weights
        assert np.all(np.abs(answer.covariance - S) <= paid + 1e-9 * np.max(np.abs(S)))
    assert time.perf_counter() - begin < 60


def assert_names_the_ways_out(message: str, alpha: float, penalize_diagonal: bool) -> None:
    """alpha, d(S), and what to do: a larger alpha (a free diagonal may need a penalty first), or a repair."""
    assert f"at alpha = {alpha:.4g}:" in message
    assert re.search(r"d\(S\) (= [0-9]|>= [0-9i]|lies between [0-9]|is infinite)", message)
    assert "Use alpha > " in message or (not penalize_diagonal and "penalize_diagonal=True" in message)
    assert "nearest_psd_max_norm(S)" in message


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(
    max_examples=1000 if ALL else 200,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(
    kind=st.integers(0, 5),
    p=st.one_of(*[st.integers(2, 20)] * 9, st.integers(21, 100 if ALL else 40)),  # mostly small
    seed=st.integers(0, 2**20),
    factor=st.sampled_from(FACTORS),
    penalize_diagonal=st.booleans(),
)
def test_indefinite_covariances_by_the_hundred(
    kind: int, p: int, seed: int, factor: float, penalize_diagonal: bool
) -> None:
    check_case(kind, p, seed, factor, penalize_diagonal)


@pytest.mark.parametrize("solver", ["cd", "newton", "admm"])
@pytest.mark.parametrize("kind", range(6))
def test_each_solver_by_name_on_each_family(solver: str, kind: int) -> None:
    for factor in (0.9, 1.2, 3.0):
        check_case(kind, 15, 11, factor, True, solver)


@pytest.mark.parametrize("kind", range(6))
def test_solvers_agree_on_indefinite_input(kind: int) -> None:
    S = indefinite_family(kind, 20, 3)
    alpha = 1.3 * psd_distance(S, np.ones_like(S)).upper + 0.05
    answers = [graphical_lasso(S, alpha, solver=name, tol=1e-10).precision for name in ("cd", "newton", "admm")]
    for other in answers[1:]:
        assert np.max(np.abs(other - answers[0])) < 1e-4 * max(1.0, float(np.max(np.abs(answers[0]))))


@pytest.mark.parametrize("kind", range(6))
def test_a_thousandth_from_the_edge_a_fit_is_certified_and_a_refusal_is_named(kind: int) -> None:
    S = indefinite_family(kind, 25, 5)
    edge = psd_distance(S, np.ones_like(S), rtol=1e-5)
    answer = graphical_lasso(S, 1.001 * edge.upper)
    assert answer.gap <= 1e-6 * 25
    with pytest.raises(UnboundedObjectiveError, match="unbounded"):
        graphical_lasso(S, 0.999 * edge.lower)


def test_near_the_edge_a_safe_start_arrives_where_admm_crawls() -> None:
    S = indefinite_family(4, 40, 5)
    alpha = 1.001 * psd_distance(S, np.ones_like(S), rtol=1e-5).upper
    quick, slow = graphical_lasso(S, alpha), graphical_lasso(S, alpha, solver="admm", tol=1e-3)
    assert quick.solver == "cd"
    assert quick.n_iter < 10
    assert slow.n_iter > 100
    assert abs(quick.objective - slow.objective) <= 1e-3 * 40


@pytest.mark.slow
def test_five_hundred_indefinite_matrices_of_5_to_100_columns() -> None:
    """Above the smallest eigenvalue's size a fit always exists, below a p-th of it never: d(S) lies between."""
    rng = np.random.default_rng(11)
    tried = refused = 0
    while tried < 500:
        p = int(rng.integers(5, 101))
        S = indefinite_family(tried % 6, p, seed=int(rng.integers(2**20)))
        lowest = -float(np.linalg.eigvalsh(S)[0])
        if lowest <= 0:
            continue
        tried += 1
        if tried % 25:
            answer = graphical_lasso(S, float(rng.uniform(1.05, 3.0)) * lowest)
            assert answer.converged
            assert answer.gap <= 1e-6 * p
            np.linalg.cholesky(answer.precision)
        else:
            with pytest.raises(UnboundedObjectiveError):
                graphical_lasso(S, 0.5 * lowest / p)
            refused += 1
    assert refused == 20


def test_a_fit_whose_time_is_spent_hands_back_what_it_has_and_says_so() -> None:
    S = indefinite_family(1, 60, 5)
    alpha = 1.001 * psd_distance(S, np.ones_like(S), rtol=1e-5).upper
    began = time.process_time()
    with pytest.warns(ConvergenceWarning, match="Raise max_seconds or alpha"):
        answer = graphical_lasso(S, alpha, max_seconds=0.3)
    assert time.process_time() - began < 6
    assert not answer.converged
    np.linalg.cholesky(answer.precision)
