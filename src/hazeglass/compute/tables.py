"""Any table as a stream of Arrow batches: NumPy, pandas, polars, Arrow, CSV and Parquet files.

A source knows its names and kinds, counts its rows, and gives its columns block by block, so that memory is set
by the block and not by the number of rows. Error messages name columns and row numbers, never a cell's value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from hazeglass.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BLOCK_ROWS", "TableSource", "floats", "open_table"]

BLOCK_ROWS = 1 << 16
_SUFFIXES = {".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}


class TableSource(Protocol):
    """Named columns that can be streamed more than once."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""

    def kinds(self) -> dict[str, str]:
        """'continuous', 'integer' or 'other' per column, from the declared or inferred type."""

    def count(self) -> int:
        """Number of rows."""

    def blocks(self, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """The named columns in batches of at most BLOCK_ROWS; `numbers` must be readable as float64."""


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
    else:
        source = _InMemory(_from_dataframe(data))
    _check_names(source.names)
    return source


def floats(batch: pa.RecordBatch, columns: Sequence[str]) -> npt.NDArray[np.float64]:
    """The named columns of a batch as one float64 array, missing cells as NaN."""
    block = np.empty((batch.num_rows, len(columns)))
    for k, name in enumerate(columns):
        block[:, k] = batch.column(name).to_numpy(zero_copy_only=False)
    return block


def _check_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name.strip():
            raise DataError("every column must have a name, but one has none. Name it in the data's header.")
        if name in seen:
            raise DataError(f"column names must be unique, but {name!r} appears twice. Rename one of them.")
        seen.add(name)


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
            f"data must be a table (NumPy, pandas, polars, Arrow) or the path of a CSV or Parquet file, "
            f"got {type(data).__name__}."
        ) from None
    return frame.to_arrow()


# ---------------------------------------------------------------------------------------------------- in memory


@dataclass(frozen=True)
class _InMemory:
    table: pa.Table

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.table.column_names)

    def kinds(self) -> dict[str, str]:
        return _kinds(self.table.schema)

    def count(self) -> int:
        return int(self.table.num_rows)

    def blocks(self, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        table = self.table.select([*numbers, *others])
        yield from _sliced(table.to_batches(max_chunksize=BLOCK_ROWS), numbers)


# -------------------------------------------------------------------------------------------------------- files


def _open_files(text: str) -> TableSource:
    paths = _expand(text)
    kinds = {_file_kind(path) for path in paths}
    if len(kinds) > 1:
        raise DataError(f"all files of a table must be of one kind, but {text!r} matches both CSV and Parquet.")
    source: TableSource = _CsvFiles(paths) if kinds == {"csv"} else _ParquetFiles(paths)
    return source


def _expand(text: str) -> tuple[Path, ...]:
    path = Path(text)
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.is_file() and _suffix(p) in _SUFFIXES)
        if not found:
            raise DataError(f"the folder {text!r} holds no .csv or .parquet file.")
        return tuple(found)
    if path.exists():
        return (path,)
    found = sorted(Path(match) for match in glob(text, recursive=True))
    if not found:
        raise DataError(f"there is no file {text!r}. Give the path of a CSV or Parquet file, a folder, or a glob.")
    return tuple(found)


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return ".csv.gz" if name.endswith(".csv.gz") else path.suffix.lower()


def _file_kind(path: Path) -> str:
    kind = _SUFFIXES.get(_suffix(path))
    if kind is None:
        raise DataError(f"the data file must end in .csv, .csv.gz, .tsv or .parquet, got {path.name!r}.")
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty: it must hold a header and at least 2 rows.")
    return kind


@dataclass(frozen=True)
class _ParquetFiles:
    paths: tuple[Path, ...]

    def _file(self, path: Path) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(path, pre_buffer=False)  # buffering ahead would hold the whole file
        except (pa.ArrowInvalid, OSError):
            raise DataError(f"{path.name} cannot be read as Parquet; it may be damaged or of another kind.") from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._file(self.paths[0]).schema_arrow.names)

    def kinds(self) -> dict[str, str]:
        return _kinds(self._file(self.paths[0]).schema_arrow)

    def count(self) -> int:
        return sum(int(self._file(path).metadata.num_rows) for path in self.paths)

    def blocks(self, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            file = self._file(path)
            missing = [name for name in (*numbers, *others) if name not in file.schema_arrow.names]
            if missing:
                raise DataError(f"every file must hold the same columns, but {path.name} has no {missing[0]!r}.")
            batches = file.iter_batches(batch_size=BLOCK_ROWS, columns=[*numbers, *others])
            yield from _sliced(batches, numbers)


@dataclass(frozen=True)
class _CsvFiles:
    paths: tuple[Path, ...]

    def _reader(self, path: Path, numbers: Sequence[str] | None, others: Sequence[str] = ()) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        types = {name: pa.float64() for name in numbers or ()} | {name: pa.string() for name in others}
        options = csv.ConvertOptions(
            column_types=types or None,
            include_columns=None if numbers is None else [*numbers, *others],
            strings_can_be_null=True,
        )
        parse = csv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
        try:
            return csv.open_csv(
                path, convert_options=options, parse_options=parse, read_options=csv.ReadOptions(block_size=1 << 22)
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError) as error:
            raise _csv_error(path, error, tuple(numbers or ()) + tuple(others)) from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._reader(self.paths[0], None).schema.names)

    def kinds(self) -> dict[str, str]:
        return _kinds(self._reader(self.paths[0], None).schema)

    def count(self) -> int:
        first = self.names[:1]
        return sum(batch.num_rows for batch in self.blocks((), first))

    def blocks(self, numbers: Sequence[str], others: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for path in self.paths:
            reader = self._reader(path, numbers, others)
            try:
                yield from _sliced(reader, numbers)
            except pa.ArrowInvalid as error:
                raise _csv_error(path, error, (*numbers, *others)) from None


def _csv_error(path: Path, error: Exception, columns: Sequence[str]) -> DataError:
    """One sentence about a CSV file that does not parse, without quoting any cell."""
    text = str(error)
    row = re.search(r"Row #(\d+)", text)
    where = f"{path.name}, row {row.group(1)}" if row else path.name
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
        return DataError(f"{path.name} is empty: it must hold a header and at least 2 rows.")
    if "Column" in text and "include_columns" in text:
        return DataError(f"every file must hold the same columns; {path.name} lacks one of them.")
    return DataError(f"{where} cannot be read as CSV text in UTF-8; check its separator, quotes and encoding.")


# ------------------------------------------------------------------------------------------------------- shared


def _kinds(schema: pa.Schema) -> dict[str, str]:
    import pyarrow.types as pt

    def kind(field: pa.Field) -> str:
        if pt.is_floating(field.type) or pt.is_decimal(field.type):
            return "continuous"
        if pt.is_integer(field.type) or pt.is_boolean(field.type):
            return "integer"
        return "other"

    return {str(field.name): kind(field) for field in schema}


def _sliced(batches: Iterable[pa.RecordBatch], numbers: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of at most BLOCK_ROWS rows whose number columns are float64."""
    for batch in batches:
        for start in range(0, batch.num_rows, BLOCK_ROWS):
            yield _as_floats(batch.slice(start, BLOCK_ROWS), numbers)


def _as_floats(batch: pa.RecordBatch, numbers: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as pt

    wanted = set(numbers)
    arrays = []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        if field.name in wanted and not pt.is_float64(field.type):
            numeric = _kinds(pa.schema([field]))[field.name] != "other" or pt.is_null(field.type)
            if not numeric:
                raise DataError(
                    f"column {field.name!r} must hold numbers, but its type is {field.type}. "
                    "Convert it, or take the column out of the plan."
                )
            array = pc.cast(array, pa.float64(), safe=False)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
