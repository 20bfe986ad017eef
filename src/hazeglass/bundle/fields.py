"""Rows of a release with levels or cosines: from its numbers to tables of pairs, and from a fitted field to cells.

Ordered columns are cut into leaves, within which a cell is drawn evenly by rank. Between two of them the table is that
of normal numbers with the released correlation, or has the released products of cosines; between an ordered column and
levels, scores are normal within each level; between two columns of levels it is the released one, shrunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.bundle.targets import FLOOR, Cells, cells_of, kept_of, numbers_of, present
from hazeglass.features.harmonics import DEGREES
from hazeglass.features.marginal import Levels, Marginal
from hazeglass.features.scores import LevelMoments, shares_of
from hazeglass.markov import tables
from hazeglass.markov.draw import Check, check, draw
from hazeglass.markov.field import Field, Tables, fit

FloatArray = npt.NDArray[np.float64]

_MOST_LEAVES, _FEWEST_LEAVES, _ALL_LEAVES = 16, 6, 800
_ASTRAY, _STEP = 1e-6, 2.0**-28  # of a rank, and of a quantile on [-1, 1], that rounding may change elsewhere


@dataclass(eq=False)
class FieldRows:
    """Rows from a field; states of ordered columns are leaves between ranks."""

    n: int
    seed: int
    tables: Tables
    ranks: tuple[FloatArray | None, ...]
    columns: tuple[Cells, ...]
    progress: Callable[[float], None] | None = None

    @cached_property
    def field(self) -> Field:
        """Fitted once."""
        return fit(self.tables, self.seed, self.n, self.progress)

    @cached_property
    def check(self) -> Check:
        """How well rows have the tables."""
        return check(self.field, self.seed, self.n)

    def blocks(self) -> Iterator[FloatArray]:
        """The rows."""
        for states, inside in self._states():
            yield self._cells(states, inside, 0.0)

    def ranges(self) -> Iterator[FloatArray]:
        """States are the same everywhere; cells inside a leaf only nearly."""
        room = _STEP * np.array([one.column.half_width * (known is not None) for one, known in self._each])
        for states, inside in self._states():
            low, high = self._cells(states, inside, -_ASTRAY), self._cells(states, inside, _ASTRAY)
            yield np.stack([low - room, high + room], axis=2)

    def _states(self) -> Iterator[tuple[npt.NDArray[np.uint8], FloatArray]]:
        start = 0
        for states in draw(self.field, self.seed, self.n):
            yield states, np.random.default_rng((self.seed, start)).random(states.shape)
            start += len(states)

    @property
    def _each(self) -> Iterator[tuple[Cells, FloatArray | None]]:
        return zip(self.columns, self.ranks, strict=True)

    def _cells(self, states: npt.NDArray[np.uint8], inside: FloatArray, more: float) -> FloatArray:
        made = np.empty(states.shape)
        for k, (one, ranks) in enumerate(self._each):
            if ranks is None:
                made[:, k] = states[:, k]
                continue
            low, high = ranks[states[:, k]], ranks[states[:, k] + 1]
            made[:, k] = one.of_ranks(np.clip(low + inside[:, k] * (high - low) + more, 0.0, 1.0))
        return made


def field_rows(
    manifest: Manifest, estimates: tables.Estimates, marginals: Sequence[Marginal], offset: int, rows: int
) -> FieldRows:
    """The rows that follow from estimates, the offset of their rounding and the seed."""
    assert manifest.synthetic is not None
    cells = cells_of(manifest, marginals, by_rank=True, bounded=True)
    return FieldRows(rows, manifest.synthetic.seed, estimates.whole(offset), _ranks(manifest, marginals), cells)


def _ranks(manifest: Manifest, marginals: Sequence[Marginal]) -> tuple[FloatArray | None, ...]:
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

    ranks, there = _ranks(manifest, marginals), present(marginals)
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
        found = _curved(manifest, moments, ranks, there, extra)
    else:
        found = [*_of_levels(shares, parts, stages, there, extra)]
        found += _of_scores(manifest, moments, marginals, ranks, shares, parts, there, extra)
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
                deviation = (second - np.outer(shares[i], shares[j])) / both
                yield (
                    i,
                    j,
                    tables.of_deviation(deviation, shares[i], shares[j], sd / both, shrink=extra == 1),
                    sd / both,
                )


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


def _curved(
    manifest: Manifest,
    moments: Sequence[ReleasedMoments],
    ranks: Sequence[FloatArray | None],
    there: FloatArray,
    extra: float,
) -> list[Found]:
    """Two ordered columns by the products of their cosines."""
    target, degrees, found = numbers_of(manifest, moments), DEGREES["cosines"], []
    for i, own in enumerate(ranks):
        for j in range(i):
            other, both = ranks[j], there[i] * there[j]
            assert own is not None
            assert other is not None
            block = target.covariance[degrees * j : degrees * (j + 1), degrees * i : degrees * (i + 1)] / both
            noise = extra * float(target.noise[degrees * i, degrees * j]) / both
            found.append((j, i, tables.of_waves(other, own, block, noise, shrink=extra == 1), noise / (own.size - 1)))
    return found
