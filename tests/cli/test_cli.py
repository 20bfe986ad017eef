"""Commands as a user meets them: one clear sentence, the right exit status, nothing half-written."""

import contextlib
import importlib.util
import inspect
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

import hazeglass as hg
from hazeglass.cli.app import app

HEADER = "a,b,c\n"
ROWS = HEADER + "".join(f"{k % 7 - 3},{k % 5 - 2},{k % 3 - 1}\n" for k in range(200))


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


FIXED = "source,target,precision,partial_correlation,std_error,ci_low,ci_high,p_value,q_value,selected"


def hazeglass(*arguments, cwd):
    """Run a command in this process, in the given folder."""
    with contextlib.chdir(cwd):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def hazeglass_process(*arguments, cwd):
    """Run a command as a process of its own, as a user does."""
    command = [sys.executable, "-m", "hazeglass", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)


@pytest.fixture
def desk(tmp_path, plan_text):
    """A folder with data.csv and plan.toml, as after `plan new` and filling in the bounds."""
    (tmp_path / "data.csv").write_text(ROWS)
    (tmp_path / "plan.toml").write_text(plan_text)
    return tmp_path


def publish(desk, *more):
    return hazeglass("publish", "data.csv", "--plan", "plan.toml", "--out", "release", *more, cwd=desk)


def replace(desk, old, new):
    path = desk / "plan.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_scheduler_needs_its_engine(desk):
    done = publish(desk, "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "--scheduler belongs to --engine dask" in done.stderr


MISTAKES = {
    "a missing bound": (lambda d: replace(d, "lower = -4.0\n", ""), 2, "column 'a' has no lower bound"),
    "an unknown column": (
        lambda d: replace(d, 'name = "b"', 'name = "bb"'),
        2,
        "names column 'bb', and the data has none of that name. Did you mean 'b'?",
    ),
    "no line of names": (
        lambda d: (d / "data.csv").write_text("aa,bb,cc\n1,2,3\n"),
        2,
        "names column 'a', and the data has none of that name. Check",
    ),
    "epsilon of zero": (lambda d: replace(d, "epsilon = 1.0", "epsilon = 0"), 2, "budget.epsilon must be above 0"),
    "delta of one": (lambda d: replace(d, "delta = 1e-6", "delta = 1.0"), 2, "budget.delta must be at most 0.001"),
    "an empty file": (lambda d: (d / "data.csv").write_text(""), 2, "data.csv is empty"),
    "a header without rows": (lambda d: (d / "data.csv").write_text(HEADER), 2, "at least 2 rows, got 0"),
    "a single row": (lambda d: (d / "data.csv").write_text(HEADER + "1,2,3\n"), 2, "at least 2 rows, got 1"),
    "duplicate names": (
        lambda d: (d / "data.csv").write_text("a,b,a\n1,2,3\n4,5,6\n"),
        2,
        "the data has twice or more",
    ),
    "an existing output": (lambda d: (d / "release").mkdir(), 2, "already exists"),
    "no data": (lambda d: (d / "data.csv").unlink(), 2, "there is no file 'data.csv'"),
    "no plan": (lambda d: (d / "plan.toml").unlink(), 2, "there is no plan 'plan.toml'"),
}


ODDITIES = {
    "a column without values": (
        lambda d: (d / "data.csv").write_text(HEADER + "1,,2\n" * 9),
        "column 'b' holds no number",
    ),
    "text among numbers": (
        lambda d: (d / "data.csv").write_text(ROWS + "1,two,3\n"),
        "cells of column 'b' that are no numbers and count as missing: 1",
    ),
    "ragged rows": (
        lambda d: (d / "data.csv").write_text(ROWS + "1,2\n"),
        "lines that are no rows and count as rows of missing cells: 1",
    ),
    "a stray quote": (
        lambda d: (d / "data.csv").write_text(ROWS + '1,"2,3\n' + ROWS[6:]),
        "lines that are no rows and count as rows of missing cells: 1",
    ),
    "not text": (
        lambda d: (d / "data.csv").write_bytes(ROWS.encode() + b"1,2,\xff\xfe\n"),
        "cells of column 'c' that are no numbers and count as missing: 1",
    ),
}


@pytest.mark.parametrize("name", ODDITIES)
def test_no_cell_stops_a_publish_and_the_publisher_alone_is_told(desk, name):
    prepare, message = ODDITIES[name]
    prepare(desk)
    done = publish(desk)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"publisher only: {message}")
    assert "publisher only" not in done.stdout
    rehearsed = hazeglass("publish", "data.csv", "--plan", "plan.toml", "--out", "second", "--dry-run", cwd=desk)
    assert rehearsed.stderr == done.stderr
    assert rehearsed.stdout.startswith("It would be published; read any lines above first: ")
    shutil.rmtree(desk / "release")
    document = publish(desk, "--json")
    assert "publisher only" not in document.stdout
    assert "publisher only" in document.stderr


@pytest.mark.parametrize("name", MISTAKES)
def test_publish_meets_a_mistake_with_one_sentence_and_writes_nothing(desk, name):
    prepare, status, message = MISTAKES[name]
    prepare(desk)
    before = sorted(path.name for path in desk.rglob("*"))
    done = publish(desk)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
    assert sorted(path.name for path in desk.rglob("*")) == before


def test_the_journey_from_a_file_to_a_report(desk):
    done = publish(desk)
    assert done.returncode == 0, done.stderr
    assert "each record (one whole row)" in done.stdout
    done = hazeglass("verify", "release", cwd=desk)
    assert done.returncode == 0
    assert "No file is damaged or missing" in done.stdout
    done = hazeglass("recover", "release", "--out", "graph", cwd=desk)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (desk / "graph").iterdir()}
    assert names == {"edges.csv", "precision.parquet", "graph.graphml", "fit.json", "report.html"}
    header = (desk / "graph" / "edges.csv").read_text().splitlines()[0].replace('"', "")
    assert (
        header
        == "source,target,precision,partial_correlation,std_error,ci_low,ci_high,p_value,q_value,selected,strength"
    )
    assert pq.read_schema(desk / "graph" / "precision.parquet").names == ["a", "b", "c"]


def test_a_curved_release_keeps_the_columns_of_every_graph_and_adds_two(desk):
    replace(desk, 'form = "moments"', 'form = "moments"\ndependence = "curved"')
    assert publish(desk).returncode == 0
    done = hazeglass("recover", "release", "--out", "graph", cwd=desk)
    assert done.returncode == 0, done.stderr
    header = (desk / "graph" / "edges.csv").read_text().splitlines()[0].replace('"', "")
    assert header == FIXED + ",strength,shape"
    assert pq.read_schema(desk / "graph" / "precision.parquet").names[:4] == [
        "cos 1 of a",
        "cos 2 of a",
        "cos 3 of a",
        "cos 1 of b",
    ]
    assert json.loads((desk / "graph" / "fit.json").read_text())["dependence"] == "curved"
    done = hazeglass("recover", "release", "--out", "plain", "--dependence", "linear", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert (desk / "plain" / "edges.csv").read_text().splitlines()[0].replace('"', "") == f"{FIXED},strength"


def test_a_comparison_takes_no_options_for_rows_it_does_not_write(desk):
    publish(desk)
    for more in (("--copies", "2"), ("--complete",), ("--format", "csv"), ("--exact",)):
        done = hazeglass(
            "synthesize", "release", "--rows", "9", "--out", "look", "--compare", "data.csv", *more, cwd=desk
        )
        assert done.returncode == 2
        assert "writes no rows" in done.stderr
        assert not (desk / "look").exists()
    done = hazeglass("synthesize", "release", "--rows", "9", "--out", "look", "--compare", "data.csv", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert "publisher-only.html" in done.stdout
    assert "do not hand it over" in done.stdout


def test_verify_and_recover_refuse_a_changed_byte(desk):
    publish(desk)
    part = desk / "release" / "moments.parquet"
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(bytes(content))
    for command in (("verify", "release"), ("recover", "release", "--out", "graph")):
        done = hazeglass(*command, cwd=desk)
        assert done.returncode == 2
        assert "moments.parquet was changed after publication" in done.stderr
    assert not (desk / "graph").exists()


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_a_device_that_is_not_there_gives_way_to_the_processor_with_a_sentence(desk):
    publish(desk)
    done = hazeglass("recover", "release", "--out", "graph", "--device", "cuda", cwd=desk)
    assert done.returncode == 0
    said = done.stderr.replace("\n", " ")
    assert "pip install 'hazeglass[gpu]'" in said
    assert "The CPU is used instead" in said
    assert (desk / "graph").exists()


def test_a_signed_release_says_who_made_it(desk):
    assert hazeglass("key", "new", "key", cwd=desk).returncode == 0
    assert publish(desk, "--sign", "key").returncode == 0
    done = hazeglass("verify", "release", "--key", "key.pub", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert "The signature is right" in done.stdout
    done = hazeglass("verify", "release", "--key", "key.pub", "--json", cwd=desk)
    assert json.loads(done.stdout)["signature"] == "valid"
    hazeglass("key", "new", "other", cwd=desk)
    done = hazeglass("verify", "release", "--key", "other.pub", cwd=desk)
    assert (done.returncode, done.stdout) == (2, "")
    assert "this key did not sign the release" in done.stderr


def test_without_a_key_verify_says_what_hashes_cannot_show(desk):
    publish(desk)
    done = hazeglass("verify", "release", cwd=desk)
    assert "Nothing here shows who made it" in done.stdout
    assert "the release is not signed" in done.stdout
    assert hazeglass("verify", "release", "--key", "no.pub", cwd=desk).returncode == 2
    hazeglass("key", "new", "key", cwd=desk)
    done = hazeglass("verify", "release", "--key", "key.pub", cwd=desk)
    assert done.returncode == 2
    assert "the release is not signed" in done.stderr
    hazeglass("publish", "data.csv", "--plan", "plan.toml", "--out", "signed", "--sign", "key", cwd=desk)
    done = hazeglass("verify", "signed", cwd=desk)
    assert done.returncode == 0
    assert "the signature was not checked" in done.stdout
    assert json.loads(hazeglass("verify", "signed", "--json", cwd=desk).stdout)["signature"] == "not checked"


def test_a_bad_key_is_refused_even_by_a_rehearsal(desk):
    for more in ((), ("--dry-run",)):
        done = publish(desk, "--sign", "plan.toml", *more)
        assert done.returncode == 2
        assert "must be a private Ed25519 key" in done.stderr
    assert not (desk / "release").exists()


def test_verify_names_the_files_that_another_version_wrote(desk, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr("hazeglass.publisher.publish.__version__", "0.9.1")
        older.setattr("hazeglass.bundle.verify.__version__", "0.9.1")
        assert publish(desk).returncode == 0
    for options in ([], ["--quiet"], ["--json"], ["--quiet", "--json"]):
        done = hazeglass("verify", "release", *options, cwd=desk)
        assert done.returncode == 0
        assert done.stderr.startswith("note: the release was made by hazeglass 0.9.1")
        assert "croissant.json, datapackage.json, statement.html may be worded differently" in done.stderr
        assert "what they state is not checked; anyone may have written them" in done.stderr
        assert (done.stdout == "") == (options == ["--quiet"])
        if not options:
            assert "Not checked: what croissant.json, datapackage.json, statement.html say" in done.stdout
    assert len(json.loads(hazeglass("verify", "release", "--json", cwd=desk).stdout)["not_compared"]) == 3


def test_verify_refuses_a_simulation_with_status_3(desk):
    hg.publish(desk / "data.csv", desk / "plan.toml", desk / "sim", simulate_seed=1)
    done = hazeglass("verify", "sim", cwd=desk)
    assert done.returncode == 3
    assert "simulation" in done.stderr
    done = hazeglass("verify", "sim", "--json", cwd=desk)
    assert done.returncode == 3
    assert json.loads(done.stdout)["ok"] is False
    done = hazeglass("verify", "sim", "--simulation", cwd=desk)
    assert done.returncode == 0
    assert "A simulation, as announced" in done.stdout


def test_a_scaffolded_plan_is_refused_until_bounds_are_filled_in(desk):
    done = hazeglass("plan", "new", "data.csv", "--out", "new.toml", cwd=desk)
    assert done.returncode == 0, done.stderr
    text = (desk / "new.toml").read_text()
    assert 'name = "a"\nkind = "integer"   # a guess from the first lines: confirm or change\n# lower =' in text
    assert "guesses from its first lines (at most 1 MiB), looked at on this machine" in " ".join(done.stdout.split())
    done = hazeglass("plan", "check", "new.toml", cwd=desk)
    assert done.returncode == 2
    assert "column 'a' has no lower and no upper bound" in done.stderr
    (desk / "new.toml").write_text(text.replace("# lower = ", "lower = -4 # ").replace("# upper = ", "upper = 4 # "))
    assert hazeglass("plan", "check", "new.toml", cwd=desk).returncode == 0
    assert hazeglass("plan", "new", "data.csv", "--out", "new.toml", cwd=desk).returncode == 2


def test_a_scaffold_leaves_text_out_and_survives_odd_names(tmp_path):
    odd = 'quote " back\\slash\nline'
    pq.write_table(pa.table({odd: [1.0, 2.0], "name": ["x", "y"], "count": [1, 2]}), tmp_path / "d.parquet")
    done = hazeglass("plan", "new", "d.parquet", cwd=tmp_path)
    assert done.returncode == 0
    assert "Left out, because they may be free text or ids: name." in done.stdout
    assert "The kinds are those the data declares; no cell was read." in done.stdout
    text = (tmp_path / "plan.toml").read_text()
    (tmp_path / "plan.toml").write_text(
        text.replace("# lower = ", "lower = 0 # ").replace("# upper = ", "upper = 9 # ")
    )
    assert hg.Plan.load(tmp_path / "plan.toml").names == (odd, "count")


def test_a_file_without_a_header_gets_names_when_the_command_says_so(tmp_path):
    (tmp_path / "d.csv").write_text("1,2.5\n3,4\n")
    done = hazeglass("plan", "new", "d.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "use --no-header if there is none" in " ".join(done.stderr.split())
    done = hazeglass("plan", "new", "d.csv", "--no-header", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"out": "plan.toml", "columns": 2, "left_out": [], "guessed": True}
    assert 'names = ["x1", "x2"]' in (tmp_path / "plan.toml").read_text()


def test_a_table_of_persons_is_refused_with_the_status_of_a_refusal(desk):
    replace(desk, 'form = "moments"', 'form = "table"\nid_column = "who"\nmax_rows = 2')
    replace(desk, 'protects = "record"', 'protects = "person"')
    done = hazeglass("plan", "check", "plan.toml", cwd=desk)
    assert done.returncode == 3
    assert "how many rows each person has" in " ".join(done.stderr.split())


def test_preview_says_when_a_plan_can_show_nothing(desk):
    plan = (desk / "plan.toml").read_text()
    (desk / "plan.toml").write_text(plan.replace('form = "moments"', 'form = "table"'))
    done = hazeglass("plan", "preview", "plan.toml", "--rows", "5000", cwd=desk)
    assert 'no edge can be found, however strong; form = "moments" would' in " ".join(done.stdout.split())


def test_preview_speaks_json_and_words(desk):
    done = hazeglass("plan", "preview", "plan.toml", "--rows", "50000", "--json", cwd=desk)
    look = json.loads(done.stdout)
    assert look["promise"]["epsilon"] == 1.0  # as the plan says it
    for more in ((), ("--dry-run",)):
        made = json.loads(publish(desk, "--json", *more).stdout)
        assert (made["ok"], made["epsilon"]) == (True, 1.0)
        shutil.rmtree(desk / "release", ignore_errors=True)
    assert [form["form"] for form in look["forms"]] == ["moments", "table", "synthetic"]
    done = hazeglass("plan", "preview", "plan.toml", "--rows", "50000", cwd=desk)
    assert "smallest edge" in done.stdout
    assert 'Advice: "curved"' in done.stdout
    done = hazeglass("plan", "preview", "plan.toml", "--rows", "50000", "--see", "0.05", cwd=desk)
    assert "To see a partial correlation of 0.05: epsilon =" in done.stdout
    done = hazeglass("plan", "preview", "plan.toml", "--rows", "50000", "--see", "0.001", "--json", cwd=desk)
    assert json.loads(done.stdout)["epsilon_to_see"] is None
    done = hazeglass("plan", "preview", "plan.toml", "--rows", "1", cwd=desk)
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("recover", "release", "--out", "g", "--fdr", "2"), "fdr must lie strictly between 0 and 1"),
        (("recover", "release", "--out", "g", "--alpha", "-1"), "alpha must be"),
        (("recover", "release", "--out", "release"), "already exists"),
        (("recover", "nothing", "--out", "g"), "there is no release"),
        (("recover", "release", "--out", "g", "--select", "magic"), "magic"),
        (("recover", "release", "--out", "g", "--dependence", "curved"), "cosines of columns"),
        (("recover", "release", "--out", "g", "--marginals", "normal-scores"), "needs rows to rank"),
        (("publsh", "x"), "No such command"),
        (("plan", "preview", "plan.toml"), "--rows"),
        (("plan", "preview", "plan.toml", "--rows", "32,561"), "got '32,561'. Write 32561."),
        (("plan", "preview", "plan.toml", "--rows", "1e3"), "rows must be a whole number of at least 2, got 1000.0"),
        (("plan", "fill", "plan.toml", "--match", "a", "--upper", "100,000"), "got '100,000'. Write 100000."),
        (("plan", "fill", "plan.toml", "--match", "a", "--upper", "1,5"), "it must be a number, got '1,5'."),
        (("plan", "fill", "plan.toml", "--match", "a", "--levels", "x"), "--level"),
    ],
)
def test_a_typo_gets_status_2(desk, arguments, message):
    publish(desk)
    done = hazeglass(*arguments, cwd=desk)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (desk / "g").exists()


def test_help_and_version_answer(tmp_path):
    assert "publish" in hazeglass_process("--help", cwd=tmp_path).stdout
    assert hg.__version__ in hazeglass_process("--version", cwd=tmp_path).stdout


def test_a_mistake_ends_a_real_process_with_its_status(desk):
    replace(desk, "lower = -4.0\n", "")
    done = hazeglass_process("publish", "data.csv", "--plan", "plan.toml", "--out", "release", cwd=desk)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hazeglass: column 'a' has no lower bound")
    assert done.stderr.count("\n") == 1


def hear_interrupts():
    """A process started in the background ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_publish_leaves_nothing_behind(desk, number):
    (desk / "data.csv").write_text(HEADER + "1,2,3\n" * 2_000_000)
    replace(desk, 'form = "moments"', 'form = "table"')
    command = [sys.executable, "-m", "hazeglass", "publish", "data.csv", "--plan", "plan.toml", "--out", "release"]
    process = subprocess.Popen(command, cwd=desk, stderr=subprocess.PIPE, text=True, preexec_fn=hear_interrupts)
    for _ in range(3000):
        if any(desk.glob(".release.partial-*")):
            break
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted. What was complete by then is there; nothing is half-written" in errors
    assert sorted(path.name for path in desk.iterdir()) == ["data.csv", "plan.toml"]


def test_a_table_release_of_integers_and_logs(tmp_path, plan_text):
    (tmp_path / "data.csv").write_text(ROWS)
    text = plan_text.replace('form = "moments"', 'form = "table"').replace('protects = "record"', 'protects = "entry"')
    text = text.replace('kind = "continuous"\nlower = -4.0', 'kind = "integer"\nnoise = "discrete"\nlower = -4', 1)
    text = text.replace(
        'kind = "continuous"\nlower = -4.0', 'kind = "continuous"\ntransform = "asinh"\nlower = -4.0', 1
    )
    Path(tmp_path / "plan.toml").write_text(text)
    assert publish(tmp_path).returncode == 0
    table = hg.load(tmp_path / "release").table()
    assert pa.types.is_int64(table.schema.field("a").type)
    assert pa.types.is_float64(table.schema.field("b").type)


def test_choices_are_those_of_the_library_on_the_command_line_and_in_the_studio(tmp_path):
    from hazeglass.analyst import DEPENDENCES, MARGINALS, SELECTS, SOLVERS
    from hazeglass.bundle.columns import KINDS, TRANSFORMS
    from hazeglass.compute.engines import ENGINES
    from hazeglass.glasso import components
    from hazeglass.guarantee.units import UNITS
    from hazeglass.present.statement import FORMS
    from hazeglass.studio.server import page

    assert set(SOLVERS) == {"auto", *components.SOLVERS}
    text = "".join(CliRunner().invoke(app, ["recover", "--help"], terminal_width=200).output.split())
    for choices in (DEPENDENCES, MARGINALS, SELECTS, SOLVERS, ENGINES):
        assert "|".join(choices) in text
    analyst, publisher = page("analyst.html"), page("publisher.html")
    offered = {name: re.search(f'id="{name}">(.*?)</select>', analyst)[1] for name in ("select", "solver")}
    assert re.findall(r'value="([\w-]+)"', offered["select"]) == [*SELECTS, "given"]
    assert re.findall(r'value="([\w-]+)"', offered["solver"]) == list(SOLVERS)
    assert set(re.findall(r'name="protects" value="(\w+)"', publisher)) == set(UNITS)
    assert set(re.findall(r'name="form" value="(\w+)"', publisher)) == set(FORMS)
    assert re.findall(r"<option>(\w+)</option>", publisher) == list(TRANSFORMS)
    assert re.search(r'data-kinds="([\w ]+)"', publisher)[1].split() == list(KINDS)


@pytest.mark.parametrize("name", ["publish", "recover"])
def test_the_defaults_of_a_command_are_those_of_the_function(name):
    theirs = {key: one.default for key, one in inspect.signature(getattr(hg, name)).parameters.items()}
    ours = {one.name: one.default for one in typer.main.get_command(app).commands[name].params if not one.required}
    shared = ours.keys() & theirs.keys()
    assert shared >= ({"engine", "ledger"} if name == "publish" else {"select", "fdr", "solver", "device", "marginals"})
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}
