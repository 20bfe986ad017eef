"""report.html: the analyst's page. One file, nothing fetched; interactive where the drawing library is installed.

It carries every pair it may show, packed tightly, and where each node is drawn. Without the library it is a page
without scripts that shows the graph and its matrix as plain SVG.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from hazeglass.present.charts import Axis, Line, chart, lagged_layer, shape_pictures, switch_style
from hazeglass.present.layout import FOLDED, LARGE, Drawing
from hazeglass.present.pages import agreement, drawing_library, fit_sentences, made_of, promise_of, raw_template, render

if TYPE_CHECKING:
    import pyarrow as pa

MOST_PAIRS = 20_000
MOST_EDGES = 60_000  # all selected pairs travel, up to this many
_RATES = (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
_UNIT = 10_000  # correlations travel as whole ten-thousandths
_WIDTH, _HEIGHT, _MARGIN = 560, 460, 46
_LABELLED_CELLS = 60
_MOST_ROWS = 500
_REACH = 3.0  # times the middle penalty's distance from the best one: how far up a chart of the criterion goes
_LINKED = (
    "How many pairs the penalised fit links at each penalty: those it cannot do without, whatever their error. Edges "
    "are something else: pairs that stand out of their error at the false-discovery rate"
)
_STANDS_OUT = 1.3  # times the mean number of edges
_MOST_HUBS = 12
_MOST_STATIC = 5000  # a page without scripts cannot turn over a longer table
_SCRIPTS = ("start.js", "graph.js", "heat.js", "table.js", "export.js", "controls.js")
_NUMBERS = ("partial_correlation", "std_error", "ci_low", "ci_high", "p_value", "q_value", "strength", "disagreement_p")
_MOST_ODDS = 12  # tables of the strongest edges; fit.json has more
_SHAPES = ("linear", "curved", "levels")  # as numbers on the page

FloatArray = npt.NDArray[np.float64]
Edge = Mapping[str, Any]


def report(names: Sequence[str], edges: pa.Table, fit: Mapping[str, Any], lagged: pa.Table | None = None) -> str:
    """The page for a graph: `edges` has one row per pair of names, with the columns of edges.csv."""
    common = {
        "fit": fit,
        "distrusted": fit.get("distrusted"),
        "promise": promise_of(fit),
        "curved": "strength" in edges.column_names,
        "levels": bool(fit.get("categorical")),
        "apart": "disagreement_p" in edges.column_names,
        "made_of": made_of(fit),
        "several": bool(fit.get("releases")),
        "odds": fit.get("odds", ())[:_MOST_ODDS],
        "shapes": shape_pictures(fit.get("shapes", ())),
        "sentences": fit_sentences(fit),
        "paths": _paths(fit),
        "nodes": len(names),
        "banners": _banners(fit, edges),
        "pairs": fit.get("pairs", edges.num_rows),
    }
    pairs, library = Pairs.of(names, edges), drawing_library()
    common["hubs"] = hubs(names, pairs)
    common["lagged"] = lagged_layer(names, lagged, fit)
    common["switch"] = switch_style() if common["lagged"] else ""
    if library is None or fit.get("distrusted"):  # a page that moves is about edges, of which there are none then
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


def _banners(fit: Mapping[str, Any], edges: pa.Table) -> list[tuple[str, str]]:
    """What a reader must know before looking at the picture: a few words, and the rest."""
    said, hidden = [], list(fit.get("hidden_columns", ()))
    if (fit.get("disagreement") or {}).get("pairs_that_differ"):
        said.append(("The releases do not agree.", agreement(fit)))
    if hidden:
        some = ", ".join(hidden[:8]) + (f" and {len(hidden) - 8} more" if len(hidden) > 8 else "")
        rest = f"The release says too little about {some}: no edge of theirs could be found here."
        said.append(("Noise hides columns.", rest))
    if not fit.get("distrusted") and not any(edges["selected"].to_pylist()):
        source = f"as informative as {fit['effective_rows']:,.0f} clean rows"
        rest = (
            f"No pair stands out of noise and chance at a false-discovery rate of {100 * fit['fdr']:g} %. That is no "
            f"proof of independence: data {source} cannot tell faint dependence from none."
        )
        now = " of columns that move together now" if fit.get("series") else ""
        said.append((f"No edge{now} was found.", rest))
    return said


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
    likely = np.nan_to_num(pairs.numbers["p_value"][others], nan=1.0)
    others = others[np.lexsort((-pairs.strength[others], likely))]
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
        ("edges", "pairs linked", _LINKED),
        ("score", f"criterion ({fit.get('alpha_chosen_by', '')})", "The criterion at each penalty; the lowest wins"),
    ):
        points = [(step["alpha"], float(step[key])) for step in steps if step.get(key) is not None]
        if len(points) < 2:
            continue
        low, high = min(value for _, value in points), max(value for _, value in points)
        if key == "score":  # a few penalties far off the best would hide where the lowest is
            high = min(high, low + _REACH * (float(np.median([value for _, value in points])) - low)) or high
            points = [(alpha, value) for alpha, value in points if value <= high]
        y = Axis(label, min(low, 0.0) if key == "edges" else low, high if high > low else low + 1)
        picture = chart(x, y, [Line(points, dots=True)], title=title, mark=fit["alpha"])
        charts.append({"picture": picture, "caption": title})
    return charts


@dataclass(frozen=True, eq=False)
class Pairs:
    """The columns of edges.csv as arrays, with nodes as numbers."""

    i: npt.NDArray[np.int64]
    j: npt.NDArray[np.int64]
    numbers: dict[str, FloatArray]
    selected: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, names: Sequence[str], edges: pa.Table) -> Pairs:
        """From the table of a graph."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = pa.array(names)
        ends = [pc.index_in(edges[key], known).to_numpy().astype(np.int64) for key in ("source", "target")]
        numbers = {key: edges[key].to_numpy().astype(np.float64) for key in _NUMBERS if key in edges.column_names}
        if "shape" in edges.column_names:
            numbers["curved"] = np.array(
                [_SHAPES.index(shape) for shape in edges["shape"].to_pylist()], dtype=np.float64
            )
        return cls(ends[0], ends[1], numbers, edges["selected"].to_numpy().astype(bool))

    def links(self, p: int) -> Any:
        """The strengths of the selected pairs as a symmetric sparse matrix."""
        from scipy.sparse import csr_array

        i, j = self.i[self.selected], self.j[self.selected]
        strength = self.strength[self.selected]
        both = np.concatenate([i, j]), np.concatenate([j, i])
        return csr_array((np.concatenate([strength, strength]), both), shape=(p, p))

    @property
    def strength(self) -> FloatArray:
        """What pictures show: the strength of a curved graph's pairs, else the absolute partial correlation."""
        return np.abs(self.numbers.get("strength", self.numbers["partial_correlation"]))

    def likeliest(self, most: int) -> npt.NDArray[np.int64]:
        """Pairs in the order of their q-value, the strongest first among equals; at most so many."""
        return np.lexsort((-self.strength, self.numbers["p_value"], self.numbers["q_value"]))[:most]


def page_data(names: Sequence[str], pairs: Pairs, fdr: float, total: int) -> dict[str, Any]:
    """Everything the page's script needs, ready for JSON; `total` pairs exist where the table lists only some."""
    drawing = Drawing.of(pairs.links(len(names)))
    kept = pairs.likeliest(max(MOST_PAIRS, min(MOST_EDGES, int(pairs.selected.sum()))))
    left_out = np.delete(pairs.numbers["q_value"], kept)
    complete = float(left_out.min()) if left_out.size else np.inf
    rates = sorted({*(rate for rate in _RATES if rate < complete), fdr})
    packed = {"r": "partial_correlation", "e": "std_error", "l": "ci_low", "h": "ci_high", "s": "strength"}
    edges = {"i": pairs.i[kept].tolist(), "j": pairs.j[kept].tolist()}
    edges |= {short: _packed(pairs.numbers[key][kept]) for short, key in packed.items() if key in pairs.numbers}
    if "curved" in pairs.numbers:
        edges["c"] = pairs.numbers["curved"][kept].astype(int).tolist()
    if "disagreement_p" in pairs.numbers:
        edges["d"] = _short(pairs.numbers["disagreement_p"][kept])
    return {
        "names": list(names),
        **_spots(drawing),
        "group": drawing.groups.tolist(),
        "folded": FOLDED,
        "order": drawing.order.tolist(),
        "pairs": total,
        "listed": len(pairs.i),
        "selected": int(pairs.selected.sum()),
        "fdr": fdr,
        "rates": rates,
        "unit": _UNIT,
        "edges": {
            **edges,
            "p": _short(pairs.numbers["p_value"][kept]),
            "q": _short(pairs.numbers["q_value"][kept], rates),
        },
    }


def hubs(names: Sequence[str], pairs: Pairs) -> list[tuple[str, int]]:
    """The columns with the most edges and their number; none where no column stands out."""
    degrees = np.bincount(np.concatenate([pairs.i, pairs.j])[np.tile(pairs.selected, 2)], minlength=len(names))
    order = np.argsort(-degrees, kind="stable")[:_MOST_HUBS]
    least = max(2.0, _STANDS_OUT * float(degrees.mean()))
    return [(names[node], int(degrees[node])) for node in order if degrees[node] > least]


def _spots(drawing: Drawing) -> dict[str, list[int | None]]:
    """In thousandths; None for nodes that a large graph's picture leaves out."""
    found: dict[str, list[int | None]] = {axis: [None] * len(drawing.groups) for axis in "xy"}
    for node, (x, y) in zip(drawing.drawn.tolist(), drawing.spots.tolist(), strict=True):
        found["x"][node], found["y"][node] = round(1000 * x), round(1000 * (1 - y))
    return found


def _packed(values: FloatArray) -> list[int]:
    return [int(value) for value in np.rint(np.nan_to_num(values) * _UNIT)]


def _short(values: FloatArray, rates: Sequence[float] = ()) -> list[float]:
    """Four significant digits; all of them where rounding would carry a value across one of the rates."""
    rounded = np.array([float(f"{value:.3e}") for value in values])
    crossed = np.zeros(len(values), dtype=bool)
    for rate in rates:
        crossed |= (values <= rate) != (rounded <= rate)
    return [float(value) for value in np.where(crossed, values, rounded)]


def _strength(edge: Edge) -> float:
    return float(abs(edge["strength"] if "strength" in edge else edge["partial_correlation"]))


def _sign(edge: Edge) -> str:
    """The class of the style sheet: a curved dependence, or one on levels without an order, has no sign."""
    if edge.get("shape") in ("curved", "levels"):
        return "bent"
    return "pos" if edge["partial_correlation"] > 0 else "neg"


def graph_picture(names: Sequence[str], edges: Sequence[Edge], drawing: Drawing) -> dict[str, Any]:
    """The drawn nodes and edges among them."""
    spots = _MARGIN + drawing.spots * np.array([_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN])
    spots[:, 1] = _HEIGHT - spots[:, 1]
    spot = {names[node]: spots[k].round(1).tolist() for k, node in enumerate(drawing.drawn.tolist())}
    strongest = max((_strength(e) for e in edges), default=0.0) or 1.0
    lines = [
        {
            "start": spot[e["source"]],
            "end": spot[e["target"]],
            "width": round(0.8 + 4.2 * _strength(e) / strongest, 2),
            "sign": _sign(e),
            "edge": e,
        }
        for e in reversed(edges)
    ]
    nodes = [{"name": name, "spot": place} for name, place in spot.items()]
    return {"width": _WIDTH, "height": _HEIGHT, "lines": lines, "nodes": nodes, "radius": 7 if len(nodes) <= 30 else 4}


def adjacency_picture(names: Sequence[str], edges: Sequence[Edge]) -> dict[str, Any]:
    """A square for each pair, on both sides of the diagonal."""
    p = len(names)
    index = {name: k for k, name in enumerate(names)}
    side = max(4.0, min(28.0, 420 / p))
    strongest = max((_strength(e) for e in edges), default=0.0) or 1.0
    cells = [
        {
            "x": round(side * j, 2),
            "y": round(side * i, 2),
            "opacity": round(_strength(e) / strongest, 3),
            "sign": _sign(e),
            "edge": e,
        }
        for e in edges
        for i, j in ((index[e["source"]], index[e["target"]]), (index[e["target"]], index[e["source"]]))
        if _strength(e) / strongest >= 0.004
    ]
    longest = max(len(name) for name in names)
    label = min(130.0, 7.0 * min(longest, 18) + 8) if p <= _LABELLED_CELLS else 4.0
    return {
        "side": side,
        "size": round(side * p, 2),
        "label": label,
        "cells": cells,
        "names": list(names) if p <= _LABELLED_CELLS else [],
    }
