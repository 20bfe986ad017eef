"""Two of a kind side by side: graphs with the pairs that differ marked, as a page without scripts and as a figure for
papers; and rows beside made-up rows, every margin and the strongest pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from hazeglass._version import __version__
from hazeglass.present.layout import Drawing, arranged
from hazeglass.present.pages import Page, made_of, promise_of, render
from hazeglass.present.plots import UNSIGNED, check_matplotlib, check_picture, edge_look, plain_text, write_names
from hazeglass.present.report import graph_picture

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


FloatArray = npt.NDArray[np.float64]

_HEIGHT, _WIDTH, _FOOT, _CELL, _MOST = 96, 240, 16, 9, 40


@dataclass(frozen=True, eq=False)
class Margin:
    """Shares of one column's bars, in both sources."""

    name: str
    labels: Sequence[str]
    first: FloatArray
    second: FloatArray

    @property
    def distance(self) -> float:
        """Total variation between the two."""
        return float(np.abs(self.first - self.second).sum() / 2)


@dataclass(frozen=True, eq=False)
class PairOfTables:
    """Tables of two columns, in both sources."""

    names: tuple[str, str]
    labels: tuple[Sequence[str], Sequence[str]]
    first: FloatArray
    second: FloatArray

    @property
    def distance(self) -> float:
        """Total variation between the two."""
        return float(np.abs(self.first - self.second).sum() / 2)


def synthetic_page(
    title: str,
    source: str,
    rows: int,
    margins: Sequence[Margin],
    pairs: Sequence[PairOfTables],
    checked: Mapping[str, Any],
) -> Page:
    """The page; `source` says what stands beside the synthetic rows: 'released' or 'real'."""
    text = render(
        "synthetic.html",
        title=title,
        source=source,
        rows=rows,
        margins=[{"name": one.name, "distance": one.distance, "picture": bars(one, source)} for one in margins],
        pairs=[
            {
                "names": pair.names,
                "distance": pair.distance,
                "first": tiles(pair.first, pair, source),
                "second": tiles(pair.second, pair, "synthetic"),
            }
            for pair in pairs
        ],
        checked=checked,
        version=__version__,
    )
    return Page(text)


def bars(margin: Margin, source: str) -> Markup:
    """Two bars for each level or range: the source's in outline, the synthetic one filled."""
    first, second, labels = margin.first[:_MOST], margin.second[:_MOST], margin.labels[:_MOST]
    top = max(float(first.max()), float(second.max()), 1e-9)
    step = _WIDTH / len(labels)
    label = f"{margin.name}: {source} and synthetic shares"
    parts = [Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(_WIDTH, _HEIGHT + _FOOT, label)]
    for k, (name, one, other) in enumerate(zip(labels, first, second, strict=True)):
        tall, drawn = _HEIGHT * max(float(one), 0.0) / top, _HEIGHT * max(float(other), 0.0) / top
        parts.append(
            Markup('<g><title>{}: {} {:.3g}, synthetic {:.3g}</title>'
                   '<rect class="drawn" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
                   '<rect class="given" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/></g>').format(
                name, source, float(one), float(other),
                k * step + 0.18 * step, _HEIGHT - drawn, 0.64 * step, drawn,
                k * step + 0.08 * step, _HEIGHT - tall, 0.84 * step, tall,
            )
        )  # fmt: skip
    ends = Markup(
        '<text class="axis" x="0" y="{0}">{1}</text><text class="axis" x="{2}" y="{0}" text-anchor="end">{3}</text>'
    )
    parts.append(ends.format(_HEIGHT + _FOOT - 3, _short(labels[0]), _WIDTH, _short(labels[-1])))
    return Markup("").join([*parts, Markup("</svg>")])


def tiles(table: FloatArray, pair: PairOfTables, source: str) -> Markup:
    """A table as tiles, each as dark as its share is beside that of independent columns."""
    table = table[:_MOST, :_MOST]
    apart = np.outer(table.sum(axis=1), table.sum(axis=0))
    lift = np.log2(np.maximum(table, 1e-9) / np.maximum(apart, 1e-9))
    weight = np.clip(np.abs(lift) / 2, 0.0, 1.0) * np.clip(np.sqrt(np.maximum(apart, table)) * 6, 0.15, 1.0)
    rows, columns = table.shape
    label = f"{pair.names[0]} and {pair.names[1]}, {source}"
    size = columns * _CELL, rows * _CELL
    parts = [
        Markup('<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">').format(*size, label)
    ]
    for i in range(rows):
        for j in range(columns):
            style = "more" if lift[i, j] > 0 else "less"
            parts.append(
                Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}" fill-opacity="{:.2f}">'
                       "<title>{}, {}: {:.2g}</title></rect>").format(
                    style, j * _CELL, i * _CELL, _CELL - 1, _CELL - 1, weight[i, j],
                    pair.labels[0][i], pair.labels[1][j], float(table[i, j]),
                )
            )  # fmt: skip
    return Markup("").join([*parts, Markup("</svg>")])


def _short(text: str) -> str:
    return text if len(text) <= 16 else text[:15] + "…"
