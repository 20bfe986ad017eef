"""Small charts as inline SVG, for pages that must not need a script: lines on two axes, and one curve per edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

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
