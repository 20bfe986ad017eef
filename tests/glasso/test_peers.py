"""Where other implementations can solve a problem, they find the same optimum and never a better one."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from covariance_problems import sample_covariance

from hazeglass.glasso import graphical_lasso
from hazeglass.glasso.objective import certify
from hazeglass.glasso.penalty import make_penalty

CASES = [(10, 50, 0.05), (30, 20, 0.2), (40, 400, 0.02), (60, 90, 0.1)]


@pytest.mark.parametrize(("p", "n", "alpha"), CASES)
@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_objective_agrees_with_scikit_learn(p: int, n: int, alpha: float, penalize_diagonal: bool) -> None:
    covariance = pytest.importorskip("sklearn.covariance")
    S = sample_covariance(p, n, seed=p)
    lifted = S + alpha * np.eye(p) if penalize_diagonal else S
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its stopping rule; the objective is what we compare
        _, theirs = covariance.graphical_lasso(lifted, alpha, tol=1e-7, enet_tol=1e-9, max_iter=500)
    ours = graphical_lasso(S, alpha, penalize_diagonal=penalize_diagonal, tol=1e-8)
    their_value = certify((theirs + theirs.T) / 2, S, make_penalty(p, alpha, None, penalize_diagonal)).objective
    assert ours.objective == pytest.approx(their_value, abs=1e-5)
    assert ours.objective <= their_value + 1e-8 * p


R_PROGRAM = """
args <- commandArgs(TRUE); p <- as.integer(args[2])
S <- matrix(readBin(args[1], "double", p * p), p, p)
fit <- glasso::glasso(S, rho = as.numeric(args[3]), thr = 1e-10, maxit = 1e4)
writeBin(as.vector(fit$wi), args[4])
"""


def r_has_glasso() -> bool:
    if shutil.which("Rscript") is None:
        return False
    return subprocess.run(["Rscript", "-e", "library(glasso)"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not r_has_glasso(), reason="R with the package glasso is not installed")
@pytest.mark.parametrize(("p", "n", "alpha"), CASES)
def test_objective_agrees_with_r_glasso(tmp_path: Path, p: int, n: int, alpha: float) -> None:
    S = sample_covariance(p, n, seed=p)
    S.tofile(tmp_path / "S.bin")
    (tmp_path / "run.R").write_text(R_PROGRAM)
    arguments = [tmp_path / "run.R", tmp_path / "S.bin", str(p), repr(alpha), tmp_path / "T.bin"]
    subprocess.run(["Rscript", *map(str, arguments)], check=True, capture_output=True)
    theirs = np.fromfile(tmp_path / "T.bin").reshape(p, p)
    ours = graphical_lasso(S, alpha, tol=1e-8)
    their_value = certify((theirs + theirs.T) / 2, S, make_penalty(p, alpha)).objective
    assert ours.objective == pytest.approx(their_value, abs=1e-5)
