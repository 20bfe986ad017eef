"""One cell at a time: what a cell of any column means as a number, or as somebody's id.

Every rule here is a function of one cell and of the plan's text format. No type is inferred from other cells, and
nothing is refused: what cannot be read is null, and how many such cells there were is counted.
"""

from __future__ import annotations

import datetime
import math
import numbers
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hazeglass.compute.text import TextFormat

# A column of some rows: an Arrow array, or Python objects where a data frame holds such.
Column = Any
_NUMBER = r"^[ \t]*[+-]?((?i:inf(inity)?)|([0-9]+{point}?[0-9]*|{point}[0-9]+)([eE][+-]?[0-9]+)?)[ \t]*$"
_PLAIN_ID = "^(0|[1-9][0-9]*|[A-Za-z_][A-Za-z0-9_.:@/-]*)$"  # already in canonical form
_ID_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FLOAT_BITS = 53  # whole numbers of as many bits are exact as floats
_LONGEST_NUMBER = 400
_MIDNIGHT = r"( 00:00:00)?(\.0+)?(Z?)$"


def number_column(column: Column, text: TextFormat) -> tuple[pa.Array, int]:
    """The cells as float64, null where one is missing or cannot be read, and how many could not be read."""
    try:
        return _from_objects(column, text) if isinstance(column, list) else _from_arrow(_plain(column), text)
    except pa.ArrowNotImplementedError:  # a type that Arrow knows and cannot convert
        return _from_objects(_cells(column), text)


def _from_arrow(array: pa.Array, text: TextFormat) -> tuple[pa.Array, int]:
    kind = array.type
    if pt.is_float64(kind):
        return array, 0
    if pt.is_floating(kind) or pt.is_integer(kind) or pt.is_boolean(kind) or pt.is_decimal(kind) or pt.is_null(kind):
        return pc.cast(array, pa.float64(), safe=False), 0
    if _is_text(kind):
        return numbers_from_text(array, text)
    return pa.nulls(len(array), pa.float64()), len(array) - array.null_count


def numbers_from_text(array: pa.Array, text: TextFormat) -> tuple[pa.Array, int]:
    """Text (or bytes) as float64; a number is digits with the plan's decimal mark, a sign, an exponent, or infinity."""
    raw = array.cast(pa.large_binary())
    if words_like_numbers(text):
        said = [None if cell is None or cell.strip() in text.missing_bytes else cell for cell in raw.to_pylist()]
        raw = pa.array(said, pa.large_binary())
    is_number = pc.fill_null(pc.match_substring_regex(raw, _NUMBER.format(point=re.escape(text.decimal))), False)
    readable = pc.if_else(is_number, raw, None).cast(pa.large_string())
    trimmed = pc.replace_substring(pc.ascii_trim(readable, " \t"), text.decimal, ".")
    try:
        values = pc.cast(trimmed, pa.float64())
    except pa.ArrowInvalid:  # an older Arrow takes no sign of plus and no infinity
        values = pa.array([None if cell is None else float(cell) for cell in trimmed.to_pylist()], pa.float64())
    left = raw.filter(pc.and_(pc.is_valid(raw), pc.invert(is_number)))
    return values, sum(cell.strip() not in text.missing_bytes for cell in left.to_pylist())


def words_like_numbers(text: TextFormat) -> bool:
    """Whether a word for a missing cell (-999) could be read as a number."""
    return any(re.fullmatch(_NUMBER.format(point=re.escape(text.decimal)), word) for word in text.missing)


def _from_objects(cells: list[Any], text: TextFormat) -> tuple[pa.Array, int]:
    """Python objects, each by its own type; text among them is read as text."""
    values = np.full(len(cells), np.nan)
    words: dict[int, str | bytes] = {}
    unread = 0
    for k, cell in enumerate(cells):
        kind = type(cell)  # what an object says of itself is not asked
        if issubclass(kind, str | bytes):
            words[k] = cell
        elif issubclass(kind, numbers.Real | Decimal | np.bool_):
            values[k] = _as_float(cell)
        elif not _is_missing(cell):
            unread += 1
    if words:
        raw = [str.encode(word, "utf-8", "replace") if isinstance(word, str) else word for word in words.values()]
        read, unread_words = numbers_from_text(pa.array(raw, pa.large_binary()), text)
        values[list(words)] = read.to_numpy(zero_copy_only=False)
        unread += unread_words
    return pa.array(values, mask=np.isnan(values)), unread


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # a whole number beyond every float
        return math.inf if number > 0 else -math.inf
    except Exception:  # a signalling decimal, or whatever an odd number raises
        return math.nan


def _is_missing(cell: Any) -> bool:
    """None, and what data frames put in its place (NaT, pandas.NA)."""
    return cell is None or type(cell).__name__ in ("NaTType", "NAType")


# --------------------------------------------------------------------------------------------------------- ids


def id_column(column: Column, text: TextFormat) -> pa.Array:
    """Ids in one canonical form, as text; null where a row's id is missing or cannot be read.

    7, "7", "07" and 7.0 are the same person, and -0.0 is 0. Where two spellings could be one person they are taken for
    one: that two people share `max_rows` costs a few rows, that one person counts as two would break the promise.
    """
    try:
        if not isinstance(column, list):
            return _ids_from_arrow(_plain(column), text)
    except pa.ArrowNotImplementedError:
        column = _cells(column)
    return _each(column, lambda cell: canonical_id(cell, text))


def _ids_from_arrow(array: pa.Array, text: TextFormat) -> pa.Array:
    kind = array.type
    if pt.is_integer(kind):
        return _named(pc.cast(array, pa.string()), text)
    if _is_text(kind):
        array = _decoded(array)
        if not pc.any(pc.invert(pc.fill_null(pc.match_substring_regex(array, _PLAIN_ID), True))).as_py():
            return _named(array, text)
    elif not (pt.is_floating(kind) or pt.is_boolean(kind) or pt.is_decimal(kind) or pt.is_null(kind)):
        try:
            array = pc.cast(_in_one_unit(array), pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            return pa.nulls(len(array), pa.string())
        array = pc.replace_substring_regex(array, _MIDNIGHT, r"\3")
    encoded = array.dictionary_encode()
    cells = encoded.dictionary
    # NumPy's floats know how wide they are, Python's do not.
    cells = list(cells.to_numpy(zero_copy_only=False)) if pt.is_floating(kind) else cells.to_pylist()
    canonical = _each(cells, lambda cell: canonical_id(cell, text))
    return canonical.take(encoded.indices)


def _in_one_unit(array: pa.Array) -> pa.Array:
    """Moments, times and durations as nanoseconds (of UTC), so that the same one is the same in every file."""
    kind = array.type
    if pt.is_timestamp(kind) or pt.is_date(kind):
        zone = "UTC" if getattr(kind, "tz", None) else None
        return pc.cast(array, pa.timestamp("ns", tz=zone), safe=False)
    if pt.is_time(kind):
        return pc.cast(array, pa.time64("ns"))
    if pt.is_duration(kind):
        return pc.cast(pc.cast(array, pa.duration("ns"), safe=False), pa.int64())
    return array


def _named(ids: pa.Array, text: TextFormat) -> pa.Array:
    """Ids in canonical form, but for those that are a word for a missing cell."""
    return pc.if_else(pc.is_in(ids, pa.array(sorted(_missing_ids(text)), pa.string())), None, ids)


@cache
def _missing_ids(text: TextFormat) -> frozenset[str]:
    """The words for a missing cell as ids would be written: -1 and "-1.0" are one word."""
    return frozenset(form for word in text.missing if (form := _canonical(word, text)) is not None)


def canonical_id(cell: Any, text: TextFormat) -> str | None:
    """One id in its canonical form, or None.

    >>> [canonical_id(cell, TextFormat()) for cell in (7, "7", " 07 ", 7.0, "7.0", -0.0, "A7", "NA", float("nan"))]
    ['7', '7', '7', '7', '7', '0', 'A7', None, None]
    """
    form = _canonical(cell, text)
    return None if form in _missing_ids(text) else form


def _canonical(cell: Any, text: TextFormat) -> str | None:
    kind = type(cell)  # what an object says of itself is not asked
    if issubclass(kind, numbers.Real) and not issubclass(kind, numbers.Integral):
        return _number_id(cell)
    word = "" if _is_missing(cell) else (_word(cell) or "").strip("\0 \t\r\n\v\f")
    if len(word) > 1 and word[0] == word[-1] == '"':
        word = word[1:-1].strip()
    number = word.replace(text.decimal, ".")
    if _ID_NUMBER.fullmatch(number):
        digits = number.lstrip("+-").lstrip("0") or "0"
        if len(digits) > _LONGEST_NUMBER:
            return None
        whole = "-" * (number[0] == "-") + digits
        return str(int(whole)) if digits.isdecimal() else _number_id(float(whole))
    return word or None


def _word(cell: Any) -> str | None:
    """The cell as text; None where it is of a kind that names no one, or cannot be written down."""
    kind = type(cell)
    try:
        if issubclass(kind, str):
            word = "".join(cell)
        elif issubclass(kind, bytes | bytearray | memoryview):
            word = bytes(cell).decode("utf-8")
        elif issubclass(kind, numbers.Integral | np.bool_):
            word = str(int(cell))
        elif issubclass(kind, datetime.datetime):
            word = re.sub(_MIDNIGHT, r"\3", cell.isoformat(" "))
        elif issubclass(kind, Decimal | UUID | datetime.date):
            word = str(cell)
        else:
            return None
        word.encode("utf-8")
    except Exception:  # half a character, a whole number of ten thousand digits, or what an odd subclass raises
        return None
    plain = unicodedata.normalize("NFKC", word).replace("\u2212", "-")
    if plain.isascii():
        return plain
    # Marks that cannot be seen are no part of an id, and digits are digits in every script.
    seen = (letter for letter in plain if unicodedata.category(letter) != "Cf")
    return "".join(str(unicodedata.decimal(letter, letter)) for letter in seen)


def _number_id(number: Any) -> str | None:
    """A float stands for a person only where it is exact: beyond that it may be several whole numbers."""
    value = _as_float(number)
    bits = np.finfo(type(number)).nmant + 1 if isinstance(number, np.floating) else _FLOAT_BITS
    if not abs(value) < 2 ** min(bits, _FLOAT_BITS):
        return None
    if value == int(value):
        return str(int(value))
    if isinstance(number, np.float16):  # too coarse to be told from its neighbours
        return None
    coarse = float(np.float32(value))  # the coarser float, so that both other widths give one id
    return str(int(coarse)) if coarse == int(coarse) else repr(coarse)


# ----------------------------------------------------------------------------------------------------- helpers


def _each(cells: Iterable[Any], rule: Callable[[Any], str | None]) -> pa.Array:
    return pa.array([rule(cell) for cell in cells], pa.string())


def _cells(column: Column) -> list[Any]:
    """The cells as Python's objects; an old Arrow cannot give those of some types, and then they are all missing."""
    try:
        return list(column.to_pylist())
    except TypeError:
        return [None] * len(column)


def _plain(column: Column) -> pa.Array:
    """One array without dictionary, run-length or extension type."""
    array = column
    if isinstance(column, pa.ChunkedArray):  # each by itself: dictionaries of several chunks may not go together
        return pa.concat_arrays([_plain(chunk) for chunk in column.chunks or [pa.array([], column.type)]])
    if isinstance(array, pa.ExtensionArray):
        if array.type.extension_name == "arrow.uuid":
            return pa.array([None if cell is None else str(cell) for cell in array.to_pylist()], pa.string())
        return _plain(array.storage)
    if pt.is_dictionary(array.type):
        return _plain(array.dictionary_decode())
    if pt.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    return array


def _is_text(kind: pa.DataType) -> bool:
    tests: Sequence[Callable[[pa.DataType], bool]] = (
        pt.is_string,
        pt.is_large_string,
        pt.is_binary,
        pt.is_large_binary,
        pt.is_fixed_size_binary,
        *(getattr(pt, name) for name in ("is_string_view", "is_binary_view") if hasattr(pt, name)),
    )
    return any(test(kind) for test in tests)


def _decoded(array: pa.Array) -> pa.Array:
    """As text; null where bytes are no UTF-8."""
    raw = array.cast(pa.binary())  # first: a column may say that it is text and hold bytes that are none
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return _each(raw.to_pylist(), _utf8)


def _utf8(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode("utf-8")
    except UnicodeDecodeError:
        return None
