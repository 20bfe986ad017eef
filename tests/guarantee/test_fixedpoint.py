"""Against the standard library's decimals, 90 digits long: another algorithm, another number system."""

from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from itertools import pairwise

import pytest

from hazeglass.guarantee.fixedpoint import ONE, exp_neg, gaussian_weights, normal_tails

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707")


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def normal_tail(x: Fraction) -> Decimal:
    """1/2 - (x - x^3/6 + ...) / sqrt(2 pi), by the plain alternating series; 160 digits absorb its cancellation."""
    with localcontext() as context:
        context.prec = 160
        z = decimal(x)
        term = total = z
        n = 0
        while abs(term) > Decimal(10) ** -120:
            n += 1
            term *= -z * z / (2 * n)
            total += term / (2 * n + 1)
        return Decimal("0.5") - total / (2 * PI).sqrt()


@pytest.fixture(autouse=True)
def many_digits():
    with localcontext():
        getcontext().prec = 90
        yield


@pytest.mark.parametrize(
    "x", [Fraction(0), Fraction(1, 10**9), Fraction(3, 7), Fraction(1), Fraction(777, 10), Fraction(130)]
)
def test_exponential_is_within_one_unit(x):
    assert abs(Decimal(exp_neg(x)) - (-decimal(x)).exp() * ONE) <= 1


@pytest.mark.parametrize("scale", [Fraction(3, 10), Fraction(1), Fraction(17, 4), Fraction(100)])
def test_normal_tails_are_within_their_stated_error(scale):
    count = int(14 * scale) + 2
    tails = normal_tails(1 / (2 * scale), 1 / scale, count)
    assert all(later <= earlier for earlier, later in pairwise(tails))
    for k in {0, 1, count // 3, count // 2, count - 1}:
        want = normal_tail((Fraction(1, 2) + k) / scale)
        assert abs(Decimal(tails[k]) / ONE - want) < Decimal(2) ** -134


@pytest.mark.parametrize("scale", [Fraction(3, 10), Fraction(1), Fraction(1000)])
def test_gaussian_weights_are_within_their_stated_error(scale):
    weights = gaussian_weights(scale, int(14 * scale) + 2)
    for k in {0, 1, len(weights) // 2, len(weights) - 1}:
        want = (-decimal(Fraction(k * k) / (2 * scale * scale))).exp() * ONE
        assert abs(Decimal(weights[k]) - want) <= (k + 2) ** 2


def test_exponential_refuses_a_negative_argument():
    with pytest.raises(ValueError, match="x >= 0"):
        exp_neg(Fraction(-1))
