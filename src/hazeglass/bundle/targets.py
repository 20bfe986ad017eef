"""What rows are drawn from: the moments of a release, the publisher's clipping and shaping undone, and the cells
that ranks and numbers stand for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from hazeglass.bundle.manifest import Column, Manifest, Stage, unit_step
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.features.clipping import LEAST_NOISE, stage_doubts, stage_scales, widen
from hazeglass.features.marginal import Marginal, often_missing

FloatArray = npt.NDArray[np.float64]

FLOOR, _LEAST_KEPT, _LEAST_PRESENT = 1e-9, 0.01, 0.02
_LEVELS = 4096  # of the score at which a marginal's quantiles are looked up
_LARGEST_WHOLE = 2.0**53  # rounded cells are moved into this range


@dataclass(frozen=True, eq=False)
class Numbers:
    """Of the ordered columns on the scale x of a release, before rows were clipped.

    cross        covariances of x with the indicators of levels
    noise        standard deviation of the noise in each entry of the covariance
    cross_noise  the same of `cross`, by rows
    """

    mean: FloatArray
    covariance: FloatArray
    cross: FloatArray
    noise: FloatArray
    cross_noise: FloatArray


@dataclass(frozen=True, eq=False)
class _Undone:
    """One stage by itself, widened if rows were clipped, and mapped back.

    carry  what a product of the stage's own entries became on the way, on either side
    told   whether clipping could be undone
    """

    mean: FloatArray
    covariance: FloatArray
    cross: FloatArray
    carry: FloatArray
    sd: float
    told: bool


def numbers_of(manifest: Manifest, moments: Sequence[ReleasedMoments]) -> Numbers:
    """By the last stage and all of its kind, pooled entry by entry by their noise, in the last one's own coordinates.

    Stages are shaped by those before them, so that there the noise of each is nearly independent from entry to entry.
    """
    given = zip(manifest.stages[-len(moments) :], moments, strict=True)
    every = [_undone(stage, one, manifest.n) for stage, one in given if stage.features == manifest.stages[-1].features]
    kept = [one for one in every if one.told] or every[-1:]
    p, last = manifest.stages[-1].scored, moments[-1].map
    there = np.eye(p) if last is None else last[:p, :p]
    back = np.eye(p) if last is None else np.linalg.inv(there)
    carried = [there @ one.carry for one in kept]
    noise = np.array([one.sd**2 * _spread(carry) for one, carry in zip(kept, carried, strict=True)])
    values = np.array([there @ one.covariance @ there.T for one in kept])
    scale = stage_scales(values, noise)
    values, noise = values * scale[:, None, None], noise * scale[:, None, None] ** 2
    weights = 1 / stage_doubts(values, noise)
    weights /= weights.sum(axis=0)
    error = np.sum(weights**2 * noise, axis=0)
    lengths = np.array([np.sum(carry**2, axis=1) for carry in carried])
    cross_noise = np.array([one.sd**2 for one in kept])[:, None] * lengths * scale[:, None]
    shares = 1 / np.maximum(cross_noise, LEAST_NOISE)
    shares /= shares.sum(axis=0)
    cross = sum(
        (share * root)[:, None] * (there @ one.cross)
        for share, root, one in zip(shares, np.sqrt(scale), kept, strict=True)
    )
    return Numbers(
        kept[-1].mean,
        back @ np.sum(weights * values, axis=0) @ back.T,
        np.asarray(back @ cross),
        np.sqrt(back**2 @ error @ (back**2).T),
        np.sqrt(back**2 @ np.sum(shares**2 * cross_noise, axis=0)),
    )


def _spread(carry: FloatArray) -> FloatArray:
    """Variances of the entries of carry E carry^T, those of the symmetric E being 1, and 2 on its diagonal."""
    gram = carry @ carry.T
    own = np.diag(gram)
    return np.maximum(np.outer(own, own) + gram**2, LEAST_NOISE)


def _undone(stage: Stage, moments: ReleasedMoments, n: int) -> _Undone:
    p = stage.scored
    first, second, noise = moments.mean[:p], moments.second[:p, :p], moments.mean_noise_sd[:p]
    cross = moments.second[:p, p:] - np.outer(first, moments.mean[p:])
    carry = np.eye(p)
    widening = widen(second, stage.radius, first) if stage.clipped and p else None
    if widening is None:
        mean = first
        covariance = np.asarray((second - np.outer(first, first) + np.diag(noise**2)) * n / (n - 1))
    else:
        mean, covariance = widening.mean, widening.row_covariance(n, noise)
        kept = np.sqrt(widening.shrink) @ widening.squares / len(widening.shrink)
        carry = (widening.vectors / kept) @ widening.vectors.T
        cross = carry @ cross
    mean = mean + np.array(stage.centre[:p])
    if moments.map is not None:
        back = np.linalg.inv(moments.map[:p, :p])
        mean, covariance, cross, carry = back @ mean, back @ covariance @ back.T, back @ cross, back @ carry
    sd = max(float(moments.second_noise_sd[0, -1]), LEAST_NOISE)
    return _Undone(mean, covariance, np.asarray(cross), carry, sd, widening is not None or not stage.clipped)


def kept_of(known: Marginal, box: float | None) -> float:
    """Which share of a latent correlation a column's scores keep, beside their deviation, to first order."""
    kept = max(known.attenuation, _LEAST_KEPT)  # scores drawn in one lump follow nothing
    if box is None:
        return kept
    inside = float(ndtr(box) - ndtr(-box))
    density = math.exp(-(box**2) / 2) / math.sqrt(2 * math.pi)
    variance = inside - 2 * box * density + box**2 * (1 - inside)
    return kept * inside / math.sqrt(variance)


def present(marginals: Sequence[Marginal]) -> FloatArray:
    """The share of rows in which each column's cell is there, as far as noise does not explain the missing ones."""
    found = np.ones(len(marginals))
    for k in often_missing(marginals):
        found[k] = max(1 - marginals[k].missing_share, _LEAST_PRESENT)
    return found


@dataclass(frozen=True, eq=False)
class Cells:
    """One column's cells in its (transformed) unit: from x by u = centre + scale x, or from ranks by its marginal."""

    column: Column
    centre: float
    scale: float
    known: Marginal | None
    rounds: bool
    bounded: bool

    @cached_property
    def _quantiles(self) -> FloatArray:
        assert self.known is not None
        return self.known.quantile(np.linspace(0, 1, _LEVELS + 1))

    def of_normals(self, x: FloatArray) -> FloatArray:
        """Of numbers on the release's scale; scores are normal."""
        return self._in_unit(self.centre + self.scale * x) if self.known is None else self.of_ranks(ndtr(x))

    def of_ranks(self, ranks: FloatArray) -> FloatArray:
        """Of shares of the column that lie below."""
        unit = np.interp(ranks, np.linspace(0, 1, _LEVELS + 1), self._quantiles)
        plain = self.column
        if plain.counted and unit_step(plain, "scores") > 0:  # ranks were those before the transform
            middle, half = (plain.lower + plain.upper) / 2, (plain.upper - plain.lower) / 2
            whole = np.clip(np.rint(middle + half * unit), plain.lower, plain.upper)
            return plain.transformed(whole)
        return self._in_unit(unit)

    def _in_unit(self, unit: FloatArray) -> FloatArray:
        plain = self.column
        values = plain.centre + plain.half_width * unit
        ends = (-_LARGEST_WHOLE, _LARGEST_WHOLE)
        if plain.levels:
            ends = (plain.lower, plain.upper)
        elif self.bounded:
            low, high = plain.transformed(np.array([plain.lower, plain.upper]))  # centre and half width round
            ends = (float(low), float(high))
            values = np.clip(values, *ends)
        return np.clip(np.rint(values), *ends) if self.rounds else values


def cells_of(manifest: Manifest, marginals: Sequence[Marginal], *, by_rank: bool, bounded: bool) -> tuple[Cells, ...]:
    """How every column's cells are made."""
    line = manifest.standard
    return tuple(
        Cells(
            column,
            0.0 if line is None else line.centre[k],
            1.0 if line is None else line.scale[k],
            marginals[k] if by_rank else None,
            manifest.whole_columns[k],
            bounded,
        )
        for k, column in enumerate(manifest.columns)
    )
