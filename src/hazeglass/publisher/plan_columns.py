"""Many columns in a few lines: [defaults], lists of names and patterns become one entry per column, and back.

An entry of [[columns]] says which columns it is about by `name`, by `names` (a list) or by `match` (a pattern such as
"sensor_*" over the data's names). A column that one entry names takes no other's; of two patterns the first counts.
What an entry does not say, [defaults] says for all. And what is checked of columns and names, and asked about a plan.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from hazeglass.bundle.columns import ABSENCE, LEVELLED, Column, origins, with_absences
from hazeglass.bundle.manifest import SEASON_NAMES, Series
from hazeglass.bundle.verify import LARGEST_JSON, MOST_FILES
from hazeglass.compute.text import TextFormat
from hazeglass.errors import (
    BoundsMissingError,
    DataError,
    HazeglassError,
    InputError,
    PlanError,
    PrivacyRefusal,
    did_you_mean,
)
from hazeglass.guarantee.gdp import VERY_WEAK_EPSILON, explain

if TYPE_CHECKING:
    from hazeglass.compute.readings import Reading
    from hazeglass.compute.tables import TableSource
    from hazeglass.publisher.plan import Plan

E = TypeVar("E")
T = TypeVar("T")
_WAYS = ("name", "names", "match")
_OF_NUMBERS = ("lower", "upper", "transform")
_MOST_GAPS = 25
_MOST_COLUMNS = 100_000
_FEW = 8  # columns alike that are still written one by one
# At most so many bytes of release.json are about a column, beside its name and reason; about a part; about the rest.
_LEVEL_BYTES, _COLUMN_BYTES, _PART_BYTES, _OTHER_BYTES, _OTHER_FILES = 10, 560, 170, 1 << 17, 10
_BLOCK = re.compile(r"(?m)^(?=[ \t]*\[\[columns\]\])")
_WIDE, _FEW_ROWS = 1000, 5  # a factor between bounds, and rows for each column
_PEOPLE = re.compile(
    r"(?i)\b(?:patient|person|people|customer|client|user|household|student|pupil|citizen|employee)s?\b"
)
_ID = re.compile(
    r"[a-z](?:I[dD]|Uuid|UUID)$|(?i:(?:^|[\W_])(?:id|uuid|guid|ssn|iban|e-?mail|phone)$|^(?:customer|patient|person|user|client"
    r"|subject|participant|household|account|member|student)(?:[_ .-]?(?:no|nr|number|key|code|name))?$)"
)


def patterns(document: Mapping[str, Any]) -> list[str]:
    """The patterns of a document, in order; names of the data are needed where there are any."""
    entries = document.get("columns")
    found = [entry.get("match") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [pattern for pattern in found if isinstance(pattern, str)]


def with_patterns_as_names(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document in which every pattern stands for one column: enough to check all that does not need the data."""
    entries = document["columns"]
    return {**document, "columns": [{("name" if k == "match" else k): v for k, v in e.items()} for e in entries]}


def expanded(document: Mapping[str, Any], data: Any = None) -> dict[str, Any]:
    """The same document with one entry per column and no [defaults]; patterns choose among the names of `data`."""
    given = dict(document)
    defaults = given.pop("defaults", {})
    if not isinstance(given.get("columns"), list) or not all(isinstance(entry, dict) for entry in given["columns"]):
        return given  # whoever checks its structure will say so
    if not isinstance(defaults, dict) or any(way in defaults for way in _WAYS):
        raise PlanError("[defaults] must be a table of what columns have in common, and names no column. Correct it.")
    wild = patterns(document)
    if wild and data is None:
        raise PlanError(
            f"match = {wild[0]!r} chooses among the data's columns, so the data's names are needed. Add "
            "--data FILE, in Python Plan.load(path, data=...), or list the columns with names = [...] instead."
        )
    names = _names_of(data, document.get("text")) if wild else ()
    given["columns"] = _entries(given["columns"], defaults, names, document.get("release"))
    return given


def _names_of(data: Any, text: Any) -> Sequence[str]:
    """The names of the data's columns, read as the document says; no cell is."""
    from hazeglass.compute.tables import open_table
    from hazeglass.compute.warehouse import closing

    with closing(open_table(data, TextFormat(**text) if isinstance(text, dict) else None)) as table:
        return tuple(table.names)


def _entries(
    columns: list[dict[str, Any]], defaults: Mapping[str, Any], names: Sequence[str], release: Any
) -> list[dict[str, Any]]:
    for entry in columns:
        if len([way for way in _WAYS if way in entry]) > 1:
            raise PlanError("an entry of [[columns]] has one of name, names and match, and one has two. Remove one.")
    said = [name for entry in columns for name in _named(entry)]
    if isinstance(release, dict):
        said += [release.get("id_column"), release.get("period_column")]  # which are never released
    taken = {name for name in said if isinstance(name, str)}
    made = []
    for entry in columns:
        own = {key: value for key, value in entry.items() if key not in _WAYS}
        levelled = "levels" in own or {**defaults, **own}.get("kind") in LEVELLED
        common = {key: value for key, value in defaults.items() if not (levelled and key in _OF_NUMBERS)}
        about: Iterable[Any] = _named(entry)
        if "match" in entry:
            about = [name for name in names if name not in taken and fnmatchcase(name, str(entry["match"]))]
            if not about:
                raise PlanError(f"match = {entry['match']!r} fits no column of the data. Check how it is written.")
            taken.update(about)
        elif not any(way in entry for way in _WAYS):
            made.append({**common, **own})  # without a name: refused where the structure is checked
        made += [{"name": name, **common, **own} for name in about]
    return made


def _named(entry: Mapping[str, Any]) -> list[Any]:
    if "names" not in entry:
        return [entry["name"]] if "name" in entry else []
    listed = entry["names"]
    if not isinstance(listed, list) or not listed or not all(isinstance(name, str) for name in listed):
        raise PlanError("names in [[columns]] must be a list of at least one column's name. Correct it.")
    return listed


def collected(make: Callable[[E], T], entries: Iterable[E], found: Iterable[HazeglassError] = ()) -> tuple[T, ...]:
    """One value per entry; every gap is told at once, behind those that were found already."""
    made, gaps = [], list(found)
    for entry in entries:
        try:
            made.append(make(entry))
        except HazeglassError as error:
            gaps.append(error)
    if gaps:
        raise all_of(gaps)
    return tuple(made)


def all_of(errors: Sequence[HazeglassError]) -> HazeglassError:
    """One error as it is; several as one that lists them, those with the same remedy together and the remedy once."""
    if len(errors) == 1:
        return errors[0]
    facts: dict[str, list[str]] = {}
    for error in errors:
        fact, _, remedy = str(error).partition(". ")
        facts.setdefault(remedy, []).append(fact)
    gaps, left = [f"{len(errors)} things are missing or wrong:"], _MOST_GAPS
    for remedy, some in facts.items():
        shown, left = some[:left], left - len(some[:left])
        gaps += [f"{fact}. {remedy}" if remedy else fact for fact in shown] if len(some) == 1 else shown
        gaps += [f"... and {len(some) - len(shown)} more"] if len(some) > len(shown) else []
        gaps += [remedy] if remedy and len(some) > 1 else []
    together = type(max(errors, key=lambda error: isinstance(error, BoundsMissingError)))("\n  ".join(gaps))
    together.gaps = tuple(gaps)
    return together


def grouped(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs of many entries that differ in nothing but the name, each as one with names."""
    made: list[dict[str, Any]] = []
    for _, run in groupby(entries, key=lambda entry: repr([pair for pair in entry.items() if pair[0] != "name"])):
        same = [dict(entry) for entry in run]
        if len(same) > _FEW:
            same = [{"names": [entry["name"] for entry in same], **{k: v for k, v in same[0].items() if k != "name"}}]
        made += same
    return made


def filled(text: str, pattern: str, values: Mapping[str, str]) -> tuple[str, int]:
    """A plan's text with these values (as TOML writes them) for every column that fits, and how many those were.

    Comments and all other lines stay as they are; an entry of which some names fit becomes two.
    """
    from hazeglass.publisher.plan_file import toml_value

    head, *blocks = _BLOCK.split(text)
    count = 0
    for k, block in enumerate(blocks):
        try:
            entry = tomllib.loads(block)["columns"][0]
        except (tomllib.TOMLDecodeError, KeyError, RecursionError) as error:
            raise PlanError(f"the plan must be valid TOML before it is filled in: {error}.") from None
        listed = _named(entry)
        fitting = [name for name in listed if name == pattern or fnmatchcase(name, pattern)]
        others = [name for name in listed if name not in fitting]
        if entry.get("match") == pattern:
            count += 1
            blocks[k] = _set(block, values)
        elif fitting:
            count += len(fitting)
            kept = "" if not others else _set(block, {"names": toml_value(others)}).rstrip("\n") + "\n\n"
            blocks[k] = kept + _set(block, {"names": toml_value(fitting), **values} if others else values)
    return head + "".join(blocks), count


def _set(block: str, values: Mapping[str, str]) -> str:
    """An entry with these keys, each in the place of its own line, of the comment that asks for it, or last."""
    for key, value in values.items():
        what = r"(?:\[(?:[^\]\"]|\"(?:[^\"\\]|\\.)*\")*\])?.*" if key in ("names", "levels") else ".*"
        line = re.compile(rf"(?m)^[ \t]*#?[ \t]*{key}[ \t]*=[ \t]*{what}$")
        if line.search(block):
            block = line.sub(lambda found, new=f"{key} = {value}": new, block, count=1)  # type: ignore[misc]
        else:
            start, gap = block.rstrip("\n"), len(block) - len(block.rstrip("\n"))
            block = f"{start}\n{key} = {value}" + "\n" * max(1, gap)
    return block


def check_describable(plan: Plan, parts: int = 1) -> None:
    """Refuse, from public numbers alone, a release in so many parts that readers would refuse for its size."""
    said = [[column.name, column.reason, column.source, column.levels] for column in plan.columns]
    words = json.dumps(said, ensure_ascii=False)
    lines = _LEVEL_BYTES * sum(len(column.levels) for column in plan.columns)
    size = len(words.encode()) + lines + _COLUMN_BYTES * len(plan.columns) + _PART_BYTES * parts + _OTHER_BYTES
    if size > LARGEST_JSON:
        raise PlanError(
            f"release.json must be at most {LARGEST_JSON:,} bytes for anyone to read it, and {len(plan.columns):,} "
            f"columns with these names and reasons, in {parts:,} parts, may take {size:,}. Shorten the reasons, or "
            "release fewer columns."
        )
    if parts + _OTHER_FILES > MOST_FILES:
        raise PlanError(
            f"a release must be at most {MOST_FILES:,} files for anyone to read it, and this one would have {parts:,} "
            'parts. Release fewer columns or rows, or use form = "moments".'
        )


def readings(columns: Sequence[Column]) -> dict[str, Reading]:
    """How the cells of each column become numbers: of one that says where another's are missing, as the other's do."""
    from hazeglass.compute import readings as reading  # it loads what reads tables

    own = {one.name: one for one in columns if one.part != ABSENCE}
    made = {}
    for column, source in zip(columns, origins(columns), strict=True):
        read = own[str(column.source)] if column.part == ABSENCE else column
        levels = read.levels if read.part is None else ()
        whole, absence = read.kind == "integer", column.part == ABSENCE
        made[column.name] = reading.Reading(source, levels, read.part, read.since, whole=whole, absence=absence)
    return made


def columns_of(given: object) -> tuple[Column, ...]:
    """The columns of a plan, whatever was given for them, with those that say where others are missing."""
    columns = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | Mapping) else (given,)
    strange = next((entry for entry in columns if not isinstance(entry, Column)), None)
    if strange is not None or columns == (None,):
        raise PlanError(f"columns must be a list of hazeglass.Column, got an entry of type {type(strange).__name__}.")
    columns = with_absences([replace(column, cell_noise=None, response=None) for column in columns])
    if not 1 <= len(columns) <= _MOST_COLUMNS:
        raise PlanError(f"columns must be 1 to {_MOST_COLUMNS} entries long, got {len(columns)}.")
    return columns


def check_names(plan: Plan) -> None:
    """Every column once, never the id, and all of them among the names of a file without a header."""
    seen: set[str] = set()
    for name in plan.names:
        if name in seen:
            raise PlanError(f"column names must be unique, but the plan names {name!r} twice. Remove one.")
        seen.add(name)
    sources = origins(plan.columns)
    if plan.order_column == plan.id_column and plan.id_column is not None:
        raise PlanError("order_column must tell a person's rows apart, so it is not id_column. Name another one.")
    if plan.id_column in sources or plan.id_column in seen:
        raise PlanError(f"the id column {plan.id_column!r} must not be released: remove its [[columns]] entry.")
    if not isinstance(plan.text, TextFormat):
        raise PlanError(f"text must be a hazeglass.TextFormat, got {type(plan.text).__name__}.")
    listed = set(plan.text.names)
    for name in (*sources, *plan.chosen_by):
        if listed and name not in listed:
            meant = did_you_mean(name, listed) or " Correct one of the two."
            raise PlanError(f"the plan names column {name!r}, which is not among text.names.{meant}")
    words = set(plan.text.missing)
    for column in plan.columns:
        if both := words.intersection(column.levels):
            raise PlanError(
                f"column {column.name!r} has the level {min(both)!r}, which text.missing names as a missing cell. "
                "Remove it from one of the two."
            )


def check_columns(plan: Plan, source: TableSource) -> None:
    beside = () if plan.series is None else plan.series.sources
    wanted, times = dict.fromkeys((*origins(plan.columns), *plan.chosen_by, *beside)), Counter(source.names)
    for name in wanted:
        if times[name] > 1:
            raise DataError(f"the plan names column {name!r}, which the data has twice or more. Rename one of them.")
        if not times[name]:
            # In a file without a header the names are the cells of its first row: none is said unless others fit.
            found = sum(other in times for other in wanted)
            meant = did_you_mean(name, times.keys() - wanted.keys()) if 2 <= found == len(wanted) - 1 else ""
            raise DataError(
                f"the plan names column {name!r}, and the data has none of that name.{meant} Check how it is spelled, "
                "that the data begin with a row of names, and for a text file what the plan's [text] says of it."
            )


SERIES_KEYS = ("lags", "order_column", "order_step", "series_column", "seasons")


def series_of(plan: Plan) -> Series | None:
    """The keys of [release] about rows in time; refused where one is given and rows are none."""
    said = {key: getattr(plan, key) for key in SERIES_KEYS if getattr(plan, key) is not None}
    if plan.rows == "independent":
        said.pop("order_column", None)  # it tells rows of a table in a warehouse apart
        if said:
            raise PlanError(f'{min(said)} has no meaning without rows = "series". Remove it, or say that rows follow.')
        return None
    try:
        return Series(**{**said, "seasons": tuple(said.get("seasons", ()))})
    except InputError as error:
        raise PlanError(str(error)) from None


def check_series(plan: Plan, series: Series) -> None:
    """Refuse, in one sentence, what stacks of rows are not derived for."""
    if plan.form != "moments" or not plan.adaptive or plan.dependence != "linear":
        raise PlanError(
            'rows = "series" needs form = "moments", adaptive stages and dependence = "linear". Change the plan, or '
            "leave rows out."
        )
    if plan.period_column is not None:
        raise PlanError(
            'rows of one period are chosen before they could follow each other, so rows = "series" takes no '
            "period_column. Remove one of the two."
        )
    unordered = [column.name for column in plan.columns if not column.ordered]
    if unordered:
        raise PlanError(
            f"rows in time need columns with an order, and {unordered[0]!r} is categorical. Leave it out, or make it "
            "several binary columns."
        )
    if series.seasons and any(column.kind not in ("continuous", "integer") for column in plan.columns):
        raise PlanError("seasons need columns of numbers, continuous or integer. Leave others out, or seasons.")
    if series.seasons and set(plan.names) & set(SEASON_NAMES.values()):
        raise PlanError(f"{' and '.join(SEASON_NAMES.values())} are names of seasons. Rename the column.")
    taken = set(origins(plan.columns))
    for name in series.sources:
        if name in taken:
            raise PlanError(
                f"{name!r} says which rows follow each other, which is not protected, so it must not be a released "
                "column as well. Remove its [[columns]] entry."
            )
        if plan.text.names and name not in plan.text.names:
            raise PlanError(f"the plan names column {name!r}, which is not among text.names. Correct one of the two.")


# ------------------------------------------------------------------------------------------------- asked and insisted


def names_an_id(name: str) -> bool:
    """Whether a column is called as columns are that say whose row it is."""
    return _ID.search(name) is not None


def cautions(plan: Plan, rows: int | None = None) -> tuple[str, ...]:
    """What a careful colleague would ask about a plan, from what it says and from the number of rows."""
    said = list(explain(plan.guarantee, plan.unit, plan.delta).cautions)
    if plan.protects in ("entry", "readings", "record") and (found := _PEOPLE.search(plan.title)):
        said.append(
            f"The title speaks of {found[0].lower()}, and this plan protects {plan.unit.in_words}. Does one of them "
            'have several rows? Then use protects = "person" with id_column and max_rows.'
        )
    wide = [one.name for one in plan.columns if one.transform is None and 0 < (one.lower or 0) * _WIDE < one.upper]
    if wide and (plan.form == "table" or plan.scale == "linear"):
        more = f" and {len(wide) - 1} more" if len(wide) > 1 else ""
        said.append(
            f"The bounds of {wide[0]!r}{more} lie a factor of {_WIDE} or more apart: if most values are near the lower "
            'one, noise hides them. transform = "log" helps, and so do moments with scale = "scores".'
        )
    if rows is not None and rows < _FEW_ROWS * len(plan.columns):
        said.append(f"{rows:,} rows are few for {len(plan.columns)} columns: leave out columns you can do without.")
    if rows is not None and plan.delta * rows > 1:
        said.append(
            f"delta = {plan.delta:g} is more than 1 in {rows:,}: a release could show one whole row in that chance. "
            "Lower it well below 1 / rows."
        )
    return tuple(said)


def check_strength(plan: Plan, weak_on_purpose: bool = False) -> None:
    """A promise that hardly protects is made on purpose or not at all."""
    if plan.epsilon > VERY_WEAK_EPSILON and not weak_on_purpose:
        raise PrivacyRefusal(
            f"{explain(plan.guarantee, plan.unit, plan.delta).cautions[0]} Above {VERY_WEAK_EPSILON:g} a release is "
            "refused unless you insist with `--weak-on-purpose` (weak_on_purpose=True). Or lower epsilon."
        )
