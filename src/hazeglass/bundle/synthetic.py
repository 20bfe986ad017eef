"""Synthetic rows: drawn from nothing but released numbers, by the publisher, and again by whoever checks them.

Normal draws are whitened so that their sample mean is exactly 0 and their sample covariance exactly I, then coloured
with the covariance that the release gives. On the linear and the public scale the rows therefore have exactly that mean
and covariance. On the scale of scores they are mapped back through the marginals, so that every column has the released
distribution and stays within its bounds. Levels without an order are chosen one after the other by hidden normals. This
is post-processing: it costs no privacy, and the seed is no secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag
from scipy.special import ndtr, ndtri

from hazeglass.bundle.manifest import Column, Manifest
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.errors import BundleError, DataError
from hazeglass.features.clipping import widen
from hazeglass.features.marginal import Levels, Marginal

FloatArray = npt.NDArray[np.float64]

_BLOCK_ROWS = 1 << 16
_FLOOR, _LEAST_KEPT = 1e-9, 0.01
_LEVELS = 4096  # of the score at which a marginal's quantiles are looked up
# What other processors' roundings may change before ranks become cells, in standard deviations of a column (undoing the
# clipping is an iteration), and after that, beside the cell itself.
_TOLERANCE, _LAST_BITS = 1e-3, 1e-12
_LARGEST_WHOLE = 2.0**53  # rounded cells are moved into this range


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Made-up rows in the unit of the released (transformed) columns, block after block.

    mean, root  of the rows on the release's own scale x, the root of their covariance being symmetric
    """

    n: int
    seed: int
    mean: FloatArray
    root: FloatArray
    columns: tuple[_Column | _Splits, ...]

    def blocks(self) -> Iterator[FloatArray]:
        """The rows; drawn twice from the same generator, first to learn their mean and covariance, then to use them."""
        return map(self._cells, self._rows())

    def ranges(self) -> Iterator[FloatArray]:
        """The lowest and the highest that each cell can be on another computer, in a last axis."""
        room = _TOLERANCE * np.sqrt(np.sum(np.square(self.root), axis=1))
        for rows in self._rows():  # a cell rises with its x; a level that x does not settle may be any
            low, high = self._cells(rows - room), self._cells(rows + room)
            for k, one in enumerate(self.columns):
                if isinstance(one, _Splits):
                    open_ = low[:, k] != high[:, k]
                    low[open_, k], high[open_, k] = 0.0, one.cuts.size
            yield np.stack([low, high], axis=2)

    def _cells(self, rows: FloatArray) -> FloatArray:
        return np.stack([one.cells(rows[:, one.at]) for one in self.columns], axis=1)

    def _rows(self) -> Iterator[FloatArray]:
        centre, whitener = self._whitening()
        for block in self._normals():
            yield (block - centre) @ whitener @ self.root + self.mean

    def _normals(self) -> Iterator[FloatArray]:
        p = len(self.mean)
        for start in range(0, self.n, _BLOCK_ROWS):
            rng = np.random.default_rng((self.seed, start))
            yield rng.standard_normal((min(_BLOCK_ROWS, self.n - start), p))

    def _whitening(self) -> tuple[FloatArray, FloatArray]:
        p = len(self.mean)
        first, second = np.zeros(p), np.zeros((p, p))
        for block in self._normals():
            first += block.sum(axis=0)
            second += block.T @ block
        centre = first / self.n
        values, vectors = np.linalg.eigh((second - self.n * np.outer(centre, centre)) / (self.n - 1))
        return centre, np.asarray((vectors / np.sqrt(values)) @ vectors.T)


@dataclass(frozen=True, eq=False)
class _Column:
    """From the scale of a release to a column's cells: u = centre + scale x, or the quantile of a score's rank."""

    at: slice
    column: Column
    centre: float
    scale: float
    quantiles: FloatArray | None
    rounds: bool

    def cells(self, x: FloatArray) -> FloatArray:
        """Cells in the column's (transformed) unit."""
        x = x[:, 0]
        if self.quantiles is None:
            unit = self.centre + self.scale * x
        else:
            unit = np.interp(ndtr(x), np.linspace(0, 1, _LEVELS + 1), self.quantiles)
        plain = self.column
        if self.quantiles is not None and plain.counted:  # their ranks were those before the transform
            middle, half = (plain.lower + plain.upper) / 2, (plain.upper - plain.lower) / 2
            whole = np.clip(np.rint(middle + half * unit), plain.lower, plain.upper)
            return plain.transformed(whole)
        values = plain.centre + plain.half_width * unit
        ends = (plain.lower, plain.upper) if plain.levels else (-_LARGEST_WHOLE, _LARGEST_WHOLE)
        return np.clip(np.rint(values), *ends) if self.rounds else values


@dataclass(frozen=True, eq=False)
class _Splits:
    """Levels without an order: level k is taken where the k-th hidden normal lies below its cut and none before did.

    loads  E[indicator of a level times a hidden normal]: for y that is normal together with them, the covariance of an
           indicator with y is what these make of y's correlations with the hidden normals
    """

    at: slice
    cuts: FloatArray
    loads: FloatArray

    @classmethod
    def of(cls, shares: FloatArray, start: int) -> _Splits:
        """The column whose levels have these shares, hidden normals from number `start` on."""
        left = 1 - np.concatenate([[0.0], np.cumsum(shares)[:-1]])
        chance = np.clip(shares / np.maximum(left, _FLOOR), 1e-6, 1 - 1e-6)[:-1]
        cuts = ndtri(chance)
        density = np.exp(-np.square(cuts) / 2) / math.sqrt(2 * math.pi)
        loads = np.tril(np.outer(shares, density / (1 - chance)), -1)
        loads[np.arange(cuts.size), np.arange(cuts.size)] = -left[:-1] * density
        return cls(slice(start, start + cuts.size), cuts, loads)

    def cells(self, x: FloatArray) -> FloatArray:
        """Numbers of levels."""
        below = np.column_stack([x < self.cuts, np.ones(len(x), dtype=bool)])
        return np.asarray(np.argmax(below, axis=1), dtype=np.float64)


def synthetic_width(columns: Sequence[Column]) -> int:
    """How many hidden normals a row is made of."""
    return sum(1 if column.ordered else len(column.levels) - 1 for column in columns)


def synthetic_rows(
    manifest: Manifest, moments: Sequence[ReleasedMoments], marginals: Sequence[Marginal]
) -> SyntheticRows:
    """The rows of a release, from its last stage: widened where rows were clipped, made a covariance if need be."""
    assert manifest.synthetic is not None
    mean, covariance, cross = _target(manifest, moments[-1])
    scores, splits = manifest.scale == "scores", _splits(manifest, marginals)
    if scores:
        ordered = [one for one in marginals if not isinstance(one, Levels)]
        kept = np.array([_kept(one, manifest.stages[-1].box) for one in ordered])
        deviation = np.sqrt(np.maximum(np.diag(covariance), _FLOOR)) * kept
        covariance = covariance / np.outer(deviation, deviation)
        if splits:
            between = _between_levels(moments[-1], manifest.stages[-1].scored, list(splits.values()))
            across = cross / deviation[:, None] @ block_diag(*(np.linalg.pinv(one.loads).T for one in splits.values()))
            covariance = np.block([[covariance, across], [across.T, between]])
        mean, covariance = np.zeros(len(covariance)), np.clip(covariance, -1.0, 1.0)
        np.fill_diagonal(covariance, 1.0)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, _FLOOR * max(float(np.abs(values).max()), _FLOOR))
    if scores:  # a score has variance 1 whatever the repair did
        size = np.sqrt(np.einsum("ik,k,ik->i", vectors, values, vectors))
        values, vectors = np.linalg.eigh((vectors * values) @ vectors.T / np.outer(size, size))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    standard = manifest.standard
    place = iter(range(len(manifest.columns)))
    columns = tuple(
        splits[k]
        if k in splits
        else _Column(
            slice(at := next(place), at + 1),
            column,
            centre=0.0 if standard is None else standard.centre[k],
            scale=1.0 if standard is None else standard.scale[k],
            quantiles=marginals[k].quantile(np.linspace(0, 1, _LEVELS + 1)) if scores else None,
            rounds=manifest.whole_columns[k],
        )
        for k, column in enumerate(manifest.columns)
    )
    return SyntheticRows(manifest.n, manifest.synthetic.seed, mean, root, columns)


def _splits(manifest: Manifest, marginals: Sequence[Marginal]) -> dict[int, _Splits]:
    """The categorical columns by their numbers; their hidden normals stand behind all scores."""
    found: dict[int, _Splits] = {}
    start = sum(column.ordered for column in manifest.columns)
    for k, known in enumerate(marginals):
        if isinstance(known, Levels):
            found[k] = _Splits.of(known.shares, start)
            start = found[k].at.stop
    return found


def _between_levels(moments: ReleasedMoments, scored: int, splits: Sequence[_Splits]) -> FloatArray:
    """Correlations of the hidden normals of categorical columns.

    Of two columns cut at their medians, cov = asin(rho) / (2 pi); the loads alone would make it rho / (2 pi).
    """
    back = block_diag(*(np.linalg.pinv(one.loads) for one in splits))
    found = back @ (moments.second[scored:, scored:] - np.outer(moments.mean[scored:], moments.mean[scored:])) @ back.T
    found = np.sin(np.clip(found, -math.pi / 2, math.pi / 2))
    for one in splits:
        own = slice(one.at.start - scored, one.at.stop - scored)
        found[own, own] = np.eye(one.cuts.size)
    return np.asarray(found)


def _target(manifest: Manifest, moments: ReleasedMoments) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean and covariance of x, and its covariance with indicators of levels.

    Widened if rows were clipped and it can be done, and mapped back.
    """
    stage, n = manifest.stages[-1], manifest.n
    p = stage.scored
    first, second, noise = moments.mean[:p], moments.second[:p, :p], moments.mean_noise_sd[:p]
    cross = moments.second[:p, p:] - np.outer(first, moments.mean[p:])
    widening = widen(second, stage.radius, first) if stage.clipped and p else None
    if widening is None:
        mean = first
        covariance = np.asarray((second - np.outer(first, first) + np.diag(noise**2)) * n / (n - 1))
    else:
        mean, covariance = widening.mean, widening.row_covariance(n, noise)
        kept = np.sqrt(widening.shrink) @ widening.squares / len(widening.shrink)
        cross = (widening.vectors / kept) @ widening.vectors.T @ cross
    mean = mean + np.array(stage.centre[:p])
    if moments.map is None:
        return mean, covariance, cross
    back = np.linalg.inv(moments.map[:p, :p])
    return back @ mean, back @ covariance @ back.T, np.asarray(back @ cross)


def _kept(known: Marginal, box: float | None) -> float:
    """Which share of a latent correlation a column's scores keep, beside their deviation, to first order."""
    kept = max(known.attenuation, _LEAST_KEPT)  # scores drawn in one lump follow nothing
    if box is None:
        return kept
    inside = float(ndtr(box) - ndtr(-box))
    density = math.exp(-(box**2) / 2) / math.sqrt(2 * math.pi)
    variance = inside - 2 * box * density + box**2 * (1 - inside)
    return kept * inside / math.sqrt(variance)


def check_synthetic_size(rows: int, columns: int) -> None:
    """Refuse a table whose covariance no rows can have, from public numbers."""
    if rows <= columns + 1:
        raise DataError(f"synthetic rows need more rows than columns, got {rows} rows and {columns} columns.")


def check_synthetic(made: SyntheticRows, blocks: Iterable[FloatArray]) -> None:
    """Refuse other rows than the seed and the released numbers give, as far as rounding allows."""
    expected = _RowStream(made.ranges())
    with np.errstate(all="ignore"):  # a forger's numbers may be anything; what is not a number lies in no range
        for block in blocks:
            low, high = np.moveaxis(expected.take(len(block)), 2, 0)
            room = _LAST_BITS * np.abs(block)
            if not np.all((low - room <= block) & (block <= high + room)):
                raise BundleError(
                    "the synthetic rows are not those that the released numbers and the seed give. Do not rely on it."
                )


class _RowStream:
    """Rows in pieces of any size, from pieces of another."""

    def __init__(self, blocks: Iterator[FloatArray]) -> None:
        self._blocks, self._rest = blocks, np.zeros((0, 1, 2))

    def take(self, rows: int) -> FloatArray:
        """The ranges of the next rows; none that holds anything where there are no more."""
        parts = [self._rest] if len(self._rest) else []
        while sum(map(len, parts)) < rows and (block := next(self._blocks, None)) is not None:
            parts.append(block)
        whole = np.concatenate(parts) if parts else np.zeros((0, 1, 2))
        self._rest = whole[rows:]
        found = whole[:rows]
        return found if len(found) == rows else np.full((rows, 1, 2), np.nan)
