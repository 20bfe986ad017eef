"""Every line of a CSV file is a row and is read alone: no cell, quote or byte changes how another line is read."""

import csv
import errno
import gzip
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hazeglass as hg
from hazeglass.compute import lines
from hazeglass.compute.lines import BROKEN_LINES, LineReader, _carriage_returns_as_letters, csv_header, line_pieces
from hazeglass.compute.places import Place
from hazeglass.compute.tables import blocks, floats, open_table
from hazeglass.compute.text import TextFormat
from hazeglass.errors import DataError

NAN = float("nan")


def reader(columns=2, **text):
    return LineReader(Place("x.csv"), TextFormat(**text), [f"c{k}" for k in range(columns)])


def rows_of(block, columns=2, **text):
    names, unread = [f"c{k}" for k in range(columns)], Counter()
    found = reader(columns, **text).columns(block, names, (), unread)
    return np.column_stack([found[name].to_numpy(zero_copy_only=False) for name in names]), unread


def read(path, unread=None, **text):
    source = open_table(path, TextFormat(**text))
    return np.vstack([floats(batch, source.names) for batch in blocks(source, source.names, unread=unread)])


PLAIN = [
    b"1",
    b"-2.5",
    b"+3",
    b" 4 ",
    b"1e5",
    b"",
    b"NA",
    b"x",
    b"inf",
    b"1e999",
    b"nan",
    b"nan(1)",
    b"1\t",
    b".5",
    b"5.",
]
ODD = [b'"5"', b'"6', b'7"', b'"1"2', b"1,5", b"\xff", b"\r", b"0x10", b"1_0", b"--1", b"\x00", b'""', b'"a""b"', b"=1"]
CELLS = st.sampled_from([*PLAIN, *ODD])
LINES = st.lists(CELLS, max_size=4).map(b",".join)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=8))
@example([b'1,"2', b'3",4'])
@example([b"1,2\r3,4", b"5"])
@example([b"1,inf", b"x,nan(1)"])
def test_a_line_reads_the_same_alone_and_among_others(some):
    together, _ = rows_of(b"".join(line + b"\n" for line in some))
    alone = np.vstack([rows_of(line + b"\n")[0] for line in some])
    np.testing.assert_array_equal(together, alone)
    assert together.shape == (len(some), 2)


@settings(max_examples=200, deadline=None)
@given(st.lists(CELLS.filter(lambda cell: b"\r" not in cell and b'"' not in cell), min_size=1, max_size=20))
def test_a_column_of_one_keeps_every_line(cells):
    """A blank line is a missing cell, not a line to be dropped."""
    found, _ = rows_of(b"".join(cell.replace(b",", b"") + b"\n" for cell in cells), columns=1)
    assert len(found) == len(cells)


@pytest.mark.parametrize(
    ("line", "cells", "unread"),
    [
        (b"1,2", [1, 2], {}),
        (b"1,2,3", [NAN, NAN], {BROKEN_LINES: 1}),
        (b"1", [NAN, NAN], {BROKEN_LINES: 1}),
        (b"", [NAN, NAN], {}),
        (b'"1,2', [NAN, NAN], {BROKEN_LINES: 1}),
        (b"1,\xff", [1, NAN], {"c1": 1}),
        (b"one,2", [NAN, 2], {"c0": 1}),
        (b"NA, NA ", [NAN, NAN], {}),
        (b'"1","2"', [1, 2], {}),
        (b"inf,-Infinity", [np.inf, -np.inf], {}),
        (b"1e999,-1e999", [np.inf, -np.inf], {}),
        (b"+1,\t2 ", [1, 2], {}),
    ],
)
def test_what_a_line_means_and_what_is_counted(line, cells, unread):
    for block in (line + b"\n", b"5,6\n" + line + b"\n7,8\n", b"x,y,z\n" + line + b"\n"):
        found, _ = rows_of(block)
        at = block.split(b"\n").index(line)
        np.testing.assert_array_equal(found[at], cells)
    assert {name: count for name, count in rows_of(line + b"\n")[1].items() if count} == unread


def test_lines_do_not_depend_on_where_the_file_is_cut(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    content = b"a,b\n" + b"".join(
        rng.choice([b"1,2", b"33333,4", b'"', b"", b'5,"6"', b"7,8,9", b"x" * 40 + b",1"]) + b"\n" for _ in range(200)
    )
    for text in (content, content[:-1], content.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + content):
        (tmp_path / "x.csv").write_bytes(text)
        expected, counted = None, None
        for size in (1 << 23, 1, 2, 7, 64, 1000):
            monkeypatch.setattr(lines, "RANGE_BYTES", size)
            source, unread = open_table(tmp_path / "x.csv"), Counter()
            batches = [floats(batch, "ab") for batch in blocks(source, "ab", unread=unread)]
            found = np.vstack(batches)
            assert sum(source.sizes()) == len(found) == 200
            expected, counted = (found, unread) if expected is None else (expected, counted)
            np.testing.assert_array_equal(found, expected)
            assert unread == counted


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "utf-8", "utf-8-sig"])
def test_other_encodings_and_separators_come_from_the_plan(tmp_path, encoding):
    text = "größe;b\n1,5;x\n-2;3\nÄ;4\n"
    (tmp_path / "x.csv").write_bytes(text.encode(encoding))
    source = open_table(tmp_path / "x.csv", TextFormat(separator=";", decimal=",", encoding=encoding))
    assert source.names == ("größe", "b")
    found = read(tmp_path / "x.csv", separator=";", decimal=",", encoding=encoding)
    np.testing.assert_array_equal(found, [[1.5, NAN], [-2, 3], [NAN, 4]])


@pytest.mark.parametrize("size", [3, 4, 1 << 23])
@pytest.mark.parametrize("text", [{}, {"encoding": "latin-1"}, {"quoted_newlines": True}], ids=str)
def test_a_last_cell_alone_in_its_row_does_not_show_in_their_number(tmp_path, monkeypatch, size, text):
    """The second file is the first with its last cell missing; no reader can see that it was there."""
    monkeypatch.setattr(lines, "RANGE_BYTES", size)
    for last in (b"3", b"", b"333333"):
        (tmp_path / "x.csv").write_bytes(b"a\n1\n2\n" + last)
        source = open_table(tmp_path / "x.csv", TextFormat(**text))
        unread = Counter()
        found = [floats(batch, ["a"]) for batch in blocks(source, ["a"], unread=unread)]
        assert np.vstack(found).ravel().tolist() == [1, 2]
        assert sum(source.sizes()) == 2
        assert unread.total() == bool(last)
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,2\n3,4")
    assert sum(open_table(tmp_path / "x.csv", TextFormat(**text)).sizes()) == 2


def test_a_point_is_no_decimal_mark_where_the_plan_says_comma(tmp_path):
    """One cell must not decide how others are read, and neither must the reader: 1.234 is not a number here."""
    (tmp_path / "x.csv").write_text("a;b\n1.234;1,5\n")
    np.testing.assert_array_equal(read(tmp_path / "x.csv", separator=";", decimal=","), [[NAN, 1.5]])


def test_packed_files_and_tabs(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "RANGE_BYTES", 16)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 50 + b"\n3,4"))
    found = read(tmp_path / "x.csv.gz")
    assert len(found) == 52 == sum(open_table(tmp_path / "x.csv.gz").sizes())
    np.testing.assert_array_equal(found[-2:], [[NAN, NAN], [3, 4]])
    (tmp_path / "x.tsv").write_text("a\tb\n1\t2\n")
    np.testing.assert_array_equal(read(tmp_path / "x.tsv"), [[1, 2]])


class Failing:
    """A file on a disk that breaks behind the first bytes."""

    def __init__(self, file, good):
        self.file, self.left = file, good

    def read(self, size):
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "Input/output error")
        return self.file.read(size)

    def seek(self, at):
        self.file.seek(at)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


@pytest.mark.parametrize("good", range(6))
def test_a_file_whose_disk_breaks_is_named_wherever_it_is_read(make_plan, tmp_path, monkeypatch, good):
    """Told by the system alone, it was taken for a place that cannot be written."""
    (tmp_path / "meters.csv").write_text("a,b,c\n" + "1,2,3\n" * 100)
    opened, reads = Place._opened, [good]

    def broken(place, how, **options):
        reads[0] -= 1
        return Failing(opened(place, how, **options), good=1 if reads[0] >= 0 else 0)

    monkeypatch.setattr(lines, "RANGE_BYTES", 200)
    monkeypatch.setattr(Place, "_opened", broken)
    with pytest.raises(DataError, match=r"meters\.csv cannot be read to its end; it may be damaged or out of reach"):
        hg.publish(tmp_path / "meters.csv", make_plan(), tmp_path / "out", engine="serial")
    assert [path.name for path in tmp_path.iterdir()] == ["meters.csv"]


def test_a_file_without_a_header_takes_the_plans_names(tmp_path):
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    source = open_table(tmp_path / "x.csv", TextFormat(header=False, names=("p", "q")))
    assert source.names == ("p", "q")
    assert sum(source.sizes()) == 2
    assert read(tmp_path / "x.csv", header=False, names=("p", "q")).tolist() == [[1, 2], [3, 4]]


def test_a_file_with_names_alone_has_no_rows(tmp_path):
    for text in ("a,b", "a,b\n", "a,b\r\n"):
        (tmp_path / "x.csv").write_bytes(text.encode())
        assert sum(open_table(tmp_path / "x.csv").sizes()) == 0
        assert csv_header(Place(str(tmp_path / "x.csv")), TextFormat())[0] == ("a", "b")
    assert [rows for _, rows in line_pieces(Place(str(tmp_path / "x.csv")), TextFormat())] == [0]


def test_a_header_that_cannot_be_read_is_refused_in_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_bytes(b"\n1,2\n")
    with pytest.raises(DataError, match=r"first line"):
        open_table(tmp_path / "x.csv")
    monkeypatch.setattr(lines, "_LONGEST_HEADER", 1 << 20)
    (tmp_path / "x.csv").write_bytes(b"a" * (3 << 20) + b"\n1\n")
    with pytest.raises(DataError, match=r"first line .* longer"):
        open_table(tmp_path / "x.csv")


@pytest.mark.parametrize("quoted_newlines", [False, True])
@pytest.mark.parametrize("length", [200_000, (1 << 24) + 5])
def test_however_long_the_name_of_another_column_is_the_rows_are_read(tmp_path, length, quoted_newlines):
    (tmp_path / "x.csv").write_bytes(b"a,b,%b\n1,2,3\n4,5,6\n" % (b"c" * length))
    expected = [[1, 2], [4, 5]]
    source = open_table(tmp_path / "x.csv", TextFormat(quoted_newlines=quoted_newlines))
    assert sum(source.sizes()) == 2
    assert [floats(batch, ["a", "b"]).tolist() for batch in blocks(source, ["a", "b"])] == [expected]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='ab,;"| \\\v', max_size=12), st.sampled_from(",;| "))
def test_a_header_is_cut_as_pythons_csv_cuts_it(line, mark):
    (expected,) = csv.reader([line], delimiter=mark) or [[]]
    assert lines._fields(line, mark) == (expected or [""])


@pytest.mark.parametrize("other", [b"caf\xe9", b'"a"b', b'"ab', b"a\rb", b"\x00", b""])
def test_how_another_column_is_called_is_no_reason_to_refuse(tmp_path, other):
    (tmp_path / "x.csv").write_bytes(b"who,x," + other + b"\np,1,2\nq,3,4\n")
    assert read_x(tmp_path / "x.csv").tolist() == [1, 3]


def read_x(path):
    source = open_table(path)
    return np.vstack([floats(batch, ["x"]) for batch in blocks(source, ["x"])]).ravel()


@pytest.mark.parametrize("stray", ['"m,5', 'm,"5', '"m"x,5', '"m,5\n"a"b,6'])
def test_a_quote_that_is_not_closed_ends_with_its_line(tmp_path, stray):
    rows = ["p,1", stray, "p,2", '"p",3', '"p","4"', "p,5"]
    (tmp_path / "x.csv").write_text("\n".join(["who,x", *rows]) + "\n")
    found = read_x(tmp_path / "x.csv")
    assert [value for value in found if not np.isnan(value) and value < 5] == [1, 2, 3, 4]
    assert len(found) == 6 + stray.count("\n")


def test_two_stray_quotes_take_no_line_between_them(tmp_path):
    rows = [f"{k},{k}" for k in range(1000)]
    (tmp_path / "x.csv").write_text("\n".join(["who,x", '"a,1', *rows, 'b",1', 'c,"2"']) + "\n")
    found = read_x(tmp_path / "x.csv")
    assert found[1:1001].tolist() == list(range(1000))
    np.testing.assert_array_equal(found[[0, 1001, 1002]], [NAN, 1, 2])


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("size", [3, 4, 5, 1 << 23])
def test_a_carriage_return_that_ends_no_line_is_a_letter_of_its_cell(tmp_path, monkeypatch, encoding, size):
    """Whatever a file is cut into; programs that know CSV put no quotes around such a cell."""
    monkeypatch.setattr(lines, "RANGE_BYTES", size)
    monkeypatch.setattr(lines, "_CHUNK_BYTES", size)
    (tmp_path / "x.csv").write_bytes(b'x,note\r\n1,"a\rb"\r\n2,plain\n3,a\rb\n4\r,5\n6,\r\r\n7,8\r')
    source, unread = open_table(tmp_path / "x.csv", TextFormat(encoding=encoding)), Counter()
    batches = list(blocks(source, ["x"], ["note"], unread))
    np.testing.assert_array_equal(np.vstack([floats(batch, ["x"]) for batch in batches]).ravel(), [1, 2, 3, NAN, 6, 7])
    assert [cell for batch in batches for cell in batch.column("note").to_pylist()] == [
        "ab", "plain", "ab", "5", None, "8",
    ]  # fmt: skip
    assert unread == {"x": 1, BROKEN_LINES: 0} or unread == {"x": 1}


def test_words_for_missing_cells_may_look_like_numbers(tmp_path):
    (tmp_path / "x.csv").write_text('x,y\n-999,1\n -999 ,2\n-999.0,3\n"-999",4\n5,-999\n')
    found = read(tmp_path / "x.csv", missing=("", "-999"))
    np.testing.assert_array_equal(found, [[NAN, 1], [NAN, 2], [-999, 3], [NAN, 4], [5, NAN]])


def test_an_empty_file_without_a_header_has_no_rows(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"")
    assert sum(open_table(tmp_path / "x.csv", TextFormat(header=False, names=("a",))).sizes()) == 0
    with pytest.raises(DataError, match="is empty"):
        open_table(tmp_path / "x.csv")


def test_names_of_packed_files_may_be_in_capitals(tmp_path):
    (tmp_path / "X.CSV.GZ").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read(tmp_path / "X.CSV.GZ").tolist() == [[1, 2]]


def test_a_cell_of_carriage_returns_alone_takes_no_longer_than_another():
    started = time.process_time()
    found = b"".join(_carriage_returns_as_letters(iter([b"1," + b"\r" * 15_000_000 + b"\r\n", b"2,\r3\r\n"])))
    assert found == b"1," + b"\v" * 15_000_000 + b"\r\n2,\v3\r\n"
    assert time.process_time() - started < 1
