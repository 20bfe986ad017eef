"""One cell at a time: what a cell of any column means as a number (ids.py: as somebody's id).

Every rule here is a function of one cell and of the plan's text format. No type is inferred from other cells, and
nothing is refused: what cannot be read is null, and how many such cells there were is counted.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hazeglass.compute.text import THOUSANDS, TextFormat

# A column of some rows: an Arrow array, Python objects where a data frame holds such, or either behind codes (Coded).
Column = Any
Arrays = tuple[pa.Array, ...]
_SECONDS = {"W": 604_800, "D": 86_400, "h": 3600, "m": 60}
_PARTS_OF_SECONDS = ("s", "ms", "us", "ns", "ps", "fs", "as")
_FIRST_DAY, _LAST_DAY = -365_242_500_719_162, 365_242_499_280_471  # of years of twelve digits
_MOST_MONTHS = 13 * 10**12
_NAME = vars(type)["__name__"]  # of a type, whatever the type says of itself
_TRUTH = {b"true": 1.0, b"false": 0.0}
_NUMBER = r"^[ \t]*[+-]?((?i:inf(inity)?)|({whole}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?)[ \t]*$"


def number_column(column: Column, text: TextFormat) -> tuple[pa.Array, int]:
    """The cells as float64, null where one is missing or cannot be read, and how many could not be read."""
    values, unread = in_plain_arrays(column, lambda part: _numbers(part, text))
    return values, unread.true_count


def _numbers(column: Column, text: TextFormat) -> Arrays:
    """The cells as float64, and which of them could not be read."""
    if isinstance(column, list):
        return _from_objects(column, text)
    kind = column.type
    if is_text(kind):
        return numbers_from_text(column, text)
    none = pa.array(np.zeros(len(column), dtype=bool))
    if pt.is_float64(kind):
        return column, none
    if pt.is_decimal(kind):  # as text: Arrow's own way rounds otherwise than every other
        return pc.cast(pc.cast(column, pa.string()), pa.float64()), none
    if pt.is_floating(kind) or pt.is_integer(kind) or pt.is_boolean(kind) or pt.is_null(kind):
        return pc.cast(column, pa.float64(), safe=False), none
    return pa.nulls(len(column), pa.float64()), column.is_valid()


def numbers_from_text(array: pa.Array, text: TextFormat) -> Arrays:
    """Text (or bytes) as float64, and which of it is neither a number nor a word for a missing cell.

    A number is digits with the plan's marks, a sign, an exponent, or infinity; true is 1 and false is 0.
    """
    raw = array.cast(pa.large_binary())
    if words_like_numbers(text):
        said = [None if cell is None or cell.strip() in text.missing_bytes else cell for cell in raw.to_pylist()]
        raw = pa.array(said, pa.large_binary())
    is_number = pc.fill_null(pc.match_substring_regex(raw, _number(text)), False)
    readable = pc.if_else(is_number, raw, None).cast(pa.large_string())
    if text.thousands is not None:
        readable = pc.replace_substring_regex(readable, THOUSANDS[text.thousands], "")
    trimmed = pc.replace_substring(pc.ascii_trim(readable, " \t"), text.decimal, ".")
    try:
        values = pc.cast(trimmed, pa.float64())
    except pa.ArrowInvalid:  # an older Arrow takes no sign of plus and no infinity
        values = pa.array([None if cell is None else float(cell) for cell in trimmed.to_pylist()], pa.float64())
    left = pc.and_(pc.is_valid(raw), pc.invert(is_number))
    unread = np.zeros(len(raw), dtype=bool)
    others, words = left.to_numpy(zero_copy_only=False), [cell.strip() for cell in raw.filter(left).to_pylist()]
    unread[others] = [word not in text.missing_bytes and word.lower() not in _TRUTH for word in words]
    if any(truth := [word.lower() in _TRUTH and word not in text.missing_bytes for word in words]):
        read = values.to_numpy(zero_copy_only=False).copy()
        read[np.flatnonzero(others)[truth]] = [
            _TRUTH[word.lower()] for word, one in zip(words, truth, strict=True) if one
        ]
        values = pa.array(read, mask=np.isnan(read))
    return values, pa.array(unread)


def words_like_numbers(text: TextFormat) -> bool:
    """Whether a word for a missing cell (-999) could be read as a number."""
    return any(re.fullmatch(_number(text), word) for word in text.missing)


def _number(text: TextFormat) -> str:
    """The pattern of a number in text, and in its bytes, of which a character may be several."""
    mark = None if text.thousands is None else "|".join(_in_bytes(THOUSANDS[text.thousands]))
    whole = "[0-9]+" if mark is None else f"([0-9]+|[0-9]{{1,3}}(({mark})[0-9]{{3}})+)"
    return _NUMBER.format(whole=whole, point=re.escape(text.decimal))


def _in_bytes(pattern: str) -> list[str]:
    """The characters of a pattern, each as a pattern of its bytes."""
    return ["".join(f"\\x{byte:02x}" for byte in one.encode()) for one in pattern.strip("\\[]")]


def _from_objects(cells: list[Any], text: TextFormat) -> Arrays:
    """Python objects, each by its own type; text among them is read as text."""
    values = np.full(len(cells), np.nan)
    unread = np.zeros(len(cells), dtype=bool)
    words: dict[int, str | bytes] = {}
    for k, cell in enumerate(cells):
        kind = type(cell)  # what an object says of itself is not asked
        if issubclass(kind, str | bytes):
            words[k] = cell
        elif issubclass(kind, np.timedelta64):  # a whole number, but of whatever unit
            unread[k] = not np.isnat(cell)
        elif issubclass(kind, Decimal | np.bool_) or is_number(kind):
            values[k] = as_float(cell)
        else:
            unread[k] = not is_missing(cell)
    if words:
        raw = [str.encode(word, "utf-8", "replace") if isinstance(word, str) else word for word in words.values()]
        read, unread_words = numbers_from_text(pa.array(raw, pa.large_binary()), text)
        values[list(words)] = read.to_numpy(zero_copy_only=False)
        unread[list(words)] = unread_words.to_numpy(zero_copy_only=False)
    return pa.array(values, mask=np.isnan(values)), pa.array(unread)


def as_float(number: Any) -> float:
    """The nearest float: infinite where it is beyond all of them, NaN where it is none."""
    try:
        try:
            return float(number)
        except OverflowError:  # a whole number beyond every float
            return math.inf if number > 0 else -math.inf
    except Exception:  # a signalling decimal, or whatever an odd number raises
        return math.nan


def seconds_of(cell: np.datetime64) -> tuple[int, int, int] | None:
    """The seconds since 1970 of NumPy's moment, and what is past of the next in units of which a second has 10^digits.

    Exactly, whatever its unit, and of a year or a month to its beginning: NumPy itself wraps where another unit does
    not reach. None where it is no moment, or text does not reach: in a year of more than twelve digits.
    """
    unit, count = np.datetime_data(cell.dtype)
    if np.isnat(cell):
        return None
    value = int(cell.astype(np.int64)) * count
    if unit in ("Y", "M"):
        value *= 12 if unit == "Y" else 1
        if abs(value) >= _MOST_MONTHS:
            return None
        unit, value = "D", int(np.datetime64(value, "M").astype("datetime64[D]").astype(np.int64))
    digits = 3 * _PARTS_OF_SECONDS.index(unit) if unit in _PARTS_OF_SECONDS else 0
    seconds, rest = divmod(value * _SECONDS.get(unit, 1), 10**digits)
    return (seconds, rest, digits) if _FIRST_DAY <= seconds // _SECONDS["D"] <= _LAST_DAY else None


def finer_moments(coarse: pa.Array, fine: pa.ChunkedArray) -> Column:
    """Microseconds as the nanoseconds they are, but for those beyond 1677 to 2262, where nanoseconds wrapped."""
    if fine.type == coarse.type:
        return coarse
    nanos = pa.concat_arrays(fine.chunks)
    us, ns = (pc.fill_null(one.view(pa.int64()), 0).to_numpy(zero_copy_only=False) for one in (coarse, nanos))
    exact = (ns // 1000 == us) & (ns > np.iinfo(np.int64).min)  # which is none of NumPy's moments
    if exact.all():
        return nanos
    cells = zip(exact, ns.view("M8[ns]"), us.view("M8[us]"), coarse.is_valid().to_pylist(), strict=True)
    return [(fine_one if fits else coarse_one) if there else None for fits, fine_one, coarse_one, there in cells]


def is_number(kind: type, of: type = numbers.Real) -> bool:
    """Whether values of this type are such numbers; not where the type itself cannot be looked up."""
    try:
        return issubclass(kind, of)
    except Exception:  # a type of types may have no hash, and its words may hold anything
        return False


def is_missing(cell: Any) -> bool:
    """None, and what data frames put in its place (NaT, pandas.NA)."""
    return cell is None or _NAME.__get__(type(cell)) in ("NaTType", "NAType")


# -------------------------------------------------------------------------------------- columns behind other columns


@dataclass(frozen=True, repr=False)
class Coded:
    """Cells as places in a list of values; null where one is missing."""

    codes: pa.Array
    values: Column
    ordered: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    def slice(self, start: int, length: int) -> Coded:
        """Some of the rows."""
        return Coded(self.codes.slice(start, length), self.values)


def in_plain_arrays(column: Column, convert: Callable[[Column], Arrays]) -> Arrays:
    """What `convert` makes of a column's cells, which it gets as Python's objects or as an array of a plain type.

    Of values behind codes it gets those that occur, once each: a long one that is repeated may not fit into memory.
    """
    if isinstance(column, pa.ChunkedArray):
        parts = [in_plain_arrays(chunk, convert) for chunk in column.chunks or [pa.nulls(0)]]
        return tuple(pa.concat_arrays(arrays) for arrays in zip(*parts, strict=True))
    if isinstance(column, pa.ExtensionArray):
        if column.type.extension_name == "arrow.uuid":
            return in_plain_arrays(cells_of(column), convert)
        return in_plain_arrays(_of_other_type(column.storage, column.type.storage_type), convert)
    if coded := _coded(column):
        used = coded.codes.dictionary_encode()
        converted = in_plain_arrays(_taken(coded.values, used.dictionary), convert)
        return tuple(array.take(used.indices) for array in converted)
    try:
        return convert(column)
    except (pa.ArrowException, ArithmeticError):  # a type that Arrow knows and cannot convert, a decimal beyond its own
        return convert(cells_of(column))


def of_field(column: Column, field: pa.Field) -> Column:
    """The cells of a field; of a type whose library is not loaded here Arrow gives what it is made of, and its name."""
    return _of_other_type(column, field.type) if b"ARROW:extension:name" in (field.metadata or {}) else column


def _of_other_type(storage: Column, kind: pa.DataType) -> Column:
    """Text is text; what other types mean by their numbers (a period's is days, or months) is theirs to know."""
    return storage if is_text(kind) else pa.nulls(len(storage))


def _coded(column: Column) -> Coded | None:
    if isinstance(column, list | Coded):
        return column if isinstance(column, Coded) else None
    if pt.is_dictionary(column.type):
        return Coded(column.indices, column.dictionary)
    if pt.is_run_end_encoded(column.type):
        rows = np.arange(column.offset, column.offset + len(column))
        return Coded(pa.array(np.searchsorted(column.run_ends.to_numpy(), rows, side="right")), column.values)
    return None


def _taken(values: Column, places: pa.Array) -> Column:
    if not isinstance(values, list):
        try:
            return values.take(places)
        except pa.ArrowNotImplementedError:
            values = cells_of(values)
    return [values[place] for place in places.to_pylist()]


def cells_of(column: pa.Array) -> list[Any]:
    """The cells as Python's objects, each by itself; one that Arrow cannot give is missing."""
    return [_cell(scalar) for scalar in column]


def _cell(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except Exception:  # bad UTF-8, a moment beyond Python's, a type that an old Arrow cannot give
        return None


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of the type are text, or bytes that may be."""
    return is_bytes(kind) or _is_one_of(kind, "is_string", "is_large_string", "is_string_view")


def is_bytes(kind: pa.DataType) -> bool:
    """Whether cells of the type are bytes, of text or not."""
    return _is_one_of(kind, "is_binary", "is_large_binary", "is_fixed_size_binary", "is_binary_view")


def _is_one_of(kind: pa.DataType, *tests: str) -> bool:
    return any(getattr(pt, test)(kind) for test in tests if hasattr(pt, test))  # an older Arrow has no views
