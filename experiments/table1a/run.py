"""Table 1a: a chain of 50 nodes, three sample sizes, noise from none to 20 dB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cells import Cell, Results, Setup, read_recipe
from ..pictures import levels_against_printed, panels, save
from ..protocol import add_noise, area, corrected_covariance, edges_of, fit, scores_of
from ..sections import Picture, Section, Table, against_printed, decibels, level_name, read_expected, worst

TITLE = "Table 1a: chain of 50 nodes"


def cells(setup: Setup) -> list[Cell]:
    """One cell per sample size and run: it measures every noise level on the same rows."""
    recipe = read_recipe(__file__, setup)
    return [
        Cell(f"table1a/n{n}-run{run}", "table1a.run:measure", {"n": n, "run": run})
        for n in recipe["samples"]
        for run in range(recipe["runs"])
    ]


def measure(setup: Setup, n: int, run: int) -> dict[str, float]:
    """AUC at each noise level against the graph found without noise."""
    recipe = read_recipe(__file__, setup)
    rows = _chain_rows(recipe["nodes"], recipe["link"], n, seed=1000 * n + run)
    truth = edges_of(fit(corrected_covariance(rows), recipe["alpha"]))
    found = {}
    for level in recipe["levels"]:
        noisy, variance = add_noise(rows, decibels(level), run, "continuous")
        scores = scores_of(fit(corrected_covariance(noisy, variance), recipe["alpha"]))
        found[level_name(level)] = area(truth, scores)
    return found


def report(results: Results, setup: Setup, folder: Path) -> Section:
    """The table, and a picture of it."""
    recipe = read_recipe(__file__, setup)
    records = [record for n in recipe["samples"] for record in _records(results, recipe, n)]
    figure, axes = panels(1, len(recipe["samples"]), (3.2 * len(recipe["samples"]), 3.0))
    for place, n in zip(axes[0], recipe["samples"], strict=True):
        levels_against_printed(place, [r for r in records if r["samples"] == n], f"n = {n}")
    axes[0, 0].legend(fontsize=7, frameon=False, loc="lower left")
    save(figure, folder / "table1a.png")
    text = [
        f"{recipe['runs']} runs, penalty {recipe['alpha']}, truth: the graphical lasso on the same rows without noise.",
        worst(records),
    ]
    caption = "AUC over the noise levels, ours with one standard deviation and the printed values."
    table = Table("table1a", "AUC, ours and printed", records, tone="verdict")
    return Section("table1a", TITLE, text, [table], [Picture("table1a.png", caption)])


def _records(results: Results, recipe: dict[str, Any], n: int) -> list[dict[str, Any]]:
    printed = {(row["noise"], int(row["samples"])): row for row in read_expected(__file__)}
    records = []
    for level in recipe["levels"]:
        noise = level_name(level)
        values = [results[f"table1a/n{n}-run{run}"][noise] for run in range(recipe["runs"])]
        row = printed[noise, n]
        records.append({"samples": n, "noise": noise, **against_printed(values, row["auc"], row["sd"])})
    return records


def _chain_rows(nodes: int, link: float, n: int, seed: int) -> npt.NDArray[np.float64]:
    precision = np.eye(nodes) + link * (np.eye(nodes, k=1) + np.eye(nodes, k=-1))
    # With precision = L L', the rows of Z L^-1 have that precision.
    shocks = np.random.default_rng(seed).standard_normal((n, nodes))
    return np.asarray(np.linalg.solve(np.linalg.cholesky(precision).T, shocks.T).T)
