"""What rows are drawn from: the numbers of a release with the publisher's clipping and shaping undone, and of releases
with levels or cosines the tables of pairs that a Markov field is fitted to.

Ordered columns are cut into leaves, within which a cell is drawn evenly by rank. Between two of them the table is that
of normal numbers with the released correlation, or has the released products of cosines; between an ordered column and
levels, scores are normal within each level; between two columns of levels it is the released one, shrunk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from hazeglass.bundle.manifest import Manifest, Stage
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.features.clipping import LEAST_NOISE, stage_doubts, stage_scales, widen
from hazeglass.features.harmonics import DEGREES
from hazeglass.features.marginal import Levels, Marginal, often_missing
from hazeglass.features.scores import LevelMoments, shares_of
from hazeglass.markov import tables

FloatArray = npt.NDArray[np.float64]

FLOOR, _LEAST_KEPT, _LEAST_PRESENT = 1e-9, 0.01, 0.02
_MOST_LEAVES, _FEWEST_LEAVES, _ALL_LEAVES = 16, 6, 800


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


# ------------------------------------------------------------------------------------------------------ tables of pairs


def ranks_of(manifest: Manifest, marginals: Sequence[Marginal]) -> tuple[FloatArray | None, ...]:
    """Where ordered columns are cut; None for levels."""
    ordered = sum(column.ordered for column in manifest.columns)
    leaves = int(np.clip(_ALL_LEAVES // max(ordered, 1), _FEWEST_LEAVES, _MOST_LEAVES))
    return tuple(
        None if isinstance(known, Levels) else tables.cut(known.lumps, 2 if _two_valued(known) else leaves)
        for known in marginals
    )


def _told(known: Marginal, cuts: FloatArray | None) -> float:
    """What cells drawn evenly inside leaves keep of a correlation."""
    return 1.0 if cuts is None or _two_valued(known) else tables.told(cuts, known.lumps)


def _two_valued(known: Marginal) -> bool:
    return known.step >= 2.0


def estimates_of(
    manifest: Manifest, moments: Sequence[ReleasedMoments], marginals: Sequence[Marginal], extra: float = 1.0
) -> tables.Estimates:
    """Shares and tables of a release; `extra` is how many times its stated noise its numbers have.

    Numbers with more noise than a release has are those of a copy. They are not shrunk: copies are to differ by the
    noise and to lie about what was released, also where that hardly depends on each other.
    """
    ranks, there = ranks_of(manifest, marginals), present(marginals)
    stages = _level_stages(manifest, moments)
    parts = _parts(manifest)
    shares: list[FloatArray] = []
    for k, (known, cuts) in enumerate(zip(marginals, ranks, strict=True)):
        if cuts is not None:
            shares.append(np.diff(cuts))
            continue
        assert isinstance(known, Levels)
        others = [part for other, part in parts.items() if other != k]
        shares.append(shares_of(known, parts[k], others, stages)[0])
    pairs: dict[tuple[int, int], tuple[FloatArray, float]] = {}
    if manifest.stages[-1].features == "cosines":
        found = _of_cosines(manifest, moments, ranks, there, extra)
    else:
        of_scores = _of_scores(manifest, moments, marginals, ranks, shares, parts, there, extra)
        found = chain(_of_levels(shares, parts, stages, there, extra), of_scores)
    for i, j, table, noise in found:
        if table is not None:
            pairs[(i, j) if i < j else (j, i)] = (table if i < j else table.T, noise)
    return tables.Estimates(tuple(shares), pairs)


Found = tuple[int, int, FloatArray | None, float]


def _parts(manifest: Manifest) -> dict[int, slice]:
    """Where the indicators of each column of levels stand behind the numbers of a row."""
    found, start = {}, 0
    for k, column in enumerate(manifest.columns):
        if not column.ordered:
            found[k] = slice(start, start + len(column.levels))
            start += len(column.levels)
    return found


def _level_stages(manifest: Manifest, moments: Sequence[ReleasedMoments]) -> list[LevelMoments]:
    found = []
    for stage, one in zip(manifest.stages, moments, strict=True):
        if stage.levels:
            p = stage.scored
            second, sd, mean_sd = one.second, float(one.second_noise_sd[0, -1]), float(one.mean_noise_sd[0])
            found.append(LevelMoments(one.mean[p:], one.mean[:p], second[:p, p:], second[p:, p:], sd, mean_sd))
    return found


def _of_levels(
    shares: Sequence[FloatArray],
    parts: dict[int, slice],
    stages: Sequence[LevelMoments],
    there: FloatArray,
    extra: float,
) -> Iterator[Found]:
    """Two columns of levels: all stages, by their noise."""
    weights = np.array([1 / stage.noise_sd**2 for stage in stages])
    sd = extra / math.sqrt(float(weights.sum())) if stages else 0.0
    for i, own in parts.items():
        for j, other in parts.items():
            if i < j:
                both = there[i] * there[j]
                second = sum(w * one.second[own, other] for w, one in zip(weights, stages, strict=True)) / weights.sum()
                deviation, noise = (second - np.outer(shares[i], shares[j])) / both, sd / both
                yield i, j, tables.of_deviation(deviation, shares[i], shares[j], noise, shrink=extra == 1), noise


def _of_scores(
    manifest: Manifest,
    moments: Sequence[ReleasedMoments],
    marginals: Sequence[Marginal],
    ranks: Sequence[FloatArray | None],
    shares: Sequence[FloatArray],
    parts: dict[int, slice],
    there: FloatArray,
    extra: float,
) -> Iterator[Found]:
    """Two ordered columns, and an ordered column and one of levels."""
    target, box = numbers_of(manifest, moments), manifest.stages[-1].box
    ordered = [k for k, cuts in enumerate(ranks) if cuts is not None]
    kept = np.array([kept_of(marginals[k], box) * _told(marginals[k], ranks[k]) for k in ordered])
    deviation = np.sqrt(np.maximum(np.diag(target.covariance), FLOOR)) * kept
    noises, cross_noise = extra * target.noise, extra * target.cross_noise / deviation
    for a, i in enumerate(ordered):
        own = ranks[i]
        assert own is not None
        for b in range(a + 1, len(ordered)):
            other, both = ranks[ordered[b]], there[i] * there[ordered[b]]
            assert other is not None
            size = deviation[a] * deviation[b] * both
            rho, noise = float(target.covariance[a, b] / size), float(noises[a, b] / size)
            cell = noise / math.sqrt((own.size - 1) * (other.size - 1) * own.size)
            yield i, ordered[b], tables.of_normals(own, other, rho, noise, shrink=extra == 1), cell
        for j, part in parts.items():
            both = there[i] * there[j]
            noise = float(cross_noise[a]) / both
            cross = target.cross[a, part] / deviation[a] / both
            yield i, j, tables.of_classes(own, shares[j], cross, noise, shrink=extra == 1), noise / (own.size - 1)


def _of_cosines(
    manifest: Manifest,
    moments: Sequence[ReleasedMoments],
    ranks: Sequence[FloatArray | None],
    there: FloatArray,
    extra: float,
) -> Iterator[Found]:
    """Two ordered columns by the products of their cosines."""
    target, degrees = numbers_of(manifest, moments), DEGREES["cosines"]
    for i, own in enumerate(ranks):
        for j in range(i):
            other, both = ranks[j], there[i] * there[j]
            assert own is not None
            assert other is not None
            block = target.covariance[degrees * j : degrees * (j + 1), degrees * i : degrees * (i + 1)] / both
            noise = extra * float(target.noise[degrees * i, degrees * j]) / both
            yield j, i, tables.of_waves(other, own, block, noise, shrink=extra == 1), noise / (own.size - 1)
