"""mu, epsilon, delta and the trade-off curve agree with each other and with independent arithmetic."""

import math
from decimal import Decimal, getcontext, localcontext
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hazeglass.errors import InputError
from hazeglass.guarantee.gdp import GaussianDP, _increasing_root, _mills_slope


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
    assert GaussianDP(mu).delta(epsilon) == pytest.approx(float(exact), rel=1e-12, abs=0)


@given(st.floats(1e-3, 50), st.floats(0.01, 30))
def test_epsilon_inverts_delta(mu, ratio):
    guarantee = GaussianDP(mu)
    epsilon = mu * ratio + (mu * mu / 2 if mu > 1 else 0.0)
    delta = guarantee.delta(epsilon)
    if 1e-300 < delta < 0.999:
        assert guarantee.epsilon(delta) == pytest.approx(epsilon, rel=1e-12, abs=0)
        assert GaussianDP.from_budget(epsilon, delta).mu == pytest.approx(mu, rel=1e-12, abs=0)


def test_nothing_overflows_at_epsilon_700():
    assert GaussianDP(50.0).delta(700.0) == pytest.approx(1.0)
    assert GaussianDP(1e-3).delta(700.0) == 0.0
    assert GaussianDP(1e-3).log_delta(700.0) == pytest.approx(-0.5 * (700 / 1e-3) ** 2, rel=1e-6)
    assert 0 < GaussianDP(20.0).delta(700.0) < 1e-10


def test_delta_decreases_with_epsilon_and_grows_with_mu():
    deltas = [GaussianDP(0.7).delta(e) for e in np.linspace(0, 5, 50)]
    assert all(a > b for a, b in pairwise(deltas))
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


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan, math.inf])
def test_delta_is_asked_for_at_a_sensible_epsilon(epsilon):
    for ask in (GaussianDP(1.0).delta, GaussianDP(1.0).log_delta):
        with pytest.raises(InputError, match="epsilon must be"):
            ask(epsilon)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_epsilon_is_asked_for_at_a_sensible_delta(delta):
    with pytest.raises(InputError, match="delta must lie strictly"):
        GaussianDP(1.0).epsilon(delta)


@pytest.mark.parametrize("alpha", [-1e-9, 1.0 + 1e-9, math.nan])
def test_a_false_positive_rate_is_a_probability(alpha):
    with pytest.raises(InputError, match="between 0 and 1"):
        GaussianDP(1.0).tradeoff(alpha)


def test_a_delta_that_holds_without_any_epsilon_costs_none():
    """delta(0) is the total variation of the two normals, 2 Phi(mu/2) - 1."""
    total_variation = 2 * NormalDist().cdf(0.05) - 1
    assert GaussianDP(0.1).delta(0.0) == pytest.approx(total_variation, rel=1e-12)
    assert GaussianDP(0.1).epsilon(total_variation * 1.001) == 0.0
    assert 0.0 < GaussianDP(0.1).epsilon(total_variation * 0.999) < 0.001


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 1e6])
def test_the_inversion_reaches_far_from_where_it_starts(mu):
    epsilon = mu * mu / 2 + mu
    delta = GaussianDP(mu).delta(epsilon)
    assert GaussianDP.from_budget(epsilon, delta).mu == pytest.approx(mu, rel=1e-9, abs=0)


@pytest.mark.parametrize("mu", [1e6, 1e11, 3e11, 1e13, 1e100, 1e149])
def test_a_promise_hardly_worth_the_name_still_has_its_epsilon(mu):
    """For large mu the second term of delta vanishes: epsilon = mu^2 / 2 + mu times the quantile of 1 - delta."""
    quantile = -NormalDist().inv_cdf(1e-6)
    assert GaussianDP(mu).epsilon(1e-6) == pytest.approx(mu * mu / 2 + mu * quantile, rel=1e-9)
    assert GaussianDP(mu).delta(mu * mu / 2) == pytest.approx(0.5, rel=1e-6)
    assert GaussianDP(mu).delta(0.0) == 1.0


def test_a_budget_beyond_all_floats_is_refused():
    with pytest.raises(InputError, match="so tight"):
        GaussianDP.from_budget(0.0, 1e-305)
    with pytest.raises(InputError, match="so loose"):
        GaussianDP(1e160).epsilon(1e-6)


def test_a_root_that_is_met_at_the_start_is_the_answer():
    assert _increasing_root(lambda x: x - 3.0, start=3.0) == 3.0
    assert _increasing_root(lambda x: x - 3.0, start=1.0) == pytest.approx(3.0, rel=1e-15)
    assert _increasing_root(lambda x: x - 3.0, start=100.0) == pytest.approx(3.0, rel=1e-15)


@pytest.mark.parametrize("fraction", [0.05, 0.5, 1.0])
def test_a_share_spends_its_part_of_the_square(fraction):
    assert GaussianDP(0.7).share(fraction).mu ** 2 == pytest.approx(fraction * 0.49, rel=1e-14)


def test_many_promises_compose_at_once():
    assert GaussianDP(1.0).compose(GaussianDP(2.0), GaussianDP(2.0)).mu == pytest.approx(3.0)


def mills(x: Decimal) -> Decimal:
    """Mills' ratio by its continued fraction, x far from 0."""
    value = x
    for k in range(400, 0, -1):
        value = x + k / value
    return 1 / value


@pytest.mark.parametrize("t", [30.0, 99.9, 100.1, 150.0, 1e4])
def test_small_promises_far_out_agree_with_fifty_digit_arithmetic(t):
    """log delta = log(phi(t) (m(t) - m(t + mu))) at epsilon = mu t + mu^2/2, where no float holds either."""
    mu, epsilon = 0.01, 0.01 * t + 0.01**2 / 2
    with localcontext() as context:
        context.prec = 50
        x = Decimal(epsilon) / Decimal(mu) - Decimal(mu) / 2
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582")
        log_density = -x * x / 2 - (2 * pi).ln() / 2
        exact = log_density + (mills(x) - mills(x + Decimal(mu))).ln()
    assert GaussianDP(mu).log_delta(epsilon) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize(("t", "digits"), [(20.0, 1e-13), (99.0, 1e-11), (100.5, 3e-13), (200.0, 1e-14), (1e6, 1e-14)])
def test_the_slope_of_mills_ratio_is_right_on_both_sides_of_where_its_formula_changes(t, digits):
    with localcontext() as context:
        context.prec = 50
        exact = float(1 - Decimal(t) * mills(Decimal(t)))
    assert _mills_slope(np.array([t]))[0] == pytest.approx(exact, rel=digits, abs=0)
