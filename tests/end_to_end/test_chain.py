"""Through how many of our files a command runs: those whose functions are called, from the first call to the last.

`python tests/end_to_end/test_chain.py publish data.csv --plan plan.toml --out release` prints the chain of any command.
"""

import inspect
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyarrow import csv

SOURCE = Path(__file__).parents[2] / "src" / "hazeglass"
OURS = str(SOURCE)
MOST_FILES = {"publish": 51, "recover": 58}  # what is reached; 28 and 40 are wanted


def traced(arguments):
    """Run a command in this process; the files it went through, in the order of their first call."""
    from hazeglass.cli import main

    chain = {}

    def watch(frame, event, _):  # called when a function begins; returns nothing, so that its lines are not traced
        name = frame.f_code.co_filename
        if name.startswith(OURS) and name not in chain and name.endswith(".py") and _is_called(frame):
            chain[name] = frame.f_code.co_name

    sys.argv = ["hazeglass", *arguments]
    threading.settrace(watch)
    sys.settrace(watch)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.settrace(None)
        threading.settrace(None)
    return {str(Path(name).relative_to(SOURCE)): called for name, called in chain.items()}


def _is_called(frame):
    """Whether a function runs for the command: not the body of a module or class, nor what those call when imported."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return False
    while (frame := frame.f_back) is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(OURS):
            return False
    return True


@pytest.fixture
def desk(tmp_path, table, plan_text):
    csv.write_csv(table, tmp_path / "data.csv")
    (tmp_path / "plan.toml").write_text(plan_text)
    return tmp_path


def chain_of(desk, *arguments):
    done = subprocess.run([sys.executable, __file__, *arguments], cwd=desk, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_csv_is_published_and_recovered_through_few_files(desk, capsys):
    chains = {
        "publish": chain_of(desk, "publish", "data.csv", "--plan", "plan.toml", "--out", "release"),
        "recover": chain_of(desk, "recover", "release", "--out", "graph"),
    }
    with capsys.disabled():
        for command, chain in chains.items():
            steps = "\n  ".join(f"{file}: {name}" for file, name in chain.items())
            print(f"\n{command} runs through {len(chain)} files:\n  {steps}")  # noqa: T201 (what this test is for)
    for command, chain in chains.items():
        assert len(chain) <= MOST_FILES[command], (
            f"{command} runs through {len(chain)} files, at most {MOST_FILES[command]}"
        )


if __name__ == "__main__":
    print(json.dumps(traced(sys.argv[1:])))  # noqa: T201
