"""Gaussian noise on the integers: two families, their exact mathematics, and their sampling tables.

    rounded   X = round(scale * Z), Z standard normal
    discrete  P(X = k) proportional to exp(-k^2 / (2 scale^2))        (the paper's)

The scale is read as the exact binary fraction that the float is.

Tables hold cumulative probabilities as 128-bit integers, made of integers alone: a value v is the integer nearest below
or above v * 2^PRECISION. Every operation loses at most one unit, 2^-192; the docstrings carry the sum of these losses
to the end. A uniform 128-bit integer U becomes the value `first + #{j : threshold_j <= U}`. Each threshold is
floor(F * 2^128) of a fixed-point F that is wrong by less than 2^-134, so it is wrong by less than (1 + 2^-6) * 2^-128.
The total variation distance of two laws on a line is at most the sum of the distances of their cumulative
probabilities; to the m thresholds comes the mass beyond the table, below 2^-130:

    total variation <= m (1 + 2^-6) 2^-128 + 2^-130

The mass beyond 13.5 scales: 2 (1 - Phi(13.5)) = 2^-134.9 for the rounded Gaussian. For the discrete one, successive
weights fall there by a factor exp(-13.5 / s) or more, so that each side sums to at most
exp(-13.5^2 / 2) (1 + s / 13.5) / max(1, 2.5 s) <= 1.1 exp(-91.125) < 2^-131.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hazeglass.errors import InputError

Floats = NDArray[np.float64]

ENUMERATION_LIMIT = 4096.0  # up to this scale every probability can be listed, in under a second
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-6, 2.0**58  # below, no noise at all; above, int64 would not hold the tails
TAIL_SCALES = Fraction(27, 2)  # scales kept on either side; the mass beyond is below 2^-130 for both families
# Beyond this scale a table takes longer to compute than it saves: the staircase needs none of its own (rounded) or a
# small one (discrete), and a release may have a hundred columns with a scale each. It must be 256 or more (blocks).
TABLE_LIMIT = 256.0
_STEP = Fraction(1, 256)  # width of a stair under the rounded family, in scales
_SMOOTHING_LOSS = 2.0**-110  # DiscreteGaussian.mu above ENUMERATION_LIMIT
PRECISION = 192
ONE = 1 << PRECISION
_PI = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0  # pi * 2^192, rounded down
_SMOOTHING = 4.0  # see DiscreteGaussian.mu
_CLOSED_FORM = 2.0  # from this scale on the variances equal their closed forms to double precision


@dataclass(frozen=True)
class _Scaled:
    """A family at one scale, in lattice steps."""

    scale: float

    def __post_init__(self) -> None:
        if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE:
            raise InputError(
                f"The noise scale must lie between 2^-6 and 2^58 lattice steps, got {self.scale!r}. "
                "Choose another grid."
            )

    def _whole(self) -> Floats:
        """1, 2, ... as far as a probability at a small scale is above the smallest float."""
        return np.arange(1.0, math.ceil(40 * self.scale) + 2)


@dataclass(frozen=True)
class RoundedGaussian(_Scaled):
    """X = round(scale * Z): a Gaussian seen through rounding, hence exactly (shift/scale)-GDP for integer shifts.

    >>> RoundedGaussian(2.0).mu(3)
    1.5
    """

    name: ClassVar[str] = "rounded-gaussian"

    @property
    def variance(self) -> float:
        """scale^2 + 1/12, less what the wrapped Gaussian leaves over: relatively 4 exp(-2 pi^2 scale^2)."""
        if self.scale >= _CLOSED_FORM:
            return self.scale**2 + 1 / 12
        k = self._whole()
        # E X^2 = sum over k >= 1 of (2k - 1) P(|X| >= k)
        return math.fsum((2 * k - 1) * 2 * special.ndtr(-(k - 0.5) / self.scale))

    def mu(self, shift: int) -> float:
        """The GDP parameter of X against X + shift: rounding is post-processing and commutes with integer shifts."""
        return abs(shift) / self.scale

    def log_pmf(self, k: ArrayLike) -> Floats:
        """log P(X = k), to double precision at any scale and far into the tails."""
        centre = np.abs(np.asarray(k, dtype=np.float64)) / self.scale
        half = 0.5 / self.scale
        # Far out the two tails differ by orders of magnitude and may be subtracted; near the centre they may not,
        # and the integral of phi over the cell is taken as phi(centre) * integral of exp(-centre t - t^2/2).
        outer, inner = special.log_ndtr(-(centre + half)), special.log_ndtr(-(centre - half))
        apart = np.minimum(outer - inner, -(2.0**-50))  # where it is not used it may be 0
        subtracted = inner + np.log1p(-np.exp(apart))
        reach = np.minimum(centre, 4 / half)
        nodes, weights = np.polynomial.legendre.leggauss(32)
        cell = np.zeros_like(centre)
        for t, weight in zip(half * nodes[16:], half * weights[16:], strict=True):  # the nodes are symmetric
            cell += 2 * weight * math.exp(-t * t / 2) * np.cosh(reach * t)
        integrated = -centre * centre / 2 - math.log(math.sqrt(2 * math.pi)) + np.log(cell)
        return np.asarray(np.where((centre * half <= 4) & (half <= 2), integrated, subtracted), dtype=np.float64)


@dataclass(frozen=True)
class DiscreteGaussian(_Scaled):
    """P(X = k) proportional to exp(-k^2 / (2 scale^2)), the paper's noise for integer columns.

    >>> round(DiscreteGaussian(1.0).mu(1), 4)
    1.0458
    """

    name: ClassVar[str] = "discrete-gaussian"

    @property
    def _normaliser(self) -> float:
        if self.scale >= _CLOSED_FORM:  # Poisson summation: relative error 2 exp(-2 pi^2 scale^2) < 2^-112
            return self.scale * math.sqrt(2 * math.pi)
        k = self._whole()
        return 1 + 2 * math.fsum(np.exp(-0.5 * (k / self.scale) ** 2))

    @property
    def variance(self) -> float:
        """The exact sum; scale^2 up to a relative 8 pi^2 scale^2 exp(-2 pi^2 scale^2), nothing from scale 2 on."""
        if self.scale >= _CLOSED_FORM:
            return self.scale**2
        k = self._whole()
        return 2 * math.fsum(k * k * np.exp(-0.5 * (k / self.scale) ** 2)) / self._normaliser

    def mu(self, shift: int, *, exact: bool = True) -> float:
        """The smallest mu for which X against X + shift is mu-GDP: max over t of z(t) - z(t - shift), z = Phi^-1 F.

        The likelihood ratio is monotone, so the corners of the trade-off curve are the tests "X > t"; the Gaussian
        curve is convex, so lying below the corners it lies below the chords between them as well.

        Up to ENUMERATION_LIMIT it is enumerated, over the thresholds within 13.5 scales (the mass beyond, 2^-130, is
        in the sampler's total variation), and rounded up by a relative 2^-33. Above, a bound: let Y be normal with
        variance scale^2 - 4 and draw an integer from the discrete Gaussian of scale 2 centred at Y. That is
        post-processing which commutes with integer shifts, hence shift / sqrt(scale^2 - 4)-GDP; and its law differs
        from the discrete Gaussian by less than 2^-110 in total variation, which the sampler counts as well
        (docs/maths/lattice.md). Where it need not be exact it is right to 1e-7, a hundred times as fast.
        """
        shift = abs(shift)
        if shift == 0:
            return 0.0
        if self.scale > ENUMERATION_LIMIT:
            return shift / math.sqrt(self.scale**2 - _SMOOTHING) * (1 + 2.0**-50)
        reach = math.ceil(TAIL_SCALES * Fraction(self.scale))
        if shift > 2 * reach + 1:
            # t / scale <= z(t) <= (t + 1) / scale (docs/maths/lattice.md), or unit shifts one by one
            return min((shift + 1) / self.scale * (1 + 2.0**-50), shift * self.mu(1, exact=exact))
        z = self._quantiles(reach, exact)
        # Each z is right to 7.2e-16 of at most 13.6, a difference is at least 1/4096: 8.1e-11 relatively, below 2^-33.
        return float(np.max(z[shift:] - z[:-shift])) * (1 + 2.0**-33)

    def _quantiles(self, reach: int, exact: bool) -> Floats:
        """z(t) = Phi^-1(F(t)) for t = -reach - 1 .. reach, each to double precision, or to 1e-11."""
        if self.scale < _CLOSED_FORM:  # few terms, some far below any fixed point: sums of logarithms
            log_tails = np.logaddexp.accumulate(self.log_pmf(np.arange(2 * reach + 40, 0, -1)))[::-1]
            upper = -special.ndtri_exp(log_tails[: reach + 1])
        elif not exact:  # 73,730 terms at most, each sum of them right to as many roundings
            weights = np.exp(-0.5 * np.square(np.arange(math.ceil(18 * self.scale) + 2) / self.scale))
            sums = np.cumsum(weights[::-1])[::-1]
            upper = -special.ndtri(sums[1 : reach + 2] / (2 * sums[0] - weights[0]))
        else:  # many terms: sums of integers, in which nothing accumulates. The tails asked for end at 2^-136 or so,
            # what is left out beyond 18 scales is 2^-239.
            tails, total = _tail_sums(Fraction(self.scale), math.ceil(18 * self.scale) + 2, precision=256)
            upper = -special.ndtri(np.array([tails[t + 1] / total for t in range(reach + 1)]))
        return np.concatenate([-upper[::-1], upper])

    def log_pmf(self, k: ArrayLike) -> Floats:
        """log P(X = k)."""
        k = np.asarray(k, dtype=np.float64)
        return np.asarray(-0.5 * (k / self.scale) ** 2 - math.log(self._normaliser), dtype=np.float64)


LatticeNoise = RoundedGaussian | DiscreteGaussian


def lattice_noise(name: str, scale: float) -> LatticeNoise:
    """The noise family of that name, at that scale.

    >>> lattice_noise("discrete-gaussian", 4.0)
    DiscreteGaussian(scale=4.0)
    """
    families: dict[str, type[LatticeNoise]] = {law.name: law for law in (RoundedGaussian, DiscreteGaussian)}
    if name not in families:
        raise InputError(f"The noise family must be one of {', '.join(families)}, got {name!r}.")
    return families[name](float(scale))


# ------------------------------------------------------------------------------------------------- sampling tables


def total_variation(noise: LatticeNoise) -> float:
    """An upper bound on the total variation between one draw and what the guarantee is proven for.

    N draws of noise add (1 + e^epsilon) * N times this to delta. Tables: see above.
    Staircase: a proposal that is wrong by v makes the accepted law wrong by at most 2 v / P(accept), and
    P(accept) > 1/2; the mass beyond the stairs is below 2^-130; a draw that 64 bits do not settle is settled by 191
    bits of the place, which a rounding boundary cuts with probability scale * step * 2^-191 <= 2^-141, and by 192
    bits of the coin (2^-190).
    Discrete, where mu is a bound and not enumerated: 2^-110 more.
    """
    if noise.scale <= TABLE_LIMIT:
        return total_variation_of(2 * table_reach(Fraction(noise.scale)))
    loss = 4 * total_variation_of(stair_count(stair(noise)[0])) + 2.0**-129
    bounded = isinstance(noise, DiscreteGaussian) and noise.scale > ENUMERATION_LIMIT
    return loss + (_SMOOTHING_LOSS if bounded else 0.0)


def delta_slack(epsilon: float, total_variation: float) -> float:
    """What so much total variation, over all draws, adds to the delta that `epsilon` is quoted at."""
    return (1 + math.exp(min(epsilon, 600.0))) * total_variation


def stair(noise: LatticeNoise) -> tuple[Fraction, int]:
    """The width of a stair in scales, and the bits of a place within it (-1: a real number)."""
    if isinstance(noise, RoundedGaussian):
        return _STEP, -1
    block_bits = math.frexp(noise.scale)[1] - 9  # blocks of a power of two, so that a place in one is a bit string
    return 2**block_bits / Fraction(noise.scale), block_bits  # from 2^-9 to 2^-8


@dataclass(frozen=True, eq=False)
class Thresholds:
    """`first` and the increasing thresholds, as high and low 64-bit words."""

    first: int
    high: NDArray[np.uint64]
    low: NDArray[np.uint64]

    def value(self, uniform: int) -> int:
        """The value that a 128-bit uniform integer stands for: the definition, which the fast paths must equal."""
        numbers = range(len(self.high))
        return self.first + bisect_right(numbers, uniform, key=lambda j: (int(self.high[j]) << 64) | int(self.low[j]))


def total_variation_of(count: int) -> float:
    """The distance above, for so many thresholds."""
    return math.ldexp(count * (1 + 2.0**-6) + 0.25, -128)


def table_reach(scale: Fraction) -> int:
    """A table holds the values from -reach to reach."""
    return math.ceil(TAIL_SCALES * scale) + 1


@lru_cache(maxsize=8)  # the sampler keeps its own
def cumulative_thresholds(noise: LatticeNoise) -> Thresholds:
    """The table of a noise family: P(X <= k) for k = -reach .. reach - 1."""
    if noise.scale > ENUMERATION_LIMIT:
        raise InputError(f"A table serves scales up to {ENUMERATION_LIMIT:g}, got {noise.scale!r}. draw needs none.")
    scale = Fraction(noise.scale)
    reach = table_reach(scale)
    if isinstance(noise, RoundedGaussian):
        upper = normal_tails(1 / (2 * scale), 1 / scale, reach)  # P(X > k), k = 0 .. reach - 1
    else:
        tails, total = _tail_sums(scale, reach + 1)
        upper = [(tail << PRECISION) // total for tail in tails[1:]]
    return _thresholds(-reach, upper[::-1] + [ONE - tail for tail in upper])


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
    return _thresholds(0, [(value << PRECISION) // sums[-1] for value in sums[:-1]])


def _thresholds(first: int, cumulative: list[int]) -> Thresholds:
    """The table of increasing cumulative probabilities, given in fixed point."""
    cut = [min(value >> (PRECISION - 128), (1 << 128) - 1) for value in cumulative]  # 1 itself does not fit
    high = np.array([value >> 64 for value in cut], dtype=np.uint64)
    low = np.array([value & ((1 << 64) - 1) for value in cut], dtype=np.uint64)
    high.flags.writeable = low.flags.writeable = False
    return Thresholds(first, high, low)


# ----------------------------------------------------------------------------------- probabilities in fixed point


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
    density = math.isqrt((ONE << (PRECISION + PRECISION)) // (2 * _PI))
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


def _tail_sums(scale: Fraction, count: int, precision: int = PRECISION) -> tuple[list[int], int]:
    """Sums of the weights of k, k + 1, ... for k = 0 .. count - 1, and the sum of all, negative k too."""
    weights = gaussian_weights(scale, count, precision)
    tails = list(accumulate(reversed(weights)))[::-1]
    return tails, 2 * tails[0] - weights[0]
