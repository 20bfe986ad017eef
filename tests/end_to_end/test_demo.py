"""The demo tells the truth, and finishes."""

import re
import subprocess
import sys


def test_the_demo_runs_and_is_honest(tmp_path):
    command = [sys.executable, "-m", "hazeglass.cli", "demo", "--out", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, env={"COLUMNS": "120"})
    assert done.returncode == 0, done.stderr
    rows = {m[0].strip(): m[1:] for m in re.findall(r"│ (hazeglass, \w+|scikit-learn, table)\s*│\s*([\d.]+) │\s*(\d+) │\s*(\d+) │\s*(\d+) │\s*(\d+) │\s*([\d.]+)", done.stdout)}  # fmt: skip
    moments, table = rows["hazeglass, moments"], rows["hazeglass, table"]
    assert moments[0] == "1.00"
    found, right = int(moments[1]), int(moments[2])
    assert right >= 12
    assert right >= 0.75 * found
    assert float(moments[5]) > 0.8
    assert float(table[5]) < 0.75
    assert "scikit-learn, table" in rows
    assert "Why the table does so badly" in done.stdout
    assert (tmp_path / "demo" / "graph-moments" / "report.html").exists()
    assert (tmp_path / "demo" / "release-moments" / "statement.html").exists()
    again = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert again.returncode == 2
    assert "already exists" in again.stderr
