"""hazeglass demo: the whole journey on a feeder we simulate, with the truth known at the end."""

from __future__ import annotations

import time
import warnings
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console

from hazeglass.analyst.graph import Graph
from hazeglass.analyst.recover import recover
from hazeglass.bundle.columns import Column
from hazeglass.bundle.manifest import Form
from hazeglass.bundle.reader import Release, load
from hazeglass.bundle.writer import new_folder
from hazeglass.cli.plans import show_preview
from hazeglass.cli.terminal import Printer, table
from hazeglass.datasets import FeederData, make_feeder
from hazeglass.datasets.feeder import BOUND_PER_CENT
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.publish import publish

_FORMS: tuple[Form, ...] = ("moments", "table")
# for bounds of the change of voltage against a week earlier, in per cent of nominal: no data was looked at
_REASON = "supply rules keep a feeder within 5 % of nominal, so a change lies within 10 %"


@dataclass(frozen=True)
class Result:
    """One line of the closing table."""

    label: str
    epsilon: float
    found: int
    right: int
    wrong: int
    missed: int
    auc: float


def run_demo(out: Path, printer: Printer) -> None:
    """Publisher's side, analyst's side, and the comparison."""
    started = time.perf_counter()
    console = printer.console
    with new_folder(out) as folder:
        feeder = make_feeder()
        _say(console, "1. A publisher holds a year of meter data that must not leave the company")
        console.print(
            f"   {feeder.data.shape[0]:,} rows, {feeder.data.shape[1]} buses, {len(feeder.lines)} lines between them."
        )
        releases = {form: _publish(feeder, form, folder, console) for form in _FORMS}
        _say(console, "3. The analyst gets the releases, and nothing else")
        graphs = {form: _recover(releases[form], form, folder, console) for form in releases}
        assert feeder.truth is not None
        results = [
            _judge(f"hazeglass, {form}", releases[form], feeder, graph.pairs, graph.auc(feeder.truth))
            for form, graph in graphs.items()
        ]
        results.append(
            _judge("scikit-learn, table", releases["table"], feeder, *_by_sklearn(releases["table"], feeder))
        )
    _say(console, "4. Compared with the truth, which only a simulation can know")
    _show(results, graphs["moments"], feeder, console)
    _explain_table(releases["table"], console)
    report, statement = out / "graph-moments" / "report.html", out / "release-moments" / "statement.html"
    console.print(f"\nReport with the picture of the graph: {report}", soft_wrap=True)
    console.print(f"Privacy statement of the release:     {statement}", soft_wrap=True)
    console.print(f"Done in {time.perf_counter() - started:.0f} s.")
    printer.answer({"results": [asdict(r) for r in results], "report": str(report), "statement": str(statement)})


def _say(console: Console, text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def _publish(feeder: FeederData, form: Form, folder: Path, console: Console) -> Release:
    import pyarrow.parquet as pq

    private = folder / "publisher"
    private.mkdir(exist_ok=True)
    data, plan_path = private / "feeder.parquet", private / f"plan-{form}.toml"
    if not data.exists():
        pq.write_table(feeder.to_arrow(), data)
    columns = tuple(
        Column(name, "continuous", -BOUND_PER_CENT, BOUND_PER_CENT, reason=_REASON) for name in feeder.columns
    )
    title = f"Feeder with 12 buses, one year ({form})"
    # Voltages of a grid add up, so straight lines between them mean something: the linear scale keeps them.
    scale: Literal["linear", "scores"] = "linear" if form == "moments" else "scores"
    plan = Plan(title=title, form=form, scale=scale, epsilon=1.0, delta=1e-6, columns=columns)
    plan.save(plan_path)
    if form == "moments":
        _say(console, "2. The plan, previewed without the data, then published in two forms at the same budget")
        show_preview(plan.preview(len(feeder.data)), console)
    release = publish(data, plan, folder / f"release-{form}")
    console.print(f"   published: {form} release, mu = {plan.guarantee.mu:.4g}, epsilon = {plan.epsilon:.3g}")
    return release


def _recover(release: Release, form: str, folder: Path, console: Console) -> Graph:
    verified = load(release.path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = recover(verified)
    graph.save(folder / f"graph-{form}")
    console.print(f"   {form}: verified, {graph.selected.num_rows} edges at a false-discovery rate of 10 %")
    return graph


def _judge(label: str, release: Release, feeder: FeederData, found: AbstractSet[frozenset[str]], auc: float) -> Result:
    assert feeder.truth is not None
    counts = (len(found), len(found & feeder.truth), len(found - feeder.truth), len(feeder.truth - found))
    return Result(label, release.manifest.epsilon, *counts, auc)


def _by_sklearn(release: Release, feeder: FeederData) -> tuple[set[frozenset[str]], float]:
    """What an ordinary graphical lasso makes of the same noisy rows: it takes the noise for data."""
    from sklearn.covariance import GraphicalLassoCV
    from sklearn.metrics import roc_auc_score

    assert feeder.truth is not None
    released = release.table()
    rows = np.column_stack([released.column(name).to_numpy() for name in feeder.columns])
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        precision = GraphicalLassoCV(cv=3, alphas=4, n_refinements=2).fit(rows).precision_
    upper = np.triu_indices(len(precision), 1)
    scale = np.sqrt(np.diag(precision))
    strength = np.abs(precision / np.outer(scale, scale))[upper]
    pairs = [frozenset((feeder.columns[i], feeder.columns[j])) for i, j in zip(*upper, strict=True)]
    found = {pair for pair, value in zip(pairs, strength, strict=True) if value > 1e-10}
    return found, float(roc_auc_score([pair in feeder.truth for pair in pairs], strength))


def _show(results: list[Result], graph: Graph, feeder: FeederData, console: Console) -> None:
    assert feeder.truth is not None
    title = f"Edges, of {len(feeder.truth)} true ones among {len(feeder.columns)} buses"
    headings = ("from", "true epsilon", "found", "right", "wrong", "missed", "AUC")
    shown = table(*headings, words=("from",), title=title)
    for r in results:
        shown.add_row(r.label, f"{r.epsilon:.2f}", *map(str, (r.found, r.right, r.wrong, r.missed)), f"{r.auc:.2f}")
    console.print(shown)
    lines = len(graph.pairs & feeder.lines)
    console.print(
        f"True edges are the non-zero entries of the exact precision matrix: {len(feeder.lines)} lines and "
        f"{len(feeder.truth - feeder.lines)} pairs two lines apart, which a radial grid's voltages also link. "
        f"From the moments, {lines} of the {len(feeder.lines)} lines were found. "
        "A false-discovery rate of 10 % is a mean over many releases: of one release more edges may be wrong, or none."
    )


def _explain_table(release: Release, console: Console) -> None:
    noise = [c.cell_noise.variance**0.5 for c in release.columns if c.cell_noise]
    console.print(
        f"Why the table does so badly at this budget: hiding a whole row takes noise of {min(noise):.0f} % of nominal "
        "on every cell, where voltages change by about 1 %. The moments need noise only once per pair of columns, not "
        "once per cell. An AUC of 0.5 is chance."
    )
