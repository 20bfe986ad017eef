"""What a report carries: every pair it may show, packed tightly, where each node is drawn, and for a page without
scripts the graph and its matrix as plain SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.present.layout import communities, community_order, drawn_nodes, node_positions, place_nodes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MOST_EDGES", "MOST_PAIRS", "Pairs", "adjacency_picture", "graph_picture", "page_data"]

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
        kept = ("partial_correlation", "std_error", "ci_low", "ci_high", "p_value", "q_value")
        numbers = {key: edges[key].to_numpy().astype(np.float64) for key in kept}
        if "strength" in edges.column_names:
            numbers["strength"] = edges["strength"].to_numpy().astype(np.float64)
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


def page_data(names: Sequence[str], pairs: Pairs, fdr: float, total: int | None = None) -> dict[str, Any]:
    """Everything the page's script needs, ready for JSON; `total` pairs exist where the table lists only some."""
    links = pairs.links(len(names))
    groups = communities(links)
    kept = pairs.likeliest(max(MOST_PAIRS, min(MOST_EDGES, int(pairs.selected.sum()))))
    left_out = np.delete(pairs.numbers["q_value"], kept)
    complete = float(left_out.min()) if left_out.size else np.inf
    rates = sorted({*(rate for rate in _RATES if rate < complete), fdr})
    return {
        "names": list(names),
        **_spots(groups, links),
        "group": groups.tolist(),
        "order": community_order(groups, links).tolist(),
        "pairs": total or len(pairs.i),
        "listed": len(pairs.i),
        "selected": int(pairs.selected.sum()),
        "fdr": fdr,
        "rates": rates,
        "unit": _UNIT,
        "edges": {
            "i": pairs.i[kept].tolist(),
            "j": pairs.j[kept].tolist(),
            **{
                short: _packed(pairs.numbers[key][kept])
                for short, key in (("r", "partial_correlation"), ("e", "std_error"), ("l", "ci_low"), ("h", "ci_high"))
            },
            **_shapes(pairs, kept),
            "p": _short(pairs.numbers["p_value"][kept]),
            "q": _short(pairs.numbers["q_value"][kept], rates),
        },
    }


def _spots(groups: npt.NDArray[np.int64], links: Any) -> dict[str, list[int | None]]:
    """Where nodes are drawn; None for those a large graph's picture leaves out."""
    drawn = drawn_nodes(groups, links)
    spots = place_nodes(drawn, links)
    found: dict[str, list[int | None]] = {"x": [None] * len(groups), "y": [None] * len(groups)}
    for node, (x, y) in zip(drawn.tolist(), spots.tolist(), strict=True):
        found["x"][node], found["y"][node] = round(1000 * x), round(1000 * (1 - y))
    return found


def _shapes(pairs: Pairs, kept: npt.NDArray[np.int64]) -> dict[str, list[int]]:
    """Strengths, and 1 for a curved dependence; nothing for a graph of partial correlations."""
    if "strength" not in pairs.numbers:
        return {}
    return {"s": _packed(pairs.numbers["strength"][kept]), "c": pairs.numbers["curved"][kept].astype(int).tolist()}


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


def graph_picture(names: Sequence[str], selected: Sequence[Edge], drawn: npt.NDArray[np.int64]) -> dict[str, Any]:
    """The drawn nodes and the selected edges among them."""
    index = {names[node]: k for k, node in enumerate(drawn.tolist())}
    inside = [edge for edge in selected if edge["source"] in index and edge["target"] in index]
    adjacency = np.zeros((len(drawn), len(drawn)), dtype=bool)
    for edge in inside:
        i, j = index[edge["source"]], index[edge["target"]]
        adjacency[i, j] = adjacency[j, i] = True
    inner = np.array([_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN])
    spots = _MARGIN + node_positions(adjacency) * inner
    spots[:, 1] = _HEIGHT - spots[:, 1]
    strongest = max((_strength(e) for e in inside), default=1.0)
    lines = [
        {
            "start": spots[index[e["source"]]].round(1).tolist(),
            "end": spots[index[e["target"]]].round(1).tolist(),
            "width": round(0.8 + 4.2 * _strength(e) / strongest, 2),
            "sign": _sign(e),
            "edge": e,
        }
        for e in reversed(inside)
    ]
    nodes = [{"name": name, "spot": spots[k].round(1).tolist()} for name, k in index.items()]
    radius = 7 if len(drawn) <= 30 else 4
    return {"width": _WIDTH, "height": _HEIGHT, "lines": lines, "nodes": nodes, "radius": radius}


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
