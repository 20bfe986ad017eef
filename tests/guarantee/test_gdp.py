"""mu, epsilon, delta and the trade-off curve agree with each other and with independent arithmetic."""

import math
from decimal import Decimal, getcontext
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hazeglass.errors import InputError
from hazeglass.guarantee.gdp import GaussianDP


def test_delta_matches_the_check_value():
    assert GaussianDP(1.0).delta(1.0) == pytest.approx(0.126936737506644, rel=1e-14)


def _phi(x: Decimal) -> Decimal:
    """Normal cdf by its everywhere-convergent series, in 80 digits."""
    term = total = x
    for k in range(1, 2000):
        term = term * x * x / (2 * k + 1)
        total += term
        if abs(term) < Decimal(10) ** -85:
            break
    density = (-x * x / 2).exp() / (
        2 * Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
    ).sqrt()
    return Decimal("0.5") + density * total


@pytest.mark.parametrize("mu", [0.001, 0.03, 0.3, 0.49, 0.51, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.5, 2.0, 6.0])
def test_delta_agrees_with_eighty_digit_arithmetic(mu, ratio):
    getcontext().prec = 80
    epsilon = mu * ratio
    m, e = Decimal(mu), Decimal(epsilon)
    exact = _phi(-e / m + m / 2) - e.exp() * _phi(-e / m - m / 2)
    assert GaussianDP(mu).delta(epsilon) == pytest.approx(float(exact), rel=1e-12)


@given(st.floats(1e-3, 50), st.floats(0.01, 30))
def test_epsilon_inverts_delta(mu, ratio):
    guarantee = GaussianDP(mu)
    epsilon = mu * ratio + (mu * mu / 2 if mu > 1 else 0.0)
    delta = guarantee.delta(epsilon)
    if 1e-300 < delta < 0.999:
        assert guarantee.epsilon(delta) == pytest.approx(epsilon, rel=1e-12)
        assert GaussianDP.from_budget(epsilon, delta).mu == pytest.approx(mu, rel=1e-12)


def test_nothing_overflows_at_epsilon_700():
    assert GaussianDP(50.0).delta(700.0) == pytest.approx(1.0)
    assert GaussianDP(1e-3).delta(700.0) == 0.0
    assert GaussianDP(1e-3).log_delta(700.0) == pytest.approx(-0.5 * (700 / 1e-3) ** 2, rel=1e-6)
    assert 0 < GaussianDP(20.0).delta(700.0) < 1e-10


def test_delta_decreases_with_epsilon_and_grows_with_mu():
    deltas = [GaussianDP(0.7).delta(e) for e in np.linspace(0, 5, 50)]
    assert all(a > b for a, b in zip(deltas, deltas[1:], strict=False))
    assert GaussianDP(0.7).delta(1.0) < GaussianDP(0.8).delta(1.0)


def test_delta_is_continuous_where_the_formula_changes():
    below, above = GaussianDP(0.5 - 1e-12).delta(0.3), GaussianDP(0.5).delta(0.3)
    assert below == pytest.approx(above, rel=1e-10)


def test_tradeoff_is_the_curve_between_two_unit_normals():
    normal = NormalDist()
    expected = normal.cdf(normal.inv_cdf(0.95) - 1.0)
    assert GaussianDP(1.0).tradeoff(0.05) == pytest.approx(expected, rel=1e-9)
    assert GaussianDP(2.0).tradeoff(0.0) == 1.0
    assert GaussianDP(2.0).tradeoff(1.0) == 0.0
    assert GaussianDP(1.0).true_positive_rate(0.05) == pytest.approx(1 - expected, rel=1e-9)


def test_the_epsilon_delta_curve_touches_the_tradeoff_curve():
    """delta(eps) = max over tests of (1 - beta) - e^eps alpha: the duality that ties the two descriptions together."""
    guarantee, alphas = GaussianDP(0.8), np.linspace(1e-6, 1 - 1e-6, 200_001)
    power = 1 - np.array([guarantee.tradeoff(a) for a in alphas[::100]])
    best = np.max(power - math.exp(0.5) * alphas[::100])
    assert guarantee.delta(0.5) == pytest.approx(best, abs=1e-5)


def test_composition_adds_squares():
    assert GaussianDP(3.0).compose(GaussianDP(4.0)).mu == pytest.approx(5.0)
    assert GaussianDP(1.0).share(0.1).compose(GaussianDP(1.0).share(0.9)).mu == pytest.approx(1.0)


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf, "1"])
def test_a_promise_needs_a_positive_mu(mu):
    with pytest.raises(InputError, match="mu must be"):
        GaussianDP(mu)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1.0, 1e-6), (math.nan, 1e-6), (1.0, 0.0), (1.0, 1.0), (1.0, 2.0)])
def test_a_nonsense_budget_is_refused(epsilon, delta):
    with pytest.raises(InputError):
        GaussianDP.from_budget(epsilon, delta)
