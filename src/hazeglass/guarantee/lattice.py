"""Gaussian noise on the integers: two families, their exact mathematics, and their sampling tables.

    rounded   X = round(scale * Z), Z standard normal
    discrete  P(X = k) proportional to exp(-k^2 / (2 scale^2))        (the paper's)

The scale is read as the exact binary fraction that the float is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hazeglass.errors import InputError
from hazeglass.guarantee.fixedpoint import (
    ONE,
    PRECISION,
    TAIL_SCALES,
    Thresholds,
    gaussian_weights,
    normal_tails,
    thresholds,
)

__all__ = [
    "ENUMERATION_LIMIT",
    "LARGEST_SCALE",
    "SMALLEST_SCALE",
    "TAIL_SCALES",
    "DiscreteGaussian",
    "LatticeNoise",
    "RoundedGaussian",
    "cumulative_thresholds",
    "lattice_noise",
    "table_reach",
]

Floats = NDArray[np.float64]

ENUMERATION_LIMIT = 4096.0  # up to this scale every probability can be listed, in under a second
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-6, 2.0**58  # below, no noise at all; above, int64 would not hold the tails
_SMOOTHING = 4.0  # see DiscreteGaussian.mu
_CLOSED_FORM = 2.0  # from this scale on the variances equal their closed forms to double precision


class LatticeNoise(Protocol):
    """What the publisher and the analyst need to know of a noise family at one scale."""

    @property
    def name(self) -> str: ...
    @property
    def scale(self) -> float: ...
    @property
    def variance(self) -> float: ...
    def mu(self, shift: int) -> float: ...
    def log_pmf(self, k: ArrayLike) -> Floats: ...
    def tail(self, k: ArrayLike) -> Floats: ...


def _check_scale(scale: float) -> None:
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise InputError(
            f"The noise scale must lie between 2^-6 and 2^58 lattice steps, got {scale!r}. Choose another grid."
        )


@dataclass(frozen=True)
class RoundedGaussian:
    """X = round(scale * Z): a Gaussian seen through rounding, hence exactly (shift/scale)-GDP for integer shifts.

    >>> RoundedGaussian(2.0).mu(3)
    1.5
    """

    scale: float
    name: ClassVar[str] = "rounded-gaussian"

    def __post_init__(self) -> None:
        _check_scale(self.scale)

    @property
    def variance(self) -> float:
        """scale^2 + 1/12, less what the wrapped Gaussian leaves over: relatively 4 exp(-2 pi^2 scale^2)."""
        if self.scale >= _CLOSED_FORM:
            return self.scale**2 + 1 / 12
        k = np.arange(1, math.ceil(40 * self.scale) + 2)
        # E X^2 = sum over k >= 1 of (2k - 1) P(|X| >= k)
        return math.fsum((2 * k - 1) * self.tail(k - 1))

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

    def tail(self, k: ArrayLike) -> Floats:
        """P(|X| > k) for integers k >= 0."""
        k = np.asarray(k, dtype=np.float64)
        return np.asarray(2 * special.ndtr(-(k + 0.5) / self.scale), dtype=np.float64)


@dataclass(frozen=True)
class DiscreteGaussian:
    """P(X = k) proportional to exp(-k^2 / (2 scale^2)), the paper's noise for integer columns.

    >>> round(DiscreteGaussian(1.0).mu(1), 4)
    1.0458
    """

    scale: float
    name: ClassVar[str] = "discrete-gaussian"

    def __post_init__(self) -> None:
        _check_scale(self.scale)

    @property
    def _normaliser(self) -> float:
        if self.scale >= _CLOSED_FORM:  # Poisson summation: relative error 2 exp(-2 pi^2 scale^2) < 2^-112
            return self.scale * math.sqrt(2 * math.pi)
        k = np.arange(1, math.ceil(40 * self.scale) + 2)
        return 1 + 2 * math.fsum(np.exp(-0.5 * (k / self.scale) ** 2))

    @property
    def variance(self) -> float:
        """The exact sum; scale^2 up to a relative 8 pi^2 scale^2 exp(-2 pi^2 scale^2), nothing from scale 2 on."""
        if self.scale >= _CLOSED_FORM:
            return self.scale**2
        k = np.arange(1, math.ceil(40 * self.scale) + 2)
        return 2 * math.fsum(k * k * np.exp(-0.5 * (k / self.scale) ** 2)) / self._normaliser

    def mu(self, shift: int) -> float:
        """The smallest mu for which X against X + shift is mu-GDP: max over t of z(t) - z(t - shift), z = Phi^-1 F.

        The likelihood ratio is monotone, so the corners of the trade-off curve are the tests "X > t"; the Gaussian
        curve is convex, so lying below the corners it lies below the chords between them as well.

        Up to ENUMERATION_LIMIT it is enumerated, over the thresholds within 13.5 scales (the mass beyond, 2^-130, is
        in the sampler's total variation), and rounded up by a relative 2^-33. Above, a bound: let Y be normal with
        variance scale^2 - 4 and draw an integer from the discrete Gaussian of scale 2 centred at Y. That is
        post-processing which commutes with integer shifts, hence shift / sqrt(scale^2 - 4)-GDP; and its law differs
        from the discrete Gaussian by less than 2^-110 in total variation, which the sampler counts as well
        (docs/maths/lattice.md).
        """
        shift = abs(shift)
        if shift == 0:
            return 0.0
        if self.scale > ENUMERATION_LIMIT:
            return shift / math.sqrt(self.scale**2 - _SMOOTHING) * (1 + 2.0**-50)
        reach = math.ceil(TAIL_SCALES * Fraction(self.scale))
        if (
            shift > 2 * reach + 1
        ):  # t / scale <= z(t) <= (t + 1) / scale (docs/maths/lattice.md), or unit shifts one by one
            return min((shift + 1) / self.scale * (1 + 2.0**-50), shift * self.mu(1))
        z = self._quantiles(reach)
        # Each z is right to 7.2e-16 of at most 13.6, a difference is at least 1/4096: 8.1e-11 relatively, below 2^-33.
        return float(np.max(z[shift:] - z[:-shift])) * (1 + 2.0**-33)

    def _quantiles(self, reach: int) -> Floats:
        """z(t) = Phi^-1(F(t)) for t = -reach - 1 .. reach, each to double precision."""
        if self.scale < _CLOSED_FORM:  # few terms, some far below any fixed point: sums of logarithms
            log_tails = np.logaddexp.accumulate(self.log_pmf(np.arange(2 * reach + 40, 0, -1)))[::-1]
            upper = -special.ndtri_exp(log_tails[: reach + 1])
        else:  # many terms: sums of integers, in which nothing accumulates. The tails asked for end at 2^-136 or so,
            # what is left out beyond 18 scales is 2^-239.
            weights = gaussian_weights(Fraction(self.scale), math.ceil(18 * self.scale) + 2, precision=256)
            tails = list(accumulate(reversed(weights)))[::-1]
            total = 2 * tails[0] - weights[0]
            upper = -special.ndtri(np.array([tails[t + 1] / total for t in range(reach + 1)]))
        return np.concatenate([-upper[::-1], upper])

    def log_pmf(self, k: ArrayLike) -> Floats:
        """log P(X = k)."""
        k = np.asarray(k, dtype=np.float64)
        return np.asarray(-0.5 * (k / self.scale) ** 2 - math.log(self._normaliser), dtype=np.float64)

    def tail(self, k: ArrayLike) -> Floats:
        """P(|X| > k) for integers k >= 0."""
        k = np.asarray(k, dtype=np.float64)
        if self.scale > ENUMERATION_LIMIT:
            # Euler-Maclaurin about k + 1/2; the next term is below 1e-11 of the tail at this scale and 38 scales out.
            u = (k + 0.5) / self.scale
            density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
            return np.asarray(2 * (special.ndtr(-u) - u * density / (24 * self.scale**2)), dtype=np.float64)
        support = np.arange(math.ceil(40 * self.scale) + 2)
        tails = np.cumsum(np.exp(self.log_pmf(support))[::-1])[::-1]
        inside = np.minimum(k, support[-2]).astype(np.int64)
        return np.asarray(np.where(k < support[-1], 2 * tails[inside + 1], 0.0), dtype=np.float64)


_FAMILIES: dict[str, type[RoundedGaussian] | type[DiscreteGaussian]] = {
    RoundedGaussian.name: RoundedGaussian,
    DiscreteGaussian.name: DiscreteGaussian,
}


def lattice_noise(name: str, scale: float) -> RoundedGaussian | DiscreteGaussian:
    """The noise family of that name, at that scale.

    >>> lattice_noise("discrete-gaussian", 4.0)
    DiscreteGaussian(scale=4.0)
    """
    if name not in _FAMILIES:
        raise InputError(f"The noise family must be one of {', '.join(_FAMILIES)}, got {name!r}.")
    return _FAMILIES[name](float(scale))


def table_reach(scale: Fraction) -> int:
    """A table holds the values from -reach to reach."""
    return math.ceil(TAIL_SCALES * scale) + 1


@lru_cache(maxsize=8)  # the sampler keeps its own
def cumulative_thresholds(noise: RoundedGaussian | DiscreteGaussian) -> Thresholds:
    """The table of a noise family: P(X <= k) for k = -reach .. reach - 1."""
    if noise.scale > ENUMERATION_LIMIT:
        raise InputError(f"A table serves scales up to {ENUMERATION_LIMIT:g}, got {noise.scale!r}. draw needs none.")
    scale = Fraction(noise.scale)
    reach = table_reach(scale)
    if isinstance(noise, RoundedGaussian):
        upper = normal_tails(1 / (2 * scale), 1 / scale, reach)  # P(X > k), k = 0 .. reach - 1
    else:
        weights = gaussian_weights(scale, reach + 1)
        sums = list(accumulate(reversed(weights)))[::-1]
        total = 2 * sums[0] - weights[0]
        upper = [(sums[k + 1] << PRECISION) // total for k in range(reach)]
    return thresholds(-reach, upper[::-1] + [ONE - tail for tail in upper])
