"""The shape of a plan as a JSON Schema, and one clear sentence when a plan does not have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hazeglass.errors import PlanError

__all__ = ["PLAN_SCHEMA", "check_structure"]

_NUMBER = {"type": "number"}

PLAN_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "required": ["release", "budget", "columns"],
    "properties": {
        "release": {
            "type": "object",
            "additionalProperties": False,
            "required": ["title", "form"],
            "properties": {
                "title": {"type": "string", "minLength": 1, "maxLength": 500},
                "form": {"enum": ["table", "moments", "synthetic"]},
                "protects": {"enum": ["entry", "readings", "record", "person", "column"]},
                "readings": {"type": "integer", "minimum": 1, "maximum": 10**9},
                "id_column": {"type": "string", "minLength": 1, "maxLength": 1000},
                "max_rows": {"type": "integer", "minimum": 1, "maximum": 10**9},
                "dependence": {"enum": ["linear", "curved"]},
                "adaptive": {"type": "boolean"},
                "clip_radius": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": "private"}]},
                "round_integers": {"type": "boolean"},
            },
        },
        "budget": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "epsilon": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
                "delta": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                "mu": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e3},
            },
        },
        "columns": {
            "type": "array",
            "minItems": 1,
            "maxItems": 100_000,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "kind"],
                "properties": {
                    "name": {"type": "string", "minLength": 1, "maxLength": 1000},
                    "kind": {"enum": ["continuous", "integer"]},
                    "lower": _NUMBER,
                    "upper": _NUMBER,
                    "transform": {"enum": ["log", "log1p", "sqrt", "asinh"]},
                    "noise": {"enum": ["rounded", "discrete"]},
                    "reason": {"type": "string", "maxLength": 2000},
                },
            },
        },
    },
}

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


def check_structure(document: Mapping[str, Any]) -> None:
    """Raise a PlanError that names the first key that is missing, unknown or of the wrong kind."""
    import jsonschema

    errors = sorted(
        jsonschema.Draft202012Validator(PLAN_SCHEMA).iter_errors(document), key=lambda e: list(map(str, e.path))
    )
    if errors:
        raise PlanError(_sentence(errors[0], document))
    names = [document["release"]["title"], document["release"].get("id_column", "")]
    for text in [*names, *(column["name"] for column in document["columns"])]:
        if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
            raise PlanError(f"titles and names must be Unicode text, got {text[:60]!a}. Write it anew.")


def _sentence(error: Any, document: Mapping[str, Any]) -> str:
    where = _where(list(error.absolute_path), document)
    match error.validator:
        case "required":
            missing = next(key for key in error.validator_value if key not in error.instance)
            return f"{where} must have {missing!r}, and it is missing. Add it."
        case "additionalProperties":
            known = sorted(error.schema["properties"])
            unknown = next(key for key in error.instance if key not in known)
            return f"{where} does not know {_short(unknown)}. Known are: {', '.join(known)}."
        case "enum":
            allowed = ", ".join(map(repr, error.validator_value))
            return f"{where} must be one of {allowed}, got {_short(error.instance)}."
        case "anyOf":
            return f'{where} must be a number above 0, or "private", got {_short(error.instance)}.'
        case "type":
            return f"{where} must be of type {error.validator_value}, got {_short(error.instance)}."
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
