"""How cells become whole numbers inside a database: every step of a stage as an expression over a layer's columns.

What is done to a cell is a comparison with public numbers and a look into public lists; from there on everything is
whole numbers, but for the one factor that shrinks a long row. That is made of the operations that IEEE 754 fixes to the
last bit, in the order in which the file engines do them (kernels.py), so that the same rows give the same sums. And
because the promise should not hang on how an engine calculates, a row that whole numbers then show to be outside its
ball is not counted (docs/maths/warehouse.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import ibis
import numpy as np
import numpy.typing as npt

from hazeglass.bundle.columns import TRANSFORMS, Column
from hazeglass.compute.readings import Reading
from hazeglass.compute.text import TextFormat
from hazeglass.compute.warehouse import LARGEST_REAL, real, reals, wholes
from hazeglass.errors import DataError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
PRIME = 2**31 - 1  # of draws: products of two numbers below it fit 64 bits
_TINY = 1e-150  # smaller cells count as 0, so that no product underflows: some engines fail there
_SMALL = 1e-100  # on the public scale, for the same reason: its square must not
_ROUNDING = 1.5 * 2.0**52  # whoever adds it and takes it off again has rounded, ties to even, up to 2^51
_FEW = 6  # cuts that are compared one by one
_SEGMENTS, _GUIDES = (1, 2, 4, 8, 16), (16, 32, 64, 128, 256)


# ------------------------------------------------------------------------------------------------------------- cells


def cell(source: Any, reading: Reading, column: Column, text: TextFormat, engine: str) -> Any:
    """The cell as a 64-bit float, NULL where it is missing: only the declared type decides how it is read."""
    kind = source.type()
    if reading.part is not None or reading.since is not None:
        raise DataError(
            f"column {column.name!r} is made of dates, which are not taken apart in a warehouse: every engine has its "
            "own clock. Make the number in a view, and publish that."
        )
    if reading.levels:
        return _level(source, kind, reading, column, text)
    if kind.is_boolean():
        return _either(source.isnull(), None, one_if(source).cast("float64"))
    if kind.is_floating():
        source = source.cast("float64")
        return _either(source.isnan(), None, source)
    if kind.is_decimal() and engine == "postgres":
        return _decimal(source, column)
    if kind.is_integer() or kind.is_decimal():
        return source.cast("float64")
    raise DataError(
        f"column {column.name!r} must be declared as a number in the warehouse to be {column.kind}, and it is {kind}. "
        "Convert it in a view, and publish that."
    )


def _either(condition: Any, yes: Any, no: Any) -> Any:
    return ibis.ifelse(condition, ibis.null("float64") if yes is None else yes, no)


def _decimal(source: Any, column: Column) -> Any:
    """PostgreSQL's numbers may be too large for a float, or none at all: they are moved into the bounds before."""
    low, high = (ibis.literal(Decimal(repr(end)), "decimal") for end in (column.lower, column.upper))
    above = _either(source.cast("string") == "NaN", None, real(column.upper))
    branches = [(source > high, above), (source < low, real(column.lower))]
    if column.lower <= 0 <= column.upper:
        tiny = ibis.literal(Decimal(repr(_TINY)), "decimal")
        branches.append(((source < tiny) & (source > -tiny), real(0.0)))
    return ibis.cases(*branches, else_=source.cast("float64"))


def _level(source: Any, kind: Any, reading: Reading, column: Column, text: TextFormat) -> Any:
    """The number of the level that the cell equals; words must equal it to the letter."""
    if kind.is_boolean():
        places = [(source == said, place) for said in (True, False) if (place := reading.truth(said, text)) is not None]
    elif kind.is_floating():
        places = [(source.cast("float64") == real(float(number)), place) for number, place in reading.numbers.items()]
    elif kind.is_integer() or kind.is_decimal():
        whole = {int(number): place for number, place in reading.numbers.items() if number == int(number)}
        digits = 31 if kind.is_integer() else min(31, (kind.precision or 38) - (kind.scale or 0))
        most = min(2**31, 10**digits)  # a level that the column's type has no room for would end the query
        places = [(source == ibis.literal(number), place) for number, place in whole.items() if abs(number) < most]
    elif kind.is_string() or kind.is_uuid() or kind.is_unknown():
        words = source if kind.is_string() else source.cast("string")
        places = [(words == level, place) for place, level in enumerate(reading.levels)]
    else:
        raise DataError(
            f"column {column.name!r} has levels and must be declared as text, a number or a truth value in the "
            f"warehouse, and it is {kind}. Convert it in a view, and publish that."
        )
    branches = [(same, real(place)) for same, place in places]
    return ibis.cases(*branches, else_=ibis.null("float64")) if branches else ibis.null("float64")


def clamped(x: Any, column: Column) -> Any:
    """Within the bounds, as CASE says it: LEAST and GREATEST pass over NULL in some engines."""
    if column.levels:
        return x
    low, high = real(column.lower), real(column.upper)
    if column.lower <= 0 <= column.upper:
        x = _not_below(_TINY, x)
    return ibis.cases((x < low, low), (x > high, high), else_=x)


def unit(x: Any, column: Column) -> Any:
    """A clamped cell on the public scale [-1, 1]: rows.py and kernels.py do the same."""
    if column.transform is not None:
        x = _transformed(x, column.transform)
    value = x - real(column.centre)
    value = _not_below(_SMALL * column.half_width, value) / real(column.half_width)
    return ibis.cases((value < real(-1.0), real(-1.0)), (value > real(1.0), real(1.0)), else_=value)


def _not_below(least: float, x: Any) -> Any:
    """0 in the place of what is nearer to it."""
    return ibis.ifelse((x < real(least)) & (x > real(-least)), real(0.0), x)


def _transformed(x: Any, transform: str) -> Any:
    """By the engine's own logarithm and root, whose last bits are its own: the promise does not depend on them."""
    assert transform in TRANSFORMS
    if transform == "log":
        return x.ln()
    if transform == "log1p":
        return (x + real(1.0)).ln()
    if transform == "sqrt":
        return x.sqrt()
    size = ibis.ifelse(x < real(0.0), -x, x)
    grown = (size + (size * size + real(1.0)).sqrt()).ln()
    return ibis.ifelse(x < real(0.0), -grown, grown)


# ------------------------------------------------------------------------------------------------ where a number lies


def thresholds(units: Any, lower: float, upper: float, cuts: FloatArray) -> FloatArray:
    """For each cut the smallest cell of [lower, upper] whose unit is at least that; infinite where there is none.

    `units` maps cells to the public scale and never falls. So that an engine compares cells themselves.
    """
    low, high = (np.full(cuts.size, _ordered(np.array([end]))[0]) for end in (lower, upper))
    never, always = units(np.array([upper]))[0] < cuts, units(np.array([lower]))[0] >= cuts
    while np.any(low < high):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        reached = units(_unordered(middle)) >= cuts
        low, high = np.where(reached, low, np.minimum(middle + 1, high)), np.where(reached, middle, high)
    found = _unordered(high)
    # Cells nearer to 0 than _TINY count as 0, and some engines do not read such a number in a query.
    found = np.where((found > 0) & (found < _TINY), _TINY, np.where((found < 0) & (found > -_TINY), 0.0, found))
    return np.where(never, np.inf, np.where(always, -np.inf, found))


def _ordered(numbers: FloatArray) -> IntArray:
    """Whole numbers in the order of the floats."""
    bits = np.ascontiguousarray(numbers + 0.0).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _unordered(keys: IntArray) -> FloatArray:
    bits = np.where(keys < 0, np.iinfo(np.int64).min - keys, keys)
    return np.ascontiguousarray(bits).view(np.float64)


@dataclass(frozen=True, eq=False)
class Search:
    """How many of increasing cuts are at most x, for x in a public interval: first a guide, then a few comparisons.

    starts, factors  x lies in the last segment whose start is at most x, in its cell floor((x - start) * factor)
    before           per cell: how many cuts lie in the cells before it
    inside           per cell: the cuts in it, filled up with a number that no cell reaches
    """

    cuts: FloatArray
    starts: FloatArray
    factors: FloatArray
    guide: int
    before: IntArray
    inside: FloatArray

    @classmethod
    def of(cls, cuts: FloatArray) -> Search:
        """The guide for which an engine has least to do."""
        if cuts.size <= _FEW:
            none = np.zeros(0)
            return cls(cuts, none, none, 0, np.zeros(0, dtype=np.int64), none)
        made = [
            cls._cut(cuts, segments, guide) for segments in _SEGMENTS for guide in _GUIDES if segments * guide <= 1024
        ]
        return min(made, key=lambda one: 3 * one.starts.size + (1 + len(one.inside)) * (4 + one.before.size / 100))

    @classmethod
    def _cut(cls, cuts: FloatArray, segments: int, guide: int) -> Search:
        ranks = np.unique(cuts.size * np.arange(segments) // segments)
        starts = cuts[ranks]
        ends = np.append(starts[1:], cuts[-1])
        width = np.maximum(ends - starts, 1e-290)
        factors = np.where(width > 1e-280, guide / width, 0.0)
        segment = np.searchsorted(starts, cuts, side="right") - 1
        cells = 1 + segment * guide + np.minimum(np.floor((cuts - starts[segment]) * factors[segment]), guide - 1)
        counts = np.bincount(cells.astype(np.int64), minlength=1 + starts.size * guide)
        before = np.cumsum(counts) - counts
        inside = np.full((counts.max(), counts.size), LARGEST_REAL)
        place = np.arange(cuts.size) - before[cells.astype(np.int64)]
        inside[place, cells.astype(np.int64)] = cuts
        return cls(cuts, starts, factors, guide, before, inside)

    def cell(self, x: Any) -> Any:
        """The cell of the guide; only a layer of its own lets :meth:`index` use it several times."""
        if not self.starts.size:
            return ibis.literal(0, "int64")
        # Far beyond a segment the product is no whole number that 64 bits hold, so it is cut off before it becomes one.
        far = real(float(self.guide))
        places = [(x - real(start)) * real(factor) for start, factor in zip(self.starts, self.factors, strict=True)]
        within = [
            ibis.cases((one > far, far), (one < real(-1.0), real(-1.0)), else_=one).floor().cast("int64")
            + (1 + number * self.guide)
            for number, one in enumerate(places)
        ]
        last = [number * self.guide for number in range(1, self.starts.size + 1)]
        found = [ibis.ifelse(one > end, end, one) for one, end in zip(within, last, strict=True)]
        return ibis.ifelse(x < real(self.starts[0]), 0, _halved(x, list(self.starts), found))

    def index(self, x: Any, cell: Any) -> Any:
        """How many cuts are at most x; NULL where that is."""
        if not self.starts.size:
            return total([_zero(x), *[one_if(x >= real(cut)) for cut in self.cuts]])
        return total(
            [
                looked_up(self.before, cell),
                *[one_if(x >= reals(row.tolist())[cell.cast("int32")]) for row in self.inside],
            ]
        )


def _zero(x: Any) -> Any:
    return ibis.ifelse(x.isnull(), ibis.null("int64"), ibis.literal(0, "int64"))


def _halved(x: Any, starts: list[float], found: list[Any]) -> Any:
    """The expression of the last segment whose start is at most x."""
    if len(found) == 1:
        return found[0]
    half = len(found) // 2
    return ibis.ifelse(
        x < real(starts[half]), _halved(x, starts[:half], found[:half]), _halved(x, starts[half:], found[half:])
    )


def one_if(condition: Any) -> Any:
    """1 where it holds, 0 where not or where that is unknown."""
    return ibis.ifelse(condition, 1, 0).cast("int64")


def looked_up(numbers: Sequence[int] | IntArray, place: Any) -> Any:
    """The number at that place of a public list."""
    return wholes([int(one) for one in numbers])[place.cast("int32")]


# ------------------------------------------------------------------------------------------------------------- rows


def total(terms: Sequence[Any]) -> Any:
    """Their sum, as shallow as can be: whole numbers may be added in any order."""
    found = list(terms)
    while len(found) > 1:
        pairs = [one + two for one, two in zip(found[::2], found[1::2], strict=False)]
        found = pairs + ([found[-1]] if len(found) % 2 else [])
    return found[0]


def whole_map(matrix: FloatArray, largest: int) -> tuple[list[list[int]], int]:
    """The matrix as whole numbers times a power of two, its exponent; no sum of a row times cells leaves 62 bits."""
    mantissas, exponents = np.frexp(matrix)
    digits = [[int(one) for one in row] for row in np.ldexp(mantissas, 53)]
    least = min(
        int(e) - 53 + ((d & -d).bit_length() - 1)
        for row, places in zip(digits, exponents, strict=True)
        for d, e in zip(row, places, strict=True)
        if d
    )
    whole = [[int(Fraction(float(one)) / Fraction(2) ** least) for one in row] for row in matrix]
    most = max(sum(map(abs, row)) for row in whole) * largest
    if most >= 2**62:
        raise DataError("a stage's map does not fit the engine's 64-bit numbers. Publish fewer columns at a time.")
    return whole, least


def rounded(x: Any) -> Any:
    """The nearest whole number, ties to even, as np.rint does; engines' own ROUND do not agree about ties."""
    return ((x + real(_ROUNDING)) - real(_ROUNDING)).cast("int64")


def ball(radius: float, steps: int) -> int:
    """The most that a row's squared length may be, in lattice steps: exactly what the promise is computed for."""
    return math.floor((Fraction(radius) * steps) ** 2)
