"""A release that never touches a disk, for experiments that need thousands: the same code, the same noise, a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import Part
from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.publish import check_design, write_moments, write_table
from hazeglass.publisher.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SimulatedRelease", "simulate"]


@dataclass(frozen=True)
class SimulatedRelease(Release):
    """A release in memory. Its noise comes from a seed, so it protects nobody and cannot be saved."""

    tables: dict[str, pa.Table] = field(repr=False)

    def part_rows(self, name: str) -> int:
        """How many rows a part holds."""
        return int(self.tables[name].num_rows)

    def blocks(self, name: str) -> Iterator[npt.NDArray[np.float64]]:
        """The rows of one part as numbers, all at once."""
        columns = self.tables[name].columns
        yield np.column_stack([column.to_numpy().astype(np.float64, copy=False) for column in columns])

    def _groups(self, name: str) -> Iterator[pa.Table]:
        yield self.tables[name]


def simulate(data: Any, plan: Plan, seed: int) -> SimulatedRelease:
    """What :func:`hazeglass.publish` would release with `simulate_seed=seed`, number for number, without the files."""
    rows, bits, collector = Rows(plan, open_table(data, plan.text)), SeededBits(seed), _Collector()
    check_design(rows)
    write = write_table if plan.form == "table" else write_moments
    manifest = write(rows, collector, Serial(), bits)
    # Nothing was written, so there is nothing to hash: the list only says which parts there are.
    files = tuple(Part(name, "", 0) for name in sorted(collector.tables))
    return SimulatedRelease(Path(), replace(manifest, files=files), collector.tables)


class _Collector:
    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}

    def parquet(self, name: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        import pyarrow as pa

        self.tables[name] = pa.Table.from_batches(list(batches), schema=schema)

    def table(self, name: str, table: pa.Table, repeating: Sequence[str]) -> None:
        self.tables[name] = table
