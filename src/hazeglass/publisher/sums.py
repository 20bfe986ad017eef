"""Exact sums of what a stage sees: integers, the same bits whoever adds them up and in whichever order.

Secret all of it. Noise is added in one place, :func:`hazeglass.publisher.moments.add_noise`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import Stage
from hazeglass.compute.engines import Engine
from hazeglass.publisher.clip import lattice_rows
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.rows import Block, Cells, Rows
from hazeglass.publisher.stacks import Border, PieceEnds, Stacks
from hazeglass.publisher.warehouse import QueriedRows

_TILE_CELLS = 1 << 18
_FEWEST_TILE_ROWS, _MOST_TILE_ROWS = 1 << 10, 1 << 14

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def exact_sums(
    rows: Rows, stage: Stage, encoder: Encoder, engine: Engine, through: FloatArray | None = None
) -> tuple[IntArray, IntArray, int]:
    """The secret sums of the stage's rows and of their products, in lattice steps, and how many rows those were."""
    if isinstance(rows, QueriedRows):
        return (*rows.sums(stage, encoder, through), rows.stacks if encoder.lags else rows.n)
    total, work = Sums.of(stage.size), PieceSums(stage, encoder.without_key(), through)
    border = Border(encoder.lags, rows.ends) if encoder.lags else None
    for found in rows.run(engine, work, encoder.key):
        total.add(found)
        if border is not None and found.ends is not None and found.ends.rows:  # a piece without rows has no columns
            work.add(total, border.across(found.ends))
    return total.first, total.second, total.count


@dataclass(eq=False)
class Sums:
    """Exact sums of rows and of their products, how many rows those were, and what stacks across a border need."""

    first: IntArray
    second: IntArray
    count: int = 0
    ends: PieceEnds | None = None

    @classmethod
    def of(cls, size: int) -> Sums:
        """Of no rows yet."""
        return cls(np.zeros(size, dtype=np.int64), np.zeros((size, size), dtype=np.int64))

    def add(self, other: Sums) -> None:
        """In any order the same bits, because they are integers."""
        self.first += other.first
        self.second += other.second
        self.count += other.count


@dataclass(frozen=True, eq=False)
class PieceSums:
    """The sums of one piece's rows, as integers: adding pieces in any order gives the same bits."""

    stage: Stage
    encoder: Encoder
    through: FloatArray | None = None

    @property
    def secret(self) -> bool:
        """With its key, whoever sees the release could tell drawn scores from others."""
        return bool(self.encoder.key)

    def __call__(self, cells: Cells, start: int, blocks: Iterator[Block]) -> Sums:
        """Sum up, a few thousand rows at a time, so that they stay in the processor's cache."""
        stage, lags = self.stage, self.encoder.lags
        sums, most = Sums.of(stage.size), _tile_rows(stage.size)
        width = stage.size // (lags + 1)  # a stage of seasons has no lags
        memory, mapped = np.empty((width, most)), np.empty((stage.size, most))
        stacks = Stacks(lags, start, cells.ends) if lags else None
        for block in blocks:
            for tile in _tiles(block, most):
                count = tile[0].size
                x = memory if count == most else np.empty((width, count))
                self.encoder.rows(cells, tile, start, x)
                start += count
                self.add(sums, x if stacks is None else stacks.after(x), mapped)
        sums.ends = None if stacks is None else stacks.ends
        return sums

    def add(self, sums: Sums, x: FloatArray, mapped: FloatArray | None = None) -> None:
        """Add rows, no more than a tile of them; `mapped` is memory for a whole tile.

        Products of 16-bit integers summed over a tile are whole numbers below 2^53, exact in floats, so fast matrix
        products may be used and the same bits come out whatever the order of summation.
        """
        if self.through is not None:  # a map on a lattice times cells on another: exact in any order, too
            x = np.matmul(self.through, x, out=mapped if mapped is not None and mapped.shape == x.shape else None)
        z = lattice_rows(x, np.array(self.stage.centre), self.stage)
        sums.first += z.sum(axis=1).astype(np.int64)
        sums.second += (z @ z.T).astype(np.int64)
        sums.count += x.shape[1]


def _tile_rows(features: int) -> int:
    return max(_FEWEST_TILE_ROWS, min(_MOST_TILE_ROWS, _TILE_CELLS // features))


def _tiles(block: Block, rows: int) -> Iterator[Block]:
    """The block again, some rows at a time."""
    for start in range(0, block[0].size, rows):
        yield [column[start : start + rows] for column in block]
