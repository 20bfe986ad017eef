"""Table 1b: 1,000 nodes, 10,000 rows, four sparsities, noise from none to 20 dB."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from ..cells import Cell, Results, Setup, read_recipe
from ..pictures import levels_against_printed, panels, save
from ..protocol import area, fit, scores_of
from ..sections import Picture, Section, Table, against_printed, decibels, level_name, read_expected, worst

TITLE = "Table 1b: 1,000 nodes at four sparsities"
Floats = npt.NDArray[np.float64]
_TOLERANCE = 1e-4  # of the duality gap per node: ranks of edges need no more


def cells(setup: Setup) -> list[Cell]:
    """One cell per sparsity and run."""
    recipe = read_recipe(__file__, setup)
    return [
        Cell(f"table1b/{sparsity}-run{run}", "table1b.run:measure", {"sparsity": sparsity, "run": run})
        for run in range(recipe["runs"])
        for sparsity in recipe["sparsity"]
    ]


def measure(setup: Setup, sparsity: float, run: int) -> dict[str, dict[str, float]]:
    """AUC at each noise level, without a penalty and (at some levels) with one."""
    recipe = read_recipe(__file__, setup)
    rng = np.random.default_rng([int(1000 * sparsity), run])
    precision, truth = random_precision(recipe["nodes"], sparsity, recipe["link"], rng)
    pieces = Pieces.draw(precision, recipe["samples"], rng)
    found: dict[str, dict[str, float]] = {"plain": {}, "penalised": {}}
    for level in recipe["levels"]:
        covariance = pieces.corrected(decibels(level))
        scores = scores_of(fit(covariance, recipe["alpha"], tol=_TOLERANCE))
        found["plain"][level_name(level)] = area(truth, scores)
        if run < recipe["penalised_runs"] and level in recipe["penalised_levels"]:
            alpha = recipe["penalty_share"] * float(covariance.diagonal().mean())
            scores = scores_of(fit(covariance, alpha, tol=_TOLERANCE))
            found["penalised"][level_name(level)] = area(truth, scores)
    return found


def report(results: Results, setup: Setup, folder: Path) -> Section:
    """The table, and a picture of it."""
    recipe = read_recipe(__file__, setup)
    records = [record for sparsity in recipe["sparsity"] for record in _records(results, recipe, sparsity)]
    figure, axes = panels(1, len(recipe["sparsity"]), (2.9 * len(recipe["sparsity"]), 3.0))
    for place, sparsity in zip(axes[0], recipe["sparsity"], strict=True):
        chosen = [r for r in records if r["sparsity"] == sparsity]
        levels_against_printed(place, chosen, f"{100 * sparsity:g} % zeros")
        # The values move in the fourth digit: a scale of its own would make noise look like structure.
        middle = float(np.mean([r["ours"] for r in chosen]))
        place.set_ylim(middle - 0.06, min(middle + 0.06, 1.01))
    axes[0, 0].legend(fontsize=7, frameon=False, loc="lower left")
    save(figure, folder / "table1b.png")
    text = [
        f"{recipe['runs']} runs, {recipe['nodes']} nodes, {recipe['samples']} rows; the truth is the true support. "
        "`ours` has no penalty, which gives the printed digits; `penalised` is the graphical lasso at "
        f"{recipe['penalty_share']} times the mean variance.",
        worst(records),
    ]
    if recipe["nodes"] != 1000:
        text.append("Quick: a smaller network, so the printed values are not expected here.")
    caption = "AUC over the noise levels, ours with one standard deviation and the printed values."
    table = Table("table1b", "AUC, ours and printed", records, tone="verdict")
    return Section("table1b", TITLE, text, [table], [Picture("table1b.png", caption)])


def _records(results: Results, recipe: dict[str, Any], sparsity: float) -> list[dict[str, Any]]:
    printed = {(row["noise"], row["sparsity"]): row for row in read_expected(__file__)}
    runs = [results[f"table1b/{sparsity}-run{run}"] for run in range(recipe["runs"])]
    records = []
    for level in recipe["levels"]:
        noise = level_name(level)
        row = printed[noise, sparsity]
        record = {"sparsity": sparsity, "noise": noise}
        record |= against_printed([run["plain"][noise] for run in runs], row["auc"], row["sd"])
        penalised = [run["penalised"][noise] for run in runs if noise in run["penalised"]]
        records.append(record | {"penalised": float(np.mean(penalised)) if penalised else None})
    return records


def random_precision(
    nodes: int, sparsity: float, link: float, rng: np.random.Generator
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Links at random places; each diagonal entry is the sum of its row, so the matrix is (weakly) dominant."""
    pairs = np.triu_indices(nodes, 1)
    truth = rng.random(len(pairs[0])) < 1 - sparsity
    precision = np.zeros((nodes, nodes))
    precision[pairs] = link * truth
    precision += precision.T
    # A node without links would have variance infinity; it gets one link's worth.
    np.fill_diagonal(precision, np.maximum(precision.sum(axis=1), link))
    return precision, truth


@dataclass(frozen=True, eq=False)
class Pieces:
    """S~ = S + sigma (X'G + G'X)/n + sigma^2 G'G/n for noise E = sigma G: three products serve every noise level."""

    clean: Floats
    cross: Floats
    noise: Floats
    deviation: float

    @classmethod
    def draw(cls, precision: Floats, n: int, rng: np.random.Generator) -> Pieces:
        """Rows with this precision and standard normal noise of the same shape."""
        factor = np.linalg.cholesky(precision + 1e-9 * np.eye(len(precision)))
        shocks = rng.standard_normal((len(precision), n))
        rows = np.asarray(solve_triangular(factor, shocks, lower=True, trans="T")).T
        rows -= rows.mean(axis=0)
        unit = rng.standard_normal(rows.shape)
        cross = rows.T @ unit / n
        return cls(rows.T @ rows / n, cross + cross.T, unit.T @ unit / n, float(rows.std()))

    def corrected(self, level: float | None) -> Floats:
        """The covariance of the noisy rows with the noise's variance taken off again."""
        if level is None:
            return self.clean
        sigma = self.deviation * 10 ** (-level / 20)
        noisy = self.clean + sigma * self.cross + sigma**2 * self.noise
        return np.asarray(noisy - sigma**2 * np.eye(len(noisy)))
