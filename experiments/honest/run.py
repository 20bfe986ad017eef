"""What the paper could not show: the data sets at record-level epsilons that hold, by the product itself."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hazeglass as hg
from hazeglass.errors import HazeglassError, HazeglassWarning

from ..cells import Cell, Results, Setup, read_recipe
from ..pictures import OURS, PRINTED, panels, save
from ..protocol import area, edges_of, fit, scores_of
from ..sections import Picture, Section, Table
from ..subjects import SUBJECTS, Subject

TITLE = "The data sets at an honest epsilon"
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_LOOKS = {"moments": (OURS, "-o"), "table": (PRINTED, "--s")}
_MEASURES = (("auc", "AUC"), ("average_precision", "average precision"))


def data_needed(setup: Setup) -> list[str]:
    """The data sets it reads."""
    return list(read_recipe(__file__, setup)["subjects"])


def cells(setup: Setup) -> list[Cell]:
    """One cell per data set and run, and one per data set without noise."""
    recipe = read_recipe(__file__, setup)
    names = list(recipe["subjects"])
    measured = [
        Cell(f"honest/{name}-run{run}", "honest.run:measure", {"name": name, "run": run})
        for run in range(recipe["runs"])
        for name in names
        if run < _runs(recipe, name)
    ]
    return [Cell(f"honest/{name}-clean", "honest.run:clean", {"name": name}) for name in names] + measured


def measure(setup: Setup, name: str, run: int) -> dict[str, dict[str, float]]:
    """Publish and recover at every epsilon in every form; the noise is seeded, so the releases are simulations."""
    recipe = read_recipe(__file__, setup)
    rows, columns = _rows(SUBJECTS[name], setup)
    truth = _truth(name, setup, recipe)
    found = {}
    for form in recipe["forms"]:
        for epsilon in recipe["epsilons"]:
            plan = _plan(columns, recipe, name, form, epsilon)
            scores = _released_scores(rows, columns, plan, seed=1000 * run + round(10 * epsilon))
            found[f"{form} {epsilon:g}"] = _judge(truth, scores)
    return found


def clean(setup: Setup, name: str) -> dict[str, float]:
    """The graphical lasso on the rows' own correlations."""
    recipe = read_recipe(__file__, setup)
    rows = _transformed(_rows(SUBJECTS[name], setup)[0], recipe["subjects"][name])
    precision = fit(np.asarray(np.corrcoef(rows, rowvar=False)), recipe["clean_alpha"])
    scale = np.sqrt(np.diag(precision))
    return _judge(_truth(name, setup, recipe), scores_of(precision / np.outer(scale, scale)))


def _runs(recipe: dict[str, Any], name: str) -> int:
    return int(recipe["subjects"][name].get("runs", recipe["runs"]))


def _rows(subject: Subject, setup: Setup) -> tuple[Floats, tuple[str, ...]]:
    dataset = subject.load(setup.data_dir)
    return (np.diff(dataset.data, axis=0) if subject.changes else dataset.data), dataset.columns


def _transformed(rows: Floats, about: dict[str, Any]) -> Floats:
    clamped = np.clip(rows, about["lower"], about["upper"])
    match about.get("transform"):
        case "log":
            return np.asarray(np.log(clamped))
        case "log1p":
            return np.asarray(np.log1p(clamped))
        case _:
            return clamped


def _truth(name: str, setup: Setup, recipe: dict[str, Any]) -> Bools:
    """The known graph; or the graphical lasso without noise, on the scale that is published."""
    subject, about = SUBJECTS[name], recipe["subjects"][name]
    dataset = subject.load(setup.data_dir)
    if subject.truth == "estimate":
        correlation = np.asarray(np.corrcoef(_transformed(_rows(subject, setup)[0], about), rowvar=False))
        return edges_of(fit(correlation, about["truth_alpha"]))
    matrix = dataset.truth_matrix(None if subject.truth == "known" else subject.truth)
    return np.asarray(matrix[np.triu_indices(len(matrix), 1)])


def _plan(columns: tuple[str, ...], recipe: dict[str, Any], name: str, form: str, epsilon: float) -> hg.Plan:
    about = recipe["subjects"][name]
    column = {"kind": "continuous", "lower": about["lower"], "upper": about["upper"]}
    if "transform" in about:
        column["transform"] = about["transform"]
    return hg.Plan.from_dict(
        {
            "release": {"title": SUBJECTS[name].title, "form": form, "protects": "record"},
            "budget": {"epsilon": float(epsilon), "delta": recipe["delta"]},
            "columns": [{"name": one, **column} for one in columns],
        }
    )


def _released_scores(rows: Floats, columns: tuple[str, ...], plan: hg.Plan, seed: int) -> Floats | None:
    """|partial correlation| of every pair from a release; None where nothing can be recovered."""
    table = pa.table({name: rows[:, k] for k, name in enumerate(columns)})
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", HazeglassWarning)
        release = hg.publish(table, plan, Path(folder) / "release", engine="serial", simulate_seed=seed)
        try:
            graph = hg.recover(release)
        except HazeglassError:
            return None
    return np.asarray(np.abs(graph.edges["partial_correlation"].to_numpy()))


def _judge(truth: Bools, scores: Floats | None) -> dict[str, float]:
    from sklearn.metrics import average_precision_score

    if scores is None:
        return {"auc": 0.5, "average_precision": float(truth.mean())}
    return {"auc": area(truth, scores), "average_precision": float(average_precision_score(truth, scores))}


def report(results: Results, setup: Setup, folder: Path) -> Section:
    """A table, and one picture per data set."""
    recipe = read_recipe(__file__, setup)
    records = [
        _record(results, recipe, name, form, epsilon)
        for name in recipe["subjects"]
        for form in recipe["forms"]
        for epsilon in recipe["epsilons"]
    ]
    for name in recipe["subjects"]:
        _draw(name, [r for r in records if r["dataset"] == name], recipe, folder / f"honest_{name}.png")
    bounds = [
        {"dataset": name, "lower": about["lower"], "upper": about["upper"]}
        | {"transform": about.get("transform", ""), "why": about["why"]}
        for name, about in recipe["subjects"].items()
    ]
    text = [
        f"`hazeglass publish` and `recover` with their defaults, protecting a whole record at delta = "
        f"{recipe['delta']:g}; mean of {recipe['runs']} releases (seeded, so these were simulations). `clean` is "
        f"the graphical lasso at penalty {recipe['clean_alpha']} on the rows' own "
        "correlations. A record is a cell, a user, a soil, a week, or a point in time.",
    ]
    pictures = [
        Picture(f"honest_{name}.png", f"{SUBJECTS[name].title}: AUC and average precision against epsilon.")
        for name in recipe["subjects"]
    ]
    tables = [Table("honest", "AUC and average precision", records), Table("bounds", "The public bounds", bounds)]
    return Section("honest", TITLE, text, tables, pictures)


def _record(results: Results, recipe: dict[str, Any], name: str, form: str, epsilon: float) -> dict[str, Any]:
    runs = [results[f"honest/{name}-run{run}"][f"{form} {epsilon:g}"] for run in range(_runs(recipe, name))]
    record: dict[str, Any] = {"dataset": name, "form": form, "epsilon": epsilon}
    for key, _ in _MEASURES:
        values = [run[key] for run in runs]
        record |= {key: float(np.mean(values)), f"{key}_sd": float(np.std(values))}
        record[f"clean_{key}"] = results[f"honest/{name}-clean"][key]
    return record


def _draw(name: str, records: list[dict[str, Any]], recipe: dict[str, Any], path: Path) -> None:
    figure, axes = panels(1, 2, (7.4, 3.0))
    for place, (key, label) in zip(axes[0], _MEASURES, strict=True):
        place.axhline(records[0][f"clean_{key}"], color="#777777", linewidth=1, linestyle=":", label="without noise")
        for form in recipe["forms"]:
            chosen = [r for r in records if r["form"] == form]
            colour, style = _LOOKS[form]
            budgets = [r["epsilon"] for r in chosen]
            values, spread = np.array([r[key] for r in chosen]), np.array([r[f"{key}_sd"] for r in chosen])
            place.plot(budgets, values, style, color=colour, markersize=4, label=form)
            place.fill_between(budgets, values - spread, values + spread, color=colour, alpha=0.15, linewidth=0)
        place.set(xscale="log", xlabel="epsilon (record)", ylabel=label)
        place.set_xticks(recipe["epsilons"], [f"{e:g}" for e in recipe["epsilons"]])
        place.minorticks_off()
    axes[0, 0].legend(fontsize=7, frameon=False)
    figure.suptitle(SUBJECTS[name].title, fontsize=10)
    save(figure, path)
