"""The paper's figures, drawn again from our own runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..cells import Cell, Results, Setup, read_recipe
from ..sections import Picture, Section, Table
from ..subjects import SUBJECTS
from . import adjacency, cross_validation, graphs, roc

TITLE = "The figures"


def data_needed(setup: Setup) -> list[str]:
    """The data sets it reads."""
    recipe = read_recipe(__file__, setup)
    return [*recipe["cross_validation"]["datasets"], *recipe["roc"]["datasets"], *recipe["graphs"]["alphas"]]


def cells(setup: Setup) -> list[Cell]:
    """One cell per panel or curve."""
    recipe = read_recipe(__file__, setup)
    check, drawn = recipe["cross_validation"], recipe["graphs"]
    folded = {"level": check["level"], "folds": check["folds"]}
    return [
        *(
            Cell(f"figures/cv-{n}", "figures.cross_validation:measure", {"name": n, **folded})
            for n in check["datasets"]
        ),
        *(
            Cell(f"figures/roc-{n}", "figures.roc:measure", {"name": n, "levels": recipe["roc"]["levels"]})
            for n in recipe["roc"]["datasets"]
        ),
        *(
            Cell(f"figures/graph-{n}", "figures.graphs:measure", {"name": n, "alpha": a, "levels": drawn["levels"]})
            for n, a in drawn["alphas"].items()
        ),
        Cell("figures/adjacency", "figures.adjacency:measure", recipe["adjacency"]),
        Cell("figures/curve", "figures.adjacency:curve", recipe["curve"]),
    ]


def report(results: Results, setup: Setup, folder: Path) -> Section:
    """Every picture, and what can be counted in it."""
    recipe = read_recipe(__file__, setup)
    check = recipe["cross_validation"]
    curves = {name: results[f"figures/cv-{name}"] for name in check["datasets"]}
    cross_validation.draw(curves, check["level"], folder / "cross_validation.png")
    adjacency.draw(results["figures/adjacency"], results["figures/curve"], folder / "grid11.png")
    roc.draw({name: results[f"figures/roc-{name}"] for name in recipe["roc"]["datasets"]}, folder / "roc.png")
    for name in recipe["graphs"]["alphas"]:
        graphs.draw(name, results[f"figures/graph-{name}"], folder / f"graph_{name}.png")
    return Section("figures", TITLE, _text(recipe, results), _tables(recipe, results), _pictures(recipe))


def _text(recipe: dict[str, Any], results: Results) -> list[str]:
    found = results["figures/adjacency"]
    ranked = sorted((name for name in found if name != "truth"), key=lambda name: -found[name]["auc"])
    order = ", ".join(f"{name} {found[name]['auc']:.3f}" for name in ranked)
    return [
        f"11-bus grid at {recipe['adjacency']['level']} dB, one release, every method at the best of "
        f"{len(recipe['adjacency']['shares'])} penalties, AUC: {order}. The baselines see the released rows without "
        "the correction, as in the paper; `baselines` compares them with it too.",
        "In the networks, edges without noise that are lost are dotted and edges that noise adds are orange.",
    ]


def _tables(recipe: dict[str, Any], results: Results) -> list[Table]:
    counted = [
        {"dataset": name, "alpha": alpha, **record}
        for name, alpha in recipe["graphs"]["alphas"].items()
        for record in graphs.changes(results[f"figures/graph-{name}"])
    ]
    return [
        Table("graphs", "Edges kept, lost and gained against no noise", counted),
        Table("curve", "AUC on the 11-bus grid against epsilon", results["figures/curve"]),
    ]


def _pictures(recipe: dict[str, Any]) -> list[Picture]:
    return [
        Picture("cross_validation.png", "Held-out squared error over the penalty; the circle is the chosen one."),
        Picture("grid11.png", "11-bus grid at 20 dB: the truth, each method with its AUC, and AUC against epsilon."),
        Picture("roc.png", "ROC curves on the data sets, with the area in brackets."),
        *(
            Picture(f"graph_{name}.png", f"{SUBJECTS[name].title}: the graph found at each noise level.")
            for name in recipe["graphs"]["alphas"]
        ),
    ]
