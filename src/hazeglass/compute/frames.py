"""Columns of tables in memory, whoever made them: data frames, and lazy ones once they are computed.

A column is an Arrow array where its type is declared; Python's objects, each with a type of its own, stay what they
are. Which of them follows from the declared type and not from the cells.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hazeglass.compute.cells import Coded, Column
from hazeglass.errors import DataError

_INDEX = re.compile(r"__index_level_\d+__")  # how pandas writes an index without a name


def in_memory(data: Any) -> Any:
    """A lazy table (polars, DuckDB, ibis, ...) computed once, and what can only be exchanged as an Arrow table."""
    import narwhals as nw

    try:
        frame = nw.from_native(data, pass_through=False)
    except TypeError:
        exchanged = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__")
        return _exchanged(data) if exchanged and not hasattr(data, "iloc") else data
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else data


def _exchanged(data: Any) -> pa.Table:
    from pyarrow import interchange

    return pa.table(data) if hasattr(data, "__arrow_c_stream__") else interchange.from_dataframe(data)


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

    if hasattr(data, "iloc"):  # pandas and its like, whose names need be neither text nor of one column alone
        return tuple(str(name) for name in data.columns), lambda k: arrow_or_list(data.iloc[:, k])
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        raise DataError(
            "data must be a table (NumPy, pandas, polars, Arrow, dask, DuckDB) or the path of a CSV, Parquet or .xlsx "
            f"file, got {type(data).__name__}."
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
        return Coded(pa.array(codes, mask=codes < 0), arrow_or_list(kind.categories.to_series()))
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
