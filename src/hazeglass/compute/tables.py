"""Any table as a stream of Arrow batches: NumPy, pandas, polars, Arrow, dask dataframes, CSV and Parquet files.

A source knows its names and kinds, counts its rows, and gives its columns piece by piece and block by block, so that
memory is set by the block and not by the number of rows. How it is cut depends on the table alone and not on who works
on it. Error messages name columns and row numbers, never a cell's value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from hazeglass.compute.pieces import (
    Columns,
    CsvFile,
    Loaded,
    Partition,
    Piece,
    RowGroups,
    csv_reader,
    kinds_of,
    parquet_file,
)
from hazeglass.compute.places import Place, expand
from hazeglass.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BLOCK_ROWS", "TableSource", "blocks", "floats", "open_table"]

BLOCK_ROWS = 1 << 16
_BLOCK_CELLS = 1 << 22  # 32 MiB: tables with many columns are cut into fewer rows
_PIECE_ROWS = 1 << 18
_FOOTERS_AT_ONCE = 16


class TableSource(Protocol):
    """Named columns that can be read more than once."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""

    def kinds(self) -> dict[str, str]:
        """'continuous', 'integer' or 'other' per column, from the declared or inferred type."""

    def count(self) -> int:
        """Number of rows."""

    def pieces(self, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[Piece]:
        """The named columns, cut into pieces; `numbers` must be readable as float64."""


def open_table(data: Any) -> TableSource:
    """Make a source of whatever the caller has."""
    import pyarrow as pa

    if isinstance(data, str | Path):
        source: TableSource = _open_files(str(data))
    elif isinstance(data, np.ndarray):
        source = _InMemory(_from_numpy(data))
    elif isinstance(data, pa.Table):
        source = _InMemory(data)
    elif isinstance(data, pa.RecordBatch):
        source = _InMemory(pa.Table.from_batches([data]))
    elif type(data).__module__.startswith("dask."):
        source = _DaskFrame(data)
    else:
        source = _InMemory(_from_dataframe(data))
    _check_names(source.names)
    return source


def blocks(source: TableSource, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """All rows of a source, one block after the other."""
    return chain.from_iterable(piece.batches() for piece in source.pieces(numbers, others))


def floats(batch: pa.RecordBatch, columns: Sequence[str]) -> npt.NDArray[np.float64]:
    """The named columns of a batch as one float64 array, missing cells as NaN; each column lies in one stretch."""
    block = np.empty((len(columns), batch.num_rows))
    for k, name in enumerate(columns):
        block[k] = batch.column(name).to_numpy(zero_copy_only=False)
    return block.T


def _columns(numbers: Sequence[str], others: Sequence[str], width: int) -> Columns:
    """What to read; blocks depend on the width of the whole table, so that any choice of columns is cut alike."""
    rows = max(64, _BLOCK_CELLS // max(1, width))
    return Columns(tuple(numbers), tuple(others), min(BLOCK_ROWS, rows))


def _check_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name.strip():
            raise DataError("every column must have a name, but one has none. Name it in the data's header.")
        if name in seen:
            raise DataError(f"column names must be unique, but {name!r} appears twice. Rename one of them.")
        seen.add(name)


# ---------------------------------------------------------------------------------------------------- in memory


def _from_numpy(array: npt.NDArray[Any]) -> pa.Table:
    import pyarrow as pa

    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise DataError(
            f"an array must be two-dimensional and numeric, got shape {array.shape} of {array.dtype}. "
            "Pass a data frame for named columns."
        )
    return pa.table({f"x{k + 1}": array[:, k] for k in range(array.shape[1])})


def _from_dataframe(data: Any) -> pa.Table:
    import narwhals as nw

    columns = getattr(data, "columns", None)
    if columns is not None:
        _check_names([str(name) for name in columns])  # narwhals would raise its own error on duplicates
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        raise DataError(
            f"data must be a table (NumPy, pandas, polars, Arrow, dask) or the path of a CSV or Parquet file, "
            f"got {type(data).__name__}."
        ) from None
    return frame.to_arrow()


@dataclass(frozen=True)
class _InMemory:
    table: pa.Table

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.table.column_names)

    def kinds(self) -> dict[str, str]:
        return kinds_of(self.table.schema)

    def count(self) -> int:
        return int(self.table.num_rows)

    def pieces(self, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[Piece]:
        columns = _columns(numbers, others, len(self.names))
        batches = self.table.select(columns.all).to_batches(max_chunksize=columns.block_rows)
        return _loaded(batches, columns, len(self.names))


def _loaded(batches: Iterable[pa.RecordBatch], columns: Columns, width: int) -> Iterator[Piece]:
    """Pieces of rows in hand, few enough at a time that several fit into memory."""
    most = min(_PIECE_ROWS, max(columns.block_rows, _BLOCK_CELLS // max(1, width)))
    held: list[pa.RecordBatch] = []
    number = rows = 0
    for batch in batches:
        if held and rows + batch.num_rows > most:
            yield Loaded(number, tuple(held), columns)
            held, number, rows = [], number + 1, 0
        held.append(batch)
        rows += batch.num_rows
    if held:
        yield Loaded(number, tuple(held), columns)


# -------------------------------------------------------------------------------------------------------- files


def _open_files(text: str) -> TableSource:
    places = expand(text)
    kinds = {place.kind for place in places}
    if len(kinds) > 1:
        raise DataError(f"all files of a table must be of one kind, but {text!r} matches both CSV and Parquet.")
    return _CsvFiles(places) if kinds == {"csv"} else _ParquetFiles(places)


@dataclass
class _ParquetFiles:
    places: tuple[Place, ...]

    @cached_property
    def _schema(self) -> pa.Schema:
        with parquet_file(self.places[0]) as file:
            return file.schema_arrow

    @cached_property
    def _groups(self) -> list[tuple[Place, int, int]]:
        """Every row group with its number of rows, from the footers; many at once, because far ones take their time."""
        with ThreadPoolExecutor(min(_FOOTERS_AT_ONCE, len(self.places))) as pool:
            return [group for groups in pool.map(_footer, self.places) for group in groups]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._schema.names)

    def kinds(self) -> dict[str, str]:
        return kinds_of(self._schema)

    def count(self) -> int:
        return sum(rows for _, _, rows in self._groups)

    def pieces(self, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[Piece]:
        columns = _columns(numbers, others, len(self.names))
        taken: list[tuple[Place, int]] = []
        number = rows = 0
        for place, group, more in self._groups:
            taken.append((place, group))
            rows += more
            if rows >= _PIECE_ROWS:
                yield RowGroups(number, tuple(taken), columns)
                taken, number, rows = [], number + 1, 0
        if taken:
            yield RowGroups(number, tuple(taken), columns)


def _footer(place: Place) -> list[tuple[Place, int, int]]:
    with parquet_file(place) as file:
        footer = file.metadata
        return [(place, k, int(footer.row_group(k).num_rows)) for k in range(footer.num_row_groups)]


@dataclass(frozen=True)
class _CsvFiles:
    places: tuple[Place, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(csv_reader(self.places[0], None).schema.names)

    def kinds(self) -> dict[str, str]:
        return kinds_of(csv_reader(self.places[0], None).schema)

    def count(self) -> int:
        return sum(batch.num_rows for batch in blocks(self, (), self.names[:1]))

    def pieces(self, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[Piece]:
        """Each of several files is a piece; one file is parsed here, because where its lines end shows only then."""
        columns = _columns(numbers, others, len(self.names))
        if len(self.places) > 1:
            yield from (CsvFile(number, place, columns) for number, place in enumerate(self.places))
        else:
            yield from _loaded(CsvFile(0, self.places[0], columns).batches(), columns, len(self.names))


# --------------------------------------------------------------------------------------------------------- dask


@dataclass(frozen=True)
class _DaskFrame:
    frame: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in getattr(self.frame, "columns", ()))

    def kinds(self) -> dict[str, str]:
        import pyarrow as pa

        return kinds_of(pa.Schema.from_pandas(self.frame._meta, preserve_index=False))

    def count(self) -> int:
        return len(self.frame)

    def pieces(self, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[Piece]:
        columns = _columns(numbers, others, len(self.names))
        for number in range(self.frame.npartitions):
            yield Partition(number, self.frame.partitions[number], columns)
