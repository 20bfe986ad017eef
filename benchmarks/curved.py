"""Curved dependence: are its p-values honest, and what does it cost where everything is linear?

1. Independent columns: shares of p-values below 0.05 and 0.01.
2. Forests with curved links (benchmarks/nonlinear_graphs.py): false-discovery rate at a nominal 10 %, and power. Goal:
   at most 0.12.
3. Gaussian rows: average precision of curved against linear moments at the same budget, and edges found at a nominal
   10 %.

The publisher's own mechanism: adaptive moments, record unit, noise from the operating system; recovered with the
defaults.

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
from hazeglass.analyst.covariance import covariance_of_moments
from hazeglass.analyst.graph import Origin
from hazeglass.analyst.recover import graph_of
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.publisher.moments import publish_moments
from hazeglass.publisher.noise import SecretBits
from hazeglass.publisher.rows import Rows
from nonlinear_graphs import FAMILIES, curved_rows

BUDGETS = (("none", 500.0), ("eps 4", 0.82), ("eps 1", 0.237))
CELLS = ((10, 5_000), (10, 20_000))


def make_plan(rows: np.ndarray, dependence: str, mu: float) -> hg.Plan:
    """Bounds of four standard deviations, as a publisher who knows the subject would give them."""
    ends = 4 * rows.std(axis=0)
    columns = [
        {"name": f"v{k}", "kind": "continuous", "lower": float(-end), "upper": float(end)} for k, end in enumerate(ends)
    ]
    release = {"title": "Simulation", "form": "moments", "dependence": dependence}
    return hg.Plan.from_dict({"release": release, "budget": {"mu": mu}, "columns": columns})


def table_of(rows: np.ndarray) -> pa.Table:
    return pa.table({f"v{k}": column for k, column in enumerate(rows.T)})


def curved_graph(rows: np.ndarray, mu: float) -> hg.Graph:
    """What `recover` makes of a curved release, without writing the release: thousands are needed."""
    plan = make_plan(rows, "curved", mu)
    source = Rows(plan, open_table(table_of(rows)), None)
    last = publish_moments(source, plan, get_engine("serial"), SecretBits())[0][-1]
    noisy = covariance_of_moments(last.released(plan.columns), len(rows))
    return graph_of(noisy, Origin(plan.title, "moments", len(rows)))


def linear_graph(rows: np.ndarray, mu: float) -> hg.Graph:
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        return hg.recover(hg.publish(table_of(rows), make_plan(rows, "linear", mu), Path(folder) / "r"))


def null_table(simulations: int) -> None:
    print(f"independent columns {'p':>3} {'rows':>7} {'budget':>7} {'p < 0.05':>9} {'p < 0.01':>9}")
    for p, n in CELLS:
        for label, mu in BUDGETS:
            found = [
                curved_graph(np.random.default_rng(seed).standard_normal((n, p)), mu).edges["p_value"].to_numpy()
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
                        called = curved_graph(rows, mu).adjacency
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
    for p, n in ((10, 2_000), (10, 5_000), (20, 20_000)):
        for label, mu in BUDGETS:
            recovers = {"linear": linear_graph, "curved": curved_graph}
            scores: dict[str, list[tuple[float, float]]] = {"linear": [], "curved": []}
            for seed in range(simulations):
                rows, truth = curved_rows("tree", p, n, 0.15, np.random.default_rng((seed, p)), ("linear",))
                upper = np.triu_indices(p, 1)
                for dependence, found in scores.items():
                    graph = recovers[dependence](rows, mu)
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
