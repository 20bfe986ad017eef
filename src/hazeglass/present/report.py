"""report.html: the analyst's page. One file, nothing fetched; interactive where the drawing library is installed."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from hazeglass.guarantee.explain import explain
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.sensitivity import Unit
from hazeglass.present.charts import Axis, Line, chart, shape_pictures
from hazeglass.present.layout import LARGE
from hazeglass.present.pages import drawing_library, raw_template, render
from hazeglass.present.report_data import Drawing, Pairs, adjacency_picture, graph_picture, page_data

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 500
_MOST_STATIC = 5000  # a page without scripts cannot turn over a longer table
_SCRIPTS = ("start.js", "graph.js", "heat.js", "table.js", "controls.js")
_CRITERIA = {
    "ebic": "the extended Bayesian information criterion",
    "stars": "stability of the graph under resampling",
    "cv": "cross-validation",
    "mse": "the expected squared error",
}


def report(names: Sequence[str], edges: pa.Table, fit: Mapping[str, Any]) -> str:
    """The page for a graph: `edges` has one row per pair of names, with the columns of edges.csv."""
    common = {
        "fit": fit,
        "promise": _promise(fit),
        "curved": "strength" in edges.column_names,
        "shapes": shape_pictures(fit.get("shapes", ())),
        "sentences": fit_sentences(fit),
        "paths": _paths(fit),
        "nodes": len(names),
        "pairs": fit.get("pairs", edges.num_rows),
    }
    pairs, library = Pairs.of(names, edges), drawing_library()
    if library is None:
        return render("report_static.html", **common, **_still(names, edges, pairs))
    ours = "\n".join(raw_template(f"report/{name}") for name in _SCRIPTS)
    script = f"(function () {{\n'use strict';\n{ours}}})();\n"
    return render(
        "report.html",
        **common,
        count=int(pairs.selected.sum()),
        data=embedded_json(page_data(names, pairs, float(fit["fdr"]), common["pairs"])),
        library=Markup(library),
        script=Markup(script),
        hashes=" ".join(f"'sha256-{_digest(text)}'" for text in (library, script)),
    )


def _promise(fit: Mapping[str, Any]) -> tuple[str, ...]:
    """What the release promises; clean rows promise nothing."""
    if fit["mu"] is None:
        return ("Nothing: these are clean rows, not a release. Whoever sees this page may learn about single rows.",)
    unit = Unit(fit["unit"], fit["unit_readings"], fit["unit_max_rows"])
    return tuple(explain(GaussianDP(fit["mu"]), unit, fit["delta"]).promise)


def embedded_json(value: Any) -> Markup:
    """JSON that may stand inside a script element: nothing in it can end the element or start another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _still(names: Sequence[str], edges: pa.Table, pairs: Pairs) -> dict[str, Any]:
    """The pictures and the table of a page without scripts, which is not interactive."""
    chosen, others = np.flatnonzero(pairs.selected), np.flatnonzero(~pairs.selected)
    chosen = chosen[np.argsort(-pairs.strength[chosen], kind="stable")]
    others = others[np.argsort(pairs.numbers["p_value"][others], kind="stable")]
    most = min(_MOST_STATIC, max(_MOST_ROWS, len(chosen)))
    shown = edges.take(np.concatenate([chosen, others])[:most]).to_pylist()
    drawing = Drawing.of(pairs.links(len(names)))
    inside = chosen[np.isin(pairs.i[chosen], drawing.drawn) & np.isin(pairs.j[chosen], drawing.drawn)][:_MOST_STATIC]
    pictured = edges.take(inside).to_pylist()
    if len(names) > LARGE:
        heat = adjacency_picture([names[node] for node in drawing.drawn], pictured)
    else:
        heat = adjacency_picture(names, shown if len(names) > 200 else edges.to_pylist())
    graph = graph_picture(names, pictured, drawing)
    return {"count": len(chosen), "complete": len(chosen) <= most, "shown": shown, "graph": graph, "heat": heat}


def _paths(fit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Charts along the penalties that were tried."""
    steps = [step for step in fit.get("path", ()) if step["alpha"] > 0]
    if len({step["alpha"] for step in steps}) < 2:
        return []
    alphas = [step["alpha"] for step in steps]
    x = Axis("penalty (strong to weak)", min(alphas), max(alphas), log=True, flip=True)
    charts = []
    for key, label, title in (
        ("edges", "pairs linked", "How many pairs the penalised fit links at each penalty"),
        ("score", f"criterion ({fit.get('alpha_chosen_by', '')})", "The criterion at each penalty; the lowest wins"),
    ):
        points = [(step["alpha"], float(step[key])) for step in steps if step.get(key) is not None]
        if len(points) < 2:
            continue
        low, high = min(value for _, value in points), max(value for _, value in points)
        y = Axis(label, min(low, 0.0) if key == "edges" else low, high if high > low else low + 1)
        picture = chart(x, y, [Line(points, dots=True)], title=title, mark=fit["alpha"])
        charts.append({"picture": picture, "caption": title})
    return charts


def fit_sentences(fit: Mapping[str, Any]) -> list[str]:
    """How a fit went, for people who did not write the solver, from the record in fit.json."""
    gap, gentle = abs(float(fit["duality_gap"])), fit.get("alpha_for_inference")
    exact = "the estimate is the exact optimum for all purposes"
    verdict = exact if gap <= 1e-4 else "it stopped early: read with care"
    sentences = [
        _penalty(fit),
        f"The solver {fit['solver']} took {fit['iterations']} iterations and proves that no other "
        f"estimate is better by more than {gap:.1g} (duality gap): {verdict}.",
        _covariance(float(fit["smallest_eigenvalue"])),
    ]
    if fit.get("dependence") == "curved":
        sentences.append(
            "Each column entered with its square and its cube, so edges may be curved. The linear part is the partial "
            "correlation of the columns themselves; p and q are for the whole dependence, and ask whether it is more "
            f"than a path through a third column could leave. Strengths are smoothed by {fit['ridge']:.2g}, the size "
            "of the noise."
        )
    sentences.append(
        f"Noise and sampling together leave what {fit['effective_rows']:,.0f} rows of clean data would leave; the "
        f"{'data has' if fit['form'] == 'rows' else 'release stands for'} {fit['n']:,} rows."
    )
    if gentle is not None and gentle != fit["alpha"]:
        sentences.append(f"Intervals and q-values come from a de-biased fit at the gentler penalty {gentle:.3g}.")
    return [*sentences, *map(str, fit["notes"])]


def _penalty(fit: Mapping[str, Any]) -> str:
    method, tried = fit["alpha_chosen_by"], len(fit["path"])
    if method == "given":
        return f"The penalty {fit['alpha']:.4g} was given, not chosen from the data."
    of = f" among {tried} candidates" if tried else ""
    return f"The penalty {fit['alpha']:.4g} was chosen{of} by {_CRITERIA.get(method, method)}."


def _covariance(smallest: float) -> str:
    if smallest > 0:
        return f"The covariance after removing the noise is positive definite (smallest eigenvalue {smallest:.3g})."
    return (
        f"The covariance after removing the noise is indefinite (smallest eigenvalue {smallest:.3g}): the noise is "
        "larger than the weakest direction of the data, and the penalty holds the estimate together there."
    )
