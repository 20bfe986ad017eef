"""The seconds that compiling takes are announced once, and not at all where nothing was to be printed."""

import os
import subprocess
import sys

import pytest

from .test_cli import ROWS, publish

LINE = "compiling the solvers for this machine: once, a few seconds"


def run(folder, *command):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, *command], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_compiling_is_announced_once(tmp_path):
    fit = "import hazeglass as hg; [hg.graphical_lasso([[1, .5, 0], [.5, 1, .5], [0, .5, 1]], .1) for _ in range(2)]"
    assert run(tmp_path, "-c", fit).stderr.splitlines() == [LINE]
    assert run(tmp_path, "-c", fit).stderr == ""


@pytest.mark.parametrize(("option", "said"), [("--quiet", []), (None, [LINE])])
def test_a_quiet_command_does_not_announce_it(tmp_path, plan_text, option, said):
    (tmp_path / "data.csv").write_text(ROWS)
    (tmp_path / "plan.toml").write_text(plan_text)
    publish(tmp_path)
    done = run(tmp_path, "-m", "hazeglass", "recover", "release", "--out", "graph", *([option] if option else []))
    lines = done.stderr.splitlines()
    assert [line for line in lines if option == "--quiet" or " s so far" not in line] == said
