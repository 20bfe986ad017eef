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

from hazeglass.bundle.manifest import Column, Manifest, unit_step
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.features.clipping import widen
from hazeglass.features.marginal import Marginal, often_missing

FloatArray = npt.NDArray[np.float64]

FLOOR, _LEAST_KEPT, _LEAST_PRESENT = 1e-9, 0.01, 0.02
_LEVELS = 4096  # of the score at which a marginal's quantiles are looked up
_LARGEST_WHOLE = 2.0**53  # rounded cells are moved into this range


@dataclass(frozen=True, eq=False)
class Numbers:
    """Of the ordered columns on the scale x of a release, before rows were clipped.

    cross  covariances of x with the indicators of levels
    noise  of the covariances and of `cross`, by rows: an entry (i, j) has noise of about noise_i * noise_j / sd, one of
           `cross` noise_i, sd being that of a single entry
    sd     noise of an entry where rows are as they were
    """

    mean: FloatArray
    covariance: FloatArray
    cross: FloatArray
    noise: FloatArray
    sd: float


def numbers_of(manifest: Manifest, moments: ReleasedMoments) -> Numbers:
    """By the last stage: widened if rows were clipped and it can be done, and mapped back."""
    stage, n = manifest.stages[-1], manifest.n
    p = stage.scored
    first, second, noise = moments.mean[:p], moments.second[:p, :p], moments.mean_noise_sd[:p]
    cross = moments.second[:p, p:] - np.outer(first, moments.mean[p:])
    undone = np.eye(p)
    widening = widen(second, stage.radius, first) if stage.clipped and p else None
    if widening is None:
        mean = first
        covariance = np.asarray((second - np.outer(first, first) + np.diag(noise**2)) * n / (n - 1))
    else:
        mean, covariance = widening.mean, widening.row_covariance(n, noise)
        kept = np.sqrt(widening.shrink) @ widening.squares / len(widening.shrink)
        undone = (widening.vectors / kept) @ widening.vectors.T
        cross = undone @ cross
    mean = mean + np.array(stage.centre[:p])
    if moments.map is not None:
        back = np.linalg.inv(moments.map[:p, :p])
        mean, covariance, cross, undone = back @ mean, back @ covariance @ back.T, back @ cross, back @ undone
    sd = float(moments.second_noise_sd[0, -1])
    return Numbers(mean, covariance, np.asarray(cross), sd * np.sqrt(np.sum(undone**2, axis=1)), sd)


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
