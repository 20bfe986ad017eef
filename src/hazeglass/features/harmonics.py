"""What moments are taken of: the columns themselves, or functions of them that see curved dependence.

Releases of moments hold cosines of a column's rank, sqrt(2) cos(pi k F), k = 1, 2, 3: bounded, orthonormal, and the
same whatever the column's distribution is. Rows with noise in their cells are read by Hermite functions, whose squares
and cubes can be corrected exactly.

Means by hour of the day or day of the week are taken off the columns before rows are stacked. A stage holds, for
every season, how many rows fall into each of its levels and the sums of the columns there. What a level's mean
differs by from the whole mean is taken off as it was released: its noise is then left in the rows, and as it is known
how large that is, a reader can allow for it exactly, which no smoother means would permit (docs/maths/series.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

FeatureKind = Literal["columns", "cosines", "presence", "seasons"]
DEGREES: dict[str, int] = {"columns": 1, "cosines": 3, "presence": 1, "seasons": 1, "hermite": 3}
# Standardised values beyond this many standard deviations are moved to it before squares and cubes are taken.
CLAMP = 2.5

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Feature:
    """A function of one column, by its number."""

    column: str
    power: int


def features_of(names: tuple[str, ...], kind: str) -> tuple[Feature, ...]:
    """The features of a stage, column by column."""
    return tuple(Feature(name, power) for name in names for power in range(1, DEGREES[kind] + 1))


def to_features(x: FloatArray, kind: str) -> FloatArray:
    """Standardised rows to rows of z, (z^2 - 1)/sqrt(2) and (z^3 - 3z)/sqrt(6), in the order of :func:`features_of`.

    >>> to_features(np.array([[1.0, 2.0]]), "hermite").round(3).tolist()
    [[1.0, 0.0, -0.816, 2.0, 2.121, 0.816]]
    """
    z = np.clip(x, -CLAMP, CLAMP)
    stacked = np.stack([z, (z * z - 1) / math.sqrt(2), (z * z * z - 3 * z) / math.sqrt(6)], axis=2)
    return stacked.reshape(len(z), -1)


def cosines(scores: FloatArray) -> FloatArray:
    """sqrt(2) cos(pi k Phi(z)), k = 1, 2, 3, in a last axis.

    >>> cosines(np.array([0.0])).round(3).tolist()
    [[0.0, -1.414, -0.0]]
    """
    from scipy.special import ndtr

    angles = math.pi * ndtr(scores)[..., None] * np.arange(1, DEGREES["cosines"] + 1)
    return np.asarray(math.sqrt(2) * np.cos(angles))


IntArray = npt.NDArray[np.int64]

SEASON_SHARE = 0.3  # of what is left of mu^2
_UNEVEN = 4.0  # noise of a share by which a calendar must differ from an even one
_MOST = 4.0  # a score's mean is never farther from 0; the same on the linear scale, in spreads
_HOURS, _DAYS = 24, 7


def season_means(second: FloatArray, levels: Sequence[int], noise_sd: float, steps: float) -> list[FloatArray]:
    """What to take off the columns in each level of each season, shape (levels, columns), in multiples of 1/steps.

    `second` are the released moments of columns followed by indicators of the levels, divided by the number of rows.
    """
    begin, found = len(second) - sum(levels), []
    p = begin
    for count in levels:
        here = slice(begin, begin + count)
        means = second[here, :p] / _shares(np.diag(second)[here], noise_sd)[:, None]
        found.append(np.rint(np.clip(means - means.mean(axis=0), -_MOST, _MOST) * steps) / steps)
        begin += count
    return found


def _shares(released: FloatArray, noise_sd: float) -> FloatArray:
    """How often each level occurs: a calendar is even but for its gaps, and what noise explains is none."""
    even = 1 / released.size
    apart = np.abs(released - even) > _UNEVEN * noise_sd
    return np.where(apart, np.maximum(released, even / 4), even)


def season_noise(second: FloatArray, levels: Sequence[int], noise_sd: float) -> list[float]:
    """The variance of the noise in a level's mean, for each season."""
    begin, found = len(second) - sum(levels), []
    for count in levels:
        shares = _shares(np.diag(second)[begin : begin + count], noise_sd)
        found.append(float(np.mean((noise_sd / shares) ** 2)) * (1 - 1 / count))
        begin += count
    return found


def calendar(levels: Sequence[int], step: float, lags: int) -> list[IntArray]:
    """The levels of rows a `step` (in days) apart over whole weeks, and of the rows up to `lags` before them.

    Shape (lags + 1, rows) for each season.
    """
    rows = max(_HOURS * _DAYS, round(_DAYS / min(step, 1.0)))
    days = np.arange(rows) * min(step, _DAYS)
    of = {_HOURS: np.floor(days * _HOURS + 1e-6) % _HOURS, _DAYS: np.floor(days + 1e-9) % _DAYS}
    return [np.stack([np.roll(of[count], lag) for lag in range(lags + 1)]).astype(np.int64) for count in levels]
