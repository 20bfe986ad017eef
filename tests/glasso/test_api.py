"""Every answer is certified, every solver agrees, and every unbounded problem is named."""

from __future__ import annotations

import numpy as np
import pytest
from covariance_problems import sample_covariance, symmetric_noise

from hazeglass.errors import ConvergenceWarning, SolverInputError, UnboundedObjectiveError
from hazeglass.glasso import Solution, graphical_lasso, nearest_psd_max_norm
from hazeglass.glasso.components import SOLVERS

EVERY = pytest.mark.parametrize("solver", ["auto", *SOLVERS])


def assert_optimal(answer: Solution, S: np.ndarray, paid: np.ndarray, tol: float = 1e-6) -> None:
    """Check the certificate from scratch, with none of the library's own code."""
    p = S.shape[0]
    T, W = answer.precision, answer.covariance
    assert np.array_equal(T, T.T)
    assert np.linalg.eigvalsh(T)[0] > 0
    assert np.linalg.eigvalsh(W)[0] > 0
    assert np.all(np.abs(W - S) <= paid + 1e-9 * np.max(np.abs(S)))
    finite = np.isfinite(paid)
    cost = float(np.sum(paid[finite] * np.abs(T[finite])))
    assert np.all(T[~finite] == 0)
    objective = -np.linalg.slogdet(T)[1] + np.vdot(S, T) + cost
    gap = objective - np.linalg.slogdet(W)[1] - p
    assert answer.objective == pytest.approx(objective, rel=1e-7, abs=1e-7 * p)
    assert gap <= tol * p * 1.01 + 1e-9 * p
    assert answer.gap == pytest.approx(gap, rel=0.01, abs=1e-8 * p) or answer.gap >= gap
    assert answer.converged


@EVERY
@pytest.mark.parametrize("penalize_diagonal", [True, False])
@pytest.mark.parametrize("p", [3, 20, 60])
def test_clean_covariance_is_solved_and_certified(solver: str, penalize_diagonal: bool, p: int) -> None:
    S = sample_covariance(p, 5 * p, seed=p)
    for alpha in (0.02, 0.1, 0.3):
        answer = graphical_lasso(S, alpha, solver=solver, penalize_diagonal=penalize_diagonal)
        paid = np.full((p, p), alpha)
        if not penalize_diagonal:
            np.fill_diagonal(paid, 0.0)
        assert_optimal(answer, S, paid)


@EVERY
def test_indefinite_covariance_is_solved_above_the_distance_and_refused_below(solver: str) -> None:
    S = symmetric_noise(25, 50, 0.3, seed=2)
    assert np.linalg.eigvalsh(S)[0] < 0
    _, distance = nearest_psd_max_norm(S)
    for factor in (1.05, 1.5, 3.0):
        answer = graphical_lasso(S, factor * distance, solver=solver)
        assert_optimal(answer, S, np.full_like(S, factor * distance))
    with pytest.raises(UnboundedObjectiveError, match=rf"alpha = .*d\(S\) = {distance:.4g}.*nearest_psd_max_norm"):
        graphical_lasso(S, 0.9 * distance, solver=solver)


@EVERY
def test_known_edges_are_free_and_known_non_edges_absent(solver: str) -> None:
    S = sample_covariance(12, 100, seed=4)
    weights = np.ones((12, 12))
    weights[0, 1] = weights[1, 0] = 0.0
    weights[2, 3] = weights[3, 2] = np.inf
    weights[5, 9] = weights[9, 5] = 2.5
    answer = graphical_lasso(S, 0.05, weights=weights, solver=solver)
    assert_optimal(answer, S, 0.05 * weights)
    assert answer.covariance[0, 1] == pytest.approx(S[0, 1], rel=1e-9)


@EVERY
def test_solvers_agree_with_scikit_learn(solver: str) -> None:
    sklearn_covariance = pytest.importorskip("sklearn.covariance")
    S = sample_covariance(30, 200, seed=7)
    answer = graphical_lasso(S, 0.1, penalize_diagonal=False, solver=solver, tol=1e-10)
    _, theirs = sklearn_covariance.graphical_lasso(S, 0.1, tol=1e-8, enet_tol=1e-10, max_iter=1000)
    assert np.max(np.abs(answer.precision - theirs)) < 1e-4


@pytest.mark.parametrize("solver", ["cd", "auto"])
def test_columns_that_nearly_repeat_each_other_are_solved(solver: str) -> None:
    # Voltages along a feeder look like this; coordinate descent used to leave the cone and give up.
    rng = np.random.default_rng(3)
    walk = np.cumsum(rng.standard_normal((4000, 11)) * np.geomspace(1.0, 0.01, 11), axis=1)
    S = np.corrcoef(walk, rowvar=False)
    answer = graphical_lasso(S, 0.001, solver=solver, tol=1e-8)
    assert answer.gap <= 1e-8 * 11
    reference = graphical_lasso(S, 0.001, solver="admm", tol=1e-10).precision
    assert np.max(np.abs(answer.precision - reference)) < 1e-4 * np.max(reference)


def test_an_answer_that_did_not_converge_warns_with_its_gap() -> None:
    S = sample_covariance(30, 40, seed=1)
    with pytest.warns(ConvergenceWarning, match="gap/p = .* Raise max_iter"):
        answer = graphical_lasso(S, 0.01, solver="admm", max_iter=2)
    assert not answer.converged


def test_a_variance_that_cannot_work_is_named_by_column() -> None:
    S = np.diag([1.0, -0.5, 1.0])
    with pytest.raises(UnboundedObjectiveError, match=r"column 'b' has variance -0\.5.*alpha > 0\.5"):
        graphical_lasso(S, 0.1, names=["a", "b", "c"])
    with pytest.raises(UnboundedObjectiveError, match=r"column 1 .*penalize_diagonal"):
        graphical_lasso(S, 0.1, penalize_diagonal=False)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"solver": "magic"}, "solver must be one of"),
        ({"tol": 0.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: dict[str, object], message: str) -> None:
    with pytest.raises(SolverInputError, match=message):
        graphical_lasso(np.eye(3), 0.1, **setting)  # type: ignore[arg-type]


def test_warm_start_must_be_positive_definite_and_fit() -> None:
    with pytest.raises(SolverInputError, match="warm_start must be 3x3"):
        graphical_lasso(np.eye(3), 0.1, warm_start=np.eye(4))
    with pytest.raises(SolverInputError, match="positive definite"):
        graphical_lasso(np.eye(3), 0.1, warm_start=-np.eye(3))
