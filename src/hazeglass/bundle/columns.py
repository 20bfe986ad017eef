"""A column as the public knows it: its kind, its bounds or its levels, and how its cells are read.

A cell of an ordinal, categorical or binary column is the number of its level, from 0; anything outside the public
levels is missing. What is chosen here is chosen without the data, and stands in the release.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from hazeglass.errors import BoundsMissingError, PlanError, did_you_mean
from hazeglass.guarantee.gdp import RandomisedResponse

Scale = Literal["scores", "linear", "public"]
Kind = Literal["continuous", "integer", "ordinal", "categorical", "binary"]
Noise = Literal["rounded", "discrete"]
Missing = Literal["random", "informative"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NOISES: tuple[Noise, ...] = get_args(Noise)
MISSING: tuple[Missing, ...] = get_args(Missing)
LEVELLED: tuple[Kind, ...] = ("ordinal", "categorical", "binary")
# What a date or time may be reduced to, with the levels that this has.
PARTS: dict[str, tuple[str, ...]] = {
    "hour": tuple(map(str, range(24))),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
}
ABSENCE = "missing"  # the part of a column that says whether its cell is missing
FALSE_TRUE, NO_YES = ("false", "true"), ("no", "yes")
MOST_LEVELS, _LONGEST_LEVEL = 300, 200
_NARROWEST, _FARTHEST = 1e-100, 1e100  # half a range and a bound: squares beyond would vanish or overflow
_MOST_VALUES = 2**29  # of a whole-numbered column; borders of leaves do not tell more of them apart
_UNSAID: Any = None
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Transform:
    """A public, increasing function applied to clamped values before anything else."""

    apply: Callable[[FloatArray], FloatArray]
    lowest: float
    label: str


TRANSFORMS: dict[str, Transform] = {
    "log": Transform(np.log, 0.0, "log({})"),
    "log1p": Transform(np.log1p, 0.0, "log(1 + {})"),
    "sqrt": Transform(np.sqrt, 0.0, "sqrt({})"),
    "asinh": Transform(np.arcsinh, -math.inf, "asinh({})"),
}


@dataclass(frozen=True)
class CellNoise:
    """Noise of one column of a table: value = offset + step * (integer + noise), noise on the integers."""

    family: str
    scale: float
    step: float
    offset: float
    variance: float


@dataclass(frozen=True)
class Column:
    """A column as the public knows it. Released values are on the transformed scale.

    `lower` and `upper` come from what is publicly known about the quantity, and `reason` says how; a column of numbers
    without them is refused. A column of levels has those in place of bounds: a binary one 'false' and 'true' unless it
    says otherwise, a part of a date the part's own. `source` is the data's column, where it has another name; `part`
    takes one part of its dates and times, and `since` counts the days from a public date on. `cell_noise` and
    `response` are what a release says of a table's column; a plan leaves them out.
    """

    name: str
    kind: Kind
    lower: float = _UNSAID
    upper: float = _UNSAID
    transform: str | None = None
    noise: Noise = "rounded"
    reason: str = ""
    levels: tuple[str, ...] = ()
    missing: Missing = "random"
    source: str | None = None
    part: str | None = None
    since: str | None = None
    cell_noise: CellNoise | None = field(default=None, kw_only=True)
    response: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_words(self)
        _check_dates(self)
        if self.kind in LEVELLED:
            object.__setattr__(self, "levels", _levels(self))
            _check_levelled(self)
            return
        if self.levels:
            raise PlanError(
                f"{_where(self)} is {self.kind} and has no levels. Remove levels, or use kind = "
                '"ordinal" or "categorical".'
            )
        object.__setattr__(self, "levels", ())
        missing = [key for key in ("lower", "upper") if getattr(self, key) is None]
        if missing:
            raise BoundsMissingError(
                f"{_where(self)} has no {' and no '.join(missing)} bound. Bounds must come from what is "
                "publicly known about the quantity, never from the data; write them into the plan."
            )
        for key in ("lower", "upper"):
            object.__setattr__(self, key, _number(self, key))
        _check_bounds(self)

    def __repr__(self) -> str:
        """What was said of it, and nothing that goes without saying."""
        implied = ("lower", "upper") if self.levels else ()
        said = [(one.name, getattr(self, one.name)) for one in fields(self)[2:] if one.name not in implied]
        told = (f"{key}={value!r}" for key, value in said if value not in (None, "", (), "rounded", "random"))
        return f"Column({', '.join([repr(self.name), repr(self.kind), *told])})"

    def transformed(self, values: FloatArray) -> FloatArray:
        """The public transform of values that already lie within the bounds."""
        return values if self.transform is None else TRANSFORMS[self.transform].apply(values)

    @property
    def counted(self) -> bool:
        """Whether its cells are whole numbers: counts, or the numbers of levels."""
        return self.kind != "continuous"

    @property
    def ordered(self) -> bool:
        """Whether more and less have a meaning."""
        return self.kind != "categorical"

    @property
    def whole(self) -> bool:
        """Whether its released values could be whole numbers: a transform leaves none."""
        return self.counted and self.transform is None

    @property
    def label(self) -> str:
        """What the released values are, for people: 'log(raf)'."""
        return self.name if self.transform is None else TRANSFORMS[self.transform].label.format(self.name)

    @property
    def centre(self) -> float:
        """Middle of the transformed bounds: the public stand-in for a missing cell."""
        low, high = self._ends
        return low / 2 + high / 2

    @property
    def half_width(self) -> float:
        """Half the length of the transformed bounds."""
        low, high = self._ends
        return high / 2 - low / 2

    @property
    def _ends(self) -> tuple[float, float]:
        low, high = self.transformed(np.array([self.lower, self.upper]))
        return float(low), float(high)


def unit_step(column: Column, scale: Scale | None) -> float:
    """Between the values of a whole-numbered column on [-1, 1]; 0 for others, and where a transform has bent them or
    they are so many that they might as well be real numbers.

    Ranks do not change under a transform, so that scores leave it out.
    """
    whole = column.counted and (scale == "scores" or column.transform is None)
    return 2 / (column.upper - column.lower) if whole and column.upper - column.lower < _MOST_VALUES else 0.0


def response_of(column: Column) -> RandomisedResponse:
    """How cells of a categorical column of a table are answered; the level behind its own is missing."""
    assert column.response is not None
    return RandomisedResponse(len(column.levels) + 1, column.response)


def absence_of(column: Column) -> Column:
    """The binary column that says where cells of a column are missing, where that is informative."""
    return Column(f"{column.name} (missing)", "binary", levels=NO_YES, source=column.name, part=ABSENCE)


def with_absences(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Behind every column whose missing cells are informative, the one that says where they are."""
    pairs = [[one, absence_of(one)] if one.missing == "informative" else [one] for one in columns]
    found = [column for pair in pairs if pair[0].part != ABSENCE for column in pair]
    strange = next((one.name for one in columns if one.part == ABSENCE and one not in found), None)
    if strange is not None:
        raise PlanError(f'column {strange!r} belongs to no column with missing = "informative". Remove it.')
    return tuple(found)


def origins(columns: Sequence[Column]) -> list[str]:
    """For each column the data's column that it is made of: what is made of one cell changes with it."""
    own = {column.name: column.source or column.name for column in columns if column.part != ABSENCE}
    return [own.get(str(one.source), str(one.source)) if one.part == ABSENCE else own[one.name] for one in columns]


def together(columns: Sequence[Column]) -> int:
    """The most columns that are made of one of the data's."""
    return max(Counter(origins(columns)).values())


# --------------------------------------------------------------------------------------------------------------- checks


def _where(column: Column) -> str:
    return f"column {column.name[:100]!r}"


def _check_words(column: Column) -> None:
    """Everything but bounds and levels is one of the words it may be."""
    if not (isinstance(column.name, str) and 1 <= len(column.name) <= 1000):
        raise PlanError(f"a column's name must be text of 1 to 1000 characters, got {short(column.name)}.")
    if not is_text(column.name):
        raise PlanError(f"titles and names must be Unicode text, got {column.name[:60]!a}. Write it anew.")
    words: tuple[tuple[str, tuple[str | None, ...]], ...] = (
        ("kind", KINDS),
        ("noise", NOISES),
        ("transform", (None, *TRANSFORMS)),
        ("missing", MISSING),
        ("part", (None, *PARTS, ABSENCE)),
    )
    for key, allowed in words:
        value = getattr(column, key)
        if not isinstance(value, str | None) or value not in allowed:
            choices = [choice for choice in allowed if choice is not None]
            listed, meant = ", ".join(map(repr, choices)), did_you_mean(value, choices)
            raise PlanError(f"{_where(column)}: {key} must be one of {listed}, got {short(value)}.{meant}")
    for key, longest in (("reason", 2000), ("source", 1000)):
        value = getattr(column, key)
        unsaid = value is None and key == "source"
        if not unsaid and not (isinstance(value, str) and len(value) <= longest and is_text(value)):
            raise PlanError(
                f"{_where(column)}: {key} must be text of at most {longest} characters, got {short(value)}."
            )
    if column.noise == "discrete" and (column.kind != "integer" or column.transform is not None):
        raise PlanError(f'{_where(column)}: noise = "discrete" needs kind = "integer" and no transform.')


def _check_dates(column: Column) -> None:
    """A part of a date has levels, days since a date are a number."""
    where = _where(column)
    if column.part in PARTS and column.kind not in ("ordinal", "categorical"):
        raise PlanError(f'{where}: part = {column.part!r} needs kind = "ordinal" or "categorical".')
    if column.part == ABSENCE and (column.kind != "binary" or column.source is None or column.missing != "random"):
        raise PlanError(f'{where}: say missing = "informative" at the column itself in place of part = {ABSENCE!r}.')
    if column.since is None:
        return
    if column.kind not in ("continuous", "integer") or column.part is not None:
        raise PlanError(f'{where}: since counts days and needs kind = "continuous" or "integer", and no part.')
    try:
        written = date.fromisoformat(column.since).isoformat()
    except (TypeError, ValueError):
        written = ""
    if written != column.since:
        raise PlanError(f"{where}: since must be a date such as 2000-01-31, got {short(column.since)}.")


def _levels(column: Column) -> tuple[str, ...]:
    """The levels as they are, or as they follow from the kind and part."""
    where = _where(column)
    given: object = column.levels
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise PlanError(f"{where}: levels must be a list of text, got {short(given)}.")
    if column.part in PARTS:
        if tuple(given) not in ((), PARTS[column.part]):
            raise PlanError(f"{where}: the levels of part = {column.part!r} are fixed. Remove levels.")
        return PARTS[column.part]
    if not given:
        if column.kind == "binary":
            return FALSE_TRUE
        raise PlanError(
            f"{where} has no levels. List them in the plan, as anyone who knows the subject could without the data; "
            "whatever is not listed counts as missing."
        )
    if len(given) > MOST_LEVELS:
        raise PlanError(f"{where} has {len(given):,} levels, and {MOST_LEVELS} is the most. Merge them.")
    for level in given:
        if not isinstance(level, str):
            raise PlanError(f'{where}: every level must be text, got {short(level)}. Write it in quotes: "1".')
        if not (1 <= len(level) <= _LONGEST_LEVEL and is_text(level)) or level != level.strip():
            raise PlanError(
                f"{where}: a level must be text of 1 to {_LONGEST_LEVEL} characters without spaces around it, got "
                f"{short(level)}."
            )
    seen: set[str] = set()
    for level in given:
        if level in seen:
            raise PlanError(f"{where} has the level {short(level)} twice. Remove one.")
        seen.add(level)
    if column.kind == "binary" and len(given) != 2:
        raise PlanError(f'{where} is binary and needs two levels, got {len(given)}. Use kind = "categorical".')
    if len(given) < 2:
        raise PlanError(f"{where} has one level, and a column that never changes tells nothing. Leave it out.")
    return tuple(given)


def _check_levelled(column: Column) -> None:
    """Its bounds are those of its levels' numbers; it has no transform."""
    bounds = {"lower": 0.0, "upper": len(column.levels) - 1.0}
    for key, implied in bounds.items():
        if getattr(column, key) not in (None, implied):
            raise PlanError(f"{_where(column)} is {column.kind}: its levels take the place of bounds. Remove {key}.")
        object.__setattr__(column, key, implied)
    if column.transform is not None:
        raise PlanError(f"{_where(column)} is {column.kind} and cannot have a transform. Remove it.")


def _number(column: Column, key: str) -> float:
    value = getattr(column, key)
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise PlanError(f"{_where(column)}: {key} must be of type number, got {short(value)}.")
    try:
        return float(value)
    except OverflowError:
        raise PlanError(f"{_where(column)}: bounds must lie within {_FARTHEST:g} of 0, got {short(value)}.") from None


def _check_bounds(column: Column) -> None:
    """The bounds are the ends of a range that the transform and the arithmetic can bear."""
    where, lower, upper = _where(column), column.lower, column.upper
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise PlanError(f"{where}: lower must be below upper and both finite, got {lower:g} and {upper:g}.")
    if max(abs(lower), abs(upper)) > _FARTHEST:
        raise PlanError(f"{where}: bounds must lie within {_FARTHEST:g} of 0, got {lower:g} and {upper:g}.")
    lowest = -math.inf if column.transform is None else TRANSFORMS[column.transform].lowest
    if lower < lowest:
        raise PlanError(f"{where}: transform = {column.transform!r} needs lower >= {lowest:g}, got {lower:g}.")
    if column.transform == "log" and lower <= 0:
        raise PlanError(f"{where}: transform = 'log' needs lower > 0, got {lower:g}. Use log1p, or raise lower.")
    if column.kind == "integer" and not (lower.is_integer() and upper.is_integer()):
        raise PlanError(f"{where} is an integer column: its bounds must be whole, got {lower:g} and {upper:g}.")
    if not _NARROWEST < column.half_width < math.inf:
        raise PlanError(f"{where}: the bounds {lower:g} and {upper:g} leave no usable range. Choose others.")


def is_text(value: str) -> bool:
    """Whether it can be written: half a surrogate pair is no character."""
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)


def short(value: object) -> str:
    """The beginning of what it looks like."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
