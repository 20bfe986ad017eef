"""What is known of a column from noisy counts of a public partition: its distribution, and the scores of its cells.

Everything here is a function of released numbers: the publisher uses it to turn cells into scores, a reader to know
what was done. Cells are on the public scale u in [-1, 1]. A whole-numbered column has one step between its values, and
its cells are spread over their step at random, so that ties do not show.

The distribution is a compromise between the counts and a normal distribution, bent for skewness, that is fitted to
them: F = weight * F_counts + (1 - weight) * F_fitted, by how far the counts contradict the fit beyond their noise
(James and Stein). The bent normal has the cdf Phi(log(1 + k x) / k), x = (u - m) / s: normal at k = 0, lognormal beside
it. A cell's score is
z = Phi^-1(F(u)), in whole numbers of 1/1024. Inside a drawn leaf (its mass lies in a lump) the score does not follow
the cell: it is drawn from that leaf's part of the normal (docs/maths/marginals.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from hazeglass.features.fitting import ALONE, Counts, Leaves, Usual, bent, fitted, on_simplex, usual_of

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

MOST_ROUNDS = 4
MOST_LEAVES = 256
_LOOKED_AT = 32  # leaves of a round that only finds out where cells are
LOOK_SHARE = 0.2  # of the counts' budget that is left, for each round but the last
PRESENCE_SHARE = 0.05  # of what the counts left, where cells are missing in several columns
_LEAST_SHARE, _MOST_SHARE, _ENOUGH = 0.1, 0.2, 0.01  # of mu^2; less where the counts' noise is that share of the rows
_FIRST_LEAVES = 16
_LUMP = 2.5  # a leaf with so many times the mass it was made for holds a lump
_WIDE = 0.25  # a leaf with more mass than that is looked into again
_SURE = 3.0  # standard errors from which missing cells are taken off
_LOUD = 0.01  # noise of a count, as a share of the rows, from which columns help to tell each other's places
_THINNING = 4.0  # power of the tail beyond the last border
_GRID = 1 << 30  # borders are multiples of 1/2^30: exact whatever reads them
_SEARCH = 40
_LUMP_SHARE = 0.03
_MOST_VALUES = 16  # in a leaf; more of them make a smooth column


@dataclass(frozen=True, eq=False)
class Marginal:
    """One column's distribution.

    rounds  the counts it is made from, the last being the finest where cells are
    step    between the values of a whole-numbered column, 0 for others
    rows    how many cells there are, missing ones included; None where only the counts say it
    usual   what is supposed of the fitted distribution before these counts
    """

    rounds: tuple[Counts, ...]
    step: float = 0.0
    rows: float | None = None
    usual: Usual = ALONE

    @property
    def borders(self) -> FloatArray:
        """Of the last round's leaves."""
        return self.rounds[-1].borders

    @property
    def noise_sd(self) -> float:
        """Of the last round's counts."""
        return self.rounds[-1].noise_sd

    @cached_property
    def missing_share(self) -> float:
        """How many of the cells are missing, by all rounds."""
        precision = np.array([1 / one.noise_sd**2 for one in self.rounds])
        missing = np.array([one.missing for one in self.rounds])
        total = [self.rows or max(one.missing + one.counts.sum(), 1.0) for one in self.rounds]
        return float(np.clip(precision @ (missing / total) / precision.sum(), 0.0, 0.99))

    @cached_property
    def wholes(self) -> FloatArray:
        """How many cells each round counted that are not missing."""
        if self.rows is None:
            return np.array([max(float(one.counts.sum()), 1.0) for one in self.rounds])
        noise = 1 / math.sqrt(sum(1 / one.noise_sd**2 for one in self.rounds))
        missing = self.missing_share if self.missing_share * self.rows > _SURE * noise else 0.0
        return np.full(len(self.rounds), max((1 - missing) * self.rows, 1.0))

    @property
    def whole(self) -> float:
        """The same of the last round."""
        return float(self.wholes[-1])

    @cached_property
    def _free(self) -> FloatArray:
        """Shares of the last round's leaves by their counts alone: not negative, and 1 together."""
        return on_simplex(self.rounds[-1].counts / self.whole)

    @cached_property
    def _leaves(self) -> Leaves:
        return Leaves.of(self.rounds, self.wholes)

    @cached_property
    def fitted(self) -> tuple[float, float, float]:
        """Median, scale and skewness of the bent normal distribution that fits all rounds best."""
        return fitted(self.rounds, self._leaves, self.step, self.usual)

    @cached_property
    def skew_variance(self) -> float:
        """Of the error that noise leaves in the fitted skewness."""
        median, scale, skew = self.fitted
        slope = self._leaves.misfit(np.array([median, math.log(scale), skew]), self.usual)[2]
        return float(np.linalg.pinv(slope.T @ slope)[2, 2])

    @cached_property
    def weight(self) -> float:
        """How far the counts are believed beyond the fitted distribution: 0 where noise explains the difference."""
        chi_square, freedom = 0.0, -3
        for one, total in zip(self.rounds, self.wholes, strict=True):
            gap = one.counts - total * np.diff(self._fitted_cdf(one.borders))
            # Counts of rows vary by themselves, too; what is expected of that is no contradiction.
            chi_square += float(np.sum(gap**2 / (one.noise_sd**2 + np.maximum(one.counts, 0.0) / 2)))
            freedom += one.counts.size - 1
        freedom = max(freedom, 1)
        doubt = freedom + math.sqrt(2 * freedom)
        return max(0.0, 1.0 - doubt / max(chi_square, doubt))

    def _fitted_cdf(self, u: FloatArray) -> FloatArray:
        """The fitted distribution, its ends moved into the bounds as cells are."""
        median, scale, skew = self.fitted
        inside = ndtr(bent((u - median) / scale, skew)[0])
        return np.where(u <= -1 - self.step / 2, 0.0, np.where(u >= 1 + self.step / 2, 1.0, inside))

    @cached_property
    def cumulative(self) -> FloatArray:
        """F at the borders."""
        free = np.concatenate([[0.0], np.cumsum(self._free)])
        both = self.weight * free / free[-1] + (1 - self.weight) * self._fitted_cdf(self.borders)
        both[0], both[-1] = 0.0, 1.0
        return np.maximum.accumulate(both)

    @cached_property
    def shares(self) -> FloatArray:
        """Of the present cells in each leaf."""
        return np.diff(self.cumulative)

    @cached_property
    def drawn(self) -> BoolArray:
        """Leaves in which a score does not follow the cell."""
        share, leaves = self.shares, self.shares.size
        last, believed, total = self.rounds[-1], self.weight > 0.5, self.whole
        meant = np.diff(levels(leaves, self.noise_sd / total))
        lump = share > _WIDE
        if meant.size == leaves:
            lump |= (share > _LUMP * meant) & (share > _WIDE / 4)
        certain = last.counts > _WIDE * total + 3 * self.noise_sd  # whatever the fitted distribution explains
        lump[[0, -1]] |= self.step > 0
        return (believed & lump) | certain | (np.diff(self.borders) < 1.5 * self.step)

    @cached_property
    def _pieces(self) -> tuple[FloatArray, BoolArray]:
        """The leaves with each value of a whole-numbered column apart, and inside which of them scores are drawn."""
        if self.step == 0:
            return self.borders, self.drawn
        width = np.rint(np.diff(self.borders) / self.step)  # a float: bounds may lie beyond 2^63
        values = np.where(self.drawn | (width > _MOST_VALUES), 1, width).astype(np.int64)
        parts = [
            low + (high - low) * np.arange(1, count + 1) / count
            for low, high, count in zip(self.borders[:-1], self.borders[1:], values, strict=True)
        ]
        drawn = self.drawn | (width <= _MOST_VALUES)
        return np.asarray(np.concatenate([self.borders[:1], *parts])), np.repeat(drawn, values)

    @property
    def coarse(self) -> BoolArray:
        """For the pieces between `latent_borders`: whether scores are drawn inside, whatever the cell is."""
        return self._pieces[1]

    @property
    def lumps(self) -> list[tuple[float, float]]:
        """Between which ranks a piece lies in which scores are drawn, where it holds more than a few of the cells."""
        ends = ndtr(self.latent_borders)
        pieces = np.column_stack([ends[:-1], ends[1:]])[self.coarse]
        return [(float(low), float(high)) for low, high in pieces if high - low > _LUMP_SHARE]

    @cached_property
    def latent_borders(self) -> FloatArray:
        """Where the pieces of the column meet on the scale of scores, from -inf to inf."""
        return np.asarray(ndtri(with_ends(self.cdf(self._pieces[0]))))

    @cached_property
    def means(self) -> FloatArray:
        """The mean score of each piece."""
        cumulative = ndtr(self.latent_borders)
        return normal_means(cumulative[:-1], cumulative[1:])

    @cached_property
    def attenuation(self) -> float:
        """E[Z h(Z)], h(z) being z, or the mean score of z's piece where scores are drawn inside it: 1 if smooth."""
        borders = np.clip(self.latent_borders, -38, 38)
        density = np.exp(-np.square(borders) / 2) / math.sqrt(2 * math.pi)
        share = np.diff(ndtr(self.latent_borders))
        squares = share + borders[:-1] * density[:-1] - borders[1:] * density[1:]
        return float(np.sum(np.where(self.coarse, share * np.square(self.means), squares)))

    def cdf(self, u: FloatArray) -> FloatArray:
        """F anywhere: inside a leaf the counts' part is spread evenly, in an open end it thins out."""
        u = np.asarray(u, dtype=np.float64)
        free = np.interp(u, self.borders, np.concatenate([[0.0], np.cumsum(self._free)]))
        if self.step == 0 and self._free.size > 2:
            below, above = self.borders[1] - u, u - self.borders[-2]
            free = np.where(below > 0, self._tail(0, 1, below), free)
            free = np.where(above > 0, 1 - self._tail(-1, -2, above), free)
            free = np.where(u <= self.borders[0], 0.0, np.where(u >= self.borders[-1], 1.0, free))
        return np.asarray(self.weight * free + (1 - self.weight) * self._fitted_cdf(u))

    def _tail(self, end: int, neighbour: int, beyond: FloatArray) -> FloatArray:
        """The share farther out than `beyond` in an open end: q (1 + f x / (k q))^-k, f the density next to it."""
        share, width = float(self._free[end]), np.diff(self.borders)
        density = max(float(self._free[neighbour] / width[neighbour]), share / float(width[end]))
        return share * (1 + density * np.maximum(beyond, 0.0) / (_THINNING * max(share, 1e-12))) ** -_THINNING

    def quantile(self, level: FloatArray) -> FloatArray:
        """The smallest u with F(u) >= level, to one part in 2^30, by bisection."""
        low = np.full(np.shape(level), float(self.borders[0]))
        high = np.full(np.shape(level), float(self.borders[-1]))
        for _ in range(_SEARCH):
            middle = (low + high) / 2
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(np.rint(high * _GRID) / _GRID)

    @cached_property
    def location(self) -> float:
        """Where the column lies: its mean, as far as it is known."""
        return float(np.mean(self._values))

    @cached_property
    def spread(self) -> float:
        """Its standard deviation, as far as it is known; never nothing."""
        return max(float(np.std(self._values)), float(np.min(np.diff(self.borders))) / 2)

    @cached_property
    def _values(self) -> FloatArray:
        """A thousand quantiles."""
        return self.quantile((np.arange(1000) + 0.5) / 1000)


def counts_share(distance: float, mu: float, rows: int) -> float:
    """Which part of mu^2 the counts get, from public numbers: more where rows are few.

    `distance` is how far a protected unit moves a round of counts.
    """
    noise = distance / (mu * math.sqrt(_LEAST_SHARE) * rows)
    return float(np.clip(_LEAST_SHARE * noise / _ENOUGH, _LEAST_SHARE, _MOST_SHARE))


@dataclass(frozen=True, eq=False)
class Levels(Marginal):
    """The shares of a categorical column's levels, which lie a step apart in no order: every one is a leaf of its own
    in all rounds, and the counts are all that is known."""

    @property
    def weight(self) -> float:
        """No distribution is fitted to levels."""
        return 1.0

    @cached_property
    def _free(self) -> FloatArray:
        """By all rounds, each as far as its noise lets it."""
        precision = np.array([1 / one.noise_sd**2 for one in self.rounds])
        counts = precision @ np.array([one.counts for one in self.rounds]) / precision.sum()
        return on_simplex(counts / (self.whole if self.rows else max(float(counts.sum()), 1.0)))

    @property
    def drawn(self) -> BoolArray:
        """All leaves: a level has no score."""
        return np.ones(self._free.size, dtype=bool)

    @property
    def count_sd(self) -> float:
        """Standard deviation of the noise in a level's pooled count."""
        return float(1 / math.sqrt(sum(1 / one.noise_sd**2 for one in self.rounds)))


def marginals_of(
    columns: Sequence[Sequence[Counts]], steps: Sequence[float], levels: Sequence[bool], rows: float | None
) -> tuple[Marginal, ...]:
    """What the rounds of counts say of every column; `rows` is their public number, None where it is secret.

    Where the noise is loud, it is the counts of all columns together that say where each of them may lie.
    """
    if not columns or not columns[0]:
        return ()
    if rows is None:  # every column was counted in the same rows
        sums = np.array(
            [
                [one.missing + one.counts.sum(), one.noise_sd**2 * (one.counts.size + 1)]
                for own in columns
                for one in own
            ]
        )
        rows = max(float(np.average(sums[:, 0], weights=1 / sums[:, 1])), 1.0)
    made = [
        (Levels if level else Marginal)(tuple(own), step, rows)
        for own, step, level in zip(columns, steps, levels, strict=True)
    ]
    ordered = [one for one in made if not isinstance(one, Levels)]
    if not ordered or ordered[0].noise_sd < _LOUD * rows:
        return tuple(made)
    usual = usual_of(*zip(*((one.rounds, one.step, one.wholes) for one in ordered), strict=True))
    return tuple(one if isinstance(one, Levels) else replace(one, usual=usual) for one in made)


def first_borders(step: float, *, levels: bool = False) -> FloatArray:
    """The partition of the first round: even leaves; the values of a whole-numbered column where they are few, and all
    levels of a categorical one."""
    if step > 0:
        values = float(np.rint(2 / step)) + 1
        if levels or values <= _FIRST_LEAVES:
            return np.asarray(-1 + step * (np.arange(values + 1) - 0.5), dtype=np.float64)
        cuts = np.unique(np.rint(np.linspace(0, values, _FIRST_LEAVES + 1)))
        return -1 + step * (cuts - 0.5)
    return np.linspace(-1.0, 1.0, _FIRST_LEAVES + 1)


def levels(leaves: int, noise: float) -> FloatArray:
    """The shares between which a round puts its borders: even steps of the score, as far out as counts can tell.

    `noise` is that of one count, as a share of the rows.
    """
    end = float(np.clip(3 * noise, 1e-4, 0.2))
    return np.concatenate([[0.0], ndtr(np.linspace(ndtri(end), -ndtri(end), leaves - 1)), [1.0]])


def leaf_count(noise: float, most: int = MOST_LEAVES) -> int:
    """How many leaves counts with this noise (as a share of the rows) can tell apart, from 6 to `most`."""
    return int(np.clip(round(0.8 / max(noise, 1e-9) ** (2 / 3)), 6, most))


def next_borders(known: Marginal, noise: float, *, last: bool) -> FloatArray:
    """The partition of the next round: where cells are, by what is known; `noise` is what its counts will have.

    People write round numbers, and columns that nearly determine each other show every difference between a column and
    what is known of it. So the last round has as many leaves as its noise allows.
    """
    if isinstance(known, Levels):
        return known.borders
    most = MOST_LEAVES if last else _LOOKED_AT
    wanted = known.quantile(levels(leaf_count(noise, most), noise)[1:-1])
    low, high = -1 - known.step / 2, 1 + known.step / 2
    if known.step > 0:
        cuts = np.rint((wanted - low) / known.step)
        cuts = np.unique(np.clip(cuts, 1, np.rint((high - low) / known.step) - 1))
        wanted = low + known.step * cuts
    inner = np.unique(np.clip(wanted, low + 2 / _GRID, high - 2 / _GRID))
    return np.concatenate([[low], inner, [high]])


def is_last_round(rounds: int, known: Sequence[Marginal], *, ordered: bool) -> bool:
    """Whether the round that follows so many is the last: by what is known, no column needs a further look.

    The first round is the last where no column is `ordered`, because it counts every level already.
    """
    return rounds == MOST_ROUNDS - 1 or not (any(map(needs_another_look, known)) if rounds else ordered)


def needs_another_look(known: Marginal) -> bool:
    """Whether a leaf that could be divided holds much of the mass."""
    if isinstance(known, Levels):
        return False
    wide = np.diff(known.borders) > 1.5 * known.step if known.step > 0 else np.diff(known.borders) > 8 / _GRID
    return bool(np.any(known.shares[wide] > _WIDE))


def often_missing(columns: Sequence[Marginal]) -> tuple[int, ...]:
    """Numbers of the columns in which more than one cell in two hundred is missing, beyond what noise explains."""

    def doubt(known: Marginal) -> float:
        last = known.rounds[-1]
        return 3.5 * known.noise_sd / (known.rows or max(float(last.counts.sum()) + last.missing, 1.0))

    return tuple(k for k, known in enumerate(columns) if known.missing_share > 0.005 + doubt(known))


def with_ends(cumulative: FloatArray) -> FloatArray:
    cumulative[0], cumulative[-1] = 0.0, 1.0
    return np.maximum.accumulate(np.clip(cumulative, 0.0, 1.0))


def normal_means(low: FloatArray, high: FloatArray) -> FloatArray:
    """Mean scores of the parts of the normal between two shares."""
    below, above = (np.clip(ndtri(np.clip(share, 0.0, 1.0)), -6.0, 6.0) for share in (low, high))
    density = [np.exp(-np.square(end) / 2) / math.sqrt(2 * math.pi) for end in (below, above)]
    width = high - low
    means = (density[0] - density[1]) / np.where(width < 1e-9, 1.0, width)
    return np.clip(np.where(width < 1e-9, (below + above) / 2, means), below, above)
