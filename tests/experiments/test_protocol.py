"""What is done to a table before a graph is looked for."""

import numpy as np
import pytest
from hazeglass_experiments.protocol import add_noise, area, corrected_covariance, edges_of, fit, noise_sd

from hazeglass.guarantee.lattice import DiscreteGaussian


@pytest.fixture
def rows():
    return np.random.default_rng(5).standard_normal((4000, 4)) @ np.diag([1.0, 2.0, 3.0, 4.0])


def test_the_noise_has_the_power_its_decibels_say(rows):
    noisy, variance = add_noise(rows, 20, 3, "continuous")
    assert variance == pytest.approx(rows.var() / 100)
    assert np.var(noisy - rows) == pytest.approx(variance, rel=0.05)
    assert noise_sd(rows, 20) == pytest.approx(10 * noise_sd(rows, 40))


def test_no_noise_changes_nothing(rows):
    noisy, variance = add_noise(rows, None, 3, "continuous")
    assert noisy is rows
    assert variance == 0


def test_integers_stay_integers_and_the_exact_variance_is_subtracted(rows):
    counts = np.rint(10 * rows)
    noisy, variance = add_noise(counts, 20, 3, "integer")
    sigma = noise_sd(counts, 20)
    assert np.array_equal(noisy, np.rint(noisy))
    assert variance == DiscreteGaussian(sigma).variance
    assert np.var(noisy - counts) == pytest.approx(variance, rel=0.05)


def test_integer_noise_far_below_one_is_none_at_all(rows):
    counts = np.rint(10 * rows)
    noisy, variance = add_noise(counts, 100, 3, "integer")
    assert np.array_equal(noisy, counts)
    assert variance == 0


def test_the_same_run_gives_the_same_noise_and_another_run_other_noise(rows):
    first, again, other = (add_noise(rows, 20, seed, "continuous")[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_correction_undoes_the_noise_on_average(rows):
    noisy, variance = add_noise(rows, 0, 3, "continuous")
    assert np.abs(corrected_covariance(noisy, variance) - corrected_covariance(rows)).max() < 1.0
    assert np.abs(corrected_covariance(noisy) - corrected_covariance(rows)).max() > 5.0


def test_an_indefinite_covariance_still_gets_a_graph():
    indefinite = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    assert np.linalg.eigvalsh(indefinite)[0] < -0.5
    precision = fit(indefinite, 0.05)
    assert np.linalg.eigvalsh(precision)[0] > 0
    assert edges_of(precision).any()


def test_the_area_is_one_for_a_perfect_ranking_and_a_half_for_ties():
    truth = np.array([True, False, False])
    assert area(truth, np.array([3.0, 1.0, 2.0])) == 1.0
    assert area(truth, np.zeros(3)) == 0.5
