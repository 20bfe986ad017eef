"""Who finds most at 20 dB: ours, or one of the methods the paper compares with?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..cells import Cell, Results, Setup, read_recipe
from ..methods import CORRECTED, METHODS, best_over
from ..pictures import OURS, PRINTED, panels, save
from ..protocol import add_noise, corrected_covariance
from ..sections import Picture, Section, Table
from ..subjects import SUBJECTS, prepare, true_edges

TITLE = "Ours and the baselines at 20 dB"
_TIE = 0.001


def data_needed(setup: Setup) -> list[str]:
    """The data sets it reads."""
    return list(read_recipe(__file__, setup)["datasets"])


def cells(setup: Setup) -> list[Cell]:
    """One cell per data set and run."""
    recipe = read_recipe(__file__, setup)
    return [
        Cell(f"baselines/{name}-run{run}", "baselines.run:measure", {"name": name, "run": run})
        for name in sorted(recipe["datasets"], key=lambda name: name in recipe["large"])
        for run in range(_runs(recipe, name))
    ]


def _runs(recipe: dict[str, Any], name: str) -> int:
    return int(recipe["large_runs"] if name in recipe["large"] else recipe["runs"])


def measure(setup: Setup, name: str, run: int) -> dict[str, dict[str, float]]:
    """AUC of every method, with the noise's variance subtracted and without."""
    recipe = read_recipe(__file__, setup)
    prepared = prepare(name, setup.data_dir)
    truth = true_edges(prepared)
    noisy, variance = add_noise(prepared.rows, recipe["level"], run, prepared.kind)
    shares = recipe["large_shares" if name in recipe["large"] else "shares"]
    found: dict[str, dict[str, float]] = {}
    for method in METHODS:
        if method == "CLIME" and name in recipe["large"]:
            continue
        found[method] = {
            label: best_over(method, corrected_covariance(noisy, taken), len(noisy), truth, shares)[1]
            for label, taken in (("corrected", variance), ("as released", 0.0))
        }
    return found


def report(results: Results, setup: Setup, folder: Path) -> Section:
    """Means, the winner of each data set, and a picture."""
    recipe = read_recipe(__file__, setup)
    records = [_record(results, recipe, name) for name in recipe["datasets"]]
    known = [record for record in records if record["truth"] == "known"]
    everyone = [method for method in METHODS if all(record[method] is not None for record in records)]
    averages = [
        {"data_sets": label, **{m: float(np.mean([r[m] for r in chosen])) for m in everyone}}
        for label, chosen in (("all", records), ("with a known graph", known))
        if chosen
    ]
    _draw(records, folder / "baselines.png")
    text = [
        f"Mean AUC over {recipe['runs']} releases at {recipe['level']} dB, each method at the best of "
        f"{len(recipe['shares'])} penalties ({recipe['large_runs']} releases and {len(recipe['large_shares'])} "
        "penalties on the four largest); each baseline also has the better of the corrected and the uncorrected "
        "covariance. On data sets without a known graph the truth is itself a graphical lasso, which favours the last "
        "two.",
        *(_average_sentence(row) for row in averages),
        "; ".join(f"{record['dataset']}: {record['best']}" for record in records) + ".",
    ]
    tables = [
        Table("baselines", "AUC by method", records),
        Table("averages", "AUC by method, mean over data sets", averages),
        Table("detail", "AUC with and without the correction", _detail(results, recipe)),
    ]
    caption = "AUC of every method on every data set; circles correct for the noise by design."
    return Section("baselines", TITLE, text, tables, [Picture("baselines.png", caption)])


def _mean(results: Results, recipe: dict[str, Any], name: str, method: str, label: str) -> float | None:
    values = [results[f"baselines/{name}-run{run}"].get(method, {}).get(label) for run in range(_runs(recipe, name))]
    return None if None in values else float(np.mean(values))


def _record(results: Results, recipe: dict[str, Any], name: str) -> dict[str, Any]:
    record: dict[str, Any] = {"dataset": name, "truth": "estimate" if SUBJECTS[name].truth == "estimate" else "known"}
    for method in METHODS:
        both = [_mean(results, recipe, name, method, label) for label in ("corrected", "as released")]
        record[method] = both[0] if method in CORRECTED else max((v for v in both if v is not None), default=None)
    scored = {method: record[method] for method in METHODS if record[method] is not None}
    top = max(scored.values())
    return record | {"best": " = ".join(method for method in scored if top - scored[method] < _TIE)}


def _detail(results: Results, recipe: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "dataset": name,
            "method": method,
            "corrected": _mean(results, recipe, name, method, "corrected"),
            "as_released": _mean(results, recipe, name, method, "as released"),
        }
        for name in recipe["datasets"]
        for method in METHODS
        if _mean(results, recipe, name, method, "corrected") is not None
    ]


def _average_sentence(row: dict[str, Any]) -> str:
    ranked = sorted((key for key in row if key != "data_sets"), key=lambda key: -row[key])
    return f"Mean over data sets ({row['data_sets']}): " + ", ".join(f"{key} {row[key]:.3f}" for key in ranked) + "."


def _draw(records: list[dict[str, Any]], path: Path) -> None:
    figure, axes = panels(1, 1, (7.5, 0.45 * len(records) + 1.4))
    place = axes[0, 0]
    markers = dict(zip((m for m in METHODS if m not in CORRECTED), "sv^Dx", strict=True))
    for height, record in enumerate(records):
        for method, marker in markers.items():
            if record[method] is not None:
                label = method if height == 0 else None
                face = {} if marker == "x" else {"facecolor": "none"}
                place.scatter(record[method], height, marker=marker, s=34, color=PRINTED, label=label, **face)
        for method, inside in (("the paper's", "none"), ("hazeglass", OURS)):
            label = method if height == 0 else None
            place.scatter(record[method], height, s=44, facecolor=inside, edgecolor=OURS, zorder=3, label=label)
    place.set_yticks(range(len(records)), [SUBJECTS[r["dataset"]].title for r in records], fontsize=8)
    place.set_xlabel("AUC at 20 dB", fontsize=8)
    place.grid(axis="x", color="#e4e4e4")
    place.set_axisbelow(True)
    place.invert_yaxis()
    figure.legend(fontsize=7, frameon=False, ncols=4, loc="outside lower center")
    save(figure, path)
