"""Covariances are checked, factors are right for any layout, and a blank matrix is one of zeros in every way."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hazeglass.errors import SolverInputError
from hazeglass.glasso.linalg import STRIP, as_covariance, blank, cholesky, inverse, logdet

STATM = Path("/proc/self/statm")


@pytest.fixture
def A() -> np.ndarray:
    rows = np.random.default_rng(3).standard_normal((60, 20))
    return rows.T @ rows / 60


@pytest.mark.parametrize("layout", ["C", "F", "strided", "integer"])
def test_the_factor_multiplies_to_the_matrix_in_any_layout(A: np.ndarray, layout: str) -> None:
    wide = np.zeros((40, 40))
    wide[::2, ::2] = A
    given = {"C": A, "F": np.asfortranarray(A), "strided": wide[::2, ::2], "integer": np.diag(np.arange(1, 21))}[layout]
    before = given.copy()
    factor = cholesky(given)
    assert factor is not None
    R = np.triu(factor)
    np.testing.assert_allclose(R.T @ R, given, atol=1e-12)
    assert logdet(factor) == pytest.approx(np.linalg.slogdet(given)[1])
    np.testing.assert_allclose(inverse(factor) @ given, np.eye(20), atol=1e-9)
    np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize("spoil", [-1.0, 0.0, np.nan])
def test_no_factor_without_positive_pivots(A: np.ndarray, spoil: float) -> None:
    A[7, 7] = spoil
    assert cholesky(A) is None


def _symmetric(p: int, seed: int) -> np.ndarray:
    A = np.random.default_rng(seed).standard_normal((p, p))
    return A + A.T


@given(st.integers(1, 70), st.integers(0, 9))
def test_a_symmetric_matrix_is_the_same_object(p: int, seed: int) -> None:
    S = _symmetric(p, seed)
    assert as_covariance(S) is S


@given(st.integers(2, 70), st.integers(0, 9), st.data())
def test_one_bit_in_one_entry_is_seen_and_averaged_away(p: int, seed: int, data: st.DataObject) -> None:
    S = _symmetric(p, seed)
    i = data.draw(st.integers(1, p - 1))
    j = data.draw(st.integers(0, i - 1))
    S[i, j] = np.nextafter(S[i, j], data.draw(st.sampled_from([-np.inf, np.inf])))
    given_ = S.copy()
    mended = as_covariance(S)
    assert mended is not S
    assert np.array_equal(mended, mended.T)
    assert np.array_equal(S, given_)


@pytest.mark.parametrize("p", [3, 64, STRIP + 1, 2 * STRIP + 5])
def test_an_asymmetry_is_named_wherever_it_is(p: int) -> None:
    S = _symmetric(p, 1)
    i, j = np.indices((p, p))
    for skew in (np.sign(i - j), i - j, np.sign(i - j) * (-1.0) ** (i + j)):
        with pytest.raises(SolverInputError, match="symmetric"):
            as_covariance(S + skew)


@given(st.integers(2, 40), st.integers(0, 39), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_what_is_not_finite_is_named_even_on_the_diagonal(p: int, place: int, bad: float) -> None:
    S = _symmetric(p, 0)
    S[place % p, place % p] = bad
    with pytest.raises(SolverInputError, match=rf"NaN or infinity in column {place % p}\b"):
        as_covariance(S)


def test_the_largest_numbers_are_finite() -> None:
    S = np.full((3, 3), np.finfo(float).max)
    assert as_covariance(S) is S


def test_zero_beside_minus_zero_is_symmetric() -> None:
    S = np.eye(3)
    S[0, 1] = -0.0
    assert np.array_equal(as_covariance(S), np.eye(3))


@pytest.mark.parametrize("p", [1, 5, 800])
def test_it_is_a_writable_matrix_of_zeros(p):
    A = blank(p)
    assert (A.shape, A.dtype, A.flags.c_contiguous, A.flags.writeable) == ((p, p), np.float64, True, True)
    assert not A.any()
    A[p - 1, 0] = 2.0
    assert np.array_equal(pickle.loads(pickle.dumps(A)), A)
    assert not blank(p).any()


@pytest.mark.skipif(not STATM.exists(), reason="this system does not say how much memory is in use")
def test_it_takes_memory_only_where_it_is_written():
    def resident():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    A = blank(4000)
    np.fill_diagonal(A, 1.0)
    assert resident() - before < A.nbytes / 3  # one small page a row is 16 MB; large pages would be all 128


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_its_own():
    A = blank(800)
    child = os.fork()
    if child == 0:
        A[0, 0] = 1.0
        os._exit(0)
    os.waitpid(child, 0)
    assert A[0, 0] == 0.0
