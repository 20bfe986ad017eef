"""Small charts as inline SVG, for pages that must not need a script: lines on two axes, one curve per edge, and the
second layer of a series, arrows for who leads whom and what follows a shock to a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

if TYPE_CHECKING:
    import pyarrow as pa


Shape = Mapping[str, Any]

_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 22, 12, 40
_WIDTH, _HEIGHT, _MARGIN = 180, 120, 8  # of a shape


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its range, and whether equal ratios are equal distances."""

    label: str
    low: float
    high: float
    log: bool = False
    flip: bool = False

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        scale: Callable[[float], float] = math.log10 if self.log else float
        low, high = scale(self.low), scale(self.high)
        share = (scale(value) - low) / ((high - low) or 1.0)
        return 1 - share if self.flip else share

    def ticks(self) -> list[tuple[float, str]]:
        """A few round values with their labels."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, math.ceil((last - first + 1) / 5))
            powers = [10.0**k for k in range(first, last + 1, every)]
            if len(powers) >= 2:
                return [(value, f"{value:g}") for value in powers]
            ratio = self.high / self.low
            return [(v, f"{v:.2g}") for v in (self.low, self.low * math.sqrt(ratio), self.high)]
        step = _round_step((self.high - self.low) / 4)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first + 1
        return [((first + k) * step, _tick((first + k) * step)) for k in range(count)]


@dataclass(frozen=True)
class Line:
    """Points joined up; `style` is a class of the page's style sheet."""

    points: Sequence[tuple[float, float]]
    style: str = "curve"
    dots: bool = False


def chart(
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    *,
    title: str,
    size: tuple[int, int] = (380, 250),
    mark: float | None = None,
) -> Markup:
    """The chart; `mark` draws a vertical line at an x value."""
    width, height = size
    wide, high = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM

    def across(value: float) -> float:
        return round(_LEFT + wide * x.place(value), 1)

    def down(value: float) -> float:
        return round(_TOP + high * (1 - y.place(value)), 1)

    parts = [Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(width, height, title)]
    for value, label in x.ticks():
        parts.append(_upright("grid", across(value), high))
        parts.append(_TEXT.format(across(value), height - _BOTTOM + 15, "middle", label))
    for value, label in y.ticks():
        parts.append(_LEVEL.format(_LEFT, width - _RIGHT, down(value)))
        parts.append(_TEXT.format(_LEFT - 5, down(value) + 4, "end", label))
    if mark is not None:
        parts.append(_upright("mark", across(mark), high))
    for line in lines:
        parts.extend(_drawn(line, [(across(a), down(b)) for a, b in line.points]))
    parts.append(_BELOW.format(_LEFT + wide / 2, height - 6, x.label))
    parts.append(_BESIDE.format(_TOP + high / 2, escape(y.label)))
    return Markup("").join([*parts, Markup("</svg>")])


_SHAPE = Markup(
    f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{{label}}">'
    f'<line class="grid" x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{_HEIGHT // 2}" y2="{_HEIGHT // 2}"/>'
    f'<line class="grid" x1="{_WIDTH // 2}" x2="{_WIDTH // 2}" y1="{_MARGIN}" y2="{_HEIGHT - _MARGIN}"/>'
    '<polygon class="band" points="{band}"/><polyline class="curve {kind}" points="{curve}"/></svg>'
)
_TEXT = Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>')
_LEVEL = Markup('<line class="grid" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>')
_BELOW = Markup('<text class="axis" x="{}" y="{}" text-anchor="middle">{}</text>')
_BESIDE = Markup('<text class="axis" transform="translate(11 {}) rotate(-90)" text-anchor="middle">{}</text>')


def _upright(style: str, x: float, high: float) -> Markup:
    return Markup('<line class="{0}" x1="{1}" x2="{1}" y1="{2}" y2="{3}"/>').format(style, x, _TOP, _TOP + high)


def _drawn(line: Line, spots: list[tuple[float, float]]) -> list[Markup]:
    path = " ".join(f"{a},{b}" for a, b in spots)
    dots = spots if line.dots else []
    return [
        Markup('<polyline class="{}" points="{}"/>').format(line.style, path),
        *(Markup('<circle class="dot" cx="{}" cy="{}" r="2.5"/>').format(a, b) for a, b in dots),
    ]


def _tick(value: float) -> str:
    """Short enough to stand beside an axis."""
    for size, letter in ((1e9, " G"), (1e6, " M")):
        if abs(value) >= size:
            return f"{value / size:,.6g}{letter}"
    return f"{value:,.10g}"


def _round_step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    if not rough > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))


def shape_pictures(shapes: Sequence[Shape]) -> list[dict[str, Any]]:
    """How one column moves with another, with a band for what is not known, and captions.

    All pictures have one vertical scale, so that they can be compared.
    """
    if not shapes:
        return []
    reach = max(0.1, min(3.0, max(abs(value) for shape in shapes for value in shape["y"]) * 1.15))
    return [
        {"picture": _picture(shape, reach), "x": shape["x_name"], "y": shape["y_name"], "shape": shape["shape"]}
        for shape in shapes
    ]


def _picture(shape: Shape, reach: float) -> Markup:
    x, y = Axis("", shape["x"][0], shape["x"][-1]), Axis("", -reach, reach)

    def points(values: Sequence[float]) -> list[str]:
        across = (_MARGIN + (_WIDTH - 2 * _MARGIN) * x.place(value) for value in shape["x"])
        down = (_HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * y.place(max(-reach, min(reach, v))) for v in values)
        return [f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True)]

    return _SHAPE.format(
        label=f"{shape['y_name']} as {shape['x_name']} grows: {shape['shape']}",
        band=" ".join(points(shape["high"]) + points(shape["low"])[::-1]),
        kind="bent" if shape["shape"] == "curved" else "straight",
        curve=" ".join(points(shape["y"])),
    )


FloatArray = npt.NDArray[np.float64]

_SIDE, _REACH, _DOT = 520, 190, 6
_MOST_ARROWS, _MOST_COLUMNS, _MOST_ROWS = 300, 40, 500
_STEPS, _MOST_STEPS, _FADED = 12, 60, 0.05
_SHOWN = 5  # columns that answer a shock most


def lagged_layer(names: Sequence[str], lagged: pa.Table | None, fit: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the template draws; None where rows were not read in time."""
    series = fit.get("series")
    if lagged is None or not series:
        return None
    rows = sorted(lagged.to_pylist(), key=lambda row: -abs(row["partial_correlation"]))
    chosen = [row for row in rows if row["selected"]]
    memory = {name: list(own) for name, own in series["own_past"].items()}
    some = [name for name in names if any(name in (row["source"], row["target"]) for row in chosen)] or list(names)
    return {
        "lags": series["lags"],
        "count": len(chosen),
        "pairs": len(rows),
        "picture": arrow_picture(some[:_MOST_COLUMNS], chosen[:_MOST_ARROWS]),
        "columns": min(len(some), _MOST_COLUMNS),
        "shown": [*chosen, *(row for row in rows if not row["selected"])][: max(len(chosen), min(_MOST_ROWS, 40))],
        "impulses": [] if fit.get("distrusted") else impulses(some[:_MOST_COLUMNS], names, chosen, memory),
        "memory": [(name, memory[name]) for name in some[:_MOST_COLUMNS]],
    }


def arrow_picture(names: Sequence[str], chosen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Columns on a circle, and an arrow from each one to those it leads."""
    middle = _SIDE / 2
    angle = {name: 2 * math.pi * k / max(1, len(names)) - math.pi / 2 for k, name in enumerate(names)}
    spot = {name: (middle + _REACH * math.cos(a), middle + _REACH * math.sin(a)) for name, a in angle.items()}
    strongest = max((abs(row["partial_correlation"]) for row in chosen), default=1.0) or 1.0
    lines = []
    for row in reversed(chosen):
        if row["source"] not in spot or row["target"] not in spot:
            continue
        (x, y), (u, v) = spot[row["source"]], spot[row["target"]]
        length = math.hypot(u - x, v - y) or 1.0
        bend = 0.12 + 0.05 * (row["lag"] - 1)  # arrows there and back, and those of other lags, lie apart
        across, down = (x + u) / 2 - bend * (v - y), (y + v) / 2 + bend * (u - x)
        end = math.hypot(u - across, v - down) or 1.0
        lines.append(
            {
                "path": f"M{x:.1f} {y:.1f} Q{across:.1f} {down:.1f} "
                f"{u - (_DOT + 5) * (u - across) / end:.1f} {v - (_DOT + 5) * (v - down) / end:.1f}",
                "sign": "pos" if row["coefficient"] > 0 else "neg",
                "width": round(1.2 + 2.8 * abs(row["partial_correlation"]) / strongest, 2),
                "at": ((x + u) / 4 + across / 2, (y + v) / 4 + down / 2) if length > 80 else None,
                "row": row,
            }
        )
    nodes = [
        {
            "name": name,
            "spot": spot[name],
            "label": (middle + (_REACH + 14) * math.cos(a), middle + (_REACH + 14) * math.sin(a) + 4),
            "anchor": "middle" if abs(math.cos(a)) < 0.2 else "start" if math.cos(a) > 0 else "end",
        }
        for name, a in angle.items()
    ]
    return {"side": _SIDE, "dot": _DOT, "lines": lines, "nodes": nodes}


def impulses(
    some: Sequence[str],
    names: Sequence[str],
    chosen: Sequence[Mapping[str, Any]],
    memory: Mapping[str, Sequence[float]],
) -> list[dict[str, Any]]:
    """What follows one unit in a column, by the selected arrows and by what columns remember of themselves."""
    place, p = {name: k for k, name in enumerate(names)}, len(names)
    lags = len(next(iter(memory.values())))
    steps = np.zeros((lags, p, p))
    for name, own in memory.items():
        steps[:, place[name], place[name]] = own
    for row in chosen:
        steps[row["lag"] - 1, place[row["target"]], place[row["source"]]] = row["coefficient"]
    found = []
    for name in some:
        paths = response(steps, place[name])
        others = np.argsort(-np.abs(paths).max(axis=0), kind="stable")
        shown = [k for k in others if k != place[name] and np.abs(paths[:, k]).max() > 0.01][:_SHOWN]
        ends = paths[:, [place[name], *shown]]
        x = Axis("rows later", 0.0, float(len(paths) - 1))
        y = Axis("answer", min(0.0, float(ends.min())), max(1.0, float(ends.max())))
        lines = [Line([(float(t), float(v)) for t, v in enumerate(path)], "blind") for path in ends[:, 1:].T]
        own_line = Line([(float(t), float(v)) for t, v in enumerate(ends[:, 0])])
        peaks = [(names[k], float(paths[t, k]), int(t)) for k in shown for t in [int(np.abs(paths[:, k]).argmax())]]
        title = f"What follows one unit in {name}: itself (solid), and those it leads"
        found.append({"name": name, "picture": chart(x, y, [*lines, own_line], title=title), "peaks": peaks})
    return found


def response(steps: FloatArray, column: int) -> FloatArray:
    """x_t for t = 0, 1, ... after one unit in a column, until it has faded or for so many rows."""
    lags, p, _ = steps.shape
    path = [np.zeros(p)] * (lags - 1) + [np.eye(p)[column]]
    for t in range(1, _MOST_STEPS + 1):
        following = np.asarray(sum(steps[k] @ path[-1 - k] for k in range(lags)))
        if not np.abs(following).max() < 10:  # what does not fade says nothing that far ahead
            break
        path.append(following)
        if t >= _STEPS and np.abs(following).max() < _FADED:
            break
    return np.array(path[lags - 1 :])


def switch_style() -> Markup:
    """One layer at a time, without a script."""
    return Markup(
        "#layer-now:checked ~ .lagged, #layer-lagged:checked ~ .now { display: none; }"
        " .layers { margin-right: 1.4em; cursor: pointer; }"
        " .lagged path { fill: none; stroke-opacity: .8; } .lagged path.pos { stroke: var(--pos); }"
        " .lagged path.neg { stroke: var(--neg); stroke-dasharray: 7 4; }"
        " .lagged marker path { stroke: none; fill: var(--ink); }"
        " .lagged circle { fill: var(--paper); stroke: var(--ink); stroke-width: 1.5; }"
        " .lagged figure { max-width: 33em; }"
        " .lagged polyline.blind { fill: none; stroke: var(--soft); stroke-dasharray: 4 3; }"
    )
