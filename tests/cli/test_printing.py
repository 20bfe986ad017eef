"""Every command that reports speaks JSON, can be quiet, and says the same to a program and to a person."""

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

import hazeglass as hg
from hazeglass.analyst.recover import Step
from hazeglass.cli import terminal
from hazeglass.cli.app import app
from hazeglass.cli.graphs import show_edges
from hazeglass.cli.plans import show_preview
from hazeglass.cli.terminal import Printer

from .test_cli import HEADER, ROWS, hazeglass, publish, replace


@pytest.fixture
def desk(tmp_path, plan_text):
    (tmp_path / "data.csv").write_text(ROWS)
    (tmp_path / "plan.toml").write_text(plan_text)
    return tmp_path


PUBLISH = ("publish", "data.csv", "--plan", "plan.toml", "--out")
REPORTS = {
    "plan new": (("plan", "new", "data.csv", "--out", "new.toml"), "columns"),
    "plan check": (("plan", "check", "plan.toml"), "mu"),
    "plan preview": (("plan", "preview", "plan.toml", "--rows", "500"), "forms"),
    "publish": ((*PUBLISH, "second"), "mu"),
    "publish --dry-run": ((*PUBLISH, "second", "--dry-run"), "rows"),
    "key new": (("key", "new", "key"), "public"),
    "verify": (("verify", "release"), "ok"),
    "recover": (("recover", "release", "--out", "graph"), "edges"),
    "datasets": (("datasets",), "datasets"),
    "ledger new": (("ledger", "new", "b.ledger", "--dataset", "d", "--mu", "1"), "mu_total"),
    "ledger show": (("ledger", "show", "a.ledger"), "mu_remaining"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_json_quiet_and_prose(desk, name):
    publish(desk)
    hazeglass("ledger", "new", "a.ledger", "--dataset", "d", "--mu", "1", cwd=desk)
    before = {path.name for path in desk.iterdir()}
    command, key = REPORTS[name]
    for option in ("--json", "--quiet", None):
        done = hazeglass(*command, *([option] if option else []), cwd=desk)
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if " s so far" not in line or option == "--quiet"]
        assert said == []  # but for lines of progress where a machine is slow
        if option == "--json":
            assert key in json.loads(done.stdout)
        else:
            assert (done.stdout == "") == (option == "--quiet")
        for path in desk.iterdir():
            if path.name not in before:
                assert path.name in ("new.toml", "second", "graph", "b.ledger", "key", "key.pub")
                os.rename(path, path.with_name(f"was-{option}-{path.name}"))
        before = {path.name for path in desk.iterdir()}


def test_history_and_help_name_every_option(desk):
    hazeglass("ledger", "new", "a.ledger", "--dataset", "d", "--mu", "1", cwd=desk)
    assert publish(desk, "--ledger", "a.ledger").returncode == 0
    (entry,) = json.loads(hazeglass("ledger", "history", "a.ledger", "--json", cwd=desk).stdout)
    assert entry["state"] == "confirmed"
    for command, _ in REPORTS.values():
        group = command[:2] if command[0] in ("plan", "ledger", "key") else command[:1]
        text = hazeglass(*group, "--help", cwd=desk).stdout
        assert "--json" in text
        assert "--quiet" in text


def test_a_dry_run_refuses_what_publishing_would_and_leaves_nothing(desk):
    hazeglass("ledger", "new", "a.ledger", "--dataset", "d", "--mu", "0.3", cwd=desk)
    rehearsal = (*PUBLISH, "release", "--ledger", "a.ledger", "--dry-run")
    before = sorted(path.name for path in desk.iterdir())
    done = hazeglass(*rehearsal, cwd=desk)
    assert done.returncode == 0, done.stderr
    assert "read any lines above first: 200 rows and 3 columns" in done.stdout
    assert "The ledger has room: mu = 0.3" in done.stdout
    assert "Nothing was drawn, charged or written" in done.stdout
    assert json.loads(hazeglass("ledger", "history", "a.ledger", "--json", cwd=desk).stdout) == []
    assert sorted(path.name for path in desk.iterdir()) == before
    publish(desk, "--ledger", "a.ledger")
    for prepare, status, message in (
        (lambda: None, 2, "already exists"),
        (lambda: os.rename(desk / "release", desk / "r1"), 3, "budget"),
        (lambda: replace(desk, "epsilon = 1.0", "epsilon = 0.01"), 0, ""),
        (
            lambda: (desk / "data.csv").write_text(ROWS + "1,two,3\n"),
            0,
            "publisher only: cells of column 'b' that are no numbers and count as missing: 1",
        ),
        (
            lambda: (desk / "data.csv").write_text(HEADER + "1,,2\n" * 9),
            0,
            "publisher only: column 'b' holds no number",
        ),
        (lambda: replace(desk, "lower = -4.0\n", ""), 2, "no lower bound"),
    ):
        prepare()
        done = hazeglass(*rehearsal, cwd=desk)
        assert done.returncode == status, (done.stdout, done.stderr)
        assert message in done.stderr


def test_a_release_can_be_verified_from_a_zip_and_from_an_address(desk, monkeypatch):
    import shutil

    monkeypatch.setenv("no_proxy", "*")
    publish(desk)
    shutil.make_archive(str(desk / "release"), "zip", desk / "release")
    assert hazeglass("verify", "release.zip", cwd=desk).returncode == 0

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a, **k: Quiet(*a, directory=desk, **k)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/release"
        done = hazeglass("recover", address, "--out", "graph", cwd=desk)
        missing = hazeglass("verify", address + "-not", cwd=desk)
        server.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr
    assert (desk / "graph" / "report.html").exists()
    assert missing.returncode == 2
    assert "answers 404" in missing.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(shell):
    words = {"bash": {"COMP_WORDS": "hazeglass pub", "COMP_CWORD": "1"}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": "hazeglass pub", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    environment = {**os.environ, **words, "_HAZEGLASS_COMPLETE": f"complete_{shell}"}
    code = "import sys; sys.argv = ['hazeglass']; from hazeglass.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert "publish" in done.stdout, done.stderr
    assert "recover" not in done.stdout


def test_a_pipe_gets_whole_lines_and_no_bar_that_moves(desk):
    command = [sys.executable, "-m", "hazeglass", *PUBLISH, "release"]
    done = subprocess.run(command, cwd=desk, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert all(re.fullmatch(r"publishing.*, \d+ s so far", line) for line in done.stderr.splitlines())
    assert "\x1b" not in done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines())) > 80


def test_interrupting_recover_leaves_nothing_behind(desk):
    publish(desk)
    code = (
        "import time, hazeglass.analyst.export as e\n"
        "original = e.write\n"
        "e.write = lambda *graph: (open('reached', 'w').close(), time.sleep(60), original(*graph))\n"
        "import sys; sys.argv = ['hazeglass', 'recover', 'release', '--out', 'graph']\n"
        "from hazeglass.cli import main; main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=desk,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )
    for _ in range(600):
        if (desk / "reached").exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "nothing is half-written" in errors
    assert sorted(path.name for path in desk.iterdir()) == ["data.csv", "plan.toml", "reached", "release"]


def test_recover_refuses_what_a_key_did_not_sign(desk):
    for name in ("key", "other"):
        hazeglass("key", "new", name, cwd=desk)
    publish(desk, "--sign", "key")
    done = hazeglass("recover", "release", "--out", "graph", "--key", "other.pub", cwd=desk)
    assert done.returncode == 2
    assert "this key did not sign the release" in done.stderr
    assert not (desk / "graph").exists()
    assert hazeglass("recover", "release", "--out", "graph", "--key", "key.pub", cwd=desk).returncode == 0
    (desk / "release" / "release.sig").unlink()
    done = hazeglass("recover", "release", "--out", "again", "--key", "key.pub", cwd=desk)
    assert done.returncode == 2
    assert "the release is not signed" in done.stderr


def test_verify_says_what_the_sampler_adds_to_delta(desk):
    publish(desk)
    done = hazeglass("verify", "release", cwd=desk)
    assert re.search(r"The sampler's distance from the ideal adds at most \S+e-3\d to delta", done.stdout)
    assert 0 < json.loads(hazeglass("verify", "release", "--json", cwd=desk).stdout)["delta_slack"] < 1e-20


def test_a_title_cannot_speak_for_verify(desk):
    """A long one, filled with spaces, would break where a line of ours could begin; a code would become a picture."""
    line = "The signature is right: whoever holds the private half of this key signed it, and it is unchanged since."
    title = ":white_check_mark: Rows" + " " * 90 + line
    (plan,) = re.findall("title = .*", (desk / "plan.toml").read_text())
    replace(desk, plan, f'title = "{title}"')
    for said in (publish(desk).stdout, hazeglass("verify", "release", cwd=desk).stdout):
        assert said.startswith('":white_check_mark: Rows The signature is right: whoever h...": moments')
        assert line not in said


def test_json_is_ascii_whatever_a_name_holds(capsys):
    document = {"title": "\x9b2J\u202e\u2028\u00e9\U0001f600\x7f", "n": 3}
    Printer(as_json=True).answer(document)
    said = capsys.readouterr().out
    assert said.isascii()
    assert json.loads(said) == document


def test_a_name_that_is_no_text_is_refused_before_anything_is_written(make_plan):
    with pytest.raises(hg.errors.PlanError, match="Unicode text"):
        make_plan(columns=("a", "\ud800", "c"))


@pytest.mark.parametrize("budget", [(), ("--epsilon", "1"), ("--delta", "1e-6"), ("--mu", "1", "--epsilon", "1")])
def test_a_ledger_without_a_clear_budget_names_the_options(desk, budget):
    done = hazeglass("ledger", "new", "a.ledger", "--dataset", "d", *budget, cwd=desk)
    assert done.returncode == 2
    assert "--epsilon with --delta, or as --mu" in done.stderr


def commands(app, *path):
    """Every command with the words that lead to it."""
    for info in app.registered_commands:
        yield (*path, info.name or info.callback.__name__)
    for inside in app.registered_groups:
        yield from commands(inside.typer_instance, *path, inside.name)


@pytest.mark.parametrize("command", list(commands(app)), ids=" ".join)
def test_every_help_has_an_example_and_no_summary_is_cut(tmp_path, command):
    done = hazeglass(*command, "-h", cwd=tmp_path)
    assert done.returncode == 0
    assert f"Example: hazeglass {' '.join(command)}" in " ".join(done.stdout.split())
    listed = hazeglass(*command[:-1], "--help", cwd=tmp_path).stdout
    assert command[-1] in listed
    assert "..." not in listed.partition("Commands:")[2]


def test_a_program_gets_errors_as_json_too(desk):
    replace(desk, "lower = -4.0\n", "")
    done = hazeglass("plan", "check", "plan.toml", "--json", cwd=desk)
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], told["status"], told["kind"]) == (2, False, 2, "BoundsMissingError")
    assert "has no lower bound" in told["error"]
    assert "has no lower bound" in done.stderr
    publish(desk)
    assert json.loads(hazeglass("verify", "nowhere", "--json", cwd=desk).stdout)["status"] == 2


def test_the_doctor_says_what_is_installed_and_what_it_weighs(tmp_path):
    found = json.loads(hazeglass("doctor", "--json", cwd=tmp_path).stdout)
    assert found["hazeglass"] == hg.__version__
    weights = {one["name"]: one["megabytes"] for one in found["packages"]}
    assert weights["numpy"] > 10
    assert {"plot", "studio"} <= {extra["name"] for extra in found["extras"]}
    assert not {"dev", "test"} & {extra["name"] for extra in found["extras"]}
    assert {cache["holds"] for cache in found["caches"]} == {"downloads", "compiled code"}
    assert "GPU:" in hazeglass("doctor", cwd=tmp_path).stdout


def test_a_console_that_lacks_letters_gets_them_spelled_out(desk):
    text = (desk / "plan.toml").read_text(encoding="utf-8").replace('title = "Test"', 'title = "Ω of 数"')
    (desk / "plan.toml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "hazeglass", "publish", "data.csv", "--plan", "plan.toml", "--out", "r"]
    env = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, cwd=desk, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    assert rb"\u03a9 of \u6570" in done.stdout
    assert b"\x1b[" not in done.stdout + done.stderr


def test_work_that_takes_long_says_every_few_seconds_where_it_is(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "_EVERY", 0.05)
    with Printer().steps("recovering the graph") as step:
        step(Step("choosing the penalty", 0.5))
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert re.fullmatch(r"recovering the graph: choosing the penalty, 0 s so far, about 0 s left", lines[0])
    with Printer(quiet=True).steps("recovering the graph") as step:
        step("correcting the covariance")
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_edges_of_mixed_columns_keep_their_names_whole_in_a_terminal_of_80(capsys):
    linear = {"partial_correlation": 0.55, "ci_low": 0.415, "ci_high": 0.685, "shape": "linear", "q_value": 1.4e-14}
    levels = {**dict.fromkeys(("partial_correlation", "ci_low", "ci_high")), "shape": "levels", "q_value": 1e-300}
    edges = [
        {"source": "marital-status", "target": "native-country", "strength": 0.556, **levels},
        {"source": "capital-gain", "target": "education-num", "strength": 0.545, **linear},
    ]
    show_edges(edges, Console(width=80))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "marital-status native-country 0.556 < 1e-16" in lines
    assert "capital-gain education-num 0.545 +0.550 +0.415 to +0.685 1.4e-14" in lines
    assert any("levels without an order" in line for line in lines)
    show_edges(edges[1:], Console(width=80))
    assert "without an order" not in capsys.readouterr().out


def test_a_preview_of_mixed_columns_shows_strengths_as_one_table_of_kinds(capsys):
    columns = [
        hg.Column("sex", "binary"),
        hg.Column("smokes", "binary"),
        hg.Column("ward", "categorical", levels=["AB", "C"]),
    ]
    show_preview(hg.Plan(title="t", form="moments", mu=1.0, columns=columns).preview(5000), Console(width=80))
    out = capsys.readouterr().out
    assert re.search(r"^ +binary  categorical$", out, re.MULTILINE)
    numbers = re.findall(r"^(?:binary|categorical) +(0\.\d+) *(0\.\d+)?$", out, re.MULTILINE)
    assert [len(row) for row in numbers] == [2, 2]
    assert numbers[0][1] == numbers[1][0], "the same pair of kinds either way round"
