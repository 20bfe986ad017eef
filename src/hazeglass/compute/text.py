"""How a text file is to be read: a public choice made before the file is opened, never guessed while reading it.

Before that choice a guess from the first lines may help: `plan new` proposes it to the publisher, and `recover` reads
plain rows so. Publishing never guesses: it follows the plan, because one cell "1,5" could change how every "1,234" of a
file is read.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from hazeglass.compute.places import Place, expand
from hazeglass.errors import DataError, PlanError

_MOST_WORDS, _LONGEST_WORD = 200, 100
MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
# Text codecs in which one byte changes how those after it are read, or which are no way to write a file.
# (euc_kr: one of its characters takes eight bytes, whatever they are.)
_UNUSABLE = (
    "euc-kr",
    "utf-7",
    "hz",
    "iso2022",
    "idna",
    "punycode",
    "unicode-escape",
    "raw-unicode-escape",
    "undefined",
)
# What may stand between thousands, and as a pattern: for a space also those that no line breaks at.
THOUSANDS = {",": ",", ".": r"\.", " ": "[ \u00a0\u202f]", "'": "['\u2019]"}
BROKEN_LINES, OPEN_LINES = "\n", "\n\n"  # under these names lines are counted; no column can have them
ORDERS = ("day first", "month first")  # of dates whose year is last
YEAR_LAST = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})(?![0-9])")


@dataclass(frozen=True)
class TextFormat:
    """How the cells of a CSV are written.

    separator  between two cells; None: a comma, or a tab in files named .tsv
    decimal    the decimal mark, '.' or ','
    encoding   any of Python's text encodings that reads each line by itself
    thousands  what may stand between thousands, as in 1.234,5: ',', '.', ' ' or "'"; None: nothing
    dates      'day first' (31.12.2024, 31/12/2024), 'month first', or None: 2024-12-31, which is read in any case
    missing    what a missing cell may hold, compared without the spaces around it
    header     whether the first line holds the names; if not, `names` does
    trim       whether spaces around a name or a cell are no part of it (numbers and ids never keep them)

    quoted_newlines  whether a quoted cell may go over several lines. If not, every line is a row. If so, the file must
        be written as RFC 4180 has it: a stray quote takes the rows behind it, which are other people's, into its own
    """

    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    missing: tuple[str, ...] = MISSING_WORDS
    header: bool = True
    names: tuple[str, ...] = ()
    trim: bool = True
    quoted_newlines: bool = False
    thousands: str | None = None
    dates: str | None = None

    def __post_init__(self) -> None:
        for key in ("missing", "names"):
            object.__setattr__(self, key, _words(key, getattr(self, key)))
        for key in ("header", "trim", "quoted_newlines"):
            if not isinstance(getattr(self, key), bool):
                raise PlanError(f"text.{key} must be true or false, got {_short(getattr(self, key))}.")
        _check_marks(self.separator, self.decimal)
        if self.thousands is not None and (self.thousands not in [*THOUSANDS] or self.thousands == self.decimal):
            marks = ", ".join(map(repr, THOUSANDS))
            raise PlanError(
                f"text.thousands must be one of {marks}, and not the decimal mark, got {_short(self.thousands)}."
            )
        if self.dates not in (None, *ORDERS):
            raise PlanError(f"text.dates must be one of {', '.join(map(repr, ORDERS))}, got {_short(self.dates)}.")
        _check_encoding(self.encoding)
        padded = [word for word in self.missing if word != word.strip()]
        if padded:
            raise PlanError(
                f"text.missing holds {_short(padded[0])}, but cells are compared without the spaces around them. "
                "Remove the spaces."
            )
        if len(self.missing) > _MOST_WORDS or any(len(word) > _LONGEST_WORD for word in self.missing):
            raise PlanError(
                f"text.missing holds at most {_MOST_WORDS} words of at most {_LONGEST_WORD} characters, got "
                f"{len(self.missing)} words. What cannot be read counts as missing anyway."
            )
        _check_names(self.header, self.names)

    def to_dict(self) -> dict[str, Any]:
        """The keys of [text] that say something."""
        usual = asdict(TextFormat())
        said = {key: value for key, value in asdict(self).items() if value != usual[key]}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}

    @cached_property
    def missing_bytes(self) -> frozenset[bytes]:
        """The words for a missing cell as they stand in a file."""
        return frozenset(word.encode() for word in self.missing)


def _words(key: str, given: object) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
        raise PlanError(f"text.{key} must be a list of words, got {_short(given)}.")
    for word in given:
        if len(word) > 1000 or any(0xD800 <= ord(character) <= 0xDFFF for character in word):
            raise PlanError(f"text.{key} must hold Unicode text of at most 1000 characters, got {_short(word)}.")
    return tuple(given)


def _check_marks(separator: object, decimal: object) -> None:
    if decimal not in (".", ","):
        raise PlanError(f"text.decimal must be '.' or ',', got {_short(decimal)}.")
    if separator is None:
        if decimal == ",":
            raise PlanError("text.decimal = ',' needs text.separator to be another character. Add it: ';' is usual.")
        return
    if not isinstance(separator, str) or len(separator) != 1:
        raise PlanError(f"text.separator must be one character, got {_short(separator)}.")
    if not separator.isascii() or separator.isalnum() or separator in '+-."\r\n\0':
        raise PlanError(
            f"text.separator must be an ASCII character that no number, quote or line end has, got {separator!a}. "
            "Usual are ',', ';', '|' and the tab."
        )
    if separator == decimal:
        raise PlanError(f"text.separator and text.decimal must differ, got {separator!r} for both. Change one.")


def _check_encoding(encoding: object) -> None:
    problem = f"text.encoding must be a text encoding, as 'utf-8', 'latin-1' or 'cp1252', got {_short(encoding)}."
    if not isinstance(encoding, str) or "\0" in encoding:
        raise PlanError(problem)
    try:
        name = codecs.lookup(encoding).name.replace("_", "-")
        "0".encode(encoding)  # refused by what Python calls a codec and is none of text
    except (LookupError, UnicodeError):
        raise PlanError(problem) from None
    if name.replace("-", "").startswith(tuple(word.replace("-", "") for word in _UNUSABLE)):
        raise PlanError(
            f"text.encoding = {_short(encoding)} cannot be read line by line: what a byte means hangs on those before "
            "it. Write the file anew as 'utf-8'."
        )


def _check_names(header: bool, names: tuple[str, ...]) -> None:
    if header and names:
        raise PlanError("text.names is for files without a header line. Remove it, or set text.header = false.")
    if not header and not names:
        raise PlanError("text.header = false needs text.names, the columns' names in order. Add them.")
    seen: set[str] = set()
    for name in names:
        if not name.strip():
            raise PlanError("every name of text.names must be a word, and one is blank. Name that column.")
        if name in seen:
            raise PlanError(f"text.names must be unique, but {_short(name)} stands there twice. Rename one.")
        seen.add(name)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ------------------------------------------------------------------------------------------------------------- guesses

FIRST_BYTES = 1 << 20
_SEPARATORS = (",", ";", "\t", "|")
_MARKS = {  # at a file's beginning; utf-32 before utf-16, whose mark begins alike
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
_ALSO_MISSING = ("-", "--", "?", ".", "*", "n/a", "n.a.", "#N/A")  # beside the usual words
_NOT_WINDOWS = rb"[\x81\x8d\x8f\x90\x9d]"  # bytes that cp1252 does not have
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_FEWEST_CODES = 20
_LOOKED_AT = 1000  # rows, to tell separators apart


def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    point = re.escape(decimal)
    whole = r"\d+" if thousands is None else rf"(?:\d{{1,3}}(?:{THOUSANDS[thousands]}\d{{3}})+|\d+)"
    return re.compile(rf"[+-]?({whole}({point}\d*)?|{point}\d+)([eE][+-]?\d+)?")


# The ways to write a number; of two that explain as many cells the first is taken.
_WAYS: list[tuple[str, str | None]] = [(decimal, None) for decimal in ".,"] + [
    (d, t) for d in ".," for t in THOUSANDS if d != t
]
_NUMBER = {way: _pattern(*way) for way in _WAYS}


@dataclass(frozen=True)
class Guess:
    """How a file seems to be written, and the cells of its first lines, those of the header among them."""

    text: TextFormat
    rows: list[list[str]]


def guess_text(place: Place) -> Guess:
    """Look at the beginning of a CSV file."""
    raw, whole = _first_bytes(place)
    encoding = _encoding(raw)
    written = _lines(raw, encoding, whole, place)
    records = _records(written, "\t" if place.suffix == ".tsv" else ",")
    if records is None:
        raise DataError(f"{place.name} must be lines of cells, and its first lines cannot be read as that.")
    separator, rows = records
    rows = [[cell.strip() for cell in row] for row in rows]
    decimal, thousands = _way(rows, separator)
    found = set(chain.from_iterable(rows[1:]))
    text = TextFormat(
        separator,
        decimal,
        encoding,
        missing=(*MISSING_WORDS, *(word for word in _ALSO_MISSING if word in found)),
        quoted_newlines=_has_cells_of_several_lines(written, separator, whole),
        thousands=thousands,
        dates=_order_of_dates(found),
    )
    return Guess(text, rows)


def _order_of_dates(cells: set[str]) -> str | None:
    """Of dates with the year last: which part goes beyond 12, and with points between them the day is first."""
    found = [found for cell in cells if (found := YEAR_LAST.match(cell)) is not None]
    beyond = [any(int(one[part]) > 12 for one in found) for part in (1, 3)]
    if beyond[0] != beyond[1]:
        return ORDERS[0] if beyond[0] else ORDERS[1]
    return ORDERS[0] if found and not any(beyond) and all(one[2] == "." for one in found) else None


def guess_header(data: str | Path) -> TextFormat | None:
    """The same for whatever files a path stands for, whose first line must hold names; None where they are no text."""
    place = expand(str(data))[0]
    if place.kind != "csv":
        return None
    found = guess_text(place)
    numbers = [name for name in found.rows[0] if is_number(name, found.text)]
    # Codes of species or members beside a word: many whole numbers, each once, as a row of cells hardly is.
    codes = _FEWEST_CODES <= len(set(numbers)) == len(numbers) < len(found.rows[0])
    codes = codes and all(name.isdecimal() for name in numbers)
    if numbers and not codes:
        raise DataError(f"the first line of {place.name} must hold the columns' names, and it holds numbers. Add them.")
    return found.text


def is_number(cell: str, text: TextFormat) -> bool:
    """Whether a cell is a number, written so."""
    return _NUMBER[text.decimal, text.thousands].fullmatch(cell.strip()) is not None


def without_thousands(cell: str, text: TextFormat) -> str:
    """The same number without marks between its thousands."""
    return cell if text.thousands is None else re.sub(THOUSANDS[text.thousands], "", cell)


def _first_bytes(place: Place) -> tuple[bytes, bool]:
    """The beginning of the file, and whether that is all of it."""
    import pyarrow as pa

    try:
        with place.open_stream() as stream:
            raw = bytes(stream.read(FIRST_BYTES + 1))
    except (OSError, pa.ArrowException):
        raise DataError(f"{place.name} cannot be read; it may be damaged or out of reach.") from None
    return raw[:FIRST_BYTES], len(raw) <= FIRST_BYTES


def _encoding(raw: bytes) -> str:
    """By the mark at the file's beginning; else UTF-8 if it is that, else what Windows or Unix wrote before it."""
    for mark, name in _MARKS.items():
        if raw.startswith(mark):
            return name
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        # Only the last character may be cut off, by the end of what was read.
        if error.reason == "unexpected end of data" and len(raw) == FIRST_BYTES:
            return "utf-8"
        return "cp1252" if re.search(rb"[\x80-\x9f]", raw) and not re.search(_NOT_WINDOWS, raw) else "latin-1"
    return "utf-8"


def _lines(raw: bytes, encoding: str, whole: bool, place: Place) -> str:
    """The text up to its last whole line."""
    text = raw.decode(encoding, errors="replace")
    if not whole:
        text = text[: 1 + max(text.rfind("\n"), text.rfind("\r"))]
        if not text:
            raise DataError(f"the first line of {place.name} is longer than 1 MiB: it cannot be a line of a table.")
    if not text.strip():
        raise DataError(f"{place.name} is empty: it must hold a header and at least 2 rows.")
    if _CONTROL.search(text):
        raise DataError(f"{place.name} holds bytes that no text has. Save it as CSV text in UTF-8.")
    return text


def _records(text: str, usual: str) -> tuple[str, list[list[str]]] | None:
    """The separator that cuts lines most evenly into numbers, and the records it gives."""
    found: list[tuple[tuple[float, float, int, bool], str, list[list[str]]]] = []
    for separator in _SEPARATORS:
        try:
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
        except csv.Error:
            continue
        width = len(rows[0])
        even = sum(len(row) == width for row in rows) / len(rows) * (1.0 if width > 1 else 0.5)
        cells = [cell for row in rows[:_LOOKED_AT] for cell in row]
        numbers = max(map(_count, [cells] * len(_WAYS), _WAYS)) / len(cells)
        found.append(((even, numbers, width, separator == usual), separator, rows))
    if not found:
        return None
    _, separator, rows = max(found, key=lambda candidate: candidate[0])
    return separator, rows


def _has_cells_of_several_lines(text: str, separator: str, whole: bool) -> bool:
    """Whether there are such cells, and all of them are written as they should be: a stray quote is none."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    found, width = False, None
    try:
        for row in rows:
            width = width or len(row)
            if any("\n" in cell for cell in row):
                if len(row) != width:
                    return False
                found = True
    except csv.Error as error:
        return found and not whole and "end of data" in str(error)  # the last cell may be cut off
    return found


def _way(rows: Sequence[Sequence[str]], separator: str) -> tuple[str, str | None]:
    """The decimal mark and the mark between thousands that more cells are written with."""
    cells = [cell for row in rows for cell in row if not cell.isdigit()]  # those are numbers in every way
    ways = [way for way in _WAYS if way[0] != separator]
    return max(ways, key=lambda way: _count(cells, way))


def _count(cells: Sequence[str], way: tuple[str, str | None]) -> int:
    """How many are numbers, written that way."""
    return sum(_NUMBER[way].fullmatch(cell.strip()) is not None for cell in cells)
