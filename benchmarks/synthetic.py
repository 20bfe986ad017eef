"""Synthetic rows beside those of MST and AIM (dpmm), at the same epsilon and delta, on the same public levels.

    python benchmarks/synthetic.py [--out synthetic.csv] [--data adult child insurance] [--epsilons 1 0.3 3] [--seeds 5]
                                   [--first-seed 1] [--rows-dir build/synthetic] [--mst 2]
                                   [--coverage | --graphs | --raw-adult]

For each data set and tool: total variation of one-, two- and three-way tables from the real rows; for adult the AUC of
a gradient boosting trained on synthetic rows and tested on real ones that nobody was shown; SDMetrics' column shapes
and pair trends; processor seconds. `real rows` is another sample from the same source. Ours protects a record that is
replaced, dpmm one that is added or removed, which is the weaker promise at the same epsilon.

HAZEGLASS_DPMM_PYTHON and HAZEGLASS_SDMETRICS_PYTHON name other environments; what they would do is left out without
them. The CSV is added to, row by row, and what it holds is not done again; rows of others are kept in --rows-dir.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import itertools
import json
import os
import subprocess
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import hazeglass as hg
from hazeglass.analyst.synthesize import Synthesis

DATA = Path(__file__).parents[1].parent / "shared" / "data"
DELTA = 1e-6
_KEY = ["data", "tool", "epsilon", "seed"]
FIELDS = [*_KEY, "auc", "tv1", "tv2", "tv3", "shapes", "trends", "worst", "stuck", "cpu_fit", "cpu_draw"]
_MOST_TABLES = 364


@dataclass(frozen=True)
class Table:
    """Level numbers of a data set, another sample, and for a prediction the rows held out."""

    names: list[str]
    sizes: list[int]
    rows: np.ndarray
    other: np.ndarray
    held_out: np.ndarray | None = None


def adult() -> Table:
    """40,000 binned census rows; the held-out ones are the other sample."""
    train, test = (pa.csv.read_csv(DATA / "adult" / f"binned_{part}.csv.gz").to_pandas() for part in ("train", "test"))
    sizes = np.maximum(train.max(), test.max()).to_numpy() + 1
    return Table(list(train), sizes.tolist(), train.to_numpy(), test.to_numpy(), test.to_numpy())


def network(name: str) -> Table:
    """20,000 rows of a discrete network."""
    load = getattr(hg.datasets, f"load_{name}")
    one, other = (load(DATA, rows=20_000, seed=seed) for seed in (0, 1))
    sizes = [len(one.levels[column]) for column in one.columns]
    return Table(list(one.columns), sizes, np.asarray(one.data).astype(int), np.asarray(other.data).astype(int))


def load(name: str) -> Table:
    return adult() if name == "adult" else network(name)


# ------------------------------------------------------------------------------------------------------------- tools


def ours(table: Table, epsilon: float, seed: int) -> tuple[np.ndarray, dict[str, object]]:
    """A release of categorical columns, and as many rows from it."""
    columns = [
        hg.Column(name, "categorical", levels=[str(k) for k in range(size)])
        for name, size in zip(table.names, table.sizes, strict=True)
    ]
    plan = hg.Plan(title="b", form="moments", protects="record", epsilon=epsilon, delta=DELTA, columns=columns)
    words = pa.table({name: table.rows[:, k].astype(str) for k, name in enumerate(table.names)})
    with tempfile.TemporaryDirectory() as folder:
        release = hg.publish(words, plan, Path(folder) / "r", simulate_seed=seed)
        made = Synthesis(release, len(table.rows), seed)
        started = time.process_time()
        made.made.field  # noqa: B018 (fitted on first use)
        fitted = time.process_time()
        rows = np.concatenate(list(made.made.blocks())).astype(int)
        drawn = time.process_time()
        check = made.check
    assert check is not None
    cost = {"cpu_fit": round(fitted - started, 1), "cpu_draw": round(drawn - fitted, 1)}
    return rows, {**cost, "worst": round(check.worst, 2), "stuck": len(check.stuck)}


def of_dpmm(
    tool: str, name: str, table: Table, epsilon: float, seed: int, folder: Path
) -> tuple[np.ndarray, dict[str, object]] | None:
    """Rows of MST or AIM, kept in `folder`; None without its environment."""
    kept = folder / f"{name}-{tool}-{epsilon:g}-{seed}.csv"
    said = kept.with_suffix(".seconds")
    python = os.environ.get("HAZEGLASS_DPMM_PYTHON")
    if not kept.exists():
        if python is None:
            return None
        with tempfile.TemporaryDirectory() as scratch:
            source, sizes = Path(scratch) / "rows.csv", Path(scratch) / "sizes.json"
            write(table, table.rows, source)
            sizes.write_text(json.dumps(dict(zip(table.names, table.sizes, strict=True))))
            worker = Path(__file__).parent / "tools" / "mst_table.py"
            command = [python, worker, source, sizes, kept, str(epsilon), str(DELTA), str(seed), tool]
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
            said.write_text(done.stdout.split()[-1])
    rows = pa.csv.read_csv(kept).to_pandas()[table.names].to_numpy()
    return rows, {"cpu_fit": round(float(said.read_text()), 1) if said.exists() else ""}


# ------------------------------------------------------------------------------------------------------------- judges


def variation(table: Table, rows: np.ndarray, ways: int) -> float:
    """Mean total variation between tables of so many columns."""
    found = []
    for some in list(itertools.combinations(range(len(table.names)), ways))[:_MOST_TABLES]:
        size = [table.sizes[k] for k in some]
        counts = [
            np.bincount(np.ravel_multi_index([one[:, k] for k in some], size), minlength=np.prod(size)) / len(one)
            for one in (rows, table.rows)
        ]
        found.append(np.abs(counts[0] - counts[1]).sum() / 2)
    return float(np.mean(found))


def prediction(table: Table, rows: np.ndarray) -> float:
    """AUC of the last column by all others, trained on `rows` and tested on rows nobody was shown."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    model = HistGradientBoostingClassifier(random_state=0).fit(rows[:, :-1], rows[:, -1])
    return float(roc_auc_score(table.held_out[:, -1], model.predict_proba(table.held_out[:, :-1])[:, 1]))


def quality(table: Table, rows: np.ndarray) -> dict[str, float]:
    """SDMetrics' scores, where its environment is named."""
    python = os.environ.get("HAZEGLASS_SDMETRICS_PYTHON")
    if python is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "real.csv", Path(folder) / "made.csv"
        for path, one in zip(paths, (table.rows, rows), strict=True):
            write(table, one, path)
        worker = Path(__file__).parent / "tools" / "sdmetrics_score.py"
        done = subprocess.run([python, str(worker), *map(str, paths)], capture_output=True, text=True, check=True)
    return {key: round(value, 4) for key, value in json.loads(done.stdout.splitlines()[-1]).items()}


def write(table: Table, rows: np.ndarray, path: Path) -> None:
    pa.csv.write_csv(pa.table({name: rows[:, k] for k, name in enumerate(table.names)}), path)


def judged(table: Table, rows: np.ndarray) -> dict[str, object]:
    found: dict[str, object] = {f"tv{k}": round(variation(table, rows, k), 4) for k in (1, 2, 3)}
    if table.held_out is not None:  # real rows to learn from are not those that were held out
        found["auc"] = round(prediction(table, table.rows if rows is table.other else rows), 4)
    return {**found, **quality(table, rows)}


# --------------------------------------------------------------------------------------------------------- raw Adult


def raw_adult(out: Path, seeds: range) -> None:
    """The census file as it is, by the plan of the guide: half of it is published, the other half judges."""
    plan = hg.Plan.load(Path(__file__).parents[1] / "docs" / "guide" / "adult.toml")
    names = list(plan.text.names)
    numbers = [column.name for column in plan.columns if not column.levels and column.name in names]
    read = pa.csv.ReadOptions(column_names=names)
    words = pa.csv.ConvertOptions(null_values=["", "?"], strings_can_be_null=True)
    with gzip.open(DATA / "adult" / "adult.data.gz", "rt") as file:
        text = "\n".join(line.replace(", ", ",") for line in file.read().splitlines() if line)
    every = pa.csv.read_csv(io.BytesIO(text.encode()), read_options=read, convert_options=words)
    half = np.random.default_rng(0).permutation(every.num_rows)
    given, other = every.take(half[: len(half) // 2]), every.take(half[len(half) // 2 :])
    judge_mixed(out, "real rows", 0.0, 0, given, other, other, numbers)
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            release = hg.publish(given, plan, Path(folder) / "r", simulate_seed=seed)
            made = Synthesis(release, given.num_rows, seed)
            started = time.process_time()
            rows = made.table().select(names)
            cost = time.process_time() - started
            worst = made.check.worst if made.check else 0.0
        judge_mixed(out, "hazeglass", 1.0, seed, given, rows, other, numbers, worst=round(worst, 2), cpu=cost)


def judge_mixed(
    out: Path,
    tool: str,
    epsilon: float,
    seed: int,
    given: pa.Table,
    rows: pa.Table,
    held_out: pa.Table,
    numbers: list[str],
    worst: float = 0.0,
    cpu: float = 0.0,
) -> None:
    """AUC of income and SDMetrics' scores; real rows learn from those that were published."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    known = {name: sorted(set(given[name].drop_null().to_pylist())) for name in given.column_names}

    def features(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        columns = []
        for name in given.column_names[:-1]:
            cells = table[name].to_pylist()
            places = {word: float(k) for k, word in enumerate(known[name])}
            as_number = name in numbers
            columns.append([np.nan if c is None else float(c) if as_number else places.get(c, np.nan) for c in cells])
        return np.array(columns).T, np.array([c == ">50K" for c in table[given.column_names[-1]].to_pylist()])

    x, y = features(given if tool == "real rows" else rows)
    apart = [name not in numbers for name in given.column_names[:-1]]
    model = HistGradientBoostingClassifier(random_state=0, categorical_features=apart).fit(x, y)
    hidden, truth = features(held_out)
    auc = float(roc_auc_score(truth, model.predict_proba(hidden)[:, 1]))
    scores: dict[str, float] = {}
    if python := os.environ.get("HAZEGLASS_SDMETRICS_PYTHON"):
        with tempfile.TemporaryDirectory() as folder:
            paths = Path(folder) / "real.csv", Path(folder) / "made.csv"
            for path, one in zip(paths, (given, rows), strict=True):
                pa.csv.write_csv(one, path)
            worker = Path(__file__).parent / "tools" / "sdmetrics_score.py"
            command = [python, str(worker), *map(str, paths), *numbers]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            scores = json.loads(done.stdout.splitlines()[-1])
    key = {"data": "raw adult", "tool": tool, "epsilon": f"{epsilon:g}", "seed": str(seed)}
    add(out, {**key, "auc": round(auc, 4), **scores, "worst": worst, "cpu_draw": round(cpu, 1)})


# ---------------------------------------------------------------------------------------------------------- coverage


LEVELS = {"a": ["x", "y", "z"], "b": ["no", "yes"], "c": ["no", "yes"], "d": [f"d{k}" for k in range(8)]}
Statistics = dict[str, tuple[float, float]]


def people(n: int, seed: int, *, levels: bool) -> dict[str, np.ndarray]:
    """b follows a, c and d hardly do; income follows the amount, height hardly does."""
    rng = np.random.default_rng(seed)
    a = rng.choice(3, p=[0.5, 0.3, 0.2], size=n)
    amount = np.array([50.0, 55.0, 60.0])[a] + 12 * rng.standard_normal(n)
    z = (amount - 53.5) / 12.6
    income = np.exp(10 + 0.5 * (0.6 * z + 0.8 * rng.standard_normal(n)))
    height = 170 + 10 * (0.05 * z + rng.standard_normal(n))
    numbers = {"amount": amount, "income": income, "height": height}
    if not levels:
        return numbers
    b = (rng.random(n) < np.array([0.2, 0.5, 0.8])[a]).astype(int)
    c = (rng.random(n) < np.array([0.45, 0.5, 0.55])[a]).astype(int)
    tilt = np.array([[1.0] * 8, [1.15, 0.85, *[1.0] * 6], [0.85, 1.1, 1.2, 0.9, 1, 1, 1, 1.5]])
    tilt = tilt * [0.3, 0.2, 0.15, 0.12, 0.1, 0.07, 0.05, 0.01]
    ends = np.cumsum(tilt / tilt.sum(axis=1, keepdims=True), axis=1)
    d = (rng.random((n, 1)) > ends[a]).sum(axis=1).clip(0, 7)
    return {**numbers, "height": height + c, "a": a, "b": b, "c": c, "d": d}


def statistics(of: dict[str, np.ndarray]) -> Statistics:
    """Estimates, and the standard errors of a tool that takes rows for real."""
    from scipy.stats import rankdata

    def share(where: np.ndarray) -> tuple[float, float]:
        return float(where.mean()), float(np.sqrt(where.mean() * (1 - where.mean()) / where.size))

    def mean(x: np.ndarray) -> tuple[float, float]:
        return float(x.mean()), float(x.std() / np.sqrt(x.size))

    def correlation(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
        r = float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])
        return r, (1 - r * r) / float(np.sqrt(x.size))

    def difference(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
        return float(x.mean() - y.mean()), float(np.sqrt(x.var() / x.size + y.var() / y.size))

    amount, logs, height = of["amount"], np.log(np.maximum(of["income"], 1.0)), of["height"]
    both = np.cov(amount, logs)
    slope = float(both[0, 1] / both[0, 0])
    rest = logs - logs.mean() - slope * (amount - amount.mean())
    found = {
        "mean of an amount": mean(amount),
        "mean of a logarithm": mean(logs),
        "share above 70": share(amount > 70),
        "strong rank correlation": correlation(amount, of["income"]),
        "weak rank correlation": correlation(amount, height),
        "slope": (slope, float(np.sqrt(rest.var() / amount.size / both[0, 0]))),
    }
    if "a" in of:
        a, b, c, d = (of[name] for name in "abcd")
        found |= {
            "share": share(a == 1),
            "rare share (.01)": share(d == 7),
            "cell of a strong pair": share((a == 2) & (b == 1)),
            "cell of a weak pair": share((a == 2) & (c == 1)),
            "cell of a weak pair, 24 cells": share((a == 2) & (d == 2)),
            "rare cell (.003)": share((a == 2) & (d == 7)),
            "share within a level": share((b == 1)[a == 2]),
            "strong difference of means": difference(amount[a == 2], amount[a == 0]),
            "weak difference of means": difference(height[c == 1], height[c == 0]),
        }
    return found


def coverage(out: Path, seeds: range) -> None:
    """How often intervals of 95 % from five copies hold what the people behind the data are like."""
    from scipy.stats import t as student

    n, m = 5000, 5
    numbers = [
        hg.Column("amount", "continuous", lower=0.0, upper=120.0),
        hg.Column("income", "continuous", lower=100.0, upper=1e7, transform="log"),
        hg.Column("height", "continuous", lower=100.0, upper=250.0),
    ]
    apart = [hg.Column(name, "categorical", levels=own) for name, own in LEVELS.items()]
    with out.with_suffix(".coverage.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["columns", "statistic", "five copies", "one set, as if real", "bias, sd", "releases"])
        for levels in (False, True):
            whole = [statistics(people(10**6, 10**6 + k, levels=levels)) for k in range(4)]
            truth = {name: float(np.mean([one[name][0] for one in whole])) for name in whole[0]}
            plan = planned([*apart, *numbers] if levels else numbers, 1.0)
            results = [five_copies(people(n, seed, levels=levels), plan, seed) for seed in seeds]
            for name, true in truth.items():
                values = np.array([[one[name][0] for one in made[1:]] for made in results])
                within = np.array([np.mean([one[name][1] ** 2 for one in made[1:]]) for made in results])
                # as many rows as real ones, so N/n = 1
                width = student.ppf(0.975, m - 1) * np.sqrt((1 + 1 / m) * values.var(axis=1, ddof=1) + within)
                gap = values.mean(axis=1) - true
                plain = [abs(made[0][name][0] - true) <= 1.96 * made[0][name][1] for made in results]
                row = [np.mean(np.abs(gap) <= width), np.mean(plain), gap.mean() / gap.std(ddof=1)]
                kind = "with levels" if levels else "ordered"
                writer.writerow([kind, name, *(round(float(one), 3) for one in row), len(results)])
                print(
                    f"{kind:12} {name:30} {row[0]:.2f} of .95, one set {row[1]:.2f}, bias {row[2]:+.2f} sd", flush=True
                )


def five_copies(data: dict[str, np.ndarray], plan: hg.Plan, seed: int) -> list[Statistics]:
    """Of one set of rows, and of five copies."""
    words = {name: [LEVELS[name][k] for k in own] if name in LEVELS else own for name, own in data.items()}
    with tempfile.TemporaryDirectory() as folder:
        release = hg.publish(pa.table(words), plan, Path(folder) / "r", simulate_seed=seed)
        tables = [Synthesis(release, len(data["amount"]), seed, copy=k).table() for k in range(6)]
    return [
        statistics(
            {
                name: np.array([LEVELS[name].index(word) for word in table[name].to_pylist()])
                if name in LEVELS
                else table[name].to_numpy()
                for name in table.column_names
            }
        )
        for table in tables
    ]


# ------------------------------------------------------------------------------------------------------------- graphs


def graphs(out: Path, seeds: range) -> None:
    """AUC of the true edges, by recover on a release and on as many synthetic rows of it."""
    path = out.with_suffix(".graphs.csv")
    before = {(row["data"], row["seed"]) for row in csv.DictReader(path.open())} if path.exists() else set()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if not before:
            writer.writerow(["data", "seed", "release", "rows", "worst"])
        for name in ("cell signalling", "feeder", "child", "insurance"):
            data, columns, truth = problem(name)
            for seed in seeds:
                if (name, str(seed)) in before:
                    continue
                with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    release = hg.publish(data, planned(columns, 1.0), Path(folder) / "r", simulate_seed=seed)
                    made = Synthesis(release, release.n, seed)
                    found = hg.recover(release).auc(truth), of_rows(made.table(), columns, Path(folder)).auc(truth)
                    worst = made.check.worst if made.check else 0.0
                writer.writerow([name, seed, *(round(one, 4) for one in found), round(worst, 2)])
                file.flush()
                print(
                    f"{name:16} {seed:4}  release {found[0]:.3f}  rows {found[1]:.3f}  agreement {worst:.2f}",
                    flush=True,
                )


def planned(columns: list[hg.Column], epsilon: float, form: str = "moments") -> hg.Plan:
    return hg.Plan(title="g", form=form, protects="record", epsilon=epsilon, delta=DELTA, columns=columns)


def problem(name: str) -> tuple[pa.Table, list[hg.Column], frozenset[frozenset[str]]]:
    """Data with a known graph, and its columns."""
    if name == "feeder":
        made = hg.datasets.make_feeder()
        return (
            made.to_arrow(),
            [hg.Column(one, "continuous", lower=-10.0, upper=10.0) for one in made.columns],
            made.truth,
        )
    if name == "cell signalling":
        made = hg.datasets.load_cell_signalling(DATA)
        bounds = {"lower": 1.0, "upper": 10_000.0, "transform": "log"}
        return made.to_arrow(), [hg.Column(one, "continuous", **bounds) for one in made.columns], made.truth
    made = getattr(hg.datasets, f"load_{name}")(DATA, rows=20_000, seed=0)
    return made.to_arrow(), [hg.Column(one, "categorical", levels=own) for one, own in made.levels.items()], made.truth


def of_rows(rows: pa.Table, columns: list[hg.Column], folder: Path) -> hg.Graph:
    """Numbers by their ranks; levels by a release of them that has next to no noise."""
    if all(column.ordered for column in columns):
        return hg.recover(rows, marginals="normal-scores")
    return hg.recover(hg.publish(rows, planned(columns, 1e5), folder / "again", simulate_seed=0))


# --------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/synthetic.csv"))
    parser.add_argument("--rows-dir", type=Path, default=Path("build/synthetic"))
    parser.add_argument("--data", nargs="+", default=["adult", "child", "insurance"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--mst", type=int, default=2, help="releases of MST, at the first epsilon")
    parser.add_argument("--aim", type=int, default=0, help="releases of AIM; slow")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--graphs", action="store_true", help="graphs from rows beside those from releases")
    parser.add_argument("--raw-adult", action="store_true", help="the census file as it is, beside its other half")
    parser.add_argument("--first-seed", type=int, default=1)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.rows_dir.mkdir(parents=True, exist_ok=True)
    if options.coverage:
        coverage(options.out, range(options.first_seed, options.first_seed + options.seeds))
        return
    if options.raw_adult:
        raw_adult(options.out, range(options.first_seed, options.first_seed + options.seeds))
        return
    if options.graphs:
        graphs(options.out, range(options.first_seed, options.first_seed + options.seeds))
        return
    for name in options.data:
        table = load(name)
        for tool, epsilon, seed in tasks(options):
            key = {"data": name, "tool": tool, "epsilon": f"{epsilon:g}", "seed": str(seed)}
            if key in done(options.out):
                continue
            if tool == "real rows":
                made = table.other, {}
            elif tool == "hazeglass":
                made = ours(table, epsilon, seed)
            else:
                made = of_dpmm(tool, name, table, epsilon, seed, options.rows_dir)
            if made is None:
                print(f"{name}: {tool} is left out; HAZEGLASS_DPMM_PYTHON is not set")
                continue
            add(options.out, {**key, **judged(table, made[0]), **made[1]})


def tasks(options: argparse.Namespace) -> list[tuple[str, float, int]]:
    first, own_seeds = options.epsilons[0], range(options.first_seed, options.first_seed + options.seeds)
    own = [("hazeglass", epsilon, seed) for epsilon in options.epsilons for seed in own_seeds]
    others = [("MST", first, seed) for seed in range(1, options.mst + 1)]
    others += [("AIM", first, seed) for seed in range(1, options.aim + 1)]
    return [("real rows", 0.0, 0), *own, *others]


def done(out: Path) -> list[dict[str, str]]:
    if not out.exists():
        return []
    with out.open(newline="") as file:
        return [{key: row[key] for key in _KEY} for row in csv.DictReader(file)]


def add(out: Path, row: dict[str, object]) -> None:
    fresh = not out.exists()
    with out.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if fresh:
            writer.writeheader()
        writer.writerow(row)
    print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
