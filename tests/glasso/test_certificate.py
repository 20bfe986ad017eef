"""The cheap certificate of a sparse answer says the same as the plain one, and never less."""

from __future__ import annotations

import numpy as np
import pytest
from covariance_problems import sample_covariance
from hypothesis import given, settings
from hypothesis import strategies as st

from hazeglass.glasso import cd, graphical_lasso
from hazeglass.glasso.objective import certify
from hazeglass.glasso.penalty import make_penalty
from hazeglass.glasso.sparse import inverse_miss, sparse_logdet


def compressed(T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([[0], np.cumsum(np.count_nonzero(T, axis=1))]), np.nonzero(T)[1].astype(np.int64)


def sparse_matrix(p: int, degree: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.uniform(-1, 1, (p, p)) * (rng.random((p, p)) < degree / p), 1)
    return upper + upper.T + np.diag(np.sum(np.abs(upper + upper.T), axis=1) + 0.1)


@settings(deadline=None, max_examples=60)
@given(p=st.integers(1, 120), degree=st.floats(0.0, 40.0), seed=st.integers(0, 10_000))
def test_sparse_log_determinant_agrees_with_numpy(p: int, degree: float, seed: int) -> None:
    T = sparse_matrix(p, degree, seed)
    found = sparse_logdet(T.copy(), *compressed(T))
    assert found == pytest.approx(np.linalg.slogdet(T)[1], rel=1e-10, abs=1e-10)


@settings(deadline=None, max_examples=60)
@given(p=st.integers(2, 80), degree=st.floats(1.0, 10.0), seed=st.integers(0, 10_000))
def test_sparse_log_determinant_refuses_what_is_not_positive_definite(p: int, degree: float, seed: int) -> None:
    T = sparse_matrix(p, degree, seed)
    T -= (np.linalg.eigvalsh(T)[0] + 1e-3) * np.eye(p)
    assert sparse_logdet(T.copy(), *compressed(T)) is None


@pytest.mark.parametrize("enough", [1e-6, 1e-3, np.inf])
def test_the_norm_of_the_miss_is_whole_or_too_large_and_small(enough: float) -> None:
    """What ends early must be above what was asked and below 0.25, so that it is never taken for the whole."""
    p = 120
    T = sparse_matrix(p, 6.0, 1)
    W = np.linalg.inv(T) * (1 + 1e-3)
    sd = np.sqrt(np.diagonal(W))
    whole = float(np.sum(((T @ W - np.eye(p)) * sd[:, None] / sd) ** 2))
    assert 1e-5 < whole < 1e-3
    start, column = compressed(T)
    entry = T[np.repeat(np.arange(p), np.diff(start)), column]
    found = inverse_miss(start, column.astype(np.uint64), entry, W, sd, enough, np.empty(p))
    if enough < whole:
        assert enough < found < min(whole, 0.25)
    else:
        assert found == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize(("p", "alpha"), [(60, 0.2), (200, 0.15), (700, 0.12)])
@pytest.mark.parametrize("weighted", [False, True])
def test_gap_and_objective_agree_with_the_plain_certificate(p: int, alpha: float, weighted: bool) -> None:
    S = sample_covariance(p, 400, seed=p)
    weights = None
    if weighted:
        spread = np.random.default_rng(p).uniform(0.8, 1.5, (p, p))
        weights = (spread + spread.T) / 2
    penalty = make_penalty(p, alpha, weights)
    found = cd.solve(S, penalty, tol=1e-6).certificate
    assert found is not None
    plain = certify(found.precision, S, penalty, found.covariance)
    assert plain is not None
    assert found.objective == pytest.approx(plain.objective, rel=1e-10)
    assert plain.gap <= found.gap * (1 + 1e-6) + 1e-9
    assert found.gap <= 1e-6 * p
    assert found.kkt == pytest.approx(plain.kkt, rel=1e-6, abs=1e-12)


def test_the_same_input_gives_the_same_bits() -> None:
    S = sample_covariance(150, 300, seed=9)
    one, two = graphical_lasso(S, 0.05), graphical_lasso(S, 0.05)
    assert np.array_equal(one.precision, two.precision)
    assert one.gap == two.gap
