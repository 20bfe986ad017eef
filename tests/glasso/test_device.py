"""The solver that runs where torch puts it, here on its CPU ("cpu:0"): same answers, same certificate, clear words."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from covariance_problems import sample_covariance, symmetric_noise

from hazeglass import graphical_lasso, graphical_lasso_path
from hazeglass.errors import MissingExtraError, SolverInputError, UnboundedObjectiveError

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@needs_torch
@pytest.mark.parametrize("problem", ["easy", "few rows", "indefinite", "uneven scales"])
def test_agrees_with_the_cpu_and_proves_it(problem: str) -> None:
    S, alpha = PROBLEMS[problem]()
    there = graphical_lasso(S, alpha, tol=1e-7, device="cpu:0")
    here = graphical_lasso(S, alpha, tol=1e-9)
    p = len(S)
    assert there.converged
    assert there.solver == "prox on cpu"
    assert here.objective - 1e-9 * p <= there.objective <= here.objective + there.gap + 1e-9 * p
    assert there.gap <= 1e-7 * p
    np.linalg.cholesky(there.precision)
    np.linalg.cholesky(there.covariance)
    outside = np.abs(there.covariance - S) - alpha
    assert outside.max() <= 1e-12 * np.abs(S).max()


def _sample() -> tuple[np.ndarray, float]:
    return sample_covariance(60, 600, seed=1), 0.1


def _few() -> tuple[np.ndarray, float]:
    return sample_covariance(60, 30, seed=2), 0.2


def _indefinite() -> tuple[np.ndarray, float]:
    return symmetric_noise(60, 600, 0.1, seed=3), 0.3


def _uneven() -> tuple[np.ndarray, float]:
    scale = np.geomspace(0.3, 3.0, 60)
    return sample_covariance(60, 600, seed=4) * np.outer(scale, scale), 0.1


PROBLEMS = {"easy": _sample, "few rows": _few, "indefinite": _indefinite, "uneven scales": _uneven}


@needs_torch
def test_halves_of_a_large_matrix_make_its_inverse(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from hazeglass.glasso.device import linalg

    monkeypatch.setattr(linalg, "BASE", 16)
    A = sample_covariance(101, 400, seed=5)
    work = torch.from_numpy(A.copy())
    assert linalg.logdet_and_inverse(work) == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)
    np.testing.assert_allclose(work.numpy(), np.linalg.inv(A), atol=1e-10)
    A[50, 50] = -1.0
    assert linalg.logdet_and_inverse(torch.from_numpy(A)) is None


@needs_torch
def test_weights_forbid_and_free_edges() -> None:
    S = sample_covariance(30, 300, seed=6)
    weights = np.ones_like(S)
    weights[0, 1] = weights[1, 0] = np.inf
    weights[0, 2] = weights[2, 0] = 0.0
    there = graphical_lasso(S, 0.2, weights=weights, tol=1e-8, device="cpu:0")
    here = graphical_lasso(S, 0.2, weights=weights, tol=1e-10)
    assert there.precision[0, 1] == 0.0
    assert there.precision[0, 2] != 0.0
    np.testing.assert_allclose(there.precision, here.precision, atol=1e-3)


@needs_torch
def test_a_tensor_comes_back_as_a_tensor() -> None:
    import torch

    S = torch.from_numpy(sample_covariance(20, 200, seed=7))
    answer = graphical_lasso(S, 0.1, device="cpu:0")
    assert isinstance(answer.precision, torch.Tensor)
    assert isinstance(answer.covariance, torch.Tensor)


@needs_torch
def test_a_path_begins_each_fit_from_the_one_before() -> None:
    S = sample_covariance(40, 200, seed=8)
    path = graphical_lasso_path(S, [0.3, 0.1, 0.2], tol=1e-7, device="cpu:0")
    assert [answer.alpha for answer in path] == [0.3, 0.1, 0.2]
    for warm in path:
        assert warm.objective == pytest.approx(graphical_lasso(S, warm.alpha, tol=1e-9).objective, abs=2e-7 * 40)
    cold = graphical_lasso(S, 0.1, tol=1e-7, device="cpu:0")
    assert graphical_lasso(S, 0.1, tol=1e-7, device="cpu:0", warm_start=cold).n_iter < cold.n_iter


@needs_torch
def test_refusals_say_what_to_do() -> None:
    S = np.eye(3)
    with pytest.raises(SolverInputError, match="device must be one torch can use"):
        graphical_lasso(S, 0.1, device="nowhere")
    with pytest.raises(SolverInputError, match="one way of its own"):
        graphical_lasso(S, 0.1, solver="cd", device="cpu:0")
    with pytest.raises(SolverInputError, match="must be finite"):
        graphical_lasso(np.full((3, 3), np.nan), 0.1, device="cpu:0")
    with pytest.raises(SolverInputError, match="must be symmetric"):
        graphical_lasso(np.triu(np.ones((3, 3))), 0.1, device="cpu:0")
    with pytest.raises(UnboundedObjectiveError, match="column 1"):
        graphical_lasso(np.diag([1.0, -1.0, 1.0]), 0.1, device="cpu:0")
    with pytest.raises(UnboundedObjectiveError, match="larger alpha"):
        graphical_lasso(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.1, device="cpu:0")


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_the_message_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"hazeglass\[gpu\]"):
        graphical_lasso(np.eye(3), 0.1, device="cuda")
