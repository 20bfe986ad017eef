"""The solvers are a library of their own: they run with everything else of hazeglass deleted."""

import shutil
import subprocess
import sys
from pathlib import Path

import hazeglass

SOURCE = Path(hazeglass.__file__).parent
PROGRAM = """
import numpy as np
import hazeglass
from hazeglass.glasso import graphical_lasso, graphical_lasso_path, largest_alpha, nearest_psd_max_norm

S = np.eye(6) + 0.4 * np.eye(6, k=1) + 0.4 * np.eye(6, k=-1)
for solver in ("auto", "cd", "newton", "admm"):
    assert graphical_lasso(S, 0.1, solver=solver).converged
assert graphical_lasso(S, 0.1, block_size=2).converged
assert len(graphical_lasso_path(S, [largest_alpha(S), 0.1])) == 2
assert nearest_psd_max_norm(S - np.eye(6))[1] > 0
assert hazeglass.graphical_lasso is graphical_lasso
print(hazeglass.__file__)
"""


def test_glasso_runs_with_everything_else_deleted(tmp_path):
    site = tmp_path / "hazeglass"
    shutil.copytree(SOURCE / "glasso", site / "glasso", ignore=shutil.ignore_patterns("__pycache__"))
    for helper in (*SOURCE.glob("_*.py"), SOURCE / "errors.py"):
        shutil.copy(helper, site)
    environment = {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}  # nothing of the cache would fit
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
