"""How a text file is to be read: a public choice made before the file is opened, never guessed while reading it."""

from __future__ import annotations

import codecs
import re
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from hazeglass.errors import PlanError

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
