"""A covariance is let through untouched exactly when it is finite and symmetric to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hazeglass.analyst.validation import as_covariance
from hazeglass.errors import SolverInputError


def _symmetric(p: int, seed: int) -> np.ndarray:
    A = np.random.default_rng(seed).standard_normal((p, p))
    return A + A.T


@given(st.integers(1, 70), st.integers(0, 9), st.integers(1, 3))
def test_a_symmetric_matrix_is_the_same_object(p: int, seed: int, n_threads: int) -> None:
    S = _symmetric(p, seed)
    assert as_covariance(S, n_threads=n_threads) is S


@given(st.integers(2, 70), st.integers(0, 9), st.integers(1, 3), st.data())
def test_one_bit_in_one_entry_is_seen_and_averaged_away(p: int, seed: int, n_threads: int, data: st.DataObject) -> None:
    S = _symmetric(p, seed)
    i = data.draw(st.integers(1, p - 1))
    j = data.draw(st.integers(0, i - 1))
    S[i, j] = np.nextafter(S[i, j], data.draw(st.sampled_from([-np.inf, np.inf])))
    given_ = S.copy()
    mended = as_covariance(S, n_threads=n_threads)
    assert mended is not S
    assert np.array_equal(mended, mended.T)
    assert np.array_equal(S, given_)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("p", [3, 64, 150])
def test_errors_in_a_pattern_do_not_cancel(p: int, n_threads: int) -> None:
    """A constant, a linear and an alternating asymmetry would each cancel under weights as regular as they are."""
    S = _symmetric(p, 1)
    i, j = np.indices((p, p))
    for skew in (np.sign(i - j), i - j, np.sign(i - j) * (-1.0) ** (i + j)):
        with pytest.raises(SolverInputError, match="symmetric"):
            as_covariance(S + skew, n_threads=n_threads)


@given(st.integers(2, 40), st.integers(0, 39), st.sampled_from([np.nan, np.inf, -np.inf]), st.integers(1, 2))
def test_what_is_not_finite_is_named_even_on_the_diagonal(p: int, place: int, bad: float, n_threads: int) -> None:
    S = _symmetric(p, 0)
    S[place % p, place % p] = bad
    with pytest.raises(SolverInputError, match=rf"NaN or infinity in column {place % p}\b"):
        as_covariance(S, n_threads=n_threads)


def test_the_largest_numbers_are_finite() -> None:
    S = np.full((3, 3), np.finfo(float).max)
    assert as_covariance(S) is S


def test_zero_beside_minus_zero_is_symmetric() -> None:
    S = np.eye(3)
    S[0, 1] = -0.0
    assert np.array_equal(as_covariance(S), np.eye(3))
