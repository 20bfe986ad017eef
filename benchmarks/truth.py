"""Are the error bars true on the tables people have? Skewed, counted, coded, off-centre and real columns.

Every line is drawn, released and recovered as a user would: scores by default, record unit, delta = 1e-6. Nothing is
chosen with the truth. Sections:

    independent  false edges among 8 independent columns of one distribution, at a false-discovery rate of 10 %
    graphs       coverage of 95 % intervals and false discoveries over chains, random graphs and hubs (Gaussian copula)
    bounds       effective rows with bounds 6, 30 and 100 standard deviations away, and with the mean off the centre
    ranking      AUC and average precision on strong trees, lognormal random graphs, the feeder, the grids
    cells        cell signalling: curved dependence against the consensus, coverage of its own partial correlations
    odd          rows that are no Gaussian copula, made and real: coverage of their own partial correlations
    ninety       the 90 Gaussian cells of docs/evidence/recovery.md, the same rows as there: average precision

    python benchmarks/truth.py [section ...] [--replicates 50] [--jobs 2] [--out FILE.csv] [--first-seed 1000]
                               [--only TEXT] [--without TEXT] [--minutes M]

One line per replicate is added to the file, so that a run can be resumed; the tables are made from all of it.
HAZEGLASS_DATA is the folder of the data sets.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score

import hazeglass as hg
import odd_rows
import parallel
from graphs import FAMILIES, make_plan, precision_of, simulate, standardised_rows, true_partials

DELTA, FDR, ANY_ALPHA = 1e-6, 0.1, 0.3
NO_EDGE = 0.01  # a partial correlation of rows that are no Gaussian copula below this counts as none
DATA = odd_rows.DATA
FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Found = dict[str, Any]

# What a normal score becomes, and bounds somebody who knows the quantity would give.
MARGINS: dict[str, tuple[Callable[[FloatArray], FloatArray], float, float, str]] = {
    "normal": (lambda z: z, -6.0, 6.0, "continuous"),
    "exponential": (lambda z: -np.log(stats.norm.sf(z)), 0.0, 30.0, "continuous"),
    "lognormal": (np.exp, 0.0, 200.0, "continuous"),
    "t3": (lambda z: stats.t.ppf(stats.norm.cdf(z), 3), -60.0, 60.0, "continuous"),
    "Poisson(3)": (lambda z: stats.poisson.ppf(stats.norm.cdf(z), 3), 0.0, 40.0, "integer"),
    "two normals": (lambda z: _two_normals(z), -8.0, 8.0, "continuous"),
    "Bernoulli(.5)": (lambda z: (z > 0).astype(float), 0.0, 1.0, "integer"),
    "Bernoulli(.05)": (lambda z: (z > 1.6448536).astype(float), 0.0, 1.0, "integer"),
}
NO_BERNOULLI = [name for name in MARGINS if not name.startswith("Bernoulli")]


def _two_normals(z: FloatArray) -> FloatArray:
    """Quantiles of an even mixture of normals about -3 and 3."""
    grid = np.linspace(-9, 9, 4001)
    cdf = (stats.norm.cdf(grid + 3) + stats.norm.cdf(grid - 3)) / 2
    return np.interp(stats.norm.cdf(z), cdf, grid)


def release_of(rows: FloatArray, lower: Any, upper: Any, kind: str, epsilon: float, seed: int, **release: Any) -> Any:
    """Bounds are one pair for all columns, or one for each."""
    names = [f"x{k + 1}" for k in range(rows.shape[1])]
    ends = zip(names, *(np.broadcast_to(end, len(names)).tolist() for end in (lower, upper)), strict=True)
    columns = [hg.Column(name, kind, lower=low, upper=high) for name, low, high in ends]
    plan = hg.Plan(title="Benchmark", form="moments", epsilon=epsilon, delta=DELTA, columns=columns, **release)
    return simulate(pa.table(dict(zip(names, rows.T, strict=True))), plan, seed)


def recovered(release: Any, **options: Any) -> hg.Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hg.recover(release, alpha=options.pop("alpha", ANY_ALPHA), fdr=FDR, **options)


def pairs_of(graph: hg.Graph, column: str) -> FloatArray:
    """One column of the edge table; all pairs are listed, in the order of numpy.triu_indices."""
    return np.array([np.nan if value is None else float(value) for value in graph.edges[column].to_pylist()])


# ------------------------------------------------------------------------------------------------------- sections


def independent() -> Iterator[tuple[str, Callable[[int], Found]]]:
    for margin in MARGINS:
        for n in (10_000, 100_000, 1_000_000):
            for epsilon in (1.0, 10.0):
                yield f"{margin}, n = {n}, eps = {epsilon:g}", _Independent(margin, n, epsilon)


class _Independent:
    def __init__(self, margin: str, n: int, epsilon: float) -> None:
        self.margin, self.n, self.epsilon = margin, n, epsilon

    def __call__(self, seed: int) -> Found:
        change, lower, upper, kind = MARGINS[self.margin]
        rows = change(np.random.default_rng(seed).standard_normal((self.n, 8)))
        graph = recovered(release_of(rows, lower, upper, kind, self.epsilon, seed))
        return {"false": int(pairs_of(graph, "selected").sum()), "refused": graph.fit.get("distrusted") is not None}


def graphs() -> Iterator[tuple[str, Callable[[int], Found]]]:
    for margin in NO_BERNOULLI:
        for family in FAMILIES:
            for p, n in ((12, 2_000), (20, 2_000), (12, 20_000), (20, 20_000), (12, 200_000), (20, 200_000)):
                for epsilon in (1.0, 3.0, 10.0):
                    yield (
                        f"{margin}, {family}, p = {p}, n = {n}, eps = {epsilon:g}",
                        _OnGraph(margin, family, p, n, epsilon),
                    )


class _OnGraph:
    def __init__(self, margin: str, family: str, p: int, n: int, epsilon: float) -> None:
        self.margin, self.family, self.p, self.n, self.epsilon = margin, family, p, n, epsilon

    def __call__(self, seed: int) -> Found:
        rng = np.random.default_rng(seed)
        precision = precision_of(self.family, self.p, rng)
        truth = true_partials(precision)
        change, lower, upper, kind = MARGINS[self.margin]
        rows = change(scores_of(precision, self.n, rng))
        graph = recovered(release_of(rows, lower, upper, kind, self.epsilon, seed))
        if graph.fit.get("distrusted") is not None:
            return {"refused": True}
        chosen, real = pairs_of(graph, "selected") > 0, np.abs(truth) > 1e-9
        inside = (pairs_of(graph, "ci_low") <= truth) & (truth <= pairs_of(graph, "ci_high"))
        return {
            "refused": False,
            "coverage": float(inside.mean()),
            "of_edges": float(inside[real].mean()) if real.any() else np.nan,
            "fdp": float(np.sum(chosen & ~real) / max(1, chosen.sum())),
            "power": float(chosen[real].mean()) if real.any() else np.nan,
        }


def scores_of(precision: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Standard normal rows with this precision, up to scale."""
    covariance = np.linalg.inv(precision)
    root = np.linalg.cholesky(covariance) / np.sqrt(np.diag(covariance))[:, None]
    return np.asarray(rng.standard_normal((n, len(precision))) @ root.T)


def bounds() -> Iterator[tuple[str, Callable[[int], Found]]]:
    for label, low, high in (("6 sd", -6, 6), ("30 sd", -30, 30), ("100 sd", -100, 100), ("mean at .9", -57, 3)):
        yield f"bounds {label}, n = 10000, eps = 1", _Bounds(float(low), float(high))


class _Bounds:
    def __init__(self, lower: float, upper: float) -> None:
        self.lower, self.upper = lower, upper

    def __call__(self, seed: int) -> Found:
        rng = np.random.default_rng(seed)
        rows = scores_of(precision_of("random", 10, rng), 10_000, rng)
        graph = recovered(release_of(rows, self.lower, self.upper, "continuous", 1.0, seed))
        return {"effective_rows": graph.fit["effective_rows"]}


def ranking() -> Iterator[tuple[str, Callable[[int], Found]]]:
    for n, p in ((5_000, 30), (20_000, 50)):
        for margin, scale in (("normal", "linear"), ("normal", "scores"), ("lognormal", "scores")):
            yield f"strong tree, {n} x {p}, {margin}, {scale}, eps = 1", _Tree(n, p, margin, scale)
    yield "random graph, 10000 x 20, lognormal, scores, eps = 1", _LognormalRandom()
    for epsilon in (0.3, 1.0):
        yield f"feeder, linear, eps = {epsilon:g}", _Feeder(epsilon)
    for epsilon in (0.3, 0.5, 1.0):
        yield f"grid11, linear, eps = {epsilon:g}", _Grid("load_grid11", epsilon)
    yield "grid115, linear, eps = 8", _Grid("load_grid115", 8.0)


def ranked(graph: hg.Graph, real: FloatArray) -> Found:
    assert graph.evidence is not None
    chosen = pairs_of(graph, "selected") > 0
    return {
        "auc": float(roc_auc_score(real, graph.evidence)),
        "ap": float(average_precision_score(real, graph.evidence)),
        "right": int(np.sum(chosen & real)),
        "wrong": int(np.sum(chosen & ~real)),
        "refused": graph.fit.get("distrusted") is not None,
    }


class _Tree:
    """Every node hangs on an earlier one, with a correlation of .9 to .98."""

    def __init__(self, n: int, p: int, margin: str, scale: str) -> None:
        self.n, self.p, self.margin, self.scale = n, p, margin, scale

    def __call__(self, seed: int) -> Found:
        z, real = strong_tree(self.n, self.p, np.random.default_rng(seed))
        change, lower, upper, kind = MARGINS[self.margin]
        release = release_of(change(z), lower, upper, kind, 1.0, seed, scale=self.scale)
        return ranked(recovered(release), real)


def strong_tree(n: int, p: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Rows, and which pairs are edges."""
    z, real = rng.standard_normal((n, p)), np.zeros((p, p), dtype=bool)
    for k in range(1, p):
        parent, strength = rng.integers(0, k), rng.uniform(0.9, 0.98)
        z[:, k] = strength * z[:, parent] + np.sqrt(1 - strength**2) * z[:, k]
        real[parent, k] = True
    return z, real[np.triu_indices(p, 1)]


class _LognormalRandom:
    def __call__(self, seed: int) -> Found:
        rng = np.random.default_rng(seed)
        precision = precision_of("random", 20, rng)
        rows = np.exp(scores_of(precision, 10_000, rng))
        graph = recovered(release_of(rows, 0.0, 200.0, "continuous", 1.0, seed))
        return ranked(graph, np.abs(true_partials(precision)) > 1e-9)


class _Feeder:
    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def __call__(self, seed: int) -> Found:
        feeder = hg.datasets.make_feeder()
        release = release_of(feeder.data, -10.0, 10.0, "continuous", self.epsilon, seed, scale="linear")
        return ranked(recovered(release), truth_of(feeder))


class _Grid:
    """Voltages within 10 % of nominal, as supply rules have it."""

    def __init__(self, loader: str, epsilon: float) -> None:
        self.loader, self.epsilon = loader, epsilon

    def __call__(self, seed: int) -> Found:
        grid = getattr(hg.datasets, self.loader)(data_dir=DATA)
        release = release_of(grid.data, 0.9, 1.1, "continuous", self.epsilon, seed, scale="linear")
        return ranked(recovered(release), truth_of(grid))


def truth_of(dataset: Any) -> FloatArray:
    names, (i, j) = dataset.columns, np.triu_indices(len(dataset.columns), 1)
    return np.array([frozenset((names[a], names[b])) in dataset.truth for a, b in zip(i, j, strict=True)])


def cells() -> Iterator[tuple[str, Callable[[int], Found]]]:
    for epsilon in (1.0, 3.0):
        yield f"cell signalling, curved, eps = {epsilon:g}", _CellsCurved(epsilon)
    for epsilon in (1.0, 3.0, 10.0, 100.0):
        yield f"cell signalling, coverage of its own partial correlations, eps = {epsilon:g}", _CellsOwn(epsilon)


def cell_release(epsilon: float, seed: int, **release: Any) -> tuple[Any, Any]:
    data = hg.datasets.load_cell_signalling(data_dir=DATA)
    columns = [hg.Column(name, "continuous", lower=1, upper=1e4, transform="log") for name in data.columns]
    plan = hg.Plan(title="Cells", form="moments", epsilon=epsilon, delta=DELTA, columns=columns, **release)
    return data, simulate(pa.table(dict(zip(data.columns, data.data.T, strict=True))), plan, seed)


class _CellsCurved:
    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def __call__(self, seed: int) -> Found:
        data, release = cell_release(self.epsilon, seed, dependence="curved")
        graph = recovered(release, alpha=None)
        strength, real = np.abs(pairs_of(graph, "strength")), truth_of(data)
        return {"auc": float(roc_auc_score(real, strength)), "ap": float(average_precision_score(real, strength))}


class _CellsOwn:
    """Partial correlations of the rows' own normal scores, ties broken at random: no noise, no clipping."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def __call__(self, seed: int) -> Found:
        data, release = cell_release(self.epsilon, seed)
        return covered(recovered(release), odd_rows.own_partials(data.data))


def covered(graph: hg.Graph, own: FloatArray, population: FloatArray | None = None) -> Found:
    """How many intervals hold the rows' own partial correlations, and those there would be without end of rows."""
    if graph.fit.get("distrusted") is not None:
        return {"refused": True}
    low, high = pairs_of(graph, "ci_low"), pairs_of(graph, "ci_high")
    found: Found = {"refused": False, "coverage": float(np.mean((low <= own) & (own <= high)))}
    if population is not None:
        chosen, null = pairs_of(graph, "selected") > 0, np.abs(population) < NO_EDGE
        found["of population"] = float(np.mean((low <= population) & (population <= high)))
        found["fdp"] = float(np.sum(chosen & null) / max(1, chosen.sum()))
    return found


def odd() -> Iterator[tuple[str, Callable[[int], Found]]]:
    for name in odd_rows.MADE:
        for n in (7_500, 30_000):
            for epsilon in (0.3, 0.5, 1.0, 3.0, 10.0):
                yield f"{name}, n = {n}, eps = {epsilon:g}", _Odd(name, n, epsilon)
    for name in odd_rows.REAL:
        for epsilon in (0.3, 0.5, 1.0, 3.0, 10.0):
            yield f"{name}, eps = {epsilon:g}", _Odd(name, None, epsilon)


class _Odd:
    """With scores; columns of few values are compared with the normals behind them."""

    def __init__(self, name: str, n: int | None, epsilon: float) -> None:
        self.name, self.n, self.epsilon = name, n, epsilon

    def __call__(self, seed: int) -> Found:
        kind, population = "integer" if self.name in odd_rows.WHOLE else "continuous", None
        if self.n is None:
            rows, lower, upper = odd_rows.REAL[self.name]()
        else:
            rows, (lower, upper) = odd_rows.rows_of(self.name, self.n, seed), odd_rows.bounds_of(self.name)
            population = odd_rows.population(self.name)
        graph = recovered(release_of(rows, lower, upper, kind, self.epsilon, seed))
        return covered(graph, odd_rows.own_partials(rows), population)


def ninety() -> Iterator[tuple[str, Callable[[int], Found]]]:
    for p in (20, 50):
        for n in (1_000, 10_000, 100_000):
            for family in FAMILIES:
                for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
                    yield f"{family} | {p} | {n} | {epsilon:g}", _Ninety(family, p, n, epsilon)


class _Ninety:
    """The rows of benchmarks/recovery.py: its seed is what is left of ours beyond thousands."""

    def __init__(self, family: str, p: int, n: int, epsilon: float) -> None:
        self.family, self.p, self.n, self.epsilon = family, p, n, epsilon

    def __call__(self, seed: int) -> Found:
        theirs = seed % 1000
        rng = np.random.default_rng((FAMILIES.index(self.family), self.p, self.n, theirs))
        precision = precision_of(self.family, self.p, rng)
        rows = standardised_rows(precision, self.n, rng)
        plan = make_plan("moments", self.p, epsilon=self.epsilon, delta=DELTA)
        graph = recovered(simulate(rows, plan, theirs))
        return ranked(graph, np.abs(true_partials(precision)) > 1e-9)


# ---------------------------------------------------------------------------------------------------- run and tell

SECTIONS = {
    "independent": independent,
    "graphs": graphs,
    "bounds": bounds,
    "ranking": ranking,
    "cells": cells,
    "odd": odd,
    "ninety": ninety,
}


def one(section: str, line: str, seed: int) -> Found:
    return dict(SECTIONS[section]())[line](seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", default=[""], help="lines that contain one of these")
    parser.add_argument("--without", nargs="*", default=[], help="no lines that contain one of these")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing after so many")
    parser.add_argument("--out", type=Path, default=Path("truth.csv"))
    arguments = parser.parse_args()
    wanted = [
        (section, line, seed)  # every line gets its first replicate before any gets its second
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.replicates)
        for section in arguments.sections
        for line, _ in SECTIONS[section]()
        if any(text in line for text in arguments.only) and not any(text in line for text in arguments.without)
    ]
    parallel.measure(one, wanted, arguments.out, arguments.jobs, arguments.minutes)
    tell(parallel.read(arguments.out), arguments.sections)


def tell(results: list[tuple[str, ...]], sections: list[str]) -> None:
    """Means with standard errors, line by line, and over all lines of a section."""
    for section in sections:
        mine = [row for row in results if row[0] == section]
        if not mine:
            continue
        lines = dict.fromkeys(row[1] for row in mine)
        for line in [*lines, None]:
            values: dict[str, list[float]] = {}
            for row in mine:
                if line is None or row[1] == line:
                    values.setdefault(row[3], []).append(float(row[4]))
            text = ", ".join(
                f"{name} {np.nanmean(found):.3f} ({np.nanstd(found) / np.sqrt(len(found)):.3f})"
                for name, found in values.items()
            )
            print(f"{section}: {line or 'all lines'} [{max(map(len, values.values()))}]: {text}")
        if section == "ninety":
            beside_the_old(mine)


def beside_the_old(results: list[tuple[str, ...]]) -> None:
    """Average precision less that of the older mechanism on the same rows, as docs/evidence/recovery.md has it."""
    page = Path(__file__).parents[1] / "docs" / "evidence" / "recovery.md"
    old: dict[str, tuple[float, float]] = {}
    for row in page.read_text(encoding="utf-8").split("## Area under")[0].splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if cells[0] in FAMILIES:
            mean, error = cells[4].replace("(", "").replace(")", "").split()
            old[" | ".join(cells[:4])] = float(mean), float(error)
    gaps, lost = [], []
    for line, (before, error) in old.items():
        now = [float(row[4]) for row in results if row[1] == line and row[3] == "ap"]
        if now:
            gap, doubt = np.mean(now) - before, np.hypot(np.std(now) / np.sqrt(len(now)), error)
            gaps.append(gap)
            if gap < -0.05:
                lost.append(f"{line}: {before:.3f} -> {np.mean(now):.3f} (gap {gap:+.3f}, error {doubt:.3f})")
    print(f"ninety: mean gap to the older mechanism {np.mean(gaps):+.4f} over {len(gaps)} cells; below -.05: {lost}")


if __name__ == "__main__":
    main()
