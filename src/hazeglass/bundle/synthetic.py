"""Synthetic rows: drawn from nothing but released numbers, by the publisher, and again by whoever checks them.

Where a release has levels without an order, or cosines, rows are drawn from the Markov field that has the released
tables of pairs (targets.py). Where all columns are ordered, what has the released correlations and the greatest entropy
is normal: draws are whitened so that their sample mean is exactly 0 and their sample covariance exactly I, coloured
with the released covariance, and mapped back through the marginals. With `exact` the linear and the public scale keep
exactly that mean and covariance instead. This is post-processing: it costs no privacy, and the seed is no secret.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from hazeglass.bundle.columns import Column, unit_step
from hazeglass.bundle.manifest import Manifest, SyntheticNote
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.bundle.targets import FLOOR, estimates_of, kept_of, numbers_of, present, ranks_of
from hazeglass.errors import BundleError, ConvergenceWarning, DataError
from hazeglass.features.marginal import Marginal
from hazeglass.markov.draw import Check, check, draw
from hazeglass.markov.field import Field, Tables, fit

FloatArray = npt.NDArray[np.float64]

_BLOCK_ROWS = 1 << 16
# What other processors' roundings may change before ranks become cells, in standard deviations of a column (undoing the
# clipping is an iteration), and after that, beside the cell itself.
_TOLERANCE, _LAST_BITS = 1e-3, 1e-12
_ASTRAY, _STEP = 1e-6, 2.0**-28  # the same of a rank, and of a quantile on [-1, 1]
_LEVELS = 4096  # of the score at which a marginal's quantiles are looked up
_LARGEST_WHOLE = 2.0**53  # rounded cells are moved into this range


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


def _cells_of(manifest: Manifest, marginals: Sequence[Marginal], *, by_rank: bool, bounded: bool) -> tuple[Cells, ...]:
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


@dataclass(eq=False)
class NormalRows:
    """Rows of normal numbers in the unit of the released (transformed) columns.

    mean, root  of the rows on the release's own scale x, the root of their covariance being symmetric
    """

    n: int
    seed: int
    mean: FloatArray
    root: FloatArray
    columns: tuple[Cells, ...]
    check: None = None  # means and covariances hold by construction

    def blocks(self) -> Iterator[FloatArray]:
        """The rows, block after block: drawn twice from the same generator, first to learn their mean and covariance,
        then to use them."""
        return map(self._cells, self._rows())

    def ranges(self) -> Iterator[FloatArray]:
        """The lowest and the highest that each cell can be on another computer, in a last axis; it rises with its x."""
        room = _TOLERANCE * np.sqrt(np.sum(np.square(self.root), axis=1))
        for rows in self._rows():
            yield np.stack([self._cells(rows - room), self._cells(rows + room)], axis=2)

    def _cells(self, rows: FloatArray) -> FloatArray:
        return np.stack([one.of_normals(x) for one, x in zip(self.columns, rows.T, strict=True)], axis=1)

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


@dataclass(eq=False)
class FieldRows:
    """Rows from a field in the same unit; states of ordered columns are leaves between ranks, levels are numbers."""

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
        """The rows, block after block."""
        for states, inside in self._states():
            yield self._cells(states, inside, 0.0)

    def ranges(self) -> Iterator[FloatArray]:
        """As of normal rows: states are the same everywhere; cells inside a leaf only nearly."""
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


SyntheticRows = NormalRows | FieldRows


def rounding(manifest: Manifest, moments: Sequence[ReleasedMoments], marginals: Sequence[Marginal]) -> int:
    """The offset that the note of a synthetic release states; 0 where there is nothing to round."""
    return estimates_of(manifest, moments, marginals).offset if manifest.drawn_from_field else 0


def synthetic_rows(
    manifest: Manifest,
    moments: Sequence[ReleasedMoments],
    marginals: Sequence[Marginal],
    rows: int | None = None,
    extra: float = 1.0,
) -> SyntheticRows:
    """The rows of a release whose note says how they are made, or other numbers of rows like these.

    `extra` is how many times its stated noise the release's numbers have.
    """
    note, rows = manifest.synthetic, rows or manifest.n
    assert note is not None
    if not manifest.drawn_from_field:
        return _normal_rows(manifest, note, moments, marginals, rows)
    whole = estimates_of(manifest, moments, marginals, extra).whole(note.offset)
    cells = _cells_of(manifest, marginals, by_rank=True, bounded=True)
    return FieldRows(rows, note.seed, whole, ranks_of(manifest, marginals), cells)


def _normal_rows(
    manifest: Manifest,
    note: SyntheticNote,
    moments: Sequence[ReleasedMoments],
    marginals: Sequence[Marginal],
    rows: int,
) -> NormalRows:
    """Widened where rows were clipped, made a covariance if need be."""
    target = numbers_of(manifest, moments[-1:] if note.exact else moments)
    mean, covariance = target.mean, target.covariance
    by_rank = manifest.scale == "scores" or (manifest.scale == "linear" and not note.exact)
    if by_rank:
        kept = np.ones(len(mean))
        if manifest.scale == "scores":
            kept = np.array([kept_of(one, manifest.stages[-1].box) for one in marginals])
        there = present(marginals)
        deviation = np.sqrt(np.maximum(np.diag(covariance), FLOOR)) * kept
        covariance = covariance / np.outer(deviation, deviation) / np.outer(there, there)
        mean, covariance = np.zeros(len(covariance)), np.clip(covariance, -1.0, 1.0)
        np.fill_diagonal(covariance, 1.0)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, FLOOR * max(float(np.abs(values).max()), FLOOR))
    if by_rank:  # a score has variance 1 whatever the repair did
        size = np.sqrt(np.einsum("ik,k,ik->i", vectors, values, vectors))
        values, vectors = np.linalg.eigh((vectors * values) @ vectors.T / np.outer(size, size))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    cells = _cells_of(manifest, marginals, by_rank=by_rank, bounded=not note.exact)
    return NormalRows(rows, note.seed, mean, root, cells)


def synthetic_width(columns: Sequence[Column]) -> int:
    """How many normal numbers a row is made of; none where rows come from a field."""
    return len(columns) if all(column.ordered for column in columns) else 0


def check_synthetic_size(rows: int, columns: int) -> None:
    """Refuse a table whose covariance no rows can have, from public numbers."""
    if rows <= columns + 1:
        raise DataError(f"synthetic rows need more rows than columns, got {rows} rows and {columns} columns.")


def warn_of(made: SyntheticRows, names: Sequence[str]) -> None:
    """Say where rows do not have what was released, as chains that hardly move may leave it."""
    complaint = None if made.check is None else made.check.complaint(names)
    if complaint is not None:
        warnings.warn(complaint, ConvergenceWarning, stacklevel=3)


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
