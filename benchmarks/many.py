"""Many releases: is a pooled graph as good as one release of all rows, and are differences between two releases real?

pool     ten sites of 2,000 rows, each a release of its own at epsilon 1 (delta 1e-6), pooled. Beside it one release of
         the same 20,000 rows whose noise is that of ten: sums of ten releases have sqrt(10) times the noise of one, so
         its mu is mu_site / sqrt(10). `formula` is the error that ten such sites leave if nothing is lost in pooling:
         the root mean square over pairs of sqrt(sum_k v_k) / 10, v_k the variance of a partial correlation by the
         error model of site k at the true precision. Coverage, false discoveries, and how often a test of agreement
         between the sites says at 5 % that they differ, where they do not.
compare  two releases, both with the edges of one graph (`same`), with half of their edges in common (`half`), or with
         all edges stronger or weaker by different amounts (`graded`, for a power curve). False discoveries and power
         of the differences, coverage of their intervals, for several numbers of rows.

    python benchmarks/many.py pool compare [--replicates 100] [--first-seed 1000] [--jobs 16] [--out many.csv]

Every line of the CSV is one replicate; one that is there already is not done again. `--summary` prints the means of
what is there and does nothing else. Seeds below 1000 were used while the code was written.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import hazeglass as hg
from graphs import FAMILIES, make_plan, precision_of, simulate, standardised_rows, true_partials
from hazeglass.analyst.penalty import Problem
from hazeglass.analyst.several import Several, disagreement
from hazeglass.analyst.source import source_of
from hazeglass.analyst.twins import inferred
from hazeglass.compute.engines import Serial

SITES, SITE_ROWS, COLUMNS = 10, 2000, 10
FDR, DELTA = 0.1, 1e-6
ROWS = (2000, 5000, 20_000)
SIZES = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 2.0)  # of a difference, for the power curve
FIELDS = ("section", "case", "seed", "result", "cpu_seconds")
FloatArray = npt.NDArray[np.float64]
Task = tuple[str, str, int]


def cases(section: str) -> list[str]:
    """What a section tries, in words that stand in the CSV."""
    if section == "pool":
        mixed = ["random mixed", "random linear", "random table"]
        return [*(f"{family} alike" for family in FAMILIES), *mixed, "chain 20"]
    grid = [f"{kind} {n} {epsilon:g}" for kind in ("same", "half", "graded") for n in ROWS for epsilon in (1.0, 3.0)]
    return [*grid, "same uneven", "half uneven"]


def estimated(source: Any) -> tuple[Any, Any, Any]:
    """What recover does for its error bars."""
    noisy = source.covariance(Serial(), curved=False).standardised()
    problem = Problem.of(noisy)
    found = inferred(noisy, problem, problem.fit(1.0))  # for one feature per column no penalty is looked at
    return noisy, found.base, found.pairs


def plan_of(form: str, p: int, mu: float, scale: str | None = None) -> hg.Plan:
    """Record unit, bounds three standard deviations away."""
    document = make_plan(form, p, mu=mu).to_dict()
    if scale is not None:
        document["release"]["scale"] = scale
    return hg.Plan.from_dict(document)


def quality(pairs: Any, truth: FloatArray) -> dict[str, float]:
    """Of estimates with their intervals and q-values."""
    real, called = np.abs(truth) > 1e-9, pairs.q_value <= FDR
    inside = (pairs.ci_low <= truth) & (truth <= pairs.ci_high)
    return {
        "rmse": float(np.sqrt(np.mean((pairs.partial_correlation - truth) ** 2))),
        "error": float(np.sqrt(np.mean(pairs.std_error**2))),
        "coverage": float(inside.mean()),
        "fdp": float(np.sum(called & ~real) / max(1, called.sum())),
        "power": float(called[real].mean()),
    }


def pool(case: str, seed: int) -> dict[str, float]:
    """One replicate of ten sites and of one release of all their rows."""
    words = case.split()
    family, kind, p = words[0], words[1], 20 if words[1] == "20" else COLUMNS
    rng = np.random.default_rng(seed)
    precision = precision_of(family, p, rng)
    rows, truth = standardised_rows(precision, SITES * SITE_ROWS, rng), true_partials(precision)
    mus = [hg.GaussianDP.from_budget(1.0, DELTA).mu] * SITES
    if kind == "mixed":  # half of the sites have epsilon 0.3
        mus = [mu if k % 2 else hg.GaussianDP.from_budget(0.3, DELTA).mu for k, mu in enumerate(mus)]
    form, scale = ("table" if kind == "table" else "moments"), ("linear" if kind == "linear" else None)
    if kind == "table":  # cell noise as large as half a standard deviation: rows at epsilon 1 would be noise alone
        mus = [2 * np.sqrt(p) / 0.15] * SITES
    parts = np.split(rows, SITES)
    releases = [
        simulate(part, plan_of(form, p, mu, scale), SITES * seed + k)
        for k, (part, mu) in enumerate(zip(parts, mus, strict=True))
    ]
    noisy, base, pairs = estimated(Several.of(releases))
    scale_of = np.sqrt(np.diag(np.linalg.inv(precision)))
    true = precision * np.outer(scale_of, scale_of)
    upper = np.triu_indices(p, 1)
    variances = [1 / part.error.partial_correlation_sd(true)[upper] ** 2 for part in noisy.parts]
    found = quality(pairs, truth)
    found["formula"] = float(np.sqrt(np.mean(1 / np.sum(variances, axis=0))))
    apart = disagreement(noisy.parts, base.precision)
    found["disagree"] = float(np.mean(apart < 0.05))
    found["disagree_overall"] = float(np.min(np.sort(apart) * apart.size / np.arange(1, apart.size + 1)) < 0.05)
    found["pooled"], found["distrusted"] = float(len(noisy.parts)), float(noisy.distrusted is not None)
    if kind in ("alike", "20", "linear"):
        one = simulate(rows, plan_of(form, p, mus[0] / np.sqrt(SITES), scale), seed)
        whole = estimated(source_of(one))
        found |= {f"one_{key}": value for key, value in quality(whole[2], truth).items()}
        found["one_distrusted"] = float(whole[0].distrusted is not None)
    return found


def changed(precision: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The same graph with half of its edges moved to pairs that were none, as strong as before."""
    found, (i, j) = precision.copy(), np.triu_indices(len(precision), 1)
    edges = rng.permutation(np.flatnonzero(precision[i, j]))
    empty = rng.permutation(np.flatnonzero(precision[i, j] == 0))
    for old, new in zip(edges[: len(edges) // 2], empty, strict=False):
        value = precision[i[old], j[old]]
        found[i[old], j[old]] = found[j[old], i[old]] = 0.0
        found[i[new], j[new]] = found[j[new], i[new]] = value
    least = np.linalg.eigvalsh(found)[0]
    return found if least > 0.2 else found + (0.2 - least) * np.eye(len(found))


def graded(precision: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The same graph, every edge stronger or weaker."""
    i, j = np.triu_indices(len(precision), 1)
    moved = np.where(precision[i, j] != 0, rng.uniform(-0.4, 0.4, i.size), 0.0)
    found = precision.copy()
    found[i, j] += moved
    found[j, i] += moved
    return found + max(0.0, 0.2 - np.linalg.eigvalsh(found)[0]) * np.eye(len(found))


def compare(case: str, seed: int) -> dict[str, float]:
    """One replicate of two releases."""
    words = case.split()
    rng = np.random.default_rng(seed)
    first = precision_of("random", COLUMNS, rng)
    other = {"half": changed, "graded": graded}.get(words[0], lambda same, _: same)(first, rng)
    if words[0] != "same":  # what both have must be equally strong in both
        least = max(float(np.diag(one)[0]) for one in (first, other))
        first, other = (one + (least - np.diag(one)[0]) * np.eye(COLUMNS) for one in (first, other))
    sizes, epsilons = (20_000, 3000), (3.0, 1.0)
    if words[1] != "uneven":
        sizes, epsilons = (int(words[1]),) * 2, (float(words[2]),) * 2
    graphs, truths = [], []
    for k, (one, n, epsilon) in enumerate(zip((first, other), sizes, epsilons, strict=True)):
        rows = standardised_rows(one, n, rng)
        plan = plan_of("moments", COLUMNS, hg.GaussianDP.from_budget(epsilon, DELTA).mu)
        graphs.append(hg.recover(simulate(rows, plan, 2 * seed + k), fdr=FDR, engine="serial"))
        truths.append(true_partials(one))
    diff = graphs[0].diff(graphs[1], fdr=FDR)
    truth = truths[1] - truths[0]
    real, called = np.abs(truth) > 1e-9, diff.edges["selected"].to_numpy(zero_copy_only=False)
    low, high, error = (diff.edges[key].to_numpy() for key in ("ci_low", "ci_high", "std_error"))
    found = {
        "fdp": float(np.sum(called & ~real) / max(1, called.sum())),
        "coverage": float(np.mean((low <= truth) & (truth <= high))),
        "error": float(np.sqrt(np.mean(error**2))),
        "called": float(called.sum()),
        "distrusted": float(diff.fit["distrusted"] is not None),
    }
    if real.any():
        found["power"] = float(called[real].mean())
        for least, most in pairwise(SIZES):
            some = real & (np.abs(truth) > least) & (np.abs(truth) <= most)
            if some.any():
                found[f"power {least:g} to {most:g}"] = float(called[some].mean())
    return found


def work(task: Task) -> tuple[Task, dict[str, float], float]:
    """One replicate, and the processor time it took."""
    section, case, seed = task
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hg.errors.HazeglassWarning)
        found = {"pool": pool, "compare": compare}[section](case, seed)
    return task, found, time.process_time() - begin


def read(path: Path) -> dict[Task, dict[str, float]]:
    """What is done already; a line that was cut off is not."""
    if not path.exists():
        return {}
    done = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["cpu_seconds"]:
                done[row["section"], row["case"], int(row["seed"])] = json.loads(row["result"])
    return done


def summary(done: dict[Task, dict[str, float]]) -> Iterator[str]:
    """Means with their standard errors in brackets; false discoveries where something was called and where not."""
    for section, case in dict.fromkeys(task[:2] for task in done):
        found = [result for task, result in done.items() if task[:2] == (section, case)]
        yield f"{section} {case}: {len(found)} replicates"
        for key in dict.fromkeys(key for result in found for key in result):
            values = np.array([result[key] for result in found if key in result])
            yield f"    {key:<18} {values.mean():.4f} ({values.std() / np.sqrt(values.size):.4f})"
        pairs = [result for result in found if "one_rmse" in result]
        for name, over in (("rmse / one release", "one_rmse"), ("rmse / formula", "formula")):
            some = pairs if over == "one_rmse" else found
            if some and over in some[0]:
                ratio = np.sqrt(np.mean([one["rmse"] ** 2 for one in some]) / np.mean([one[over] ** 2 for one in some]))
                yield f"    {name:<18} {ratio:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", default=["pool", "compare"], help="pool, compare, or both")
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cases", nargs="*", help="only the cases that hold one of these words")
    parser.add_argument("--out", type=Path, default=Path("many.csv"))
    parser.add_argument("--summary", action="store_true", help="print what --out holds, and do nothing else")
    arguments = parser.parse_args()
    done = read(arguments.out)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.replicates)
    wanted = [
        (section, case, seed)
        for seed in seeds
        for section in arguments.sections
        for case in cases(section)
        if arguments.cases is None or any(word in case for word in arguments.cases)
    ]
    todo = [] if arguments.summary else [task for task in wanted if task not in done]
    fresh = not arguments.out.exists()
    if todo:
        with arguments.out.open("a", newline="") as file, ProcessPoolExecutor(arguments.jobs) as workers:
            writer = csv.writer(file)
            if fresh:
                writer.writerow(FIELDS)
            for future in as_completed([workers.submit(work, task) for task in todo]):
                task, found, seconds = future.result()
                writer.writerow([*task, json.dumps(found), f"{seconds:.2f}"])
                file.flush()
                done[task] = found
    print("\n".join(summary(done)))


if __name__ == "__main__":
    main()
