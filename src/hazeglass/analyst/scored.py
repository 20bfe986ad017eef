"""From the pooled covariance of scores to correlations of what lies behind them, with every error that enters.

Three things stand between the two: missing cells, whose scores say nothing, so that a pair keeps only the share pi_ij
of rows where both are present; coarse columns, whose scores say less than the column (features/scores.py); and the
marginals' own error. For smooth columns that error cancels when scores are divided by their released deviation. For
coarse ones it leaves a relative error kappa in all correlations of the column, which acts on partial correlations as
an error -2 kappa of the diagonal would (docs/maths/scores.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.features.marginal import Marginal
from hazeglass.features.scores import Link, latent_correlations, normal_density
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import spread

_DRAWS, _SEED = 40_000, 20_241_118
_POINTS = 200
# Bends of a column are uncorrelated with all others in a Gaussian copula. Where rows swing it is none, and bends have
# such a correlation with what others leave of a column; measured on cell signalling.
_ASTRAY, _CLEAR_SWING = 0.15, 0.03
_LEAST_PRESENT = 0.02  # of the rows: no pair is divided by less
_STANDS_OUT = 3.0  # standard errors of a share of missing cells, above which it is one


@dataclass(frozen=True, eq=False)
class Presence:
    """How many of the rows have both cells of a pair.

    both    their share, for every pair; on the diagonal that of one column
    error   variance of the relative error of `both` for every pair by itself
    column  variance of the relative error that all pairs of a column share
    """

    both: FloatArray
    error: FloatArray
    column: FloatArray

    @classmethod
    def of_marginals(cls, marginals: Sequence[Marginal], n: int) -> Presence:
        """Cells missing independently of each other, as far as that is not known.

        A share within three standard errors of none counts as none: columns that nearly determine each other cannot
        bear an error of a part in a hundred. Another is taken for as much as it stands out from the noise (James and
        Stein). Of missing cells that two columns have in common there may be none, or as many as the column has that
        misses fewer.
        """
        noise = np.array([one.noise_sd for one in marginals]) / n
        counted = np.array([one.missing_share for one in marginals])
        missing = np.where(counted > _STANDS_OUT * noise, counted - noise**2 / np.maximum(counted, noise), 0.0)
        present = np.maximum(1 - missing, _LEAST_PRESENT)
        both = np.outer(present, present)
        error = np.square(np.minimum.outer(missing, missing) / 2 / np.maximum(both, _LEAST_PRESENT))
        np.fill_diagonal(both, present)
        np.fill_diagonal(error, 0.0)
        return cls(both, error, np.where(present < 1, (noise / present) ** 2, 0.0))

    @classmethod
    def of_signs(cls, second: FloatArray, present: FloatArray, noise_sd: float) -> Presence:
        """From released products of signs, +1 for a present cell and -1 for a missing one."""
        missing = 1 - present
        both_missing = (second - 1 + 2 * missing[:, None] + 2 * missing[None, :]) / 4
        both = np.clip(1 - missing[:, None] - missing[None, :] + both_missing, _LEAST_PRESENT, 1.0)
        np.fill_diagonal(both, np.maximum(present, _LEAST_PRESENT))
        error = (noise_sd / 4 / both) ** 2
        np.fill_diagonal(error, 0.0)
        return cls(both, error, np.zeros(len(present)))

    def of(self, some: Sequence[int]) -> Presence:
        """Of some columns."""
        here = np.ix_(some, some)
        return Presence(self.both[here], self.error[here], self.column[list(some)])

    def with_signs(self, of: npt.NDArray[np.intp], found: Presence) -> Presence:
        """The same, with what was found out about some of the columns."""
        both, error, here = self.both.copy(), self.error.copy(), np.ix_(of, of)
        both[here], error[here] = found.both, found.error
        return Presence(both, error, self.column)


def correlations(
    noisy: NoisyCovariance,
    marginals: Sequence[Marginal],
    links: Sequence[Link] | None,
    seen: Presence | None,
    *,
    scored: bool,
) -> NoisyCovariance:
    """Correlations behind what columns with these links show (None: cells as they are), as if no cell were missing."""
    own = noisy.standardised()
    seen = seen or Presence.of_marginals(marginals, own.n)
    p, present = len(own.names), np.diag(seen.both)
    # A missing score is drawn, so the diagonal is as if nothing were missing; a missing standardised cell is 0.
    alone = np.ones(p) if scored else np.sqrt(present)
    kept = seen.both / np.outer(alone, alone)
    np.fill_diagonal(kept, 1.0)
    values, slope, attenuation = own.covariance / kept, np.ones((p, p)), np.ones(p)
    shared = seen.column * (1.0 if scored else 0.25)
    if links is not None:
        values, slope = latent_correlations(values, links)
        attenuation = np.array([link.attenuation for link in links])
        shared = shared + [relative_error(one, link, own.n) for one, link in zip(marginals, links, strict=True)]
    each = alone / (attenuation * present)
    stretch = slope / kept / np.outer(each, each)
    np.fill_diagonal(stretch, 1.0)
    error = replace(own.error.carried(each[:, None, None]), stretch=stretch, own=4 * shared, excess=1 - 1 / each**2)
    if seen.error.any():  # each pair's own error of pi, beside that of its covariance
        beside = np.square(values) * seen.error / np.maximum(error.entry_variance, np.finfo(float).tiny)
        error = replace(error, stretch=stretch * np.sqrt(1 + beside))
    if not scored:
        return replace(own, covariance=values, error=error)
    bent, astray = np.array([distortions(one, (None, 1.0)) for one in marginals]).T
    error = replace(error, own=4 * shared + np.square(bent))  # a bend is variance that goes with no other column
    return replace(own, covariance=values, error=error, bent=bent, astray=swing_shares(own.swing) * astray)


def swing_shares(swing: float) -> float:
    """Which share of their variance bends of columns may have in common where rows swing so much."""
    return (_ASTRAY * min(1.0, swing / _CLEAR_SWING)) ** 2


def block_correlations(noisy: NoisyCovariance, seen: Presence) -> NoisyCovariance:
    """Covariance of several features per column, as if no cell were missing; a missing cell's features are drawn."""
    kept = seen.both.copy()
    np.fill_diagonal(kept, 1.0)
    whole = spread(kept, noisy.size)
    return replace(noisy, covariance=noisy.covariance / whole, error=replace(noisy.error, stretch=1 / whole))


def distortions(known: Marginal, believed: Sequence[float | None]) -> list[float]:
    """The variance of what noise in a marginal adds to its scores, beyond their mean and scale, which cancel.

    `believed` are several answers to how far counts are believed beyond the fitted distribution, None being as far as
    they are: all of it says what may be wrong with a fit that noise hides. Counts that are believed by w leave w of
    their variance, partly as noise and partly as what the fit gets wrong (James and Stein).
    """
    shares, density, straight, fit = _bending_points()
    noise, between = cumulative_noise(known, shares)
    loads = between / density
    bent = loads - (loads @ fit) @ straight
    counted = float(np.sum(noise * (bent @ bent.T))) / _POINTS
    weights = [known.weight if one is None else one for one in believed]
    return [weight * counted + (1 - weight) ** 2 * known.skew_variance / 2 for weight in weights]


@cache
def _bending_points() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Shares, the normal density there, straight lines, and what fits them to values at the points."""
    z = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
    straight = np.stack([np.ones_like(z), z])
    return ndtr(z), normal_density(z), straight, np.asarray(np.linalg.pinv(straight))


def relative_error(known: Marginal, link: Link, n: int) -> float:
    """Var(kappa) of one column: what noise and sampling of its counts leave in its correlations with others."""
    if link.smooth and not known.coarse.any():
        return 0.0
    at = ndtr(link.places)
    noise, between = cumulative_noise(known, at)
    load = between @ link.sensitivity
    sampling = (np.minimum.outer(at, at) - np.outer(at, at)) / n
    # Of the counts' noise a normal fitted to them keeps what its two parameters take up: all, where leaves are few.
    leaves = known.rounds[-1].counts.size
    believed = max(known.weight**2, min(1.0, 2 / max(1, leaves - 1)))
    return float(believed * load @ noise @ load + link.sensitivity @ sampling @ link.sensitivity)


def cumulative_noise(known: Marginal, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Covariance of the noise in the cumulative shares at the borders of the counts, and weights that interpolate.

    Counts are divided by their sum, so the errors are those of a bridge: tied to 0 at both ends.
    """
    counts, ends = known.rounds[-1].counts, known.cumulative
    share, leaves = known.noise_sd / known.whole, np.arange(counts.size + 1)
    tied = np.outer(leaves, ends)
    noise = share**2 * (np.minimum.outer(leaves, leaves) - tied - tied.T + counts.size * np.outer(ends, ends))
    place = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, leaves.size - 2)
    width = ends[place + 1] - ends[place]
    share_above = np.clip(np.where(width > 0, (at - ends[place]) / np.where(width > 0, width, 1.0), 1.0), 0.0, 1.0)
    between = np.zeros((leaves.size, at.size))
    here = np.arange(at.size)
    between[place, here] = 1 - share_above
    between[place + 1, here] = share_above
    return noise, between


def drawn_scores(marginals: Sequence[Marginal], correlation: FloatArray) -> FloatArray:
    """Scores of made-up rows whose hidden normals have this correlation, drawn inside leaves as the publisher does."""
    rng = np.random.default_rng(_SEED)
    rows = rng.standard_normal((_DRAWS, len(marginals))) @ np.linalg.cholesky(correlation).T
    for k, one in enumerate(marginals):
        cumulative = ndtr(one.latent_borders)
        piece = np.clip(np.searchsorted(one.latent_borders, rows[:, k], side="right") - 1, 0, one.coarse.size - 1)
        level = cumulative[piece] + rng.random(_DRAWS) * (cumulative[piece + 1] - cumulative[piece])
        rows[:, k] = np.where(one.coarse[piece], ndtri(np.clip(level, 1e-12, 1 - 1e-12)), rows[:, k])
    return np.asarray(rows)
