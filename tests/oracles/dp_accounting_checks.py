"""The promise against Google's dp-accounting. Not collected by the gate: dp-accounting pins attrs < 24.

python -m venv .venv-dp-accounting
.venv-dp-accounting/bin/pip install dp-accounting pytest pytest-timeout
PYTHONPATH=src .venv-dp-accounting/bin/python -m pytest --noconftest tests/oracles/dp_accounting_checks.py
"""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.lattice import DiscreteGaussian


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("mu", [0.05, 0.237, 1.0, 3.0, 10.0])
def test_epsilon_of_the_gaussian_agrees_to_nine_digits(mu, delta):
    ours = GaussianDP(mu).epsilon(delta)
    theirs = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
    assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_delta_of_the_gaussian_agrees_with_the_inverse_of_theirs(mu, epsilon):
    delta = GaussianDP(mu).delta(epsilon)
    if delta > 1e-15:  # their search ends there
        assert dp_accounting.get_epsilon_gaussian(1 / mu, delta) == pytest.approx(epsilon, rel=1e-8)


def exact_delta(noise: DiscreteGaussian, shift: int, epsilon: float) -> float:
    """sum of (P(X = k) - e^epsilon P(X = k - shift))+, from our own probabilities."""
    k = np.arange(-math.ceil(40 * noise.scale), math.ceil(40 * noise.scale) + shift + 1)
    p, q = np.exp(noise.log_pmf(k)), np.exp(noise.log_pmf(k - shift))
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0))


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("scale", [1.0, 2.0, 5.0, 30.0])
def test_discrete_gaussian_lies_between_their_two_estimates_and_below_its_mu(scale, shift):
    noise = DiscreteGaussian(scale)
    above = privacy_loss_distribution.from_discrete_gaussian_mechanism(scale, shift)
    below = privacy_loss_distribution.from_discrete_gaussian_mechanism(scale, shift, pessimistic_estimate=False)
    promise = GaussianDP(noise.mu(shift))
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
        ours = exact_delta(noise, shift, epsilon)
        assert below.get_delta_for_epsilon(epsilon) - 1e-14 <= ours <= above.get_delta_for_epsilon(epsilon) + 1e-14
        assert promise.delta(epsilon) >= ours - 1e-15


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_mu_of_the_discrete_gaussian_is_not_larger_than_needed(scale):
    """At epsilon = 0 delta is the total variation, which the promise must match at the best threshold to 1e-9."""
    noise = DiscreteGaussian(scale)
    theirs = privacy_loss_distribution.from_discrete_gaussian_mechanism(scale, 1).get_delta_for_epsilon(0.0)
    assert GaussianDP(noise.mu(1)).delta(0.0) == pytest.approx(theirs, abs=1e-4)  # their grid is that wide
    assert GaussianDP(noise.mu(1)).delta(0.0) == pytest.approx(exact_delta(noise, 1, 0.0), rel=1e-9)


@pytest.mark.parametrize("count", [2, 30])
def test_composition_of_discrete_releases_dominates_their_convolution(count):
    scale = 3.0
    mu = math.sqrt(count) * DiscreteGaussian(scale).mu(1)
    theirs = privacy_loss_distribution.from_discrete_gaussian_mechanism(scale, 1, pessimistic_estimate=False)
    composed = theirs.self_compose(count)
    for epsilon in (0.5, 1.0, 3.0):
        assert GaussianDP(mu).delta(epsilon) >= composed.get_delta_for_epsilon(epsilon) * (1 - 1e-9)
