"""Whose row it is: ids of any type and spelling in one canonical form, as text.

Every rule is a function of one cell and of the plan's text format. Where two spellings could be one person they are
taken for one, who is the person of the promise; that one person counts as two would break it (SECURITY.md).
"""

from __future__ import annotations

import datetime
import numbers
import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hazeglass.compute.cells import Column, as_float, in_plain_arrays, is_missing, is_text
from hazeglass.compute.text import TextFormat

LONGEST = 1_000  # characters; what is longer names no one
_FLOAT_BITS = 53  # whole numbers of as many bits are exact as floats
_DAY = 86_400  # seconds
_UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
# Cells that are their own canonical form; a longer word may be a UUID, and `true` has a rule of its own.
_PLAIN = r"^(0|[1-9][0-9]{0,30}|[A-Za-z_][A-Za-z0-9_.:@/-]{0,30})$"
_TRUTH = r"^(?i:true|false)$"
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_UUID = re.compile(r"\{?[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}\}?", re.IGNORECASE)
_CLOCK = r"([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]++))?)?)?"
_TIME = re.compile(rf"T?{_CLOCK}", re.IGNORECASE)
_ZONE = r" ?(?:Z|UTC|GMT|([+-])([0-9]{2})(?::?([0-9]{2})(?::([0-9]{2}))?)?)?"
_MOMENT = re.compile(rf"([+-]?[0-9]{{3,12}}-[0-9]{{2}}-[0-9]{{2}})(?:[T ]{_CLOCK}{_ZONE})?", re.IGNORECASE)
# Letters that are not seen and that Unicode does not count among its format characters: fillers, selectors of variants.
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000))))
)


def id_column(column: Column, text: TextFormat) -> pa.Array:
    """Ids in one canonical form, as text; null where a row's id is missing or cannot be read.

    7, "7", "07" and 7.0 are the same person, -0.0 is 0, and a moment is the same in every type, unit and zone.
    """
    (ids,) = in_plain_arrays(column, lambda part: (_ids(part, text),))
    return ids


def _ids(column: Column, text: TextFormat) -> pa.Array:
    if isinstance(column, list):
        return _each(column, text)
    kind = column.type
    if pt.is_integer(kind):
        return _named(pc.cast(column, pa.string()), text)
    if is_text(kind):
        return _from_text(column, text)
    if pt.is_date(kind) or pt.is_timestamp(kind) or pt.is_time(kind):
        return _from_times(column, text)
    if not (pt.is_floating(kind) or pt.is_boolean(kind) or pt.is_decimal(kind)):
        return pa.nulls(len(column), pa.string())
    encoded = column.dictionary_encode()
    cells = encoded.dictionary
    # NumPy's floats know how wide they are, Python's do not.
    cells = list(cells.to_numpy(zero_copy_only=False)) if pt.is_floating(kind) else cells.to_pylist()
    return _each(cells, text).take(encoded.indices)


def _from_text(array: pa.Array, text: TextFormat) -> pa.Array:
    raw = array.cast(pa.large_binary())  # first: a column may say that it is text and hold bytes that are none
    words = _decoded(pc.if_else(pc.less_equal(pc.binary_length(raw), 4 * LONGEST), raw, None))
    plain = pc.and_not(pc.match_substring_regex(words, _PLAIN), pc.match_substring_regex(words, _TRUTH))
    odd = pc.invert(pc.fill_null(plain, True))
    some = words.filter(odd).dictionary_encode()
    others = _each(some.dictionary.to_pylist(), text).take(some.indices)
    return pc.replace_with_mask(_named(words, text), odd, others)


def _decoded(raw: pa.Array) -> pa.Array:
    """As text; null where bytes are no UTF-8."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_utf8(cell) for cell in raw.to_pylist()], pa.string())


def _utf8(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _from_times(array: pa.Array, text: TextFormat) -> pa.Array:
    """Dates, moments (of UTC, or of no zone) and times of day, from the whole numbers they are."""
    kind = array.type
    encoded = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).dictionary_encode()
    digits = 0 if pt.is_date32(kind) else 3 if pt.is_date64(kind) else _UNITS[kind.unit]
    forms = []
    for value in encoded.dictionary.to_pylist():
        seconds, rest = divmod(value * _DAY if pt.is_date32(kind) else value, 10**digits)
        fraction = f"{rest:0{digits}}" if digits else ""
        forms.append(_clock(seconds, fraction) if pt.is_time(kind) else _moment(seconds, fraction))
    return _named(pa.array(forms, pa.string()), text).take(encoded.indices)


def _moment(seconds: int, fraction: str) -> str:
    """Seconds since 1970 and a fraction's digits, as a date, and with the time of day where it is not midnight."""
    days, seconds = divmod(seconds, _DAY)
    clock = _clock(seconds, fraction)
    return str(np.datetime64(days, "D")) + (f" {clock}" if clock != "00:00:00" else "")


def _clock(seconds: int, fraction: str) -> str:
    hours, seconds = divmod(seconds, 3600)
    tail = fraction.rstrip("0")
    return f"{hours:02}:{seconds // 60:02}:{seconds % 60:02}" + (f".{tail}" if tail else "")


def _named(ids: pa.Array, text: TextFormat) -> pa.Array:
    """Ids in canonical form, but for those that are a word for a missing cell."""
    return pc.if_else(pc.is_in(ids, pa.array(sorted(_missing_ids(text)), pa.string())), None, ids)


@cache
def _missing_ids(text: TextFormat) -> frozenset[str]:
    """The words for a missing cell as ids would be written: -1 and "-1.0" are one word."""
    return frozenset(form for word in text.missing if (form := _canonical(word, text)) is not None)


def _each(cells: Iterable[Any], text: TextFormat) -> pa.Array:
    return pa.array([canonical_id(cell, text) for cell in cells], pa.string())


def canonical_id(cell: Any, text: TextFormat) -> str | None:
    """One id in its canonical form, or None.

    >>> [canonical_id(cell, TextFormat()) for cell in (7, "7", " 07 ", 7.0, "7.0", -0.0, "A7", "NA", float("nan"))]
    ['7', '7', '7', '7', '7', '0', 'A7', None, None]
    """
    form = _canonical(cell, text)
    return None if form in _missing_ids(text) else form


def _canonical(cell: Any, text: TextFormat) -> str | None:
    kind = type(cell)  # what an object says of itself is not asked
    if issubclass(kind, bool | np.bool_):
        return "true" if cell else "false"
    if issubclass(kind, numbers.Real) and not issubclass(kind, numbers.Integral):
        return _number_id(cell)
    word = None if is_missing(cell) else _word(cell)
    if word is None or len(word) > LONGEST:
        return None
    form = _form(_seen(word), text)
    return None if form is None or len(form) > LONGEST else form


def _word(cell: Any) -> str | None:
    """The cell as text; None where it is of a kind that names no one, or cannot be written down."""
    kind = type(cell)
    try:
        if issubclass(kind, str):
            word = "".join(cell)
        elif issubclass(kind, bytes | bytearray | memoryview):
            word = bytes(cell[: 4 * LONGEST + 1]).decode("utf-8")
        elif issubclass(kind, numbers.Integral):
            word = str(int(cell))
        elif issubclass(kind, datetime.datetime):
            word = (cell if cell.tzinfo is None else cell.astimezone(datetime.UTC)).isoformat()
        elif issubclass(kind, np.datetime64):
            word = "" if np.isnat(cell) else str(cell if cell.dtype.str[4:-1] in _UNITS else cell.astype("M8[s]"))
        elif issubclass(kind, Decimal | UUID | datetime.date | datetime.time):
            word = str(cell.replace(tzinfo=None) if issubclass(kind, datetime.time) else cell)
        else:
            return None
        word.encode("utf-8")
    except Exception:  # half a character, a whole number of ten thousand digits, or what an odd subclass raises
        return None
    return word


def _seen(word: str) -> str:
    """What is seen of it: without quotes and spaces around it and letters that do not show, the rest in one form."""
    while True:
        letters = unicodedata.normalize("NFKC", word.strip().strip('"'))
        seen = "".join(map(_letter, letters))
        if seen == word:
            return word
        word = seen


@lru_cache(1 << 14)
def _letter(letter: str) -> str:
    if letter in _UNSEEN or unicodedata.category(letter) in ("Cc", "Cf"):
        return ""
    return "-" if letter == "\u2212" else str(unicodedata.decimal(letter, letter))  # digits are digits in every script


def _form(word: str, text: TextFormat) -> str | None:
    """What the word means: a truth value, a UUID, a number, a moment, a time of day, or itself."""
    if word.lower() in ("true", "false"):
        return word.lower()
    if _UUID.fullmatch(word):
        digits = word.strip("{}").replace("-", "").lower()
        return (_NUMBER.fullmatch(digits) and _number(digits)) or digits
    number = word.replace(text.decimal, ".")
    if _NUMBER.fullmatch(number):
        return _number(number)
    return _moment_id(word) or word or None


def _number(word: str) -> str | None:
    return str(int(word)) if word.lstrip("+-").isdecimal() else _number_id(float(word))


def _moment_id(word: str) -> str | None:
    if found := _TIME.fullmatch(word):
        clock, days, east = list(found.groups()), 0, 0
    elif found := _MOMENT.fullmatch(word):
        date, *clock, sign, hours, minutes, rest = found.groups()
        try:
            days = int(np.datetime64(date, "D").astype(np.int64))
        except ValueError:  # no such day
            return None
        ahead = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(rest or 0)
        east = -ahead if sign == "-" else ahead
    else:
        return None
    hour, minute, second = (int(part or 0) for part in clock[:3])
    seconds, fraction = 3600 * hour + 60 * minute + second, clock[3] or ""
    midnight = found.re is _MOMENT and seconds == _DAY and not fraction.strip("0")  # 24:00 is the next day's 00:00
    if (hour > 23 and not midnight) or minute > 59 or second > 59:
        return None
    return _clock(seconds, fraction) if found.re is _TIME else _moment(_DAY * days + seconds - east, fraction)


def _number_id(number: Any) -> str | None:
    """A float stands for a person only where it is exact: beyond that it may be several whole numbers."""
    value = as_float(number)
    bits = np.finfo(type(number)).nmant + 1 if isinstance(number, np.floating) else _FLOAT_BITS
    if not abs(value) < 2 ** min(bits, _FLOAT_BITS):
        return None
    if value == int(value):
        return str(int(value))
    if isinstance(number, np.float16):  # too coarse to be told from its neighbours
        return None
    coarse = float(np.float32(value))  # the coarser float, so that both other widths give one id
    return str(int(coarse)) if coarse == int(coarse) else repr(coarse)
