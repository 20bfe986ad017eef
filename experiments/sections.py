"""What an experiment hands over: tables with a verdict per cell, ours beside the printed value, and pictures."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hazeglass.analyst.export import never_a_formula

__all__ = [
    "Picture",
    "Section",
    "Table",
    "against_printed",
    "decibels",
    "level_name",
    "number",
    "read_expected",
    "verdict",
    "worst",
    "write_section",
]

CLOSE = 0.03
"""An AUC within this of the printed one counts as reproduced; so does a better one."""


@dataclass(frozen=True)
class Table:
    """Records with the same fields, in order; the field `tone` (same, better, worse, differs) colours a row."""

    name: str
    caption: str
    records: Sequence[Mapping[str, Any]]
    tone: str | None = None


@dataclass(frozen=True)
class Picture:
    """A file in the section's folder and what it shows."""

    file: str
    caption: str


@dataclass(frozen=True)
class Section:
    """One result of the paper beside ours."""

    name: str
    title: str
    text: Sequence[str]
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = field(default=())


def verdict(ours: float, printed: float) -> str:
    """'same' within 0.03 of the printed AUC, else 'better' or 'worse'."""
    if abs(ours - printed) <= CLOSE + 1e-9:
        return "same"
    return "better" if ours > printed else "worse"


def decibels(level: float | str) -> float | None:
    """A level of a recipe as a number; 'none' is no noise."""
    return None if level == "none" else float(level)


def level_name(level: float | str) -> str:
    """'no noise' or '20 dB'."""
    return "no noise" if level == "none" else f"{level:g} dB"


def against_printed(values: Sequence[float], printed: float | None, printed_sd: float | None) -> dict[str, Any]:
    """Mean, spread, the printed pair, the difference and a verdict."""
    ours = float(np.mean(values))
    row: dict[str, Any] = {"ours": ours, "ours_sd": float(np.std(values)), "printed": printed, "printed_sd": printed_sd}
    if printed is None:
        return row | {"difference": None, "verdict": ""}
    return row | {"difference": ours - printed, "verdict": verdict(ours, printed)}


def worst(records: Sequence[Mapping[str, Any]]) -> str:
    """One sentence about all verdicts."""
    judged = [record for record in records if record["verdict"]]
    counts = {word: sum(r["verdict"] == word for r in judged) for word in ("same", "better", "worse")}
    lowest = min(judged, key=lambda record: record["difference"])
    return (
        f"Of {len(judged)} cells {counts['same']} are within {CLOSE} of the printed AUC, {counts['better']} are better "
        f"and {counts['worse']} are worse; the lowest difference is {lowest['difference']:+.3f} ({lowest['noise']})."
    )


def number(value: Any, name: str = "", digits: int = 3) -> str:
    """A number as a reader wants it: fixed digits near 1, powers of ten far from it, a sign on a difference."""
    if name == "difference" and isinstance(value, float):
        return f"{value:+.{digits}f}"
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if value != value:
        return "undefined"
    if value in (float("inf"), float("-inf")):
        return "infinite"
    size = abs(value)
    if size and not 1e-2 <= size < 1e4:
        return f"{value:.{digits}g}"
    return f"{value:.{digits}f}" if size < 10 else f"{value:.{digits + 1}g}"


def read_expected(here: str) -> list[dict[str, Any]]:
    """The printed numbers beside a module: expected.csv, numbers as floats, nothing as None."""
    with (Path(here).parent / "expected.csv").open(encoding="utf-8", newline="") as file:
        return [{name: _parsed(text) for name, text in record.items()} for record in csv.DictReader(file)]


def _parsed(text: str) -> Any:
    if text == "":
        return None
    try:
        return float(text)
    except ValueError:
        return text


def write_section(section: Section, folder: Path) -> None:
    """<table>.csv for programs and results.md for people."""
    lines = [f"# {section.title}", "", *(line + "\n" for line in section.text)]
    for table in section.tables:
        _write_csv(table, folder / f"{table.name}.csv")
        lines += [f"## {table.caption}", "", *_markdown(table), ""]
    for picture in section.pictures:
        lines += [f"![{picture.caption}]({picture.file})", "", picture.caption, ""]
    (folder / "results.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _write_csv(table: Table, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table.records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in record.items()} for record in table.records)


def _cell(value: Any) -> Any:
    return never_a_formula(value) if isinstance(value, str) else value


def _markdown(table: Table) -> list[str]:
    fields = list(table.records[0])
    rows = [[number(record[name], name).replace("|", "\\|") for name in fields] for record in table.records]
    bar = "|".join("---" for _ in fields)
    return [f"| {' | '.join(fields)} |", f"|{bar}|", *(f"| {' | '.join(row)} |" for row in rows)]
