"""Columns of every kind: is the graph found, are false edges rare, are error bars honest?

    python benchmarks/kinds.py PART ... [--seeds 10] [--first 1000] [--data DIR] [--out kinds.csv] [--table] [--jobs 2]
                               [--cases CASE:ROWS:EPSILON ...] [--minutes M]

Parts, one record protected, delta = 1e-6, all recovered with the defaults:

    networks     ASIA, CHILD and INSURANCE, rows drawn from their tables; the truth is the moral graph
    trees        categorical columns on random trees: discoveries that are false, at a nominal 10 %
    independent  12 columns of all kinds, levels down to 1 %, nothing depends on anything: false edges
    third        two columns of every kind that depend on each other only through a third: p-values
    copula       16 columns cut from a Gaussian copula, no categorical ones: coverage of partial correlations, FDR
    missing      mixed columns with 1, 10 and 30 % of the cells missing at random: bias and coverage
    mst          the same networks from rows that MST made under the same epsilon (dpmm, in the environment that `make
                 .venv-dpmm/bin/python` builds), its mirror descent cut to 1,000 steps; only when named

Every line is written when it is known, and a cell that the file has is not measured again. `--table` prints means.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.metrics import average_precision_score, roc_auc_score

import hazeglass as hg
import parallel

DELTA = 1e-6
DPMM = Path(__file__).resolve().parent.parent / ".venv-dpmm" / "bin" / "python"
MST_STEPS = 1000
NETWORKS = [
    *(("child", 5_000, eps) for eps in (0.3, 1.0, 3.0, 1e5)),
    *(("child", 20_000, eps) for eps in (0.3, 1.0, 3.0, 1e5)),
    *(("insurance", 20_000, eps) for eps in (0.3, 1.0, 3.0, 1e5)),
    *(("insurance", 100_000, eps) for eps in (0.3, 1.0, 3.0, 1e5)),
    ("asia", 20_000, 1.0),
]
Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def drawn(shares: Floats, rng: np.random.Generator) -> Codes:
    """A level for every row of shares."""
    ends = np.cumsum(shares, axis=1)
    return np.asarray((rng.random((len(shares), 1)) * ends[:, -1:] > ends).sum(axis=1))


def words(codes: Codes, levels: list[str] | None = None) -> pa.Array:
    """Numbers of levels as text."""
    known = levels or [f"l{k}" for k in range(int(codes.max()) + 1)]
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(known)).dictionary_decode()


def levelled(name: str, kind: str, levels: int | list[str]) -> hg.Column:
    """A column of levels."""
    return hg.Column(name, kind, levels=tuple(levels if isinstance(levels, list) else [f"l{k}" for k in range(levels)]))


def recovered(columns: list[hg.Column], data: Any, epsilon: float, seed: int) -> hg.Graph:
    """Released in a simulation, and recovered with the defaults."""
    plan = hg.Plan(
        title="kinds", form="moments", protects="record", epsilon=epsilon, delta=DELTA, columns=tuple(columns)
    )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = hg.publish(
            pa.table(data) if isinstance(data, dict) else data,
            plan,
            Path(folder) / "r",
            engine="serial",
            simulate_seed=seed,
        )
        return hg.recover(release, engine="serial")


def network(case: str, n: int, epsilon: float, seed: int, data: Path) -> dict[str, float]:
    """AUC and average precision against the moral graph, and what the selected edges are worth."""
    made = getattr(hg.datasets, f"load_{case}")(data, rows=n, seed=seed)
    columns = [levelled(name, "categorical", list(own)) for name, own in made.levels.items()]
    graph = recovered(columns, made.to_arrow(), epsilon, seed)
    scores, called = graph.scores(made.truth), graph.pairs
    return {
        "auc": scores.auc,
        "ap": scores.average_precision,
        "fdr": len(called - made.truth) / max(1, len(called)),
        "edges": len(called),
    }


def mst(case: str, n: int, epsilon: float, seed: int, data: Path) -> dict[str, float]:
    """The network's rows made anew by MST under the same promise, then read by our own recover, and by a graphical
    lasso on indicators of the levels, which ranks a pair by the largest penalty at which it is an edge."""
    made = getattr(hg.datasets, f"load_{case}")(data, rows=n, seed=seed)
    sizes = {name: len(own) for name, own in made.levels.items()}
    with tempfile.TemporaryDirectory() as folder:
        source, public, target = (Path(folder) / name for name in ("rows.csv", "sizes.json", "made.csv"))
        heading = ",".join(sizes)
        np.savetxt(source, made.data, "%d", ",", header=heading, comments="")
        public.write_text(json.dumps(sizes))
        script = Path(__file__).parent / "tools" / "mst_table.py"
        command = [DPMM, script, source, public, target, epsilon, DELTA, seed, "MST", MST_STEPS]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, env=environment)
        codes = np.loadtxt(target, delimiter=",", skiprows=1).astype(np.int64)
    columns = [levelled(name, "categorical", list(own)) for name, own in made.levels.items()]
    table = {name: words(codes[:, k], list(own)) for k, (name, own) in enumerate(made.levels.items())}
    own = recovered(columns, table, 1e5, seed).scores(made.truth)
    edges = [frozenset(pair) in made.truth for pair in itertools.combinations(sizes, 2)]
    ranking = indicator_lasso(codes, list(sizes.values()))
    return {
        "auc of recover": own.auc,
        "ap of recover": own.average_precision,
        "auc of a lasso": float(roc_auc_score(edges, ranking)),
        "ap of a lasso": float(average_precision_score(edges, ranking)),
        "processor seconds of MST": float(done.stdout.split()[-1]),
    }


def indicator_lasso(codes: Codes, sizes: list[int]) -> Floats:
    """For every pair of columns the largest penalty of a path at which one of their entries is not zero."""
    shown = np.hstack([codes[:, [k]] == np.arange(size) for k, size in enumerate(sizes)]).astype(np.float64)
    alive = shown.std(axis=0) > 0
    of = np.repeat(np.arange(len(sizes)), sizes)[alive]
    correlation = np.corrcoef(shown[:, alive], rowvar=False)
    between = np.abs(correlation) * (of[:, None] != of[None, :])
    entered = 1e-6 * between  # those that never enter, by their size
    for solution in hg.graphical_lasso_path(correlation, np.geomspace(0.999, 0.01, 40) * between.max()):
        new = (solution.precision != 0) & (entered < 1e-5)
        entered[new] = solution.alpha + 1e-3 * between[new]
    pairs = np.zeros((len(sizes), len(sizes)))
    np.maximum.at(pairs, (of[:, None], of[None, :]), entered)
    return np.asarray(pairs[np.triu_indices(len(sizes), 1)])


def tree(case: str, n: int, epsilon: float, seed: int, data: Path) -> dict[str, float]:
    """A random tree of `case` columns with 2 to 5 levels, each drawn given its parent's level."""
    rng = np.random.default_rng(seed)
    p = int(case)
    sizes, rows, truth = rng.integers(2, 6, p), {}, set()
    for k in range(p):
        if k == 0:
            codes = drawn(np.tile(rng.dirichlet(np.full(sizes[k], 3.0)), (n, 1)), rng)
        else:
            above = int(rng.integers(k))
            codes = drawn(rng.dirichlet(np.full(sizes[k], 1.0), sizes[above])[rows[f"c{above}"]], rng)
            truth.add(frozenset({f"c{k}", f"c{above}"}))
        rows[f"c{k}"] = codes
    columns = [levelled(name, "categorical", int(size)) for name, size in zip(rows, sizes, strict=True)]
    graph = recovered(
        columns, {name: words(codes, [f"l{k}" for k in range(5)]) for name, codes in rows.items()}, epsilon, seed
    )
    called = graph.pairs
    return {"fdr": len(called - truth) / max(1, len(called)), "power": len(called & truth) / len(truth)}


def kinds_of(n: int, rng: np.random.Generator) -> tuple[list[hg.Column], dict[str, Any]]:
    """Twelve independent columns of all kinds."""
    shares = {
        "skewed": [0.9, 0.06, 0.03, 0.01],
        "even": [0.25] * 4,
        "many": [0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02],
    }
    columns = [
        hg.Column("normal", "continuous", lower=-6, upper=6),
        hg.Column("exponential", "continuous", lower=0, upper=30),
        hg.Column("lognormal", "continuous", lower=0, upper=100),
        hg.Column("poisson", "integer", lower=0, upper=50),
        hg.Column("geometric", "integer", lower=0, upper=200),
        levelled("ordinal", "ordinal", 4),
        levelled("rank", "ordinal", 7),
        levelled("yes", "binary", 2),
        levelled("rare", "binary", 2),
        *(levelled(name, "categorical", len(own)) for name, own in shares.items()),
    ]
    data: dict[str, Any] = {
        "normal": rng.standard_normal(n),
        "exponential": rng.exponential(size=n),
        "lognormal": np.exp(rng.standard_normal(n)),
        "poisson": rng.poisson(1.0, n),
        "geometric": rng.geometric(0.2, n) - 1,
        "ordinal": words(drawn(np.tile([0.1, 0.4, 0.3, 0.2], (n, 1)), rng), [f"l{k}" for k in range(4)]),
        "rank": words(rng.integers(0, 7, n), [f"l{k}" for k in range(7)]),
        "yes": words(rng.integers(0, 2, n), ["l0", "l1"]),
        "rare": words((rng.random(n) < 0.02).astype(np.int64), ["l0", "l1"]),
    }
    for name, own in shares.items():
        data[name] = words(drawn(np.tile(own, (n, 1)), rng), [f"l{k}" for k in range(len(own))])
    return columns, data


def independent(case: str, n: int, epsilon: float, seed: int, data: Path) -> dict[str, float]:
    """Every edge is false."""
    graph = recovered(*kinds_of(n, np.random.default_rng(seed)), epsilon, seed)
    p_value = graph.edges["p_value"].to_numpy()
    return {"false edges": len(graph.pairs), "p below .05": float(np.mean(p_value < 0.05))}


def _seen(latent: Floats, kind: str, rng: np.random.Generator) -> tuple[Any, int]:
    """A column of this kind that follows a hidden normal; a categorical one does in no order."""
    n = len(latent)
    match kind:
        case "continuous":
            return np.exp(latent), 0
        case "binary":
            return words((latent > 0.4).astype(np.int64), ["l0", "l1"]), 2
        case "ordinal":
            return words(np.digitize(latent, [-1.0, 0.0, 0.8]), [f"l{k}" for k in range(4)]), 4
        case _:
            weights = np.stack([latent, -latent, 0.8 * latent, np.zeros(n)], axis=1)
            return words(drawn(np.exp(weights), rng), [f"l{k}" for k in range(4)]), 4


def third(case: str, n: int, epsilon: float, seed: int, data: Path) -> dict[str, float]:
    """Two columns that depend on a third, `case` naming the kinds of the three, the third in the middle."""
    rng = np.random.default_rng(seed)
    left, middle, right = case.split("-")
    columns, table = [], {}
    if middle == "categorical":  # what its level is decides
        codes = rng.integers(0, 4, n)
        table["m"], among = words(codes, [f"l{k}" for k in range(4)]), np.array([-1.2, -0.3, 0.4, 1.1])[codes]
    else:
        among = rng.standard_normal(n)
        table["m"] = _seen(among, middle, rng)[0]
    for name, kind in (("a", left), ("b", right)):
        latent = (0.7 * among + rng.standard_normal(n)) / np.sqrt(1.49)
        table[name] = _seen(latent, kind, rng)[0]
    for k in range(5):
        table[f"x{k}"] = rng.standard_normal(n)
    for name, kind in (("m", middle), ("a", left), ("b", right)):
        known = kind == "continuous"
        columns.append(
            hg.Column(name, kind, lower=0, upper=200) if known else levelled(name, kind, 2 if kind == "binary" else 4)
        )
    columns += [hg.Column(f"x{k}", "continuous", lower=-6, upper=6) for k in range(5)]
    graph = recovered(columns, table, epsilon, seed)
    of = {frozenset((row["source"], row["target"])): row["p_value"] for row in graph.edges.to_pylist()}
    return {"p": of[frozenset("ab")], "p of a true edge": of[frozenset("am")]}


def _copula(n: int, rng: np.random.Generator, p: int = 16) -> tuple[Floats, Floats]:
    """Normal rows on a random sparse graph, and their partial correlations."""
    precision = np.eye(p)
    for i, j in itertools.combinations(range(p), 2):
        if rng.random() < 2.0 / p:
            precision[i, j] = precision[j, i] = rng.choice([-1, 1]) * rng.uniform(0.2, 0.4)
    smallest = np.linalg.eigvalsh(precision)[0]
    precision += np.eye(p) * max(0.0, 0.2 - smallest)
    scale = np.sqrt(np.diag(precision))
    covariance = np.linalg.inv(precision)
    rows = rng.multivariate_normal(np.zeros(p), covariance, n) / np.sqrt(np.diag(covariance))
    return rows, -precision / np.outer(scale, scale)


def _cut(rows: Floats, rng: np.random.Generator, *, categorical: bool) -> tuple[list[hg.Column], dict[str, Any]]:
    """Half of the columns skewed numbers, a quarter ordinal, a quarter binary; or some categorical ones beside them."""
    columns, table, p = [], {}, rows.shape[1]
    for k, latent in enumerate(rows.T):
        kind = "continuous" if k < p // 2 else "ordinal" if k < 3 * p // 4 else "binary"
        table[f"x{k}"] = _seen(latent, kind, rng)[0]
        known = kind == "continuous"
        columns.append(
            hg.Column(f"x{k}", kind, lower=0, upper=200)
            if known
            else levelled(f"x{k}", kind, 2 if kind == "binary" else 4)
        )
    if categorical:
        for k in range(2):
            table[f"c{k}"] = _seen(rows[:, k], "categorical", rng)[0]
            columns.append(levelled(f"c{k}", "categorical", 4))
    return columns, table


def copula(case: str, n: int, epsilon: float, seed: int, data: Path) -> dict[str, float]:
    """Coverage of all pairs and of the edges, and false discoveries; `case` is 'ordered' or 'mixed'."""
    rng = np.random.default_rng(seed)
    rows, partials = _copula(n, rng)
    graph = recovered(*_cut(rows, rng, categorical=case == "mixed"), epsilon, seed)
    inside, edges, called, wrong = [], [], 0, 0
    for row in graph.edges.to_pylist():
        ends = row["source"], row["target"]
        if row["partial_correlation"] is None or any(name[0] == "c" for name in ends):
            continue
        true = partials[int(ends[0][1:]), int(ends[1][1:])]
        if case == "mixed" and abs(true) > 1e-9 and {"x0", "x1"} & {*ends}:
            continue  # what a categorical column says of its neighbour makes the neighbour's other edges weaker
        inside.append(row["ci_low"] <= true <= row["ci_high"])
        if abs(true) > 1e-9:
            edges.append(inside[-1])
        called += row["selected"]
        wrong += row["selected"] and abs(true) <= 1e-9
    return {"coverage": float(np.mean(inside)), "of edges": float(np.mean(edges)), "fdr": wrong / max(1, called)}


def missing(case: str, n: int, epsilon: float, seed: int, data: Path) -> dict[str, float]:
    """One ordered edge x0 - x1 of partial correlation .4 and a categorical neighbour; `case` is the missing share."""
    rng = np.random.default_rng(seed)
    rho, share = 0.4, float(case)
    x = rng.standard_normal((n, 6))
    x[:, 1] = rho * x[:, 0] + np.sqrt(1 - rho**2) * x[:, 1]
    table: dict[str, Any] = {f"x{k}": x[:, k] for k in range(6)}
    table["c"] = _seen(x[:, 2], "categorical", rng)[0]
    table["d"] = _seen(rng.standard_normal(n), "categorical", rng)[0]
    for name, cells in table.items():
        table[name] = (
            pa.array(cells, mask=rng.random(n) < share)
            if isinstance(cells, np.ndarray)
            else _without(cells, rng, share)
        )
    columns = [hg.Column(f"x{k}", "continuous", lower=-6, upper=6) for k in range(6)]
    columns += [levelled(name, "categorical", 4) for name in "cd"]
    graph = recovered(columns, table, epsilon, seed)
    of = {frozenset((row["source"], row["target"])): row for row in graph.edges.to_pylist()}
    edge, other = of[frozenset(("x0", "x1"))], of[frozenset(("c", "x2"))]
    return {
        "error": edge["partial_correlation"] - rho,
        "covered": float(edge["ci_low"] <= rho <= edge["ci_high"]),
        "strength c-x2": other["strength"],
        "p c-d": of[frozenset("cd")]["p_value"],
    }


def _without(cells: pa.Array, rng: np.random.Generator, share: float) -> pa.Array:
    import pyarrow.compute as pc

    return pc.if_else(pa.array(rng.random(len(cells)) < share), None, cells)


_KINDS = ("continuous", "ordinal", "binary", "categorical")
PARTS: dict[str, tuple[Any, list[tuple[str, int, float]]]] = {
    "networks": (network, NETWORKS),
    "mst": (
        mst,
        [("child", 5_000, 1.0), ("child", 20_000, 1.0), ("insurance", 20_000, 1.0), ("insurance", 100_000, 1.0)],
    ),
    "trees": (tree, [("12", n, eps) for n in (10_000, 100_000) for eps in (0.3, 1.0, 3.0, 1e5)]),
    "independent": (
        independent,
        [("all", n, eps) for n, eps in ((10_000, 1.0), (10_000, 10.0), (100_000, 1.0), (1_000_000, 1.0))],
    ),
    "third": (
        third,
        [
            (f"{one}-{middle}-{other}", 20_000, 3.0)
            for one, other in itertools.combinations_with_replacement(_KINDS, 2)
            for middle in ("continuous", "categorical")
            if "categorical" in (one, middle, other)
        ],
    ),
    "copula": (copula, [(case, 10_000, 3.0) for case in ("ordered", "mixed")]),
    "missing": (missing, [(case, 20_000, 3.0) for case in ("0", "0.3", "0.01", "0.1")]),
}


def cells(parts: list[str], first: int, seeds: int) -> Iterator[tuple[str, str, int, float, int]]:
    """What is to be measured, seed after seed."""
    for seed in range(first, first + seeds):
        for part in parts:
            for case, n, epsilon in PARTS[part][1]:
                yield part, case, n, epsilon, seed


def one(data: Path, part: str, case: str, n: int, epsilon: float, seed: int) -> dict[str, float]:
    """One cell."""
    return dict(PARTS[part][0](case, n, epsilon, seed, data))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", default=[part for part in PARTS if part != "mst"], help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--cases", nargs="*", help="only these, as case:rows:epsilon")
    parser.add_argument("--without", nargs="*", default=[], help="none of these, likewise")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("kinds.csv"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing after so many")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    wanted = []
    for cell in cells(chosen.parts, chosen.first, chosen.seeds):
        name = f"{cell[1]}:{cell[2]}:{cell[3]:g}"
        if (not chosen.cases or name in chosen.cases) and name not in chosen.without:
            wanted.append(cell)
    parallel.measure(partial(one, chosen.data), wanted, chosen.out, chosen.jobs, chosen.minutes)
    if chosen.table:
        show(chosen.out)


def show(path: Path) -> None:
    """Means with their standard errors, one line for each cell and measure."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in parallel.read(path):
        found.setdefault((*row[:4], row[5]), []).append(float(row[6]))
    for key, values in found.items():
        more = (
            f", below .05: {np.mean(np.array(values) < 0.05):.3f}" if key[-1].startswith("p ") or key[-1] == "p" else ""
        )
        print(*key, f"{np.mean(values):.4f} ({np.std(values) / len(values) ** 0.5:.4f}), {len(values)} draws{more}")


if __name__ == "__main__":
    main()
