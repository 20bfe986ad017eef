"""hazeglass datasets: what can be loaded, on which terms, and what is here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from hazeglass.cli.printing import Printer, plain
from hazeglass.datasets.catalogue import CATALOGUE, Entry
from hazeglass.datasets.download import fetch
from hazeglass.datasets.files import find, folders, is_present

__all__ = ["list_datasets"]


def list_datasets(data_dir: Path | None, fetch_first: str | None, printer: Printer) -> None:
    """Download one where asked to, then list all."""
    if fetch_first is not None:
        with printer.watch(f"fetching {plain(fetch_first)}"):
            folder = fetch(fetch_first)
        printer.say(f"{plain(fetch_first)} is in {plain(folder)}. Its terms: {CATALOGUE[fetch_first].licence}.")
    looked = [str(folder) for folder in folders(data_dir)]
    printer.answer({"folders": looked, "datasets": [_described(one, data_dir) for one in CATALOGUE.values()]})
    printer.say(_table(data_dir))
    for one in CATALOGUE.values():
        printer.say(
            f"[bold]{one.name}[/bold]: {plain(one.source)}. Licence: {plain(one.licence)}. {plain(one.note)}".rstrip()
        )
    fetched = ", ".join(one.name for one in CATALOGUE.values() if one.addresses)
    printer.say(
        f"Looked in {plain(' and '.join(looked))}. --data-dir or HAZEGLASS_DATA names another folder; --fetch NAME "
        f"downloads {fetched}; grid11 and grid115 can be made again from the home loads "
        f"({plain('hazeglass[grid]')}: hazeglass_experiments.grids.make_grid11, make_grid115)."
    )


def _described(one: Entry, data_dir: Path | None) -> dict[str, Any]:
    rows = find(one, next(iter(one.files)), data_dir)
    return {
        "name": one.name,
        "rows": one.rows,
        "columns": one.columns,
        "kind": one.kind,
        "truth": one.truth,
        "licence": one.licence,
        "source": one.source,
        "note": one.note,
        "present": is_present(one, data_dir),
        "path": None if rows is None else str(rows.parent),
        "addresses": list(one.addresses),
    }


def _table(data_dir: Path | None) -> Table:
    table = Table()
    table.add_column("name", no_wrap=True)
    table.add_column("rows x columns", justify="right", no_wrap=True)
    for heading in ("kind", "here"):
        table.add_column(heading, no_wrap=True)
    table.add_column("true graph", overflow="fold")
    for one in CATALOGUE.values():
        here = "yes" if is_present(one, data_dir) else "no"
        table.add_row(one.name, f"{one.rows:,} x {one.columns}", one.kind, here, one.truth)
    return table
