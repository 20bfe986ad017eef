"""The promise and the sampler against OpenDP, an independent implementation of exact noise.

python -m venv .venv-opendp
.venv-opendp/bin/pip install opendp numpy scipy numba pytest pytest-timeout
PYTHONPATH=src .venv-opendp/bin/python -m pytest --noconftest tests/oracles/opendp_checks.py
"""

import math

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.lattice import DiscreteGaussian
from hazeglass.publisher.noise import SecretBits, draw

dp.enable_features("contrib")


def their_gaussian(scale):
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=scale)


@pytest.mark.parametrize("scale", [0.5, 1.0, 40.0, 1000.0])
@pytest.mark.parametrize("shift", [1.0, 7.0])
def test_zero_concentrated_parameter_is_that_of_the_gaussian(scale, shift):
    assert their_gaussian(scale).map(shift) == pytest.approx((shift / scale) ** 2 / 2, rel=1e-9)


@pytest.mark.parametrize("scale", [2.0, 20.0, 1000.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_our_epsilon_is_at_most_their_conversion_from_concentration(scale, delta):
    """mu-GDP is tight for a Gaussian, concentrated privacy is not: ours must be smaller, but not by much."""
    shift = round(scale)
    theirs = dp.c.make_zCDP_to_approxDP(their_gaussian(scale)).map(float(shift)).epsilon(delta=delta)
    ours = GaussianDP(DiscreteGaussian(scale).mu(shift)).epsilon(delta)
    assert 0.8 * theirs < ours < theirs


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0, 50.0])
def test_their_draws_and_ours_follow_the_same_probabilities(scale):
    size = 100_000
    theirs = np.array(their_gaussian(scale)([0] * size))
    ours = draw(DiscreteGaussian(scale), size, SecretBits())
    reach = math.ceil(3 * scale)
    k = np.arange(-reach, reach + 1)
    p = np.exp(DiscreteGaussian(scale).log_pmf(k))
    k, p = k[p * size > 10], p[p * size > 10]
    for draws in (theirs, ours):
        observed = np.array([np.count_nonzero(draws == value) for value in k])
        outside = size - observed.sum()
        expected = np.append(p, 1 - p.sum()) * size
        if expected[-1] < 10:  # join what is too rare to be tested alone
            expected = np.append(expected[:-2], expected[-2:].sum())
            observed[-1], outside = observed[-1] + outside, None
        counts = observed if outside is None else np.append(observed, outside)
        assert stats.chisquare(counts, expected * size / expected.sum()).pvalue > 1e-6


@pytest.mark.parametrize("scale", [5.0, 1e6])
def test_their_draws_and_ours_cannot_be_told_apart(scale):
    size = 50_000
    theirs = np.array(their_gaussian(scale)([0] * size))
    ours = draw(DiscreteGaussian(scale), size, SecretBits())
    assert stats.ks_2samp(theirs, ours).pvalue > 1e-6
