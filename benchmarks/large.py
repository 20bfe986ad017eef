"""Graphical lasso of many columns on one core: time and memory against p, in units of one Cholesky factor and inverse.

Sparse problems with about four edges a node, solved to duality gap / p <= 1e-4 with the certificate's time included.
Each size runs in a process of its own, which reports its peak memory; S is counted, and so is making the answer.

    python benchmarks/large.py               625 to 5,000 columns, and the exponent of p (two minutes)
    python benchmarks/large.py --largest     also 10,000 columns, connected (once the yardstick, below 8 GiB) and in
                                             groups of 100, where the answer's memory is most of the work
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

SIZES = (625, 1_250, 2_500, 5_000)
TOL = 1e-4


def sparse_rows(p: int, n: int, seed: int, group: int) -> np.ndarray:
    """n observations (float32) of p columns; each hangs on two earlier ones of its group: about four edges a node."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((p, n), dtype=np.float32)
    for j in range(p):
        first = j - j % group
        if j >= first + 2:
            rows[j] += 0.25 * (rng.choice([-1, 1], 2) @ rows[rng.integers(first, j, 2)])
    rows -= rows.mean(axis=1, keepdims=True)
    return rows / rows.std(axis=1, keepdims=True)


def correlations(p: int, group: int) -> np.ndarray:
    n = 1_000
    X = sparse_rows(p, n, 7, group)
    S = (X @ X.T).astype(np.float64) / n
    np.fill_diagonal(S, 1.0)
    return S


def solve_groups(p: int, group: int) -> dict[str, float]:
    """Time of the first call and of later ones, and the peak memory."""
    from hazeglass import graphical_lasso

    S = correlations(p, group)
    alpha = 0.2  # no chance correlation between groups is as large
    graphical_lasso(S[: 2 * group, : 2 * group].copy(), alpha, tol=TOL)  # compile before any clock runs
    took: list[float] = []
    for _ in range(5):
        begin = time.perf_counter()
        answer = graphical_lasso(S, alpha, tol=TOL)
        took.append(time.perf_counter() - begin)
        del answer
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"first": took[0], "later": float(np.median(took)), "gib": peak}


def solve_one(p: int, repeats: int) -> dict[str, float]:
    """Time of the solver and of the yardstick in turn, and the peak memory before the yardstick ran."""
    from scipy.linalg.lapack import dpotrf, dpotri

    from hazeglass import graphical_lasso

    S = correlations(p, group=p)
    alpha = 0.15
    graphical_lasso(S[:800, :800].copy(), alpha, tol=TOL)  # compile before any clock runs
    ours = []
    for _ in range(repeats):
        begin = time.perf_counter()
        answer = graphical_lasso(S, alpha, tol=TOL)
        ours.append(time.perf_counter() - begin)
        gap, edges = answer.gap / p, (np.count_nonzero(answer.precision) - p) / p
        del answer
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    S[np.diag_indices(p)] += 1.0
    unit = []
    for _ in range(repeats):
        A = np.asfortranarray(S.T)
        begin = time.perf_counter()
        factor, _ = dpotrf(A, lower=0, clean=0, overwrite_a=1)
        dpotri(factor, lower=0, overwrite_c=1)
        unit.append(time.perf_counter() - begin)
        del A, factor
    return {"p": p, "seconds": min(ours), "unit": min(unit), "gib": peak, "gap": gap, "edges": edges}


def in_own_process(option: str, p: int) -> dict[str, float]:
    run = subprocess.run([sys.executable, __file__, option, str(p)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(run.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", action="store_true", help="also 10,000 columns")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--groups", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.groups:
        print(json.dumps(solve_groups(options.groups, 100)))
        return 0
    if options.one:
        print(json.dumps(solve_one(options.one, 2 if options.one > 5_000 else 3)))
        return 0
    found = []
    for p in (*SIZES, *((10_000,) if options.largest else ())):
        one = in_own_process("--one", p)
        found.append(one)
        ratio, size = one["seconds"] / one["unit"], one["gib"] * 2**27 / p**2
        print(
            f"p = {p:6,}  {one['seconds']:7.3f} s = {ratio:5.2f} Y (Y = {one['unit']:.3f} s)  "
            f"peak {one['gib']:.2f} GiB = {size:.1f} p^2 doubles  {one['edges']:.1f} edges a node, "
            f"gap/p {one['gap']:.0e}",
            flush=True,
        )
    fitted = [one for one in found if one["p"] <= 5_000]
    slope = np.polyfit(np.log([one["p"] for one in fitted]), np.log([one["seconds"] for one in fitted]), 1)[0]
    print(f"time grows as p^{slope:.2f} up to 5,000 columns (goal 2.5)")
    if options.largest:
        one = in_own_process("--groups", 10_000)
        print(
            f"p = 10,000 in groups of 100: first call {one['first']:.2f} s, later {one['later']:.2f} s; "
            f"peak {one['gib']:.2f} GiB, S alone {10_000**2 / 2**27:.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
