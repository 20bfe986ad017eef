"""Blocks of features: the certificate is rigorous, single features are the scalar problem, S may be indefinite."""

import numpy as np
import pytest

from hazeglass.errors import ConvergenceWarning, SolverInputError, UnboundedObjectiveError
from hazeglass.glasso import components, graphical_lasso
from hazeglass.glasso.distance import psd_distance
from hazeglass.glasso.penalty import block_norms


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
    alpha = 1.1 * psd_distance(S, weights, block=size, rtol=0.01).upper + 0.05
    check_certificate(graphical_lasso(S, alpha, block_size=size, weights=weights), S, alpha, size, weights)


def test_features_that_depend_on_nothing_change_nothing():
    S = random_covariance(8, 1, np.random.default_rng(0))
    wide = np.eye(16)
    wide[::2, ::2] = S
    plain = graphical_lasso(S, 0.1, penalize_diagonal=False, tol=1e-10)
    blocks = graphical_lasso(wide, 0.1, block_size=2, penalize_diagonal=False, tol=1e-9)
    assert blocks.precision[::2, ::2] == pytest.approx(plain.precision, abs=1e-3)
    assert blocks.objective == pytest.approx(plain.objective + 8, abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_the_distance_by_blocks_lies_between_that_by_entries_and_a_block_of_it(seed):
    S = random_covariance(4, 3, np.random.default_rng(seed), noise=0.5)
    entries, blocks = psd_distance(S, np.ones((12, 12))), psd_distance(S, np.ones((4, 4)), block=3)
    assert 0 < entries.lower <= blocks.upper
    assert blocks.lower <= 3 * entries.upper
    assert block_norms(blocks.nearest - S, 3).max() == pytest.approx(blocks.upper, rel=1e-9)
    assert np.linalg.eigvalsh(blocks.nearest)[0] >= -1e-9


def test_indefinite_covariances_have_an_estimate_above_the_distance_and_none_below():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        S = random_covariance(5, 3, rng, noise=0.4)
        distance = psd_distance(S, np.ones((5, 5)), block=3, rtol=0.01)
        lower, upper = distance.lower, distance.upper
        assert 0 < lower <= upper
        answer = graphical_lasso(S, 1.05 * upper, block_size=3, tol=1e-5)
        assert np.linalg.eigvalsh(answer.precision)[0] > 0
        with pytest.raises(UnboundedObjectiveError, match=r"d\(S\).*Use alpha"):
            graphical_lasso(S, 0.9 * lower, block_size=3)


def test_blocks_vanish_together_and_at_a_large_penalty_all_of_them():
    S = random_covariance(6, 3, np.random.default_rng(1))
    norms = block_norms(graphical_lasso(S, 0.7, block_size=3).precision, 3)
    off = ~np.eye(6, dtype=bool)
    assert 0 < np.sum(norms[off] == 0) < np.sum(off)
    top = block_norms(S, 3)[off].max()
    assert not block_norms(graphical_lasso(S, 1.01 * top, block_size=3).precision, 3)[off].any()


def test_a_refit_keeps_the_covariance_on_its_graph():
    S = random_covariance(4, 2, np.random.default_rng(2))
    support = np.eye(4, dtype=bool)
    support[0, 1] = support[1, 0] = support[2, 1] = support[1, 2] = True
    weights = np.where(support, 0.0, np.inf)
    answer = graphical_lasso(S, 1.0, block_size=2, weights=weights, penalize_diagonal=False, tol=1e-9)
    kept = np.repeat(np.repeat(support, 2, axis=0), 2, axis=1)
    assert np.all(answer.precision[~kept] == 0)
    assert np.linalg.inv(answer.precision)[kept] == pytest.approx(S[kept], abs=1e-3)


def test_too_few_iterations_are_said_with_the_gap():
    S = random_covariance(6, 2, np.random.default_rng(4))
    with pytest.warns(ConvergenceWarning, match="gap/p"):
        assert not graphical_lasso(S, 0.01, block_size=2, max_iter=2, tol=1e-12).converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_size": 4}, "block_size must divide"),
        ({"alpha": -1.0}, "alpha must be finite"),
        ({"weights": np.ones((2, 2))}, "weights must be 3x3"),
        ({"weights": np.full((3, 3), np.inf)}, "diagonal must be finite"),
        ({"tol": 0.0}, "tol must be"),
        ({"solver": "cd"}, "solved by admm on the CPU"),
        ({"device": "cuda"}, "solved by admm on the CPU"),
    ],
)
def test_input_that_makes_no_sense_is_refused(change, message):
    arguments = {"alpha": 0.1, "block_size": 2, **change}
    with pytest.raises(SolverInputError, match=message):
        graphical_lasso(np.eye(6), **arguments)


def test_independent_groups_of_columns_are_solved_apart_with_the_same_answer(monkeypatch):
    S = np.zeros((30, 30))
    for first in range(0, 30, 6):
        S[first : first + 6, first : first + 6] = random_covariance(2, 3, np.random.default_rng(first))
    apart = graphical_lasso(S, 0.2, block_size=3, tol=1e-8)
    monkeypatch.setattr(components, "split", lambda *_: None)
    whole = graphical_lasso(S, 0.2, block_size=3, tol=1e-8)
    assert apart.objective == pytest.approx(whole.objective, abs=1e-6)
    assert np.allclose(apart.precision, whole.precision, atol=1e-3)
    check_certificate(apart, S, 0.2, 3)
