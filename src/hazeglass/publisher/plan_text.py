"""A plan as the text of a plan.toml, reasons beside their bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hazeglass.publisher.plan_schema import check_structure
from hazeglass.publisher.scaffold import toml_string

__all__ = ["plan_text"]


def plan_text(document: Mapping[str, Any]) -> str:
    """The document with the keys of a plan.toml, written so that reading it gives the same document."""
    check_structure(document)
    lines = ["# A hazeglass plan: everything in this file is public."]
    for section in ("release", "budget"):
        lines += [f"[{section}]", *_pairs(document[section]), ""]
    for column in document["columns"]:
        lines += ["[[columns]]", *_pairs(column), ""]
    return "\n".join(lines)


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: str | bool | int | float) -> str:
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return repr(value)
