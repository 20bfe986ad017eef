"""From raw cells to numbers in [-1, 1]: clamp to the public bounds, transform, rescale. Nothing looks at the data's own
spread, and a missing cell becomes the public centre, so that whether it was missing stays secret."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hazeglass.compute.tables import TableSource, floats
from hazeglass.errors import DataError
from hazeglass.publisher.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Rows"]

FloatArray = npt.NDArray[np.float64]


@dataclass
class Rows:
    """The rows of a source as the plan sees them."""

    plan: Plan
    source: TableSource
    progress: Callable[[int], None] | None = None
    n: int = field(init=False)
    _seen: npt.NDArray[np.bool_] = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        _check_columns(self.plan, self.source)
        self.n = self.source.count() if self.plan.id_column is None else self._count_kept()
        if self.n < 2:
            raise DataError(f"the data must have at least 2 rows, got {self.n}.")
        self._seen = np.zeros(len(self.plan.columns), dtype=bool)

    def blocks(self) -> Iterator[pa.RecordBatch]:
        """The plan's columns, block by block."""
        done = 0
        for batch in self._kept_batches():
            yield batch
            done += batch.num_rows
            if self.progress is not None:
                self.progress(done)

    def _kept_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows; where a person is protected, the first `max_rows` of each id, which looks at no other column."""
        if self.plan.id_column is None:
            yield from self.source.blocks(self.plan.names)
            return
        counts: dict[object, int] = {}
        for batch in self.source.blocks(self.plan.names, (self.plan.id_column,)):
            kept = _first_rows(batch.column(self.plan.id_column), counts, self.plan.unit.max_rows)
            yield batch.filter(kept).select(list(self.plan.names))

    def _count_kept(self) -> int:
        return sum(batch.num_rows for batch in self._kept_batches())

    def raw(self, batch: pa.RecordBatch) -> FloatArray:
        """Cells as they came, NaN where missing."""
        block = floats(batch, self.plan.names)
        with self._lock:  # threads share the flags, and none may overwrite what another has just set
            self._seen |= ~np.isnan(block).all(axis=0)
        return block

    def unit_box(self, batch: pa.RecordBatch) -> FloatArray:
        """Cells on the public [-1, 1] scale."""
        block = self.raw(batch)
        for k, column in enumerate(self.plan.columns):
            values = column.transformed(np.clip(block[:, k], column.lower, column.upper))
            block[:, k] = (values - column.centre) / column.half_width
        np.clip(block, -1.0, 1.0, out=block)
        return np.nan_to_num(block, copy=False, nan=0.0)

    def check_no_empty_column(self) -> None:
        """After a full pass: a column without a single value is a mistake, not data."""
        empty = [name for name, seen in zip(self.plan.names, self._seen, strict=True) if not seen]
        if empty:
            raise DataError(f"column {empty[0]!r} holds no value at all, only missing cells. Take it out of the plan.")


def _first_rows(ids: pa.Array, counts: dict[object, int], most: int) -> pa.Array:
    """Which rows are among the first `most` of their id; `counts` remembers earlier batches."""
    import pyarrow as pa

    if ids.null_count:
        raise DataError("every row must have an id to protect a person, but some ids are missing. Fill or drop them.")
    kept = []
    for identifier in ids.to_pylist():
        seen = counts.get(identifier, 0)
        kept.append(seen < most)
        counts[identifier] = seen + 1
    return pa.array(kept, type=pa.bool_())


def _check_columns(plan: Plan, source: TableSource) -> None:
    available = source.names
    for name in (*plan.names, *([plan.id_column] if plan.id_column else [])):
        if name not in available:
            shown = ", ".join(available[:10]) + (", ..." if len(available) > 10 else "")
            raise DataError(f"the plan names column {name!r}, which the data does not have. It has: {shown}.")
