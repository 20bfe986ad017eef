"""The recovered graphs of six data sets at several noise levels, each beside the one found without noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass.present.layout import node_positions

from ..cells import Setup
from ..pictures import draw_matrix, draw_network, panels, save
from ..protocol import add_noise, corrected_covariance, fit
from ..sections import decibels, level_name
from ..subjects import SUBJECTS, Prepared, prepare

__all__ = ["changes", "draw", "measure"]

_PARTIES = {"D": "#2b5fa8", "R": "#b8332f"}
_PALETTE = (  # 18, because the atlas has 17 networks
    *("#14507a", "#d9822b", "#5b8c3a", "#8c4a8c", "#b8332f", "#3aa6a6", "#8a6d3b", "#555555", "#c9a227"),
    *("#7fb2d9", "#f2b880", "#a8cf8e", "#c9a3c9", "#e39b98", "#98d8d8", "#c8b48c", "#aaaaaa", "#ead98a"),
)
Bools = npt.NDArray[np.bool_]


def measure(setup: Setup, name: str, alpha: float, levels: list[float | str]) -> dict[str, Any]:
    """The edges at each level as pairs of column numbers, with the strength of each."""
    prepared = prepare(name, setup.data_dir)
    found: dict[str, Any] = {}
    for level in levels:
        noisy, variance = add_noise(prepared.rows, decibels(level), 0, prepared.kind)
        precision = fit(corrected_covariance(noisy, variance), alpha)
        scale = np.sqrt(np.diag(precision))
        strength = np.triu(np.abs(precision) / np.outer(scale, scale), 1)
        pairs = np.argwhere(strength > 1e-8)
        found[level_name(level)] = [[int(i), int(j), round(float(strength[i, j]), 5)] for i, j in pairs]
    return {
        "nodes": len(prepared.columns),
        "names": list(prepared.columns),
        "groups": _groups(prepared),
        "edges": found,
    }


def _groups(prepared: Prepared) -> list[str]:
    """What colours a node: a party, a network of the brain, or nothing."""
    about = prepared.dataset.column_info
    return [str(value) for value in about.get("party", about.get("network", ()))]


def changes(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Edges kept, lost and gained at each level against no noise."""
    clean = {(i, j) for i, j, _ in found["edges"]["no noise"]}
    records = []
    for noise, pairs in found["edges"].items():
        here = {(i, j) for i, j, _ in pairs}
        records.append(
            {"noise": noise, "edges": len(here), "lost": len(clean - here), "gained": len(here - clean)}
            | {"overlap": len(clean & here) / max(1, len(clean | here))}
        )
    return records


def draw(name: str, found: dict[str, Any], path: Path) -> None:
    """One panel per level; the power grid as matrices, the others as networks."""
    levels = list(found["edges"])
    figure, axes = panels(1, len(levels), (3.2 * len(levels), 3.3))
    clean = _matrix(found["edges"]["no noise"], found["nodes"]) > 0
    spots, palette = node_positions(clean), _palette(found["groups"])
    for place, noise in zip(axes[0], levels, strict=True):
        strength = _matrix(found["edges"][noise], found["nodes"])
        if name == "grid11":
            draw_matrix(place, strength, noise)
            continue
        names = found["names"] if found["nodes"] <= 20 else None
        colours = [palette[group] for group in found["groups"]] or None
        draw_network(place, spots, strength > 0, noise, names=names, colours=colours, reference=clean)
    _legend(figure, palette)
    figure.suptitle(SUBJECTS[name].title, fontsize=10)
    save(figure, path)


def _matrix(pairs: Sequence[Sequence[float]], nodes: int) -> npt.NDArray[np.float64]:
    matrix = np.zeros((nodes, nodes))
    for i, j, strength in pairs:
        matrix[int(i), int(j)] = matrix[int(j), int(i)] = strength
    return matrix


def _palette(groups: Sequence[str]) -> Mapping[str, str]:
    """A colour for each group: the parties' own, or one after the other."""
    found = sorted(set(groups))
    if set(found) <= set(_PARTIES):
        return {group: _PARTIES[group] for group in found}
    return {group: _PALETTE[k % len(_PALETTE)] for k, group in enumerate(found)}


def _legend(figure: Any, palette: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D

    if palette:
        marks = [Line2D([], [], marker="o", linestyle="", color=colour) for colour in palette.values()]
        names = [{"D": "Democrats", "R": "Republicans"}.get(group, group) for group in palette]
        figure.legend(marks, names, loc="outside lower center", ncols=len(names), fontsize=6, frameon=False)
