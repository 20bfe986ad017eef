"""What one line or one cell holds changes no other: not how it is read, not how many there are, not that it is read."""

import datetime
import string
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hazeglass.bundle.columns import TRANSFORMS
from hazeglass.compute import lines, tables
from hazeglass.compute.cells import number_column
from hazeglass.compute.ids import canonical_id, id_column
from hazeglass.compute.text import TextFormat

TEXT = TextFormat()
MANY = settings(max_examples=120, suppress_health_check=list(HealthCheck))

ODD_CELLS = (
    '1|0.5||NA| 1 |"2"|" 2"|+3|inf|-Infinity|INF|1e400|1e-400|.5|5.|nan|-nan|NaN |nan(1)|x|"a""b"|"|a"b|0x10|1_0|1e|1e5'
    '|1E+05|\t1|1\r|\r|\0|1\0|1,5|infin|1d0|1f|00012|-0|--1|\ufeff1|\u22121|\u00a01|""|"1" | "1"|true|#N/A'
)
CELLS = st.one_of(
    st.sampled_from([cell.encode() for cell in ODD_CELLS.split("|")] + [b"\xff", b"9" * 400, b"0." + b"3" * 800]),
    st.binary(max_size=6),
)
LINES = st.one_of(
    st.lists(CELLS, min_size=3, max_size=3).map(b",".join), st.lists(CELLS, max_size=5).map(b",".join), CELLS
).map(lambda line: line.replace(b"\n", b""))
TEXTS = [
    TEXT,
    TextFormat(missing=("?",)),
    TextFormat(decimal=",", separator=";"),
    TextFormat(trim=False),
    TextFormat(thousands=","),
    TextFormat(decimal=",", separator=";", thousands="."),
    TextFormat(header=False, names=("a", "b", "c")),
    *(TextFormat(encoding=name) for name in ("latin-1", "ascii", "utf-8-sig", "gb18030", "shift_jis", "euc_jisx0213")),
]


@pytest.fixture(scope="module", autouse=True)
def short_stretches():
    """Boundaries between what is read at a time, every few lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "RANGE_BYTES", 60)
        patch.setattr(lines, "_CHUNK_BYTES", 23)
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("csv") / "d.csv"


def rows_of(data, text, numbers, ids=()):
    source = tables.open_table(data, text)
    batches = list(tables.blocks(source, numbers, ids))
    assert [sum(batch.num_rows for batch in batches)] == [sum(source.sizes())]
    return [row for batch in batches for row in zip(*(map(_shown, column) for column in batch.columns), strict=True)]


def _shown(cell):
    """What is not a number is a missing cell."""
    return str(cell).replace("nan", "None")


def check_others(file, head, rows, k, other, text, columns, newline):
    """All rows but number k stay what they are when its line is replaced."""

    def read(found):
        file.write_bytes(newline.join([*head, *found, b""]))
        return rows_of(file, text, *columns)

    before, after = read(rows), read([*rows[:k], other, *rows[k + 1 :]])
    assert len(before) == len(after) == len(rows)
    assert [*before[:k], *before[k + 1 :]] == [*after[:k], *after[k + 1 :]]


@MANY
@given(st.lists(LINES, min_size=2, max_size=12), LINES, st.integers(0), st.sampled_from(TEXTS), st.booleans())
@example([b"1,2,x", b"\xef\xbb\xbf1,2,x"] * 6, b"9" * 70, 0, TEXT, False)
@example([b"1,2,x"] * 9 + [b'4,5,", Apt 5"', b"6,7,x"], b'1,"oops', 2, TEXT, False)
@example([b"1,2,x"] * 9 + [b'5",2,3', b"6,7,x"], b'"3,4,5', 2, TEXT, True)
def test_a_line_replaced_by_any_bytes_changes_no_other_row(file, rows, other, k, text, crlf):
    mark = (text.separator or ",").encode()
    rows, other = [row.replace(b",", mark) for row in rows], other.replace(b",", mark)
    head = [mark.join([b"a", b"b", b"c"])] if text.header else []
    check_others(file, head, rows, k % len(rows), other, text, (("a", "b"), ("c",)), b"\r\n" if crlf else b"\n")


@MANY
@given(st.lists(LINES, min_size=2, max_size=12), LINES, st.integers(0), st.sampled_from(TEXTS), st.booleans())
@example([b"1", b"\xef\xbb\xbf1"], b"9" * 70, 0, TEXT, False)
@example([b"1", b"2", b""], b"", 1, TEXT, True)
def test_the_same_holds_for_files_of_one_column(file, rows, other, k, text, crlf):
    if text.header:
        check_others(file, [b"a"], rows, k % len(rows), other, text, (("a",),), b"\r\n" if crlf else b"\n")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32-be", "shift_jis", "gb18030", "cp1252"])
def test_bytes_that_an_encoding_does_not_have_stay_in_their_line(tmp_path, encoding):
    """As many bytes as a character takes: a file that lost a byte of a wide character is damaged as a whole."""
    path, text = tmp_path / "d.csv", TextFormat(encoding=encoding)
    lines = [f"{k},2\n".encode(encoding) for k in range(5)]
    bad = {"utf-16-le": b"\x00\xd8", "utf-32-be": b"\xff\xff\xff\xff"}.get(encoding, b"\x81")
    lines[2] = bad + lines[2][:-1] + lines[2][-1:]
    path.write_bytes("a,b\n".encode(encoding) + b"".join(lines))
    source = tables.open_table(path, text)
    found = np.vstack([tables.floats(batch, ["a", "b"]) for batch in tables.blocks(source, ["a", "b"])])
    np.testing.assert_array_equal(found[[0, 1, 3, 4]], [[0, 2], [1, 2], [3, 2], [4, 2]])
    assert np.isnan(found[2, 0])


def test_half_a_character_takes_no_newline_with_it(file):
    for encoding, half in (("gb18030", b"\xbf1"), ("shift_jis", b"\x81"), ("euc_jisx0213", b"\x8f")):
        for last in (b"1", half, half + b"1"):
            file.write_bytes(b"a\n1\n" + last + b"\n")
            assert len(rows_of(file, TextFormat(encoding=encoding), ("a",))) == 2


@pytest.mark.parametrize("text", [TEXT, TextFormat(encoding="latin-1")], ids=["stretches", "stream"])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("length", [99, 100, 101, 102, 150, 1000])
def test_a_line_too_long_to_be_a_row_is_a_row_of_missing_cells(file, monkeypatch, text, columns, length):
    """A line of two GiB would be more than the parser takes, and one of any length more than the memory holds."""
    monkeypatch.setattr(lines, "_LONGEST_LINE", 100)
    head, row, long = (b"a", b"1", b"0" * length) if columns == 1 else (b"a,b", b"1,x", b"1," + b"x" * (length - 2))
    for end in (b"\n", b""):
        for before in range(0, 70, 7):
            file.write_bytes(b"\n".join([head, *[row] * before, long, *[row] * 30, long]) + end)
            found = [a for a, *_ in rows_of(file, text, ("a",))]
            read = "None" if length > 100 else "0.0" if columns == 1 else "1.0"
            last = [read] if end or columns > 1 else []  # a single cell is a row once a newline ends it
            assert found == [*["1.0"] * before, read, *["1.0"] * 30, *last]


class _Odd:
    """Neither a number nor text, and not even able to say so."""

    def __str__(self):
        raise RuntimeError("no")

    __float__ = __index__ = __int__ = __len__ = __bool__ = __str__

    def __repr__(self):
        return "_Odd()"


class _OddFraction(Fraction):
    def __float__(self):
        raise RuntimeError("no")


OBJECTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=6),
    st.text(string.digits + "+-.,eE ", max_size=6),
    st.binary(max_size=6),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.uuids(),
    st.lists(st.integers(), max_size=2),
    st.sampled_from([_Odd(), _OddFraction(1, 3), pd.NA, pd.NaT, np.float16(2), np.float32(0.1), np.longdouble(3)]),
    st.sampled_from([10**5000, -(10**5000), 10**400, Decimal("sNaN"), Decimal("1e999999"), "\ud800", {}, object]),
    st.sampled_from(
        [np.datetime64("2020"), np.timedelta64(3, "D"), np.array([1.0, 2.0]), np.array(3), np.complex64(1)]
    ),
)


@MANY
@given(st.lists(OBJECTS, min_size=1, max_size=8), OBJECTS, st.integers(0), st.sampled_from(TEXTS[:4]))
def test_an_object_of_any_kind_changes_no_other_cell_of_a_frame(objects, other, k, text):
    k %= len(objects)

    def read(cells):
        series = pd.Series([None] * len(cells), dtype=object)
        for row, cell in enumerate(cells):
            series.iat[row] = cell
        return rows_of(pd.DataFrame({"a": series, "b": series}), text, ("a",), ("b",))

    before, after = read(objects), read([*objects[:k], other, *objects[k + 1 :]])
    assert [*before[:k], *before[k + 1 :]] == [*after[:k], *after[k + 1 :]]


WHEN = datetime.datetime(2025, 1, 2, 3, 4, 5)
TYPED = [
    pa.array([1, None], pa.uint64()),
    pa.array([np.float16(1), None], pa.float16()),
    pa.array([True, None]),
    pa.array([Decimal("1.5"), None], pa.decimal256(50, 3)),
    pa.array([None, None]),
    pa.array([[1.0], None]),
    pa.array([{"x": 1.0}, None]),
    pa.array([WHEN, None]),
    pa.array([WHEN, None], pa.timestamp("ns", "Europe/Paris")),
    pa.array([WHEN.date(), None]),
    pa.array([WHEN.time(), None]),
    pa.array([datetime.timedelta(1), None]),
    pa.array([pa.MonthDayNano([1, 2, 3]), None]),
    pa.array([b"1", b"\xff"], pa.binary()),
    pa.array([b"1", None], pa.binary(1)),
    pa.array(["1", None], pa.string_view()),
    pa.array([b"1", b"\xff"], pa.binary_view()),
    pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    pa.array(["1", "x", None]).dictionary_encode("encode"),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([None, "2"])),
    pa.RunEndEncodedArray.from_arrays(pa.array([1, 3]), pa.array([1.0, None])),
    pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])]),
    pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16))),
]


@pytest.mark.parametrize("array", TYPED, ids=lambda array: str(array.type)[:40])
def test_a_column_of_any_type_gives_a_number_or_nothing_for_each_cell(array):
    for column in (array, pa.chunked_array([array, array[:1], array])):
        numbers, unread = number_column(column, TEXT)
        ids = id_column(column, TEXT)
        assert numbers.type == pa.float64()
        assert ids.type == pa.string()
        assert len(numbers) == len(ids) == len(column)
        assert 0 <= unread <= len(column)


class Days(pa.ExtensionType):
    """What a library of its own knows, as pandas its periods."""

    def __init__(self, storage):
        super().__init__(storage, "hazeglass.test.days")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(storage)


@pytest.mark.parametrize("storage", [pa.int64(), pa.float64(), pa.string()], ids=str)
def test_a_type_means_the_same_whether_its_library_is_loaded_or_not(storage, tmp_path):
    """Workers of a cluster need not have loaded what the caller has."""
    cells = pa.array([7, 8, None]).cast(storage)
    pa.register_extension_type(Days(storage))
    try:
        pq.write_table(pa.table({"a": pa.ExtensionArray.from_storage(Days(storage), cells)}), tmp_path / "d.parquet")
        loaded = read_both_ways(tmp_path / "d.parquet")
    finally:
        pa.unregister_extension_type("hazeglass.test.days")
    assert read_both_ways(tmp_path / "d.parquet") == loaded
    assert loaded == ([([7, 8, None], ["7", "8", None])] if storage == pa.string() else [([None] * 3, [None] * 3)]) * 2


def read_both_ways(file):
    return [
        tuple(
            batch.column(0).to_pylist()
            for asked in ((("a",), ()), ((), ("a",)))
            for batch in tables.blocks(source, *asked)
        )
        for source in (tables.open_table(file), tables.open_table(pq.read_table(file)))
    ]


def test_dictionaries_of_several_chunks_need_not_go_together():
    """A missing cell among a dictionary's values made Arrow refuse to join it with the next one."""
    chunks = [pa.array(cells).dictionary_encode("encode") for cells in (["1", None], ["2", "1"], [None, "3"])]
    numbers, _ = number_column(pa.chunked_array(chunks), TEXT)
    assert numbers.to_pylist() == [1, None, 2, 1, None, 3]
    assert id_column(pa.chunked_array(chunks), TEXT).to_pylist() == ["1", None, "2", "1", None, "3"]


def test_one_person_has_one_id_with_a_decimal_comma():
    comma = TextFormat(separator=";", decimal=",")
    assert {canonical_id(cell, comma) for cell in ("7", "7,0", " 07,00 ", "7e0", 7.0, "7.0", Decimal("7.0"))} == {"7"}
    assert canonical_id("7,0", TEXT) == "7,0"


def test_a_float_names_nobody_where_its_width_makes_it_several_numbers():
    """16,777,217 becomes 16,777,216 in 32 bits, and would be another person than in a file of integers."""
    assert canonical_id(np.float32(16_777_217), TEXT) is None
    assert canonical_id(np.float64(16_777_217), TEXT) == canonical_id(16_777_217, TEXT) == "16777217"
    assert id_column(pa.array(np.array([7, 16_777_217], dtype=np.float32)), TEXT).to_pylist() == ["7", None]
    assert id_column(pa.array(np.array([7, 2049], dtype=np.float16)), TEXT).to_pylist() == ["7", None]


@pytest.mark.parametrize("cell", ["\ud800", 10**5000, _Odd(), b"\xff"], ids=["half", "long", "odd", "bytes"])
def test_an_id_that_cannot_be_written_is_nobodys_and_stops_nothing(cell):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Series([cell, 7], dtype=object)})
    assert rows_of(frame, TEXT, ("a",), ("b",)) == [("1.0", "None"), ("2.0", "7")]


@pytest.mark.parametrize("word", ["9" * 700, f"2024-01-01T00:00:00.{'9' * 700}"])
def test_an_id_of_more_digits_than_python_was_told_to_read_stops_nothing(word):
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert id_column(pa.array(["7", word, "8"]), TEXT).to_pylist() == ["7", None, "8"]
    finally:
        sys.set_int_max_str_digits(before)


def test_text_that_is_none_is_nobodys_id_even_where_the_column_says_it_is_text():
    """Nothing checks the bytes of an Arrow or Parquet column of strings before they are used."""
    buffers = pa.array(["7", "xx"]).buffers()
    column = pa.Array.from_buffers(pa.string(), 2, [*buffers[:2], pa.py_buffer(b"7\xff\xfe")])
    assert id_column(column, TEXT).to_pylist() == ["7", None]
    assert number_column(column, TEXT)[0].to_pylist() == [7, None]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transform_gives_a_cell_the_same_bits_wherever_it_stands(transform):
    """Vector instructions may round otherwise than what does the rest of a block."""
    cells = np.random.default_rng(3).uniform(1e-3, 1e4, 4000)
    whole = TRANSFORMS[transform].apply(cells)
    for size in (1, 3, 7, 8, 13, 1001):
        parts = [TRANSFORMS[transform].apply(cells[k : k + size].copy()) for k in range(0, cells.size, size)]
        assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_no_count_of_unread_cells_depends_on_how_they_are_cut(frame, monkeypatch):
    data = frame({"a": ["1", "x", "2", "y", None, "NA"]})
    counts = []
    for rows in (1, 2, 100):
        monkeypatch.setattr(tables, "BLOCK_ROWS", rows)
        unread = Counter()
        list(tables.blocks(tables.open_table(data), ("a",), unread=unread))
        counts.append(unread["a"])
    assert counts == [2, 2, 2]
