"""A warning points at the caller's own line, not into the library."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import hazeglass
from hazeglass.errors import HazeglassWarning

ROWS = np.random.default_rng(1).standard_normal((12, 30))
S = np.cov(ROWS, rowvar=False)


@pytest.mark.parametrize(
    "work",
    [
        lambda: hazeglass.graphical_lasso(S, 0.1, solver="admm", max_iter=20, tol=1e-13),
        lambda: hazeglass.graphical_lasso_path(S, [0.2, 0.1], solver="admm", max_iter=20, tol=1e-13),
        lambda: hazeglass.graphical_lasso(S, 0.1, block_size=2, max_iter=20, tol=1e-13),
        lambda: hazeglass.recover(ROWS, alpha=1e-3, noise_cov=0.2 * np.eye(30)),
        lambda: hazeglass.CorrectedGraphicalLasso(alpha=1e-3, noise_cov=0.2).fit(ROWS),
    ],
    ids=["solver", "path", "groups", "recover", "estimator"],
)
def test_a_warning_points_here(work: Callable[[], object]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        work()
    ours = [item for item in said if issubclass(item.category, HazeglassWarning)]
    assert ours
    assert {item.filename for item in ours} == {__file__}
