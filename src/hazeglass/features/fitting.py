"""Counts of a column's cells, and the bent normal distribution that fits them best.

Its cdf is Phi(log(1 + k x) / k) with x = (u - m) / s: median m, scale s, skewness k; normal at k = 0, lognormal beside
it. Least squares over all rounds, every count in units of its noise; skewness has to be worth it. Where noise is loud,
columns are taken to be alike as far as their counts together say so (:func:`usual_of`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

FloatArray = npt.NDArray[np.float64]

_FITS = 12
_SKEWS, _MOST_SKEW, _USUAL_SKEW = (0.0, 0.8, -0.8), 3.0, 0.35  # to start a fit from, the most, and beforehand
_PLACES, _SCALES = np.linspace(-0.8, 0.8, 9), np.log(2.0) * np.arange(-5, 0)  # to start a fit of all columns from
_LEAST_GIVE = np.array([0.1, 0.2, 0.15])  # how far columns differ beforehand, which counts as much as one of them
_FIRST_GIVE = np.array([0.15, 0.3, 0.35])
_AVERAGES, _MOST_COLUMNS = 12, 200


@dataclass(frozen=True, eq=False)
class Counts:
    """Noisy numbers of cells in the leaves between `borders`, and of missing ones, each with noise of sd `noise_sd`."""

    borders: FloatArray
    counts: FloatArray
    missing: float
    noise_sd: float


@dataclass(frozen=True, eq=False)
class Usual:
    """What is supposed of median, log scale and skewness before a column is counted: `centre`, give or take `give`."""

    centre: FloatArray
    give: FloatArray


ALONE = Usual(np.zeros(3), np.array([np.inf, np.inf, _USUAL_SKEW]))


def on_simplex(shares: FloatArray) -> FloatArray:
    """The nearest shares without a negative one; what is added to all of them changes nothing, so the largest is 0."""
    shares = shares - shares.max()
    descending = np.sort(shares)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, shares.size + 1)
    threshold = excess[np.flatnonzero(descending > excess)[-1]]
    return np.asarray(np.maximum(shares - threshold, 0.0))


def bent(x: FloatArray, skew: float) -> tuple[FloatArray, FloatArray]:
    """log(1 + skew x) / skew, which is x for no skew, and 1 + skew x; beyond the end of the range, far out."""
    if abs(skew) < 1e-6:
        return x, np.ones_like(x)
    inner = np.maximum(1 + skew * x, 1e-12)
    return np.asarray(np.log(inner) / skew), inner


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of all rounds, one after the other: inner borders, where those stand among the ends of leaves, which
    differences of ends are leaves, what was counted with which error, and of how many cells."""

    inner: FloatArray
    places: npt.NDArray[np.intp]
    ends: FloatArray
    kept: npt.NDArray[np.intp]
    counts: FloatArray
    unit: FloatArray
    whole: FloatArray

    @classmethod
    def of(cls, rounds: Sequence[Counts], wholes: FloatArray) -> Leaves:
        """The ends of a round are 0 and 1, whatever the distribution is."""
        sizes = np.array([one.counts.size for one in rounds])
        last = np.cumsum(sizes + 1) - 1  # the place of each round's last end
        ends = np.zeros(int(last[-1]) + 1)
        ends[last] = 1.0
        outer = np.concatenate([last - sizes, last])
        counts = np.concatenate([one.counts for one in rounds])
        noise = np.repeat(np.array([one.noise_sd**2 for one in rounds]), sizes)
        return cls(
            np.concatenate([one.borders[1:-1] for one in rounds]),
            np.setdiff1d(np.arange(ends.size), outer),
            ends,
            np.setdiff1d(np.arange(ends.size - 1), last),
            counts,
            np.sqrt(noise + np.maximum(counts, 0.0) / 2),
            np.repeat(wholes, sizes),
        )

    def gaps(self, z: FloatArray, at: FloatArray, usual: Usual) -> FloatArray:
        """The counts less what a normal distribution with its borders at z expects, in units of their errors.

        Skewness has to be worth it: one more number, 0 give or take, which noisy counts do not outweigh.
        """
        ends = self.ends.copy()
        ends[self.places] = ndtr(z)
        expected = self.whole * np.diff(ends)[self.kept]
        return np.concatenate([(self.counts - expected) / self.unit, (usual.centre - at) / usual.give])

    def borders(self, at: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Inner borders on the scale of the distribution at (median, log scale, skew): straight, bent, and the bend."""
        x = (self.inner - at[0]) / math.exp(at[1])
        return x, *bent(x, float(at[2]))

    def chi_square(self, at: FloatArray, usual: Usual) -> float:
        """Of the counts about the distribution."""
        gap = self.gaps(self.borders(at)[1], at, usual)
        return float(gap @ gap)

    def misfit(self, at: FloatArray, usual: Usual) -> tuple[float, FloatArray, FloatArray]:
        """The same, the scaled gaps, and their slopes."""
        scale, skew = math.exp(at[1]), float(at[2])
        x, z, inner = self.borders(at)
        density = np.exp(-np.square(np.clip(z, -38, 38)) / 2) / math.sqrt(2 * math.pi)
        turn = -(x**2) / 2 if abs(skew) < 1e-6 else (x / inner - z) / skew
        along = np.zeros((3, self.ends.size))
        along[:, self.places] = -density / (scale * inner), -density * x / inner, density * turn
        slopes = self.whole * np.diff(along)[:, self.kept] / self.unit
        gap = self.gaps(z, at, usual)
        return float(gap @ gap), gap, np.concatenate([slopes.T, np.diag(1 / usual.give)])


def fitted(rounds: tuple[Counts, ...], leaves: Leaves, step: float, usual: Usual = ALONE) -> tuple[float, float, float]:
    """Least squares over the counts of all rounds: the best of some starts, improved."""
    narrowest = max(1e-9, step / 4)
    places = [start(one, narrowest) for one in rounds for start in (_quartile_start, _peak_start)]
    starts = [np.append(place, skew) for place in places for skew in _SKEWS]
    if usual is not ALONE:
        starts.append(_inside(usual.centre, narrowest))
    at = _descend(min(starts, key=lambda a: leaves.chi_square(a, usual)), leaves, usual, narrowest)
    return float(np.clip(at[0], -1, 1)), math.exp(at[1]), float(at[2])


def _inside(at: FloatArray, narrowest: float) -> FloatArray:
    return np.array([at[0], np.clip(at[1], math.log(narrowest), 3.0), np.clip(at[2], -_MOST_SKEW, _MOST_SKEW)])


def _descend(at: FloatArray, leaves: Leaves, usual: Usual, narrowest: float, steps: int = _FITS) -> FloatArray:
    """Steps of Gauss and Newton, halved where too long."""
    best, gap, slope = leaves.misfit(at, usual)
    for _ in range(steps):
        move = np.linalg.lstsq(slope, gap, rcond=1e-10)[0]
        move *= min(1.0, 1 / max(abs(move[1]), abs(move[2]), abs(move[0]) / math.exp(at[1]), 1e-30))
        for _ in range(5):
            after = _inside(at + move, narrowest)
            found, *rest = leaves.misfit(after, usual)
            if found < best:
                break
            move = move / 2
        if found >= best:
            break
        done, at, best, (gap, slope) = best - found < 1e-3, after, found, rest
        if done:
            break
    return at


def usual_of(columns: Sequence[Sequence[Counts]], steps: Sequence[float], wholes: Sequence[FloatArray]) -> Usual:
    """How columns are alike, from the counts of all (empirical Bayes): one fit to all of them, then by turns each
    column's own place, as far as counts tell it from the others', and how far these places differ."""
    some = np.unique(np.linspace(0, len(columns) - 1, min(len(columns), _MOST_COLUMNS)).astype(np.intp))
    every = Leaves.of([one for k in some for one in columns[k]], np.concatenate([wholes[k] for k in some]))
    starts = [np.array([place, scale, 0.0]) for place in _PLACES for scale in _SCALES]
    centre = min(starts, key=lambda at: every.chi_square(at, ALONE))
    centre = _descend(centre, every, ALONE, 1e-9)
    leaves = {k: Leaves.of(columns[k], wholes[k]) for k in some}
    give, places = _FIRST_GIVE, dict.fromkeys(some, centre)
    for _ in range(_AVERAGES):
        usual, spread = Usual(centre, give), []
        for k, own in leaves.items():
            places[k] = _descend(places[k], own, usual, max(1e-9, steps[k] / 4), 1)
            slope = own.misfit(places[k], usual)[2]
            spread.append(np.diag(np.linalg.pinv(slope.T @ slope)))
        found = np.array([places[k] for k in some])
        centre = found.mean(axis=0)
        square = np.sum((found - centre) ** 2 + spread, axis=0) + _LEAST_GIVE**2
        give = np.sqrt(square / (len(some) + 1))
    return Usual(centre, give)


def _quartile_start(one: Counts, narrowest: float) -> FloatArray:
    """Median and log scale by the quartiles of one round."""
    cumulative = np.concatenate([[0.0], np.cumsum(on_simplex(one.counts / max(float(one.counts.sum()), 1.0)))])
    rising = np.concatenate([[True], np.diff(cumulative) > 0])
    quartiles = np.interp([0.25, 0.5, 0.75], cumulative[rising], one.borders[rising])
    return np.array([quartiles[1], math.log(max((quartiles[2] - quartiles[0]) / 1.349, narrowest))])


def _peak_start(one: Counts, narrowest: float) -> FloatArray:
    """The two neighbouring leaves with the most cells: where noise is loud, quartiles may lie anywhere."""
    k = int(np.argmax(one.counts[:-1] + one.counts[1:])) if one.counts.size > 1 else 0
    low, high = one.borders[k], one.borders[min(k + 2, one.counts.size)]
    return np.array([(low + high) / 2, math.log(max((high - low) / 4, narrowest))])
