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

from hazeglass.compute.cells import (
    Column,
    as_float,
    in_plain_arrays,
    is_bytes,
    is_missing,
    is_number,
    is_text,
    seconds_of,
)
from hazeglass.compute.text import TextFormat

LONGEST = 1_000  # characters; what is longer names no one
_FLOAT_BITS = 53  # whole numbers of as many bits are exact as floats
_DAY = 86_400  # seconds
_UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
# Cells that are their own canonical form; a longer word may be a UUID, and `true` has a rule of its own.
_PLAIN = r"^(0|[1-9][0-9]{0,30}|[A-Za-z_][A-Za-z0-9_.:@/-]{0,30})$"
_RULED = r"^(?i:true$|false$|t[0-9])"
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_HEX = r"[0-9a-f]{8}(-?)[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{12}"
_UUID = re.compile(rf"(?:urn:uuid:)?(\{{?{_HEX}\}}?)", re.IGNORECASE)
_UUID_BYTES = 16
_LEFT_OUT = ("Cc", "Cf", "Zl", "Zp", "Pi", "Pf")  # Pi and Pf are quotes
_QUOTES = (  # the others, and what is typed for them
    "'\"\u201a\u201e\u2e42\u301d\u301e\u301f\uff02\uff07`\u02b9\u02ba\u02bb\u02bc\u02bd\u02ca\u02cb\u02ee"
    "\u055a\u05f3\u05f4\u2032\u2033\u2035\u2036\ua78b\ua78c"
)
_ACCENT = re.compile(" [\u0301\u0313\u0314]")  # what NFKC makes of accents that stand alone, as U+00B4
_DASHES = "\u2212\u2043\u02d7\u2053\U00010d6e~"  # that are of no category of dashes; ~ because U+FF5E may be U+301C
_CONTROL = re.compile(r"[\0-\x1f]")
# Dates and times of day as ISO 8601 writes them, with or without its dashes and colons.
_DATE = r"[+-]?[0-9]{3,12}-[0-9]{2}(?:-[0-9]{2})?|[0-9]{8}|[0-9]{4}-?(?:[0-9]{3}|W[0-9]{2}(?:-?[1-7])?)"
_CLOCK = r"([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?(?:[.,]([0-9]++))?"
_ZONE = r" ?(?:Z|UTC|GMT|([+-])([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?)?"
_MOMENT = re.compile(rf"(?:({_DATE})(?:[T ]|$)|T|(?=[0-9]{{2}}:))(?:{_CLOCK}{_ZONE})?", re.IGNORECASE)
# Letters that are not seen and that Unicode does not count among its format characters: fillers, selectors of variants.
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u2800\u3164\uffa0\U00016fe4\U0001d159"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000))))
)


def id_column(column: Column, text: TextFormat) -> pa.Array:
    """Ids in one canonical form, as text; null where a row's id is missing or cannot be read.

    7, "7", "07" and 7.0 are the same person, -0.0 is 0, a moment is the same in every type, unit and zone, and a UUID
    is the same as text and as 16 bytes.
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
    if pt.is_float16(kind):  # Arrow before version 26 cannot encode it, and Python's own floats would hide its width
        return _each(column.to_numpy(zero_copy_only=False), text)
    encoded = column.dictionary_encode()
    cells = encoded.dictionary
    # NumPy's floats know how wide they are, Python's do not.
    cells = list(cells.to_numpy(zero_copy_only=False)) if pt.is_floating(kind) else cells.to_pylist()
    return _each(cells, text).take(encoded.indices)


def _from_text(array: pa.Array, text: TextFormat) -> pa.Array:
    raw = array.cast(pa.large_binary())  # first: a column may say that it is text and hold bytes that are none
    words = _decoded(pc.if_else(pc.less_equal(pc.binary_length(raw), 4 * LONGEST), raw, None), is_bytes(array.type))
    plain = pc.and_not(pc.match_substring_regex(words, _PLAIN), pc.match_substring_regex(words, _RULED))
    odd = pc.invert(pc.fill_null(plain, True))
    some = words.filter(odd).dictionary_encode()
    others = _each(some.dictionary.to_pylist(), text).take(some.indices)
    return pc.replace_with_mask(_named(words, text), odd, others)


def _decoded(raw: pa.Array, are_bytes: bool) -> pa.Array:
    """As text; null where there is none."""
    try:
        if not are_bytes or not pc.any(pc.equal(pc.binary_length(raw), _UUID_BYTES)).as_py():
            return raw.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    decode = _of_bytes if are_bytes else _utf8
    return pa.array([None if cell is None else decode(cell) for cell in raw.to_pylist()], pa.string())


def _utf8(cell: bytes) -> str | None:
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _of_bytes(cell: bytes) -> str | None:
    """Text, or of 16 bytes that are none the UUID; None where 16 bytes are text with control characters: either."""
    word = _utf8(cell)
    if len(cell) != _UUID_BYTES:
        return word
    return cell.hex() if word is None else None if _CONTROL.search(word) else word


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
    """Seconds since 1970 and a fraction's digits: at midnight the date as the number 20240101, for some write it so."""
    days, seconds = divmod(seconds, _DAY)
    date, clock = str(np.datetime64(days, "D")), _clock(seconds, fraction)
    return f"{date} {clock}" if clock != "00:00:00" else str(int(date[0] + date[1:].replace("-", "")))


def _clock(seconds: int, fraction: str) -> str:
    """A time of day; 24:00 is the next day's 00:00."""
    hours, seconds = divmod(seconds % _DAY, 3600)
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
    if is_number(kind) and not is_number(kind, numbers.Integral):
        return _number_id(cell)
    if issubclass(kind, Decimal):
        return _decimal_id(cell, text)
    word = None if is_missing(cell) else _word(cell)
    if word is None or len(word) > LONGEST:
        return None
    try:
        form = _form(_seen(word), text)
    except ValueError:  # more digits than this Python was told to read
        return None
    return None if form is None or len(form) > LONGEST else form


def _word(cell: Any) -> str | None:
    """The cell as text; None where it is of a kind that names no one, or cannot be written down."""
    kind = type(cell)
    try:
        if issubclass(kind, str):
            word = "".join(cell)
        elif issubclass(kind, bytes | bytearray | memoryview):
            return _of_bytes(bytes(cell[: 4 * LONGEST + 1]))
        elif issubclass(kind, np.timedelta64):  # counts as a whole number, of whatever unit
            return None
        elif is_number(kind, numbers.Integral):
            word = str(int(cell))
        elif issubclass(kind, datetime.datetime):
            try:
                word = (cell if cell.tzinfo is None else cell.astimezone(datetime.UTC)).isoformat()
            except OverflowError:  # it is in the year 0 or 10000 in Greenwich, which text can say
                word = cell.isoformat()
        elif issubclass(kind, np.datetime64):
            found = seconds_of(cell)
            if found is None or np.datetime_data(cell.dtype)[0] == "Y":  # of a year text is a number
                return None
            seconds, rest, digits = found
            word = _moment(seconds, f"{rest:0{digits}}" if digits else "")
        elif issubclass(kind, UUID | datetime.date | datetime.time):
            word = str(cell)
        else:
            return None
        word.encode("utf-8")
    except Exception:  # half a character, a whole number of ten thousand digits, or what an odd subclass raises
        return None
    return word


def _seen(word: str) -> str:
    """What is seen of it: without quotes, spaces around it and letters that do not show, the rest in one form."""
    while True:
        letters = _ACCENT.sub("", unicodedata.normalize("NFKC", word.strip()))
        seen = re.sub("  +", " ", "".join(map(_letter, letters)))
        if seen == word:
            return word
        word = seen


@lru_cache(1 << 14)
def _letter(letter: str) -> str:
    kind = unicodedata.category(letter)
    if letter in _UNSEEN or letter in _QUOTES or kind in _LEFT_OUT:
        return ""
    if kind == "Zs":
        return " "
    return "-" if kind == "Pd" or letter in _DASHES else str(unicodedata.decimal(letter, letter))


def _form(word: str, text: TextFormat) -> str | None:
    """What the word means: a truth value, a UUID, a number, a moment, a time of day, or itself."""
    if word.lower() in ("true", "false"):
        return word.lower()
    if uuid := _UUID.fullmatch(word):
        return _uuid_id(uuid[1].strip("{}").replace("-", "").lower(), text)
    number = _with_plain_marks(word, text)
    if _NUMBER.fullmatch(number):
        form = _number(number)
        return _uuid_id(form, text) if form and _UUID.fullmatch(form) else form
    return _moment_id(word) or word or None


def _with_plain_marks(word: str, text: TextFormat) -> str:
    """Text without the plan's mark between thousands and with a point for its decimal mark.

    A point may stand for either, where the plan says so: then 1.234 is a thousand and 1.5 is not.
    """
    if text.thousands is not None and (whole := _grouped(text.thousands).match(word)):
        word = whole[0].replace(text.thousands, "") + word[whole.end() :]
    return word.replace(text.decimal, ".")


@cache
def _grouped(mark: str) -> re.Pattern[str]:
    """Thousands in groups of three digits, or as in 12,34,567; in text as it is seen all spaces are one."""
    mark = re.escape(mark)
    return re.compile(rf"[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}(?![0-9])")


def _uuid_id(digits: str, text: TextFormat) -> str | None:
    """Its 16 bytes as text where they are some, because as bytes they would be; else its digits."""
    word = _of_bytes(bytes.fromhex(digits))
    if word not in (None, digits):
        return _form(_seen(word), text)
    return (_NUMBER.fullmatch(digits) and _number(digits)) or digits


def _number(word: str) -> str | None:
    return str(int(word)) if word.lstrip("+-").isdecimal() else _number_id(float(word))


def _decimal_id(number: Decimal, text: TextFormat) -> str | None:
    """The same as of its digits in text, whose point is never a mark between thousands here."""
    try:
        word = str(number)
        form = _number(word) if len(word) <= LONGEST and _NUMBER.fullmatch(word) else None
    except Exception:  # whatever an odd subclass raises, or more digits than this Python was told to read
        return None
    return _uuid_id(form, text) if form and _UUID.fullmatch(form) else form


def _moment_id(word: str) -> str | None:
    found = _MOMENT.fullmatch(word)
    if found is None or (found[1] or found[2]) is None:
        return None
    date, hour, minute, second, fraction, sign, *zone = found.groups()
    days = 0 if date is None else _days(date.upper())
    seconds = _seconds(hour, minute, second)
    if days is None or int(minute or 0) > 59 or int(second or 0) > 60 or seconds > _DAY:
        return None
    if fraction:  # of the last that is given
        whole = int(fraction) * (1 if second else 60 if minute else 3600)
        seconds, rest = seconds + whole // 10 ** len(fraction), whole % 10 ** len(fraction)
        fraction = f"{rest:0{len(fraction)}}"
    east = int(f"{sign or '+'}{_seconds(*zone)}")
    if date is not None:
        return _moment(_DAY * days + seconds - east, fraction or "")
    return _clock(seconds - east, fraction or "")


def _seconds(hour: str | None, minute: str | None, second: str | None) -> int:
    return 3600 * int(hour or 0) + 60 * int(minute or 0) + int(second or 0)


def _days(date: str) -> int | None:
    """Days since 1970 to a date by month, by week or by day of the year; to the first of a month or week alone."""
    try:
        if "W" in date:
            return datetime.date.fromisoformat(date).toordinal() - datetime.date(1970, 1, 1).toordinal()
        digits = date.replace("-", "")
        if len(digits) == 7 and date[-3:].isdecimal():  # 2024-001
            day = np.datetime64(date[:4], "D") + np.timedelta64(int(date[-3:]) - 1, "D")
            return int(day.astype(np.int64)) if str(day)[:4] == date[:4] else None
        if digits == date:
            date = f"{date[:4]}-{date[4:6]}-{date[6:]}"
        return int(np.datetime64(date, "D").astype(np.int64))
    except ValueError:  # no such day
        return None


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
