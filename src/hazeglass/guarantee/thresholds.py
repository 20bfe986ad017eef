"""Sampling tables: cumulative probabilities as 128-bit integers, with a proven distance from the ideal.

A uniform 128-bit integer U becomes the value `first + #{j : threshold_j <= U}`. Each threshold is floor(F * 2^128)
of a fixed-point F that is wrong by less than 2^-134 (guarantee/fixedpoint.py), so it is wrong by less than
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

from hazeglass.errors import InputError
from hazeglass.guarantee.fixedpoint import PRECISION, gaussian_weights, normal_tails
from hazeglass.guarantee.lattice import ENUMERATION_LIMIT, TAIL_SCALES, DiscreteGaussian, RoundedGaussian

__all__ = [
    "Thresholds",
    "cumulative_thresholds",
    "stair_count",
    "staircase_thresholds",
    "table_reach",
    "total_variation_of",
]

_WORD = (1 << 64) - 1


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


def _thresholds(first: int, cumulative: list[int]) -> Thresholds:
    shift = PRECISION - 128
    cut = [min(value >> shift, (1 << 128) - 1) for value in cumulative]  # 1 itself does not fit
    high = np.array([value >> 64 for value in cut], dtype=np.uint64)
    low = np.array([value & _WORD for value in cut], dtype=np.uint64)
    high.flags.writeable = low.flags.writeable = False
    return Thresholds(first, high, low, total_variation_of(len(cut)))


def total_variation_of(count: int) -> float:
    """The bound above, for so many thresholds."""
    return math.ldexp(count * (1 + 2.0**-6) + 0.25, -128)


def table_reach(scale: Fraction) -> int:
    """A table holds the values from -reach to reach."""
    return math.ceil(TAIL_SCALES * scale) + 1


def stair_count(step: Fraction) -> int:
    """How many stairs of this width reach 13.5 scales out."""
    return math.ceil(TAIL_SCALES / step)


@lru_cache(maxsize=8)  # the sampler keeps its own
def cumulative_thresholds(noise: RoundedGaussian | DiscreteGaussian) -> Thresholds:
    """The table of a noise family: P(X <= k) for k = -reach .. reach - 1."""
    if noise.scale > ENUMERATION_LIMIT:
        raise InputError(f"A table serves scales up to {ENUMERATION_LIMIT:g}, got {noise.scale!r}. draw needs none.")
    scale = Fraction(noise.scale)
    reach = table_reach(scale)
    one = 1 << PRECISION
    if isinstance(noise, RoundedGaussian):
        upper = normal_tails(1 / (2 * scale), 1 / scale, reach)  # P(X > k), k = 0 .. reach - 1
    else:
        weights = gaussian_weights(scale, reach + 1)
        sums = list(accumulate(reversed(weights)))[::-1]
        total = 2 * sums[0] - weights[0]
        upper = [(sums[k + 1] << PRECISION) // total for k in range(reach)]
    return _thresholds(-reach, upper[::-1] + [one - tail for tail in upper])


@lru_cache(maxsize=8)  # the sampler keeps its own
def staircase_thresholds(step: Fraction) -> Thresholds:
    """The table of stair i = 0, 1, ... of the staircase exp(-(i step)^2 / 2) over the half-normal density.

    The stairs end 13.5 scales out. The weights are those of a discrete Gaussian of scale 1/step.
    """
    weights = gaussian_weights(1 / step, stair_count(step))
    sums = list(accumulate(weights))
    return _thresholds(0, [(value << PRECISION) // sums[-1] for value in sums[:-1]])
