"""Tables of any library and files of any program: their columns come in, and nothing that is not one."""

import io
import re
import warnings
import zipfile

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hazeglass.compute.places import StandardInput, expand
from hazeglass.compute.tables import blocks, open_table
from hazeglass.compute.text import TextFormat
from hazeglass.errors import DataError, MissingExtraError, PlanError

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


def workbook(path, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return str(path)


def test_the_first_sheet_of_a_workbook_is_a_table(tmp_path):
    rows = [["a", " b ", None], [1.0, 4], [2, "5"], [None, "x"], ["3,5", True]]
    read_rows = read(workbook(tmp_path / "d.xlsx", rows), TextFormat(separator=";", decimal=","))
    assert read_rows == {"a": [1.0, 2.0, None, 3.5], "b": [4.0, 5.0, None, 1.0]}


def test_a_workbook_that_says_it_is_smaller_than_it_is_loses_no_row(tmp_path):
    path = workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4], [2, 5]])
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part.replace(b'<dimension ref="A1:B3"', b'<dimension ref="A1:A2"'))
    assert read(path) == {"a": [1.0, 2.0], "b": [4.0, 5.0]}


def test_a_workbook_that_cannot_be_read_gets_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "d.xlsx").write_bytes(b"PK secret")
    with pytest.raises(DataError, match=r"cannot be read as an Excel workbook; save it anew") as caught:
        read(str(tmp_path / "d.xlsx"))
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match="its sheet is empty"):
        read(workbook(tmp_path / "empty.xlsx", []))
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"hazeglass\[excel\]"):
        read(str(tmp_path / "d.xlsx"))


@pytest.mark.parametrize("filter", ["default", "error"])
def test_a_cell_that_is_no_date_of_excels_is_missing_and_never_told(tmp_path, filter):
    path = workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4], [99999999999, 5]])
    book = openpyxl.load_workbook(path)
    book.active["A3"].number_format = "yyyy-mm-dd"
    book.save(path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter(filter)
        assert read(path) == {"a": [1.0, None], "b": [4.0, 5.0]}
    assert not told


UNREADABLE_CELLS = [
    *(f"<v>{word}</v>" for word in ("NaN", "INF", "1,5", "0x10", "-", "1" * 5000, "\U0001d7d8.\u00e9")),
    *(' t="d"><v>2024-13-01</v>', ' t="d"><v>hello</v>', ' t="b"><v>true</v>', ' t="s"><v>99</v>', ' s="x"><v>1</v>'),
    *("<v>&#xD800;</v>", ' t="inlineStr"><is><t>&#55296;\uffff&#x1;</t></is>', "<f>X</f><v>NaN</v>"),
]


@pytest.mark.parametrize("cell", UNREADABLE_CELLS, ids=lambda cell: ascii(cell)[:40])
@pytest.mark.parametrize("place", ["A3", "B3", None])
def test_a_cell_of_a_workbook_that_cannot_be_read_is_missing_and_no_other(tmp_path, cell, place):
    """Also in column B, which nothing asks for; a cell without a place follows the one before."""
    path = workbook(tmp_path / "d.xlsx", [["a", "note", "b"], [1, 7, 4], [2, 8, 5], [3, 9, 6]])
    start = f'<c r="{place}"' if place else "<c"
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"].decode()
    odd = start + (cell if cell.startswith(" ") else f">{cell}") + "</c>"
    parts["xl/worksheets/sheet1.xml"] = re.sub(rf'<c r="{place or "A3"}".*?</c>', lambda _: odd, sheet).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)
    found = read(path)
    assert (found["a"], found["b"]) == ([1.0, 2.0 if place == "B3" else None, 3.0], [4.0, 5.0, 6.0])


OF_STRINGS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
AS_STRINGS = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"


@pytest.mark.parametrize("look", ['<sz val="huge"/>', '<family val="34"/>', '<color rgb="QQ"/>', "<b/>"])
def test_how_the_letters_of_a_cell_look_keeps_no_workbook_from_being_read(tmp_path, look):
    """Words that cells share stand in a part of their own, which openpyxl reads as a whole or not at all."""
    path = workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4], [2, 5], [3, 6]])
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    added = {
        "[Content_Types].xml": f'<Override PartName="/xl/s.xml" ContentType="{AS_STRINGS}"/></Types>',
        "xl/_rels/workbook.xml.rels": f'<Relationship Id="s" Type="{OF_STRINGS}" Target="s.xml"/></Relationships>',
    }
    for name, end in added.items():
        parts[name] = re.sub("</(Types|Relationships)>$", end, parts[name].rstrip())
    sheet = "xl/worksheets/sheet1.xml"
    for place, number in (("A2", 0), ("A3", 1)):
        shared = f'<c r="{place}" t="s"><v>{number}</v></c>'
        parts[sheet] = re.sub(rf'<c r="{place}".*?</c>', lambda _, new=shared: new, parts[sheet])
    odd = f"<si><r><rPr>{look}</rPr><t>7</t></r><r><t>.5</t></r><rPh><t>9</t></rPh></si>"
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    parts["xl/s.xml"] = f'<sst xmlns="{space}">{odd}<si><t> 8 </t></si></sst>'
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)
    assert read(path) == {"a": [7.5, 8.0, 3.0], "b": [4.0, 5.0, 6.0]}


def test_a_workbook_that_openpyxl_wrote_with_half_a_character_is_read(tmp_path):
    path = workbook(tmp_path / "d.xlsx", [["a", "b"], [1, "\ud800"], [2, "\uffff"], [3, 6]])
    assert read(path) == {"a": [1.0, 2.0, 3.0], "b": [None, None, 6.0]}


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
