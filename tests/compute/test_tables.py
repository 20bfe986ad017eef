"""Any table gives the same numbers, in blocks, under its own names."""

import gzip
import os
import pickle
import sys
import warnings
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hazeglass.compute.tables import blocks, check_names, floats, open_table
from hazeglass.errors import DataError

VALUES = {"x": [1.5, float("nan"), -3.0, 4.0], "näme, with comma": [1, 2, 3, 4]}


def read(source):
    names = list(source.names)
    return np.vstack([floats(batch, names) for batch in blocks(source, names)])


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
        assert sum(source.sizes()) == 4, label
        assert source.kinds() == {"x": "continuous", "näme, with comma": "integer"}, label
        np.testing.assert_array_equal(read(source), expected, err_msg=label)


def test_an_array_gets_plain_names():
    source = open_table(np.arange(6.0).reshape(3, 2))
    assert source.names == ("x1", "x2")
    assert read(source).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_file_with_two_names_is_read_once(tmp_path):
    """Read twice, each of its rows would count twice, and the promise is for one."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "jan.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "in" / "deep" / "feb.csv").write_text("a,b\n5,6\n")
    (tmp_path / "in" / "latest.csv").symlink_to("deep/feb.csv")
    (tmp_path / "in" / "again").symlink_to("deep")
    os.link(tmp_path / "in" / "jan.csv", tmp_path / "in" / "january.csv")
    for data in ("in", "in/*.csv", "in/**/*.csv", "in/**/**/*.csv"):
        assert sum(open_table(tmp_path / data).sizes()) == 3
    for data in ("in", "in/*.csv"):
        assert sum(open_table(f"file://{tmp_path}/{data}").sizes()) == 3


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_what_is_no_file_is_refused_in_one_sentence(tmp_path, suffix):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"a.{suffix}").mkdir()
    (tmp_path / "in" / f"b.{suffix}").symlink_to("nowhere")
    for name in ("a", "b"):
        with pytest.raises(DataError, match=rf"{name}\.{suffix} cannot be opened: it must be a file"):
            open_table(f"{tmp_path}/in/{name}*.{suffix}").sizes()


def test_a_type_that_arrow_does_not_have_is_refused_in_one_sentence(tmp_path):
    pl.DataFrame({"a": [1.0], "b": [2**70]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet has a column of a type that Arrow cannot read"):
        open_table(tmp_path / "x.parquet").sizes()


@pytest.mark.parametrize("kind", [float, object, "U1", "S1", ">f8"])
def test_under_a_mask_lies_no_cell(kind):
    cells = np.ma.masked_array(np.array([["1", "2"], ["3", "4"]]).astype(kind), mask=[[1, 0], [0, 0]])
    (batch,) = blocks(open_table(cells), ["x1"])
    assert batch.column("x1").to_pylist() == [None, 3.0]
    (batch,) = blocks(open_table(cells), [], ["x1", "x2"])
    assert [batch.column(name).to_pylist() for name in ("x1", "x2")] == [[None, "3"], ["2", "4"]]


def test_a_matrix_is_an_array():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        (batch,) = blocks(open_table(np.matrix([[1.0, 2.0], [3.0, 4.0]])), ["x1", "x2"])
    assert floats(batch, ["x1", "x2"]).tolist() == [[1, 2], [3, 4]]


def test_folders_and_globs_are_one_table(tmp_path):
    for k in range(3):
        pq.write_table(pa.table({"x": [float(k), float(k)]}), tmp_path / f"part{k}.parquet")
    for path in (tmp_path, tmp_path / "part*.parquet"):
        assert read(open_table(str(path))).ravel().tolist() == [0, 0, 1, 1, 2, 2]


def test_blocks_are_bounded(monkeypatch):
    monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", 10)
    sizes = [batch.num_rows for batch in blocks(open_table(np.zeros((35, 2))), ["x1"])]
    assert sizes == [10, 10, 10, 5]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (42, "must be a table"),
        (np.zeros(3), "two-dimensional"),
        (np.zeros((2, 2), dtype=complex), "hold numbers"),
        ("no/such/file.csv", "there is no file"),
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
    (tmp_path / "x.ods").write_bytes(b"123")
    with pytest.raises(DataError, match="must end in"):
        open_table(tmp_path / "x.ods")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no"):
        open_table(tmp_path / "empty")


def test_text_is_no_number_and_no_reason_to_fail():
    source, unread = open_table(pa.table({"x": ["a", "1.5"]})), Counter()
    found = np.vstack([floats(batch, ["x"]) for batch in blocks(source, ["x"], unread=unread)])
    np.testing.assert_array_equal(found.ravel(), [np.nan, 1.5])
    assert unread == {"x": 1}


def test_an_address_is_opened_through_its_file_system(tmp_path):
    for k in range(3):
        pq.write_table(pa.table({"x": [float(k)]}), tmp_path / f"part{k}.parquet")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"x\n7\n8\n"))
    for ending in ("/part*.parquet", "/part[012].parquet"):
        assert read(open_table(f"file://{tmp_path}{ending}")).ravel().tolist() == [0, 1, 2]
    assert read(open_table(f"file://{tmp_path}/part1.parquet")).ravel().tolist() == [1]
    assert read(open_table(f"file://{tmp_path}/t.csv.gz")).ravel().tolist() == [7, 8]
    (tmp_path / "t.csv.gz").unlink()
    assert read(open_table(f"file://{tmp_path}")).ravel().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("file:///no/such/folder/*.parquet", "there is no file"),
        ("file:///no/such/folder", "holds no"),
        ("nothing://bucket/x.parquet", "cannot be opened"),
        ("s3://KEY:SECRET@bucket/x.parquet", "must not carry credentials"),
        ("abfss://account.blob.core.windows.net/c/x.csv?sig=SECRET", "may carry the options .* got 'sig'"),
        ("s3://bucket/x.csv?region=eu&secret_key=SECRET", "got 'secret_key'"),
        ("nothing://bucket/x.parquet?region=SECRET", "cannot be opened"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_credentials(address, message):
    with pytest.raises(DataError, match=message) as caught:
        open_table(address)
    assert "SECRET" not in str(caught.value)


def test_pieces_depend_on_the_table_alone_and_describe_files(tmp_path, monkeypatch):
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 100)
    for k in range(3):
        pq.write_table(pa.table({"x": np.arange(120.0) + 1000 * k}), tmp_path / f"{k}.parquet", row_group_size=40)
    pieces = list(open_table(tmp_path).pieces(["x"]))
    assert [piece.number for piece in pieces] == [0, 1, 2]
    assert all(piece.public and len(pickle.dumps(piece)) < 2_000 for piece in pieces)
    again = [
        floats(batch, ["x"])
        for piece in map(pickle.loads, map(pickle.dumps, pieces))
        for batch in piece.batches(Counter())
    ]
    assert np.concatenate(again).ravel().tolist() == [1000 * k + i for k in range(3) for i in range(120)]
    in_hand = next(open_table(np.full((3, 1), 12345.678)).pieces(["x1"]))
    assert not in_hand.public
    assert "12345" not in repr(in_hand)


def test_wide_tables_are_read_fewer_rows_at_a_time():
    sizes = [batch.num_rows for batch in blocks(open_table(np.zeros((3_000, 2_100))), ["x1"])]
    assert sum(sizes) == 3_000
    assert max(sizes) <= (1 << 22) // 2_100


def test_a_file_damaged_in_the_middle_is_named(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(0).normal(size=50_000)}), path, use_dictionary=False)
    raw = bytearray(path.read_bytes())
    raw[4:200_000] = bytes(199_996)
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"d\.parquet cannot be read to its end"):
        read(open_table(path))


def test_a_dask_frame_is_read_partition_by_partition():
    frames = pytest.importorskip("dask.dataframe")
    source = open_table(frames.from_pandas(pd.DataFrame(VALUES), npartitions=2))
    assert source.names == tuple(VALUES)
    assert sum(source.sizes()) == 4
    assert source.kinds() == {"x": "continuous", "näme, with comma": "integer"}
    assert len(list(source.pieces(["x"]))) == 2
    np.testing.assert_array_equal(read(source), np.column_stack([VALUES["x"], VALUES["näme, with comma"]]))


def test_partitions_that_dask_would_read_together_are_counted_one_by_one(tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    for part in range(4):  # so small, and of so many columns, that dask counts several in one step
        table = pa.table({"x": [float(part)] * (part + 1), **{f"other{k}": [0.0] * (part + 1) for k in range(50)}})
        pq.write_table(table, tmp_path / f"{part}.parquet")
    source = open_table(frames.read_parquet(tmp_path, filesystem="arrow"))
    held = [sum(batch.num_rows for batch in piece.batches(Counter())) for piece in source.pieces(["x"])]
    assert source.sizes() == held
    assert sorted(held) == [1, 2, 3, 4]


@pytest.mark.parametrize("others", [["q", "q"], ["", " "], [None, 1], [1, "1"], [("a", 1), float("nan")]], ids=str)
def test_columns_that_are_not_read_may_be_called_anything(others):
    frame = pd.DataFrame([[1.5, 7, 8], [2.5, 9, 10]])
    frame.columns = ["x", *others]
    frames = pytest.importorskip("dask.dataframe")
    for data in (frame, frames.from_pandas(frame, npartitions=2)):
        found = [floats(batch, ["x"]) for batch in blocks(open_table(data), ["x"])]
        assert np.vstack(found).ravel().tolist() == [1.5, 2.5]


def test_the_path_of_a_column_follows_from_its_type_and_not_from_its_cells():
    """One odd cell turns the categories of others into objects; a decimal or a moment must stay what it was."""
    moments = [pd.Timestamp("2020-01-01 10:00") + pd.Timedelta(f"{k}ms") for k in range(6)]
    prices = [Decimal(f"{k}.{37 * k % 100:02}5" + "0" * 20) for k in range(6)]
    for odd in (None, "x"):
        series = {"who": [odd or moments[0], *moments[1:]], "x": [odd or prices[0], *prices[1:]]}
        for kind in ("category", object):
            frame = pd.DataFrame({name: pd.Series(cells, dtype=object).astype(kind) for name, cells in series.items()})
            (batch,) = blocks(open_table(frame), ["x"], ["who"])
            assert batch.column("who").to_pylist()[1:] == [
                f"2020-01-01 10:00:00.{k:03}".rstrip("0") for k in range(1, 6)
            ]
            assert batch.column("x").to_pylist()[1:] == [float(price) for price in prices[1:]]


def test_text_of_numpys_with_numbers_that_are_no_characters_is_missing_there():
    data = np.array([["1", "2"], ["3", "4"]], dtype="U4")
    data.view(np.uint32).reshape(2, 2, 4)[1, 0, 0] = 0x110000
    for array in (data, data.astype(">U4") if sys.byteorder == "little" else data):
        if array is not data:
            array.view(">u4").reshape(2, 2, 4)[1, 0, 0] = 0x110000
        unread = Counter()
        (batch,) = blocks(open_table(array), ["x1", "x2"], ["x1"], unread)
        np.testing.assert_array_equal(floats(batch, ["x2"]).ravel(), [2, 4])
        assert batch.columns[0].to_pylist() == [1, None]
        assert batch.columns[2].to_pylist() == ["1", None]
        assert unread == {"x1": 1}


def test_a_long_word_in_many_rows_of_a_parquet_file_is_held_once(tmp_path):
    """Written out, 10 kB of file would be 2.4 GB: more than one array of text holds, and more than some machines."""
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 1150, pa.int32()), pa.array(["5" + " " * (1 << 21), "6"]))
    pq.write_table(pa.table({"x": words}), tmp_path / "d.parquet", store_schema=False)
    (batch,) = blocks(open_table(tmp_path / "d.parquet"), ["x"], ["x"])
    assert batch.columns[0].to_pylist() == [5.0, 6.0] * 1150
    assert batch.columns[1].to_pylist() == [None, "6"] * 1150


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_words_that_a_parquet_file_holds_as_differences_are_read_as_in_a_dictionary(tmp_path, encoding):
    """DuckDB and Spark choose by the number of words, so that one cell more decides how a column is written."""
    words = pa.table({"x": ["5", "6", None, "word"] * 3})
    pq.write_table(words, tmp_path / "one.parquet")
    pq.write_table(words, tmp_path / "other.parquet", use_dictionary=False, column_encoding={"x": encoding})
    one, other = (list(blocks(open_table(tmp_path / f"{name}.parquet"), ["x"], ["x"])) for name in ("one", "other"))
    assert other == one


def test_a_column_that_a_later_file_holds_twice_is_refused(tmp_path):
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table([[1.0], [2.0]], names=["x", "x"]), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet has two or more columns 'x'"):
        read(open_table(tmp_path))


def test_a_table_of_plain_rows_needs_names_that_are_its_own():
    for names, message in (([" ", "b"], "must have a name"), (["a", "a"], "must be unique")):
        with pytest.raises(DataError, match=message):
            check_names(open_table(pa.table([[1], [2]], names=names)).names)


def test_names_of_columns_that_are_not_read_do_not_matter(tmp_path):
    (tmp_path / "x.csv").write_text("x,c,c,\n1,2,3,4\n")
    for data in (tmp_path / "x.csv", pa.table([[1], [2], [3]], names=["x", "c", "c"])):
        assert [floats(batch, ["x"]).tolist() for batch in blocks(open_table(data), ["x"])] == [[[1.0]]]


@pytest.mark.skipif(not hasattr(pa, "opaque"), reason="a type of newer Arrows")
def test_a_type_on_which_arrow_ends_the_process_is_refused(tmp_path):
    kind = pa.opaque(pa.dictionary(pa.int32(), pa.string()), "word", "someone")
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), ["x", "y"])
    table = pa.table({"a": [1.0, 2.0, 3.0], "word": pa.ExtensionArray.from_storage(kind, words)})
    pq.write_table(table, tmp_path / "rows.parquet")
    assert sum(len(block) for block in blocks(open_table(tmp_path / "rows.parquet"), ["a"])) == 3
    with pytest.raises(DataError, match="'word' as a type that Arrow cannot read"):
        list(blocks(open_table(tmp_path / "rows.parquet"), ["a", "word"]))
