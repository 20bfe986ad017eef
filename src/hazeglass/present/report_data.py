"""What a report carries: every pair it may show, packed tightly, where each node is drawn, and for a page without
scripts the graph and its matrix as plain SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.present.layout import communities, community_order, drawn_nodes, node_positions

if TYPE_CHECKING:
    import pyarrow as pa

MOST_PAIRS = 20_000
MOST_EDGES = 60_000  # all selected pairs travel, up to this many
_RATES = (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
_UNIT = 10_000  # correlations travel as whole ten-thousandths
_WIDTH, _HEIGHT, _MARGIN = 560, 460, 46
_LABELLED_CELLS = 60

FloatArray = npt.NDArray[np.float64]
Edge = Mapping[str, Any]


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
        kept = ("partial_correlation", "std_error", "ci_low", "ci_high", "p_value", "q_value", "strength")
        numbers = {key: edges[key].to_numpy().astype(np.float64) for key in kept if key in edges.column_names}
        if "shape" in edges.column_names:
            numbers["curved"] = np.array([shape == "curved" for shape in edges["shape"].to_pylist()], dtype=np.float64)
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


@dataclass(frozen=True, eq=False)
class Drawing:
    """Where the nodes of a graph are drawn: the numbers of those that are, and their places in the unit square."""

    groups: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    drawn: npt.NDArray[np.int64]
    spots: FloatArray

    @classmethod
    def of(cls, links: Any) -> Drawing:
        """Of the matrix of links between nodes."""
        groups = communities(links)
        drawn = drawn_nodes(groups, links)
        spots = node_positions(np.asarray(links[drawn][:, drawn].toarray() > 0))
        return cls(groups, community_order(groups, links), drawn, spots)


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
    return {
        "names": list(names),
        **_spots(drawing),
        "group": drawing.groups.tolist(),
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
    return float(abs(edge.get("strength", edge["partial_correlation"])))


def _sign(edge: Edge) -> str:
    """The class of the style sheet: a curved dependence has no sign."""
    if edge.get("shape") == "curved":
        return "bent"
    return "pos" if edge["partial_correlation"] > 0 else "neg"


def graph_picture(names: Sequence[str], edges: Sequence[Edge], drawing: Drawing) -> dict[str, Any]:
    """The drawn nodes and edges among them."""
    spots = _MARGIN + drawing.spots * np.array([_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN])
    spots[:, 1] = _HEIGHT - spots[:, 1]
    spot = {names[node]: spots[k].round(1).tolist() for k, node in enumerate(drawing.drawn.tolist())}
    strongest = max((_strength(e) for e in edges), default=1.0)
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
    strongest = max((_strength(e) for e in edges), default=1.0) or 1.0
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
