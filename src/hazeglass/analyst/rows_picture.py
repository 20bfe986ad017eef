"""What a report of synthetic rows shows: margins and the strongest pairs, of a release or of real rows beside drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.synthesize import Synthesis
from hazeglass.bundle.columns import Column, unit_step
from hazeglass.bundle.synthetic import NormalRows
from hazeglass.errors import DataError, InputError, quotes_no_cell
from hazeglass.features.marginal import Marginal
from hazeglass.markov.tables import of_normals
from hazeglass.present.beside import Margin, PairOfTables, synthetic_page
from hazeglass.present.pages import Page

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray = npt.NDArray[np.float64]
_MOST_PAIRS, _MOST_MARGINS, _BARS, _BLOCKS, _MOST_LEVELS, _EVEN = 9, 60, 12, 8, 24, 8


def _digits(number: float) -> int:
    """How many a whole number has."""
    return len(f"{abs(number):.0f}")


class _Bins:
    """The bars of one column: its levels, or ranges of its (transformed) unit."""

    def __init__(self, column: Column, known: Marginal | None) -> None:
        self.column = column
        if column.levels:
            self.labels = list(column.levels)
            self.edges: FloatArray = np.arange(len(self.labels) - 1, dtype=np.float64) + 0.5
            return
        low, high = (-0.9, 0.9) if known is None else map(float, known.quantile(np.array([0.01, 0.99])))
        unit: FloatArray = low + (high - low) * np.arange(_BARS - 1, dtype=np.float64) / (_BARS - 2)
        step = unit_step(column, "scores")
        if step:  # between values, not through them, and none below the least
            number = np.unique(np.clip(np.rint((unit + 1) / step - 0.5), 0, max(np.rint(2 / step) - 1, 0)))
            unit = np.asarray(-1 + step * (number + 0.5), dtype=np.float64)
        self.edges = np.asarray(column.centre + column.half_width * unit)
        begin = self.edges + (column.half_width * step / 2 if step else 0.0)
        shown = [f"{start:.{_digits(start) if step and not column.transform else 3}g}" for start in begin]
        self.labels = [f"below {shown[0]}", *(f"from {low}" for low in shown)]

    def of(self, cells: FloatArray) -> npt.NDArray[np.int64]:
        """The bar of each cell."""
        return np.searchsorted(self.edges, cells, side="right")

    def shares(self, cells: FloatArray) -> FloatArray:
        """Of the cells that are numbers, in each bar."""
        known = cells[np.isfinite(cells)]
        return np.bincount(self.of(known), minlength=len(self.labels)) / max(known.size, 1)

    def released(self, known: Marginal) -> FloatArray:
        """What the release says of them."""
        column = self.column
        step = unit_step(column, "scores")
        if column.levels:
            if not column.ordered:
                return known.shares
            return np.diff(known.cdf(np.asarray(-1 + step * (np.arange(len(self.labels) + 1) - 0.5))))
        unit: FloatArray = (self.edges - column.centre) / column.half_width
        return np.diff(np.concatenate([[0.0], known.cdf(unit), [1.0]]))


def pictures(made: Synthesis) -> Page:
    """Released numbers and drawn rows, and nothing else."""
    blocks = _drawn(made)
    margins = []
    for k, (column, known) in enumerate(zip(made.manifest.columns, made.marginals, strict=False)):
        bins = _Bins(column, known)
        margins.append(Margin(column.label, bins.labels, bins.released(known), bins.shares(blocks[:, k])))
    title, pairs = f"{made.manifest.title}: synthetic rows", _released_pairs(made, blocks)
    return synthetic_page(title, "released", made.rows, margins[:_MOST_MARGINS], pairs, made.checked())


def comparison(made: Synthesis, real: FloatArray, names: Sequence[str]) -> Page:
    """Real rows beside drawn ones, for the publisher alone; `real` has the release's (transformed) columns."""
    blocks = _drawn(made)
    known = made.marginals or (None,) * len(made.manifest.columns)
    bins = [_Bins(column, one) for column, one in zip(made.manifest.columns, known, strict=True)]
    margins, kept = [], []
    for k, column in enumerate(made.manifest.columns):
        if column.name in names:
            kept.append(k)
            margins.append(
                Margin(column.label, bins[k].labels, bins[k].shares(real[:, k]), bins[k].shares(blocks[:, k]))
            )
    pairs = []
    for i, j in combinations([k for k in kept if len(bins[k].labels) <= _MOST_LEVELS], 2):
        tables = [_table(cells, bins, i, j) for cells in (real, blocks)]
        pairs.append((_strength(tables[0]), _pair(made.manifest.columns, bins, i, j, *tables)))
    pairs.sort(key=lambda pair: -pair[0])
    title = f"{made.manifest.title}: real and synthetic rows, for the publisher alone"
    shown = [pair for _, pair in pairs[:_MOST_PAIRS]]
    return synthetic_page(title, "real", made.rows, margins[:_MOST_MARGINS], shown, made.checked())


def _drawn(made: Synthesis) -> FloatArray:
    return np.concatenate(list(islice(made.made.blocks(), _BLOCKS)))[: made.rows]


def _table(cells: FloatArray, bins: Sequence[_Bins], i: int, j: int) -> FloatArray:
    rows = cells[np.isfinite(cells[:, i]) & np.isfinite(cells[:, j])]
    size = len(bins[i].labels), len(bins[j].labels)
    flat = bins[i].of(rows[:, i]) * size[1] + bins[j].of(rows[:, j])
    return np.bincount(flat, minlength=size[0] * size[1]).reshape(size) / max(len(rows), 1)


def _strength(table: FloatArray) -> float:
    return float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum())


def _pair(
    columns: Sequence[Column], bins: Sequence[_Bins], i: int, j: int, one: FloatArray, other: FloatArray
) -> PairOfTables:
    return PairOfTables((columns[i].label, columns[j].label), (bins[i].labels, bins[j].labels), one, other)


def _released_pairs(made: Synthesis, drawn: FloatArray) -> list[PairOfTables]:
    """The strongest pairs: of a field leaf by leaf, of normal numbers between even ranks."""
    rows, columns = made.made, made.manifest.columns
    if isinstance(rows, NormalRows):
        return [] if made.exact or made.manifest.scale == "public" else _normal_pairs(rows, columns, drawn)
    assert made.check is not None
    tables, found = rows.tables, []
    for i, j in made.check.agreement:
        if max(tables.sizes[i], tables.sizes[j]) <= _MOST_LEVELS:
            released = tables.share_of(i, j)
            found.append((_strength(released), i, j, released, made.check.drawn[i, j]))
    found.sort(key=lambda one: -one[0])
    labels = [list(one.levels) if not one.ordered else _leaves(size) for one, size in
              zip(columns, tables.sizes, strict=True)]  # fmt: skip
    return [
        PairOfTables((columns[i].label, columns[j].label), (labels[i], labels[j]), released, drawn)
        for _, i, j, released, drawn in found[:_MOST_PAIRS]
    ]


def _normal_pairs(rows: NormalRows, columns: Sequence[Column], drawn: FloatArray) -> list[PairOfTables]:
    ends, even = np.linspace(0, 1, _EVEN + 1), np.full(_EVEN, 1 / _EVEN)
    order = np.argsort(np.argsort(drawn, axis=0, kind="stable"), axis=0, kind="stable")
    place = np.minimum(order * _EVEN // len(drawn), _EVEN - 1)
    correlation, found = rows.root @ rows.root.T, []
    for i, j in combinations(range(len(columns)), 2):
        found.append((abs(float(correlation[i, j])), i, j))
    labels, pairs = _leaves(_EVEN), []
    for _, i, j in sorted(found, key=lambda one: -one[0])[:_MOST_PAIRS]:
        table = of_normals(ends, ends, float(correlation[i, j]), 0.0)
        made = np.bincount(place[:, i] * _EVEN + place[:, j], minlength=_EVEN**2).reshape(_EVEN, _EVEN) / len(drawn)
        given = np.outer(even, even) if table is None else table
        pairs.append(PairOfTables((columns[i].label, columns[j].label), (labels, labels), given, made))
    return pairs


def _leaves(size: int) -> list[str]:
    return [f"leaf {k + 1}" for k in range(size)]


# -------------------------------------------------------------------------------------- real rows, for a publisher


@quotes_no_cell
def raw_cells(raw: Path, columns: Sequence[Column]) -> tuple[FloatArray, list[str]]:
    """Cells on the released (transformed) scale, NaN where one is missing or cannot be read, and which columns exist.

    Columns made of parts of dates, or of whether another's cells are missing, are left out.
    """
    table = _read(raw)
    made, names = np.full((table.num_rows, len(columns)), np.nan), []
    for k, column in enumerate(columns):
        name = column.source or column.name
        if column.part is not None or column.since is not None or name not in table.column_names:
            continue
        names.append(column.name)
        made[:, k] = _numbers(table[name], column)
    if not names:
        raise InputError("the rows have none of the release's columns. Name the file that was published.")
    return made, names


def _read(raw: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    try:
        if raw.suffix.lower() == ".parquet":
            return pq.read_table(raw)
        return csv.read_csv(raw)
    except OSError as error:
        raise DataError(f"cannot read {str(raw)!r}: {error.strerror or 'it is no table'}.") from None
    except pa.ArrowInvalid:
        raise DataError(f"{str(raw)!r} must be a .parquet or a .csv with a line of names and commas.") from None


def _numbers(cells: pa.ChunkedArray, column: Column) -> FloatArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.levels:
        words = pc.utf8_trim_whitespace(pc.cast(cells, pa.string()))
        found = pc.index_in(words, pa.array(column.levels, pa.string()))
        return np.asarray(pc.fill_null(pc.cast(found, pa.float64()), float("nan")).to_numpy())
    words = pc.cast(cells, pa.string())
    plain = pc.match_substring_regex(words, r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
    numbers = pc.cast(pc.utf8_trim_whitespace(pc.if_else(plain, words, pa.scalar(None, pa.string()))), pa.float64())
    values = np.asarray(pc.fill_null(numbers, float("nan")).to_numpy())
    return column.transformed(np.clip(values, column.lower, column.upper))
