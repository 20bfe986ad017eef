"""The group graphical lasso: its certificate is rigorous, blocks of one are the scalar problem, S may be indefinite."""

import numpy as np
import pytest

from hazeglass.analyst.curved.group_distance import group_distance
from hazeglass.analyst.curved.group_lasso import group_graphical_lasso
from hazeglass.analyst.curved.group_penalty import block_norms
from hazeglass.analyst.nearest_psd import psd_distance
from hazeglass.analyst.solvers import graphical_lasso
from hazeglass.errors import ConvergenceWarning, SolverInputError, UnboundedObjectiveError


def random_covariance(p, size, rng, noise=0.0):
    rows = rng.standard_normal((4 * p * size, p * size)) @ rng.standard_normal((p * size, p * size))
    S = np.corrcoef(rows, rowvar=False)
    E = noise * rng.standard_normal(S.shape)
    return S + (E + E.T) / np.sqrt(2)


def check_certificate(answer, S, alpha, size, weights=None):
    """Primal and dual feasibility and the gap, recomputed from the definitions with other routines."""
    T, W = answer.precision, answer.covariance
    paid = alpha * (np.ones((len(S) // size,) * 2) if weights is None else weights)
    assert np.linalg.eigvalsh(T)[0] > 0
    assert np.linalg.eigvalsh(W)[0] > 0
    assert np.all(block_norms(W - S, size) <= paid * (1 + 1e-9) + 1e-12)
    norms = np.array([[np.linalg.norm(b) for b in np.hsplit(r, len(S) // size)] for r in np.vsplit(T, len(S) // size)])
    primal = -np.linalg.slogdet(T)[1] + np.sum(S * T) + np.sum(paid[norms > 0] * norms[norms > 0])
    gap = primal - np.linalg.slogdet(W)[1] - len(S)
    assert gap == pytest.approx(answer.gap, abs=1e-8)
    assert primal == pytest.approx(answer.objective, abs=1e-8)
    assert -1e-9 <= gap <= 1e-6 * len(S)


@pytest.mark.parametrize("seed", range(12))
def test_every_answer_carries_a_valid_certificate(seed):
    rng = np.random.default_rng(seed)
    p, size = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    S = random_covariance(p, size, rng, noise=0.2 * rng.uniform())
    weights = rng.uniform(0.5, 2.0, (p, p))
    weights = (weights + weights.T) / 2
    alpha = 1.1 * group_distance(S, weights, size)[1] + 0.05
    check_certificate(group_graphical_lasso(S, alpha, size, weights=weights), S, alpha, size, weights)


def test_blocks_of_one_are_the_scalar_graphical_lasso():
    S = random_covariance(8, 1, np.random.default_rng(0))
    ours = group_graphical_lasso(S, 0.1, 1, tol=1e-9)
    assert ours.precision == pytest.approx(graphical_lasso(S, 0.1, tol=1e-10).precision, abs=1e-3)
    assert ours.objective == pytest.approx(graphical_lasso(S, 0.1, tol=1e-10).objective, abs=1e-7)


def test_distance_of_blocks_of_one_is_the_scalar_distance():
    S = random_covariance(6, 1, np.random.default_rng(3), noise=0.5)
    scalar = psd_distance(S, np.ones((6, 6)))
    lower, upper = group_distance(S, np.ones((6, 6)), 1)
    assert lower <= scalar.upper * (1 + 1e-9)
    assert upper >= scalar.lower * (1 - 1e-9)
    assert upper - lower <= 0.011 * upper


def test_indefinite_covariances_have_an_estimate_above_the_distance_and_none_below():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        S = random_covariance(5, 3, rng, noise=0.4)
        lower, upper = group_distance(S, np.ones((5, 5)), 3)
        assert 0 < lower <= upper
        answer = group_graphical_lasso(S, 1.05 * upper, 3, tol=1e-5)
        assert np.linalg.eigvalsh(answer.precision)[0] > 0
        with pytest.raises(UnboundedObjectiveError, match=r"d\(S\).*Use alpha"):
            group_graphical_lasso(S, 0.9 * lower, 3)


def test_blocks_vanish_together_and_at_a_large_penalty_all_of_them():
    S = random_covariance(6, 3, np.random.default_rng(1))
    norms = block_norms(group_graphical_lasso(S, 0.7, 3).precision, 3)
    off = ~np.eye(6, dtype=bool)
    assert 0 < np.sum(norms[off] == 0) < np.sum(off)
    top = block_norms(S, 3)[off].max()
    assert not block_norms(group_graphical_lasso(S, 1.01 * top, 3).precision, 3)[off].any()


def test_a_refit_keeps_the_covariance_on_its_graph():
    S = random_covariance(4, 2, np.random.default_rng(2))
    support = np.eye(4, dtype=bool)
    support[0, 1] = support[1, 0] = support[2, 1] = support[1, 2] = True
    weights = np.where(support, 0.0, np.inf)
    answer = group_graphical_lasso(S, 1.0, 2, weights=weights, penalize_diagonal=False, tol=1e-9)
    kept = np.repeat(np.repeat(support, 2, axis=0), 2, axis=1)
    assert np.all(answer.precision[~kept] == 0)
    assert np.linalg.inv(answer.precision)[kept] == pytest.approx(S[kept], abs=1e-3)


def test_too_few_iterations_are_said_with_the_gap():
    S = random_covariance(6, 2, np.random.default_rng(4))
    with pytest.warns(ConvergenceWarning, match="gap/q"):
        assert not group_graphical_lasso(S, 0.01, 2, max_iter=2, tol=1e-12).converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 4}, "size must divide"),
        ({"alpha": -1.0}, "alpha must be finite"),
        ({"weights": np.ones((2, 2))}, "weights must be a symmetric 3x3"),
        ({"weights": np.full((3, 3), np.inf)}, "diagonal must be finite"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_input_that_makes_no_sense_is_refused(change, message):
    arguments = {"alpha": 0.1, "size": 2, **change}
    with pytest.raises(SolverInputError, match=message):
        group_graphical_lasso(np.eye(6), **arguments)
