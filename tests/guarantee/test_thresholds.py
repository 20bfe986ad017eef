"""The sampling tables are as close to the ideal as they say, in exact arithmetic from another number system."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hazeglass.guarantee.lattice import DiscreteGaussian, RoundedGaussian
from hazeglass.guarantee.thresholds import (
    Thresholds,
    cumulative_thresholds,
    stair_count,
    staircase_thresholds,
    table_reach,
    total_variation_of,
)

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
        assert distance <= Decimal(table.total_variation)
        assert distance >= Decimal(table.total_variation) / 100  # the bound is no idle number


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
        assert table.total_variation == total_variation_of(len(table.high))


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
    table = Thresholds(-1, np.array([0, 1, 5], dtype=np.uint64), np.array([7, 0, 2], dtype=np.uint64), 0.0)
    edges = [7, 1 << 64, (5 << 64) | 2]
    for uniform in (0, 6, 7, 8, (1 << 64) - 1, 1 << 64, (5 << 64) | 1, (5 << 64) | 2, 2**128 - 1):
        assert table.value(uniform) == -1 + sum(edge <= uniform for edge in edges)
