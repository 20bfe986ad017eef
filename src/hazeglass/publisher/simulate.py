"""A release that never touches a disk, for experiments that need thousands: the same code, the same noise, a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hazeglass.bundle.manifest import Part
from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.publish import publish_parts
from hazeglass.publisher.randomness import SeededBits
from hazeglass.publisher.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SimulatedRelease", "simulate"]


@dataclass(frozen=True)
class SimulatedRelease(Release):
    """A release in memory. Its noise comes from a seed, so it protects nobody and cannot be saved."""

    parts: dict[str, pa.Table] = field(repr=False)

    def _part(self, name: str) -> pa.Table:
        return self.parts[name]


class _Collector:
    def __init__(self) -> None:
        self.parts: dict[str, pa.Table] = {}

    def parquet(self, name: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        import pyarrow as pa

        self.parts[name] = pa.Table.from_batches(list(batches), schema=schema)


def simulate(data: Any, plan: Plan, seed: int) -> SimulatedRelease:
    """What :func:`hazeglass.publish` would release with `simulate_seed=seed`, number for number, without the files."""
    collector = _Collector()
    rows = Rows(plan, open_table(data))
    manifest = publish_parts(rows, plan, collector, get_engine("serial"), SeededBits(seed))
    # Nothing was written, so there is nothing to hash: the list only says which parts there are.
    files = tuple(Part(name, "", 0) for name in sorted(collector.parts))
    return SimulatedRelease(Path(), replace(manifest, files=files), collector.parts)
