"""How the cells of a column become scores, by what is known of it: one table for every column.

A cell's score is looked up: borders lie at the quantiles of the column's distribution for even steps of the score, and
an interval's score is the mean of the normal in it. Inside a drawn leaf it is one of many (docs/maths/marginals.md).

What a score says of the hidden normal behind its column, and the correlation of two such normals.

A column is a hidden normal Z seen through its cells. Where scores follow the cells, the score is Z itself. In a drawn
leaf it says only that Z lies between two borders, and on average it is the mean h of the leaf; a box moves it to its
sides. So E[score | Z] = h(Z), an increasing function that rises by steps and along stretches, and

    E[score_i score_j] = g_ij(rho),    g_ij'(rho) = sum_kl dh_ik dh_jl phi_2(c_ik, c_jl; rho) >= 0

with rises dh at the places c (Plackett 1954). g is integrated on a grid and inverted, which is monotone whatever the
columns are. Where one of the two is Z itself, g(rho) = rho E[Z_i h_i(Z_i)] exactly (docs/maths/scores.md).

What a release says of the shares of a categorical column's levels, from everything that tells of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from hazeglass.features.marginal import Levels, Marginal, normal_means, with_ends

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STEPS = 1024  # of a score
DRAWS = 256  # scores that a drawn leaf, or a missing cell, is drawn from
_LEVEL = 64  # scores follow the cell in steps of 1/64
_HIGHEST = 4.0  # scores beyond are those of the tail


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Cells to scores, in whole numbers of 1/1024: the entry of the interval between cuts that a cell lies in.

    cuts    increasing; interval k lies between cuts k - 1 and k
    first   the interval's first entry in `values`
    draws   how many entries it has: 1, or DRAWS of which one is drawn
    values  the entries
    """

    cuts: FloatArray
    first: IntArray
    draws: IntArray
    values: IntArray


def score_table(known: Marginal) -> ScoreTable:
    """The scores of one column; the last interval is not reached by any cell and is that of missing ones."""
    grid = np.arange(-int(_HIGHEST * _LEVEL), int(_HIGHEST * _LEVEL) + 1) / _LEVEL
    cuts = known.quantile(ndtr(grid))
    borders = known.borders[1:-1]
    drawn = known.drawn
    leaf = np.searchsorted(known.borders, cuts, side="right") - 1
    inside = (leaf >= 0) & (leaf < drawn.size)
    edge = np.isin(cuts, known.borders)
    keep = ~(inside & ~edge & drawn[np.clip(leaf, 0, drawn.size - 1)])
    sides = borders[drawn[:-1] | drawn[1:]]
    cuts = np.unique(np.concatenate([cuts[keep], sides]))
    cuts = cuts[(cuts > known.borders[0]) & (cuts < known.borders[-1])]
    ends = np.concatenate([[known.borders[0]], cuts, [known.borders[-1]]])
    cumulative = with_ends(known.cdf(ends))
    middle = (ends[:-1] + ends[1:]) / 2
    is_drawn = drawn[np.clip(np.searchsorted(known.borders, middle, side="right") - 1, 0, drawn.size - 1)]
    draws = np.append(np.where(is_drawn, DRAWS, 1), DRAWS)
    low, high = np.append(cumulative[:-1], 0.0), np.append(cumulative[1:], 1.0)
    part = np.concatenate([np.arange(count) for count in draws])
    width = np.repeat((high - low) / draws, draws)
    begin = np.repeat(low, draws) + part * width
    values = np.rint(normal_means(begin, begin + width) * STEPS).astype(np.int64)
    return ScoreTable(cuts, np.cumsum(draws) - draws, draws, values)


BoolArray = npt.NDArray[np.bool_]

_REACH = 6.0  # no hidden normal lies farther out
_STRETCH = 0.2  # stretches along which h rises with Z are cut into steps of this length
_POINTS = 41
_TERMS, _NEAR = 48, 0.72  # of Mehler's series, and the largest correlation at which those are all that count
_SMOOTH = 0.999  # an attenuation above counts as none
_LEAST_RISE = 0.02  # of g'(0): where scores hardly say anything of rho, its error is large, but not infinite


@dataclass(frozen=True, eq=False)
class Link:
    """h of one column, by its rises: `jumps` at `places`.

    variance     of the scores
    sensitivity  d kappa / d F at each place, kappa being the relative error of the column's correlations with others
                 that an error of its cumulative shares F leaves, scores being divided by their own deviation
    variance_sensitivity  d variance / d F, likewise
    """

    places: FloatArray
    jumps: FloatArray
    variance: float
    sensitivity: FloatArray
    variance_sensitivity: FloatArray

    @cached_property
    def attenuation(self) -> float:
        """E[Z h(Z)] for scores of variance 1: what is left of a correlation with a column that is not coarse.

        A column whose cells all lie in one drawn leaf says nothing, and something finite must be divided by.
        """
        left = float(np.sum(self.jumps * normal_density(self.places))) / math.sqrt(self.variance)
        return max(left, _LEAST_RISE)

    @property
    def smooth(self) -> bool:
        """Whether scores are as good as the hidden normal itself."""
        return self.attenuation > _SMOOTH


def normal_density(x: FloatArray) -> FloatArray:
    """Of the standard normal."""
    return np.asarray(np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi))


def link_of(latent_borders: FloatArray, drawn: BoolArray, box: float = math.inf) -> Link:
    """The link of a column with these pieces; inside those that are not drawn the score is Z itself."""
    borders = np.clip(latent_borders, -_REACH, _REACH)
    kept = np.concatenate([[True], np.diff(borders) > 1e-9])
    borders, drawn = borders[kept], drawn[kept[1:]]
    mean, square, variance = _piece_moments(borders, box)
    inside = np.clip(borders, -box, box)
    # h and the mean square of the score at the left and the right end of each piece
    left, right = np.where(drawn, mean, inside[:-1]), np.where(drawn, mean, inside[1:])
    left_square, right_square = (np.where(drawn, square, end**2) for end in (inside[:-1], inside[1:]))
    at, rise, rise_square = [borders[1:-1]], [left[1:] - right[:-1]], [left_square[1:] - right_square[:-1]]
    low, high = borders[:-1][~drawn], borders[1:][~drawn]
    steps = np.ceil((high - low) / _STRETCH).astype(np.intp)
    whole, number = np.repeat(steps, steps), np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps)
    begin, length = np.repeat(low, steps), np.repeat(high - low, steps)
    starts, ends = begin + length * number / whole, begin + length * (number + 1) / whole
    at.append((starts + ends) / 2)
    rise.append(np.clip(ends, -box, box) - np.clip(starts, -box, box))
    rise_square.append(np.clip(ends, -box, box) ** 2 - np.clip(starts, -box, box) ** 2)
    places, jumps = np.concatenate(at), np.maximum(np.concatenate(rise), 0.0)
    slope = max(float(np.sum(jumps * normal_density(places))), np.finfo(float).tiny)
    squares = np.concatenate(rise_square)
    return Link(places, jumps, variance, squares / (2 * variance) - jumps * places / slope, squares)


def link_through(function: Callable[[FloatArray], FloatArray]) -> Link:
    """The link of a column that shows an increasing function of its hidden normal, without errors of its shares."""
    ends = np.linspace(-_REACH, _REACH, round(2 * _REACH / _STRETCH) + 1)
    places, levels = (ends[:-1] + ends[1:]) / 2, function(ends)
    share, middle = np.diff(ndtr(ends)), function((ends[:-1] + ends[1:]) / 2)
    variance = float(share @ (middle - share @ middle) ** 2)
    nothing = np.zeros(places.size)
    return Link(places, np.maximum(np.diff(levels), 0.0), variance, nothing, nothing)


def _piece_moments(borders: FloatArray, box: float) -> tuple[FloatArray, FloatArray, float]:
    """Mean and mean square of min(max(Z, -box), box) between each two borders, and its variance altogether."""
    inside, finite = np.clip(borders, -box, box), min(box, _REACH)
    share, density = np.diff(ndtr(borders)), normal_density(inside)
    below, above = (
        np.diff(limit) for limit in (np.minimum(ndtr(borders), ndtr(-finite)), np.maximum(ndtr(borders), ndtr(finite)))
    )
    first = finite * (above - below) - np.diff(density)
    second = finite**2 * (above + below) + np.diff(ndtr(inside)) - np.diff(inside * density)
    whole = max(float(share.sum()), np.finfo(float).tiny)
    share = np.maximum(share, np.finfo(float).tiny)
    return first / share, second / share, float(second.sum()) / whole


def latent_correlations(values: FloatArray, links: Sequence[Link]) -> tuple[FloatArray, FloatArray]:
    """Correlations of the hidden normals from those of the scores, and d rho / d value for every pair."""
    attenuation = np.array([link.attenuation for link in links])
    smooth = np.array([link.smooth for link in links])
    slope = 1 / np.outer(attenuation, attenuation)
    found = values * slope
    coarse = np.flatnonzero(~smooth)
    series = np.array([_series(links[int(k)]) for k in coarse])
    for place, i in enumerate(coarse[:-1]):
        others = coarse[place + 1 :]
        given = values[i, others]
        rho, steepness, far = _inverted(given, series[place], series[place + 1 :])
        for k in np.flatnonzero(far):
            given[k], rho[k], steepness[k] = _on_curve(float(given[k]), *_curve(links[int(i)], links[int(others[k])]))
        # The curve bends: an error moves rho by its slope here, or on the way from zero, whichever is the greater.
        # Scores that are all drawn from one piece have a flat one: they say nothing, and errors must stay finite.
        steepness = np.maximum(steepness, _LEAST_RISE * attenuation[i] * attenuation[others])
        chord = np.divide(rho, given, out=np.zeros_like(rho), where=given != 0)
        found[i, others] = found[others, i] = rho
        slope[i, others] = slope[others, i] = np.maximum(1 / steepness, chord)
    np.fill_diagonal(found, 1.0)
    np.fill_diagonal(slope, 1.0)
    return found, slope


def _series(link: Link) -> FloatArray:
    """a_k with g_ij'(rho) = sum_k rho^k a_ik a_jk for scores of variance 1: Mehler's series of the normal density."""
    one, before = np.ones_like(link.places), np.zeros_like(link.places)
    loads = link.jumps * normal_density(link.places) / math.sqrt(link.variance)
    found = []
    for k in range(_TERMS):
        found.append(float(loads @ one))
        one, before = (link.places * one - math.sqrt(k) * before) / math.sqrt(k + 1), one
    return np.array(found)


def _inverted(values: FloatArray, own: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """rho and g'(rho) of one column with others, and for which of them rho is so large that the series is not exact."""
    rho = _grid()
    rho = rho[np.abs(rho) <= _NEAR]
    middle = rho.size // 2
    rise = (rho[:, None] ** np.arange(_TERMS) * own) @ others.T
    rise = np.maximum(rise, _LEAST_RISE * rise[middle])
    steps = np.diff(rho)[:, None] * (rise[1:] + rise[:-1]) / 2
    g = np.concatenate([np.zeros((1, len(others))), np.cumsum(steps, axis=0)])
    g -= g[middle]
    far = (values < g[0]) | (values > g[-1])
    low = np.clip(np.sum(g <= values, axis=0) - 1, 0, rho.size - 2)
    here = np.arange(len(others))
    gap = np.maximum(g[low + 1, here] - g[low, here], np.finfo(float).tiny)
    share = np.clip((values - g[low, here]) / gap, 0.0, 1.0)
    steepness = rise[low, here] + share * (rise[low + 1, here] - rise[low, here])
    return rho[low] + share * (rho[low + 1] - rho[low]), steepness, far


def _on_curve(value: float, rho: FloatArray, g: FloatArray, rise: FloatArray) -> tuple[float, float, float]:
    """The value, rho where g has it, and g' there; the end of the curve in the place of what noise put beyond it."""
    inside = float(np.clip(value, g[0], g[-1]))
    return inside, float(np.interp(inside, g, rho)), float(np.interp(inside, g, rise))


def _grid() -> FloatArray:
    """Correlations at which g is known, closer to each other towards the ends."""
    return np.asarray(np.sin(np.linspace(-1, 1, _POINTS) * math.asin(0.995)))


def _curve(one: Link, other: Link) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A grid of rho, g and g' for scores of variance 1."""
    rho = _grid()
    weights = np.outer(one.jumps, other.jumps) / math.sqrt(one.variance * other.variance)
    square = one.places[:, None] ** 2 + other.places[None, :] ** 2
    product = np.outer(one.places, other.places)
    rest = 1 - rho**2
    rise = np.array(
        [np.sum(weights * np.exp(-(square - 2 * r * product) / (2 * w))) for r, w in zip(rho, rest, strict=True)]
    ) / (2 * math.pi * np.sqrt(rest))
    rise = np.maximum(rise, _LEAST_RISE * rise[_POINTS // 2])
    steps = np.diff(rho) * (rise[1:] + rise[:-1]) / 2
    g = np.concatenate([[0.0], np.cumsum(steps)])
    return rho, g - np.interp(0.0, rho, g), rise


@dataclass(frozen=True, eq=False)
class LevelMoments:
    """What one stage says of indicators, as it was released.

    cross          products of the stage's scores and the indicators
    second         of the indicators with each other
    noise_sd       of an entry off the diagonal of either, and on the diagonal 1/sqrt(2) of what that has
    """

    mean: FloatArray
    score_mean: FloatArray
    cross: FloatArray
    second: FloatArray
    noise_sd: float
    mean_noise_sd: float


def shares_of(
    known: Levels, part: slice, others: Sequence[slice], stages: Sequence[LevelMoments]
) -> tuple[FloatArray, float]:
    """The shares of a column's levels by counts, means, squares and sums over the levels of every other column
    together, and the standard error of one by noise."""
    total = max(float(known.rounds[-1].counts.sum()), 1.0)
    found, weight = [known.shares], [(total / known.count_sd) ** 2]
    for stage in stages:
        noise = max(stage.noise_sd**2, 1e-24)
        found += [stage.mean[part], np.diag(stage.second)[part]]
        weight += [1 / max(stage.mean_noise_sd, 1e-12) ** 2, 1 / (2 * noise)]
        found += [stage.second[part, other].sum(axis=1) for other in others]
        weight += [1 / (noise * (other.stop - other.start)) for other in others]
    shares = np.maximum(np.average(found, axis=0, weights=weight), 0.0)
    return shares / max(float(shares.sum()), np.finfo(float).tiny), 1 / math.sqrt(sum(weight))
