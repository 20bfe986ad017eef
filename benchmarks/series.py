"""Are both layers of a series honest? Coverage of the 95 % intervals and false discoveries at a nominal 10 %.

Vector autoregressions of 10 columns and 5,000 rows: a sparse directed part, innovations with a sparse precision,
Gaussian or skewed, published as a series and recovered with the defaults. Goals for either layer: coverage .93 to .97,
false discoveries at most .12, or nothing selected and the reason said. `seasons` adds means by hour and weekday.

    python benchmarks/series.py --out FILE.csv [--sections var seasons] [--replicates 50] [--first-seed 1000] [--jobs 1]
                                [--columns 10] [--rows 5000] [--summary]

Every line of the file is one layer of one replicate. Run again with the same file, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_discrete_lyapunov
from scipy.special import ndtri

import hazeglass as hg
from graphs import simulate  # the tests' own

FloatArray = npt.NDArray[np.float64]
SECTIONS = ("var", "seasons")
COEFFICIENTS, EPSILONS, INNOVATIONS, SCALES = (0.5, 0.8, 0.95), (1.0, 3.0), ("gaussian", "skewed"), ("scores", "linear")
FDR, BURN_IN, LONG = 0.1, 500, 300_000
HEADING = ("section", "coefficient", "epsilon", "innovations", "scale", "seed", "layer", "refused", "coverage",
           "coverage_of_edges", "false_discoveries", "power", "edges", "selected", "processor_seconds")  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """What is averaged over the replicates."""

    section: str
    coefficient: float
    epsilon: float
    innovations: str
    scale: str


@dataclass(frozen=True)
class Truth:
    """A vector autoregression: x_t = A x_t-1 + root g_t, and which pairs its two layers hold."""

    A: FloatArray
    root: FloatArray

    @property
    def precision(self) -> FloatArray:
        return np.linalg.inv(self.root @ self.root.T)

    @property
    def covariance(self) -> FloatArray:
        return np.asarray(solve_discrete_lyapunov(self.A, self.root @ self.root.T))


def truth_of(p: int, coefficient: float, rng: np.random.Generator) -> Truth:
    """Every column remembers itself by about `coefficient`; p pairs are led, p pairs move together now."""
    own = np.clip(coefficient + rng.uniform(-0.05, 0.02, p), 0.0, 0.96)
    A, order = np.diag(own), rng.permutation(p)
    below = np.column_stack(np.tril_indices(p, -1))
    for one, other in below[rng.permutation(len(below))[:p]]:
        A[order[one], order[other]] = rng.choice([-1, 1]) * (0.05 + 0.4 * (1 - coefficient))
    precision = np.eye(p)
    for one, other in below[rng.permutation(len(below))[:p]]:
        precision[one, other] = precision[other, one] = rng.choice([-1, 1]) * 0.3
    low = np.linalg.eigvalsh(precision)[0]
    precision += max(0.0, 0.3 - low) * np.eye(p)
    return Truth(A, np.linalg.cholesky(np.linalg.inv(precision)))


def rows_of(truth: Truth, rows: int, innovations: str, rng: np.random.Generator) -> FloatArray:
    p = len(truth.A)
    g = rng.standard_normal((rows + BURN_IN, p))
    if innovations == "skewed":
        g = (rng.gamma(2.0, size=(rows + BURN_IN, p)) - 2.0) / np.sqrt(2.0)
    shocks = g @ truth.root.T
    x = np.zeros_like(shocks)
    for t in range(1, len(x)):
        x[t] = truth.A @ x[t - 1] + shocks[t]
    return x[BURN_IN:]


def seasonal(rows: int, p: int, spread: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Means by hour and by day of the week: a wave a day with a second one in it, and days of their own."""
    hour = np.arange(rows) % 24
    day = (np.arange(rows) // 24) % 7
    phase, size = rng.uniform(0, 2 * np.pi, (2, p)), rng.uniform(0.3, 0.9, (2, p))
    waves = size[0] * np.cos(2 * np.pi * hour[:, None] / 24 + phase[0])
    waves += 0.5 * size[1] * np.cos(4 * np.pi * hour[:, None] / 24 + phase[1])
    days = rng.normal(0, 0.3, (7, p))
    return np.asarray((waves + days[day]) * spread)


def layers(stacked: FloatArray, p: int) -> tuple[FloatArray, FloatArray]:
    """True partial correlations now and lagged, from the covariance of (x_t, x_t-1)."""
    before = np.linalg.inv(stacked[p:, p:])
    A = stacked[:p, p:] @ before
    shocks = stacked[:p, :p] - A @ stacked[p:, :p]
    precision = np.linalg.inv(shocks)
    scale = np.sqrt(np.diag(precision))
    now = -precision / np.outer(scale, scale)
    return now, A / np.sqrt(A**2 + np.outer(np.diag(shocks), np.diag(before)))


def true_layers(truth: Truth, cell: Cell, seed: int) -> tuple[FloatArray, FloatArray]:
    """By a formula; for scores of columns that are not normal, by a long series."""
    p, covariance = len(truth.A), truth.covariance
    if cell.innovations == "gaussian" or cell.scale == "linear":
        lagged = truth.A @ covariance
        return layers(np.block([[covariance, lagged], [lagged.T, covariance]]), p)
    x = rows_of(truth, LONG, cell.innovations, np.random.default_rng([seed, 1]))
    ranks = np.argsort(np.argsort(x, axis=0), axis=0)
    z = ndtri((ranks + 0.5) / len(x))
    return layers(np.cov(np.hstack([z[1:], z[:-1]]), rowvar=False), p)


def plan_of(cell: Cell, spread: FloatArray) -> hg.Plan:
    seasons = {}
    if cell.section == "seasons":
        seasons = {"order_column": "time", "order_step": "1 hour", "seasons": ["hour", "weekday"]}
    columns = [
        hg.Column(f"x{k}", "continuous", lower=-b, upper=b) for k, b in enumerate(np.round(7 * spread, 1).tolist())
    ]
    return hg.Plan(
        title="VAR", form="moments", epsilon=cell.epsilon, delta=1e-6, rows="series", scale=cell.scale,
        columns=columns, **seasons,
    )  # fmt: skip


def data_of(cell: Cell, x: FloatArray) -> object:
    import pyarrow as pa

    table = {f"x{k}": column for k, column in enumerate(x.T)}
    if cell.section == "seasons":
        start = np.datetime64("2025-01-06T00", "s")
        table["time"] = start + np.arange(len(x)) * np.timedelta64(3600, "s")
    return pa.table(table)


def one_replicate(cell: Cell, seed: int, p: int, rows: int) -> list[list[object]]:
    """One line per layer."""
    begin = os.times()
    rng = np.random.default_rng(seed)
    truth = truth_of(p, cell.coefficient, rng)
    spread = np.sqrt(np.diag(truth.covariance))
    x = rows_of(truth, rows, cell.innovations, rng)
    if cell.section == "seasons":
        x = x + seasonal(rows, p, spread, rng)
    release = simulate(data_of(cell, x), plan_of(cell, spread), seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = hg.recover(release, fdr=FDR)
    now, lagged = true_layers(truth, cell, seed)
    place = {name: k for k, name in enumerate(graph.names)}
    end = os.times()
    used = round(end.user + end.system - begin.user - begin.system, 2)
    assert graph.lagged is not None
    lines = []
    for layer, edges, values, real in (
        ("now", graph.edges, now, np.abs(truth.precision) > 1e-9),
        ("lagged", graph.lagged, lagged, truth.A != 0),
    ):
        i, j = ([place[name] for name in edges[key].to_pylist()] for key in ("target", "source"))
        true, there = values[i, j], real[i, j]
        called = edges["selected"].to_numpy()
        numbers: list[object] = ["", "", ""]
        if not graph.fit.get("distrusted"):
            inside = (edges["ci_low"].to_numpy() <= true) & (true <= edges["ci_high"].to_numpy())
            wrong = np.sum(called & ~there) / max(1, called.sum())
            numbers = [round(float(v), 4) for v in (inside.mean(), inside[there].mean(), wrong)]
        power = round(float(called[there].mean()), 4)
        refused = str(graph.fit.get("distrusted") or "")[:80]
        lines.append([*astuple(cell), seed, layer, refused, *numbers, power, int(there.sum()), int(called.sum()), used])
    return lines


def cells(sections: list[str]) -> Iterator[Cell]:
    for section in sections:
        for coefficient in COEFFICIENTS:
            for epsilon in EPSILONS:
                for innovations in INNOVATIONS:
                    for scale in SCALES:
                        if section == "seasons" and innovations == "skewed":
                            continue
                        yield Cell(section, coefficient, epsilon, innovations, scale)


def done_in(path: Path) -> set[tuple[str, ...]]:
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {tuple(line[:6]) for line in csv.reader(file) if line and line[0] != HEADING[0]}


def summary(path: Path) -> None:
    """Means with their standard errors, refused replicates left out of all but power."""
    found: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            found[tuple(line[key] for key in (*HEADING[:5], "layer"))].append(line)
    words = [*HEADING[:5], "layer", "replicates", "refused", "coverage", "of edges", "FDR", "power"]
    print("|", " | ".join(words), "|")
    print("|" + "---|" * 12)
    for key, lines in sorted(found.items()):
        words = []
        for name in ("coverage", "coverage_of_edges", "false_discoveries", "power"):
            values = np.array([float(line[name]) for line in lines if line[name] != ""])
            error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
            words.append(f"{values.mean():.3f} ({error:.3f})" if values.size else "")
        refused = sum(line["refused"] != "" for line in lines)
        print("|", " | ".join([*key, str(len(lines)), str(refused), *words]), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=1000, help="seeds below 1000 were used for tuning")
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="run cells whose words, joined by spaces, hold this")
    parser.add_argument("--summary", action="store_true", help="only print what the file holds")
    chosen = parser.parse_args()
    if not chosen.summary:
        done = done_in(chosen.out)
        seeds = range(chosen.first_seed, chosen.first_seed + chosen.replicates)
        work = [(cell, seed) for seed in seeds for cell in cells(chosen.sections)]
        work = [both for both in work if chosen.only in " ".join(map(str, astuple(both[0])))]
        work = [(cell, seed) for cell, seed in work if (*map(str, astuple(cell)), str(seed)) not in done]
        new = not chosen.out.exists()
        with chosen.out.open("a", newline="") as file, ProcessPoolExecutor(chosen.jobs) as pool:
            writer = csv.writer(file)
            if new:
                writer.writerow(HEADING)
            running = [pool.submit(one_replicate, cell, seed, chosen.columns, chosen.rows) for cell, seed in work]
            for number, future in enumerate(as_completed(running), start=1):
                writer.writerows(future.result())
                file.flush()
                print(f"\r{number} of {len(running)}", end="", flush=True)
        print()
    summary(chosen.out)


if __name__ == "__main__":
    main()
