"""A small publisher with the four defects of structure that hazeglass once had, each of which can be mended.

Noise there is none worth the name: what is attacked is everything else.
"""

import glob
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from hazeglass.errors import DataError


@dataclass(frozen=True)
class OldWriter:
    """publish(data, plan, out); a True means that this defect is there."""

    copies_batches: bool = True  # the row groups of a table are the batches that the input came in
    keeps_order: bool = True  # rows leave in the order in which they came
    counts_rows: bool = True  # the number of rows that persons have is stated
    refuses: bool = True  # a cell that is no number, or no id, ends it with an error

    def __call__(self, data, plan, out):
        batches = [self._numbers(batch, plan) for batch in self._batches(data, plan)]
        ids = np.concatenate([ids for _, ids in batches])
        kept = _first_of_each(ids, plan.unit.max_rows) if plan.id_column else np.ones(ids.size, dtype=bool)
        rows = np.concatenate([rows for rows, _ in batches])[kept]
        if self.refuses and np.isnan(rows).all(axis=0).any():
            raise DataError("a column holds no value at all.")
        rng = np.random.default_rng()
        noisy = np.nan_to_num(rows, nan=0.5) + 0.1 * rng.standard_normal(rows.shape)
        out.mkdir()
        if plan.form == "table":
            self._write(noisy if self.keeps_order else rng.permutation(noisy), [len(b) for b, _ in batches], plan, out)
        else:
            pq.write_table(pa.table([noisy.mean(axis=0)], names=["mean"]), out / "moments.parquet")
        public = len(np.unique(ids[kept])) if plan.id_column and not self.counts_rows else len(rows)
        (out / "release.json").write_text(json.dumps({"form": plan.form, "n": public, "created": "now"}))

    def _write(self, noisy, cuts, plan, out):
        (out / "data").mkdir()
        table = pa.table(list(noisy.T), names=list(plan.names))
        with pq.ParquetWriter(out / "data" / "part-00000.parquet", table.schema) as writer:
            start = 0
            for rows in cuts if self.copies_batches else [len(noisy)]:
                writer.write_table(table.slice(start, rows))
                start += rows

    def _batches(self, data, plan):
        if isinstance(data, pa.Table):
            return data.to_batches()
        if str(data).endswith(".parquet"):
            return [batch for path in sorted(glob.glob(data)) for batch in pq.ParquetFile(path).iter_batches(1 << 16)]
        if not self.refuses:
            return list(_line_by_line(data))
        types = dict.fromkeys(plan.names, pa.float64())
        try:
            reader = csv.open_csv(
                data, csv.ReadOptions(block_size=1 << 22), convert_options=csv.ConvertOptions(column_types=types)
            )
            return list(reader)
        except pa.ArrowInvalid:
            raise DataError("the file cannot be read.") from None

    def _numbers(self, batch, plan):
        rows = np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in plan.names]).astype(float)
        if plan.id_column is None:
            return rows, np.zeros(len(rows))
        ids = batch.column(plan.id_column)
        if self.refuses and ids.null_count:
            raise DataError("every row must have an id.")
        return rows, ids.to_numpy(zero_copy_only=False).astype(float)


def _first_of_each(ids, most):
    order = np.argsort(ids, kind="stable")
    _, starts, counts = np.unique(ids[order], return_index=True, return_counts=True)
    rank = np.empty(ids.size, dtype=int)
    rank[order] = np.arange(ids.size) - np.repeat(starts, counts)
    return (rank < most) & ~np.isnan(ids)


def _line_by_line(path):
    """Each cell by itself: what is no number is missing, and takes nothing else with it. Still cut by bytes."""
    header, *lines = Path(path).read_text().splitlines()
    names = header.split(",")
    block = np.cumsum([len(line) + 1 for line in lines]) >> 22
    for number in range(block[-1] + 1):
        cells = [_cells(line, len(names)) for line, own in zip(lines, block, strict=True) if own == number]
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*cells, strict=True)], names=names)


def _cells(line, fields):
    cells = line.split(",")
    return [_number(cell) for cell in cells] if len(cells) == fields else [float("nan")] * fields


def _number(cell):
    try:
        return float(cell)
    except ValueError:
        return float("nan")
