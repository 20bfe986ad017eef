"""Small curves, one per edge: how one column moves with another, with a band for what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

__all__ = ["shape_pictures"]

_WIDTH, _HEIGHT, _MARGIN = 180, 120, 8

Shape = Mapping[str, Any]


def shape_pictures(shapes: Sequence[Shape]) -> list[dict[str, Any]]:
    """Pictures on one common vertical scale, so that they can be compared, with their captions."""
    if not shapes:
        return []
    reach = max(0.1, min(3.0, max(abs(value) for shape in shapes for value in shape["y"]) * 1.15))
    return [
        {"picture": _picture(shape, reach), "x": shape["x_name"], "y": shape["y_name"], "shape": shape["shape"]}
        for shape in shapes
    ]


def _picture(shape: Shape, reach: float) -> Markup:
    x = shape["x"]
    low, high = x[0], x[-1]

    def spot(value: float, level: float) -> str:
        across = _MARGIN + (_WIDTH - 2 * _MARGIN) * (value - low) / (high - low)
        held = max(-reach, min(reach, level))
        return f"{across:.1f},{_HEIGHT / 2 - (_HEIGHT / 2 - _MARGIN) * held / reach:.1f}"

    curve = " ".join(spot(*point) for point in zip(x, shape["y"], strict=True))
    over = [spot(*point) for point in zip(x, shape["high"], strict=True)]
    under = [spot(*point) for point in zip(x, shape["low"], strict=True)]
    label = f"{shape['y_name']} as {shape['x_name']} grows: {shape['shape']}"
    return Markup(
        '<svg viewBox="0 0 {w} {h}" role="img" aria-label="{label}">'
        '<line class="grid" x1="{m}" x2="{right}" y1="{middle}" y2="{middle}"/>'
        '<line class="grid" x1="{centre}" x2="{centre}" y1="{m}" y2="{bottom}"/>'
        '<polygon class="band" points="{band}"/><polyline class="curve {kind}" points="{curve}"/></svg>'
    ).format(
        w=_WIDTH,
        h=_HEIGHT,
        m=_MARGIN,
        right=_WIDTH - _MARGIN,
        bottom=_HEIGHT - _MARGIN,
        middle=_HEIGHT // 2,
        centre=_WIDTH // 2,
        label=label,
        band=" ".join(over + under[::-1]),
        kind="bent" if shape["shape"] == "curved" else "straight",
        curve=curve,
    )
