"""The second layer of a series in the report: arrows for who leads whom, and what follows a shock to a column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from hazeglass.present.charts import Axis, Line, chart

if TYPE_CHECKING:
    import pyarrow as pa

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
