"""Curved dependence: are its p-values honest, and what does it cost where everything is linear?

1. Independent columns: shares of p-values below 0.05 and 0.01.
2. Forests with curved links (benchmarks/nonlinear_graphs.py): false-discovery rate at a nominal 10 %, and power. Goal:
   at most 0.12.
3. Gaussian rows: average precision of curved against linear moments at the same budget, and edges found at a nominal
   10 %.

Published for real: adaptive moments, record unit, noise from the operating system; recovered with the defaults.

    python benchmarks/curved.py [simulations per cell]
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.metrics import average_precision_score

import hazeglass as hg
from nonlinear_graphs import FAMILIES, curved_rows

BUDGETS = (("none", 500.0), ("eps 4", 0.82), ("eps 1", 0.237))
CELLS = ((10, 5_000), (10, 20_000))


def released(rows: np.ndarray, dependence: str, mu: float) -> hg.Graph:
    """The graph from a release of these rows."""
    p = rows.shape[1]
    spread = 4 * rows.std(axis=0)  # the bounds a publisher who knows the subject would give
    column = {"kind": "continuous"}
    plan = hg.Plan.from_dict(
        {
            "release": {"title": "Simulation", "form": "moments", "dependence": dependence},
            "budget": {"mu": mu},
            "columns": [
                {"name": f"v{k}", "lower": float(-spread[k]), "upper": float(spread[k]), **column} for k in range(p)
            ],
        }
    )
    data = pa.table({f"v{k}": rows[:, k] for k in range(p)})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        return hg.recover(hg.publish(data, plan, Path(folder) / "r", engine="serial"))


def null_table(simulations: int) -> None:
    print(f"independent columns {'p':>3} {'rows':>7} {'budget':>7} {'p < 0.05':>9} {'p < 0.01':>9}")
    for p, n in CELLS:
        for label, mu in BUDGETS:
            found = [
                released(np.random.default_rng(seed).standard_normal((n, p)), "curved", mu).edges["p_value"].to_numpy()
                for seed in range(simulations)
            ]
            values = np.concatenate(found)
            print(f"{'':<19} {p:>3} {n:>7} {label:>7} {np.mean(values < 0.05):9.3f} {np.mean(values < 0.01):9.4f}")


def discovery_table(simulations: int) -> None:
    print(f"\n{'graph':<7} {'share':>5} {'p':>3} {'rows':>7} {'budget':>7} {'FDR':>6} {'s.e.':>6} {'power':>6}")
    every = []
    for family in FAMILIES:
        for share in (0.3, 0.5):
            for p, n in CELLS:
                for label, mu in BUDGETS:
                    rates, powers = [], []
                    for seed in range(simulations):
                        rows, truth = curved_rows(family, p, n, share, np.random.default_rng((seed, p)))
                        called = released(rows, "curved", mu).adjacency
                        rates.append(np.sum(called & ~truth) / max(1, called.sum()))
                        powers.append(np.sum(called & truth) / truth.sum())
                    every.append(np.mean(rates))
                    error = np.std(rates, ddof=1) / np.sqrt(simulations)
                    print(
                        f"{family:<7} {share:>5g} {p:>3} {n:>7} {label:>7} {np.mean(rates):6.3f} {error:6.3f} "
                        f"{np.mean(powers):6.2f}",
                        flush=True,
                    )
    print(f"mean over the table {np.mean(every):.3f}, largest {np.max(every):.3f}")


def gaussian_table(simulations: int) -> None:
    print(
        f"\n{'Gaussian rows':<13} {'p':>3} {'rows':>7} {'budget':>7} {'linear AP':>10} {'curved AP':>10}   edges found"
    )
    for p, n in ((10, 5_000), (20, 20_000), (20, 100_000)):
        for label, mu in BUDGETS:
            scores: dict[str, list[tuple[float, float]]] = {"linear": [], "curved": []}
            for seed in range(simulations):
                rows, truth = curved_rows("tree", p, n, 0.15, np.random.default_rng((seed, p)), ("linear",))
                upper = np.triu_indices(p, 1)
                for dependence, found in scores.items():
                    graph = released(rows, dependence, mu)
                    precision = average_precision_score(truth[upper], graph.strength()[upper])
                    found.append((precision, float(np.sum(graph.adjacency & truth) / truth.sum())))
            linear, curved = (np.mean(scores[kind], axis=0) for kind in ("linear", "curved"))
            print(
                f"{'tree':<13} {p:>3} {n:>7} {label:>7} {linear[0]:10.3f} {curved[0]:10.3f}   "
                f"{linear[1]:.2f} against {curved[1]:.2f}",
                flush=True,
            )


def main() -> None:
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    print(f"({simulations} simulations per cell)")
    null_table(simulations)
    discovery_table(simulations)
    gaussian_table(simulations)


if __name__ == "__main__":
    main()
