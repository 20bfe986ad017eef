"""The parts of a table release: each piece of the rows becomes one file, written by whoever worked on it.

A piece may be worked on more than once, when a worker is lost. Every attempt draws noise of its own and writes under a
name of its own; the publisher takes one attempt of each piece into the release and removes the others unseen, so that
no row is ever out twice with different noise.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hazeglass.bundle.writer import BundleWriter, open_part, sha256_of
from hazeglass.errors import OutputError
from hazeglass.publisher.randomness import BitSource
from hazeglass.publisher.rows import Block, Cells
from hazeglass.publisher.table import TableMechanism

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Attempt", "NoisyPart", "attempts_beside", "take_parts"]


@dataclass(frozen=True)
class Attempt:
    """A file one worker wrote for a piece: what it is called, and the hash of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True)
class NoisyPart:
    """Draw noise for one piece and write it. It carries no key: bits are drawn where it runs."""

    mechanism: TableMechanism
    bits: BitSource
    folder: str

    def __call__(self, cells: Cells, number: int, blocks: Iterator[Block]) -> Attempt:
        path = Path(self.folder) / f"{number:05d}-{uuid.uuid4().hex}.parquet"
        with open_part(path, self.schema()) as writer:
            for batch in self.batches(cells, number, blocks):
                writer.write_batch(batch)
        return Attempt(path.name, sha256_of(path))

    def batches(self, cells: Cells, number: int, blocks: Iterator[Block]) -> Iterator[pa.RecordBatch]:
        """The noisy rows, block by block."""
        import pyarrow as pa

        schema, bits = self.schema(), self.bits.stream(number)
        for block in blocks:
            noisy = self.mechanism.release(block, cells.unit_box(block), bits)
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in noisy], schema=schema)

    def schema(self) -> pa.Schema:
        """Names and types of the released columns."""
        import pyarrow as pa

        whole = [self.mechanism.keeps_integers(column) for column in self.mechanism.columns]
        types = [pa.int64() if integer else pa.float64() for integer in whole]
        return pa.schema([(column.name, kind) for column, kind in zip(self.mechanism.columns, types, strict=True)])


@contextmanager
def attempts_beside(writer: BundleWriter) -> Iterator[Path]:
    """A folder for attempts inside the unfinished bundle; whatever was not taken from it is gone at the end."""
    folder = writer.folder / "attempts"
    folder.mkdir()
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path, tries: int = 100) -> None:
    """Remove a folder in which a worker that was given up may still be writing; without its folder it cannot go on."""
    for _ in range(tries):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
    raise OutputError("attempts that are not part of the release cannot be removed; the release was given up.")


def take_parts(attempts: Iterable[Attempt], folder: Path, writer: BundleWriter) -> None:
    """Move one attempt of each piece into the bundle, in the order of the pieces."""
    for part, attempt in enumerate(attempts):
        path = folder / attempt.name
        if not path.exists():
            raise OutputError(
                f"a worker wrote part {part} where this process does not see it. Every worker must reach the folder "
                "the release is written to under the same path."
            )
        writer.adopt(path, f"data/part-{part:05d}.parquet", attempt.sha256)
