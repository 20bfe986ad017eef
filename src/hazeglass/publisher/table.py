"""The table form: every cell, rounded to a public lattice, plus noise on the same lattice.

Rows become noisy pieces, and those parts of fixed size in a random order, in two passes. In the first, whoever works on
a piece draws its noise and deals its noisy rows at random into buckets, in a file of its own beside the release. In the
second, this process puts each bucket into a random order and writes the buckets one after the other, cut into parts and
row groups whose sizes depend on the number of columns alone. Rows dealt independently and then permuted within their
bucket are in a uniformly random order (docs/maths/shuffle.md), and memory is set by a bucket. Raw rows never touch the
disk.

Noise belongs to a row's number and not to the piece it came in: it is drawn for stretches of `noise_rows` rows counted
over the whole table, so that a simulation gives the same rows however the data are cut.

A piece may be worked on more than once, when a worker is lost. Every attempt draws noise of its own and writes under a
name of its own; the publisher takes one attempt of each piece and removes the others unseen.
"""

from __future__ import annotations

import math
import shutil
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.bundle.columns import Column, origins, response_of
from hazeglass.bundle.writer import part_rows
from hazeglass.compute.engines import Engine, Threads
from hazeglass.errors import OutputError
from hazeglass.guarantee.lattice import lattice_noise, total_variation
from hazeglass.guarantee.units import CELL_UNITS, table_distance
from hazeglass.publisher.choice import FloatArray, IntArray
from hazeglass.publisher.noise import BitSource, draw, draw_response, with_noise
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Block, Cells
from hazeglass.publisher.sums import clip_to_lattice

if TYPE_CHECKING:
    import pyarrow as pa

    from hazeglass.bundle.synthetic import SyntheticRows
    from hazeglass.publisher.publish import PartWriter

_SMALLEST_MU = 1e-300  # needs more noise than anything holds: a column says so, instead of dividing by 0
_MOST_NOISE_ROWS = 1 << 14
_CHUNK_ROWS = 1 << 18  # rows of a piece that are dealt at a time
_FIRST_BUCKET = 1 << 48  # streams of bits from here on belong to buckets, those below to rows
_OPEN_FILES = 256
_LARGEST_WHOLE = 2.0**53  # up to here every whole number is a float of its own


@dataclass(frozen=True)
class TableMechanism:
    """Columns with their lattice and noise, chosen from the plan and the number of rows alone."""

    columns: tuple[Column, ...]
    clip_radius: float | None

    @classmethod
    def design(cls, plan: Plan, rows: int) -> TableMechanism:
        """Choose each column's lattice and the noise that keeps the plan's promise."""
        radius = None if plan.clip_radius is None else float(plan.clip_radius)
        p, made_of = len(plan.columns), origins(plan.columns)
        distance = table_distance(replace(plan.unit, together=1), columns=p, rows=rows, radius=radius)
        # What a change of a cell across its whole range may cost, so that a whole unit costs mu. Where a unit is cells
        # of one column, the columns that are made of it share that.
        mu_cell = max(2 * plan.guarantee.mu / distance, _SMALLEST_MU)
        shares = [made_of.count(name) if plan.unit.name in CELL_UNITS else 1 for name in made_of]
        both = zip(plan.columns, shares, strict=True)
        return cls(tuple(with_noise(one, mu_cell / math.sqrt(share), p, radius) for one, share in both), radius)

    def noise(self, rows: int, bits: BitSource) -> list[IntArray]:
        """The noise of some rows, in lattice steps or levels, column by column."""
        return [
            draw_response(response_of(column), rows, bits)
            if column.cell_noise is None
            else draw(lattice_noise(column.cell_noise.family, column.cell_noise.scale), rows, bits)
            for column in self.columns
        ]

    def release(self, raw: Block, unit_box: FloatArray, noise: Sequence[IntArray]) -> list[FloatArray | IntArray]:
        """Noisy columns of one block: the only place where cells meet noise."""
        if self.clip_radius is not None:
            unit_box = self._clipped(unit_box)
        return [
            _noisy_levels(column, raw[k], noise[k])
            if column.cell_noise is None
            else _noisy_integers(column, raw[k], noise[k])
            if self.keeps_integers(column)
            else _noisy_reals(column, unit_box[:, k], noise[k])
            for k, column in enumerate(self.columns)
        ]

    def keeps_integers(self, column: Column) -> bool:
        """Whether it is released as integers: a transform, or a ball shared with other columns, leaves an integer
        column no lattice of its own."""
        return column.whole and self.clip_radius is None

    def total_variation(self) -> float:
        """Bound on the sampler's distance from the ideal, for one row; responses are drawn exactly."""
        return sum(
            total_variation(lattice_noise(c.cell_noise.family, c.cell_noise.scale))
            for c in self.columns
            if c.cell_noise
        )

    def _clipped(self, unit_box: FloatArray) -> FloatArray:
        """Rows inside the ball, already on the lattice all columns share when rows are clipped."""
        assert self.clip_radius is not None
        noise, half = self.columns[0].cell_noise, self.columns[0].half_width
        assert noise is not None
        steps = round(half / noise.step)
        return clip_to_lattice(unit_box, steps=steps, radius=self.clip_radius) / steps


def _noisy_levels(column: Column, raw: FloatArray, beyond: IntArray) -> IntArray:
    """A level is counted on round the levels, behind which stands missing."""
    missing = len(column.levels)
    place = np.rint(np.nan_to_num(np.clip(raw, 0, missing - 1), nan=missing)).astype(np.int64)
    return (place + beyond) % (missing + 1)


def _noisy_integers(column: Column, raw: FloatArray, noise: IntArray) -> IntArray:
    step = _step(column)
    middle = math.floor((column.lower + column.upper) / 2)
    cells = np.nan_to_num(np.clip(raw, column.lower, column.upper), nan=middle)
    index = np.rint((cells - column.lower) / step).astype(np.int64)
    return int(column.lower) + int(step) * (index + noise)


def _noisy_reals(column: Column, unit_box: FloatArray, noise: IntArray) -> FloatArray:
    step = _step(column)
    index = np.rint(unit_box * round(column.half_width / step)).astype(np.int64)
    return np.asarray(column.centre + step * (index + noise), dtype=np.float64)


def _step(column: Column) -> float:
    assert column.cell_noise is not None
    return column.cell_noise.step


# ----------------------------------------------------------------------------------------------------- noisy pieces


def noise_rows(columns: int) -> int:
    """For how many rows noise is drawn at a time."""
    return min(_MOST_NOISE_ROWS, part_rows(columns))


def bucket_count(rows: int, columns: int) -> int:
    """How many buckets rows are dealt into."""
    return math.ceil(rows / part_rows(columns))


@dataclass(frozen=True)
class NoisyPiece:
    """Draw noise for one piece and deal its rows. It carries no key: bits are drawn where it runs.

    `n` is the number of rows of the whole table, `buckets` 1 where the order is kept.
    """

    mechanism: TableMechanism
    bits: BitSource
    n: int
    buckets: int
    folder: Path | None = None

    def __call__(self, cells: Cells, start: int, blocks: Iterator[Block]) -> Path | list[pa.RecordBatch]:
        """The dealt rows, in a file of `folder` where there is one."""
        import pyarrow as pa

        dealt = (bucket for chunk in self.dealt(cells, start, blocks) for bucket in chunk)
        if self.folder is None:
            return list(dealt)
        path = self.folder / f"{uuid.uuid4().hex}.arrow"
        with pa.ipc.new_file(str(path), self.schema()) as sink:
            for batch in dealt:
                sink.write_batch(batch)
        return path

    def dealt(self, cells: Cells, start: int, blocks: Iterator[Block]) -> Iterator[list[pa.RecordBatch]]:
        """Chunks of noisy rows, each as one batch for every bucket."""
        for chunk in _chunks(self.noisy(cells, start, blocks), _CHUNK_ROWS):
            table = _table([rows for rows, _ in chunk], self.schema())
            if self.buckets == 1:
                yield [table]
                continue
            bucket = np.concatenate([bucket for _, bucket in chunk])
            order = np.argsort(bucket, kind="stable")
            ends = np.cumsum(np.bincount(bucket, minlength=self.buckets))
            sorted_rows = table.take(order)
            yield [
                sorted_rows.slice(end - size, size) for end, size in zip(ends, np.diff(ends, prepend=0), strict=True)
            ]

    def noisy(self, cells: Cells, start: int, blocks: Iterator[Block]) -> Iterator[tuple[pa.RecordBatch, IntArray]]:
        """Noisy rows and the bucket of each; a stretch of noise is drawn whole and used for the rows that are here."""
        import pyarrow as pa

        step, schema = noise_rows(len(self.mechanism.columns)), self.schema()
        at, drawn, noise, bucket = start, -1, [], np.zeros(0, dtype=np.int64)
        for block in blocks:
            done, rows = 0, block[0].size
            while done < rows:
                number, first = divmod(at, step)
                if number != drawn:
                    size, bits = min(step, self.n - number * step), self.bits.stream(number)
                    noise, bucket, drawn = self.mechanism.noise(size, bits), self._deal(size, bits), number
                count = min(step - first, rows - done)
                raw = [column[done : done + count] for column in block]
                here = [column[first : first + count] for column in noise]
                noisy = self.mechanism.release(raw, cells.unit_box(raw), here)
                yield (
                    pa.RecordBatch.from_arrays([pa.array(column) for column in noisy], schema=schema),
                    bucket[first : first + count],
                )
                at, done = at + count, done + count

    def _deal(self, rows: int, bits: BitSource) -> IntArray:
        """A bucket for each row; that buckets are not quite equally likely does not matter, rows are alike."""
        if self.buckets == 1:
            return np.zeros(rows, dtype=np.int64)
        return ((bits.uint64(rows) >> np.uint64(32)) * np.uint64(self.buckets) >> np.uint64(32)).astype(np.int64)

    def schema(self) -> pa.Schema:
        """Names and types of the released columns."""
        import pyarrow as pa

        whole = [self.mechanism.keeps_integers(column) for column in self.mechanism.columns]
        types = [pa.int64() if integer else pa.float64() for integer in whole]
        return pa.schema([(column.name, kind) for column, kind in zip(self.mechanism.columns, types, strict=True)])


def _chunks(batches: Iterator[tuple[pa.RecordBatch, Any]], rows: int) -> Iterator[list[tuple[pa.RecordBatch, Any]]]:
    """Batches in groups of at least so many rows."""
    held: list[tuple[pa.RecordBatch, Any]] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one, _ in held) >= rows:
            yield held
            held = []
    if held:
        yield held


def _table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch of several."""
    import pyarrow as pa

    table = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    (whole,) = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]
    return whole


# ------------------------------------------------------------------------------------------- buckets in a random order


class Buckets:
    """The dealt rows of all pieces, in files or in memory, each a list of batches: `count` of them for every chunk."""

    def __init__(self, pieces: Sequence[Path | list[pa.RecordBatch]], count: int) -> None:
        self._pieces, self.count = pieces, count
        self._open: OrderedDict[Path, Any] = OrderedDict()

    def bucket(self, number: int) -> Iterator[pa.RecordBatch]:
        """Its rows in the order of the data."""
        for piece in self._pieces:
            if isinstance(piece, list):
                yield from piece[number :: self.count]
            else:
                reader = self._reader(piece)
                yield from map(reader.get_batch, range(number, reader.num_record_batches, self.count))

    def in_order(self, shuffled: bool, bits: BitSource, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All rows: as they came, or bucket after bucket, each in a secret order of its own."""
        if not shuffled:
            yield from self.bucket(0)
            return
        for number in range(self.count):
            rows = _table(list(self.bucket(number)), schema)
            yield rows.take(_permutation(rows.num_rows, bits.stream(_FIRST_BUCKET + number)))

    def _reader(self, path: Path) -> Any:
        """Files stay open, but not more than a process may have."""
        import pyarrow as pa

        if not path.exists():
            raise OutputError(
                "a worker wrote its rows where this process does not see them. Every worker must reach the folder the "
                "release is written to under the same path."
            )
        if path not in self._open:
            if len(self._open) >= _OPEN_FILES:
                self._open.popitem(last=False)
            self._open[path] = pa.ipc.open_file(pa.OSFile(str(path)))
        return self._open[path]


def _permutation(size: int, bits: BitSource) -> IntArray:
    """Uniform: the order of random keys, drawn again in the rare case that two are equal."""
    while True:
        keys = bits.uint64(size)
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return np.asarray(order)


# --------------------------------------------------------------------------------------------------------------- parts


def recut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of exactly so many, but for the last."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        done = 0
        while done < batch.num_rows:
            take = min(rows - size, batch.num_rows - done)
            held.append(batch.slice(done, take))
            size, done = size + take, done + take
            if size == rows:
                yield pa.Table.from_batches(held)
                held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def write_parts(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, repeating: Sequence[str], writer: PartWriter, engine: Engine
) -> None:
    """Rows as data/part-00000.parquet and so on, written side by side; remote workers are not asked."""
    numbered = enumerate(recut(batches, part_rows(len(schema))))

    def write(part: tuple[int, pa.Table]) -> None:
        writer.table(f"data/part-{part[0]:05d}.parquet", part[1].combine_chunks(), repeating)

    for _ in (Threads() if engine.remote else engine).map(write, numbered):
        pass


def synthetic_schema(plan: Plan) -> pa.Schema:
    """Names and types of made-up rows."""
    import pyarrow as pa

    whole = [column.whole and (plan.round_integers or bool(column.levels)) for column in plan.columns]
    return pa.schema([(name, pa.int64() if one else pa.float64()) for name, one in zip(plan.names, whole, strict=True)])


def synthetic_batches(made: SyntheticRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Made-up rows as the schema has them."""
    import pyarrow as pa

    for block in made.blocks():
        columns = [
            np.clip(np.rint(cells), -_LARGEST_WHOLE, _LARGEST_WHOLE) if pa.types.is_integer(kind) else cells
            for cells, kind in zip(block.T, schema.types, strict=True)
        ]
        arrays = [pa.array(cells).cast(kind) for cells, kind in zip(columns, schema.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def spill_beside(bundle: Path) -> Iterator[Path]:
    """A folder for noisy pieces inside the unfinished bundle; it is gone at the end."""
    folder = bundle.resolve() / "attempts"
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
