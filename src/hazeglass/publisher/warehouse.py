"""Rows that stay in their database: counts and sums that a release needs, asked for as whole numbers.

A scored cell may need a draw inside its leaf. A table has no row numbers, so a draw is a public function of the row's
own key (`order_column`): d = (a h + b) mod 2^31 - 1, h a polynomial of the key, with coefficients drawn anew for every
release. What a row adds to a sum is then a function of that row alone, so the sensitivity is that of files, whoever
knows the coefficients; and over them, draws are uniform and those of different rows and columns independent in pairs,
which is what moments need to be as good as with a cipher (docs/maths/warehouse.md).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ibis
import numpy as np

from hazeglass.bundle.columns import Column, origins
from hazeglass.bundle.manifest import Series, Stage
from hazeglass.compute.engines import Engine
from hazeglass.compute.readings import Reading
from hazeglass.compute.warehouse import Layers, Warehouse, md5, real
from hazeglass.errors import DataError, PlanError, PrivacyRefusal
from hazeglass.publisher.choice import FloatArray, IntArray
from hazeglass.publisher.expressions import cell, clamped, one_if
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.plan_columns import check_columns, readings
from hazeglass.publisher.queries import (
    Draws,
    add_leaves,
    add_length,
    add_stacks,
    add_stage,
    draws_of,
    on_public_scale,
    seed_of,
)
from hazeglass.publisher.rows import Block, R, Rows, Work

_FAR = 1e100  # no place is farther
_NEAREST = 1e-100  # nor may a bound be nearer to 0: squares would be numbers that PostgreSQL refuses
_AT_ONCE = 1500  # sums of one query; PostgreSQL gives at most 1,664 columns


@dataclass
class QueriedRows(Rows):
    """The rows of a table in a warehouse, as the plan sees them; :class:`Rows` for the steps of a release."""

    source: Warehouse
    stacks: int = field(init=False, default=0)
    _looked: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        _check_plan(self.plan, self.source)
        check_columns(self.plan, self.source)
        self._starts, self._chosen = [], None
        self.n, self._without, ids = self._sizes()
        self._count_persons(ids)
        self._check_sizes()

    @property
    def asked(self) -> QueriedRows:
        """These."""
        return self

    def run(self, engine: Engine, work: Work[R], key: bytes = b"") -> Iterator[R]:
        """Refused: no row comes here."""
        self.source.sizes()
        raise AssertionError

    def blocks(self) -> Iterator[Block]:
        """Refused."""
        self.source.sizes()
        raise AssertionError

    def _tell_alike(self) -> None:
        """A database keeps no order of rows to speak of."""

    # -------------------------------------------------------------------------------------------------- passes

    def counts(self, borders: Sequence[FloatArray]) -> list[IntArray]:
        """How many cells of each column lie in each leaf, and how many are missing: secret."""
        counts: list[IntArray] = []
        start = 0
        while start < len(borders):  # so many columns at a time that a question's numbers are not too many
            sizes = np.cumsum([cuts.size for cuts in borders[start:]])
            end = start + max(1, int(np.searchsorted(sizes, _AT_ONCE, side="right")))
            counts += self._counts(start, borders[start:end])
            start = end
        self._tell_empty([name for name, one in zip(self.plan.names, counts, strict=True) if not one[:-1].any()])
        return counts

    def _counts(self, start: int, borders: Sequence[FloatArray]) -> list[IntArray]:
        """Of these columns: a cell is looked up in its leaf, and leaves are counted, each once for all columns."""
        layers = self._cells()
        first = [0, *np.cumsum([cuts.size for cuts in borders]).tolist()]
        add_leaves(layers, self.plan, start, borders, first)
        leaf, cells = layers.top["leaf"], layers.top["cells"]
        wanted = {f"c{number}": (one_if(leaf == number) * cells).sum() for number in range(first[-1])}
        found = self._ask(layers, wanted, rows=(one_if(leaf < first[1]) * cells).sum())
        flat = np.array([found[name] for name in wanted], dtype=np.int64)
        return np.split(flat, first[1:-1])

    def within(self, grid: FloatArray) -> IntArray:
        """How many rows, on the public scale, are at most as long as each radius: secret."""
        layers = self._cells()
        layers.add(**{f"v{k}": on_public_scale(layers.top, self.plan, k) for k in range(len(self.plan.columns))})
        add_length(layers, len(self.plan.columns))
        length = layers.top.length
        found = self._ask(layers, {f"w{k}": one_if(length <= real(one)).sum() for k, one in enumerate(grid)})
        return np.array([found[f"w{k}"] for k in range(grid.size)], dtype=np.int64)

    def look(self) -> None:
        """Ask once for everything that a release reads: a rehearsal."""
        self.counts([np.array([-1.0, 1.0])] * len(self.plan.columns))

    def sums(self, stage: Stage, encoder: Encoder, through: FloatArray | None) -> tuple[IntArray, IntArray]:
        """The secret sums of the stage's rows and of their products, in lattice steps."""
        layers = self._cells(draws_of(encoder.key, len(self.plan.columns)) if encoder.key else None)
        add_stage(layers, self.plan, stage, encoder, through)
        size = stage.size
        top, series = layers.top, self.plan.series
        pairs = [(i, j) for i in range(size) for j in range(i, size)]
        wanted = {f"t{i}": top[f"q{i}"].sum() for i in range(size)}
        wanted |= {f"t{i}_{j}": (top[f"q{i}"] * top[f"q{j}"]).sum() for i, j in pairs}
        found = self._ask(layers, wanted, self.n if series is None else self.stacks)
        second = np.zeros((size, size), dtype=np.int64)
        for i, j in pairs:
            second[i, j] = second[j, i] = found[f"t{i}_{j}"]
        return np.array([found[f"t{i}"] for i in range(size)], dtype=np.int64), second

    # -------------------------------------------------------------------------------------------------- layers

    def _ask(
        self, layers: Layers, sums: dict[str, Any], expected: int | None = None, rows: Any = None
    ) -> dict[str, int]:
        """The sums by name, some at a time; each question counts the rows as well, which may not change meanwhile."""
        found: dict[str, int] = {}
        expected = self.n if expected is None else expected
        counted = layers.top.count() if rows is None else rows
        names = list(sums)
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            *values, seen = layers.numbers(**{name: sums[name] for name in some}, rows_=counted)
            if seen != expected:
                raise DataError(
                    "the number of rows changed while they were read. Start again when nothing writes to the table."
                )
            found |= dict(zip(some, values, strict=True))
        marks = self._marks()
        self._tell_marks(marks, marks[-1] if marks else 0)
        return found

    @property
    def _sources(self) -> list[str]:
        """The table's columns that the plan is made of, each once."""
        return list(dict.fromkeys(origins(self.plan.columns)))

    def _base(self, *, all_rows: bool = False) -> Layers:
        """The first layers: the columns under names of ours, of each person only so many rows."""
        layers, plan = Layers(self.source), self.plan
        table = self.source.table
        columns = {f"s{k}": table[name] for k, name in enumerate(self._sources)}
        if plan.order_column is not None:
            columns["key"] = table[plan.order_column]
        if plan.series is not None:
            columns |= self._places(plan.series)
            layers.first(table.select(**columns))
            layers.beside = ("place", "series")
            return layers
        if plan.rows_of is not None:
            named = _identity(table[plan.rows_of.column], plan, "period column").cast("string")
            layers.first(table.select(**columns, period=named))
            if not all_rows:
                # To the letter, whatever the column's collation takes for equal: a row is in one period at most.
                named, value = layers.top["period"], plan.rows_of.value
                digest = hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()
                layers.keep((named == value) & (md5(named) == digest))
            return layers
        if plan.id_column is None:
            layers.first(table.select(**columns))
            return layers
        layers.first(table.select(**columns, person=_identity(table[plan.id_column], plan)))
        if not all_rows:
            top = layers.top
            order = [top["key"], *(top[f"s{k}"] for k in range(len(self._sources)))]
            place = _row_number(top["person"], order)
            layers.add(**{name: top[name] for name in columns}, person=top["person"], place=place)
            layers.keep((layers.top["place"] < plan.unit.max_rows) & layers.top["person"].notnull())
        return layers

    def _places(self, series: Series) -> dict[str, Any]:
        """When a row was taken, and the series that it belongs to: NULL where that is unknown."""
        order = self.source.table[series.order_column]
        number = Column(str(series.order_column), "continuous", lower=-_FAR, upper=_FAR)
        place = clamped(cell(order, Reading(number.name), number, self.plan.text, self.source.engine), number)
        if series.series_column is None:
            return {"place": place, "series": ibis.literal(0, "int64")}
        whose = _identity(self.source.table[series.series_column], self.plan, "series column")
        return {"place": place, "series": whose.cast("string")}

    def _sizes_in_time(self, series: Series) -> int:
        """How many rows there are; of stacks :attr:`stacks`. A row's place is its order and series cell."""
        layers = self._base()
        top = layers.top
        placed = top["place"].notnull() & top["series"].notnull()
        same = _row_number(top["series"], [top["place"]], [top["place"]])
        layers.add(again=one_if(placed & (same > 0)))
        rows, again = layers.numbers(rows_=layers.top.count(), again=layers.top["again"].sum())
        if again:
            raise DataError(
                f"rows of a series must have a place of their own, and {again:,} have the same order_column "
                f"{series.order_column!r} as another row of their series. Give a series_column, or make a view without "
                "them."
            )
        layers = self._base()
        layers.add(f0=one_if(layers.top["place"].notnull()))
        add_stacks(layers, series, 1)
        (self.stacks,) = layers.numbers(stacks=layers.top.count())
        return rows

    def _sizes(self) -> tuple[int, int, int]:
        """How many rows are used, how many have no id, and how many ids there are."""
        if self.plan.series is not None:
            return self._sizes_in_time(self.plan.series), 0, 0
        layers = self._base(all_rows=True)
        top = layers.top
        if self.plan.rows_of is not None:
            rows, named = layers.numbers(rows_=top.count(), named=top["period"].count())
            inside = self._base()
            return inside.numbers(rows_=inside.top.count())[0], rows - named, 0
        if self.plan.id_column is None:
            (rows,) = layers.numbers(rows_=top.count())
            return rows, 0, 0
        rows, named, ids = layers.numbers(rows_=top.count(), named=top["person"].count(), ids=top["person"].nunique())
        used_layers = self._base()
        (used,) = used_layers.numbers(rows_=used_layers.top.count())
        return used, rows - named, ids

    def _cells(self, draws: Draws | None = None) -> Layers:
        """Every column's cell as a float within its bounds, NULL where it is missing."""
        layers, plan = self._base(), self.plan
        top, made = layers.top, readings(plan.columns)
        found: dict[str, Any] = {}
        for k, column in enumerate(plan.columns):
            reading = made[column.name]
            own = replace(column, source=reading.source)
            source = top[f"s{self._sources.index(reading.source)}"]
            if reading.absence:
                read = next(one for one in plan.columns if one.name == column.source)
                x = cell(source, replace(reading, absence=False), read, plan.text, self.source.engine)
                found[f"x{k}"] = one_if(x.isnull()).cast("float64")
            else:
                found[f"x{k}"] = clamped(cell(source, reading, own, plan.text, self.source.engine), column)
        if draws is not None:
            key = top["key"]
            if plan.series is not None and plan.series.series_column is not None:
                key = top["series"] + " " + key.cast("string")  # a place is that of one series
            found["seed"] = seed_of(key)
        layers.add(**found)
        if draws is not None:
            top = layers.top
            layers.add(**{name: top[name] for name in found if name != "seed"}, mixed=draws.mixed(top["seed"]))
        return layers

    # ------------------------------------------------------------------------------------ for the publisher alone

    def _tell_empty(self, empty: list[str]) -> None:
        self._empty = empty
        if not self._looked:
            self._looked, self.unread = True, self._unread()

    def _unread(self) -> Counter[str]:
        """How many cells there are that are none of their column's levels."""
        layers = self._base()
        top, made, wanted = layers.top, readings(self.plan.columns), {}
        for column in self.plan.columns:
            reading = made[column.name]
            if reading.levels and not reading.absence:
                source = top[f"s{self._sources.index(reading.source)}"]
                x = cell(source, reading, column, self.plan.text, self.source.engine)
                wanted[column.name] = one_if(source.notnull() & x.isnull()).sum()
        if not wanted:
            return Counter()
        found = self._ask(layers, {f"u{k}": one for k, one in enumerate(wanted.values())})
        return +Counter(dict(zip(wanted, found.values(), strict=True)))


# ------------------------------------------------------------------------------------------------------------ helpers


def _check_plan(plan: Plan, source: Warehouse) -> None:
    """What a table in a database cannot be published as."""
    if plan.form == "table":
        raise PrivacyRefusal(
            'form = "table" is refused from a warehouse: it would carry every row out. Use form = "moments" or '
            '"synthetic", or export the table where its rows may leave.'
        )
    if plan.series is not None and plan.id_column is not None:
        raise PlanError(
            'rows = "series" does not protect persons in a warehouse. Protect records or readings there, or publish '
            "from files."
        )
    if plan.series is not None and (plan.series.order_column is None or plan.series.dated):
        raise PlanError(
            'rows = "series" needs an order_column of numbers in a warehouse, with order_step a number: a query has no '
            "order, and every engine has its own clock. Make a number in a view, such as minutes since 1970."
        )
    for column in plan.columns:
        if not column.levels and any(0 < abs(end) < _NEAREST for end in (column.lower, column.upper)):
            raise PlanError(
                f"column {column.name!r}: in a warehouse a bound must be 0 or at least {_NEAREST:g} away from it, so "
                "that no cell ends a query. Choose another bound, or another unit."
            )
    draws = plan.adaptive and plan.scale == "scores"
    if plan.order_column is None and (draws or plan.id_column is not None):
        why = "which rows of a person are used" if plan.id_column is not None else "scores of tied and missing cells"
        raise PlanError(
            f"a table in a warehouse has no order, so {why} must follow from a column that tells rows apart: give "
            "order_column in [release], such as the table's key."
        )
    if draws and plan.protects in ("entry", "readings"):
        raise PlanError(
            f'protects = {plan.protects!r} needs scale = "linear" or adaptive = false in a warehouse: draws of scores '
            "there follow from the row's key, which is a cell itself."
        )
    if plan.order_column is None:
        return
    if source.names.count(plan.order_column) != 1:
        raise DataError(f"the plan's order_column {plan.order_column!r} must be a column of the table. Correct it.")
    kind = source.schema[plan.order_column]
    written = kind.is_string() or kind.is_uuid() or kind.is_date() or kind.is_timestamp()
    if not (written or kind.is_numeric()):
        raise DataError(
            f"order_column must be declared as numbers, text, uuid, dates or times, and {plan.order_column!r} is "
            f"{kind}. Name another one."
        )


def _identity(person: Any, plan: Plan, what: str = "id column") -> Any:
    """Who a row belongs to, as the engine compares; of words that say so, to no one."""
    kind = person.type()
    if kind.is_string():
        missing = person.strip().isin(["", *plan.text.missing])
        return ibis.ifelse(missing, ibis.null(kind), person)
    if kind.is_integer() or kind.is_uuid():
        return person
    raise DataError(
        f"the {what} must be declared as whole numbers, text or uuid, and it is {kind}. Convert it in a view."
    )


def _row_number(person: Any, order: Sequence[Any], also: Sequence[Any] = ()) -> Any:
    return ibis.row_number().over(ibis.window(group_by=[person, *also], order_by=order))
