"""Voltages of a 115-bus grid: the covariance's condition number is about 1e12, and the answer is still certified."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hazeglass.glasso import graphical_lasso, graphical_lasso_path

DATA = Path(os.environ.get("HAZEGLASS_DATA", Path(__file__).resolve().parents[2] / ".." / "shared" / "data"))


@pytest.fixture(scope="module")
def voltages() -> np.ndarray:
    path = DATA / "grid115" / "voltages.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there: set HAZEGLASS_DATA to the folder that holds grid115")
    table = np.genfromtxt(path, delimiter=",", skip_header=1)
    return table[:, ~np.any(np.isnan(table), axis=0)]


def test_the_covariance_is_solved_and_certified_at_any_sensible_penalty(voltages: np.ndarray) -> None:
    S = np.cov(voltages, rowvar=False, bias=True)
    p = len(S)
    assert np.linalg.cond(S) > 1e10
    largest = float(np.max(np.abs(S - np.diag(np.diagonal(S)))))
    for share in (0.3, 0.1, 0.01, 0.001):
        answer = graphical_lasso(S, share * largest)
        assert answer.converged
        assert answer.gap <= 1e-6 * p
        assert np.linalg.eigvalsh(answer.precision)[0] > 0
        direct = -np.linalg.slogdet(answer.precision)[1] + np.vdot(S, answer.precision)
        direct += share * largest * float(np.sum(np.abs(answer.precision)))
        assert answer.objective == pytest.approx(direct, rel=1e-9)


def test_the_correlation_is_solved_along_a_path(voltages: np.ndarray) -> None:
    path = graphical_lasso_path(np.corrcoef(voltages, rowvar=False), np.geomspace(0.5, 0.005, 8))
    assert all(answer.converged for answer in path)
