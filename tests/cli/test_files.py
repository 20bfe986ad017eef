"""Files in and out of the command line: standard input, one .zip, rows for other programs, and no folder named -."""

import gzip
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from tests.cli.test_cli import ROWS, hazeglass, hazeglass_process
from typer.testing import CliRunner

import hazeglass as hg
from hazeglass.cli.app import app


@pytest.fixture
def desk(tmp_path, plan_text):
    (tmp_path / "data.csv").write_text(ROWS)
    (tmp_path / "plan.toml").write_text(plan_text.replace('form = "moments"', 'form = "table"'))
    return tmp_path


def test_a_release_is_packed_into_one_zip_that_verifies_and_is_always_the_same(desk):
    hg.publish(desk / "data.csv", desk / "plan.toml", desk / "release")
    done = hazeglass("pack", "release", cwd=desk)
    assert (done.returncode, (desk / "release.zip").is_file()) == (0, True), done.stderr
    assert hazeglass("verify", "release.zip", cwd=desk).returncode == 0
    assert hg.load(desk / "release.zip").table() == hg.load(desk / "release").table()
    assert all(name.startswith("release/") for name in zipfile.ZipFile(desk / "release.zip").namelist())
    (desk / "again").mkdir()
    hazeglass("pack", "release", "--out", "again/release.zip", cwd=desk)
    assert (desk / "again" / "release.zip").read_bytes() == (desk / "release.zip").read_bytes()
    assert "already exists" in hazeglass("pack", "release", cwd=desk).stderr
    assert "or packed already" in hazeglass("pack", "release.zip", cwd=desk).stderr
    assert not (desk / "release.zip.zip").exists()
    assert "must end in .zip" in hazeglass("pack", "release", "--out", "x.rar", cwd=desk).stderr


def test_released_rows_come_out_as_csv_or_parquet(desk):
    rows = hg.publish(desk / "data.csv", desk / "plan.toml", desk / "release").table()
    for name, read in (("rows.csv", csv.read_csv), ("rows.parquet", pq.read_table)):
        done = hazeglass("export", "release", "--out", name, cwd=desk)
        assert (done.returncode, done.stderr) == (0, "")
        assert read(desk / name).to_pydict() == rows.to_pydict()
    assert "as .csv or .parquet" in hazeglass("export", "release", "--out", "rows.sav", cwd=desk).stderr


def test_a_moments_release_says_that_it_has_no_rows(desk, plan_text):
    (desk / "moments.toml").write_text(plan_text)
    hg.publish(desk / "data.csv", desk / "moments.toml", desk / "release")
    done = hazeglass("export", "release", "--out", "rows.csv", cwd=desk)
    assert (done.returncode, (desk / "rows.csv").exists()) == (2, False)
    assert "hazeglass synthesize" in done.stderr


def test_results_never_go_into_a_folder_named_like_standard_output(desk):
    for command in (("publish", "data.csv", "--plan", "plan.toml"), ("recover", "data.csv")):
        done = hazeglass(*command, "--out", "-", cwd=desk)
        assert done.returncode == 2
        assert "cannot go to standard output" in done.stderr
    assert not (desk / "-").exists()


def test_a_plan_can_be_written_to_standard_output(desk):
    done = hazeglass("plan", "new", "data.csv", "--out", "-", cwd=desk)
    assert done.returncode == 0
    assert done.stdout.startswith("# A hazeglass plan")
    assert "to fill in" in done.stdout
    assert not (desk / "-").exists()


def test_standard_input_can_be_published(desk):
    out = str(desk / "release")
    arguments = ["publish", "-", "--plan", str(desk / "plan.toml"), "--out", out]
    done = CliRunner().invoke(app, arguments, input=ROWS)
    assert done.exit_code == 0, done.output
    assert hg.load(out).n == 200


def test_rows_of_ones_own_are_recovered_from_the_command_line(desk):
    done = hazeglass("recover", "data.csv", "--out", "graph", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert (desk / "graph" / "report.html").is_file()


def test_a_file_that_the_plan_reads_wrongly_gets_one_sentence(desk):
    text = ROWS.replace("a,b,c", "à,b,c")
    (desk / "data.csv").write_bytes(text.encode("latin-1"))
    plan = (desk / "plan.toml").read_text(encoding="utf-8").replace('name = "a"', 'name = "à"')
    (desk / "plan.toml").write_text(plan, encoding="utf-8")
    done = hazeglass_process("publish", "data.csv", "--plan", "plan.toml", "--out", "release", cwd=desk)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "what the plan's [text] says of it" in done.stderr


def test_a_very_weak_promise_needs_insistence(desk):
    plan = (desk / "plan.toml").read_text()
    (desk / "plan.toml").write_text(plan.replace("epsilon = 1.0", "epsilon = 30.0"))
    command = ("publish", "data.csv", "--plan", "plan.toml", "--out", "release")
    done = hazeglass(*command, cwd=desk)
    assert (done.returncode, (desk / "release").exists()) == (3, False)
    assert "refused unless you insist" in done.stderr
    assert done.stderr.count("epsilon = 30 is weak") == 1
    done = hazeglass(*command, "--weak-on-purpose", cwd=desk)
    assert done.returncode == 0
    assert "caution: epsilon = 30 is weak" in done.stderr
    assert hazeglass("plan", "check", "plan.toml", cwd=desk).returncode == 0


def test_many_columns_are_filled_in_from_the_command_line(desk):
    hazeglass("plan", "new", "data.csv", "--out", "new.toml", cwd=desk)
    done = hazeglass("plan", "check", "new.toml", cwd=desk)
    assert done.returncode == 2
    assert [f"column '{name}' has no lower" in done.stderr for name in "abc"] == [True] * 3
    done = hazeglass(
        "plan", "fill", "new.toml", "--match", "*", "--lower", "-4", "--upper", "4", "--reason", "by rule", cwd=desk
    )
    assert "Filled in lower, upper, reason for 3 columns" in done.stdout
    assert hazeglass("plan", "check", "new.toml", cwd=desk).returncode == 0
    assert "say what to fill in" in hazeglass("plan", "fill", "new.toml", "--match", "a", cwd=desk).stderr


def test_bounds_the_wrong_way_round_are_not_filled_in(desk):
    assert hazeglass("plan", "new", "data.csv", "--out", "turned.toml", cwd=desk).returncode == 0
    before = (desk / "turned.toml").read_text()
    done = hazeglass("plan", "fill", "turned.toml", "--match", "*", "--lower", "9", "--upper", "1", cwd=desk)
    assert (done.returncode, "got 9 and 1" in done.stderr) == (2, True)
    assert (desk / "turned.toml").read_text() == before


def test_levels_are_filled_in_from_the_command_line_in_their_order(desk):
    (desk / "words.csv").write_text("size,paid\n" + "small,yes\nlarge,no\n" * 20)
    assert hazeglass("plan", "new", "words.csv", "--out", "new.toml", cwd=desk).returncode == 0
    for match, kind, levels in (("size", "ordinal", ["small", "a [b], c", "large"]), ("paid", "binary", ["no", "yes"])):
        for _ in range(2):  # the second time levels stand there already
            given = [part for level in levels for part in ("--level", level)]
            done = hazeglass("plan", "fill", "new.toml", "--match", match, "--kind", kind, *given, cwd=desk)
            assert "Filled in kind, levels for 1 column of" in done.stdout
    plan = hg.Plan.load(desk / "new.toml")
    assert [column.levels for column in plan.columns] == [("small", "a [b], c", "large"), ("no", "yes")]


def test_names_with_brackets_are_filled_in_and_workbooks_get_a_plan(desk):
    import openpyxl

    book = openpyxl.Workbook()
    for row in (["BMI [kg/m2]", "visits", "ward"], [21.5, 3, "north"], [30.25, None, "south"]):
        book.active.append(row)
    book.save(desk / "clinic.xlsx")
    done = hazeglass("plan", "new", "clinic.xlsx", "--out", "new.toml", cwd=desk)
    assert done.returncode == 0, done.stderr
    for name in ("BMI [kg/m2]", "visits"):
        done = hazeglass("plan", "fill", "new.toml", "--match", name, "--lower", "0", "--upper", "70", cwd=desk)
        assert done.returncode == 0, done.stderr
    kinds = {column.name: column.kind for column in hg.Plan.load(desk / "new.toml").columns}
    assert kinds == {"BMI [kg/m2]": "continuous", "visits": "integer"}


def test_words_of_a_workbook_get_a_kind_as_those_of_a_csv_do(desk):
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["a", "ward", "smokes", "note"])
    for k in range(12):
        book.active.append([k, ("north", "south", "west")[k % 3], "yn"[k % 2], f"note {k}"])
    book.save(desk / "wards.xlsx")
    done = hazeglass("plan", "new", "wards.xlsx", "--out", "wards.toml", "--json", cwd=desk)
    assert json.loads(done.stdout)["left_out"] == ["note"], done.stderr
    entries = tomllib.loads((desk / "wards.toml").read_text())["columns"]
    kinds = {"a": "integer", "ward": "categorical", "smokes": "binary"}
    assert {entry["name"]: entry["kind"] for entry in entries} == kinds


def test_a_weak_plan_is_cautioned_when_it_is_checked(desk):
    text = (desk / "plan.toml").read_text()
    (desk / "weak.toml").write_text(re.sub(r"epsilon = [0-9.]+", "epsilon = 8.0", text))
    for name, cautions in (("plan.toml", 0), ("weak.toml", 1)):
        done = hazeglass("plan", "check", name, cwd=desk)
        assert (done.returncode, done.stderr.count("caution: ")) == (0, cautions), done.stderr


def test_the_publisher_is_asked_about_people_where_a_column_is_called_as_ids_are(desk):
    (desk / "data.csv").write_text("patient_id," + ROWS.replace("\n", "\n7,"))
    done = hazeglass("publish", "data.csv", "--plan", "plan.toml", "--out", "release", cwd=desk)
    assert "publisher only: a column of the data is called as ids are. Does one person have several" in done.stderr
    done = hazeglass("plan", "new", "data.csv", "--out", "new.toml", cwd=desk)
    assert "'patient_id' is called as ids are" in done.stdout


def test_a_folder_whose_name_ends_in_a_dash_is_a_release_and_not_standard_input(desk):
    hg.publish(desk / "data.csv", desk / "plan.toml", desk / "release-")
    assert hazeglass("recover", "release-", "--out", "graph", cwd=desk).returncode == 0


def test_a_plan_for_standard_input_has_a_title(desk):
    done = CliRunner().invoke(app, ["plan", "new", "-", "--out", "-"], input=ROWS)
    assert 'title = "My release"' in done.output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no stream that is always full")
@pytest.mark.parametrize("arguments", [["datasets"], ["datasets", "--json"], ["--help"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_stream_ends_in_one_sentence_and_status_2(arguments, unbuffered):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hazeglass", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith(
        "hazeglass: what is printed must find a place, and standard output took nothing (No space left"
    )


@pytest.mark.skipif(os.name == "nt", reason="no shell that closes a stream")
def test_a_closed_stream_is_refused_before_anything_is_done(desk):
    line = f"{sys.executable} -m hazeglass plan new data.csv --out new.toml >&-"
    done = subprocess.run(line, shell=True, cwd=desk, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert not (desk / "new.toml").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--upper", "inf"), "column 'a': upper must be a finite number, got inf"),
        (("--upper", "-5"), "lower must be below upper and both finite, got -4 and -5"),
        (("--kind", "catgorical"), "got 'catgorical'. Did you mean 'categorical'?"),
        (("--kind", "categorical"), "its levels take the place of bounds. Remove lower and upper."),
        (("--kind", "binary", "--level", "no", "--level", "no"), "take the place of bounds"),
        (("--level", "no", "--level", "yes"), "is continuous and has no levels"),
        (("--level", "Male, Female"), 'got \'Male, Female\'. Write --level "Male" --level "Female".'),
        (("--transform", "lgo"), "Did you mean 'log'?"),
    ],
)
def test_what_a_check_would_refuse_is_not_filled_in(desk, given, said):
    plan = (desk / "plan.toml").read_text()
    done = hazeglass("plan", "fill", "plan.toml", "--match", "a", *given, cwd=desk)
    assert (done.returncode, (desk / "plan.toml").read_text()) == (2, plan)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_one_level_twice_is_not_filled_in_and_line_ends_stay(desk):
    text = (desk / "plan.toml").read_text() + '\n[[columns]]\nname = "d"\nkind = "ordinal"\n# levels =   # to fill in\n'
    (desk / "plan.toml").write_text(text, newline="\r\n")
    before = (desk / "plan.toml").read_bytes()
    fill = ("plan", "fill", "plan.toml", "--match", "d", "--level", "x", "--level")
    assert "has the level 'x' twice" in hazeglass(*fill, "x", cwd=desk).stderr
    assert (desk / "plan.toml").read_bytes() == before
    assert hazeglass(*fill, "y", cwd=desk).returncode == 0
    after = (desk / "plan.toml").read_bytes()
    assert after == before.replace(b"# levels =   # to fill in", b'levels = ["x", "y"]')


def test_a_misspelled_kind_hides_no_other_gap(desk):
    text = (desk / "plan.toml").read_text().replace('kind = "continuous"', 'kind = "contnuous"', 1)
    (desk / "plan.toml").write_text(text + '\n[[columns]]\nname = "d"\nkind = "ordinal"\n')
    done = hazeglass("plan", "check", "plan.toml", cwd=desk)
    assert done.returncode == 2
    assert "'contnuous'. Did you mean 'continuous'?" in done.stderr
    assert "column 'd' has no levels" in done.stderr


def test_one_column_is_one_column_and_a_title_is_the_name_without_its_endings(desk):
    (desk / "h.csv.gz").write_bytes(gzip.compress(b"a\n" + b"1\n2\n" * 20))
    assert "new.toml: 1 column, " in hazeglass("plan", "new", "h.csv.gz", "--out", "new.toml", cwd=desk).stdout
    assert 'title = "h"\n' in (desk / "new.toml").read_text()
    hazeglass("plan", "fill", "new.toml", "--match", "a", "--lower", "0", "--upper", "9", cwd=desk)
    assert "release of 1 column that" in hazeglass("plan", "check", "new.toml", cwd=desk).stdout
    command = ("publish", "h.csv.gz", "--plan", "new.toml", "--out", "one")
    assert "read any lines above first: 40 rows and 1 column would" in hazeglass(*command, "--dry-run", cwd=desk).stdout
    assert "40 rows, 1 column." in hazeglass(*command, cwd=desk).stdout
