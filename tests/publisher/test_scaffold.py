"""A first plan says what it rests on, suggests no bound, and is whole or not there."""

import gzip
import time
import tomllib

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.mutations import one_sentence

import hazeglass as hg
import hazeglass.publisher.scaffold as scaffold
from hazeglass.compute.text import FIRST_BYTES, MISSING_WORDS, TextFormat
from hazeglass.errors import DataError, HazeglassError, HazeglassWarning, OutputError, PlanError
from hazeglass.publisher.scaffold import look_at, write_scaffold

TABLE = pa.table({"a": [1.0, 2.0], "b": [1, 2], "name": ["x", "y"]})


def lines(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return str(path)


def test_declared_kinds_are_taken_as_they_are(tmp_path):
    look = write_scaffold(TABLE, tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text()
    assert (look.proposed, look.left_out, look.text) == ({"a": "continuous", "b": "integer"}, ["name"], None)
    assert text.count("\n[[columns]]") == 2
    assert '# name = "name"\n# kind = "categorical"\n# levels =\n' in text  # text may be levels
    assert 'name = "a"\nkind = "continuous"\n' in text
    assert 'name = "b"\nkind = "integer"\n' in text
    assert "\nlower" not in text  # a bound is never suggested
    assert "guess" not in text
    assert "[text]" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def test_parquet_and_frames_are_opened_without_reading_a_cell(tmp_path, monkeypatch):
    pq.write_table(TABLE, tmp_path / "d.parquet")
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_: pytest.fail("a cell was read"))
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("a cell was read"))
    assert look_at(tmp_path / "d.parquet").kinds == {"a": "continuous", "b": "integer", "name": "text"}
    assert look_at(pd.DataFrame({"a": [1.5], "b": [1]})).kinds == {"a": "continuous", "b": "integer"}


def test_what_a_csv_suggests_is_marked_as_a_guess(tmp_path):
    look = write_scaffold(lines(tmp_path / "d.csv", "id;volt;name;n\n1;1,5;x;3\n2;2,5;y;4\n"), tmp_path / "plan.toml")
    assert look.text == TextFormat(";", ",")
    assert look.left_out == ["id", "name"]
    text = (tmp_path / "plan.toml").read_text()
    guess = "   # a guess from the first lines: confirm or change"
    for line in ('separator = ";"', 'decimal = ","', 'encoding = "utf-8"', 'kind = "integer"', 'kind = "continuous"'):
        assert line + guess in text, line
    assert "guesses from its first lines (at most 1 MiB of them)" in text
    filled = text.replace("# lower = ", "lower = -4 # ").replace("# upper = ", "upper = 4 # ")
    assert hg.Plan.from_dict(tomllib.loads(filled)).text == look.text


@pytest.mark.parametrize(
    ("name", "text", "encoding", "expected"),
    [
        ("d.csv", "a,b\n1,2\n", "utf-8", TextFormat(",")),
        ("d.csv", "a,b\n1.5,2\n", "utf-8", TextFormat(",")),
        ("d.csv", "a;b\n1.5;2\n", "utf-8", TextFormat(";")),
        ("d.csv", "a;b\n1,5;2\n", "utf-8", TextFormat(";", ",")),
        ("d.csv", "a|b\n1|2\n", "utf-8", TextFormat("|")),
        ("d.csv", "a\tb\n1\t2\n", "utf-8", TextFormat("\t")),
        ("d.tsv", "a\tb\n1,5\t2\n", "utf-8", TextFormat("\t", ",")),
        ("d.csv", '"a, of all",b\n"1,000",2\n3,4\n5,6', "utf-8", TextFormat(",", thousands=",")),
        ("d.csv", "a;b\n1.234,5;2\n", "utf-8", TextFormat(";", ",", thousands=".")),
        ("d.csv", "a;b\n1\u00a0234,5;2\n", "utf-8", TextFormat(";", ",", thousands=" ")),
        ("d.csv", "a;b\n1'234.5;2\n", "utf-8", TextFormat(";", thousands="'")),
        ("d.csv", "a;b\n1,234;2,345\n", "utf-8", TextFormat(";", ",")),  # not thousands: nothing speaks for them
        ("d.csv", 'a,b\n"1.5","2"\n', "utf-8", TextFormat(",")),
        ("d.csv", "temp (°C),b [kg]\n1,2\n", "cp1252", TextFormat(",", encoding="latin-1")),
        ("d.csv", "preis €,b\n1,2\n", "cp1252", TextFormat(",", encoding="cp1252")),
        ("d.csv", "a,b\n1,2\n-,n/a\n", "utf-8", TextFormat(",", missing=(*MISSING_WORDS, "-", "n/a"))),
        ("d.csv", "a\n1\n2\n", "utf-8", TextFormat(",")),
        ("d.tsv", "a\n1\n2\n", "utf-8", TextFormat("\t")),
        ("d.csv", "a\n1,5\n2,5\n", "utf-8", TextFormat(";", ",")),
        ("d.csv", "a,b\r\n1,2\r\n", "utf-8-sig", TextFormat(",", encoding="utf-8-sig")),
        ("d.csv", "größe,b\n1,2\n", "utf-8", TextFormat(",")),
        ("d.csv", "größe,b\n1,2\n", "latin-1", TextFormat(",", encoding="latin-1")),
        ("d.csv", "größe,b\n1,2\n", "utf-16", TextFormat(",", encoding="utf-16")),
        ("d.csv", "größe,b\n1,2\n", "utf-32", TextFormat(",", encoding="utf-32")),
    ],
)
def test_common_ways_to_write_a_table_are_recognised(tmp_path, name, text, encoding, expected):
    look = look_at(lines(tmp_path / name, text, encoding))
    assert look.text == expected
    assert list(look.kinds)[-1][0] == ("b" if len(look.kinds) > 1 else "a")
    assert "other" not in look.kinds.values()


def test_packed_files_are_looked_at_as_well(tmp_path):
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"a;b\n1;2.5\n"))
    assert look_at(str(tmp_path / "d.csv.gz")).kinds == {"a": "integer", "b": "continuous"}


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2", "+3", "", "NA"], "integer"),
        (["1", "2.5"], "continuous"),
        (["1e3", "2"], "continuous"),
        ([" 7 ", "8"], "integer"),
        (["1"] * 19 + ["?"], "integer"),
        (["1", "x"], "text"),
        (["", "NA"], "other"),
        (["2024-01-01", "2024-01-02"], "date"),
        (["2024-01-01 13:30", "", "2024-01-02T13:30:00Z"], "date"),
        (["nan", "inf", "1_000"], "text"),
        (["a", "b", "c", "d", "e"], "text"),
        (["red", "blue", "red", "blue", "?", "red"], "categorical"),
        (["x" * 70] * 9, "text"),
        (["True", "false", "NA"], "binary"),
        (["1", "0", "1"], "binary"),
        (["yes", "no", "?"], "binary"),
    ],
)
def test_a_kind_is_guessed_from_cells_that_are_numbers(tmp_path, cells, kind):
    text = "k,x\n" + "".join(f"0,{cell}\n" for cell in cells)
    assert look_at(lines(tmp_path / "d.csv", text)).kinds["x"] == kind


def test_only_the_beginning_of_a_large_file_is_looked_at(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * (FIRST_BYTES // 4) + b"x,y\n" * 100_000)
    assert look_at(str(path)).kinds == {"a": "integer", "b": "integer"}
    path.write_bytes("a,ü\n".encode() + "1,ü\n".encode() * FIRST_BYTES)  # cut within a character
    assert look_at(str(path)).text == TextFormat(",")


@pytest.mark.parametrize("first", ["1,2,3", "-1.5,2,3e4", "Anna,2.5,3", "Anna,34,positive", "Anna,NA,positive"])
def test_a_first_line_that_looks_like_data_is_refused_with_the_remedy(tmp_path, first):
    path = lines(tmp_path / "d.csv", f"{first}\n4,5,6\n")
    with pytest.raises(DataError, match=r"holds numbers.*--no-header") as caught:
        write_scaffold(path, tmp_path / "plan.toml")
    assert not any(cell in str(caught.value) for cell in first.split(","))
    assert not (tmp_path / "plan.toml").exists()
    look = write_scaffold(path, tmp_path / "plan.toml", header=False)
    assert look.text == TextFormat(",", header=False, names=("x1", "x2", "x3"))
    plan = tomllib.loads((tmp_path / "plan.toml").read_text())
    assert (plan["text"]["header"], plan["text"]["names"]) == (False, ["x1", "x2", "x3"])


def test_cells_of_several_lines_are_seen_and_the_plan_says_what_that_means(tmp_path):
    path = lines(tmp_path / "d.csv", 'a,note\n1,"one\ntwo, ""three"""\n2,x\n')
    assert write_scaffold(path, tmp_path / "plan.toml").text == TextFormat(",", quoted_newlines=True)
    text = (tmp_path / "plan.toml").read_text()
    assert "quoted_newlines = true   # a guess" in text
    assert "a file without a stray quote" in text


@pytest.mark.parametrize(
    "content",
    [
        'a,note\n1,"oops\n2,x\n',
        'a,note\n1,"oops\n2,", Apt 5"\n3,x\n',
        'a,note\n1,"one\ntwo",3\n2,x\n',
        'a,note\n1,5" pipe\n2,"6"" pipe"\n',
    ],
)
def test_a_stray_quote_is_no_cell_of_several_lines(tmp_path, content):
    assert not look_at(lines(tmp_path / "d.csv", content)).text.quoted_newlines


def test_a_long_cell_takes_no_time_to_be_looked_at(tmp_path):
    path = lines(tmp_path / "d.csv", "a,b\n1,2\n" + "1" * 100_000 + "x,2\n")
    start = time.process_time()
    look_at(path)
    assert time.process_time() - start < 5


def test_a_table_that_names_its_columns_cannot_be_without_a_header(tmp_path):
    with pytest.raises(DataError, match="only a CSV can be without a header"):
        write_scaffold(TABLE, tmp_path / "plan.toml", header=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \r\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"a,b\n1,\x002\n", "bytes that no text has"),
        (b"\x1f\x8b\x08\x00secret", "bytes that no text has"),
        (b"\xff\xfea", "lines of cells|at least one column|is empty|no text"),
        (b"secret" * 300_000, "the first line of d.csv is longer than 1 MiB"),
        (b'a,b\n"' + b"secret\n" * 200_000, "cannot be read as that|at least one column"),
        (b"secret,secret\n1,2\n", "equal names"),
        (b"secret,\n1,2\n", "a column without a name"),
        (b"secret,b\nx,y\n", "at least one column of numbers"),
    ],
)
def test_a_hostile_file_gets_one_sentence_that_quotes_nothing(tmp_path, content, message):
    (tmp_path / "d.csv").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        write_scaffold(str(tmp_path / "d.csv"), tmp_path / "plan.toml")
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert not (tmp_path / "plan.toml").exists()


@given(st.binary(max_size=200) | st.text(alphabet='12.,;|\t\r\n" aé-', max_size=80).map(str.encode), st.booleans())
def test_any_bytes_make_a_plan_that_can_be_read_or_one_sentence(tmp_path_factory, content, header):
    folder = tmp_path_factory.mktemp("any")
    (folder / "d.csv").write_bytes(content)
    try:
        write_scaffold(str(folder / "d.csv"), folder / "plan.toml", header=header)
    except HazeglassError as error:
        one_sentence(error)
        return
    document = tomllib.loads((folder / "plan.toml").read_text(encoding="utf-8"))
    for column in document["columns"]:
        column |= {"lower": 0, "upper": 1}
    hg.Plan.from_dict(document)


def test_another_file_is_never_replaced(tmp_path):
    (tmp_path / "plan.toml").write_text("mine")
    with pytest.raises(OutputError, match="already exists"):
        write_scaffold(TABLE, tmp_path / "plan.toml")
    assert (tmp_path / "plan.toml").read_text() == "mine"


def test_a_file_that_appears_meanwhile_is_not_replaced_either(tmp_path, monkeypatch):
    def meanwhile(table):
        (tmp_path / "plan.toml").write_text("mine")
        return opened(table)

    opened = scaffold.open_table
    monkeypatch.setattr(scaffold, "open_table", meanwhile)
    with pytest.raises(OutputError, match="already exists"):
        write_scaffold(TABLE, tmp_path / "plan.toml")
    assert (tmp_path / "plan.toml").read_text() == "mine"


def test_a_place_that_cannot_be_is_refused(tmp_path, monkeypatch):
    with pytest.raises(OutputError, match="does not exist"):
        write_scaffold(TABLE, tmp_path / "no" / "plan.toml")

    def refuse(*names):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(OutputError, match="Permission denied"):
        write_scaffold(TABLE, tmp_path / "plan.toml")
    assert list(tmp_path.iterdir()) == []


def test_declared_types_become_kinds_and_no_level_is_taken_from_the_data(tmp_path):
    when = pd.to_datetime(["2024-01-01", "2024-01-02"])
    frame = pd.DataFrame(
        {"ok": [True, False], "colour": pd.Categorical(["red", "blue"]), "when": when, "user_id": [1, 2]}
    )
    for data in (frame, pa.Table.from_pandas(frame)):
        look = look_at(data)
        assert look.proposed == {"ok": "binary", "colour": "categorical", "when": "date"}
        assert look.left_out == ["user_id"]
    write_scaffold(frame, tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text()
    assert "red" not in text
    assert 'since = "1970-01-01"' in text
    filled = text.replace("# lower = ", "lower = 0 # ").replace("# upper = ", "upper = 9e4 # ")
    plan = hg.Plan.from_dict(tomllib.loads(filled.replace("# levels =   ", 'levels = ["red", "blue"] #')))
    assert [column.kind for column in plan.columns] == ["binary", "categorical", "continuous"]
    with pytest.raises(HazeglassError, match="column 'colour' has no levels"):
        hg.Plan.from_dict(tomllib.loads(filled))


def test_signs_for_missing_cells_are_guessed_and_can_be_confirmed(tmp_path):
    look = write_scaffold(lines(tmp_path / "d.csv", "a,b\n1,?\n2,3\n4,5\n"), tmp_path / "plan.toml")
    assert look.text.missing[-1] == "?"
    assert look.kinds == {"a": "integer", "b": "integer"}
    assert '"?"]   # a guess from the first lines' in (tmp_path / "plan.toml").read_text()


def test_a_table_of_declared_text_gets_a_plan_to_fill_in(tmp_path):
    assert write_scaffold(TABLE.select(["name"]), tmp_path / "plan.toml").proposed == {"name": "categorical"}


def test_a_table_without_numbers_has_no_plan(tmp_path):
    with pytest.raises(DataError, match="at least one column of numbers, levels or dates"):
        write_scaffold(pa.table({"x": [[1], [2]]}), tmp_path / "plan.toml")
    assert list(tmp_path.iterdir()) == []


def test_from_frame_takes_levels_and_says_what_fits_nothing():
    frame = pd.DataFrame({"height": [1.5, 2.0], "smoker": ["no", "yes"], "day": pd.to_datetime(["2024-01-01"] * 2)})
    budget = {"epsilon": 1.0, "delta": 1e-6}
    with pytest.warns(HazeglassWarning, match="left out: day; give them levels or bounds"):
        plan = hg.Plan.from_frame(frame, {"height": (0, 3), "smoker": ["no", "yes"]}, **budget)
    assert [(one.name, one.kind, one.levels) for one in plan.columns] == [
        ("height", "continuous", ()),
        ("smoker", "binary", ("no", "yes")),
    ]
    for bounds, said in (
        ({"heigth": (0, 3)}, "'heigth', and no column"),
        ({"height": (0, 1, 2)}, "must be \\(lower, upper\\)"),
        ({"height": 120}, "must be \\(lower, upper\\), or a list of levels, got 120"),
        ({"smoker": (0, 1)}, "declared as text"),
        ({"height": (0, 3), "day": ("2024-01-01", "2024-12-31")}, "declared as date"),
    ):
        with pytest.raises(PlanError, match=said):
            hg.Plan.from_frame(frame, bounds, **budget)


def kinds_of(data, bounds, **settings):
    made = hg.Plan.from_frame(data, bounds, epsilon=1.0, delta=1e-6, **settings)
    return {one.name: (one.kind, *one.levels) for one in made.columns}


def test_no_cell_changes_what_from_frame_makes_of_a_column(tmp_path):
    bounds = {"n": (0, 9), "ok": [False, True], "city": ["a", "b", "c"]}
    expected = {"n": ("continuous",), "ok": ("binary", "false", "true"), "city": ("categorical", "a", "b", "c")}
    for n in (1, 1.5, "x", None):
        frame = pd.DataFrame({"n": [2, n], "ok": [True, n], "city": ["a", n]}, dtype=object)
        frame.to_csv(tmp_path / "d.csv", index=False)
        frame.to_excel(tmp_path / "d.xlsx", index=False)
        for data in (frame, tmp_path / "d.csv", tmp_path / "d.xlsx"):
            assert kinds_of(data, bounds) == expected
    declared = pa.table({"n": pa.array([1, None]), "x": [1.0, 2.0]})
    for data in (declared, declared.to_pandas(types_mapper=pd.ArrowDtype), pl.from_arrow(declared)):
        assert kinds_of(data, {"*": (0, 9)}) == {"n": ("integer",), "x": ("continuous",)}


def test_truths_need_no_levels_and_a_declared_order_is_kept():
    grades = pd.Categorical(["low", "high"], ["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame({"ok": [True, False], "grade": grades, "user": [1, 2]})
    made = kinds_of(frame, {"grade": ["low", "mid", "high"]}, protects="person", id_column="user", max_rows=2)
    assert made == {"ok": ("binary", "false", "true"), "grade": ("ordinal", "low", "mid", "high")}
    with pytest.warns(HazeglassWarning, match="left out: grade, user; give"):
        assert list(kinds_of(frame, {})) == ["ok"]  # pandas collects categories from cells, so none is taken


@pytest.mark.parametrize(
    ("cells", "dates", "kind"),
    [
        (["31.12.2024 10:00", "01.02.2024 23:59"], "day first", "date"),
        (["1.2.2024", "3.4.2024"], "day first", "date"),
        (["1/2/2024", "1/31/2024"], "month first", "date"),
        (["1/2/2024", "3/4/2024"], None, "text"),  # nobody can tell
        (["2024-12-31", "2024-01-01"], None, "date"),
    ],
)
def test_the_order_of_dates_is_proposed_where_cells_tell_it(tmp_path, cells, dates, kind):
    path = lines(tmp_path / "d.csv", "when;x\n" + "".join(f"{cell};1\n" for cell in cells))
    look = write_scaffold(path, tmp_path / "plan.toml")
    assert (look.kinds["when"], look.text.dates) == (kind, dates)
    written = tomllib.loads((tmp_path / "plan.toml").read_text())["text"]
    assert written.get("dates") == dates


def test_numbers_are_names_where_the_command_says_so(tmp_path):
    path = lines(tmp_path / "d.csv", "7,8\n1,2.5\n3,4\n")
    assert look_at(path, header=True).kinds == {"7": "integer", "8": "continuous"}
    with pytest.raises(DataError, match="--header if those are the names"):
        look_at(path)
