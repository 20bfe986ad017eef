"""Figures that no window manager keeps, and the few that several experiments draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass.errors import MissingExtraError

__all__ = ["OURS", "PRINTED", "WORSE", "draw_matrix", "draw_network", "levels_against_printed", "panels", "save"]

OURS, PRINTED, WORSE = "#14507a", "#d9822b", "#a02020"
Floats = npt.NDArray[np.float64]


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure and a two-dimensional array of axes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("pictures need matplotlib. Install it with: pip install 'hazeglass[plot]'") from None
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def save(figure: Any, path: Path) -> None:
    """Write the picture."""
    figure.savefig(path, dpi=130, bbox_inches="tight")


def levels_against_printed(axes: Any, records: Sequence[Mapping[str, Any]], title: str) -> None:
    """Our AUC over the noise levels with its spread, and the printed one."""
    places = range(len(records))
    ours = [record["ours"] for record in records]
    spread = [record["ours_sd"] for record in records]
    printed = [record["printed"] for record in records]
    axes.errorbar(places, ours, yerr=spread, color=OURS, marker="o", markersize=4, capsize=2, label="ours")
    axes.plot(places, printed, color=PRINTED, marker="s", markersize=4, linestyle="--", label="printed")
    axes.set_xticks(list(places), [str(record["noise"]) for record in records], rotation=45, fontsize=7)
    axes.set_title(title, fontsize=9)
    axes.set_ylabel("AUC", fontsize=8)
    axes.tick_params(axis="y", labelsize=7)


def draw_matrix(axes: Any, matrix: Floats, title: str) -> None:
    """A square of shades, darker where an entry is larger; the diagonal is left out."""
    shown = np.abs(np.array(matrix, dtype=float))
    np.fill_diagonal(shown, 0.0)
    axes.imshow(shown, cmap="Greys", vmin=0, vmax=float(shown.max()) or 1.0, interpolation="nearest")
    axes.set_title(title, fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])


def draw_network(
    axes: Any,
    spots: Floats,
    edges: npt.NDArray[np.bool_],
    title: str,
    *,
    names: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    reference: npt.NDArray[np.bool_] | None = None,
) -> None:
    """Nodes at given spots; edges the reference lacks are orange, edges it has and this graph lacks are dotted."""
    wanted = edges if reference is None else reference
    for i, j in zip(*np.nonzero(np.triu(edges | wanted, 1)), strict=True):
        if edges[i, j] and wanted[i, j]:
            look = {"color": "#404040", "linewidth": 0.8}
        elif edges[i, j]:
            look = {"color": PRINTED, "linewidth": 0.8}
        else:
            look = {"color": "#9a9a9a", "linewidth": 0.6, "linestyle": ":"}
        axes.plot(*spots[[i, j]].T, zorder=1, **look)
    size = 26 if len(spots) <= 40 else 9
    axes.scatter(spots[:, 0], spots[:, 1], s=size, c=list(colours) if colours else OURS, zorder=2, linewidth=0)
    if names is not None and len(names) <= 20:
        for name, spot in zip(names, spots, strict=True):
            axes.annotate(name, spot, xytext=(0, 4), textcoords="offset points", ha="center", fontsize=6)
    axes.set_title(title, fontsize=9)
    axes.margins(0.1)
    axes.set_axis_off()
