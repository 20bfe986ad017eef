"""A plan as the text of a plan.toml, and the file that holds it."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hazeglass.errors import OutputError
from hazeglass.publisher.plan_schema import check_structure

__all__ = ["check_new_file", "plan_text", "toml_value", "write_new_file"]


def plan_text(document: Mapping[str, Any]) -> str:
    """The document with the keys of a plan.toml, written so that reading it gives the same document."""
    check_structure(document)
    lines = ["# A hazeglass plan: everything in this file is public."]
    for section in ("release", "text", "budget"):
        if section in document:
            lines += [f"[{section}]", *_pairs(document[section]), ""]
    for column in document["columns"]:
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


def check_new_file(out: str | Path) -> Path:
    """The place for a file that is not there yet."""
    out = Path(out)
    if out.exists():
        raise OutputError(f"{str(out)!r} already exists. Name another file, or remove it first.")
    if not out.resolve().parent.is_dir():
        raise OutputError(f"the folder of {str(out)!r} does not exist. Make it first.")
    return out


def write_new_file(out: str | Path, text: str) -> None:
    """The file appears with all of its text, or not at all, and never in the place of another."""
    out = check_new_file(out)
    try:
        with tempfile.TemporaryDirectory(prefix=".plan-", dir=out.resolve().parent) as folder:
            draft = Path(folder) / "plan.toml"
            draft.write_text(text, encoding="utf-8")
            os.link(draft, out)
    except FileExistsError:
        raise OutputError(f"{str(out)!r} already exists. Name another file, or remove it first.") from None
    except OSError as error:
        raise OutputError(f"cannot write {str(out)!r}: {error.strerror}.") from None
