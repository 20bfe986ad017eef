"""All real tables in a folder of CSV or Parquet files: do error bars hold, are shuffled columns quiet?

    python benchmarks/real_tables.py FOLDER [--epsilon 1 3] [--replicates 2] [--jobs 2] [--out FILE.csv] [--only TEXT]

Two questions for each table, with bounds that somebody who has not seen it might give:

    shuffled   every column in an order of its own, so that there is no dependence: how many pairs are called edges
    own        columns that have an order, rows without a missing cell: how many 95 % intervals hold the partial
               correlations of the rows' own scores, and the largest distance from them in standard errors

No table comes with hazeglass. One line per release is added to the file, so that a run can be resumed.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import hazeglass as hg
import odd_rows
import parallel
from graphs import simulate
from truth import NO_EDGE, pairs_of

MOST_COLUMNS, MOST_ROWS, MOST_LEVELS, DELTA = 24, 60_000, 12, 1e-6
FOLDER = "HAZEGLASS_REAL_TABLES"


def read(path: Path) -> pd.DataFrame:
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, low_memory=False)
    kept = [name for name in frame.columns if _is_usable(frame[name])][:MOST_COLUMNS]
    return frame[kept].head(MOST_ROWS)


def _is_usable(column: pd.Series) -> bool:
    return column.nunique() > 1 and (_is_number(column) or column.nunique() <= MOST_LEVELS)


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and column.dtype != bool


def planned(name: str, column: pd.Series) -> hg.Column:
    """A quarter of the range below, unless that passes zero, and half of it above."""
    if not _is_number(column):
        levels = [str(level) for level in sorted(column.dropna().unique(), key=str)]
        return hg.Column(name, "binary" if len(levels) == 2 else "categorical", levels=levels)
    low, high = float(column.min()), float(column.max())
    lower, upper = (0.0 if low >= 0 else low - (high - low) / 4), high + (high - low) / 2
    if column.dropna().mod(1).eq(0).all():
        if set(column.dropna().unique()) <= {0, 1}:
            return hg.Column(name, "integer", lower=0, upper=1)
        return hg.Column(name, "integer", lower=float(np.floor(lower)), upper=float(np.ceil(upper)))
    return hg.Column(name, "continuous", lower=lower, upper=upper)


def recovered(frame: pd.DataFrame, epsilon: float, seed: int) -> hg.Graph:
    columns = [planned(str(name), frame[name]) for name in frame.columns]
    plan = hg.Plan(title="Real", form="moments", epsilon=epsilon, delta=DELTA, columns=columns)
    texts = {
        str(name): frame[name] if _is_number(frame[name]) else frame[name].astype(str).where(frame[name].notna())
        for name in frame.columns
    }
    release = simulate(pa.Table.from_pandas(pd.DataFrame(texts), preserve_index=False), plan, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hg.recover(release)


def shuffled(frame: pd.DataFrame, epsilon: float, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    mixed = pd.DataFrame({name: frame[name].to_numpy()[rng.permutation(len(frame))] for name in frame.columns})
    graph = recovered(mixed, epsilon, seed)
    chosen = pairs_of(graph, "selected") > 0
    return {"false": int(chosen.sum()), "pairs": chosen.size, "refused": graph.fit.get("distrusted") is not None}


def own(frame: pd.DataFrame, epsilon: float, seed: int) -> dict[str, Any]:
    ordered = frame[[name for name in frame.columns if _is_number(frame[name])]].dropna()
    ordered = ordered[[name for name in ordered.columns if ordered[name].nunique() > 1]]
    if ordered.shape[1] < 3 or len(ordered) < 500:
        return {}
    graph = recovered(ordered, epsilon, seed)
    names, rows = np.array(ordered.columns), ordered.to_numpy(float)
    given = [k for k, name in enumerate(names) if name not in (graph.fit.get("left_out") or [])]
    (i, j), known = np.triu_indices(len(names), 1), np.isin(np.arange(len(names)), given)
    pairs = known[i] & known[j]
    truth = np.full(i.size, np.nan)
    truth[pairs] = odd_rows.own_partials(rows[:, given])
    found: dict[str, Any] = {"refused": graph.fit.get("distrusted") is not None, "columns": len(names)}
    least = float(np.linalg.eigvalsh(odd_rows.own_correlations(rows[:, given]))[0])
    found |= {"left out": len(names) - len(given), "least eigenvalue": least}
    if not found["refused"] and np.isfinite(truth[pairs]).all():
        low, high = pairs_of(graph, "ci_low"), pairs_of(graph, "ci_high")
        gaps = np.abs(pairs_of(graph, "partial_correlation") - truth) / pairs_of(graph, "std_error")
        found["coverage"] = float(np.mean(((low <= truth) & (truth <= high))[pairs]))
        found |= {"worst": float(np.nanmax(gaps)), "half width": float(np.median((high - low)[pairs]) / 2)}
        selected = (pairs_of(graph, "selected") > 0) & pairs
        found |= {"selected": int(selected.sum()), "selected wrong": int((selected & (np.abs(truth) < NO_EDGE)).sum())}
        wrong_sign = selected & (np.sign(truth) != np.sign(pairs_of(graph, "partial_correlation")))
        found |= {"of the wrong sign": int(wrong_sign.sum())}
    return found


KINDS = {"shuffled": shuffled, "own": own}


def one(section: str, line: str, seed: int) -> dict[str, Any]:
    name, epsilon = line.split(" | ")
    return KINDS[section](read(Path(os.environ[FOLDER]) / name), float(epsilon), seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 3.0])
    parser.add_argument("--replicates", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--out", type=Path, default=Path("real_tables.csv"))
    options = parser.parse_args()
    os.environ[FOLDER] = str(options.folder.resolve())  # for the processes that are started
    files = [path.name for path in sorted(options.folder.iterdir()) if path.suffix in (".csv", ".parquet")]
    wanted = [
        (kind, f"{name} | {epsilon:g}", seed)
        for seed in range(options.first_seed, options.first_seed + options.replicates)
        for name in files
        for kind in options.kinds
        for epsilon in options.epsilon
        if any(text in name for text in options.only)
    ]
    parallel.measure(one, wanted, options.out, options.jobs, options.minutes)


if __name__ == "__main__":
    main()
