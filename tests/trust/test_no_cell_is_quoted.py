"""A marker is planted in cells of every kind; no message, traceback, report or file may hold it, whatever fails."""

import datetime
import decimal
import json
import subprocess
import sys
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import hazeglass as hg
from hazeglass.cli.app import app
from hazeglass.errors import HazeglassError, UnexpectedError, quotes_no_cell
from hazeglass.publisher.publish import rehearse
from hazeglass.publisher.scaffold import Look, write_scaffold
from hazeglass.studio.jobs import worker_code

TEXT, NUMBER = "Zq-marker-Xk", 31415926
MARKERS = (TEXT, str(NUMBER), "1969-07-20")
PLAN = """\
[release]
title = "Test"
form = "{form}"
{unit}
[budget]
epsilon = 1.0
delta = 1e-6
""" + "".join(f'[[columns]]\nname = "{name}"\nkind = "continuous"\nlower = -4.0\nupper = 4.0\n' for name in "ab")
PERSON = 'protects = "person"\nid_column = "id"\nmax_rows = 3'
MOON = datetime.date(1969, 7, 20)


def numbers(seed):
    return np.random.default_rng(seed).normal(size=60).tolist()


def with_cell(cell):
    """Sixty rows of a, b and id, with the cell in the middle of a."""
    a = numbers(1)
    a[30] = cell
    return {"a": a, "b": numbers(2), "id": [k // 2 for k in range(60)]}


def arrow(cells):
    return pa.table({**with_cell(0.0), "a": pa.array(cells)})


FRAMES = {
    "pandas, text among numbers": lambda: pd.DataFrame(with_cell(TEXT)),
    "pandas, bytes": lambda: pd.DataFrame(with_cell(TEXT.encode())),
    "pandas, an object": lambda: pd.DataFrame(with_cell({TEXT: NUMBER})),
    "pandas, a decimal among floats": lambda: pd.DataFrame(with_cell(decimal.Decimal(NUMBER))),
    "pandas, a date": lambda: pd.DataFrame(with_cell(MOON)),
    "pandas, a category": lambda: pd.DataFrame(with_cell(TEXT)).astype({"a": "category"}),
    "pandas, a huge number": lambda: pd.DataFrame(with_cell(NUMBER**20)),
    "pandas, text among ids": lambda: pd.DataFrame({**with_cell(0.0), "id": [TEXT, *range(59)]}),
    "pandas, an object among ids": lambda: pd.DataFrame({**with_cell(0.0), "id": [{TEXT: 1}, *range(59)]}),
    "polars, text": lambda: pl.DataFrame({**with_cell(0.0), "a": [TEXT] * 60}),
    "polars, objects": lambda: pl.DataFrame({**with_cell(0.0), "a": pl.Series([{TEXT}] * 60, dtype=pl.Object)}),
    "arrow, text": lambda: arrow([TEXT] * 60),
    "arrow, dictionary": lambda: arrow(pa.array([TEXT] * 60).dictionary_encode()),
    "arrow, binary": lambda: arrow([TEXT.encode()] * 60),
    "arrow, structs": lambda: arrow([{"x": TEXT}] * 60),
    "arrow, lists": lambda: arrow([[NUMBER]] * 60),
    "arrow, dates": lambda: arrow([MOON] * 60),
    "arrow, decimals": lambda: arrow([decimal.Decimal(NUMBER) ** 4] * 60),
    "arrow, whole numbers": lambda: arrow([NUMBER] * 60),
    "arrow, times": lambda: arrow(pa.array([NUMBER] * 60, pa.duration("s"))),
    "arrow, ids of structs": lambda: arrow(numbers(3)).set_column(2, "id", [[{"x": TEXT}] * 60]),
    "numpy, text": lambda: np.array([[TEXT, "1"]] * 60),
    "numpy, objects": lambda: np.array([[TEXT, NUMBER]] * 60, dtype=object),
}
LINES = [f"{a},{b},{k // 2}" for k, (a, b) in enumerate(zip(numbers(1), numbers(2), strict=True))]
FILES = {
    "text in a cell": ["a,b,id", *LINES, f"{TEXT},1,7"],
    "text in an id": ["a,b,id", *LINES, f"1,1,{TEXT}"],
    "a ragged row": ["a,b,id", *LINES, f"{TEXT},1,7,{NUMBER}"],
    "a stray quote": ["a,b,id", *LINES, f'"{TEXT},1,7', *LINES],
    "a bad byte": ["a,b,id", *LINES, f"{TEXT}\udcff,1,7"],
    "no header": [f"{NUMBER},{TEXT},7", *LINES],
    "no header, a name twice": [f"{TEXT},{TEXT},7", *LINES],
    "a huge number": ["a,b,id", *LINES, f"{NUMBER}{'0' * 400},1,7"],
    "a date": ["a,b,id", *LINES, f"{MOON},1,7"],
}


def assert_unmarked(*texts):
    for text in texts:
        for marker in MARKERS:
            assert marker not in text, text[max(0, text.index(marker) - 300) :][:700]


def told(work):
    """Everything that printing the exception of `work` shows, and every warning on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            work()
        except Exception as error:
            shown = "".join(traceback.format_exception(error)) + repr(error)
            assert isinstance(error, HazeglassError), shown  # noqa: PT017 (there may be none)
            assert error.__context__ is None  # noqa: PT017
        else:
            shown = ""
    return shown + "".join(str(one.message) for one in caught if one.category.__module__.startswith("hazeglass"))


def files_below(folder):
    return [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]


@pytest.fixture(params=["table", "moments", "person"])
def plan_path(request, tmp_path):
    """Plans for three ways through the rows."""
    form = "moments" if request.param == "person" else request.param
    unit = PERSON if request.param == "person" else ""
    (tmp_path / "plan.toml").write_text(PLAN.format(form=form, unit=unit))
    return tmp_path / "plan.toml"


@pytest.mark.parametrize("kind", FRAMES)
def test_publishing_a_frame_quotes_no_cell(kind, plan_path, tmp_path):
    data = FRAMES[kind]()
    assert_unmarked(
        told(lambda: hg.publish(data, plan_path, tmp_path / "r", engine="threads")),
        told(lambda: rehearse(data, plan_path, tmp_path / "rehearsed")),
        told(lambda: write_scaffold(data, tmp_path / "new.toml")),
        told(lambda: hg.recover(data)),
        *files_below(tmp_path),
    )


@pytest.mark.parametrize("kind", [kind for kind in FRAMES if kind.startswith("arrow")])
def test_publishing_a_parquet_file_quotes_no_cell(kind, plan_path, tmp_path):
    path = tmp_path / "in" / "data.parquet"
    path.parent.mkdir()
    pq.write_table(FRAMES[kind](), path)
    assert_unmarked(
        told(lambda: hg.publish(path, plan_path, tmp_path / "out" / "r", engine="serial")), *_commands(path, plan_path)
    )


@pytest.mark.parametrize("kind", FILES)
def test_publishing_a_csv_file_quotes_no_cell(kind, plan_path, tmp_path):
    path = tmp_path / "in" / "data.csv"
    path.parent.mkdir()
    path.write_bytes("\n".join(FILES[kind]).encode("utf-8", "surrogateescape"))
    assert_unmarked(told(lambda: hg.publish(path, plan_path, tmp_path / "r")), *_commands(path, plan_path))


def _commands(path, plan_path):
    """What the command line prints and leaves, and what a worker of the studio reports."""
    folder = plan_path.parent / "commands"
    folder.mkdir()
    publish = ["publish", str(path), "--plan", str(plan_path), "--out"]
    for arguments in (
        [*publish, str(folder / "r")],
        [*publish, str(folder / "j"), "--json"],
        [*publish, str(folder / "d"), "--dry-run", "--json"],
        ["recover", str(path), "--out", str(folder / "g"), "--json"],
    ):
        done = CliRunner().invoke(app, arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
        yield done.output
        yield done.stderr
    yield from files_below(folder)


@pytest.mark.parametrize("kind", ["text in a cell", "a ragged row", "no header"])
def test_a_worker_of_the_studio_quotes_no_cell(kind, plan_path, tmp_path):
    import tomllib

    path = tmp_path / "data.csv"
    path.write_text("\n".join(FILES[kind]))
    request = {"operation": "publish", "data": str(path), "document": tomllib.loads(plan_path.read_text())}
    request |= {"out": str(tmp_path / "r"), "ledger": None, "rows": 61}
    reports, printed = work([sys.executable, "-c", worker_code("publisher")], request)
    assert_unmarked(*reports, printed)
    assert json.loads(reports[-1])["state"] in ("done", "failed")


def work(command, request):
    """What a worker reports and prints; closing its input too early would cancel it."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        worker.stdin.write(json.dumps(request) + "\n")
        worker.stdin.flush()
        return worker.stdout.readlines(), worker.stderr.read()


WORK = f"""
from hazeglass.studio.jobs import run
def work(request, report):
    raise ValueError("could not convert {TEXT}")
run({{"work": work}})
"""


def test_an_unexpected_failure_in_the_studio_says_where_it_was_and_not_in_what_words():
    reports, printed = work([sys.executable, "-c", WORK], {"operation": "work"})
    assert_unmarked(*reports, printed)
    assert "ValueError" in reports[-1]
    assert "in work" in printed


def test_what_a_library_says_of_a_cell_is_not_repeated():
    @quotes_no_cell
    def convert(cell):
        return float(cell)

    @quotes_no_cell
    def ours(cell):
        try:
            return float(cell)
        except ValueError:
            raise hg.errors.DataError("column 'a' must hold numbers.")  # noqa: B904 (what is tested)

    with pytest.raises(UnexpectedError, match=r"ValueError at .*test_no_cell_is_quoted\.py:\d+") as caught:
        convert(TEXT)
    assert caught.value.__context__ is None
    with pytest.raises(hg.errors.DataError, match="must hold numbers") as caught:
        ours(TEXT)
    assert_unmarked("".join(traceback.format_exception(caught.value)))
    assert convert("1.5") == 1.5


def test_what_the_operating_system_says_is_repeated():
    @quotes_no_cell
    def read():
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        read()


def test_a_librarys_warning_is_not_printed_by_the_command_line(monkeypatch, tmp_path):
    def warns(*_, **__):
        warnings.warn(f"could not understand {TEXT}", UserWarning, stacklevel=1)
        return Look({"a": "continuous"})

    monkeypatch.setattr("hazeglass.publisher.scaffold.write_scaffold", warns)
    done = CliRunner().invoke(app, ["plan", "new", "data.csv", "--out", str(tmp_path / "p.toml")])
    assert_unmarked(done.output, done.stderr)
