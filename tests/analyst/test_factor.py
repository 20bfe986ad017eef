"""Cholesky factors: right for any layout, None where there is none, and other threads go on meanwhile."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from hazeglass.analyst.factor import cholesky, inverse, logdet


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


def test_overwriting_needs_no_second_matrix(A: np.ndarray) -> None:
    factor = cholesky(A, overwrite=True)
    assert factor is not None
    assert np.shares_memory(factor, A)


@pytest.mark.parametrize("spoil", [-1.0, 0.0, np.nan])
def test_no_factor_without_positive_pivots(A: np.ndarray, spoil: float) -> None:
    A[7, 7] = spoil
    assert cholesky(A) is None


def test_other_threads_run_while_lapack_does() -> None:
    """Two components are only solved at once if a factorisation keeps nobody waiting."""
    large, counted, stop = np.eye(2500) + 1e-4, [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted[0]
        assert cholesky(large, overwrite=True) is not None
        during = counted[0] - before
    finally:
        stop.set()
        thread.join()
    assert during > 200_000  # about 60,000 when the interpreter is held, 900,000 when not
