"""The distance to the cone, checked against closed forms, its own dual, and random feasible points."""

from __future__ import annotations

import numpy as np
import pytest
from covariance_problems import indefinite_family
from hypothesis import given, settings
from hypothesis import strategies as st

from hazeglass.errors import SolverInputError
from hazeglass.glasso.distance import nearest_psd_max_norm, project_l1_ball, psd_distance


def test_two_by_two_matches_the_closed_form() -> None:
    # W = [[1+d, 2-d], [2-d, 1+d]] is singular at 1 + d = 2 - d
    matrix, distance = nearest_psd_max_norm([[1.0, 2.0], [2.0, 1.0]])
    assert distance == pytest.approx(0.5, rel=1e-3)
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-12


def test_a_negative_variance_is_lifted_to_zero() -> None:
    assert nearest_psd_max_norm([[-2.0]])[1] == pytest.approx(2.0, rel=1e-3)


def test_a_positive_semidefinite_matrix_is_returned_unchanged() -> None:
    S = np.ones((3, 3))
    matrix, distance = nearest_psd_max_norm(np.eye(3) + S)
    assert distance == 0.0
    assert np.array_equal(matrix, np.eye(3) + S)


@settings(deadline=None, max_examples=40)
@given(
    kind=st.integers(0, 5), p=st.integers(2, 30), seed=st.integers(0, 10_000), scale=st.sampled_from([1e-9, 1.0, 1e9])
)
def test_bounds_meet_to_three_digits_at_any_scale(kind: int, p: int, seed: int, scale: float) -> None:
    S = scale * indefinite_family(kind, p, seed)
    found = psd_distance(S, np.ones_like(S))
    assert np.linalg.eigvalsh(found.nearest)[0] >= -1e-10 * np.max(np.abs(S))
    assert np.max(np.abs(found.nearest - S)) == pytest.approx(found.upper, rel=1e-9, abs=1e-15 * scale)
    assert found.lower <= found.upper
    assert found.upper - found.lower <= 1e-3 * found.upper
    assert found.upper <= max(0.0, -np.linalg.eigvalsh(S)[0]) * (1 + 1e-9)


def test_frozen_entries_stay_and_free_entries_cost_nothing() -> None:
    S = np.array([[1.0, 3.0, 0.0], [3.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    frozen_diagonal = psd_distance(S, 1.0 - np.eye(3))
    assert frozen_diagonal.upper == pytest.approx(2.0, rel=1e-3)
    free = np.ones((3, 3))
    free[0, 1] = free[1, 0] = np.inf
    assert psd_distance(S, free).upper < 1e-6


@settings(deadline=None, max_examples=60)
@given(p=st.integers(1, 8), seed=st.integers(0, 10_000), radius=st.floats(0.01, 10.0))
def test_projection_on_the_l1_ball_is_the_nearest_point(p: int, seed: int, radius: float) -> None:
    rng = np.random.default_rng(seed)
    V, w = rng.standard_normal((p, p)), rng.uniform(0.1, 2.0, (p, p))
    U = project_l1_ball(V, w, radius)
    assert np.sum(w * np.abs(U)) <= radius * (1 + 1e-9)
    other = rng.standard_normal((p, p))
    other *= radius / np.sum(w * np.abs(other))
    assert np.vdot(V - U, other - U) <= 1e-9


def test_input_that_is_no_symmetric_matrix_is_refused() -> None:
    with pytest.raises(SolverInputError, match="square"):
        nearest_psd_max_norm(np.ones((2, 3)))
    with pytest.raises(SolverInputError, match="symmetric"):
        nearest_psd_max_norm([[1.0, 2.0], [3.0, 1.0]])
