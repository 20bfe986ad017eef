"""Table 2: AUC and epsilon on the eight data sets, from no noise to the row the paper calls 10 dB."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..accounting import DELTA, paper_theorem_epsilon, printed_epsilon, true_epsilon
from ..cells import Cell, Results, Setup, read_recipe
from ..pictures import levels_against_printed, panels, save
from ..protocol import add_noise, area, corrected_covariance, fit, scores_of
from ..sections import Picture, Section, Table, against_printed, decibels, level_name, read_expected, worst
from ..subjects import SUBJECTS, prepare, true_edges

TITLE = "Table 2: eight data sets"
# The printed row "10 dB" carries the epsilon of 0 dB, so it is set beside our 0 dB.
_PRINTED_AS = {"0 dB": "10 dB", "10 dB": None}


def data_needed(setup: Setup) -> list[str]:
    """The data sets it reads."""
    return list(read_recipe(__file__, setup)["datasets"])


def cells(setup: Setup) -> list[Cell]:
    """One cell per data set and run, and one per data set for its epsilons."""
    recipe = read_recipe(__file__, setup)
    measured = [
        Cell(f"table2/{name}-run{run}", "table2.run:measure", {"name": name, "run": run})
        for name in recipe["datasets"]
        for run in range(recipe["runs"])
    ]
    counted = [Cell(f"table2/{name}-epsilon", "table2.run:epsilons", {"name": name}) for name in recipe["datasets"]]
    return measured + counted


def measure(setup: Setup, name: str, run: int) -> dict[str, float]:
    """AUC at each noise level."""
    recipe = read_recipe(__file__, setup)
    prepared = prepare(name, setup.data_dir)
    truth = true_edges(prepared)
    found = {}
    for level in recipe["levels"]:
        noisy, variance = add_noise(prepared.rows, decibels(level), run, prepared.kind)
        scores = scores_of(fit(corrected_covariance(noisy, variance), prepared.subject.alpha))
        found[level_name(level)] = area(truth, scores)
    return found


def epsilons(setup: Setup, name: str) -> dict[str, dict[str, float]]:
    """Every accounting of every noise level."""
    recipe = read_recipe(__file__, setup)
    prepared = prepare(name, setup.data_dir)
    rows, kind = prepared.rows, prepared.kind
    found = {}
    for level in recipe["levels"]:
        noise = decibels(level)
        if noise is not None:
            found[level_name(level)] = {
                "delta_f_over_sigma": printed_epsilon(rows, noise),
                "paper_theorem": paper_theorem_epsilon(rows, noise, kind),
                "true_entry": true_epsilon(rows, noise, kind, "entry"),
                "true_record": true_epsilon(rows, noise, kind, "record"),
            }
    return found


def report(results: Results, setup: Setup, folder: Path) -> Section:
    """Two tables and a picture."""
    recipe = read_recipe(__file__, setup)
    areas = [record for name in recipe["datasets"] for record in _areas(results, recipe, name)]
    budgets = [record for name in recipe["datasets"] for record in _budgets(results, recipe, name)]
    _draw(areas, recipe["datasets"], folder / "table2.png")
    own = [record for record in areas if record["own_data"] == "yes" and record["noise"] != "0 dB"]
    text = [
        f"{recipe['runs']} runs. The four data sets that are the paper's own, at no noise to 20 dB: {worst(own)}",
        f"All data sets, with the row printed as 10 dB set beside 0 dB (its epsilon is that of 0 dB): {worst(areas)}",
        "Discrete data get discrete Gaussian noise. Below 1/64 of a count its value is 0 in every cell: the rows are "
        "released as they are, and no epsilon is finite.",
        f"Epsilons: `delta_f_over_sigma` is the paper's printed formula and `paper_theorem` its theorem at delta = "
        f"{DELTA:g}; neither is a guarantee. `true_entry` and `true_record` hold at delta = {DELTA:g} for the released "
        "rows if the range of the data were public.",
    ]
    tables = [
        Table("auc", "AUC, ours and printed", areas, tone="verdict"),
        Table("epsilon", "Epsilon, as printed and as it is", budgets, tone="verdict"),
    ]
    caption = (
        "AUC over the noise levels, ours with one standard deviation and the printed ones; what the paper calls 10 dB "
        "stands at 0 dB."
    )
    return Section("table2", TITLE, text, tables, [Picture("table2.png", caption)])


def _areas(results: Results, recipe: dict[str, Any], name: str) -> list[dict[str, Any]]:
    records = []
    for level in recipe["levels"]:
        noise = level_name(level)
        values = [results[f"table2/{name}-run{run}"][noise] for run in range(recipe["runs"])]
        row = _printed(name, noise)
        record = {"dataset": name, "noise": noise, "own_data": "yes" if SUBJECTS[name].own else "no"}
        records.append(record | against_printed(values, row.get("auc"), row.get("sd")))
    return records


def _budgets(results: Results, recipe: dict[str, Any], name: str) -> list[dict[str, Any]]:
    records = []
    for level in recipe["levels"]:
        noise = level_name(level)
        if level == "none":
            continue
        printed = _printed(name, noise).get("epsilon")
        counted = results[f"table2/{name}-epsilon"][noise]
        record = {"dataset": name, "noise": noise, "printed": printed, **counted}
        records.append(record | {"verdict": _same_digits(counted["delta_f_over_sigma"], printed)})
    return records


def _printed(name: str, noise: str) -> dict[str, Any]:
    wanted = _PRINTED_AS.get(noise, noise)
    return next((row for row in read_expected(__file__) if row["dataset"] == name and row["noise"] == wanted), {})


def _same_digits(ours: float, printed: float | None) -> str:
    """'same' when rounding ours to the printed precision (at most three digits) gives the printed number."""
    if printed is None:
        return ""
    unit = 10.0 ** (math.floor(math.log10(printed)) - 2)
    # Small values are printed with two decimals, cut or rounded.
    return "same" if abs(ours - printed) <= max(0.5 * unit, 0.01 if printed < 1 else 0.0) * 1.01 else "differs"


def _draw(records: list[dict[str, Any]], names: list[str], path: Path) -> None:
    rows = math.ceil(len(names) / 4)
    figure, axes = panels(rows, 4, (12.0, 2.7 * rows))
    for place in axes.flat[len(names) :]:
        place.set_axis_off()
    for place, name in zip(axes.flat, names, strict=False):
        drawn = [
            record | {"printed": math.nan if record["printed"] is None else record["printed"]}
            for record in records
            if record["dataset"] == name
        ]
        levels_against_printed(place, drawn, SUBJECTS[name].title)
    axes[0, 0].legend(fontsize=7, frameon=False, loc="lower left")
    save(figure, path)
