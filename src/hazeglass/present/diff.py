"""Two graphs side by side, the pairs that differ marked: as a page without scripts, and as a figure for papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.present.layout import Drawing, arranged
from hazeglass.present.pages import render
from hazeglass.present.plots import UNSIGNED, check_matplotlib, check_picture, edge_look, plain_text, write_names
from hazeglass.present.report import graph_picture
from hazeglass.present.sentences import made_of, promise_of

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 500
_MOST_LINES = 3000
_SIDES = ("a", "b")
Row = Mapping[str, Any]


def diff_page(names: Sequence[str], edges: pa.Table, fit: Mapping[str, Any]) -> str:
    """The page: `edges` and `fit` are those of a GraphDiff."""
    rows = edges.to_pylist()
    drawing = Drawing.of(links(names, rows))
    likely = sorted(rows, key=lambda row: (not row["selected"], 1.0 if row["p_value"] is None else row["p_value"]))
    sides = [
        {
            "letter": side,
            "made_of": made_of(fit["releases"][side]),
            "promise": promise_of(fit["releases"][side]),
            "picture": _picture(names, rows, drawing, side),
            **fit["releases"][side],
        }
        for side in _SIDES
    ]
    return render(
        "diff.html",
        fit=fit,
        sides=sides,
        count=sum(row["selected"] for row in rows),
        rows=[row for row in likely if row["difference"] is not None][:_MOST_ROWS],
        drawn=len(drawing.drawn),
        nodes=len(names),
    )


def links(names: Sequence[str], rows: Sequence[Row]) -> Any:
    """How strongly pairs are linked in either graph, as far as they are edges of one or differ."""
    from scipy.sparse import csr_array

    place = {name: k for k, name in enumerate(names)}
    shown = [row for row in rows if row["selected_a"] or row["selected_b"] or row["selected"]]
    strength = [max((abs(_value(row, side)) for side in _SIDES), default=0.0) or 1e-9 for row in shown]
    i, j = ([place[row[end]] for row in shown] for end in ("source", "target"))
    ends = np.array([*i, *j], dtype=np.int64), np.array([*j, *i], dtype=np.int64)
    return csr_array((np.array([*strength, *strength]), ends), shape=(len(names), len(names)))


def _value(row: Row, side: str) -> float:
    found = row[f"partial_correlation_{side}"]
    return 0.0 if found is None or np.isnan(found) else float(found)


def _picture(names: Sequence[str], rows: Sequence[Row], drawing: Drawing, side: str) -> dict[str, Any]:
    """One of the graphs: its edges, and where a pair differs and is no edge here, where one would be."""
    drawn = {names[node] for node in drawing.drawn.tolist()}
    shown = [
        {**row, "partial_correlation": _value(row, side), "here": bool(row[f"selected_{side}"])}
        for row in rows
        if (row[f"selected_{side}"] or row["selected"]) and row["source"] in drawn and row["target"] in drawn
    ]
    shown.sort(key=lambda row: (not row["selected"], -abs(row["partial_correlation"])))
    return graph_picture(names, shown[:_MOST_LINES], drawing)


def plot_diff(
    names: Sequence[str],
    edges: pa.Table,
    fit: Mapping[str, Any],
    *,
    size: tuple[float, float] | None = None,
    save: str | Path | None = None,
) -> Any:
    """Two graphs with the same places for their nodes: pairs that differ in full colour, the others pale, dotted where
    such a pair is no edge. Returns the Figure."""
    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = edges.to_pylist()
    linked = links(names, rows).toarray()
    spots, place = arranged(linked, "paths"), {name: k for k, name in enumerate(names)}
    figure = Figure(figsize=size or (9.6, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    strongest = float(np.abs(linked).max()) or 1.0
    for side, ax in zip("ab", figure.subplots(1, 2), strict=True):
        for row in (row for row in rows if row[f"selected_{side}"] or row["selected"]):
            value, ends = row[f"partial_correlation_{side}"] or 0.0, [place[row["source"]], place[row["target"]]]
            look = edge_look(value, strongest, 1.0)
            if not row[f"selected_{side}"]:
                look = {"color": UNSIGNED, "linestyle": (0, (1, 2)), "linewidth": 1.2}
            ax.plot(*spots[ends].T, zorder=1, alpha=1.0 if row["selected"] else 0.25, **look)
        dot = 60 if len(names) <= 30 else 24 if len(names) <= 100 else 12
        ax.scatter(spots[:, 0], spots[:, 1], s=dot, facecolor="white", edgecolor="black", linewidth=0.8, zorder=2)
        ax.margins(0.08)
        ax.set_axis_off()
        ax.set_title(f"{side}: {plain_text(str(fit['releases'][side]['title']))}", fontsize=9)
        write_names(ax, names, spots, np.count_nonzero(linked, axis=1), dot)
    figure.supxlabel("full colour: differs; pale: no known difference; dotted: differs and is no edge here", fontsize=7)
    if save is not None:
        check_picture(Path(save))
        figure.savefig(save, dpi=300)
    return figure
