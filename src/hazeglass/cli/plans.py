"""hazeglass plan new | check | preview."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from hazeglass.cli.printing import Printer, plain
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.preview import Preview, epsilon_to_see
from hazeglass.publisher.scaffold import write_scaffold

__all__ = ["check_plan", "new_plan", "preview_plan", "show_preview"]


def new_plan(data: str, out: Path, header: bool, printer: Printer) -> None:
    """Write the scaffold, say what it rests on and what to do next."""
    look = write_scaffold(data, out, header=header)
    printer.say(f"Wrote {plain(out)}: {len(look.numbers)} columns, bounds left blank on purpose.")
    if look.left_out:
        printer.say(f"Left out, because they do not hold numbers: {plain(', '.join(look.left_out))}.")
    if look.text is None:
        printer.say("The kinds are those the data declares; no cell was read.")
    else:
        printer.say(
            "How the file is written and the kinds of its columns are guesses from its first lines (at most 1 MiB), "
            "looked at on this machine: confirm or change them in the plan."
        )
    printer.say(
        "Fill in the bounds from what anyone who knows the subject could say without seeing your data: physical "
        f"limits, a meter's range, a rule. Then: hazeglass plan check {plain(out)}"
    )
    answer = {"out": str(out), "columns": len(look.numbers), "left_out": look.left_out}
    printer.answer({**answer, "guessed": look.text is not None})


def check_plan(path: Path, printer: Printer) -> None:
    """Load the plan; loading is checking."""
    plan = Plan.load(path)
    printer.say(
        f"{plain(path)} is complete: a {plan.form} release of {len(plan.columns)} columns that protects "
        f"{plan.unit.in_words}; mu = {plan.guarantee.mu:.4g}, epsilon = {plan.epsilon:.4g} at delta = {plan.delta:g}."
    )
    printer.answer(
        {
            "ok": True,
            "title": plan.title,
            "form": plan.form,
            "unit": plan.unit.name,
            "columns": list(plan.names),
            "mu": plan.guarantee.mu,
            "epsilon": plan.epsilon,
            "delta": plan.delta,
        }
    )


def preview_plan(path: Path, rows: int, see: float | None, printer: Printer) -> None:
    """Print the preview, and the epsilon that would show a partial correlation of the given size."""
    plan = Plan.load(path)
    look = plan.preview(rows)
    needed = None if see is None else epsilon_to_see(plan, rows, see)
    printer.answer(look.to_dict() if see is None else {**look.to_dict(), "see": see, "epsilon_to_see": needed})
    show_preview(look, printer.console)
    if see is not None:
        verdict = "no epsilon shows it: sampling error alone hides it" if needed is None else f"epsilon = {needed:.3g}"
        printer.say(f"To see a partial correlation of {see:g}: {verdict}.")


def show_preview(look: Preview, console: Console) -> None:
    """The preview as sentences and one table."""
    for sentence in look.promise.promise:
        console.print(sentence, highlight=False)
    table = Table(title=f"Expected quality for {look.rows:,} rows, {look.columns} columns", title_justify="left")
    for heading in ("form", "sampling error", "privacy noise", "ratio", "smallest edge"):
        table.add_column(heading, justify="left" if heading == "form" else "right")
    for form in look.forms:
        mark = " *" if form.form == look.form else ""
        seen = f"{form.detectable:.2g}" if form.detectable < 1 else "none"
        table.add_row(
            form.form + mark, f"{form.sampling_error:.2g}", f"{form.privacy_error:.2g}", f"{form.ratio:.2g}", seen
        )
    console.print(table)
    console.print(
        "* this plan. Errors are of a correlation between unrelated columns; the smallest edge is the partial "
        "correlation found with power 0.8 at a false-discovery rate of 0.1. Where the data's spread matters, "
        f"it is supposed to be {look.supposed_spread:.2g} of half the bounds.",
        highlight=False,
    )
    if look.chosen.detectable >= 1:
        best = min(look.forms, key=lambda form: form.detectable)
        remedy = f'form = "{best.form}" would' if best.detectable < 1 else "more rows or a larger epsilon could"
        console.print(f"With this plan no edge can be found, however strong; {remedy} show some.", highlight=False)
    if look.rows_for_equal_noise is not None:
        console.print(
            f"Privacy noise equals sampling error at about {look.rows_for_equal_noise:,.0f} rows.", highlight=False
        )
    for sentence in look.dependence.sentences if look.dependence else ():
        console.print(sentence, highlight=False)
