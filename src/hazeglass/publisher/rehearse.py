"""A release without the release: everything is checked and every row is read, nothing is drawn, charged or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hazeglass.bundle.writer import check_new
from hazeglass.compute.engines import Engine, open_engine
from hazeglass.compute.tables import open_table
from hazeglass.errors import quotes_no_cell
from hazeglass.publisher.ledger import Ledger, charge_of
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.publish import check_design
from hazeglass.publisher.rows import Block, Cells, Rows

__all__ = ["Rehearsal", "rehearse"]


@dataclass(frozen=True)
class Rehearsal:
    """What a publication would do. Public: it says nothing about the rows but their number, or that of the persons."""

    plan: Plan
    rows: int | None
    persons: int | None
    mu_left: float | None


@quotes_no_cell
def rehearse(
    data: Any,
    plan: Plan | str | Path,
    out: str | Path,
    *,
    ledger: str | Path | None = None,
    engine: str | Engine = "threads",
    progress: Callable[[int], None] | None = None,
) -> Rehearsal:
    """Refuse what :func:`hazeglass.publish` would refuse with the same arguments.

    The rows are read to the last cell: how many cells cannot be read shows only there, and the publisher is told.
    """
    if not isinstance(plan, Plan):
        plan = Plan.load(plan)
    check_new(out)
    with open_engine(engine) as workers:
        rows = Rows(plan, open_table(data, plan.text), progress)
        check_design(rows)
        left = None
        if ledger is not None:
            book = Ledger.open(ledger)
            book.check(charge_of(plan))
            left = book.summary().mu_remaining
        for _ in rows.run(workers, _read):
            pass
    rows.tell_publisher()
    return Rehearsal(plan, None if rows.persons else rows.n, rows.persons, left)


def _read(cells: Cells, start: int, blocks: Iterator[Block]) -> None:
    for block in blocks:
        cells.unit_box(block)
