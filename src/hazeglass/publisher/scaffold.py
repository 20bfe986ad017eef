"""A first plan.toml from a table's names and kinds. It asks for bounds and levels and never suggests any.

Where the data declares its types (Parquet, data frames) they are taken as they are and no cell is read. A CSV declares
nothing: its first lines are looked at here, on the publisher's machine, and what they suggest (separator, decimal mark,
encoding, kinds) is written down as a guess to be confirmed. Publishing then follows the plan and guesses nothing.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hazeglass.bundle.columns import MOST_LEVELS
from hazeglass.compute.places import Place, expand
from hazeglass.compute.tables import check_names, open_table
from hazeglass.compute.text import MISSING_WORDS, TextFormat
from hazeglass.errors import DataError, quotes_no_cell
from hazeglass.publisher.plan_file import check_new_file, toml_value, write_new_file

__all__ = ["Look", "look_at", "write_scaffold"]

FIRST_BYTES = 1 << 20
_SEPARATORS = (",", ";", "\t", "|")
_MARKS = {  # at a file's beginning; utf-32 before utf-16, whose mark begins alike
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
_NUMBER = {mark: re.compile(rf"[+-]?(\d+({mark}\d*)?|{mark}\d+)([eE][+-]?\d+)?") for mark in (r"\.", ",")}
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_WHOLE = re.compile(r"[+-]?\d+")
_MARKS_OF_MISSING = ("?", "-", ".", "*", "#N/A")
_TRUTHS = ({"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"}, {"0", "1"})
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)? ?(Z|[+-]\d\d:?\d\d)?")
_ID = re.compile(r"(?i:(.*[\W_])?(id|uuid|guid|ssn|iban|e-?mail|phone))|.*[a-z](Id|ID|Uuid|UUID)")
_LONGEST_WORD = 60  # of a level that is worth a guess
_ENOUGH = 0.9  # of a column's cells are numbers: the others will count as missing
_GUESS = "a guess from the first lines: confirm or change"

_HEAD = """\
# A hazeglass plan: everything in this file is public.
[release]
title = {title}
form = "moments"            # "moments" (best for graphs) | "synthetic" (made-up rows) | "table" (noisy rows)
protects = "record"         # what is hidden: "record" (a row) | "person" | "entry" (a cell) | "readings" | "column"
# scale = "linear"          # moments and synthetic rows see each column by its rank; say "linear" where columns add up,
#                           # as the voltages of a grid do (docs/guide/which-scale.md)
# id_column = "customer"    # with "person": whose row it is, never released; and
# max_rows = 8              # at most so many rows of one person are used
# persons = 1200            # with "person": their public number, where some may have no row
# readings = 96             # with "readings": so many cells of one column are hidden together
{text}
[budget]
epsilon = 1.0               # smaller is more private; 1 is strong, above 10 is weak
delta = 1e-6                # keep it well below 1 / (number of rows)

# Bounds: what is the smallest and the largest value this quantity can take, as anyone who knows the subject could say
# without seeing your data? Use physical limits, the meter's range, a rule or a law. Do NOT use the minimum and maximum
# of the data: they are facts about single people, and they would be published. Values outside are moved to the bound.
"""

_TEXT = """
# How the file is to be read. This and the kinds below are guesses from its first lines (at most 1 MiB of them), looked
# at on this machine: confirm or change them, because publishing follows this plan and guesses nothing.
[text]
{pairs}
{warning}{missing}
"""
_QUOTED = """\
# Some quoted cells go over several lines. With quoted_newlines the promise needs a file without a stray quote, because
# one takes the rows behind it into its own. Without it every line is a row, and those cells break theirs.
"""

_LEVELS = """
# Levels: which words can a cell of the column hold, as anyone who knows the subject could say without seeing your data?
# Use the choices of a form, a code book, a classification. Whatever is not listed counts as missing.
"""
_BOUNDED = """\
# lower =                   # to fill in
# upper =                   # to fill in
# reason =                  # why the bounds are public, for the statement
"""
_LISTED = """\
# levels =                  # to fill in, {order}
# reason =                  # why the levels are public, for the statement
"""
_BODIES = {
    "continuous": _BOUNDED,
    "integer": _BOUNDED,
    "date": f"""\
since = "1970-01-01"        # days since then; or, in place of since, lower and upper, kind = "ordinal" and one of
#                           # part = "hour", part = "weekday", part = "month"
{_BOUNDED}""",
    "binary": """\
# levels = ["no", "yes"]    # its two words, where they are not true and false, yes and no, or 1 and 0
""",
    "categorical": _LISTED.format(order='and kind = "ordinal" where they have an order, from the lowest on'),
    "ordinal": _LISTED.format(order="from the lowest on"),
}
_COLUMN = """
[[columns]]
name = {name}
kind = "{kind}"{guess}
{body}"""
_TEXT_COLUMN = """
# [[columns]]               # text: list its levels, or leave it out where it is free text or an id
# name = {name}
# kind = "categorical"
# levels =
"""


@dataclass(frozen=True)
class Look:
    """A table's columns, each of one of the kinds of a plan or a 'date', 'text' that may be anything, an 'id' by its
    name, or 'other'; and how its text seems to be written (None: not text)."""

    kinds: dict[str, str]
    text: TextFormat | None = None

    @property
    def proposed(self) -> dict[str, str]:
        """The columns that a release can hold."""
        return {name: kind for name, kind in self.kinds.items() if kind in _BODIES}

    @property
    def left_out(self) -> list[str]:
        """The names of the others."""
        return [name for name, kind in self.kinds.items() if kind not in _BODIES]


def write_scaffold(data: Any, out: str | Path, *, header: bool = True) -> Look:
    """Write a plan for `data`; returns what was found."""
    out = check_new_file(out)
    look = look_at(data, header=header)
    if not look.proposed and look.text is None:  # where all is declared as text, some of it has levels
        look = Look({name: "categorical" if kind == "text" else kind for name, kind in look.kinds.items()})
    if not look.proposed:
        raise DataError("a plan needs at least one column of numbers, levels or dates, and the data has none.")
    title = Path(data).stem if isinstance(data, str | Path) else "My release"
    text = _HEAD.format(title=toml_value(title), text="" if look.text is None else _text_table(look.text))
    guess = "" if look.text is None else f"   # {_GUESS}"
    if not {"categorical", "ordinal", "text"}.isdisjoint(look.kinds.values()):
        text += _LEVELS
    for name, kind in look.kinds.items():
        if kind in _BODIES:
            written = "continuous" if kind == "date" else kind
            text += _COLUMN.format(name=toml_value(name), kind=written, guess=guess, body=_BODIES[kind])
        elif kind == "text":
            text += _TEXT_COLUMN.format(name=toml_value(name))
    write_new_file(out, text)
    return look


def _text_table(text: TextFormat) -> str:
    pairs = {key: getattr(text, key) or None for key in ("separator", "decimal", "encoding", "quoted_newlines")}
    lines = [f"{key} = {toml_value(value)}   # {_GUESS}" for key, value in pairs.items() if value is not None]
    if not text.header:
        lines += ["header = false", f"names = {toml_value(text.names)}   # yours to choose, in the columns' order"]
    warning = _QUOTED if text.quoted_newlines else ""
    missing = f"missing = {toml_value(text.missing)}   # "
    usual = text.missing == MISSING_WORDS
    missing = f"# {missing}what a missing cell may hold" if usual else f"{missing}{_GUESS}"
    return _TEXT.format(pairs="\n".join(lines), warning=warning, missing=missing)


@quotes_no_cell
def look_at(data: Any, *, header: bool = True) -> Look:
    """Declared names and kinds; of a CSV, those its first lines suggest. With `header` the first line holds names."""
    if isinstance(data, str | Path):
        first = expand(str(data))[0]
        if first.kind == "csv":
            return _look_at_text(first, header)
    if not header:
        raise DataError("only a CSV can be without a header line: other tables name their columns. Leave it out.")
    source = open_table(data)
    check_names(source.names)
    return Look(_without_ids(source.kinds()))


def _look_at_text(place: Place, header: bool) -> Look:
    raw, whole = _first_bytes(place)
    encoding = _encoding(raw)
    written = _lines(raw, encoding, whole, place)
    records = _records(written, "\t" if place.suffix == ".tsv" else ",")
    if records is None:
        raise DataError(f"{place.name} must be lines of cells, and its first lines cannot be read as that.")
    separator, rows = records
    decimal = "." if separator == "," else _decimal(rows)
    first = [cell.strip() for cell in rows[0]]
    if header:
        _check_header(first, decimal, place)
    names = first if header else [f"x{k + 1}" for k in range(len(first))]
    cells = rows[1:] if header else rows
    marks = {cell.strip() for row in cells for cell in row}.intersection(_MARKS_OF_MISSING)
    missing = (*MISSING_WORDS, *sorted(marks))
    kinds = {name: _kind([row[k] for row in cells if k < len(row)], decimal, missing) for k, name in enumerate(names)}
    text = TextFormat(
        separator,
        decimal,
        encoding,
        missing,
        header=header,
        names=() if header else tuple(names),
        quoted_newlines=_has_cells_of_several_lines(written, separator, whole),
    )
    return Look(_without_ids(kinds), text)


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
    """By the mark at the file's beginning; else UTF-8 if it is that, else Latin-1, in which every byte is a letter."""
    for mark, name in _MARKS.items():
        if raw.startswith(mark):
            return name
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        # Only the last character may be cut off, by the end of what was read.
        return "utf-8" if error.reason == "unexpected end of data" and len(raw) == FIRST_BYTES else "latin-1"
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
        cells = [cell for row in rows[:1000] for cell in row]
        numbers = max(sum(_is_number(cell, mark) for cell in cells) for mark in (".", ",")) / len(cells)
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


def _decimal(rows: Sequence[Sequence[str]]) -> str:
    """The mark that more numbers are written with."""
    cells = [cell for row in rows for cell in row]
    written = {mark: sum(mark in cell and _is_number(cell, mark) for cell in cells) for mark in (".", ",")}
    return "," if written[","] > written["."] else "."


def _is_number(cell: str, decimal: str) -> bool:
    return _NUMBER["," if decimal == "," else r"\."].fullmatch(cell.strip()) is not None


def _check_header(names: Sequence[str], decimal: str, place: Place) -> None:
    """Nothing is quoted: in a file without a header the names would be cells."""
    said = [name for name in names if name]
    if any(_is_number(name, decimal) or name in MISSING_WORDS for name in said):
        raise DataError(
            f"the first line of {place.name} must hold the columns' names, and it holds numbers or words for missing "
            "cells. Add a line of names, or use --no-header if there is none."
        )
    if not all(names) or len(set(names)) < len(names):
        problem = "equal names" if all(names) else "a column without a name"
        raise DataError(
            f"every column must have a name of its own, and the first line of {place.name} has {problem}. Correct it, "
            "or use --no-header if it holds no names."
        )


def _kind(cells: Sequence[str], decimal: str, missing: Sequence[str] = MISSING_WORDS) -> str:
    said = [cell for cell in map(str.strip, cells) if cell not in missing]
    if not said:
        return "other"
    words, numbers = set(said), [cell for cell in said if _is_number(cell, decimal)]
    if {word.lower() for word in words} in _TRUTHS:
        return "binary"
    if len(numbers) >= _ENOUGH * len(said):
        return "integer" if all(map(_WHOLE.fullmatch, numbers)) else "continuous"
    if all(map(_DATE.fullmatch, said)):
        return "date"
    few = 2 * len(words) <= len(said) and len(words) <= MOST_LEVELS and max(map(len, words)) <= _LONGEST_WORD
    return "categorical" if few else "text"


def _without_ids(kinds: dict[str, str]) -> dict[str, str]:
    """The same, but whole numbers and text whose name says that they name somebody are ids."""
    return {
        name: "id" if kind in ("integer", "text", "categorical") and _ID.fullmatch(name) else kind
        for name, kind in kinds.items()
    }
