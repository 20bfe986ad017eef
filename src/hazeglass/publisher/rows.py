"""From raw cells to numbers in [-1, 1]: clamp to the public bounds, transform, rescale. Nothing looks at the data's own
spread, and a missing cell becomes the public centre, so that whether it was missing stays secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from hazeglass.compute.engines import Engine
from hazeglass.compute.pieces import Piece
from hazeglass.compute.tables import TableSource
from hazeglass.errors import DataError
from hazeglass.publisher.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Block", "Cells", "Rows"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Block = Sequence[FloatArray]  # the plan's columns of some rows, NaN where a cell is missing
R = TypeVar("R")
Work = Callable[["Cells", int, Iterator[Block]], R]


@dataclass(frozen=True)
class Cells:
    """How the plan reads cells. It holds the plan and no cell, so it can be sent to wherever the rows are."""

    plan: Plan

    def block(self, batch: pa.RecordBatch) -> list[FloatArray]:
        """Columns as they came."""
        return [batch.column(name).to_numpy(zero_copy_only=False) for name in self.plan.names]

    def unit_box(self, block: Block, out: FloatArray | None = None) -> FloatArray:
        """Cells on the public [-1, 1] scale, one row per row; in memory each column lies in one stretch.

        `out`, one row per column, takes the place of fresh memory, which would take longer to get than to fill.
        """
        from hazeglass.publisher.cell_kernels import to_unit

        box = np.empty((len(block), block[0].size)) if out is None else out
        for column, (centre, half_width), raw, cells in zip(self.plan.columns, self._scales, block, box, strict=True):
            if column.transform is None:
                to_unit(raw, column.lower, column.upper, centre, half_width, cells)
            else:
                values = column.transformed(np.clip(raw, column.lower, column.upper))
                to_unit(values, -np.inf, np.inf, centre, half_width, cells)
        return box.T

    @cached_property
    def _scales(self) -> list[tuple[float, float]]:
        return [(column.centre, column.half_width) for column in self.plan.columns]


@dataclass(frozen=True)
class _Done(Generic[R]):
    """What came of one piece: how many rows it had, which columns held a value, and the result."""

    rows: int
    seen: BoolArray
    value: R


@dataclass(frozen=True)
class _OnPiece(Generic[R]):
    """Read a piece and work on its blocks, here or in another process."""

    cells: Cells
    work: Work[R]

    def __call__(self, piece: Piece) -> _Done[R]:
        seen, rows = np.zeros(len(self.cells.plan.columns), dtype=bool), 0

        def blocks() -> Iterator[Block]:
            nonlocal rows
            for batch in piece.batches():
                block = self.cells.block(batch)
                for k in np.flatnonzero(~seen):
                    seen[k] = not np.isnan(block[k]).all()
                rows += batch.num_rows
                yield block

        value = self.work(self.cells, piece.number, blocks())
        return _Done(rows, seen, value)


@dataclass(frozen=True)
class _Kept:
    """A piece without the rows that exceed a person's share. Which rows those are is secret."""

    piece: Piece
    mask: npt.NDArray[np.uint8]
    public = False

    @property
    def number(self) -> int:
        return self.piece.number

    def batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        done = 0
        kept = np.unpackbits(self.mask).astype(bool)
        for batch in self.piece.batches():
            yield batch.filter(pa.array(kept[done : done + batch.num_rows]))
            done += batch.num_rows

    def __repr__(self) -> str:
        return f"<kept rows of {self.piece!r}>"


@dataclass
class Rows:
    """The rows of a source as the plan sees them."""

    plan: Plan
    source: TableSource
    progress: Callable[[int], None] | None = None
    n: int = field(init=False)
    _masks: list[npt.NDArray[np.uint8]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        _check_columns(self.plan, self.source)
        if self.plan.id_column is None:
            self.n = self.source.count()
        else:
            self.n, self._masks = _first_rows(self.source, self.plan.id_column, self.plan.unit.max_rows)
        if self.n < 2:
            raise DataError(f"the data must have at least 2 rows, got {self.n}.")

    @property
    def cells(self) -> Cells:
        """How the plan reads them."""
        return Cells(self.plan)

    def pieces(self) -> Iterator[Piece]:
        """All rows; where a person is protected, the first `max_rows` of each id, which looks at no other column."""
        for piece in self.source.pieces(self.plan.names):
            yield piece if self._masks is None else _Kept(piece, self._masks[piece.number])

    def blocks(self) -> Iterator[Block]:
        """The plan's columns, block by block."""
        return (self.cells.block(batch) for piece in self.pieces() for batch in piece.batches())

    def run(self, engine: Engine, work: Work[R]) -> Iterator[R]:
        """The results of `work` on every piece, in order. After the last, a column without a value is refused."""
        seen, done = np.zeros(len(self.plan.columns), dtype=bool), 0
        for found in engine.map(_OnPiece(self.cells, work), self.pieces()):
            seen |= found.seen
            done += found.rows
            if self.progress is not None:
                self.progress(done)
            yield found.value
        if done != self.n:
            raise DataError(f"the data had {self.n} rows and then {done}: they changed while being read. Start again.")
        empty = [name for name, any_value in zip(self.plan.names, seen, strict=True) if not any_value]
        if empty:
            raise DataError(f"column {empty[0]!r} holds no value at all, only missing cells. Take it out of the plan.")


def _first_rows(source: TableSource, id_column: str, most: int) -> tuple[int, list[npt.NDArray[np.uint8]]]:
    """How many rows are among the first `most` of their id, and which, as packed bits for each piece."""
    counts: dict[object, int] = {}
    masks, total = [], 0
    for piece in source.pieces((), (id_column,)):
        kept = [_among_first(batch.column(id_column), counts, most) for batch in piece.batches()]
        mask = np.concatenate(kept) if kept else np.zeros(0, dtype=bool)
        total += int(mask.sum())
        masks.append(np.packbits(mask))
    return total, masks


def _among_first(ids: pa.Array, counts: dict[object, int], most: int) -> BoolArray:
    """Which rows are among the first `most` of their id; `counts` remembers earlier batches."""
    if ids.null_count:
        raise DataError("every row must have an id to protect a person, but some ids are missing. Fill or drop them.")
    encoded = ids.dictionary_encode()
    code, identifiers = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    before = np.array([counts.get(identifier, 0) for identifier in identifiers], dtype=np.int64)
    here = np.bincount(code, minlength=len(identifiers))
    order = np.argsort(code, kind="stable")
    rank = np.empty(len(code), dtype=np.int64)  # how many rows of the same id come before, in this batch
    rank[order] = np.arange(len(code)) - np.repeat(np.cumsum(here) - here, here)
    counts.update(zip(identifiers, (before + here).tolist(), strict=True))
    return np.asarray(before[code] + rank < most)


def _check_columns(plan: Plan, source: TableSource) -> None:
    available = source.names
    for name in (*plan.names, *([plan.id_column] if plan.id_column else [])):
        if name not in available:
            # Other names are not listed: in a file without a header they are the cells of its first row.
            raise DataError(
                f"the plan names column {name!r}, which is none of the {len(available)} columns of the data. Check how "
                "it is spelled, and that the data begins with a row of names."
            )
