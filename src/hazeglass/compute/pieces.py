"""Pieces of a table: stretches of rows that can be read one by one, by whoever works on them.

A piece is a description wherever it can be (a file's name and the row groups or bytes to read), so that it can be sent
to another process as it is. Rows in hand (`Loaded`) are a piece too, but `public` says that they must not stand in a
task graph. How a table is cut into pieces depends on the table, never on the columns that are read.

A column of a table in memory is an Arrow array where its type is declared; Python's objects, each with a type of its
own, stay what they are. Which of them follows from the declared type and not from the cells.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from hazeglass.compute.cells import Coded, Column, finer_moments, is_text, of_field
from hazeglass.compute.ids import id_column
from hazeglass.compute.lines import LineReader, Lines, csv_header
from hazeglass.compute.places import Place
from hazeglass.compute.readings import Reading
from hazeglass.compute.text import TextFormat
from hazeglass.errors import DataError

_MOST_TEXT = 1 << 31  # bytes: more than one array of words holds


class Piece(Protocol):
    """A stretch of rows."""

    @property
    def number(self) -> int:
        """Its place in the table."""

    @property
    def public(self) -> bool:
        """Whether it holds nothing but names and numbers of files and rows."""

    def batches(self, unread: Counter[str]) -> Iterator[pa.RecordBatch]:
        """Its rows in batches of bounded size; cells that cannot be read are null, and counted under their column."""


@dataclass(frozen=True)
class Wanted:
    """Which columns to read, `numbers` as float64 and `ids` as canonical text, and how many rows at a time.

    `readings` says what a number is where it is not just what its column of the same name holds.
    """

    numbers: tuple[str, ...]
    ids: tuple[str, ...]
    block_rows: int
    text: TextFormat
    readings: Mapping[str, Reading] = field(default_factory=dict)

    @property
    def all(self) -> list[str]:
        """Numbers first."""
        return [*self.numbers, *self.ids]

    @property
    def sources(self) -> list[str]:
        """The data's columns that all of them are made of."""
        return list(dict.fromkeys([*(self.reading(name).source for name in self.numbers), *self.ids]))

    def reading(self, name: str) -> Reading:
        """How one of the numbers is read."""
        return self.readings.get(name) or Reading(name)

    def batch(self, columns: Mapping[str, Column], unread: Counter[str]) -> pa.RecordBatch:
        """One batch of cells as they came."""
        arrays = []
        for name in self.numbers:
            reading = self.reading(name)
            array, cells = reading.column(columns[reading.source], self.text)
            if cells:
                unread[name] += cells
            arrays.append(array)
        arrays += [id_column(columns[name], self.text) for name in self.ids]
        return pa.RecordBatch.from_arrays(arrays, names=self.all)

    def cut(self, columns: Mapping[str, Column], rows: int, unread: Counter[str]) -> Iterator[pa.RecordBatch]:
        """The same rows in batches of at most `block_rows`."""
        for start in range(0, rows, self.block_rows):
            stop = min(rows, start + self.block_rows)
            yield self.batch({name: rows_of(columns[name], start, stop) for name in self.sources}, unread)


def rows_of(column: Column, start: int, stop: int) -> Column:
    """Some rows of a column."""
    return column[start:stop] if isinstance(column, list) else column.slice(start, stop - start)


@dataclass(frozen=True, repr=False)
class Loaded:
    """Rows in memory."""

    number: int
    rows: int
    columns: Mapping[str, Column]
    wanted: Wanted
    public = False

    def batches(self, unread: Counter[str]) -> Iterator[pa.RecordBatch]:
        """Its rows."""
        return self.wanted.cut(self.columns, self.rows, unread)

    def portable(self) -> Piece:
        """The same for another process. Python's objects are read here: some can be read, and not be sent."""
        if not any(isinstance(getattr(column, "values", column), list) for column in self.columns.values()):
            return self
        unread: Counter[str] = Counter()
        return _Read(self.number, self.rows, tuple(self.batches(unread)), unread)

    def __repr__(self) -> str:
        return f"<piece {self.number}: {self.rows} rows in memory>"


@dataclass(frozen=True, repr=False)
class _Read:
    """Rows in memory whose cells have been read."""

    number: int
    rows: int
    read: tuple[pa.RecordBatch, ...]
    unread: Counter[str]
    public = False

    def batches(self, unread: Counter[str]) -> Iterator[pa.RecordBatch]:
        """Its rows."""
        unread.update(self.unread)
        return iter(self.read)

    __repr__ = Loaded.__repr__


@dataclass(frozen=True)
class RowGroups:
    """Row groups of Parquet files, read one at a time and one block at a time."""

    number: int
    groups: tuple[tuple[Place, int], ...]
    wanted: Wanted

    @property
    def public(self) -> bool:
        return all(place.public for place, _ in self.groups)

    def batches(self, unread: Counter[str]) -> Iterator[pa.RecordBatch]:
        """Its rows; one core decodes them, because other pieces keep the others busy."""
        for place in dict.fromkeys(place for place, _ in self.groups):
            groups = [group for where, group in self.groups if where == place]
            with parquet_file(place) as file:
                _check_same_columns(self.wanted.sources, file.schema_arrow.names, place)
                coded = [name for name in self.wanted.sources if _is_short_text(file, name, groups)]
                footer, fields = file.metadata, {name: file.schema_arrow.field(name) for name in self.wanted.sources}
            _check_readable(fields.values(), place)
            old = _moments_of_96_bits(footer, fields)
            with parquet_file(place, metadata=footer, read_dictionary=coded) as file:
                for group in groups:
                    options = {"batch_size": self.wanted.block_rows, "row_groups": [group], "use_threads": False}
                    exact = Recut(_in_nanoseconds(place, footer, columns=old, **options))
                    read = file.iter_batches(columns=self.wanted.sources, **options)
                    for batch in _reading(read, place):
                        columns = {name: batch.column(name) for name in fields}
                        if old:
                            fine = exact.take(len(batch))
                            columns |= {name: finer_moments(columns[name], fine.column(name)) for name in old}
                        columns = {name: of_field(columns[name], field) for name, field in fields.items()}
                        yield self.wanted.batch(columns, unread)


@dataclass(frozen=True)
class TextLines:
    """Lines of a CSV file."""

    number: int
    lines: Lines
    wanted: Wanted

    @property
    def public(self) -> bool:
        return self.lines.place.public

    def batches(self, unread: Counter[str]) -> Iterator[pa.RecordBatch]:
        """Its rows, as they are parsed."""
        place, text = self.lines.place, self.wanted.text
        names, _ = csv_header(place, text)
        _check_same_columns(self.wanted.sources, names, place)
        reader = LineReader(place, text, names)
        written = {one.source for name in self.wanted.numbers if (one := self.wanted.reading(name)).as_text}
        written.update(self.wanted.ids)
        numbers = [name for name in self.wanted.sources if name not in written]
        for block in self.lines.blocks(unread):
            columns = reader.columns(block, numbers, sorted(written), unread)
            yield from self.wanted.cut(columns, max(map(len, columns.values()), default=0), unread)


@dataclass(frozen=True, repr=False)
class Partition:
    """One partition of a dask dataframe; dask decides who computes it."""

    number: int
    frame: Any
    wanted: Wanted
    public = True

    def batches(self, unread: Counter[str]) -> Iterator[pa.RecordBatch]:
        """Its rows."""
        return self.loaded(self.lazy_rows.compute()).batches(unread)

    @property
    def lazy_rows(self) -> Any:
        """The columns to read, not computed yet."""
        names = {str(name): name for name in self.frame.columns}
        return self.frame[[names[name] for name in self.wanted.sources]]

    def without_rows(self) -> Partition:
        """The same without what leads to its rows."""
        return replace(self, frame=None)

    def loaded(self, frame: Any) -> Loaded:
        """The same once its rows are computed."""
        names, take = frame_columns(frame)
        columns = {name: take(names.index(name)) for name in self.wanted.sources}
        return Loaded(self.number, len(frame), columns, self.wanted)

    def __repr__(self) -> str:
        return f"<piece {self.number}: a partition of a dask dataframe>"


def _check_same_columns(wanted: Sequence[str], names: Sequence[str], place: Place) -> None:
    for name in wanted:
        if (times := list(names).count(name)) != 1:
            found = "two or more columns" if times else "no"
            raise DataError(f"every file must hold the same columns, but {place.name} has {found} {name!r}.")


def _reading(batches: Iterator[pa.RecordBatch], place: Place) -> Iterator[pa.RecordBatch]:
    """The same batches; damage found on the way is told in one sentence."""
    try:
        yield from batches
    except (pa.ArrowException, OSError):
        raise DataError(f"{place.name} cannot be read to its end; it may be damaged or out of reach.") from None


def _moments_of_96_bits(footer: Any, fields: Mapping[str, pa.Field]) -> list[str]:
    """The columns of the old kind, which Arrow reads in the unit that it is asked for, silently wrapped."""
    leaves = [footer.schema.column(k) for k in range(len(footer.schema))]
    old = {one.path for one in leaves if one.physical_type == "INT96"}
    return [name for name, field in fields.items() if name in old and pt.is_timestamp(field.type)]


def _in_nanoseconds(place: Place, footer: Any, **options: Any) -> Iterator[pa.RecordBatch]:
    with parquet_file(place, metadata=footer, coerce_int96_timestamp_unit="ns") as file:
        yield from _reading(file.iter_batches(**options), place)


class Recut:
    """Batches cut anew, into as many rows as are asked for: other columns of the same rows may be cut at other ones."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._held = batches, list[pa.RecordBatch]()

    def take(self, rows: int) -> pa.Table:
        while sum(map(len, self._held)) < rows:
            self._held.append(next(self._batches))
        table = pa.Table.from_batches(self._held)
        self._held = table.slice(rows).to_batches()
        return table.slice(0, rows)


def _is_short_text(file: Any, name: str, groups: Sequence[int]) -> bool:
    """Whether a column is text of which every word fits into memory once; repeated, a single one might not.

    Arrow makes no dictionary of words that a file holds as differences; whether it does may hang on a single cell.
    """
    kind = file.schema_arrow.field(name).type
    if not is_text(kind) or pt.is_fixed_size_binary(kind):
        return False
    groups_of = [file.metadata.row_group(group) for group in groups]
    chunks = [group.column(k) for group in groups_of for k in range(group.num_columns)]
    return all(
        chunk.total_uncompressed_size < _MOST_TEXT and not any("DELTA" in one for one in chunk.encodings)
        for chunk in chunks
        if chunk.path_in_schema == name
    )


def _check_readable(fields: Iterable[pa.Field], place: Place) -> None:
    """Arrow ends the process on a declared type of its own that is kept as a dictionary."""
    for one in fields:
        if isinstance(one.type, pa.BaseExtensionType) and pt.is_dictionary(one.type.storage_type):
            raise DataError(
                f"{place.name} declares {one.name[:100]!r} as a type that Arrow cannot read. Write it anew as text or "
                "numbers."
            )


def parquet_file(place: Place, **options: Any) -> Any:
    """A Parquet file, opened; nothing is buffered ahead, which would hold the whole file.

    Moments of the old 96-bit kind are read as microseconds: as nanoseconds they would wrap outside 1677 to 2262.
    """
    settings = {"pre_buffer": False, "buffer_size": 1 << 20, "coerce_int96_timestamp_unit": "us", **options}
    try:
        return pq.ParquetFile(place.open_file(), **settings)
    except pa.ArrowNotImplementedError:
        raise DataError(f"{place.name} has a column of a type that Arrow cannot read. Write it anew without.") from None
    except (pa.ArrowInvalid, OSError):
        raise DataError(f"{place.name} cannot be read as Parquet; it may be damaged or of another kind.") from None


_INDEX = re.compile(r"__index_level_\d+__")  # how pandas writes an index without a name


def in_memory(data: Any) -> Any:
    """A lazy table (polars, DuckDB, ibis, ...) computed once, and what can only be exchanged as an Arrow table."""
    import narwhals as nw
    from pyarrow import interchange

    try:
        frame = nw.from_native(data, pass_through=False)
    except TypeError:
        if hasattr(data, "iloc") or hasattr(data, "to_frame"):
            return data
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        return interchange.from_dataframe(data) if hasattr(data, "__dataframe__") else data
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else data


def without_index(names: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table that pandas may have written, without the numbers of its rows."""
    return tuple(name for name in names if not _INDEX.fullmatch(name))


def index_names(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that were the index of a data frame of pandas, by its own words."""
    said = (schema.pandas_metadata or {}).get("index_columns", ())
    return tuple(name for name in said if isinstance(name, str))


def frame_columns(data: Any) -> tuple[tuple[str, ...], Callable[[int], Column]]:
    """The names of a data frame of any library, and how to take a column; its index is not one of them."""
    import narwhals as nw

    if hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas' names need be neither text nor of one column alone
        return tuple(str(name) for name in data.columns), lambda k: arrow_or_list(data.iloc[:, k])
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        kind = type(data).__name__
        said = {"Plan": "a Plan. The data comes first, then the plan.", "Series": "a Series. Make a frame of it."}
        raise DataError(
            "data must be a table (NumPy, pandas, polars, Arrow, dask, DuckDB) or the path of a CSV, Parquet or .xlsx "
            f"file, got {said.get(kind, f'{kind}.')}"
        ) from None
    names = tuple(frame.columns)
    return names, lambda k: arrow_or_list(frame[names[k]].to_native())


def arrow_or_list(column: Any) -> Column:
    """An Arrow array, or Python's objects."""
    import narwhals as nw

    kind: Any = getattr(column, "dtype", None)
    if isinstance(column, np.ndarray) and kind.kind == "U":
        return _characters(column)
    if hasattr(getattr(column, "cat", None), "codes"):  # the categories of pandas and its like
        codes = np.asarray(column.cat.codes, dtype=np.int64)
        values = arrow_or_list(kind.categories.to_series())
        return Coded(pa.array(codes, mask=codes < 0), values, bool(column.cat.ordered))
    if isinstance(column, np.ndarray) and kind.kind in "mM":  # Arrow wraps days, and takes 25 seconds for one
        return list(column)
    if str(kind) in ("object", "Object") or getattr(kind, "storage", "") == "python":
        return list(column)
    try:
        return (
            pa.array(column) if isinstance(column, np.ndarray) else nw.from_native(column, series_only=True).to_arrow()
        )
    except Exception:  # a type that Arrow does not have
        return list(column)


def _characters(column: npt.NDArray[np.str_]) -> list[str]:
    """Text of NumPy's, in which a number beyond all characters becomes half a one, which is in no id and no number."""
    plain = np.ascontiguousarray(np.ma.filled(column, ""))  # under a mask lies text that was taken back
    codes = plain.view(np.dtype(np.uint32).newbyteorder(plain.dtype.byteorder)).copy()
    codes[codes > sys.maxunicode] = 0xD800
    return [str(word) for word in codes.view(plain.dtype).tolist()]
