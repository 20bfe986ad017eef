"""How far one protected unit can move a release, in units of its noise.

Values lie in [-1, 1] per column after clamping to public bounds. `columns` is p, `radius` the public l2 radius
rows are clipped to (None: only the box, whose radius is sqrt(p)). Proofs: docs/maths/sensitivity.md; every
formula is confirmed by brute force over neighbours in tests/guarantee/test_units.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from hazeglass.errors import DataError, InputError, PlanError

if TYPE_CHECKING:  # a ledger should open at once, without numpy
    import numpy as np
    import numpy.typing as npt

SEARCH_STEPS = 6  # of bisection for a clip radius: a grid of 64 radii
RADIUS_SHARE, RADIUS_QUANTILE = 0.05, 0.95  # of mu^2 for that search, and of the rows that the radius is to hold
_BITS, _SUM_BITS = 16, 61
_SMALLEST_RADIUS = 1e-6  # smaller rows would need more lattice steps than 64 bits hold
UnitName = Literal["entry", "readings", "record", "person", "column"]
UNITS: tuple[UnitName, ...] = get_args(UnitName)
PERIOD_UNITS: tuple[UnitName, ...] = ("entry", "readings", "record")  # of which no part is in two periods at once
CELL_UNITS: tuple[UnitName, ...] = ("entry", "readings", "column")  # cells of one column, and not whole rows


@dataclass(frozen=True)
class Unit:
    """What neighbours differ in, replaced.

    entry     one cell
    readings  any `readings` cells of one column, in as many rows
    record    one row
    person    all rows of one id, at most `max_rows`
    column    one column's whole history

    A cell is one of the data's: `together` released columns at most are made of one (a date's hour and weekday, a value
    and whether it is missing), and change with it. Where rows or persons are protected that number does not matter.
    """

    name: UnitName
    readings: int = 1
    max_rows: int = 1
    together: int = 1

    def covers(self, other: Unit) -> bool:
        """Whether a promise for this unit is at least one for the other: any change of the other is one of this.

        Two persons' units are supposed to tell persons apart by the same column. A person covers neither a record nor a
        cell: either may change an id, and then it is in the rows of two persons (docs/maths/sensitivity.md).
        """
        if other.name == "readings" and other.readings == 1:
            other = Unit("entry")
        if self.name == other.name:
            # Rows beyond max_rows never enter a release, so it hides whole persons, whatever the other's max_rows is.
            return self.readings >= other.readings
        inside = {"readings": ("entry",), "record": ("entry",), "column": ("entry", "readings")}
        return other.name in inside.get(self.name, ())

    @property
    def in_words(self) -> str:
        """The unit as it reads in a sentence: 'each record (one row)'."""
        made = ", with all columns that are made of it" if self.together > 1 else ""
        return {
            "entry": f"each single cell{made}",
            "readings": f"any {self.readings} cells of one column together{made}",
            "record": "each record (one whole row)",
            "person": f"each person (all of their rows, at most {self.max_rows})",
            "column": f"each column's whole history{made}",
        }[self.name]


@dataclass(frozen=True)
class Period:
    """The rows of a release: those in which a column says so. Which period a row is in is public, and stays as it is
    when the row is replaced, so that a row is in the releases of one period and of no other."""

    column: str
    value: str


def check_period(unit: Unit) -> None:
    """Refuse a unit that is in several periods at once; of readings some may be, and their shares add up to no more."""
    if unit.name not in PERIOD_UNITS:
        raise InputError(
            f"periods compose in parallel where a unit is in one of them, and {unit.in_words} may be in all. Protect "
            "record, entry or readings, or leave the period out."
        )


def table_distance(unit: Unit, *, columns: int, rows: int, radius: float | None = None) -> float:
    """Largest l2 change of the whole table when one unit is replaced (cells in [-1, 1])."""
    row = 2 * math.sqrt(columns) if radius is None else 2 * min(radius, math.sqrt(columns))
    cell = min(2 * math.sqrt(unit.together), row)
    match unit.name:
        case "entry":
            return cell
        case "readings":
            return cell * math.sqrt(unit.readings)
        case "record":
            return row
        case "person":
            return row * math.sqrt(unit.max_rows)
        case "column":
            return 2 * math.sqrt(unit.together * rows)


def counts_distance(unit: Unit, *, columns: int) -> float:
    """Largest l2 change of one round of counts, every column's cells counted in a partition of its range.

    A cell that changes leaves one count and joins another of the same column.
    """
    match unit.name:
        case "record" | "person":
            return unit.max_rows * math.sqrt(2 * columns)
        case "entry" | "readings":
            return unit.readings * math.sqrt(2 * min(unit.together, columns))
        case "column":
            raise InputError("counts cannot protect a whole column: replacing one moves all of them.")


def moments_distance(
    unit: Unit, *, columns: int, radius: float, mean_weight: float, box: float = 1.0, indicators: int = 0, lags: int = 0
) -> float:
    """D with mu = D / tau for the sums T1 = a sum(x), T2 = sum(x x^T).

    The noise has standard deviation tau on T1 and on the off-diagonals of T2, sqrt(2) tau on its diagonal. A row has
    `columns` entries that are numbers, together no longer than `radius`, and beside them so many `indicators`: vectors
    of length 1, a 1 at the level of a category. Where cells are protected, no row is clipped, and `box` bounds each of
    its numbers.

    With `lags` the rows are stacks of so many data rows and one more. Each stack that a unit touches moves by no more
    than a row that is replaced, or appears, or vanishes, so D is :func:`stacks_touched` times as large. The number of
    stacks is released as that of persons' rows is, and costs as little.
    """
    a2 = mean_weight**2
    if lags:
        alone = moments_distance(
            unit, columns=columns, radius=radius, mean_weight=mean_weight, box=box, indicators=indicators
        )
        return stacks_touched(unit, lags) * alone
    match unit.name:
        case "record" | "person":
            longest = math.hypot(radius, math.sqrt(indicators))
            if mean_weight > longest:
                raise InputError(f"the mean's weight must not exceed the clip radius {longest:g}, got {mean_weight:g}.")
            return unit.max_rows * (radius**2 + indicators + a2)
        case "entry" | "readings":
            if columns + indicators < 2:
                raise InputError('moments that protect entries need at least 2 columns; use protects = "record".')
            # Of x = (u, w) u changes. The farthest u' is -u, or nearer to a right angle where u is most of the row; one
            # level that becomes another is at a right angle.
            largest, least = (max(box**2, 1.0), min(box**2, 1.0)) if indicators and columns else (box**2, box**2)
            if not columns:
                largest = least = 1.0
            made = min(unit.together, columns + indicators)
            changed = made * largest
            kept = columns * box**2 + indicators - made * least + a2
            if made == 1 and indicators:
                number = 4 * box**2 * ((columns - 1) * box**2 + indicators + a2) if columns else 0.0
                return unit.readings * math.sqrt(max(number, 2 * (columns * box**2 + indicators - 1 + a2) + 1))
            return unit.readings * (2 * math.sqrt(changed * kept) if kept >= changed else changed + kept)
        case "column":
            raise InputError(
                "a moments release cannot protect a whole column: replacing one moves every entry of its row of the "
                'moment matrix by up to n, so no useful noise suffices. Use form = "table", or protect readings.'
            )


def stacks_touched(unit: Unit, lags: int) -> int:
    """How many stacks of `lags` rows and one more there are, before or after, that a changed row has to do with.

    A row that is replaced where it stands is in lags + 1. A person's row may vanish here and appear there: the rows
    around its old place become neighbours, and those around its new one are parted (docs/maths/series.md).
    """
    return 2 * lags + 1 if unit.name == "person" else lags + 1


def mean_weight(radius: float, rows: int, mu: float) -> float:
    """The weight `a` of the sum of rows: a^2 = r^2 / sqrt(n mu), at most r^2 / 4.

    It buys a mean whose error is negligible beside that of the second moments, for a few per cent more noise.
    """
    return radius * math.sqrt(min(1 / math.sqrt(rows * mu), 0.25))


def count_weight(radius: float) -> float:
    """The weight b = r^2 / sqrt(2) of the number of rows, which moments of persons or stacks hold with noise tau / b.

    It costs nothing: a row that appears or vanishes moves count and sums by sqrt(b^2 + a^2 r^2 + r^4 / 2), which is no
    more than r^2 + a^2, the most that a row which is replaced moves them.
    """
    return radius**2 / math.sqrt(2)


def fewest_steps_in_ball(columns: int, form: Literal["table", "moments"]) -> float:
    """How many lattice steps the radius of a ball measures at least, where rows are clipped to it.

    Rounding moves a row by at most sqrt(p)/2 steps, so a row is first shrunk to a ball that much smaller, and the
    rounded row lies in the ball that the promise is computed for. What is left of the radius is at least half in
    moments, which have many steps, and 19 parts of 20 in tables.
    """
    return (10 if form == "table" else 1) * math.sqrt(columns)


def lattice_steps(n: int, largest: float, tau: float, weight: float, scored: int, radius: float | None) -> int:
    """Lattice steps per unit: 16 bits for the largest coordinate, fewer when the sums of n rows would not fit 64 bits.

    Rows of `scored` numbers that are clipped to a radius need enough of them to stay in their ball when rounded.
    """
    if not largest >= _SMALLEST_RADIUS:
        raise PlanError(f"clip_radius must be at least {_SMALLEST_RADIUS:g}, got {largest:g}. Raise it.")
    fewest = fewest_steps_in_ball(scored, "moments") / radius if scored and radius is not None else 1.0
    for bits in range(_BITS, 5, -1):
        steps = int(2**bits / largest)
        largest_sum = n * (steps * largest) ** 2
        largest_noise = 20 * tau * max(steps**2, steps / weight if weight else math.inf)
        if steps >= max(1.0, fewest) and largest_sum + largest_noise < 2**_SUM_BITS:
            return steps
    raise DataError(f"{n} rows at this budget do not fit the 64-bit sums. Publish fewer rows, or raise epsilon.")


def questions(unit: Unit) -> int:
    """How many numbers of rows a search for a clip radius asks for; for persons, that of all rows as well."""
    return SEARCH_STEPS + (unit.name == "person")


def radius_grid(columns: int) -> npt.NDArray[np.float64]:
    """Public candidates for a clip radius, from a sixty-fourth of the box's to all of it, in equal ratios."""
    import numpy as np

    return np.asarray(math.sqrt(columns) * np.geomspace(1 / 64, 1.0, 2**SEARCH_STEPS))


def bisect_radius(answer: Callable[[int], int], radii: int, enough: float) -> int:
    """The number of the smallest radius that seems to hold enough rows, `answer` saying how many each one holds.

    >>> bisect_radius([1, 5, 7, 9].__getitem__, 4, 6.5)
    2
    """
    low, high = 0, radii - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if answer(middle) >= enough else (middle + 1, high)
    return low
