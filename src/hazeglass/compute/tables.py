"""Any table as a stream of Arrow batches: NumPy, data frames of any library, dask, CSV, Parquet and Excel files.

A source knows its names and its declared kinds, counts its rows, and gives its columns piece by piece and block by
block, so that memory is set by the block and not by the number of rows. How it is cut depends on the table alone and
not on who works on it or on what is read. Error messages name columns and row numbers, never a cell's value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hazeglass.compute.cells import Coded, Column, is_missing, is_text, of_field
from hazeglass.compute.lines import LineReader, Lines, csv_header, line_pieces
from hazeglass.compute.pieces import (
    Loaded,
    Partition,
    Piece,
    RowGroups,
    TextLines,
    Wanted,
    arrow_or_list,
    frame_columns,
    in_memory,
    index_names,
    parquet_file,
    rows_of,
    without_index,
)
from hazeglass.compute.places import Place, StandardInput, expand
from hazeglass.compute.readings import Reading
from hazeglass.compute.text import TextFormat
from hazeglass.compute.warehouse import of_warehouse
from hazeglass.compute.workbooks import workbook
from hazeglass.errors import DataError

# What a column may be declared as: 'text' may be levels, free text or ids, and of 'other' nothing is known.
DECLARED = ("continuous", "integer", "binary", "categorical", "ordinal", "date", "text", "other")
Readings = Mapping[str, Reading]
NO_READINGS: Readings = {}
BLOCK_ROWS = 1 << 16
_BLOCK_CELLS = 1 << 22  # 32 MiB: tables with many columns are cut into fewer rows
_PIECE_ROWS = 1 << 18
# Whose tables need no other library's eyes.
_KNOWN = ("builtins", "pathlib", "numpy", "pyarrow", "pandas", "dask", "ibis", "pyspark")
_AT_ONCE = 16  # footers that are looked at side by side


class TableSource(Protocol):
    """Named columns that can be read more than once."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""

    @property
    def index(self) -> tuple[str, ...]:
        """Those that a data frame had as the names of its rows."""

    def kinds(self, *only: str) -> dict[str, str]:
        """Per column, or of these alone: its declared type (:data:`DECLARED`), or a guess where none is declared."""

    def sizes(self) -> list[int]:
        """The number of rows of every piece."""

    def pieces(
        self, numbers: Sequence[str], ids: Sequence[str] = (), readings: Readings = NO_READINGS
    ) -> Iterator[Piece]:
        """The named columns, cut into pieces: `numbers` as float64, `ids` as text in canonical form."""


def open_table(data: Any, text: TextFormat | None = None) -> TableSource:
    """Make a source of whatever the caller has; `text` says how text in it is to be read."""
    text = text or TextFormat()
    data = in_memory(data) if type(data).__module__.partition(".")[0] not in _KNOWN else data
    source = next(made for make in SOURCES.values() if (made := make(data, text)) is not None)
    assert source.names is not None  # a header that cannot be read is refused here
    return source


def blocks(
    source: TableSource, numbers: Sequence[str], ids: Sequence[str] = (), unread: Counter[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows of a source, one block after the other; cells that cannot be read are counted in `unread`."""
    tally: Counter[str] = Counter() if unread is None else unread
    return chain.from_iterable(piece.batches(tally) for piece in source.pieces(numbers, ids))


def floats(batch: pa.RecordBatch, columns: Sequence[str]) -> npt.NDArray[np.float64]:
    """The named columns of a batch as one float64 array, missing cells as NaN; each column lies in one stretch."""
    block = np.empty((len(columns), batch.num_rows))
    for k, name in enumerate(columns):
        block[k] = batch.column(name).to_numpy(zero_copy_only=False)
    return block.T


def _wanted(numbers: Sequence[str], ids: Sequence[str], readings: Readings, width: int, text: TextFormat) -> Wanted:
    """What to read; blocks depend on the width of the whole table, so that any choice of columns is cut alike."""
    rows = max(64, _BLOCK_CELLS // max(1, width))
    return Wanted(tuple(numbers), tuple(ids), min(BLOCK_ROWS, rows), text, readings)


def check_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name.strip():
            raise DataError("every column must have a name, but one has none. Name it in the data's header.")
        if name in seen:
            # Which one is not said: in a file without a header the names are the cells of its first row.
            raise DataError("column names must be unique, but two columns have the same one. Rename one of them.")
        seen.add(name)


def _kind(declared: pa.DataType) -> str:
    """One of DECLARED."""
    if pt.is_dictionary(declared):
        inner = _kind(declared.value_type)
        return ("ordinal" if declared.ordered else "categorical") if inner == "text" else inner
    if pt.is_floating(declared) or pt.is_decimal(declared):
        return "continuous"
    if pt.is_boolean(declared) or pt.is_integer(declared):
        return "binary" if pt.is_boolean(declared) else "integer"
    if pt.is_date(declared) or pt.is_timestamp(declared):
        return "date"
    return "text" if is_text(declared) and not pt.is_fixed_size_binary(declared) else "other"


# ---------------------------------------------------------------------------------------------------- in memory


@dataclass(frozen=True)
class _InMemory:
    """Columns that are taken from the table, and converted, when they are read: others are not touched."""

    names: tuple[str, ...]
    take: Callable[[int], Column]
    rows: int
    text: TextFormat
    index: tuple[str, ...] = ()

    def kinds(self, *only: str) -> dict[str, str]:
        return {name: _kind_of(self.take(self.names.index(name))) for name in only or self.names}

    def sizes(self) -> list[int]:
        return [min(self._step, self.rows - start) for start in range(0, self.rows, self._step)]

    @property
    def _step(self) -> int:
        """Few enough rows that several pieces fit into memory."""
        return min(_PIECE_ROWS, max(64, _BLOCK_CELLS // max(1, len(self.names))))

    def pieces(
        self, numbers: Sequence[str], ids: Sequence[str] = (), readings: Readings = NO_READINGS
    ) -> Iterator[Piece]:
        wanted = _wanted(numbers, ids, readings, len(self.names), self.text)
        columns = {name: self.take(self.names.index(name)) for name in wanted.sources}
        for number, rows in enumerate(self.sizes()):
            start = number * self._step
            held = {name: rows_of(column, start, start + rows) for name, column in columns.items()}
            yield Loaded(number, rows, held, wanted)


def declared_kinds(source: TableSource, *only: str) -> dict[str, str]:
    """Per column the kind it is declared as, with pandas' orders, 'other' where none is; no cell is looked at."""
    if isinstance(source, CsvFiles):
        return dict.fromkeys(only or source.names, "other")
    if not isinstance(source, _InMemory):
        return source.kinds(*only)
    return {one: _kind_of(source.take(source.names.index(one)), lambda _: "other") for one in only or source.names}


def _kind_of(column: Column, objects: Callable[[Sequence[Any]], str] | None = None) -> str:
    if isinstance(column, Coded):  # categories: of what type they are follows from the cells
        inner = "other" if objects else _kind_of(column.values)
        return inner if inner not in ("text", "other") else "ordinal" if column.ordered and objects else "categorical"
    return (objects or _kind_of_objects)(column) if isinstance(column, list) else _kind(column.type)


def _kind_of_objects(cells: Sequence[Any]) -> str:
    """What Python's objects are, as a workbook or a frame of objects holds them: one word for all of a column."""
    # What an object says of itself is not asked: some refuse to be compared. NaN is not itself.
    there = (cell for cell in cells if not is_missing(cell))
    found = {type(cell) for cell in there if not (issubclass(type(cell), float) and math.isnan(cell))}
    for types, kind in (({bool}, "binary"), ({int}, "integer"), ({int, float}, "continuous"), ({str}, "text")):
        if found and found <= types:
            return kind
    return "date" if found and all(issubclass(one, date) for one in found) else "other"


def _of_arrow(data: Any, text: TextFormat) -> TableSource | None:
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        return None
    wanted = set(without_index(data.column_names))
    data = data.select([k for k, name in enumerate(data.column_names) if name in wanted])
    index = index_names(data.schema)
    return _InMemory(
        tuple(data.column_names), lambda k: of_field(data.column(k), data.schema.field(k)), data.num_rows, text, index
    )


def _of_numpy(data: Any, text: TextFormat) -> TableSource | None:
    if not isinstance(data, np.ndarray):
        return None
    if data.ndim != 2 or data.dtype.kind not in "fiubOSU":
        raise DataError(
            f"an array must be two-dimensional and hold numbers, got shape {data.shape} of {data.dtype}. "
            "Pass a data frame for named columns."
        )
    names = tuple(f"x{k + 1}" for k in range(data.shape[1]))
    data = np.asarray(data) if isinstance(data, np.matrix) else data  # whose columns have two dimensions
    return _InMemory(names, lambda k: arrow_or_list(data[:, k]), len(data), text)


def _of_frame(data: Any, text: TextFormat) -> TableSource | None:
    return _InMemory(*frame_columns(data), len(data), text)


# -------------------------------------------------------------------------------------------------------- files


def _of_files(data: Any, text: TextFormat) -> TableSource | None:
    if not isinstance(data, str | Path):
        return None
    places = expand(str(data))
    # What came through a pipe has no name, and in text without a header its first letters are a cell.
    kinds = {"csv" if isinstance(place, StandardInput) and not text.header else place.kind for place in places}
    if len(kinds) > 1:
        raise DataError(
            f"all files of a table must be of one kind, but {str(data)!r} matches {' and '.join(sorted(kinds))} files."
        )
    if kinds == {"excel"}:
        if len(places) > 1:
            raise DataError(f"{str(data)!r} matches several workbooks, and only one is read at a time. Name one.")
        names, columns = workbook(places[0])
        return _InMemory(names, columns.__getitem__, len(columns[0]), text)
    return CsvFiles(places, text) if kinds == {"csv"} else _ParquetFiles(places, text)


@dataclass
class _ParquetFiles:
    places: tuple[Place, ...]
    text: TextFormat

    @cached_property
    def _schema(self) -> pa.Schema:
        with parquet_file(self.places[0]) as file:
            return file.schema_arrow

    @cached_property
    def _groups(self) -> list[list[tuple[Place, int, int]]]:
        """Every row group with its number of rows, from the footers, some to a piece."""
        with ThreadPoolExecutor(min(_AT_ONCE, len(self.places))) as pool:
            groups = [group for groups in pool.map(_footer, self.places) for group in groups]
        pieces: list[list[tuple[Place, int, int]]] = [[]]
        for group in groups:
            if sum(rows for _, _, rows in pieces[-1]) >= _PIECE_ROWS:
                pieces.append([])
            pieces[-1].append(group)
        return pieces

    @property
    def names(self) -> tuple[str, ...]:
        return without_index(self._schema.names)

    @property
    def index(self) -> tuple[str, ...]:
        return index_names(self._schema)

    def kinds(self, *only: str) -> dict[str, str]:
        return {name: _kind(self._schema.field(name).type) for name in only or self.names}

    def sizes(self) -> list[int]:
        return [sum(rows for _, _, rows in groups) for groups in self._groups]

    def pieces(
        self, numbers: Sequence[str], ids: Sequence[str] = (), readings: Readings = NO_READINGS
    ) -> Iterator[Piece]:
        wanted = _wanted(numbers, ids, readings, len(self.names), self.text)
        for number, groups in enumerate(self._groups):
            yield RowGroups(number, tuple((place, group) for place, group, _ in groups), wanted)


def _footer(place: Place) -> list[tuple[Place, int, int]]:
    with parquet_file(place) as file:
        footer = file.metadata
        return [(place, k, int(footer.row_group(k).num_rows)) for k in range(footer.num_row_groups)]


@dataclass
class CsvFiles:
    places: tuple[Place, ...]
    text: TextFormat
    index = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return csv_header(self.places[0], self.text)[0]

    def kinds(self, *only: str) -> dict[str, str]:
        """A guess: what the first lines can be read as."""
        first = next((block for lines, _ in self._lines[:1] for block in lines.blocks()), b"")
        unread: Counter[str] = Counter()
        columns = LineReader(self.places[0], self.text, self.names).columns(first, only or self.names, (), unread)
        return {
            name: "other"
            if unread[name] or column.null_count == len(column)
            else "integer"
            if pc.all(pc.equal(column, pc.floor(column))).as_py()
            else "continuous"
            for name, column in columns.items()
        }

    @cached_property
    def _lines(self) -> list[tuple[Lines, int]]:
        return [piece for place in self.places for piece in line_pieces(place, self.text)]

    def sizes(self) -> list[int]:
        return [rows for _, rows in self._lines]

    def pieces(
        self, numbers: Sequence[str], ids: Sequence[str] = (), readings: Readings = NO_READINGS
    ) -> Iterator[Piece]:
        wanted = _wanted(numbers, ids, readings, len(self.names), self.text)
        return (TextLines(number, lines, wanted) for number, (lines, _) in enumerate(self._lines))


# --------------------------------------------------------------------------------------------------------- dask


def _of_dask(data: Any, text: TextFormat) -> TableSource | None:
    return _DaskFrame(data, text) if type(data).__module__.startswith("dask.") else None


@dataclass
class _DaskFrame:
    frame: Any
    text: TextFormat
    index = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in getattr(self.frame, "columns", ()))

    def kinds(self, *only: str) -> dict[str, str]:
        columns = {str(name): column for name, column in self.frame._meta.items()}
        return {name: _kind_of_empty(columns[name]) for name in only or self.names}

    def sizes(self) -> list[int]:
        return self._sizes

    @cached_property
    def _sizes(self) -> list[int]:
        import dask

        # One by one, as they are read: of all together dask may join several, by how large their files are.
        parts = (self.frame.partitions[number] for number in range(self.frame.npartitions))
        counted = dask.compute(*(part.map_partitions(len, enforce_metadata=False) for part in parts))
        return [int(np.sum(rows)) for rows in counted]

    def pieces(
        self, numbers: Sequence[str], ids: Sequence[str] = (), readings: Readings = NO_READINGS
    ) -> Iterator[Piece]:
        wanted = _wanted(numbers, ids, readings, len(self.names), self.text)
        for number in range(self.frame.npartitions):
            yield Partition(number, self.frame.partitions[number], wanted)


def _kind_of_empty(column: Any) -> str:
    try:
        return _kind(pa.Array.from_pandas(column).type)
    except (pa.ArrowException, TypeError, ValueError):  # complex numbers and others that Arrow does not have
        return "other"


# Every way in, tried in this order; the tests of what may leave take theirs from here.
SOURCES: dict[str, Callable[[Any, TextFormat], TableSource | None]] = {
    "warehouse": lambda data, _: of_warehouse(data),
    "files": _of_files,
    "numpy": _of_numpy,
    "arrow": _of_arrow,
    "dask": _of_dask,
    "frame": _of_frame,
}
