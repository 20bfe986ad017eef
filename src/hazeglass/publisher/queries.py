"""A stage inside a database, layer by layer: features of cells, their map, the ball, whole numbers.

Each layer is made of expressions over the one before (publisher/expressions.py), and the last one holds what a stage
sums. What needs a draw gets one that follows from the row's own key; see publisher/warehouse.py for why that keeps the
promise.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ibis
import numpy as np

from hazeglass.bundle.columns import Column
from hazeglass.bundle.manifest import Series, Stage
from hazeglass.compute.warehouse import Layers, md5, real
from hazeglass.features.harmonics import DEGREES
from hazeglass.features.scores import DRAWS, STEPS
from hazeglass.features.shaping import LARGEST_LINEAR, LINEAR_STEPS
from hazeglass.publisher.choice import NEAR, FloatArray, IntArray
from hazeglass.publisher.expressions import (
    PRIME,
    Search,
    ball,
    looked_up,
    one_if,
    rounded,
    thresholds,
    total,
    unit,
    whole_map,
)
from hazeglass.publisher.marginals import ColumnTable, Encoder, LevelTable
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import filled
from hazeglass.publisher.sums import inner_radius

_CHAIN = 24  # terms of a float's sum in one layer: it is added up in order, and deep expressions are refused
_PIECES = 1 << 23  # of a draw: 256 entries of a leaf times so many places in a step


def add_stage(layers: Layers, plan: Plan, stage: Stage, encoder: Encoder, through: FloatArray | None = None) -> None:
    """Columns q0, q1...: the rows of a stage in lattice steps, inside its ball."""
    size, scored = stage.size, stage.scored
    public = encoder.scale == "public"
    step = _features(layers, plan, encoder)
    if encoder.lags:
        assert plan.series is not None
        add_stacks(layers, plan.series, size // (encoder.lags + 1))
    if through is not None:
        step = _mapped(layers, through[:scored, :scored], size, step)
    top = layers.top
    floats = {}
    for k in range(scored):
        value = top[f"f{k}"] if public else top[f"f{k}"].cast("float64") * real(step)
        value = (value - real(stage.centre[k])) * real(stage.steps)
        floats[f"v{k}"] = value
    layers.add(**floats, **{f"q{k}": top[f"f{k}"] * stage.steps for k in range(scored, size)})
    _clip(layers, stage)


def add_stacks(layers: Layers, series: Series, width: int) -> None:
    """Rows that end a stack, with features f0, f1... of their own and of the rows before (publisher/sums.py)."""
    top = layers.top
    rows = ibis.window(group_by=top["series"], order_by=top["place"])
    since = top["place"] - top["place"].lag(1).over(rows)
    follows = ((since - real(series.step)).abs() <= real(NEAR * series.step)) & top["series"].notnull()
    layers.add(**{f"f{k}": top[f"f{k}"] for k in range(width)}, follows=one_if(follows))
    top, lags = layers.top, range(series.lags + 1)
    rows = ibis.window(group_by=top["series"], order_by=top["place"])
    before = {f"f{k * len(lags) + lag}": _before(top[f"f{k}"], lag, rows) for k in range(width) for lag in lags}
    chain = total([_before(top["follows"], lag, rows) for lag in range(series.lags)])
    layers.beside = ()
    layers.add(**before, chain=chain)
    layers.keep(layers.top["chain"] == series.lags)


def _before(value: Any, lag: int, rows: Any) -> Any:
    return value.lag(lag).over(rows) if lag else value


def units_of(plan: Plan, k: int) -> Callable[[FloatArray], FloatArray]:
    """The public scale of a column, as files have it."""
    column = _scaled(plan, k)
    return lambda values: filled([values], [column], math.nan)[0]


def _scaled(plan: Plan, k: int) -> Column:
    """Ranks do not change under a transform: :meth:`Cells.units`."""
    column = plan.columns[k]
    return replace(column, transform=None) if plan.scale == "scores" and column.counted else column


def on_public_scale(top: Any, plan: Plan, k: int) -> Any:
    """On the public scale, the centre where a cell is missing."""
    return unit(top[f"x{k}"], plan.columns[k]).coalesce(real(0.0))


def _features(layers: Layers, plan: Plan, encoder: Encoder) -> float:
    """Columns f0, f1... of the top layer, in whole numbers of the step that is given back (or as they are)."""
    top, columns = layers.top, range(len(plan.columns))
    if encoder.scale == "public":
        layers.add(**{f"f{k}": on_public_scale(top, plan, k) for k in columns})
        return 1.0
    if encoder.features == "presence":
        chosen = encoder.of or tuple(columns)
        layers.add(**{f"f{k}": one_if(top[f"x{of}"].notnull()) * 2 - 1 for k, of in enumerate(chosen)})
        return 1.0
    if encoder.standard is None:
        _scores(layers, plan, encoder)
        return 1 / STEPS
    largest = encoder.box or encoder.standard.largest
    made = {}
    for k, centre, scale in zip(columns, encoder.standard.centre, encoder.standard.scale, strict=True):
        value = ((unit(top[f"x{k}"], _scaled(plan, k)) - real(centre)) / real(scale)).coalesce(real(0.0))
        made[f"f{k}"] = rounded(_between(value, largest) * real(LINEAR_STEPS))
    layers.add(**made)
    return 1 / LINEAR_STEPS


def _scores(layers: Layers, plan: Plan, encoder: Encoder) -> None:
    """Guide, index, entry: three layers, each of which needs the one before several times."""
    draws = draws_of(encoder.key, len(plan.columns))
    scored = {k: table for k, table in enumerate(encoder.tables) if isinstance(table, ColumnTable)}
    levelled = {k: table for k, table in enumerate(encoder.tables) if isinstance(table, LevelTable)}
    searches = {k: _search(plan, k, table) for k, table in scored.items()}
    top = layers.top
    values = {f"x{k}": top[f"x{k}"] for k in range(len(encoder.tables))}
    for k, table in scored.items():
        if table.step > 0:
            place = (draws.of(top["mixed"], k) % _PIECES) * 2
            jitter = (place.cast("float64") + real(0.5)) / real(2.0**24) - real(0.5)
            values[f"x{k}"] = unit(top[f"x{k}"], _scaled(plan, k)) + real(table.step) * jitter
    layers.add(**values, mixed=top["mixed"])
    top = layers.top
    guides = {f"g{k}": search.cell(top[f"x{k}"]) for k, search in searches.items()}
    layers.add(**_same(top, list(values)), mixed=top["mixed"], **guides)
    top = layers.top
    found = {f"i{k}": search.index(top[f"x{k}"], top[f"g{k}"]) for k, search in searches.items()}
    for k, levels in levelled.items():
        doubled = draws.of(top["mixed"], k) * 2
        drawn = total([one_if(doubled >= int(one)) for one in levels.drawn])
        found[f"i{k}"] = top[f"x{k}"].cast("int64").coalesce(drawn)
    layers.add(**found, mixed=top["mixed"])
    top, size = layers.top, DEGREES[encoder.features]
    features = []
    for k, table in scored.items():
        entries = np.rint(table.values * STEPS).astype(np.int64)
        draw = draws.of(top["mixed"], k)
        features += [_entry(top[f"i{k}"], table, entries[:, degree], draw) for degree in range(size)]
    for k, levels in levelled.items():
        features += [one_if(top[f"i{k}"] == level) for level in range(levels.levels)]
    layers.add(**{f"f{k}": feature for k, feature in enumerate(features)})


def add_leaves(layers: Layers, plan: Plan, start: int, borders: Sequence[FloatArray], first: Sequence[int]) -> None:
    """Columns leaf and cells: how many cells lie in each leaf of the columns from `start` on, numbered from `first`.

    Missing cells have a leaf of their own, a column's last one. A row for each leaf and not a sum for each border,
    because what an engine does for a row then grows with the columns and not with the borders.
    """
    searches = {k: Search.of(_of_cells(plan, k, cuts[1:-1])) for k, cuts in enumerate(borders, start)}
    top, layers.beside = layers.top, ()
    guides = {f"g{k}": search.cell(top[f"x{k}"]) for k, search in searches.items()}
    layers.add(**_same(top, [f"x{k}" for k in searches]), **guides)
    top = layers.top
    found = [search.index(top[f"x{k}"], top[f"g{k}"]) for k, search in searches.items()]
    leaves = [one.coalesce(cuts.size - 1) + begin for one, cuts, begin in zip(found, borders, first, strict=False)]
    layers.add(leaf=ibis.array(leaves).unnest())
    layers.count_each("leaf")


def _search(plan: Plan, k: int, table: ColumnTable) -> Search:
    """Among the cuts of a column's scores: cells themselves are compared where they are not spread."""
    return Search.of(_of_cells(plan, k, table.cuts) if table.step == 0 else table.cuts)


def _of_cells(plan: Plan, k: int, cuts: FloatArray) -> FloatArray:
    """Cuts of the public scale as cells; without those that no cell reaches, which are the last ones."""
    column = plan.columns[k]
    found = thresholds(units_of(plan, k), column.lower, column.upper, cuts)
    # What all cells reach would need no comparison; the bound in its place keeps the numbering.
    return np.where(found == -np.inf, column.lower, found)[found < np.inf]


def _clip(layers: Layers, stage: Stage) -> None:
    """Rows longer than the ball are shrunk, all rounded; then whole numbers say whether they lie inside."""
    scored, size = stage.scored, stage.size
    rest = [f"q{k}" for k in range(scored, size)]
    if not scored:
        return
    if stage.clipped:
        add_length(layers, scored, rest)
        top, longest = layers.top, real(inner_radius(scored, stage.steps, stage.radius))
        factor = ibis.ifelse(top.length > longest, longest / top.length, real(1.0))
        layers.add(**{f"v{k}": top[f"v{k}"] for k in range(scored)}, **_same(top, rest), factor=factor)
        top = layers.top
        layers.add(**{f"q{k}": rounded(top[f"v{k}"] * top["factor"]) for k in range(scored)}, **_same(top, rest))
        top = layers.top
        inside = total([top[f"q{k}"] * top[f"q{k}"] for k in range(scored)]) <= ball(stage.radius, stage.steps)
        layers.add(**{f"q{k}": top[f"q{k}"] for k in range(size)}, inside=inside)
        top = layers.top
        layers.add(**{f"q{k}": ibis.ifelse(top["inside"], top[f"q{k}"], 0) for k in range(scored)}, **_same(top, rest))
        return
    end = math.floor((stage.box or 1.0) * stage.steps)
    top = layers.top
    layers.add(**{f"q{k}": rounded(_between(top[f"v{k}"], end)) for k in range(scored)}, **_same(top, rest))


def _same(top: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: top[name] for name in names}


def _between(value: Any, end: float) -> Any:
    return ibis.cases((value < real(-end), real(-end)), (value > real(end), real(end)), else_=value)


def _entry(index: Any, table: Any, entries: IntArray, draw: Any) -> Any:
    """The score of a cell: its interval's, or one of DRAWS of it where it is drawn; a missing cell's is drawn."""
    first, drawn = table.first, table.draws > 1
    piece = (draw - draw % _PIECES) // _PIECES
    missing = looked_up(entries[first[-1] : first[-1] + DRAWS], piece)
    inside = drawn[:-1]
    if inside.all():
        present = looked_up(entries[: first[-1]], index * DRAWS + piece)
    elif not inside.any():
        present = looked_up(entries[first[:-1]], index)
    else:
        present = looked_up(entries, looked_up(first[:-1], index) + looked_up(inside.astype(np.int64), index) * piece)
    return ibis.ifelse(index.isnull(), missing, present)


def _mapped(layers: Layers, matrix: FloatArray, size: int, step: float) -> float:
    """The stage's map, in whole numbers: one layer. Gives back the step of what comes out."""
    largest = round(LINEAR_STEPS * LARGEST_LINEAR) if step == 1 / LINEAR_STEPS else 8 * STEPS
    whole, exponent = whole_map(matrix, largest)
    top, scored = layers.top, len(matrix)
    made = {
        f"f{i}": total([top[f"f{j}"] * factor for j, factor in enumerate(row) if factor] or [top["f0"] * 0])
        for i, row in enumerate(whole)
    }
    layers.add(**made, **_same(top, [f"f{k}" for k in range(scored, size)]))
    return step * 2.0**exponent


def add_length(layers: Layers, count: int, rest: Sequence[str] = ()) -> None:
    """The length of v0, v1...: squares added up in order, as files do it, some to a layer."""
    for start in range(0, count, _CHAIN):
        top = layers.top
        squares = [top[f"v{k}"] * top[f"v{k}"] for k in range(start, min(start + _CHAIN, count))]
        summed = top["length"] if start else squares.pop(0)
        for one in squares:
            summed = summed + one
        summed = summed.sqrt() if start + _CHAIN >= count else summed
        layers.add(**{f"v{k}": top[f"v{k}"] for k in range(count)}, **_same(top, rest), length=summed)


# -------------------------------------------------------------------------------------------------------------- draws


@dataclass(frozen=True)
class Draws:
    """The coefficients of a release's draws, all below PRIME: four of the row's, two of each column's."""

    row: tuple[int, int, int, int]
    columns: tuple[tuple[int, int], ...]

    def mixed(self, seed: Any) -> Any:
        """The row's h: a polynomial of degree three, so that any four rows' are independent."""
        value, *rest = self.row
        found = seed * 0 + value
        for coefficient in rest:
            found = (found * seed + coefficient) % PRIME
        return found

    def of(self, mixed: Any, column: int) -> Any:
        """A column's draw, from 0 to PRIME - 1."""
        slope, begin = self.columns[column]
        return (mixed * slope + begin) % PRIME


def draws_of(key: bytes, columns: int) -> Draws:
    """From the release's own key; the promise holds for any coefficients, and whoever knows them."""

    def number(what: str) -> int:
        return int.from_bytes(hashlib.sha256(key + what.encode()).digest(), "big") % PRIME

    row = [number(f"row {k}") for k in range(4)]
    return Draws(
        (row[0] or 1, row[1], row[2], row[3]),
        tuple((number(f"slope {k}") or 1, number(f"begin {k}")) for k in range(columns)),
    )


def seed_of(key: Any) -> Any:
    """A row's key as a number below PRIME: whole numbers as they are, others by a hash of how they are written."""
    if key.type().is_integer() and not key.type().is_uint64():  # those need not fit 64 bits with a sign
        return ((key.cast("int64") % PRIME + PRIME) % PRIME).coalesce(0)
    digest = md5(key.cast("string"))
    places = [ibis.literal("0123456789abcdef").find(digest.substr(place, 1)) for place in range(13)]
    digits = [place.cast("int32").cast("int64") for place in places]  # 32 bits, whatever ibis thinks, in PostgreSQL
    return (total([digit * 16**place for place, digit in enumerate(digits)]) % PRIME).coalesce(0)
