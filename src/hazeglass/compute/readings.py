"""What a cell of a planned column means: a number, the number of its level, days since a date, or a part of a date.

Every rule is a function of one cell, of the plan's text format and of the column's public levels. Anything outside the
levels is null, and counted, like anything that is no number in a column of numbers.
"""

from __future__ import annotations

import datetime
import enum
import numbers
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hazeglass.compute.cells import (
    Arrays,
    Column,
    cells_of,
    in_plain_arrays,
    is_missing,
    is_number,
    is_text,
    number_column,
    seconds_of,
)
from hazeglass.compute.text import ORDERS, YEAR_LAST, TextFormat

_TRUTH = {**dict.fromkeys(("true", "t", "yes", "y", "1"), True), **dict.fromkeys(("false", "f", "no", "n", "0"), False)}
_LONGEST, _NO_WORD = 1_000, b"\xff"  # bytes of a cell; of what is longer only that it is neither a level nor a date
_NUMBER = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?")
_DAY = 86_400 * 10**6  # microseconds
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_DATE = re.compile(
    r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})"
    r"(?:[T ]+([0-9]{2}):?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]{1,9}))?)?)?"
    r" ?(?:Z|UTC|GMT|([+-])([0-9]{2}):?([0-9]{2})?)?"
)


@dataclass(frozen=True)
class Reading:
    """How cells of one of the data's columns become numbers.

    source   the data's column
    levels   public words: a cell becomes the number of the one that it is
    part     'hour', 'weekday' or 'month': a cell is a date or time, and becomes the number of that part of it, from 0
    since    a public date, as ISO 8601 writes it: a cell is a date or time, and becomes the days since then
    whole    whether those are whole days
    absence  whether only that a cell is missing counts: 1 where it is, 0 elsewhere
    """

    source: str
    levels: tuple[str, ...] = ()
    part: str | None = None
    since: str | None = None
    whole: bool = False
    absence: bool = False

    @property
    def as_text(self) -> bool:
        """Whether cells of a file of text are wanted as they are written."""
        return bool(self.levels or self.part or self.since)

    def column(self, cells: Column, text: TextFormat) -> tuple[pa.Array, int]:
        """The cells as float64, null where one is missing or cannot be read, and how many could not be read."""
        if not self.as_text:
            values, unread = number_column(cells, text)
        else:
            convert = self._level if self.part is None and self.since is None else self._moment
            values, strange = in_plain_arrays(cells, lambda part: _each(part, convert, text))
            unread = strange.true_count
        if not self.absence:
            return values, unread
        missing = pc.fill_null(pc.is_nan(values), True)
        return pc.cast(missing, pa.float64()), 0  # told at the column itself

    # ------------------------------------------------------------------------------------------------------ levels

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {level: place for place, level in enumerate(self.levels)}

    @cached_property
    def numbers(self) -> Mapping[Any, int]:
        """Levels that are numbers, where no other is the same number: 1, 1.0 and "1" are one level."""
        found: dict[Decimal, list[int]] = {}
        for place, level in enumerate(self.levels):
            if (number := _number(level)) is not None:
                found.setdefault(number, []).append(place)
        return {number: places[0] for number, places in found.items() if len(places) == 1}

    @cached_property
    def _truths(self) -> Mapping[Any, int]:
        """Levels that are words for true and false, where there is one of each and no other."""
        found = {_TRUTH[level.lower()]: place for level, place in self._places.items() if level.lower() in _TRUTH}
        return found if len(self.levels) == len(found) == 2 else {}

    def truth(self, said: bool, text: TextFormat) -> int | None:
        """The number of the level that true or false stands for."""
        place = self._word("true" if said else "false", text)
        return None if place is None else int(place)

    def _level(self, cell: Any, text: TextFormat) -> float | None:
        kind = type(cell)  # what an object says of itself is not asked
        if issubclass(kind, enum.Enum) and not (issubclass(kind, str) or is_number(kind, numbers.Number)):
            names = (self._level(getattr(cell, key, None), text) for key in ("_value_", "_name_"))
            return next((place for place in names if place is not None), None)
        if issubclass(kind, bool | np.bool_):
            return self._word("true" if cell else "false", text)
        if issubclass(kind, Decimal) or is_number(kind):
            return self._number_level(cell)
        word = _word(cell)
        return None if word is None else self._word(word, text)

    def _word(self, word: str, text: TextFormat) -> float | None:
        bare = word.strip() if text.trim else word
        place = self._places.get(bare)
        if place is None and (number := _number(bare.replace(text.decimal, "."))) is not None:
            place = self.numbers.get(number)
        if place is None and bare.lower() in _TRUTH:
            place = self._truths.get(_TRUTH[bare.lower()])
        if place is None and bare.lower() in ("true", "false"):  # pandas writes them as True and False
            place = next((k for level, k in self._places.items() if level.lower() == bare.lower()), None)
        return place

    def _number_level(self, cell: Any) -> float | None:
        try:
            number = cell if isinstance(cell, int | float | Decimal) else cell.item() if hasattr(cell, "item") else None
            exact = number if not isinstance(number, float) else Decimal(repr(float(number)))  # 0.1 is the level "0.1"
            place = None if number is None else self.numbers.get(exact)
            return self._truths.get(number) if place is None and number in (0, 1) else place
        except Exception:  # a signalling decimal, or whatever an odd number raises
            return None

    # ------------------------------------------------------------------------------------------------------- dates

    def _moment(self, cell: Any, text: TextFormat) -> float | None:
        found = cell if isinstance(cell, _Moment) else _moment(cell, text)
        if found is None:
            return None
        if self.since is not None:
            start = datetime.date.fromisoformat(self.since).toordinal() - _EPOCH
            if found.instant is None:
                return None
            past = found.instant - start * _DAY
            return past // _DAY if self.whole else past / _DAY
        if self.part == "hour":
            return None if found.clock is None else found.clock // (_DAY // 24)
        if found.day is None:
            return None
        if self.part == "weekday":
            return (found.day + 3) % 7  # 1970 began on a Thursday
        return int(np.datetime64(found.day, "D").astype("datetime64[M]").astype(np.int64)) % 12


def _each(column: Column, convert: Callable[[Any, TextFormat], float | None], text: TextFormat) -> Arrays:
    """What `convert` makes of every cell, each of those that occur once, and which cells it could make nothing of."""
    if isinstance(column, list):
        found = [_alone(cell, convert, text) for cell in column]
        return pa.array([value for value, _ in found], pa.float64()), pa.array(
            [strange for _, strange in found], pa.bool_()
        )
    kind = column.type
    if is_text(kind):  # a column may say that it is text and hold bytes that are none
        raw = column.cast(pa.large_binary())
        column = pc.if_else(pc.less_equal(pc.binary_length(raw), _LONGEST), raw, _NO_WORD)
    encoded = column.dictionary_encode()
    values = encoded.dictionary
    timed = pt.is_date(kind) or pt.is_timestamp(kind) or pt.is_time(kind)
    cells = _moments(values) if timed else cells_of(values)
    return tuple(array.take(encoded.indices) for array in _each(cells, convert, text))


def _alone(
    cell: Any, convert: Callable[[Any, TextFormat], float | None], text: TextFormat
) -> tuple[float | None, bool]:
    """What a cell is, and whether it is strange; one that raises whatever it is asked is strange."""
    try:
        said = str.encode(cell, errors="surrogatepass") if issubclass(type(cell), str) else cell
        if isinstance(said, bytes) and len(said) > _LONGEST:
            cell = _NO_WORD
        value = None if _says_missing(cell, text) else convert(cell, text)
        return value, value is None and not _says_missing(cell, text)
    except Exception:
        return None, True


def _says_missing(cell: Any, text: TextFormat) -> bool:
    if is_missing(cell) or (isinstance(cell, float | np.floating) and cell != cell):
        return True
    if isinstance(cell, np.datetime64) and np.isnat(cell):
        return True
    word = _word(cell)
    return word is not None and word.strip() in text.missing


def _word(cell: Any) -> str | None:
    kind = type(cell)
    if issubclass(kind, str):
        return "".join(cell)
    try:
        return bytes(cell).decode("utf-8") if issubclass(kind, bytes | bytearray) else None
    except UnicodeDecodeError:
        return None


def _number(word: str) -> Decimal | None:
    return Decimal(word) if _NUMBER.fullmatch(word) else None


@dataclass(frozen=True)
class _Moment:
    """Days since 1970 and microseconds since midnight where it was, and the microseconds since 1970 in Greenwich (or,
    of no zone, as if it were there); None where a date has no time of day, or a time no date."""

    day: int | None
    clock: int | None
    instant: int | None


def _moment(cell: Any, text: TextFormat) -> _Moment | None:
    """One cell; None where it is no date or time."""
    kind = type(cell)
    try:
        if issubclass(kind, datetime.datetime):
            return _of_datetime(cell)
        if issubclass(kind, datetime.date):
            return _at(cell.toordinal() - _EPOCH, None, 0)
        if issubclass(kind, datetime.time):
            return _Moment(None, _clock(cell.hour, cell.minute, cell.second, cell.microsecond), None)
        if issubclass(kind, np.datetime64):
            if (since := seconds_of(cell)) is None:
                return None
            day, clock = divmod(since[0] * 10**6 + since[1] * 10**6 // 10 ** since[2], _DAY)
            return _at(day, clock, 0)
        word = _word(cell)
        found = None if word is None else _DATE.fullmatch(year_first(word.strip(), text))
        return None if found is None else _of_match(found)
    except Exception:  # no such day, or what an odd subclass raises
        return None


def year_first(word: str, text: TextFormat) -> str:
    """A date of the plan's other order as ISO 8601 writes it, with what stands behind it; other words as they are."""
    found = None if text.dates is None else YEAR_LAST.match(word)
    if found is None:
        return word
    first, _, second, year = found.groups()
    day, month = (first, second) if text.dates == ORDERS[0] else (second, first)
    return f"{year}-{month:0>2}-{day:0>2}{word[found.end() :]}"


def _of_datetime(cell: datetime.datetime) -> _Moment:
    east = cell.utcoffset() or datetime.timedelta(0)
    clock = _clock(cell.hour, cell.minute, cell.second, cell.microsecond)
    return _at(cell.toordinal() - _EPOCH, clock, east // datetime.timedelta(microseconds=1))


def _of_match(found: re.Match[str]) -> _Moment:
    year, month, day, hour, minute, second, fraction, sign, *zone = found.groups()
    date = datetime.date(int(year), int(month), int(day)).toordinal() - _EPOCH
    if hour is None:
        return _at(date, None, 0)
    datetime.time(int(hour), int(minute))  # refused where there is no such time
    clock = _clock(int(hour), int(minute), min(int(second or 0), 59), int((fraction or "0")[:6].ljust(6, "0")))
    east = _clock(int(zone[0] or 0), int(zone[1] or 0), 0, 0)
    return _at(date, clock, -east if sign == "-" else east)


def _clock(hour: int, minute: int, second: int, micro: int) -> int:
    return ((hour * 60 + minute) * 60 + second) * 10**6 + micro


def _at(day: int, clock: int | None, east: int) -> _Moment:
    return _Moment(day, clock, day * _DAY + (clock or 0) - east)


def _moments(array: pa.Array) -> list[_Moment | None]:
    """Cells of Arrow's own types, from the whole numbers they are; a zone's clock is that of the place."""
    kind = array.type
    if pt.is_date32(kind):
        return [None if day is None else _at(day, None, 0) for day in array.view(pa.int32()).to_pylist()]
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}["ms" if pt.is_date64(kind) else kind.unit]

    def micros(of: pa.Array) -> list[int | None]:
        whole = of.view(pa.int32() if of.type.bit_width == 32 else pa.int64()).to_pylist()
        return [None if one is None else one * 10**6 // ticks for one in whole]

    if pt.is_date64(kind):
        return [None if one is None else _at(one // _DAY, None, 0) for one in micros(array)]
    if pt.is_time(kind):
        return [None if one is None else _Moment(None, one, None) for one in micros(array)]
    both = zip(micros(_local(array)) if kind.tz else micros(array), micros(array), strict=True)
    return [None if here is None or there is None else _Moment(*divmod(here, _DAY), there) for here, there in both]


def _local(array: pa.Array) -> pa.Array:
    """What clocks showed there; null where a zone or a moment has no such clock, each by itself."""
    try:
        return pc.local_timestamp(array)
    except pa.ArrowInvalid:
        none = pa.nulls(1, pa.timestamp(array.type.unit))
        if len(array) == 1:
            return none
        parts = [_local(array.slice(k, 1)) for k in range(len(array))]
        return pa.concat_arrays(parts or [none.slice(0, 0)])
