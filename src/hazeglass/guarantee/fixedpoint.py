"""Probabilities as integers, nothing from floating point: exponentials, normal tails, and sampling tables made of them.

A value v is held as the integer nearest below or above v * 2^PRECISION. Every operation loses at most one unit,
2^-192; the docstrings carry the sum of these losses to the end, and the ends are far below the 2^-128 that a
threshold of the sampler resolves.

Sampling tables hold cumulative probabilities as 128-bit integers, with a proven distance from the ideal.
A uniform 128-bit integer U becomes the value `first + #{j : threshold_j <= U}`. Each threshold is floor(F * 2^128)
of a fixed-point F that is wrong by less than 2^-134, so it is wrong by less than
(1 + 2^-6) * 2^-128. The total variation distance of two laws on a line is at most the sum of the distances of
their cumulative probabilities; to the m thresholds comes the mass beyond the table, below 2^-130:

    total variation <= m (1 + 2^-6) 2^-128 + 2^-130

The mass beyond 13.5 scales: 2 (1 - Phi(13.5)) = 2^-134.9 for the rounded Gaussian. For the discrete one, successive
weights fall there by a factor exp(-13.5 / s) or more, so that each side sums to at most
exp(-13.5^2 / 2) (1 + s / 13.5) / max(1, 2.5 s) <= 1.1 exp(-91.125) < 2^-131.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ONE",
    "PRECISION",
    "TAIL_SCALES",
    "Thresholds",
    "exp_neg",
    "gaussian_weights",
    "normal_tails",
    "stair_count",
    "staircase_thresholds",
    "thresholds",
    "total_variation_of",
]

PRECISION = 192
ONE = 1 << PRECISION
TAIL_SCALES = Fraction(27, 2)  # scales kept on either side; the mass beyond is below 2^-130 for both families
_WORD = (1 << 64) - 1


def exp_neg(x: Fraction, precision: int = PRECISION) -> int:
    """exp(-x) * 2^precision for x >= 0, wrong by less than one unit.

    exp(-x) = exp(-x / 2^m)^(2^m) with x / 2^m < 2^-8. The 64 guard bits pay for the Taylor sum (fewer than 2^6
    roundings) and for the m squarings, each of which at most doubles the error and adds one rounding: m <= 17
    where the result is not zero, so the loss is below 2^(6 + 17 + 1 - 64) units.
    """
    if x < 0:
        raise ValueError(f"exp_neg needs x >= 0, got {x}")
    if x > precision:  # e^-p < 2^-p: less than one unit
        return 0
    guard = precision + 64
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 8)
    reduced = (x.numerator << guard) // (x.denominator << halvings)
    term = total = 1 << guard
    n = 0
    while term:
        n += 1
        term = (term * reduced >> guard) // n
        total += -term if n & 1 else term
    for _ in range(halvings):
        total = total * total >> guard
    return total >> 64


def _pi(precision: int) -> int:
    """pi * 2^precision by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239); under one unit wrong (32 guard bits)."""

    def arctan_inverse(n: int) -> int:
        power = (1 << (precision + 32)) // n
        total, k, sign = 0, 1, 1
        while power:
            total += sign * (power // k)
            power //= n * n
            k, sign = k + 2, -sign
        return total

    return (16 * arctan_inverse(5) - 4 * arctan_inverse(239)) >> 32


def _advance(density: int, drift: int, curve: int) -> tuple[int, int]:
    """From phi(x), x h and h^2 (0 < h <= 1): the integral of phi over [x, x + h] divided by h, and phi(x + h).

    phi(x + t) has the Taylor coefficients a_0 = phi(x), (n + 1) a_(n+1) = -(x a_n + a_(n-1)), because phi' = -x phi.
    With c_n = a_n h^n the two results are sum c_n / (n + 1) and sum c_n. No |c_n| exceeds phi(x) e^(x h + h^2/2),
    and a rounding of one c_n reaches the sums multiplied by at most e^(x h + h^2): below 2^27 for x <= 17.
    With fewer than 2^7 terms, three roundings in each, the loss is below 2^36 units = 2^-156.
    """
    before, current = 0, density
    value, area, n = density, density, 0
    while before or current:
        n += 1
        before, current = current, -((drift * current + curve * before) >> PRECISION) // n
        if -2 <= current <= 2:  # floor division never brings a negative to 0; two units more are inside the loss
            current = 0
        value += current
        area += current // (n + 1)
    return area, value


def normal_tails(first: Fraction, step: Fraction, count: int) -> list[int]:
    """P(Z > first + k * step) for k = 0 .. count - 1, Z standard normal, first > 0.

    One pass outwards from 0. An error in phi(x) is not amplified on the way, since phi falls; it enters each later
    integral times the step. With at most 2^17 steps of loss 2^-156 over a way of length 18 the tails are
    wrong by less than 2^17 * 2^-156 * (1 + 18) < 2^-134.
    """
    density = math.isqrt((ONE << (PRECISION + PRECISION)) // (2 * _pi(PRECISION)))
    tail = ONE >> 1
    tails: list[int] = []
    at = Fraction(0)
    for way, stops in ((first, 1), (step, count - 1)):
        pieces = math.ceil(way)
        h = way / pieces
        unit = (at.denominator * h.denominator) ** 2  # a common denominator of x h at every x on this way
        drift, growth = int(at * h * unit), int(h * h * unit)
        curve = int(h * h * ONE)
        for _ in range(stops):
            for _ in range(pieces):
                if at > 17:  # phi(17) < 2^-209: nothing is left
                    tail = 0
                    break
                area, density = _advance(density, (drift << PRECISION) // unit, curve)
                tail -= area * h.numerator // h.denominator
                drift += growth
                at += h
            tails.append(max(tail, 0))
    return tails


def gaussian_weights(scale: Fraction, count: int, precision: int = PRECISION) -> list[int]:
    """exp(-k^2 / (2 scale^2)) * 2^precision for k = 0 .. count - 1.

    w(k+1) = w(k) r(k) and r(k+1) = r(k) q, with r(0) = exp(-1/(2 scale^2)) and q = exp(-1/scale^2), all at most 1:
    r(k) is wrong by at most 2 (k + 1) units, w(k) by at most (k + 1)^2 + k, a sum of m weights by at most m^3 units:
    2^-144 for the m <= 2^16 in use here.
    """
    half = 1 / (2 * scale * scale)
    ratio, square = exp_neg(half, precision), exp_neg(2 * half, precision)
    weight, weights = 1 << precision, []
    for _ in range(count):
        weights.append(weight)
        weight = weight * ratio >> precision
        ratio = ratio * square >> precision
    return weights


@dataclass(frozen=True, eq=False)
class Thresholds:
    """`first` and the increasing thresholds, as high and low 64-bit words; `total_variation` bounds the distance."""

    first: int
    high: NDArray[np.uint64]
    low: NDArray[np.uint64]
    total_variation: float

    def value(self, uniform: int) -> int:
        """The value that a 128-bit uniform integer stands for: the definition, which the fast paths must equal."""
        below, above = 0, len(self.high)
        while below < above:
            middle = (below + above) // 2
            if (int(self.high[middle]) << 64) | int(self.low[middle]) <= uniform:
                below = middle + 1
            else:
                above = middle
        return self.first + below


def thresholds(first: int, cumulative: list[int]) -> Thresholds:
    """The table of increasing cumulative probabilities, given in fixed point."""
    shift = PRECISION - 128
    cut = [min(value >> shift, (1 << 128) - 1) for value in cumulative]  # 1 itself does not fit
    high = np.array([value >> 64 for value in cut], dtype=np.uint64)
    low = np.array([value & _WORD for value in cut], dtype=np.uint64)
    high.flags.writeable = low.flags.writeable = False
    return Thresholds(first, high, low, total_variation_of(len(cut)))


def total_variation_of(count: int) -> float:
    """The bound above, for so many thresholds."""
    return math.ldexp(count * (1 + 2.0**-6) + 0.25, -128)


def stair_count(step: Fraction) -> int:
    """How many stairs of this width reach 13.5 scales out."""
    return math.ceil(TAIL_SCALES / step)


@lru_cache(maxsize=8)  # the sampler keeps its own
def staircase_thresholds(step: Fraction) -> Thresholds:
    """The table of stair i = 0, 1, ... of the staircase exp(-(i step)^2 / 2) over the half-normal density.

    The stairs end 13.5 scales out. The weights are those of a discrete Gaussian of scale 1/step.
    """
    weights = gaussian_weights(1 / step, stair_count(step))
    sums = list(accumulate(weights))
    return thresholds(0, [(value << PRECISION) // sums[-1] for value in sums[:-1]])
