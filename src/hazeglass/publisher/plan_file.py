"""The file plan.toml: its shape as a JSON Schema, one clear sentence when a plan does not have it, and its text."""

from __future__ import annotations

import json
import math
import secrets
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from numbers import Number, Real
from pathlib import Path
from typing import Any

import numpy as np

from hazeglass._files import new_file
from hazeglass.bundle.columns import KINDS, LEVELLED, MISSING, NOISES, PARTS, TRANSFORMS, Column
from hazeglass.bundle.manifest import MOST_LAGS, SEASONS, Publication
from hazeglass.bundle.moments import MOST_INDICATORS
from hazeglass.compute.text import ORDERS
from hazeglass.errors import BoundsMissingError, OutputError, PlanError, did_you_mean
from hazeglass.guarantee.budget import MOST_PERIODS
from hazeglass.guarantee.gdp import LARGEST_DELTA
from hazeglass.guarantee.units import UNITS
from hazeglass.publisher.plan_columns import collected, expanded, filled, grouped, with_patterns_as_names

_WHOLE = ("readings", "max_rows", "persons", "periods", "lags")
_NUMBER = {"type": "number"}
_TRUTH = {"type": "boolean"}
_TEXT = {"type": "string"}
_NAME = {"type": "string", "minLength": 1, "maxLength": 1000}
_PUBLISHED = {"type": "string", "minLength": 1, "maxLength": 2000}
_WORDS_LIST = {"type": "array", "maxItems": 100_000, "items": _TEXT}


def _table(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of a table with these keys and no others."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "additionalProperties": False, **needed, "properties": properties}


def _whole(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


PLAN_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_table(
        "release",
        "budget",
        "columns",
        release=_table(
            "title",
            "form",
            title={"type": "string", "minLength": 1, "maxLength": 500},
            form={"enum": ["table", "moments", "synthetic"]},
            protects={"enum": list(UNITS)},
            readings=_whole(1, 10**9),
            id_column=_NAME,
            max_rows=_whole(1, 10**9),
            persons=_whole(2, 10**12),
            period_column=_NAME,
            period={"type": ["string", "integer"], "minLength": 1, "maxLength": 200},
            row_counts={"enum": ["public"]},
            order={"enum": ["shuffled", "kept"]},
            scale={"enum": ["scores", "linear"]},
            dependence={"enum": ["linear", "curved"]},
            adaptive=_TRUTH,
            clip_radius={"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": "private"}]},
            round_integers=_TRUTH,
            exact=_TRUTH,
            rows={"enum": ["independent", "series"]},
            lags=_whole(1, MOST_LAGS),
            order_column=_NAME,
            order_step={"type": ["number", "string"]},
            series_column=_NAME,
            seasons={"type": "array", "minItems": 1, "items": {"enum": list(SEASONS)}},
        ),
        lifetime=_table(
            periods={
                "type": ["integer", "array"],
                "minimum": 2,
                "maximum": MOST_PERIODS,
                "minItems": 2,
                "maxItems": MOST_PERIODS,
                "items": {"type": ["string", "integer"], "minLength": 1, "maxLength": 200},
            }
        ),
        budget=_table(
            epsilon={"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
            delta={"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST_DELTA},
            mu={"type": "number", "exclusiveMinimum": 0, "maximum": 1e3},
        ),
        publication=_table(**{field.name: _PUBLISHED for field in fields(Publication)}),
        text=_table(
            separator=_TEXT,
            decimal=_TEXT,
            thousands=_TEXT,
            dates={"enum": [*ORDERS]},
            encoding=_TEXT,
            missing=_WORDS_LIST,
            header=_TRUTH,
            names=_WORDS_LIST,
            trim=_TRUTH,
            quoted_newlines=_TRUTH,
        ),
        columns={
            "type": "array",
            "minItems": 1,
            "maxItems": 100_000,
            "items": _table(
                "name",
                "kind",
                name=_NAME,
                kind={"enum": list(KINDS)},
                lower=_NUMBER,
                upper=_NUMBER,
                transform={"enum": list(TRANSFORMS)},
                noise={"enum": list(NOISES)},
                reason={"type": "string", "maxLength": 2000},
                levels={"type": "array"},  # bundle/columns.py says what they must be
                missing={"enum": list(MISSING)},
                source=_NAME,
                part={"enum": list(PARTS)},
                since=_TEXT,
            ),
        },
    ),
}

_PARTS = {"properties": PLAN_SCHEMA["properties"]}  # of a plan, each alone
_TEXTS = ("title", "id_column", "order_column", "series_column", "period_column", "period")
_WORDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "above {}",
    "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters long",
    "maxLength": "at most {} characters long",
    "minItems": "at least {} entries long",
    "maxItems": "at most {} entries long",
}


def check_structure(document: Mapping[str, Any], make: Callable[[dict[str, Any]], Any] = lambda _: None) -> Any:
    """What `make` makes of each column; an error lists all keys that are missing, unknown or wrong, and all gaps."""
    made = _made(document, PLAN_SCHEMA, make)
    _check_text(document["release"], _TEXTS)
    _check_text(document.get("publication", {}), [field.name for field in fields(Publication)])
    for column in document["columns"]:
        _check_text(column, ("name",))
    return made


def check_section(name: str, section: Mapping[str, Any]) -> None:
    """The same for one section alone."""
    _made({name: section}, _PARTS)
    _check_text(section, _TEXTS)


def _check_text(section: Mapping[str, Any], keys: Iterable[str]) -> None:
    for text in (str(section.get(key, "")) for key in keys):
        if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
            raise PlanError(f"titles and names must be Unicode text, got {text[:60]!a}. Write it anew.")


def _made(document: Mapping[str, Any], schema: dict[str, Any], make: Callable[..., Any] = lambda _: None) -> Any:
    """What `make` makes of each column; one error tells of all that is wrong with the document and with them."""
    import jsonschema

    errors = jsonschema.Draft202012Validator(schema).iter_errors(document)
    found = sorted(errors, key=lambda error: list(map(str, error.path)))
    wrong = {tuple(error.absolute_path)[:2] for error in found}
    entries = () if ("columns",) in wrong else enumerate(document.get("columns", ()))
    sound = [entry for k, entry in entries if ("columns", k) not in wrong]
    return collected(make, sound, [PlanError(_sentence(error, document)) for error in found])


def _sentence(error: Any, document: Mapping[str, Any]) -> str:
    where = _where(list(error.absolute_path), document)
    match error.validator:
        case "required":
            missing = next(key for key in error.validator_value if key not in error.instance)
            return f"{where} must have {missing!r}, and it is missing. Add it."
        case "additionalProperties":
            known = sorted(error.schema["properties"])
            unknown = next(key for key in error.instance if key not in known)
            meant = did_you_mean(unknown, known)
            return f"{where} does not know {_short(unknown)}.{meant} Known are: {', '.join(known)}."
        case "enum":
            allowed = ", ".join(map(repr, error.validator_value))
            meant = did_you_mean(error.instance, error.validator_value)
            return f"{where} must be one of {allowed}, got {_short(error.instance)}.{meant}"
        case "anyOf":
            return f'{where} must be a number above 0, or "private", got {_short(error.instance)}.'
        case "type":
            kind = f"of type {error.validator_value}" if error.validator_value != "array" else 'a list like ["a", "b"]'
            return f"{where} must be {kind}, got {_short(error.instance)}."
        case validator if validator in _WORDS:
            return f"{where} must be {_WORDS[validator].format(error.validator_value)}, got {_short(error.instance)}."
        case _:
            return f"{where}: {error.message}"


def _where(path: list[Any], document: Mapping[str, Any]) -> str:
    """'budget.epsilon', "column 'raf': lower", or 'the plan'."""
    if not path:
        return "the plan"
    if path[0] == "columns" and len(path) > 1:
        entry = document["columns"][path[1]]
        name = entry.get("name", f"number {path[1] + 1}") if isinstance(entry, dict) else f"number {path[1] + 1}"
        return f"column {_short(name)}" + (f": {path[2]}" if len(path) > 2 else "")
    return ".".join(map(str, path))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def plain_value(value: Any, key: str) -> Any:
    """Numbers as Python writes them, whatever library they came from."""
    if isinstance(value, np.bool_ | date):
        return value.isoformat() if isinstance(value, date) else bool(value)
    if isinstance(value, bool) or not isinstance(value, Number):
        return value
    if key == "period":  # a year, or the number of a month
        return str(value)
    try:
        number = float(value) if isinstance(value, Real | Decimal) else math.nan
    except OverflowError:
        number = math.inf
    except ValueError:  # a signalling NaN
        number = math.nan
    if math.isnan(number):
        raise PlanError(f"{key} must be a number, got {repr(value)[:100]}.")
    return int(number) if key in _WHOLE and number.is_integer() else number


def plain_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a document, whose whole numbers are left as they were written."""

    def section(given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {
            key: value if type(value) in (int, float) else plain_value(value, str(key)) for key, value in given.items()
        }

    return {
        key: [section(entry) for entry in given] if isinstance(given, list) else section(given)
        for key, given in document.items()
    }


def column_of(entry: Mapping[str, Any]) -> Column:
    """The column of a plan's entry, in which levels stand in the place of bounds."""
    said = [key for key in ("lower", "upper") if key in entry]
    if said and entry["kind"] in LEVELLED:
        raise PlanError(
            f"column {entry['name']!r} is {entry['kind']}: its levels take the place of bounds. Remove "
            f"{' and '.join(said)}."
        )
    return Column(**entry)


def differing(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not the usual ones; 0 is not False."""
    return {k: v for k, v in values.items() if not (type(v) is type(usual[k]) and v == usual[k])}


def column_entry(column: Column) -> dict[str, Any]:
    """The other way: what a plan.toml says of a column."""
    usual = {"transform": None, "noise": "rounded", "reason": "", "missing": "random"}
    usual |= dict.fromkeys(("source", "part", "since"))
    entry: dict[str, Any] = {"name": column.name, "kind": column.kind}
    if not column.levels:
        entry |= {"lower": column.lower, "upper": column.upper}
    elif column.part is None:
        entry["levels"] = list(column.levels)
    return {**entry, **differing({key: getattr(column, key) for key in usual}, usual)}


def plan_text(document: Mapping[str, Any]) -> str:
    """The document with the keys of a plan.toml, written so that reading it gives the same document."""
    check_structure(document)
    lines = ["# A hazeglass plan: everything in this file is public."]
    for section in ("release", "lifetime", "publication", "text", "budget"):
        if section in document:
            lines += [f"[{section}]", *_pairs(document[section]), ""]
    for column in grouped(document["columns"]):
        lines += ["[[columns]]", *_pairs(column), ""]
    return "\n".join(lines)


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {toml_value(value)}" for key, value in table.items()]


def toml_value(value: str | bool | int | float | Sequence[str]) -> str:
    """A value as TOML writes it; JSON's escapes are a subset of TOML's."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, int | float):
        return repr(value)
    return f"[{', '.join(map(toml_value, value))}]"


def read_plan(path: str | Path) -> str:
    """The text of a plan.toml."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")  # editors on Windows begin files with a mark
    except TypeError:
        what = type(path).__name__
        raise PlanError(f"a plan is a Plan or a plan.toml's path, got {what}. The data comes first, then it.") from None
    except FileNotFoundError:
        raise PlanError(f"there is no plan {str(path)!r}. `hazeglass plan new DATA --out {path}` makes one.") from None
    except UnicodeDecodeError:
        raise PlanError(f"the plan {str(path)!r} must be UTF-8 text, and is not. Save it as UTF-8.") from None
    except OSError as error:
        raise PlanError(f"the plan {str(path)!r} cannot be read: {error.strerror}.") from None


def toml_document(text: str, name: str) -> dict[str, Any]:
    """What a TOML text says."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlanError(f"{name} must be valid TOML: {error}.") from None


def fill_plan_file(path: str | Path, pattern: str, values: Mapping[str, Any]) -> int:
    """Write values for all columns that fit a pattern into a plan.toml; how many there were. The file stays whole."""
    path = Path(path)
    text, count = filled(read_plan(path), pattern, {key: toml_value(value) for key, value in values.items()})
    if not count:
        raise PlanError(f"no column of {path.name} fits {pattern!r}. Check how it is written.")
    entries = expanded(with_patterns_as_names(toml_document(text, path.name)))["columns"]
    fitting = [one for one in entries if one["name"] == pattern or fnmatchcase(one["name"], pattern)]
    _made({"columns": fitting}, _PARTS, _check_fillable)
    newline = "\r\n" if b"\r\n" in path.read_bytes() else "\n"
    draft = path.with_name(f".{path.name}.partial-{secrets.token_hex(8)}")
    try:
        draft.write_text(text, encoding="utf-8", newline=newline)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror}.") from None
    return count


def _check_fillable(entry: dict[str, Any]) -> None:
    """Refuse what no value that is filled in later makes right."""
    for key in ("lower", "upper"):
        if not abs(entry.get(key, 0)) < math.inf:
            raise PlanError(f"column {entry['name']!r}: {key} must be a finite number, got {entry[key]}. Correct it.")
    later = {"levels": ["0", "1"]} if entry["kind"] in LEVELLED and "part" not in entry else {}
    with suppress(BoundsMissingError):
        column_of({**later, **entry})


def write_new_file(out: str | Path, text: str) -> None:
    """The file appears with all of its text, or not at all, and never in the place of another."""
    with new_file(out) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def check_categories(columns: Sequence[Column], scored: bool) -> None:
    """Indicators of levels stand beside scores, and beside nothing else."""
    for column in (one for one in columns if not one.ordered):
        where = f"column {column.name[:100]!r} is categorical"
        if len(column.levels) > MOST_INDICATORS:
            raise PlanError(
                f"{where} and has {len(column.levels)} levels; moments have at most {MOST_INDICATORS}. Merge them."
            )
        if not scored:
            raise PlanError(
                f'{where}, which needs adaptive moments with scale = "scores" and dependence = "linear". Remove what '
                "says otherwise, or leave the column out."
            )
