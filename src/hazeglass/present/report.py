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
from hazeglass.present.asset import drawing_library
from hazeglass.present.communities import communities
from hazeglass.present.curves import Axis, Line, chart
from hazeglass.present.excerpt import LARGE, drawn_nodes
from hazeglass.present.pages import raw_template, render
from hazeglass.present.report_data import Pairs, page_data
from hazeglass.present.shapes import shape_pictures
from hazeglass.present.static_pictures import adjacency_picture, graph_picture
from hazeglass.present.words import fit_sentences

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["embedded_json", "report"]

_MOST_ROWS = 500
_MOST_STATIC = 5000  # a page without scripts cannot turn over a longer table
_SCRIPTS = ("start.js", "graph.js", "heat.js", "table.js", "controls.js")


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
    library = drawing_library()
    if library is None:
        return _static(names, edges, common)
    pairs = Pairs.of(names, edges)
    ours = (
        "(function () {\n'use strict';\n" + "\n".join(raw_template(f"report/{name}") for name in _SCRIPTS) + "})();\n"
    )
    return render(
        "report.html",
        **common,
        count=int(pairs.selected.sum()),
        data=embedded_json(page_data(names, pairs, float(fit["fdr"]), common["pairs"])),
        library=Markup(library),
        script=Markup(ours),
        hashes=" ".join(f"'sha256-{_digest(text)}'" for text in (library, ours)),
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


def _static(names: Sequence[str], edges: pa.Table, common: Mapping[str, Any]) -> str:
    """The page without scripts, and without being interactive."""
    pairs = Pairs.of(names, edges)
    chosen = np.flatnonzero(pairs.selected)
    chosen = chosen[np.argsort(-pairs.strength[chosen], kind="stable")]
    others = np.flatnonzero(~pairs.selected)
    others = others[np.argsort(pairs.numbers["p_value"][others], kind="stable")]
    most = min(_MOST_STATIC, max(_MOST_ROWS, len(chosen)))
    shown = edges.take(np.concatenate([chosen, others])[:most]).to_pylist()
    links = pairs.links(len(names))
    drawn = drawn_nodes(communities(links), links)
    inside = chosen[np.isin(pairs.i[chosen], drawn) & np.isin(pairs.j[chosen], drawn)][:_MOST_STATIC]
    pictured = edges.take(inside).to_pylist()
    if len(names) > LARGE:
        heat = adjacency_picture([names[node] for node in drawn], pictured)
    else:
        heat = adjacency_picture(names, shown if len(names) > 200 else edges.to_pylist())
    return render(
        "report_static.html",
        **common,
        count=len(chosen),
        complete=len(chosen) <= most,
        shown=shown,
        graph=graph_picture(names, pictured, drawn),
        heat=heat,
    )


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
