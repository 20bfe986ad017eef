"""Any table gives the same numbers, in blocks, under its own names."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import floats, open_table
from hazeglass.errors import DataError, InputError

VALUES = {"x": [1.5, float("nan"), -3.0, 4.0], "näme, with comma": [1, 2, 3, 4]}


def read(source):
    names = list(source.names)
    return np.vstack([floats(batch, names) for batch in source.blocks(names)])


def sources(folder):
    table = pa.table(VALUES)
    pq.write_table(table, folder / "t.parquet")
    pyarrow.csv.write_csv(table, folder / "t.csv")
    yield "arrow", table
    yield "batch", table.to_batches()[0]
    yield "pandas", pd.DataFrame(VALUES)
    yield "polars", pl.DataFrame(VALUES)
    yield "parquet", folder / "t.parquet"
    yield "csv", str(folder / "t.csv")


def test_every_kind_of_table_reads_alike(tmp_path):
    expected = np.column_stack([VALUES["x"], VALUES["näme, with comma"]])
    for label, data in sources(tmp_path):
        source = open_table(data)
        assert source.names == tuple(VALUES), label
        assert source.count() == 4, label
        assert source.kinds() == {"x": "continuous", "näme, with comma": "integer"}, label
        np.testing.assert_array_equal(read(source), expected, err_msg=label)


def test_an_array_gets_plain_names():
    source = open_table(np.arange(6.0).reshape(3, 2))
    assert source.names == ("x1", "x2")
    assert read(source).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_folders_and_globs_are_one_table(tmp_path):
    for k in range(3):
        pq.write_table(pa.table({"x": [float(k), float(k)]}), tmp_path / f"part{k}.parquet")
    for path in (tmp_path, tmp_path / "part*.parquet"):
        assert read(open_table(str(path))).ravel().tolist() == [0, 0, 1, 1, 2, 2]


def test_blocks_are_bounded(monkeypatch):
    monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", 10)
    sizes = [batch.num_rows for batch in open_table(np.zeros((35, 2))).blocks(["x1"])]
    assert sizes == [10, 10, 10, 5]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (42, "must be a table"),
        (np.zeros(3), "two-dimensional"),
        (np.array([["a", "b"]]), "numeric"),
        ("no/such/file.csv", "there is no file"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "appears twice"),
        (pa.table([[1]], names=[" "]), "must have a name"),
    ],
)
def test_what_is_no_table_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        open_table(data)


def test_files_must_agree(tmp_path):
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"y": [1.0]}), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet has no 'x'"):
        read(open_table(tmp_path))
    (tmp_path / "3.csv").write_text("x\n1\n")
    with pytest.raises(DataError, match="one kind"):
        open_table(tmp_path)


def test_damaged_and_foreign_files_are_named(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"bad\.parquet cannot be read as Parquet"):
        open_table(tmp_path / "bad.parquet")
    (tmp_path / "x.xlsx").write_bytes(b"123")
    with pytest.raises(DataError, match="must end in"):
        open_table(tmp_path / "x.xlsx")
    with pytest.raises(DataError, match="holds no"):
        (tmp_path / "empty").mkdir()
        open_table(tmp_path / "empty")


def test_text_columns_cannot_be_numbers():
    source = open_table(pa.table({"x": ["a", "b"]}))
    with pytest.raises(DataError, match="'x' must hold numbers"):
        read(source)


@pytest.mark.parametrize("name", ["serial", "threads"])
def test_engines_keep_the_order_and_pass_errors_on(name):
    engine = get_engine(name)
    assert list(engine.map(lambda k: k * k, range(100))) == [k * k for k in range(100)]

    def fail(k):
        if k == 30:
            raise DataError("block 30")
        return k

    with pytest.raises(DataError, match="block 30"):
        list(engine.map(fail, range(100)))


def test_an_unknown_engine_is_named():
    with pytest.raises(InputError, match="serial, threads"):
        get_engine("spark")
