"""Tables of any library and files of any program: their columns come in, and nothing that is not one."""

import io

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hazeglass.compute.places import StandardInput, expand
from hazeglass.compute.tables import blocks, open_table
from hazeglass.compute.text import TextFormat
from hazeglass.errors import PlanError

TABLE = pa.table({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]})
EXPECTED = {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}


def read(data, text=None):
    source = open_table(data, text)
    batches = list(blocks(source, source.names))
    return {name: [cell for batch in batches for cell in batch.column(name).to_pylist()] for name in source.names}


class Interchanged:
    """A table that speaks only the interchange protocol."""

    def __dataframe__(self, **options):
        return TABLE.__dataframe__(**options)


class Streamed:
    """A table that speaks only Arrow's C stream."""

    def __arrow_c_stream__(self, schema=None):
        return TABLE.__arrow_c_stream__(schema)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.from_arrow(TABLE).lazy(),
        lambda: duckdb.from_arrow(TABLE),
        Interchanged,
        Streamed,
        lambda: pl.from_arrow(TABLE),
        lambda: TABLE.to_pandas().set_index(np.array([7, 8, 9])),
    ],
    ids=["lazy", "duckdb", "interchange", "stream", "polars", "pandas"],
)
def test_tables_of_any_library_are_read(make):
    assert read(make()) == EXPECTED


def test_the_numbers_of_rows_that_pandas_writes_are_no_column(tmp_path):
    frame = TABLE.to_pandas().iloc[[0, 1, 2]].set_index(np.array([4, 5, 9]))
    frame.to_parquet(tmp_path / "d.parquet")
    assert read(str(tmp_path / "d.parquet")) == EXPECTED
    assert read(pa.Table.from_pandas(frame)) == EXPECTED
    assert open_table(pa.Table.from_pandas(frame.rename_axis("day"))).index == ("day",)


def test_the_first_cell_of_text_without_a_header_never_says_what_standard_input_is(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"PAR1,4\n2,5\n")))
    assert read("-", TextFormat(header=False, names=("a", "b"))) == {"a": [None, 2.0], "b": [4.0, 5.0]}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_standard_input_is_read_as_often_as_needed_and_stays_out_of_task_graphs(kind, monkeypatch):
    sink = io.BytesIO()
    pd.DataFrame(EXPECTED).to_csv(sink, index=False) if kind == "csv" else pd.DataFrame(EXPECTED).to_parquet(sink)
    sink.seek(0)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(sink))
    (place,) = expand("-")
    assert isinstance(place, StandardInput)
    assert place.kind == kind
    assert read("-") == EXPECTED == read("-")
    assert not any(piece.public for piece in open_table("-").pieces(["a"]))
    assert "1.0" not in repr(place)


def test_marks_between_thousands_are_read_where_the_plan_says_so(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('a,b\n"1,234,567.5",true\n"12,34",FALSE\n1234,maybe\n', encoding="utf-8")
    assert read(str(path), TextFormat(thousands=",")) == {"a": [1234567.5, None, 1234.0], "b": [1.0, 0.0, None]}
    assert read(str(path))["a"] == [None, None, 1234.0]
    for wrong in (".", "x", "", 5):
        with pytest.raises(PlanError, match=r"text\.thousands must be one of"):
            TextFormat(thousands=wrong)
