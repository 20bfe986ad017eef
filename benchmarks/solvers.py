# ruff: noqa: E402 (thread counts must be set before numpy is imported)
"""Graphical lasso against its peers: one run, one thread, in units of Y.

Y is the time of LAPACK's dpotrf + dpotri at the same p, measured in turn with the solver. Every answer counts only at
duality gap / p <= 1e-6, and our time includes the certificate. Each number is the median over seeds that were not
used while tuning. Peers solve the same problem (diagonal penalised): scikit-learn, skglm and GGLasso where
installed, and those of R's glasso, glassoFast, huge and QUIC that R has. A peer's time is that of the loosest
setting that reaches the gap.

    python benchmarks/solvers.py              our solver only, and first calls (two minutes)
    python benchmarks/solvers.py --peers      with every peer found (many minutes)
    python benchmarks/solvers.py --only hard  problems whose name contains a word
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hazeglass.glasso import graphical_lasso, graphical_lasso_path, largest_alpha
from hazeglass.glasso.objective import certify
from hazeglass.glasso.penalty import make_penalty

TOLERANCE = 1e-6
SEEDS = (107, 108, 109)
Matrix = np.ndarray


# --- problems ---------------------------------------------------------------------------------------------------------


def random_graph(p: int, density: float, n: int, seed: int) -> Matrix:
    """Sample correlation-like covariance (true variances 1) of n rows from a random sparse precision."""
    from scipy.linalg import solve_triangular

    rng = np.random.default_rng(seed)
    edges = np.triu(rng.random((p, p)) < density, 1)
    upper = np.where(edges, rng.uniform(0.2, 0.5, (p, p)) * rng.choice([-1, 1], (p, p)), 0.0)
    precision = upper + upper.T
    precision += np.diag(np.sum(np.abs(precision), axis=1) + 0.1)
    scale = np.sqrt(np.diagonal(np.linalg.inv(precision)))
    factor = np.linalg.cholesky(precision)
    rows = solve_triangular(factor.T, rng.standard_normal((p, n)), lower=False).T / scale
    S = rows.T @ rows / n
    return (S + S.T) / 2


def noisy(p: int, noise: float, seed: int) -> Matrix:
    """The same with independent noise on every entry: far from positive definite."""
    rng = np.random.default_rng(seed + 7_000)
    dirt = rng.standard_normal((p, p))
    return random_graph(p, 0.02, 10_000, seed) + noise * (dirt + dirt.T) / np.sqrt(2)


def blocks(count: int, size: int, seed: int, n: int = 10_000) -> Matrix:
    S = np.zeros((count * size, count * size))
    for k in range(count):
        here = slice(k * size, (k + 1) * size)
        S[here, here] = random_graph(size, 0.05, n, seed + 1_000 * k)
    return S


def large(p: int, seed: int) -> Matrix:
    """Few rows, because making it takes longer than solving it."""
    return random_graph(p, 0.001, 4_000, seed)


@dataclass(frozen=True)
class Problem:
    name: str
    make: Callable[[int], Matrix]
    alpha: float
    goal: float
    peers: bool = True
    path: int = 0
    seeds: tuple[int, ...] = SEEDS
    repeats: int = 5


PROBLEMS = (
    Problem("random p=500, 2 %", lambda seed: random_graph(500, 0.02, 10_000, seed), 0.036, 1.5, repeats=15),
    Problem("random p=1000, 1 %", lambda seed: random_graph(1000, 0.01, 10_000, seed), 0.036, 1.2, repeats=9),
    Problem("random p=1000, 10 %", lambda seed: random_graph(1000, 0.10, 10_000, seed), 0.0172, 4.0),
    Problem("hard p=500, n=250", lambda seed: random_graph(500, 0.02, 250, seed), 0.06, 15.0),
    Problem("indefinite p=500, 0.6 %", lambda seed: noisy(500, 0.05, seed), 0.165, 1.5, repeats=15),
    Problem("indefinite p=500, 6 %", lambda seed: noisy(500, 0.05, seed), 0.101, 3.0, repeats=9),
    Problem("indefinite p=500, 35 %", lambda seed: noisy(500, 0.05, seed), 0.05, 40.0),
    Problem("10 blocks of 200", lambda seed: blocks(10, 200, seed), 0.03, 0.4),
    Problem("path of 20, p=500", lambda seed: random_graph(500, 0.02, 10_000, seed), 0.0, 20.0, path=20),
    Problem("large p=5000, 0.1 %", lambda seed: large(5000, seed), 0.07, 1.0, peers=False, repeats=3),
)


# --- clocks -----------------------------------------------------------------------------------------------------------


def clock(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    answer = work()
    used = time.perf_counter() - begin
    del answer  # giving its memory back is not part of the call
    return used


def yardstick(p: int) -> Callable[[], object]:
    """dpotrf + dpotri on a well-conditioned matrix of size p."""
    from scipy.linalg.lapack import dpotrf, dpotri

    rng = np.random.default_rng(0)
    A = rng.standard_normal((p, min(p, 500)))
    A = np.asfortranarray(A @ A.T / p + np.eye(p))

    def work() -> object:
        factor, _ = dpotrf(A, lower=0, clean=0)
        return dpotri(factor, lower=0, overwrite_c=1)

    return work


def in_turn(ours: Callable[[], object], unit: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Medians of our time and of the yardstick, measured alternately so that both see the same machine."""
    unit()
    ours()
    pairs = [(clock(unit), clock(ours)) for _ in range(repeats)]
    units, times = zip(*pairs, strict=True)
    return float(np.median(times)), float(np.median(units))


# --- peers ------------------------------------------------------------------------------------------------------------


def with_scikit_learn(S: Matrix, alpha: float) -> Iterator[Callable[[], Matrix]]:
    from sklearn.covariance import graphical_lasso as peer

    lifted = S + alpha * np.eye(len(S))  # penalising the diagonal is the same as adding alpha to it
    for tol in (1e-2, 1e-4, 1e-6):
        yield lambda tol=tol: peer(lifted, alpha, tol=tol, enet_tol=tol * 1e-2, max_iter=200)[1]


def with_skglm(S: Matrix, alpha: float) -> Iterator[Callable[[], Matrix]]:
    from skglm.covariance import GraphicalLasso

    lifted = S + alpha * np.eye(len(S))
    GraphicalLasso(alpha=0.5).fit(np.eye(5) + 0.1, mode="precomputed")  # compile before the clock runs
    for tol in (1e-3, 1e-5, 1e-7):

        def attempt(tol: float = tol) -> Matrix:
            peer = GraphicalLasso(alpha=alpha, tol=tol, inner_tol=0.1 * tol, max_iter=200)
            return peer.fit(lifted, mode="precomputed").precision_

        yield attempt


def with_gglasso(S: Matrix, alpha: float) -> Iterator[Callable[[], Matrix]]:
    from gglasso.solver.single_admm_solver import ADMM_SGL

    lifted = S + alpha * np.eye(len(S))
    for tol in (1e-6, 1e-8, 1e-10):

        def attempt(tol: float = tol) -> Matrix:
            with contextlib.redirect_stdout(io.StringIO()):
                return ADMM_SGL(lifted, alpha, np.eye(len(S)), tol=tol, rtol=tol, verbose=False)[0]["Theta"]

        yield attempt


PEERS = {"scikit-learn": with_scikit_learn, "skglm": with_skglm, "GGLasso": with_gglasso}

R_PROGRAM = """
args <- commandArgs(TRUE)
p <- as.integer(args[2]); alpha <- as.numeric(args[3]); thr <- as.numeric(args[4])
S <- matrix(readBin(args[1], "double", p * p), p, p)
if (args[5] == "glasso") {
  library(glasso)
  used <- system.time(fit <- glasso(S, rho = alpha, thr = thr, maxit = 200))[["elapsed"]]
  theta <- fit$wi
} else if (args[5] == "glassoFast") {
  library(glassoFast)
  used <- system.time(fit <- glassoFast(S, rho = alpha, thr = thr))[["elapsed"]]
  theta <- fit$wi
} else if (args[5] == "QUIC") {
  library(QUIC)
  used <- system.time(fit <- QUIC(S, rho = alpha, tol = thr, msg = 0))[["elapsed"]]
  theta <- fit$X
} else {
  suppressMessages(library(huge))
  used <- system.time(fit <- huge(S, lambda = alpha, method = "glasso", verbose = FALSE))[["elapsed"]]
  theta <- as.matrix(fit$icov[[1]])
}
writeBin(as.vector((theta + t(theta)) / 2), args[6])
cat(used)
"""


def time_r(package: str, S: Matrix, alpha: float, limit: float) -> Iterator[tuple[float, Matrix]]:
    """Elapsed time as R reports it, and the precision, at ever tighter thresholds."""
    with tempfile.TemporaryDirectory() as folder:
        data, out, program = (str(Path(folder) / name) for name in ("S.bin", "T.bin", "run.R"))
        Path(program).write_text(R_PROGRAM)
        S.astype(np.float64).tofile(data)
        for threshold in (0.0,) if package == "huge" else (1e-4, 1e-6, 1e-8):
            arguments = [data, str(len(S)), repr(alpha), repr(threshold), package, out]
            try:
                run = subprocess.run(
                    ["Rscript", program, *arguments], capture_output=True, text=True, timeout=limit, check=True
                )
            except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
                return
            yield float(run.stdout.split()[-1]), np.fromfile(out).reshape(S.shape)


def gap_of(T: Matrix, S: Matrix, alpha: float) -> float:
    if not np.all(np.isfinite(T)):
        return float("inf")
    found = certify(np.ascontiguousarray((T + T.T) / 2), S, make_penalty(len(S), alpha))
    return float("inf") if found is None else found.gap / len(S)


def time_peer(name: str, S: Matrix, alpha: float, limit: float) -> str:
    """Seconds until the gap, or why there are none."""
    best = float("inf")
    try:
        if name in PEERS:
            for attempt in PEERS[name](S, alpha):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    begin = time.perf_counter()
                    T = attempt()
                    used = time.perf_counter() - begin
                best = min(best, gap_of(T, S, alpha))
                if best <= TOLERANCE:
                    return f"{used:.4f}"
                if used > limit:
                    break
        else:
            for used, T in time_r(name.removeprefix("R "), S, alpha, limit):
                best = min(best, gap_of(T, S, alpha))
                if best <= TOLERANCE:
                    return f"{used:.4f}"
    except ImportError:
        return "not installed"
    except Exception as problem:
        return f"fails ({type(problem).__name__})"
    return f"not reached (gap/p {best:.0e})"


def peers_found() -> list[str]:
    """Python's peers always, so that a missing one is named; R's where it has them."""
    if shutil.which("Rscript") is None:
        return [*PEERS]
    wanted = ("glasso", "glassoFast", "huge", "QUIC")
    code = f"cat(Filter(function(x) requireNamespace(x, quietly = TRUE), c{wanted}))".replace("'", '"')
    found = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=False).stdout.split()
    return [*PEERS, *(f"R {package}" for package in wanted if package in found)]


# --- the run ----------------------------------------------------------------------------------------------------------


def measure(problem: Problem, peers: list[str], limit: float) -> None:
    ratios, notes = [], ""
    for seed in problem.seeds:
        S = problem.make(seed)
        unit = yardstick(len(S))
        if problem.path:
            top = largest_alpha(S)
            alphas = np.geomspace(top, top / 12, problem.path)

            def ours(S: Matrix = S, alphas: Matrix = alphas) -> object:
                return graphical_lasso_path(S, alphas)

            worst = max(answer.gap for answer in graphical_lasso_path(S, alphas)) / len(S)
            used, y = in_turn(ours, unit, max(3, problem.repeats // 2))
            cold = clock(lambda S=S, alphas=alphas: [graphical_lasso(S, alpha) for alpha in alphas])
            notes = f"worst gap/p {worst:.0e}, cold starts {cold / y:.1f} Y"
        else:

            def ours(S: Matrix = S) -> object:
                return graphical_lasso(S, problem.alpha)

            answer = graphical_lasso(S, problem.alpha)
            p = len(S)
            edges = (np.count_nonzero(answer.precision) - p) / (p * (p - 1))
            notes = f"{answer.solver}, {answer.n_iter} it., {edges:.1%} edges, gap/p {answer.gap / p:.0e}"
            used, y = in_turn(ours, unit, problem.repeats)
        ratios.append(used / y)
    ratio = float(np.median(ratios))
    verdict = "ok" if ratio <= problem.goal else "MISSED"
    spread = f"{min(ratios):.2f}..{max(ratios):.2f}"
    print(
        f"{problem.name:26s} {ratio:7.2f} Y ({spread})  goal {problem.goal:5.1f} Y  {verdict:6s}  "
        f"Y = {1e3 * y:.1f} ms  [{notes}]",
        flush=True,
    )
    if not problem.peers or problem.path:
        return
    for name in peers:
        outcome = time_peer(name, S, problem.alpha, limit)
        try:
            said = f"{float(outcome) / y:.1f} Y, {float(outcome) / used:.1f} times ours"
        except ValueError:
            said = outcome
        print(f"    {name:22s} {said}", flush=True)


def measure_first_call(repeats: int = 5) -> None:
    """Seconds of the first call in a new process, without and with compiled kernels in the cache (imports apart)."""
    work = (
        "import sys, time, numpy as np, numba, scipy.linalg\n"
        "from hazeglass.glasso import graphical_lasso\n"
        "S = np.load(sys.argv[1]); begin = time.perf_counter()\n"
        "graphical_lasso(S, float(sys.argv[2])); print(time.perf_counter() - begin)"
    )
    problems = {"dense": (random_graph(200, 0.05, 150, 0), 0.1), "sparse": (random_graph(400, 0.005, 10_000, 0), 0.036)}
    for name, (S, alpha) in problems.items():
        cold, warm = [], []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as folder:
                np.save(f"{folder}/S.npy", S)
                for times in (cold, warm):
                    command = [sys.executable, "-c", work, f"{folder}/S.npy", str(alpha)]
                    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
                    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                    times.append(float(said.stdout))
        print(
            f"first call, {name:6s} problem: cold {np.median(cold):.2f} s ({min(cold):.2f}..{max(cold):.2f}, goal 5), "
            f"warm {np.median(warm):.2f} s ({min(warm):.2f}..{max(warm):.2f}, goal 0.3)",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true", help="time every peer that is installed")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a peer is given up")
    options = parser.parse_args()
    graphical_lasso(random_graph(30, 0.1, 100, 0), 0.1)  # compile before any clock runs
    for problem in PROBLEMS:
        if options.only in problem.name:
            measure(problem, peers_found() if options.peers else [], options.limit)
    if options.only in "first call":
        measure_first_call()
    return 0


if __name__ == "__main__":
    sys.exit(main())
