"""hazeglass ledger new | show | history | check."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from hazeglass.cli.printing import Printer, plain
from hazeglass.errors import InputError, PrivacyRefusal
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.sensitivity import Unit, UnitName
from hazeglass.publisher.ledger_file import Ledger, Summary

__all__ = ["check_ledger", "new_ledger", "show_history", "show_ledger"]


def new_ledger(
    file: Path,
    dataset: str,
    mu: float | None,
    epsilon: float | None,
    delta: float | None,
    protects: UnitName,
    readings: int,
    max_rows: int,
    id_column: str | None,
    printer: Printer,
) -> None:
    """Create the file and say what it allows."""
    if readings < 1 or max_rows < 1:
        raise InputError(f"--readings and --max-rows must be at least 1, got {readings} and {max_rows}.")
    if (mu is None) == (epsilon is None) or (epsilon is None) != (delta is None):
        raise InputError("give the total budget once: as --epsilon with --delta, or as --mu.")
    unit = Unit(protects, readings, max_rows)
    ledger = Ledger.create(file, dataset, mu_total=mu, epsilon=epsilon, delta=delta, unit=unit, id_column=id_column)
    summary = ledger.summary()
    printer.say(
        f"Wrote {plain(file)}: releases of {plain(dataset)} may spend mu = {summary.mu_total:.4g} in all, protecting "
        f"{_protected(summary)}."
    )
    printer.answer({"file": str(file), **asdict(summary)})


def show_ledger(file: Path, printer: Printer) -> None:
    """The state of the budget."""
    summary = Ledger.open(file).summary()
    printer.answer(asdict(summary))
    delta = summary.delta or 1e-6
    spent = GaussianDP(summary.mu_spent).epsilon(delta) if summary.mu_spent > 0 else 0.0
    console = printer.console
    console.print(f"{plain(summary.dataset)}: protects {_protected(summary)}.")
    console.print(
        f"  mu: {summary.mu_total:.4g} in total, {summary.mu_spent:.4g} spent "
        f"(epsilon {spent:.3g} at delta {delta:g}), {summary.mu_remaining:.4g} left for one more release.",
    )
    console.print(f"  {summary.releases} releases, {summary.unfinished} unfinished but charged.")


def show_history(file: Path, printer: Printer) -> None:
    """Every charge with its state."""
    entries = Ledger.open(file).history()
    printer.answer([asdict(entry) for entry in entries])
    table = Table()
    for heading in ("no.", "charged at", "mu", "state", "release"):
        table.add_column(heading, justify="right" if heading in ("no.", "mu") else "left")
    for entry in entries:
        mu = f"{entry.charge.mu:.4g}"
        table.add_row(str(entry.id), entry.charged_at, mu, entry.state, plain(entry.charge.label))
    printer.say(table)


def check_ledger(file: Path, releases: list[str], printer: Printer) -> None:
    """Whether the ledger holds the charge of every release."""
    from hazeglass.bundle.reader import load

    ledger = Ledger.open(file)
    with printer.watch("checking"):
        faults = ledger.faults({path: load(path).manifest for path in releases})
    printer.answer({"ok": not faults, "releases": len(releases), "faults": faults})
    if faults:
        raise PrivacyRefusal(" ".join(faults))
    printer.say(f"{plain(file)} is not behind: it holds the charge of every release given, {len(releases)} in all.")


def _protected(summary: Summary) -> str:
    by = "" if summary.id_column is None else f", told apart by {plain(repr(summary.id_column))}"
    return summary.unit.in_words + by
