"""Noisy means and variances are shrunk by what is known of their noise, and are left alone where there is little."""

import numpy as np
import pytest

import hazeglass as hg
from hazeglass.analyst.correct import correct
from hazeglass.analyst.moments import covariance_of
from hazeglass.analyst.selection import effective_rows
from hazeglass.publisher.standardise import standardisation
from simulate import simulate

MEANS = np.array([0.3, -0.2, 0.0, 0.5, 0.1, -0.4, 0.2, 0.0])
VARIANCES = np.array([0.1, 0.05, 0.2, 0.12, 0.08, 0.1, 0.15, 0.09])
SQUARES = VARIANCES + MEANS**2


def test_without_noise_they_are_taken_as_they_are():
    centre, scale = standardisation(MEANS, SQUARES, 1e-9, 1e-9)
    assert centre == pytest.approx(MEANS)
    assert scale**2 == pytest.approx(VARIANCES)


def test_a_noisy_first_stage_costs_little():
    """1000 rows of 20 columns at epsilon = 1 are worth 71 clean rows; with the noisy numbers themselves, 34."""
    columns = [{"name": f"x{k + 1}", "kind": "continuous", "lower": -3.0, "upper": 3.0} for k in range(20)]
    plan = hg.Plan.from_dict(
        {"release": {"title": "t", "form": "moments"}, "budget": {"epsilon": 1.0, "delta": 1e-6}, "columns": columns}
    )
    worth = []
    for seed in range(8):
        rows = np.random.default_rng(seed).standard_normal((1000, 20))
        worth.append(effective_rows(correct(covariance_of(simulate(rows, plan, seed))).noisy))
    assert np.mean(worth) > 55


def test_a_drowned_column_gets_a_scale_that_is_finite_and_in_the_box():
    centre, scale = standardisation(np.full(3, 5.0), np.array([-40.0, 30.0, 2.0]), 50.0, 100.0)
    assert np.all(centre == 0)
    assert np.all((scale > 0) & (scale <= 1))


def test_many_releases_at_once_are_standardised_one_by_one():
    rng = np.random.default_rng(1)
    mean, squares = rng.normal(size=(5, 4)) * 0.2, rng.uniform(0.1, 0.3, size=(5, 4))
    together = standardisation(mean, squares, 0.1, 0.05)
    for k in range(5):
        alone = standardisation(mean[k], squares[k], 0.1, 0.05)
        assert together[0][k] == pytest.approx(alone[0])
        assert together[1][k] == pytest.approx(alone[1])
