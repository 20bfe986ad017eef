"""A first plan.toml from a table's names and kinds. It asks for bounds and never suggests any."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hazeglass.compute.tables import open_table
from hazeglass.errors import DataError, OutputError, quotes_no_cell

__all__ = ["toml_string", "write_scaffold"]

_HEAD = """\
# A hazeglass plan: everything in this file is public.
[release]
title = {title}
form = "moments"            # "moments" (best for graphs) | "synthetic" (made-up rows) | "table" (noisy rows)
protects = "record"         # what is hidden: "record" (a row) | "person" | "entry" (a cell) | "readings" | "column"
# id_column = "customer"    # with "person": whose row it is, never released; and
# max_rows = 8              # at most so many rows of one person are used
# readings = 96             # with "readings": so many cells of one column are hidden together

[budget]
epsilon = 1.0               # smaller is more private; 1 is strong, above 10 is weak
delta = 1e-6                # keep it well below 1 / (number of rows)

# Bounds: what is the smallest and the largest value this quantity can take, as anyone who knows the subject could say
# without seeing your data? Use physical limits, the meter's range, a rule or a law. Do NOT use the minimum and maximum
# of the data: they are facts about single people, and they would be published. Values outside are moved to the bound.
"""

_COLUMN = """
[[columns]]
name = {name}
kind = "{kind}"
# lower =                   # to fill in
# upper =                   # to fill in
"""


@quotes_no_cell
def write_scaffold(data: Any, out: str | Path) -> tuple[int, list[str]]:
    """Write a plan for `data`; returns how many columns it has and which were left out."""
    out = Path(out)
    if out.exists():
        raise OutputError(f"{str(out)!r} already exists. Name another file, or remove it first.")
    if not out.resolve().parent.is_dir():
        raise OutputError(f"the folder of {str(out)!r} does not exist. Make it first.")
    kinds = open_table(data).kinds()
    columns = {name: kind for name, kind in kinds.items() if kind != "other"}
    if not columns:
        raise DataError("a plan needs at least one column of numbers, and the data has none.")
    title = Path(data).stem if isinstance(data, str | Path) else "My release"
    text = _HEAD.format(title=toml_string(title))
    text += "".join(_COLUMN.format(name=toml_string(name), kind=kind) for name, kind in columns.items())
    _write_whole(out, text)
    return len(columns), [name for name in kinds if name not in columns]


def _write_whole(out: Path, text: str) -> None:
    """The file appears with all of its text, or not at all, and never in the place of another."""
    try:
        with tempfile.TemporaryDirectory(prefix=".plan-", dir=out.resolve().parent) as folder:
            draft = Path(folder) / "plan.toml"
            draft.write_text(text, encoding="utf-8")
            os.link(draft, out)
    except FileExistsError:
        raise OutputError(f"{str(out)!r} already exists. Name another file, or remove it first.") from None
    except OSError as error:
        raise OutputError(f"cannot write {str(out)!r}: {error.strerror}.") from None


def toml_string(text: str) -> str:
    """A basic TOML string; JSON's escapes are a subset of TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
