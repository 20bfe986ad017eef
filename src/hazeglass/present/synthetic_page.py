"""The page beside synthetic rows: every margin, and the strongest pairs, of two sources beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from hazeglass._version import __version__
from hazeglass.present.pages import Page, render

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
