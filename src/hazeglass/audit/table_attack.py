"""The likelihood-ratio attack on a table: every changed cell moves across its whole range.

Rows are noised one by one, so a table of many copies of the changed rows is as many runs of the mechanism. Columns that
do not change carry no information and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hazeglass.audit.attack import alternating, in_chunks, raw_rows
from hazeglass.bundle.manifest import Column
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.randomness import BitSource
from hazeglass.publisher.rows import Cells
from hazeglass.publisher.table import TableMechanism

__all__ = ["TableAttack", "attack_table"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TableAttack:
    """`pair` holds the changed rows under D and D' as raw cells; `weights` the likelihood ratio's coefficients."""

    mechanism: TableMechanism
    reading: Cells
    pair: tuple[Floats, Floats]
    weights: Floats

    @property
    def statistics(self) -> tuple[str, ...]:
        if self.mechanism.keeps_integers(self.mechanism.columns[0]):
            return ("likelihood ratio",)
        return ("likelihood ratio", "lowest bit")

    @property
    def cells(self) -> int:
        return self.weights.size

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """Release many copies of one side's rows; copies are independent runs."""
        return in_chunks(lambda count: self._chunk(self.pair[side], count, bits), runs, self.cells)

    def _chunk(self, raw: Floats, runs: int, bits: BitSource) -> Floats:
        import pyarrow as pa

        names = [column.name for column in self.mechanism.columns]
        copies = pa.RecordBatch.from_arrays([pa.array(np.tile(cells, runs)) for cells in raw.T], names=names)
        block = self.reading.block(copies)
        noise = self.mechanism.noise(copies.num_rows, bits)
        released = self.mechanism.release(block, self.reading.unit_box(block), noise)
        table = np.column_stack(released).reshape(runs, *self.weights.shape)
        scores = [np.einsum("rij,ij->r", table, self.weights)]
        if len(self.statistics) > 1:
            scores.append(lowest_bit(table[:, 0, 0].astype(np.float64)))
        return np.column_stack(scores)


def attack_table(plan: Plan, rows: int, column: int | None = None) -> TableAttack:
    """The attack on this plan's table of `rows` rows; `column` is the one that changes unless whole rows do.

    Under Gaussian noise the log-likelihood ratio is the sum of shift * output / variance, up to a constant and a
    factor. For the discrete Gaussian that is exact; for the rounded one it nearly is from a few lattice steps on.
    """
    unit = plan.unit
    mechanism = TableMechanism.design(plan, rows)
    if unit.name in ("entry", "readings", "column"):
        mechanism = replace(mechanism, columns=(mechanism.columns[column or 0],))
    changed = {"entry": 1, "readings": unit.readings, "record": 1, "person": unit.max_rows, "column": rows}[unit.name]
    p = len(mechanism.columns)
    signs = alternating(changed * p).reshape(changed, p)
    pair = raw_rows(-signs, mechanism.columns), raw_rows(signs, mechanism.columns)
    weights = signs * np.array([_shift_over_variance(column) for column in mechanism.columns])
    return TableAttack(mechanism, Cells(replace(plan, columns=mechanism.columns)), pair, weights)


def _shift_over_variance(column: Column) -> float:
    assert column.cell_noise is not None
    return 2 * column.half_width / column.cell_noise.variance


def lowest_bit(values: Floats) -> Floats:
    """The exponent of the last bit set in each float: noise added in floating point leaves the value's own there."""
    mantissa, exponent = np.frexp(values)
    whole = (np.abs(mantissa) * 2.0**53).astype(np.int64)
    last = np.log2(np.maximum(whole & -whole, 1).astype(np.float64))
    return np.asarray(np.where(whole == 0, 0.0, exponent - 53 + last))
