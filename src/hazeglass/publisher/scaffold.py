"""A first plan.toml from a table's names and kinds. It asks for bounds and levels and never suggests any.

Where the data declares its types (Parquet, data frames) they are taken as they are and no cell is read. A CSV declares
nothing: its first lines are looked at here, on the publisher's machine, and what they suggest (separator, decimal mark,
encoding, kinds) is written down as a guess to be confirmed. Publishing then follows the plan and guesses nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from hazeglass._files import check_new_file
from hazeglass.bundle.columns import MOST_LEVELS, Column
from hazeglass.compute.places import Place, expand
from hazeglass.compute.readings import year_first
from hazeglass.compute.tables import check_names, declared_kinds, open_table
from hazeglass.compute.text import MISSING_WORDS, TextFormat, guess_text, is_number, without_thousands
from hazeglass.compute.warehouse import closing, is_warehouse_address
from hazeglass.compute.workbooks import workbook
from hazeglass.errors import DataError, HazeglassWarning, PlanError, quotes_no_cell, warn
from hazeglass.publisher.plan_columns import collected, grouped, names_an_id
from hazeglass.publisher.plan_file import toml_value, write_new_file

_WHOLE = re.compile(r"[+-]?\d+")
_TRUTHS = ({"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"}, {"0", "1"})
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)? ?(Z|[+-]\d\d:?\d\d)?")
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
# period_column = "month"   # what period a row is in is public, and this release is about one of them alone:
# period = "2025-03"        # releases of several periods do not add up for one row
#                           # (persons are in several: see [lifetime] in docs/guide/many.md)
# readings = 96             # with "readings": so many cells of one column are hidden together

# [publication]             # optional, for the statement, catalogues and registries: who publishes, for what, why so
# curator = ""              # also: contact, intended_use, region, sector, licence, justification, address
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
{key} = {name}
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


def write_scaffold(data: Any, out: str | Path, *, header: bool | None = None) -> Look:
    """Write a plan for `data`, to standard output where `out` is "-"; returns what was found."""
    place = None if str(out) == "-" else check_new_file(out)
    look = look_at(data, header=header)
    if not look.proposed and look.text is None:  # where all is declared as text, some of it has levels
        look = Look({name: "categorical" if kind == "text" else kind for name, kind in look.kinds.items()})
    if not look.proposed:
        raise DataError("a plan needs at least one column of numbers, levels or dates, and the data has none.")
    title = Path(str(data).removesuffix(".gz")).stem if isinstance(data, str | Path) and data != "-" else "My release"
    text = _HEAD.format(title=toml_value(title), text="" if look.text is None else _text_table(look.text))
    guess = "" if look.text is None else f"   # {_GUESS}"
    if not {"categorical", "ordinal", "text"}.isdisjoint(look.kinds.values()):
        text += _LEVELS
    proposed = [{"name": name, "kind": kind} for name, kind in look.kinds.items() if kind in _BODIES]
    for entry in grouped(proposed):
        key, kind = ("name" if "name" in entry else "names"), entry["kind"]
        written = "continuous" if kind == "date" else kind
        text += _COLUMN.format(key=key, name=toml_value(entry[key]), kind=written, guess=guess, body=_BODIES[kind])
    for name, kind in look.kinds.items():
        if kind == "text":
            text += _TEXT_COLUMN.format(name=toml_value(name))
    if place is None:
        sys.stdout.write(text)
    else:
        write_new_file(place, text)
    return look


def _text_table(text: TextFormat) -> str:
    keys = ("separator", "decimal", "thousands", "dates", "encoding", "quoted_newlines")
    pairs = {key: getattr(text, key) or None for key in keys}
    lines = [f"{key} = {toml_value(value)}   # {_GUESS}" for key, value in pairs.items() if value is not None]
    if not text.header:
        lines += ["header = false", f"names = {toml_value(text.names)}   # yours to choose, in the columns' order"]
    warning = _QUOTED if text.quoted_newlines else ""
    missing = f"missing = {toml_value(text.missing)}   # "
    usual = text.missing == MISSING_WORDS
    missing = f"# {missing}what a missing cell may hold" if usual else f"{missing}{_GUESS}"
    return _TEXT.format(pairs="\n".join(lines), warning=warning, missing=missing)


Given = tuple[float, float] | Sequence[str] | Sequence[bool]  # bounds, or levels


@quotes_no_cell
def frame_columns(data: Any, bounds: Mapping[str, Given], settings: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns of numbers and truths by their declared types, and those given bounds or levels; the first that fit.

    A column that `settings` name as an id_column or the like is none of them.
    """
    with closing(open_table(data, settings.get("text"))) as source:
        check_names(source.names)
        kinds = _without_ids(declared_kinds(source))
    given: dict[str, list[Any]] = {}
    for pattern, said in bounds.items():
        values = list(said) if isinstance(said, Iterable) and not isinstance(said, str) else []
        fitting = [name for name in kinds if name == pattern or fnmatchcase(name, str(pattern))]
        if not fitting:
            raise PlanError(f"bounds name {pattern!r}, and no column of the data is called so. Correct it.")
        words = _are_levels(values)
        if not words and (len(values) != 2 or any(isinstance(one, str) for one in values)):
            raise PlanError(f"bounds of {pattern!r} must be (lower, upper), or a list of levels, got {said!r}.")
        allowed = ("continuous", "integer", "other")
        odd = [name for name in fitting if kinds[name] == "date" or (not words and kinds[name] not in allowed)]
        if odd:
            raise PlanError(
                f"bounds are for columns of numbers, and {odd[0]!r} is declared as {kinds[odd[0]]}. Give a list of its "
                "levels; for dates write the plan out (`since`, `part`)."
            )
        given = {**dict.fromkeys(fitting, values), **given, **({pattern: values} if pattern in fitting else {})}

    def column(name: str) -> Column:
        kind, values = kinds[name], given.get(name, [None, None])
        if _are_levels(values):
            levels = tuple(one if isinstance(one, str) else str(one).lower() for one in values)
            kind = "ordinal" if kind == "ordinal" else "binary" if len(levels) == 2 else "categorical"
            return Column(name, kind, levels=levels)  # type: ignore[arg-type]
        if kind == "binary":
            return Column(name, "binary")
        return Column(name, "integer" if kind == "integer" else "continuous", *values)

    apart = [value for key, value in settings.items() if key.endswith("_column")]
    mine = [name for name in kinds if name not in apart]
    wanted = [name for name in mine if name in given or kinds[name] in ("continuous", "integer", "binary")]
    if not wanted:
        raise PlanError("the data declares no column of numbers, and none was given bounds or levels. Give them.")
    if out := [name for name in mine if name not in wanted]:
        warn(f"left out: {', '.join(out)}; give them levels or bounds.", HazeglassWarning)
    return collected(column, wanted)


def _are_levels(given: Sequence[Any]) -> bool:
    return any(given and all(isinstance(one, kind) for one in given) for kind in (str, bool))


@quotes_no_cell
def look_at(data: Any, *, header: bool | None = None) -> Look:
    """Declared names and kinds; of a CSV, those its first lines suggest. Whether the first line holds names is said by
    `header`; None: it does, and is refused where it looks like data."""
    if isinstance(data, str | Path) and not is_warehouse_address(data):
        first = expand(str(data))[0]
        if first.kind == "csv":
            return _look_at_text(first, header)
    if header is False:
        raise DataError("only a CSV can be without a header line: other tables name their columns. Leave it out.")
    with closing(open_table(data)) as source:
        check_names(source.names)
        kinds = source.kinds()
    if isinstance(data, str | Path) and not is_warehouse_address(data) and first.kind == "excel":
        names, columns = workbook(first)
        words = {name: [cell for cell in cells if cell is not None] for name, cells in zip(names, columns, strict=True)}
        kinds |= {name: _kind(words[name], TextFormat()) for name, kind in kinds.items() if kind == "text"}
    return Look(_without_ids(kinds))


def _look_at_text(place: Place, header: bool | None) -> Look:
    found = guess_text(place)
    text, (first, *others) = found.text, found.rows
    if header is None:
        _check_data(first, text, place)
    named = header is not False
    if named:
        _check_header(first, place)
    names = first if named else [f"x{k + 1}" for k in range(len(first))]
    cells = others if named else found.rows
    kinds = {name: _kind([row[k] for row in cells if k < len(row)], text) for k, name in enumerate(names)}
    return Look(_without_ids(kinds), replace(text, header=named, names=() if named else tuple(names)))


def _check_data(names: Sequence[str], text: TextFormat, place: Place) -> None:
    """Nothing is quoted: in a file without a header the names would be cells."""
    if any(is_number(name, text) or name in text.missing for name in names if name):
        raise DataError(
            f"the first line of {place.name} must hold the columns' names, and it holds numbers or words for missing "
            "cells. Add a line of names, use --no-header if there is none, or --header if those are the names."
        )


def _check_header(names: Sequence[str], place: Place) -> None:
    if not all(names) or len(set(names)) < len(names):
        problem = "equal names" if all(names) else "a column without a name"
        raise DataError(
            f"every column must have a name of its own, and the first line of {place.name} has {problem}. Correct it, "
            "or use --no-header if it holds no names."
        )


def _kind(cells: Sequence[str], text: TextFormat) -> str:
    said = [cell for cell in map(str.strip, cells) if cell not in text.missing]
    if not said:
        return "other"
    words, numbers = set(said), [without_thousands(cell, text) for cell in said if is_number(cell, text)]
    if {word.lower() for word in words} in _TRUTHS:
        return "binary"
    if len(numbers) >= _ENOUGH * len(said):
        return "integer" if all(map(_WHOLE.fullmatch, numbers)) else "continuous"
    if all(_DATE.fullmatch(year_first(cell, text)) for cell in said):
        return "date"
    few = 2 * len(words) <= len(said) and len(words) <= MOST_LEVELS and max(map(len, words)) <= _LONGEST_WORD
    return "categorical" if few else "text"


def _without_ids(kinds: dict[str, str]) -> dict[str, str]:
    """The same, but whole numbers and text whose name says that they name somebody are ids."""
    return {
        name: "id" if kind in ("integer", "text", "categorical") and names_an_id(name) else kind
        for name, kind in kinds.items()
    }
