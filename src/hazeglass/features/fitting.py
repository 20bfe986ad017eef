"""Counts of a column's cells, and the bent normal distribution that fits them best.

Its cdf is Phi(log(1 + k x) / k) with x = (u - m) / s: median m, scale s, skewness k; normal at k = 0, lognormal beside
it. Least squares over all rounds, every count in units of its noise; skewness has to be worth it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

FloatArray = npt.NDArray[np.float64]

_FITS = 12
_SKEWS, _MOST_SKEW, _USUAL_SKEW = (0.0, 0.8, -0.8), 3.0, 0.35  # to start a fit from, the most, and beforehand


@dataclass(frozen=True, eq=False)
class Counts:
    """Noisy numbers of cells in the leaves between `borders`, and of missing ones, each with noise of sd `noise_sd`."""

    borders: FloatArray
    counts: FloatArray
    missing: float
    noise_sd: float


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


def fitted(rounds: tuple[Counts, ...], step: float) -> tuple[float, float, float]:
    """Least squares over all counts: steps of Gauss and Newton from the best of some starts, halved where too long."""
    narrowest = max(1e-9, step / 4)
    places = [start(one, narrowest) for one in rounds for start in (_quartile_start, _peak_start)]
    at = min((np.append(place, skew) for place in places for skew in _SKEWS), key=lambda a: _chi_square(a, rounds))
    best, gap, slope = misfit(at, rounds)
    for _ in range(_FITS):
        move = np.linalg.lstsq(slope, gap, rcond=1e-10)[0]
        move *= min(1.0, 1 / max(abs(move[1]), abs(move[2]), abs(move[0]) / math.exp(at[1]), 1e-30))
        for _ in range(5):
            after = at + move
            after[1] = np.clip(after[1], math.log(narrowest), 3.0)
            after[2] = np.clip(after[2], -_MOST_SKEW, _MOST_SKEW)
            found, *rest = misfit(after, rounds)
            if found < best:
                break
            move = move / 2
        if found >= best:
            break
        done, at, best, (gap, slope) = best - found < 1e-3, after, found, rest
        if done:
            break
    return float(np.clip(at[0], -1, 1)), math.exp(at[1]), float(at[2])


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


def misfit(at: FloatArray, rounds: tuple[Counts, ...]) -> tuple[float, FloatArray, FloatArray]:
    """Chi-square of the counts about the distribution at (median, log scale, skew), the scaled gaps, their slopes."""
    slopes, scale, skew = [], math.exp(at[1]), float(at[2])
    for one in rounds:
        x, z, inner, unit, whole = _at_borders(at, one)
        density = np.exp(-np.square(np.clip(z, -38, 38)) / 2) / math.sqrt(2 * math.pi)
        turn = -(x**2) / 2 if abs(skew) < 1e-6 else (x / inner - z) / skew
        along = [-density / (scale * inner), -density * x / inner, density * turn]
        ends = [np.diff(np.concatenate([[0.0], part, [0.0]])) for part in along]
        slopes.append(whole * np.stack(ends, axis=1) / unit[:, None])
    gap = _gaps(at, rounds)
    return float(gap @ gap), gap, np.concatenate([*slopes, [[0.0, 0.0, 1 / _USUAL_SKEW]]])


def _at_borders(at: FloatArray, one: Counts) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]:
    """The inner borders of a round on the scale of the distribution, straight and bent; the counts' errors and sum."""
    x = (one.borders[1:-1] - at[0]) / math.exp(at[1])
    unit = np.sqrt(one.noise_sd**2 + np.maximum(one.counts, 0.0) / 2)
    return x, *bent(x, float(at[2])), unit, max(float(one.counts.sum()), 1.0)


def _gaps(at: FloatArray, rounds: tuple[Counts, ...]) -> FloatArray:
    """The counts less what the distribution expects, in units of their errors."""
    gaps = []
    for one in rounds:
        _, z, _, unit, whole = _at_borders(at, one)
        gaps.append((one.counts - whole * np.diff(np.concatenate([[0.0], ndtr(z), [1.0]]))) / unit)
    # Skewness has to be worth it: one more number, 0 give or take, which noisy counts do not outweigh.
    return np.concatenate([*gaps, [-float(at[2]) / _USUAL_SKEW]])


def _chi_square(at: FloatArray, rounds: tuple[Counts, ...]) -> float:
    gap = _gaps(at, rounds)
    return float(gap @ gap)
