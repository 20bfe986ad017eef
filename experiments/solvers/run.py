"""Do Algorithm 1 (coordinate descent) and Algorithm 2 (ADMM) give the same precision?"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from hazeglass.errors import ConvergenceWarning, UnboundedObjectiveError
from hazeglass.glasso import Solution, graphical_lasso, nearest_psd_max_norm

from ..cells import Cell, Results, Setup, read_recipe
from ..pictures import OURS, panels, save
from ..protocol import add_noise, corrected_covariance
from ..sections import Picture, Section, Table, decibels, level_name
from ..subjects import SUBJECTS, prepare

TITLE = "Algorithm 1 against Algorithm 2"


def data_needed(setup: Setup) -> list[str]:
    """The data sets it reads."""
    return list(read_recipe(__file__, setup)["datasets"])


def cells(setup: Setup) -> list[Cell]:
    """One cell per data set and noise level."""
    recipe = read_recipe(__file__, setup)
    return [
        Cell(f"solvers/{name}-{level}", "solvers.run:measure", {"name": name, "level": level})
        for name in recipe["datasets"]
        for level in recipe["levels"]
    ]


def measure(setup: Setup, name: str, level: float | str) -> dict[str, Any]:
    """Both precisions, compared entry by entry."""
    recipe = read_recipe(__file__, setup)
    prepared = prepare(name, setup.data_dir)
    noisy, variance = add_noise(prepared.rows, decibels(level), 0, prepared.kind)
    covariance = corrected_covariance(noisy, variance)
    repaired = False
    try:
        first = _solve(covariance, prepared.subject.alpha, "cd", recipe["tolerance"])
    except UnboundedObjectiveError:
        covariance, repaired = nearest_psd_max_norm(covariance)[0], True
        first = _solve(covariance, prepared.subject.alpha, "cd", recipe["tolerance"])
    second = _solve(covariance, prepared.subject.alpha, "admm", recipe["tolerance"])
    difference = float(np.abs(first.precision - second.precision).max())
    return {
        "difference": difference,
        "relative": difference / float(np.abs(first.precision).max()),
        "gap_cd": first.gap,
        "gap_admm": second.gap,
        "repaired": repaired,
    }


def _solve(covariance: Any, alpha: float, solver: str, tolerance: float) -> Solution:
    with warnings.catch_warnings():
        # A tolerance this small may be out of reach of the last bits; the gap is reported instead.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return graphical_lasso(covariance, alpha, solver=solver, tol=tolerance)


def report(results: Results, setup: Setup, folder: Path) -> Section:
    """A table, and a picture of the differences."""
    recipe = read_recipe(__file__, setup)
    records = []
    for name in recipe["datasets"]:
        for level in recipe["levels"]:
            found = results[f"solvers/{name}-{level}"]
            agrees = "same" if found["relative"] <= recipe["agreement"] else "differs"
            record = {"dataset": name, "noise": level_name(level), "alpha": SUBJECTS[name].alpha}
            record |= {"largest_difference": found["difference"], "relative": found["relative"]}
            record |= {key: found[key] for key in ("gap_cd", "gap_admm")}
            records.append(record | {"verdict": agrees})
    _draw(records, recipe["agreement"], folder / "solvers.png")
    largest = max(record["relative"] for record in records)
    text = [
        f"The largest difference of an entry, relative to the largest entry of the precision, is {largest:.1e} over "
        f"{len(records)} problems (asked for: {recipe['agreement']:g}).",
        "Where the corrected covariance admits no estimate, both work on the nearest positive semidefinite matrix.",
    ]
    table = Table("solvers", "Coordinate descent and ADMM", records, tone="verdict")
    caption = "Largest difference between the two precisions, relative to the largest entry; the line is 1e-4."
    return Section("solvers", TITLE, text, [table], [Picture("solvers.png", caption)])


def _draw(records: list[dict[str, Any]], agreement: float, path: Path) -> None:
    figure, axes = panels(1, 1, (6.0, 0.28 * len(records) + 1.0))
    place = axes[0, 0]
    heights = range(len(records))
    place.barh(heights, [max(r["relative"], 1e-16) for r in records], left=1e-16, color=OURS, height=0.6)
    place.set_yticks(list(heights), [f"{r['dataset']}, {r['noise']}" for r in records], fontsize=7)
    place.set_xscale("log")
    place.axvline(agreement, color="black", linewidth=1)
    place.set_xlabel("relative difference", fontsize=8)
    place.invert_yaxis()
    save(figure, path)
