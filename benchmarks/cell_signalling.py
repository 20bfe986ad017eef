"""How much of the cell-signalling graph survives an honest promise.

Record unit, delta 1e-6, log transform, public bounds 1 to 10,000. AUC against the 19 consensus edges, mean over
releases. The rows: two-stage moments (the default), one stage, the table, and the clean data itself, each at the best
of a fixed list of penalties, which needs the truth; and curved moments as `recover` gives them, chosen without it.

    python benchmarks/cell_signalling.py [releases]
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from sklearn.metrics import average_precision_score, roc_auc_score

import hazeglass as hg
from hazeglass.analyst.covariance import covariance_of
from hazeglass.glasso import graphical_lasso

PENALTIES = (0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
DATA = Path(os.environ.get("HAZEGLASS_DATA", Path(__file__).parents[1] / ".." / "shared" / "data")) / "sachs"


def load() -> tuple[pa.Table, np.ndarray]:
    rows = pyarrow.csv.read_csv(DATA / "sachs.csv.gz")
    edges = pyarrow.csv.read_csv(DATA / "edges_undirected19.csv").to_pylist()
    truth = np.zeros((rows.num_columns, rows.num_columns), dtype=bool)
    for edge in edges:
        i, j = (rows.column_names.index(name) for name in list(edge.values())[:2])
        truth[i, j] = truth[j, i] = True
    return rows, truth[np.triu_indices(rows.num_columns, 1)]


def make_plan(rows: pa.Table, epsilon: float, **release: object) -> hg.Plan:
    column = {"kind": "continuous", "lower": 1.0, "upper": 10_000.0, "transform": "log"}
    return hg.Plan.from_dict(
        {
            "release": {"title": "Cell signalling", "protects": "record", **release},
            "budget": {"epsilon": epsilon, "delta": 1e-6},
            "columns": [{"name": name, **column} for name in rows.column_names],
        }
    )


def scores_along_penalties(correlation: np.ndarray) -> list[np.ndarray]:
    """|partial correlation| of every pair at each penalty where an estimate exists."""
    upper = np.triu_indices(len(correlation), 1)
    found = []
    for alpha in PENALTIES:
        try:
            precision = graphical_lasso(correlation, alpha).precision
        except hg.errors.UnboundedObjectiveError:
            continue
        scale = np.sqrt(np.diag(precision))
        found.append(np.abs(precision / np.outer(scale, scale))[upper])
    return found


def best(scores: list[np.ndarray], truth: np.ndarray) -> tuple[float, float]:
    if not scores:
        return 0.5, float(truth.mean())
    return max(roc_auc_score(truth, s) for s in scores), max(average_precision_score(truth, s) for s in scores)


def judge(release: hg.Release, truth: np.ndarray) -> tuple[float, float]:
    if release.form == "moments" and release.manifest.stages[-1].features == "hermite":
        upper = np.triu_indices(len(release.columns), 1)
        strength = hg.recover(release).strength()[upper]
        return roc_auc_score(truth, strength), average_precision_score(truth, strength)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return best(scores_along_penalties(covariance_of(release).standardised().covariance), truth)


def main() -> None:
    if not DATA.is_dir():
        print(f"skipped: the cell-signalling data is not at {DATA}; set HAZEGLASS_DATA")
        return
    releases = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rows, truth = load()
    logs = np.log(np.column_stack([rows[name].to_numpy() for name in rows.column_names]).astype(float).clip(1, 1e4))
    clean_auc, clean_ap = best(scores_along_penalties(np.corrcoef(logs, rowvar=False)), truth)
    print(f"{'release':<22} {'epsilon':>7} {'AUC':>7} {'s.e.':>6} {'avg. precision':>15}   ({releases} releases)")
    print(f"{'none (clean rows)':<22} {'-':>7} {clean_auc:7.3f} {'':>6} {clean_ap:15.3f}")
    forms = {
        "moments, two stages": {"form": "moments"},
        "moments, one stage": {"form": "moments", "adaptive": False},
        "moments, curved": {"form": "moments", "dependence": "curved"},  # no penalty chosen with the truth
        "table": {"form": "table"},
    }
    for epsilon in (1.0, 3.0):
        for label, release in forms.items():
            plan = make_plan(rows, epsilon, **release)
            found = []
            for _ in range(releases):
                with tempfile.TemporaryDirectory() as folder:
                    found.append(judge(hg.publish(rows, plan, Path(folder) / "r"), truth))
            auc, precision = np.array(found).T
            error = auc.std(ddof=1) / np.sqrt(len(auc))
            print(f"{label:<22} {epsilon:7g} {auc.mean():7.3f} {error:6.3f} {precision.mean():15.3f}")


if __name__ == "__main__":
    main()
