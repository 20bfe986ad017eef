"""The graph and its matrix as plain SVG, for a report without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass.present.layout import node_positions

__all__ = ["adjacency_picture", "graph_picture"]

_WIDTH, _HEIGHT, _MARGIN = 560, 460, 46
_LABELLED_CELLS = 60

Edge = Mapping[str, Any]


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
    room = np.array([_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN])
    spots = _MARGIN + node_positions(adjacency) * room
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
