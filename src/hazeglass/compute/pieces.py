"""Pieces of a table: stretches of rows that can be read one by one, by whoever works on them.

A piece is a description wherever it can be (a file's name and the row groups to read), so that it can be sent to
another process as it is. Rows in hand (`Loaded`) are a piece too, but `public` says that they must not stand in a task
graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from hazeglass.compute.places import Place
from hazeglass.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columns", "CsvFile", "Loaded", "Partition", "Piece", "RowGroups", "csv_reader", "kinds_of", "parquet_file"]


class Piece(Protocol):
    """A stretch of rows."""

    @property
    def number(self) -> int:
        """Its place in the table."""

    @property
    def public(self) -> bool:
        """Whether it holds nothing but names and numbers of files and rows."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows in batches of bounded size."""


@dataclass(frozen=True)
class Columns:
    """Which columns to read, `numbers` as float64, and how many rows at a time."""

    numbers: tuple[str, ...]
    others: tuple[str, ...]
    block_rows: int

    @property
    def all(self) -> list[str]:
        """Numbers first."""
        return [*self.numbers, *self.others]

    def cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of at most `block_rows` rows whose number columns are float64."""
        for batch in batches:
            for start in range(0, batch.num_rows, self.block_rows):
                yield _as_floats(batch.slice(start, self.block_rows), self.numbers)


@dataclass(frozen=True, repr=False)
class Loaded:
    """Rows in memory."""

    number: int
    held: tuple[pa.RecordBatch, ...]
    columns: Columns
    public = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows."""
        return self.columns.cut(self.held)

    def __repr__(self) -> str:
        return f"<piece {self.number}: {sum(batch.num_rows for batch in self.held)} rows in memory>"


@dataclass(frozen=True)
class RowGroups:
    """Row groups of Parquet files, read one at a time and one block at a time."""

    number: int
    groups: tuple[tuple[Place, int], ...]
    columns: Columns
    public = True

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows; one core decodes them, because other pieces keep the others busy."""
        for place in dict.fromkeys(place for place, _ in self.groups):
            with parquet_file(place) as file:
                missing = [name for name in self.columns.all if name not in file.schema_arrow.names]
                if missing:
                    raise DataError(f"every file must hold the same columns, but {place.name} has no {missing[0]!r}.")
                for group in (group for where, group in self.groups if where == place):
                    read = file.iter_batches(
                        self.columns.block_rows, row_groups=[group], columns=self.columns.all, use_threads=False
                    )
                    yield from self.columns.cut(_reading(read, place))


@dataclass(frozen=True)
class CsvFile:
    """One of several CSV files."""

    number: int
    place: Place
    columns: Columns
    public = True

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows, as they are parsed."""
        import pyarrow as pa

        reader = csv_reader(self.place, self.columns)
        try:
            yield from self.columns.cut(reader)
        except pa.ArrowInvalid as error:
            raise _csv_error(self.place, error, self.columns.all) from None


@dataclass(frozen=True, repr=False)
class Partition:
    """One partition of a dask dataframe; dask decides who computes it."""

    number: int
    frame: Any
    columns: Columns
    public = True

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows."""
        return self.loaded(self.wanted.compute()).batches()

    @property
    def wanted(self) -> Any:
        """The columns to read, not computed yet."""
        return self.frame[self.columns.all]

    def without_rows(self) -> Partition:
        """The same without what leads to its rows."""
        return replace(self, frame=None)

    def loaded(self, frame: Any) -> Loaded:
        """The same once its rows are computed."""
        import pyarrow as pa

        table = pa.Table.from_pandas(frame, preserve_index=False)
        return Loaded(self.number, tuple(table.to_batches(max_chunksize=self.columns.block_rows)), self.columns)

    def __repr__(self) -> str:
        return f"<piece {self.number}: a partition of a dask dataframe>"


def _reading(batches: Iterator[pa.RecordBatch], place: Place) -> Iterator[pa.RecordBatch]:
    """The same batches; damage found on the way is told in one sentence."""
    import pyarrow as pa

    try:
        yield from batches
    except (pa.ArrowException, OSError):
        raise DataError(f"{place.name} cannot be read to its end; it may be damaged or out of reach.") from None


def parquet_file(place: Place) -> Any:
    """A Parquet file, opened; nothing is buffered ahead, which would hold the whole file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(place.open_file(), pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowInvalid, OSError):
        raise DataError(f"{place.name} cannot be read as Parquet; it may be damaged or of another kind.") from None


def csv_reader(place: Place, columns: Columns | None) -> Any:
    """A CSV file's batches; every column with inferred types when `columns` is None."""
    import pyarrow as pa
    from pyarrow import csv

    numbers, others = (columns.numbers, columns.others) if columns else ((), ())
    types = {name: pa.float64() for name in numbers} | {name: pa.string() for name in others}
    options = csv.ConvertOptions(
        column_types=types or None,
        include_columns=None if columns is None else columns.all,
        strings_can_be_null=True,
    )
    parse = csv.ParseOptions(delimiter="\t" if place.suffix == ".tsv" else ",")
    read = csv.ReadOptions(block_size=1 << 22)
    try:
        return csv.open_csv(place.open_stream(), convert_options=options, parse_options=parse, read_options=read)
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError) as error:
        raise _csv_error(place, error, (*numbers, *others)) from None


def _csv_error(place: Place, error: Exception, columns: Sequence[str]) -> DataError:
    """One sentence about a CSV file that does not parse, without quoting any cell."""
    text = str(error)
    row = re.search(r"Row #(\d+)", text)
    where = f"{place.name}, row {row.group(1)}" if row else place.name
    if column := re.search(r"In CSV column #(\d+)", text):
        index = int(column.group(1))
        name = columns[index] if index < len(columns) else f"number {index + 1}"
        return DataError(
            f"column {name!r} must hold numbers, but a cell in {where} is not one. "
            "Correct the cell, leave it empty if it is missing, or take the column out of the plan."
        )
    if fields := re.search(r"Expected (\d+) columns, got (\d+)", text):
        return DataError(f"every row must have {fields.group(1)} fields, but one in {where} has {fields.group(2)}.")
    if "Empty CSV" in text:
        return DataError(f"{place.name} is empty: it must hold a header and at least 2 rows.")
    if "Column" in text and "include_columns" in text:
        return DataError(f"every file must hold the same columns; {place.name} lacks one of them.")
    return DataError(f"{where} cannot be read as CSV text in UTF-8; check its separator, quotes and encoding.")


def kinds_of(schema: pa.Schema) -> dict[str, str]:
    """'continuous', 'integer' or 'other' per column."""
    import pyarrow.types as pt

    def kind(field: pa.Field) -> str:
        if pt.is_floating(field.type) or pt.is_decimal(field.type):
            return "continuous"
        if pt.is_integer(field.type) or pt.is_boolean(field.type):
            return "integer"
        return "other"

    return {str(field.name): kind(field) for field in schema}


def _as_floats(batch: pa.RecordBatch, numbers: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as pt

    wanted = set(numbers)
    arrays = []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        if field.name in wanted and not pt.is_float64(field.type):
            numeric = kinds_of(pa.schema([field]))[field.name] != "other" or pt.is_null(field.type)
            if not numeric:
                raise DataError(
                    f"column {field.name!r} must hold numbers, but its type is {field.type}. "
                    "Convert it, or take the column out of the plan."
                )
            array = pc.cast(array, pa.float64(), safe=False)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
