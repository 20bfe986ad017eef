"""Clipping undone: samples of Gaussian rows, clipped by another code, get their mean and covariance back."""

import numpy as np
import pytest

from hazeglass.features.clipping import _fixed_point, _Model, _white_sample, widen


def clipped_moments(covariance, mean, radius, n=400_000, seed=3):
    """Second moments and mean of clipped rows, from draws the module has never seen."""
    rng = np.random.default_rng(seed)
    rows = rng.multivariate_normal(mean, covariance, size=n)
    lengths = np.linalg.norm(rows, axis=1)
    clipped = rows * np.minimum(1, radius / lengths)[:, None]
    return clipped.T @ clipped / n, clipped.mean(axis=0), float(np.mean(lengths > radius))


COVARIANCE = np.array([[1.0, 0.5, 0.0], [0.5, 0.8, 0.2], [0.0, 0.2, 0.4]])


def test_centred_rows_get_their_covariance_back():
    second, _, share = clipped_moments(COVARIANCE, np.zeros(3), radius=1.5)
    found = widen(second, 1.5)
    assert np.abs(second - COVARIANCE).max() > 0.1  # clipping did something
    assert found.covariance == pytest.approx(COVARIANCE, abs=0.02)
    assert found.share_clipped == pytest.approx(share, abs=0.01)
    assert not found.mean.any()


@pytest.mark.parametrize("length", [0.2, 1.2])
def test_rows_about_another_point_get_mean_and_covariance_back(length):
    """The longer mean is beyond what the eigenbasis alone can explain: there every entry is matched."""
    mean = length * np.array([0.6, -0.64, 0.48])
    second, clipped_mean, share = clipped_moments(COVARIANCE, mean, radius=1.8)
    found = widen(second, 1.8, clipped_mean)
    assert found.covariance == pytest.approx(COVARIANCE, abs=0.03)
    assert found.mean == pytest.approx(mean, abs=0.02)
    assert found.share_clipped == pytest.approx(share, abs=0.01)
    assert found.mean_kept == pytest.approx(np.linalg.norm(clipped_mean) / length, abs=0.05)


def test_every_entry_is_matched_where_the_mean_is_far():
    """The rows that are found, clipped again, have the given moments: the same sample, worked out by hand."""
    second, clipped_mean, _ = clipped_moments(COVARIANCE, np.array([0.8, -0.7, 0.6]), radius=1.8)
    found = widen(second, 1.8, clipped_mean)
    values, vectors = np.linalg.eigh(found.covariance)
    rows = found.mean + _white_sample(3) @ (vectors * np.sqrt(values)) @ vectors.T
    clipped = rows * np.minimum(1, 1.8 / np.linalg.norm(rows, axis=1))[:, None]
    assert clipped.T @ clipped / len(rows) == pytest.approx(second, abs=2e-5)
    assert clipped.mean(axis=0) == pytest.approx(clipped_mean, abs=1e-4)


def test_round_rows_about_a_far_point_get_their_covariance_back():
    """Their eigenvectors are any three at right angles, and others at every step."""
    mean = np.array([0.5, -0.4, 0.6])
    second, clipped_mean, _ = clipped_moments(0.5 * np.eye(3), mean, radius=1.4)
    found = widen(second, 1.4, clipped_mean)
    assert found.covariance == pytest.approx(0.5 * np.eye(3), abs=0.02)
    assert found.mean == pytest.approx(mean, abs=0.02)


def test_moments_that_are_never_matched_are_given_up_soon(monkeypatch):
    """The second moments lie nearer the centre than the mean that is stated beside them."""
    solved, eigh = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: solved.append(matrix) or eigh(matrix))
    mean = np.array([1.5, *np.zeros(5)])
    assert widen(np.outer(mean, mean) * 0.9 + 0.02 * np.eye(6), 1.6, mean) is None
    assert 10 < len(solved) < 100


def test_rows_are_shortened_by_what_their_length_says():
    spread, offset = np.array([1.0, 0.5, 0.2]), np.array([0.4, -0.3, 0.2])
    model = _Model(3, 1.2, np.ones(3))
    lengths = np.linalg.norm(offset + np.sqrt(spread) * model.draws, axis=1)
    assert model.shrink(spread, offset) == pytest.approx(np.minimum(1, (1.2 / lengths) ** 2), rel=1e-9)
    assert model.draws.std(axis=0) == pytest.approx(np.ones(3), abs=0.01)
    blind = _Model(3, 1.2, None)
    lengths = np.sqrt(blind.squares @ spread)
    assert blind.shrink(spread, np.zeros(3)) == pytest.approx(np.minimum(1, (1.2 / lengths) ** 2), rel=1e-9)
    assert blind.squares.mean(axis=0) == pytest.approx(np.ones(3), abs=1e-12)


def test_what_was_not_clipped_is_left_as_it_is():
    found = widen(COVARIANCE, 1e3)
    assert found.covariance == pytest.approx(COVARIANCE, abs=1e-6)
    assert (found.share_clipped, found.mean_kept) == (0.0, 1.0)


def test_the_noise_of_the_mean_is_put_back_into_an_unbiased_covariance():
    found = widen(COVARIANCE, 1e3)
    unbiased = found.row_covariance(10, np.array([0.3, 0.2, 0.1]))
    assert unbiased == pytest.approx((COVARIANCE + np.diag([0.09, 0.04, 0.01])) * 10 / 9, abs=1e-6)


def test_moments_that_no_rows_in_the_ball_can_have_are_given_up():
    assert widen(COVARIANCE, float(np.sqrt(np.trace(COVARIANCE)))) is None
    assert widen(COVARIANCE, 1.3) is None
    assert widen(np.diag([0.98, 0.01, 0.005]), 1.0) is None  # nearly every row on one end of one axis


def test_an_iteration_that_runs_away_or_never_ends_is_given_up():
    assert _fixed_point(lambda now: now + 2e3, np.ones((2, 3))) is None
    assert _fixed_point(lambda now: now * np.nan, np.ones((2, 3))) is None
    flip = iter(range(10**6))
    assert _fixed_point(lambda now: np.random.default_rng(next(flip)).random((2, 3)), np.ones((2, 3))) is None
    assert _fixed_point(np.cos, np.ones((2, 3))) == pytest.approx(np.full((2, 3), 0.7390851332), abs=1e-8)


def test_the_fixed_sample_is_white_and_the_same_for_everybody():
    sample = _white_sample(4)
    assert np.abs(sample.mean(axis=0)).max() < 1e-12
    assert sample.T @ sample / len(sample) == pytest.approx(np.eye(4), abs=1e-12)
    assert np.array_equal(sample, _white_sample(4))
