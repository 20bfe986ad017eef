"""Where the plan says that quoted cells may go over several lines, a file is read as RFC 4180 has it, in one stream."""

import csv
import io
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hazeglass.compute import lines
from hazeglass.compute.lines import BROKEN_LINES
from hazeglass.compute.tables import blocks, floats, open_table
from hazeglass.compute.text import TextFormat

TEXT = TextFormat(quoted_newlines=True)
NAN = float("nan")
ANY_FILE = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(path, numbers, ids=(), text=TEXT):
    source, unread = open_table(path, text), Counter()
    batches = list(blocks(source, numbers, ids, unread))
    assert sum(batch.num_rows for batch in batches) == sum(source.sizes())
    found = [floats(batch, numbers) for batch in batches]
    names = [cell for batch in batches for name in ids for cell in batch.column(name).to_pylist()]
    return np.vstack([np.zeros((0, len(numbers))), *found]), names, unread[BROKEN_LINES]


def written(path, rows, end="\r\n"):
    """As a program that knows CSV writes it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator=end, quoting=csv.QUOTE_NONNUMERIC).writerows(rows)


def small_chunks(monkeypatch, size):
    monkeypatch.setattr(lines, "RANGE_BYTES", size)
    monkeypatch.setattr(lines, "_CHUNK_BYTES", max(1, size // 2))


NOTES = st.text(alphabet='ab",;\n\r 1\u00e9', max_size=12)


@ANY_FILE
@given(
    st.lists(st.tuples(st.integers(-9, 9), NOTES), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([2, 3, 16, 1 << 20]),
)
def test_no_text_that_is_written_as_it_should_be_makes_or_hides_a_row(tmp_path, rows, end, size):
    """A note of several lines, quotes and separators is one cell, whatever it says."""
    written(tmp_path / "x.csv", [("id", "a", "note"), *((k, value, note) for k, (value, note) in enumerate(rows))], end)
    with pytest.MonkeyPatch.context() as patch:
        small_chunks(patch, size)
        found, _, broken = read(tmp_path / "x.csv", ["id", "a"])
    np.testing.assert_array_equal(found, [(k, value) for k, (value, _) in enumerate(rows)])
    assert broken == 0


def cells_of(text, mark=","):
    """The rows of a text, letter by letter: a quote opens at the start of a cell and closes before its end."""
    rows, row, cell, quoted, start, k = [], [], "", False, True, 0
    while k < len(text):
        letter, after = text[k], text[k + 1 : k + 3]
        if quoted and letter == '"' and after[:1] == '"':
            cell, k = cell + '"', k + 1
        elif quoted and letter == '"' and (after[:1] in ("", mark, "\n") or after == "\r\n"):
            quoted = False
        elif quoted:
            cell += letter
        elif letter == '"' and start:
            quoted = True
            k, start = k + 1, False
            continue
        elif letter in (mark, "\n"):
            row.append(cell)
            cell, start = "", True
            if letter == "\n":
                rows.append(row)
                row = []
            k += 1
            continue
        else:
            cell += letter
        start, k = False, k + 1
    if row or cell or not start or text[-1:] not in ("\n", ""):
        rows.append([*row, cell])
    return rows


@ANY_FILE
@given(st.text(alphabet='a1",\n\r', max_size=40), st.sampled_from([2, 3, 4, 7, 1 << 20]))
@example('1,"', 2)
@example('"a"\n"', 3)
@example('"a""\n",1\n"b"', 4)
@example('"a"\r\n"b"x"\n,2', 3)
def test_any_bytes_make_as_many_rows_as_the_rule_says(tmp_path, text, size):
    (tmp_path / "x.csv").write_text("x,note\n" + text, newline="", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        small_chunks(patch, size)
        found, _, _ = read(tmp_path / "x.csv", ["x"])
    assert len(found) == len(cells_of(text))


@pytest.mark.parametrize("size", [16, 300, 1 << 23])
def test_a_note_cannot_put_in_rows_of_its_own(tmp_path, monkeypatch, size):
    small_chunks(monkeypatch, size)
    note = "\n" + "\n".join(f"q{k},1," for k in range(100)) + "\n"
    rows = [("who", "x", "note"), *(("p", 0, "") for _ in range(50)), ("m", 0, note), ("p", 0, "")]
    written(tmp_path / "x.csv", rows)
    assert read(tmp_path / "x.csv", ["x"])[0].ravel().tolist() == [0.0] * 52


@pytest.mark.parametrize("length", [100, 1 << 20, (1 << 24) + 5])
def test_a_cell_of_any_length_stays_one_cell(tmp_path, length):
    """More than 16 MiB are a row of missing cells, and still one."""
    written(
        tmp_path / "x.csv",
        [("who", "x", "note"), ("p", 1, ""), ("m", 2, "ghost,9,9\n" * 50 + "y" * length), ("p", 3, "")],
    )
    found, _, broken = read(tmp_path / "x.csv", ["x"])
    np.testing.assert_array_equal(found.ravel(), [1, NAN if length > 1 << 24 else 2, 3])
    assert broken == (length > 1 << 24)


@pytest.mark.parametrize("row", ['P,1,x,"\nghost,1,2\nghost,2,3\n"', '"\nghost,1,2\n"', '"P\n",1,2,3'])
def test_a_row_with_the_wrong_number_of_fields_is_one_broken_row(tmp_path, row):
    (tmp_path / "x.csv").write_text(f"who,x,note\np,1,a\n{row}\np,2,b\n")
    found, _, broken = read(tmp_path / "x.csv", ["x"])
    np.testing.assert_array_equal(found.ravel(), [1, NAN, 2])
    assert broken == 1


@pytest.mark.parametrize("rest", ['"b\nc,2\nd,3\n', 'b,"2\nc,3\nd"x,3', '"b\nc,3\nd"x,4\n'])
def test_a_quote_that_is_never_closed_makes_one_broken_row_of_what_it_took(tmp_path, rest):
    (tmp_path / "x.csv").write_text("who,x\na,1\n" + rest)
    found, _, broken = read(tmp_path / "x.csv", ["x"])
    np.testing.assert_array_equal(found.ravel(), [1, NAN])
    assert broken == 1


def test_a_line_end_in_an_id_is_no_part_of_it_in_any_way_in(tmp_path):
    written(tmp_path / "x.csv", [("who", "x"), ("ann\nlee", 1), ("ann\r\nlee", 2), ("bo", 3)], "\n")
    assert read(tmp_path / "x.csv", ["x"], ["who"])[1] == ["annlee", "annlee", "bo"]


def test_names_may_go_over_several_lines_too(tmp_path):
    (tmp_path / "x.csv").write_bytes(b'\xef\xbb\xbf"x\n1",y\n1,2\n"3\n",4\n')
    source = open_table(tmp_path / "x.csv", TEXT)
    assert source.names == ("x\v1", "y")
    np.testing.assert_array_equal(read(tmp_path / "x.csv", ["y"])[0].ravel(), [2, 4])


def test_what_the_csv_module_writes_it_reads_as_well_as_the_module(tmp_path):
    rng = np.random.default_rng(2)
    tokens = ["\n", "\r\n", '"', ",", " ", "a", "1", "\t", "\ufeff", '""', "\\"]
    rows = [[str(k), "".join(rng.choice(tokens, rng.integers(0, 7)))] for k in range(3000)]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([["x", "note"], *rows])
    (tmp_path / "x.csv").write_text(text.getvalue(), newline="", encoding="utf-8")
    found, _, broken = read(tmp_path / "x.csv", ["x"])
    assert found.ravel().tolist() == list(range(3000))
    assert broken == 0
