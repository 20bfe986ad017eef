"""Who finds the graph? Edge recovery at the same honest budget: one record of the table protected, delta = 1e-6.

Ours (moments, table) against what else an analyst could do with a release of the same promise: scikit-learn's
GraphicalLassoCV, the graphical lasso and neighbourhood selection on the noisy table as if it were clean, the paper's
estimator (noise subtracted, one penalty for all pairs), and MST synthetic rows (dpmm, in the environment that
`make .venv-dpmm/bin/python` builds; two minutes a run at 20 columns, so only when named). Pairs are ranked; average
precision and AUC against the true edges, means with standard errors over seeds.

    python benchmarks/recovery.py [--seeds 5] [--columns 20 50] [--rows 1000 10000 100000] [--epsilons 0.5 1 2 4 8]
                                  [--methods ...] [--out results.csv]

Results are added to a file, line by line; benchmarks/tools/recovery_table.py makes tables and the picture of it. Rows
of a cell are the same for every method and budget. How pairs are ranked:

    ours            Graph.evidence, the ranking behind Graph.scores
    scikit-learn    partial correlations at the penalty its cross-validation chose
    others          the largest penalty at which the pair is an edge (for two columns' lassos, the larger one)
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import hazeglass as hg
from graphs import BOUND, FAMILIES, make_plan, precision_of, simulate, standardised_rows, true_partials
from hazeglass.analyst.covariance import noise_of
from hazeglass.analyst.select import rows_of

FloatArray = npt.NDArray[np.float64]
DELTA = 1e-6
ANY_ALPHA = 1.0  # the ranking does not depend on the penalty of the fit; naming one saves the time to choose it
PATH = 30
DPMM = Path(__file__).resolve().parent.parent / ".venv-dpmm" / "bin" / "python"


@dataclass(frozen=True)
class Case:
    """The rows of one cell and seed, and the noisy table they were released as."""

    rows: FloatArray
    epsilon: float
    seed: int
    noisy: FloatArray
    noise: FloatArray

    @classmethod
    def of(cls, rows: FloatArray, epsilon: float, seed: int) -> Case:
        table = simulate(rows, make_plan("table", rows.shape[1], epsilon=epsilon, delta=DELTA), seed)
        return cls(rows, epsilon, seed, rows_of(table), noise_of(table))


def upper(matrix: FloatArray) -> FloatArray:
    return np.asarray(matrix[np.triu_indices(len(matrix), 1)])


# ------------------------------------------------------------------------------------------------------- methods


def ours(form: str, case: Case) -> FloatArray:
    plan = make_plan(form, case.rows.shape[1], epsilon=case.epsilon, delta=DELTA)
    graph = hg.recover(simulate(case.rows, plan, case.seed), alpha=ANY_ALPHA)
    assert graph.evidence is not None
    return graph.evidence


def scikit_learn(case: Case) -> FloatArray:
    from sklearn.covariance import GraphicalLassoCV

    rows = case.noisy / case.noisy.std(axis=0)
    precision = GraphicalLassoCV(alphas=4, n_refinements=2, cv=3).fit(rows).precision_
    scale = np.sqrt(np.diag(precision))
    return np.abs(upper(precision / np.outer(scale, scale)))


def lasso_entries(covariance: FloatArray) -> FloatArray:
    """The largest penalty, of a path, at which each pair is an edge; sizes break ties."""
    off = np.abs(covariance - np.diag(np.diag(covariance)))
    distance = hg.nearest_psd_max_norm(covariance)[1] if np.linalg.eigvalsh(covariance)[0] < 0 else 0.0
    top, bottom = float(off.max()), max(0.01 * float(off.max()), 1.05 * distance)
    if bottom >= top:  # no penalty that has an estimate leaves an edge: rank by what would enter first
        return upper(off)
    entries = np.zeros_like(covariance)
    for solution in hg.graphical_lasso_path(covariance, np.geomspace(0.999 * top, bottom, PATH)):
        new = (solution.precision != 0) & (entries == 0)
        entries[new] = solution.alpha * (1 + 1e-3 * off[new] / top)
    return np.where(upper(entries) > 0, upper(entries), 1e-6 * upper(off))


def naive(case: Case) -> FloatArray:
    return lasso_entries(np.corrcoef(case.noisy, rowvar=False))


def paper(case: Case) -> FloatArray:
    """Noise subtracted, covariance scale, one penalty for all: as the paper has it."""
    return lasso_entries(np.cov(case.noisy, rowvar=False) - case.noise)


def neighbourhoods(case: Case) -> FloatArray:
    from sklearn.linear_model import lars_path_gram

    correlation = np.corrcoef(case.noisy, rowvar=False)
    p = len(correlation)
    entries = np.zeros((p, p))
    for k in range(p):
        others = np.delete(np.arange(p), k)
        gram = correlation[np.ix_(others, others)]
        alphas, _, path = lars_path_gram(correlation[others, k], gram, n_samples=1, method="lasso", max_iter=4 * p)
        first = np.argmax(path != 0, axis=1)
        entries[k, others] = np.where(np.any(path != 0, axis=1), alphas[np.maximum(first - 1, 0)], 0.0)
    return upper(np.maximum(entries, entries.T))


def mst(case: Case) -> FloatArray:
    """Rows made by MST under the same budget, then the graphical lasso on them."""
    script = Path(__file__).with_name("tools") / "mst_rows.py"
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.npy", Path(folder) / "made.npy"
        np.save(source, np.clip(case.rows, -BOUND, BOUND))
        command = [str(DPMM), str(script), str(source), str(target), str(case.epsilon), str(DELTA), str(case.seed)]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        made = np.load(target)
    made = made + 1e-9 * np.random.default_rng(0).standard_normal(made.shape)  # a column may come out constant
    return lasso_entries(np.corrcoef(made, rowvar=False))


METHODS: dict[str, Callable[[Case], FloatArray]] = {
    "moments (ours)": lambda case: ours("moments", case),
    "table (ours)": lambda case: ours("table", case),
    "scikit-learn": scikit_learn,
    "naive": naive,
    "paper": paper,
    "neighbourhoods": neighbourhoods,
    "MST": mst,
}

# --------------------------------------------------------------------------------------------------------- cells


def judge(scores: FloatArray, edges: npt.NDArray[np.bool_]) -> tuple[float, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    return float(average_precision_score(edges, scores)), float(roc_auc_score(edges, scores))


def run_seed(family: str, p: int, n: int, seed: int, epsilons: list[float], methods: list[str]) -> list[list[object]]:
    """One data set at every budget by every method."""
    rng = np.random.default_rng((FAMILIES.index(family), p, n, seed))
    precision = precision_of(family, p, rng)
    edges = np.abs(true_partials(precision)) > 1e-9
    rows = standardised_rows(precision, n, rng)
    lines: list[list[object]] = []
    for epsilon in epsilons:
        case = Case.of(rows, epsilon, seed)
        for method in methods:
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = judge(METHODS[method](case), edges)
            lines.append([family, p, n, epsilon, method, seed, *found, time.perf_counter() - begin])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    parser.add_argument("--columns", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1, 2, 4, 8])
    parser.add_argument("--methods", nargs="+", default=[name for name in METHODS if name != "MST"])
    parser.add_argument("--out", type=Path, default=Path("build/recovery.csv"))
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("a", newline="") as file:
        writer = csv.writer(file)
        for seed in range(arguments.seeds):
            for n in arguments.rows:
                for p in arguments.columns:
                    for family in arguments.families:
                        writer.writerows(run_seed(family, p, n, seed, arguments.epsilons, arguments.methods))
                        file.flush()
                        print(family, p, n, "seed", seed, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
