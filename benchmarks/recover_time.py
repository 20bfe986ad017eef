"""How long recovery takes at every size, once everything is imported and compiled: processor seconds of one thread.

Releases are made in the run: moments drawn from a known covariance (drawn.py), so that rows need not fit anywhere.
Medians of three; processor time, because other work on the machine disturbs the clock. F1 is that of the penalised
graph against the true edges. Goals in brackets.

    python benchmarks/recover_time.py                 up to 300 columns, curved, raw rows, stars, near d(S) (3 minutes)
    python benchmarks/recover_time.py --large         also 1,000 columns, and how time grows with columns
    python benchmarks/recover_time.py --huge          5,000 columns, 1e6 rows, by all cores and by the clock, with the
                                                      peak memory; making the release takes ten minutes of its own
    python benchmarks/recover_time.py --peers         only GraphicalLassoCV and R's huge on the same raw rows
    python benchmarks/recover_time.py --unrestricted  F1 at 300 columns beside a path that goes all the way down to d(S)
"""

from __future__ import annotations

import os
import sys

if "--huge" not in sys.argv:
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import math
import shutil
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

import hazeglass as hg
from drawn import drawn_release
from graphs import precision_of, standardised_rows

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "glasso"))
from covariance_problems import indefinite_family  # the six families that the solvers are tested on

FloatArray = npt.NDArray[np.float64]
BUDGET = {"epsilon": 5.0, "delta": 1e-6}


def seconds(work: Callable[[], object], repeats: int) -> tuple[float, object]:
    """The median of the processor time, and the last result."""
    took: list[float] = []
    for _ in range(repeats):
        begin = time.process_time()
        result = work()
        took.append(time.process_time() - begin)
    return statistics.median(took), result


def f1(precision: FloatArray, truth: FloatArray) -> float:
    upper = np.triu_indices(len(truth), 1)
    found, true = np.abs(precision[upper]) > 1e-10, np.abs(truth[upper]) > 1e-9
    return 2 * float(np.sum(found & true)) / max(1, int(found.sum() + true.sum()))


def moments(p: int, n: int, repeats: int, goal: str = "", family: str = "random", **options: object) -> float:
    truth = precision_of(family, p, np.random.default_rng(1))
    release = drawn_release(truth, n, 1, **BUDGET)
    took, graph = seconds(lambda: hg.recover(release, **options), repeats)
    assert isinstance(graph, hg.Graph)
    i, j = graph._ends(graph.selected)
    wrong = float(np.mean(np.abs(truth[i, j]) < 1e-9)) if i.size else 0.0
    shown = (
        f"F1 {f1(graph.precision, truth):.3f}, {len(graph.fit['path'])} penalties, {i.size} selected, false {wrong:.3f}"
        f", gap/p {graph.fit['duality_gap'] / p:.0e}"
    )
    if graph.fit.get("distrusted"):
        shown += f", NOT TRUSTED: {graph.fit['distrusted']}"
    print(f"{p:>6,} columns, {n:>9,} rows, eps 5 {took:8.2f} s {goal:>16}   {shown}", flush=True)
    return took


def curved_rows(p: int, n: int) -> FloatArray:
    """Chains of four columns, each a straight or a bent function of the one before."""
    rows = np.random.default_rng(3).standard_normal((n, p))
    for j in (j for j in range(p) if j % 4):
        rows[:, j] = 0.8 * rows[:, j] + (0.6 * rows[:, j - 1] if j % 2 else 0.5 * (rows[:, j - 1] ** 2 - 1))
    return np.clip(rows, -6, 6)


def raw_rows(p: int, n: int) -> FloatArray:
    """Columns that share six causes: dense, as tables of measurements are."""
    rng = np.random.default_rng(3)
    return rng.standard_normal((n, 6)) @ rng.standard_normal((6, p)) + 0.5 * rng.standard_normal((n, p))


def small(repeats: int) -> None:
    """Everything that takes seconds."""
    moments(100, 50_000, repeats, "(goal .3 s)")
    moments(300, 50_000, repeats)
    for name, rows, options, goal in (
        ("200 columns, curved (600 features)", curved_rows(200, 4000), {"dependence": "curved"}, "(goal 8 s)"),
        ("46 raw columns, 2,000 rows", raw_rows(46, 2000), {}, "(goal .5 s)"),
    ):
        took, _ = seconds(lambda rows=rows, options=options: hg.recover(rows, **options), repeats)
        print(f"{name:<37}{took:8.2f} s {goal:>16}", flush=True)
    release = drawn_release(precision_of("random", 50, np.random.default_rng(1)), 5000, 1, **BUDGET)
    took, _ = seconds(lambda: hg.recover(release, select="stars", n_jobs=1), repeats)
    print(f"{'50 columns, stars':<37}{took:8.2f} s {'(goal 1 s)':>16}", flush=True)


def near_the_edge() -> None:
    """At 1.001 d(S), where an estimate hardly exists."""
    for kind in range(6):
        S = indefinite_family(kind, 100, 5)
        distance = hg.nearest_psd_max_norm(S)[1]
        took, answer = seconds(lambda S=S, d=distance: hg.graphical_lasso(S, 1.001 * d), 1)
        assert isinstance(answer, hg.Solution)
        said = f"gap / p = {answer.gap / 100:.0e}" if answer.converged else "stopped, and said so"
        print(f"family {kind} at 1.001 d(S), 100 columns {took:9.2f} s {'(goal 10 s)':>16}   {said}", flush=True)


def large() -> None:
    sizes = (250, 500, 1000)
    took = [moments(p, 50_000, 1, "(goal 15 s)" if p == 1000 else "") for p in sizes]
    print(
        f"exponent from {sizes[0]} to {sizes[-1]}: {math.log(took[-1] / took[0]) / math.log(sizes[-1] / sizes[0]):.2f}"
    )
    moments(1000, 1_000_000, 1, family="hubs")
    few, many = (moments(p, 50_000, 1) for p in (250, 4000))
    print(f"exponent from 250 to 4,000: {math.log(many / few) / math.log(16):.2f} (goal 2.7)")


def huge() -> None:
    """By the clock, because two cores share the work; the release is in memory, and counts."""
    truth = precision_of("random", 5000, np.random.default_rng(1))
    begin = time.perf_counter()
    release = drawn_release(truth, 1_000_000, 1, **BUDGET)
    print(
        f"5,000 columns, {len(release.manifest.stages)} stages, made in {time.perf_counter() - begin:.0f} s", flush=True
    )
    before = _peak_from_here()
    wall, used = time.perf_counter(), time.process_time()
    graph = hg.recover(release)
    wall, used = time.perf_counter() - wall, time.process_time() - used
    i, j = graph._ends(graph.selected)
    print(
        f" 5,000 columns, 1,000,000 rows, eps 5 {wall:8.1f} s by the clock, {used:.1f} s of processors (goal 300 s)   "
        f"F1 {f1(graph.precision, truth):.3f}, {i.size} selected, false {np.mean(np.abs(truth[i, j]) < 1e-9):.3f}, "
        f"gap/p {graph.fit['duality_gap'] / 5000:.0e}, peak {_peak():.1f} GiB ({before:.1f} before; goal 12)",
        flush=True,
    )


def _peak() -> float:
    """Of this process's memory, in GiB, since it was last asked to forget it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def _peak_from_here() -> float:
    """Forget what making the release took; what it holds stays counted."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def unrestricted() -> None:
    """The same release by a path that is not cut off at the noise, at a readable density or for want of patience."""
    from hazeglass.analyst import penalty, select

    moments(300, 50_000, 1)
    penalty.MOST_DEGREE, select.PATIENCE = 10**9, 10**9
    plain = penalty.PenaltyPath
    select.PenaltyPath = lambda problem, alphas=penalty.GRID, least=0.0: plain(problem, alphas)  # type: ignore[misc]
    moments(300, 50_000, 1, "unrestricted")


_HUGE = """
suppressMessages(library(huge)); rows <- as.matrix(read.csv("{file}", header = FALSE)); begin <- proc.time()[3]
path <- huge(rows, method = "glasso", verbose = FALSE); chosen <- huge.select(path, criterion = "ebic", verbose = FALSE)
cat(proc.time()[3] - begin, sum(chosen$refit != 0) / 2)
"""
_SCIKIT = """
import time, numpy as np, warnings
from sklearn.covariance import GraphicalLassoCV
warnings.simplefilter("ignore")
rows, begin = np.loadtxt("{file}", delimiter=","), time.perf_counter()
found = GraphicalLassoCV(cv=3).fit(rows / rows.std(axis=0)).precision_
print(time.perf_counter() - begin, (np.count_nonzero(found) - len(found)) // 2)
"""
_PATIENCE = 900.0  # seconds that a peer is given


def peers() -> None:
    """The same rows for each: ours chooses by EBIC over a path with error bars, huge by EBIC over ten penalties."""
    for p in (50, 200, 1000):
        rng = np.random.default_rng(0)
        rows = standardised_rows(precision_of("random", p, rng), 2000, rng)
        ours, graph = seconds(lambda rows=rows: hg.recover(rows), 1)
        assert isinstance(graph, hg.Graph)
        print(f"{p:>6,} raw columns, 2,000 rows: ours {ours:.2f} s, {graph.selected.num_rows} selected", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.csv"
            np.savetxt(file, rows, delimiter=",")
            for name, command, script in (
                ("scikit-learn", [sys.executable, "-c"], _SCIKIT),
                ("R's huge", ["Rscript", "-e"], _HUGE),
            ):
                print(f"{'':>14}{name}: {_of_peer([*command, script.format(file=file)], ours)}", flush=True)


def _of_peer(command: list[str], ours: float) -> str:
    if shutil.which(command[0]) is None:
        return "not installed: left out"
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True).stdout
    except subprocess.TimeoutExpired:
        return f"not done after {_PATIENCE:.0f} s, more than {_PATIENCE / ours:.0f} times ours"
    except subprocess.CalledProcessError as error:
        return f"failed: {error.stderr.strip().splitlines()[-1]}"
    took, edges = map(float, said.split())
    return f"{took:.2f} s, {took / ours:.1f} times ours; {edges:.0f} edges"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("large", "huge", "peers", "unrestricted"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    hg.recover(drawn_release(precision_of("random", 70, np.random.default_rng(0)), 5000, 0, **BUDGET))  # compile
    hg.recover(curved_rows(8, 400), dependence="curved")
    if arguments.unrestricted:
        unrestricted()
        return
    if arguments.huge:
        huge()
        return
    if arguments.peers:
        peers()
        return
    small(arguments.repeats)
    near_the_edge()
    if arguments.large:
        large()


if __name__ == "__main__":
    main()
