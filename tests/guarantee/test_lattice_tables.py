"""Against the standard library's decimals, 90 digits long: another algorithm, another number system."""

from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hazeglass.guarantee.lattice import (
    ONE,
    DiscreteGaussian,
    RoundedGaussian,
    Thresholds,
    cumulative_thresholds,
    exp_neg,
    gaussian_weights,
    normal_tails,
    stair_count,
    staircase_thresholds,
    table_reach,
    total_variation_of,
)

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


UNIT = Fraction(1, 2**128)


@pytest.mark.parametrize("count", [1, 28, 3455, 110_594])
def test_the_stated_distance_is_the_formula_of_the_docstring(count):
    exact = count * (1 + Fraction(1, 64)) * UNIT + UNIT / 4
    assert total_variation_of(count) == pytest.approx(float(exact), rel=1e-15, abs=0)


def words(table: Thresholds) -> list[int]:
    return [(int(high) << 64) | int(low) for high, low in zip(table.high, table.low, strict=True)]


def masses(table: Thresholds) -> list[int]:
    """The probability of each value of the table, in units of 2^-128."""
    edges = [0, *words(table), 2**128]
    return [after - before for before, after in pairwise(edges)]


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0, 20.0])
def test_a_table_of_the_discrete_family_is_within_its_stated_total_variation(scale):
    table = cumulative_thresholds(DiscreteGaussian(scale))
    with localcontext() as context:
        context.prec = 80
        s, reach = Decimal(scale), int(30 * scale) + 30
        weights = {k: (-((Decimal(k) / s) ** 2) / 2).exp() for k in range(-reach, reach + 1)}
        total = sum(weights.values())
        drawn = {table.first + j: Decimal(mass) / 2**128 for j, mass in enumerate(masses(table))}
        distance = sum(abs(weights[k] / total - drawn.get(k, Decimal(0))) for k in weights) / 2
        assert distance <= Decimal(total_variation_of(len(table.high)))
        assert distance >= Decimal(total_variation_of(len(table.high))) / 100  # the bound is no idle number


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_tables_are_symmetric_to_the_last_unit(scale):
    for family in (RoundedGaussian, DiscreteGaussian):
        edges = words(cumulative_thresholds(family(scale)))
        assert len(edges) % 2 == 0
        assert all(abs(low + high - 2**128) <= 1 for low, high in zip(edges, reversed(edges), strict=True))


def test_the_tables_words_cannot_be_written_to():
    table = cumulative_thresholds(RoundedGaussian(1.0))
    for part in (table.high, table.low):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0


@pytest.mark.parametrize("scale", [Fraction(1, 64), Fraction(3, 10), Fraction(1), Fraction(256)])
def test_a_table_reaches_past_thirteen_and_a_half_scales_and_hardly_further(scale):
    assert Fraction(27, 2) * scale <= table_reach(scale) <= Fraction(27, 2) * scale + 2
    for family in (RoundedGaussian, DiscreteGaussian):
        table = cumulative_thresholds(family(float(scale)))
        assert table.first == -table_reach(Fraction(float(scale)))
        assert len(table.high) == -2 * table.first
        assert total_variation_of(len(table.high)) == total_variation_of(len(table.high))


@pytest.mark.parametrize("step", [Fraction(1, 256), Fraction(1, 301), Fraction(1, 512)])
def test_stairs_have_the_masses_of_the_staircase_and_reach_as_far(step):
    table = staircase_thresholds(step)
    assert stair_count(step) * step >= Fraction(27, 2) > (stair_count(step) - 1) * step
    assert len(table.high) == stair_count(step) - 1
    with localcontext() as context:
        context.prec = 60
        h = Decimal(step.numerator) / Decimal(step.denominator)
        weights = [(-((i * h) ** 2) / 2).exp() for i in range(stair_count(step))]
        total, below = sum(weights), Decimal(0)
        for i, (threshold, weight) in enumerate(zip(words(table), weights, strict=False)):
            below += weight
            if i % 97 == 0:
                assert abs(Decimal(threshold) - below / total * 2**128) < Decimal("1.02")


def test_a_value_is_the_first_plus_the_thresholds_at_or_below():
    table = Thresholds(-1, np.array([0, 1, 5], dtype=np.uint64), np.array([7, 0, 2], dtype=np.uint64))
    edges = [7, 1 << 64, (5 << 64) | 2]
    for uniform in (0, 6, 7, 8, (1 << 64) - 1, 1 << 64, (5 << 64) | 1, (5 << 64) | 2, 2**128 - 1):
        assert table.value(uniform) == -1 + sum(edge <= uniform for edge in edges)
