"""Degenerate input gets one clear error or the obvious answer."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from covariance_problems import sample_covariance

from hazeglass.errors import SolverInputError, UnboundedObjectiveError
from hazeglass.glasso import graphical_lasso


def test_one_column_is_its_inverse_variance() -> None:
    answer = graphical_lasso([[4.0]], 1.0)
    assert answer.precision.tolist() == [[0.2]]
    assert graphical_lasso([[4.0]], 1.0, penalize_diagonal=False).precision.tolist() == [[0.25]]
    assert answer.solver == "closed form"


def test_two_columns_have_a_closed_form() -> None:
    answer = graphical_lasso([[1.0, 0.5], [0.5, 2.0]], 0.2)
    assert answer.solver == "closed form"
    assert answer.covariance == pytest.approx(np.array([[1.2, 0.3], [0.3, 2.2]]))
    assert answer.precision @ answer.covariance == pytest.approx(np.eye(2))
    assert answer.gap < 1e-12


def test_two_columns_too_correlated_are_unbounded() -> None:
    with pytest.raises(UnboundedObjectiveError, match=r"d\(S\) = 0\.5"):
        graphical_lasso([[1.0, 2.0], [2.0, 1.0]], 0.4)


def test_zero_variance_needs_a_diagonal_penalty() -> None:
    S = np.diag([1.0, 0.0, 2.0])
    assert graphical_lasso(S, 0.5).precision[1, 1] == pytest.approx(2.0)
    with pytest.raises(UnboundedObjectiveError, match="'flat' has variance 0"):
        graphical_lasso(S, 0.5, penalize_diagonal=False, names=["a", "flat", "b"])


def test_collinear_columns_are_solved_with_a_penalty_and_named_unbounded_without() -> None:
    S = np.ones((4, 4)) + np.diag([0.0, 0.0, 1.0, 1.0])
    assert graphical_lasso(S, 0.1).converged
    assert graphical_lasso(S, 0.1, penalize_diagonal=False).converged
    with pytest.raises(UnboundedObjectiveError, match="unbounded at alpha = 0"):
        graphical_lasso(S, 0.0)


def test_no_penalty_gives_the_inverse() -> None:
    S = sample_covariance(15, 200, seed=0)
    answer = graphical_lasso(S, 0.0)
    assert answer.precision == pytest.approx(np.linalg.inv(S), rel=1e-8, abs=1e-8)
    assert answer.solver == "closed form"


def test_a_huge_penalty_gives_the_diagonal() -> None:
    S = sample_covariance(10, 50, seed=1)
    answer = graphical_lasso(S, 1e6, penalize_diagonal=False)
    assert answer.precision == pytest.approx(np.diag(1.0 / np.diagonal(S)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_are_named_by_column(bad: float) -> None:
    S = np.eye(40)
    S[33, 35] = S[35, 33] = bad
    with pytest.raises(SolverInputError, match=r"NaN or infinity in column 33\b"):
        graphical_lasso(S, 0.1)


def test_asymmetry_is_refused_but_rounding_is_forgiven() -> None:
    S = sample_covariance(6, 50, seed=2)
    skewed = S.copy()
    skewed[0, 1] += 0.1
    with pytest.raises(SolverInputError, match=r"differ from their mirror by up to 0\.1"):
        graphical_lasso(skewed, 0.1)
    skewed[0, 1] = S[0, 1] + 1e-12
    assert graphical_lasso(skewed, 0.1).objective == pytest.approx(graphical_lasso(S, 0.1).objective)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 0), (2, 2, 2)])
def test_shapes_that_are_no_square_matrix_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SolverInputError, match="square"):
        graphical_lasso(np.ones(shape), 0.1)
    with pytest.raises(SolverInputError, match="real numbers"):
        graphical_lasso([["a", "b"], ["c", "d"]], 0.1)


def test_any_kind_of_array_gives_the_same_bits_and_stays_untouched() -> None:
    S = sample_covariance(12, 60, seed=3)
    expected = graphical_lasso(S, 0.1)
    frozen = S.copy()
    frozen.flags.writeable = False
    for form in (frozen, np.asfortranarray(S), S.tolist(), np.kron(S, np.ones((2, 2)))[::2, ::2]):
        answer = graphical_lasso(form, 0.1)
        assert np.array_equal(answer.precision, expected.precision)
        assert answer.precision.dtype == np.float64
    assert np.array_equal(frozen, S)
    whole = np.array([[4, 1, 0], [1, 3, 1], [0, 1, 5]])
    assert np.array_equal(graphical_lasso(whole, 0.5).precision, graphical_lasso(whole.astype(float), 0.5).precision)


def test_a_pandas_frame_is_accepted() -> None:
    pandas = pytest.importorskip("pandas")
    S = sample_covariance(5, 60, seed=3)
    frame = pandas.DataFrame(S, columns=list("abcde"), index=list("abcde"))
    assert np.array_equal(graphical_lasso(frame, 0.1).precision, graphical_lasso(S, 0.1).precision)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("solver", ["auto", "cd", "newton", "admm"])
def test_the_scale_of_the_data_changes_nothing_but_the_units(scale: float, solver: str) -> None:
    S = sample_covariance(20, 60, seed=4)
    one = graphical_lasso(S, 0.1, solver=solver, tol=1e-9)
    other = graphical_lasso(scale * S, 0.1 * scale, solver=solver, tol=1e-9)
    assert other.precision * scale == pytest.approx(one.precision, rel=1e-3, abs=1e-4)
    assert other.gap <= 1e-9 * 20


def test_columns_of_very_different_scale_are_solved() -> None:
    S = sample_covariance(20, 60, seed=5)
    units = np.logspace(-6, 6, 20)
    weights = np.outer(units, units)
    plain = graphical_lasso(S, 0.1, tol=1e-9)
    scaled = graphical_lasso(S * weights, 0.1, weights=weights, tol=1e-9)
    assert scaled.precision * weights == pytest.approx(plain.precision, rel=1e-3, abs=1e-4)


def test_components_are_solved_apart() -> None:
    S = np.zeros((60, 60))
    for k in range(4):
        S[15 * k : 15 * k + 15, 15 * k : 15 * k + 15] = sample_covariance(15, 60, seed=k)
    mixed = np.random.default_rng(0).permutation(60)
    S = S[np.ix_(mixed, mixed)]
    one = graphical_lasso(S, 0.05)
    assert np.all(one.precision[S == 0] == 0)
    assert one.gap <= 1e-6 * 60
    direct = -np.linalg.slogdet(one.precision)[1] + np.vdot(S, one.precision) + 0.05 * np.sum(np.abs(one.precision))
    assert one.objective == pytest.approx(direct)


def test_numba_and_scipy_are_imported_only_when_a_solver_runs() -> None:
    program = "import sys, hazeglass.glasso; sys.exit(any(name in sys.modules for name in ('numba', 'scipy.linalg')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_singles_pairs_and_small_components_together_solve_the_whole() -> None:
    sizes = [1, 2, 2, 3, 5, 1, 8, 2, 40, 3, 30, 20]
    p = sum(sizes)
    S = np.zeros((p, p))
    place = 0
    for size in sizes:
        here = slice(place, place + size)
        S[here, here] = np.corrcoef(np.random.default_rng(size).standard_normal((3 * size + 5, size)), rowvar=False)
        place += size
    mixed = np.random.default_rng(1).permutation(p)
    S = S[np.ix_(mixed, mixed)]
    answer = graphical_lasso(S, 0.02)
    assert np.all(np.abs(answer.covariance - S) <= 0.02 + 1e-12)
    primal = -np.linalg.slogdet(answer.precision)[1] + np.vdot(S, answer.precision)
    primal += 0.02 * float(np.sum(np.abs(answer.precision)))
    assert answer.objective == pytest.approx(primal, abs=1e-9)
    gap = primal - np.linalg.slogdet(answer.covariance)[1] - p
    assert answer.gap == pytest.approx(gap, abs=1e-7)
    assert gap <= 1e-6 * p


def test_one_unbounded_pair_among_many_columns_is_named() -> None:
    S = np.eye(20)
    S[3, 7] = S[7, 3] = 2.0
    with pytest.raises(UnboundedObjectiveError, match=r"d\(S\) = 0\.5"):
        graphical_lasso(S, 0.3)
