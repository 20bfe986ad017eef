"""Every command and code block of the README runs as it is printed."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.csv
import pytest

import hazeglass as hg

README = Path(__file__).parents[2] / "README.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code, tmp_path):
    with contextlib.chdir(tmp_path):
        exec(compile(code, "README.md", "exec"), {})


def test_shell_blocks_run(tmp_path):
    pyarrow.csv.write_csv(hg.datasets.make_feeder().to_arrow(), tmp_path / "meters.csv")
    (block,) = blocks("sh")
    for line in block.strip().splitlines():
        command = line.split("#")[0].split()
        assert command[0] == "hazeglass"
        command = [sys.executable, "-m", "hazeglass", *command[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        if command[3:5] == ["plan", "new"]:
            plan = tmp_path / "plan.toml"
            text = plan.read_text().replace("# lower = ", "lower = -10.0 # ").replace("# upper = ", "upper = 10.0 # ")
            plan.write_text(text)
    assert (tmp_path / "graph" / "report.html").exists()


def test_the_two_commands_are_there():
    text = README.read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    assert (README.parent / "docs" / "images" / "report.png").exists()
