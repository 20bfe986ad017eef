"""hazeglass audit: attack our own mechanisms, print what is certified beside what is claimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from hazeglass.cli.terminal import JsonOption, Printer, clear_errors, moving

if TYPE_CHECKING:
    from hazeglass.audit.findings import AuditResult, Finding

__all__ = ["audit"]


@clear_errors
def audit(
    plan: Annotated[Path | None, typer.Option(help="Attack this plan's mechanism instead of all of them.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer runs: under three minutes, slightly lower bounds.")
    ] = False,
    json: JsonOption = False,
    out: Annotated[Path | None, typer.Option(help="Also draw a picture (.png, .svg or .pdf).")] = None,
) -> None:
    """Attack our own mechanisms: certified lower bounds on mu beside the claimed ones."""
    from hazeglass.audit.findings import check_picture, draw_picture
    from hazeglass.audit.run import audit
    from hazeglass.publisher.plan import Plan

    if out is not None:
        check_picture(out)
    chosen = None if plan is None else Plan.load(plan)
    with _progress() as report:
        result = audit(chosen, quick=quick, progress=report)
    if out is not None:
        draw_picture(result, out)
    printer = Printer(json)
    printer.answer(result.to_dict())
    _show(result, printer.console)
    if result.broken:
        typer.echo(f"hazeglass: {_verdict(result.broken)}", err=True)
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    counted = TextColumn("{task.completed}/{task.total}")
    with moving(TextColumn("{task.description}"), BarColumn(), counted, TimeElapsedColumn()) as bar:
        task = bar.add_task("audit", total=None)
        yield lambda name, number, total: bar.update(task, description=name, completed=number, total=total)


def _show(result: AuditResult, console: Console) -> None:
    table = Table(title=f"Lower bounds on mu, at {100 * result.confidence:g} % confidence", title_justify="left")
    for heading in ("form", "unit", "noise"):
        table.add_column(heading)
    for heading in ("claimed", "certified", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for finding in result.findings:
        certified = f"{finding.certified_mu:.3f}" if math.isfinite(finding.certified_mu) else "infinite"
        table.add_row(
            finding.form,
            finding.unit,
            finding.noise,
            f"{finding.claimed_mu:.4g}",
            certified if finding.holds else f"[red]{certified}[/red]",
            f"{finding.ratio:.2f}" if math.isfinite(finding.ratio) else "infinite",
        )
    console.print(table)
    console.print(
        f"{len(result.findings)} attacks in {result.seconds:.0f} s. A bound above the claim would refute it; one close "
        "below it shows that both the mechanism and the attack are tight.",
    )
    if result.structural:
        console.print(_structure(result.structural))
    if not result.broken:
        console.print("No attack refutes a claim of hazeglass.")


def _structure(findings: tuple[Finding, ...]) -> str:
    """What the attacks on everything but the noised numbers found."""
    from hazeglass.audit.structure_attack import NO_DIFFERENCE

    differing = [finding for finding in findings if not finding.holds]
    if not differing:
        return f"{len(findings)} pairs of inputs that must look alike were published: {NO_DIFFERENCE}."
    lines = (f"  {found.form}, {found.unit}, {found.noise}: {found.certificate.statistic}" for found in differing)
    return "Told apart with certainty, without looking at a noised number:\n" + "\n".join(lines)


def _verdict(broken: tuple[Finding, ...]) -> str:
    worst = max(broken, key=lambda finding: finding.ratio)
    least = f"at least {worst.certified_mu:.4g}" if math.isfinite(worst.certified_mu) else "infinite"
    return (
        f"an attack refutes {len(broken)} of the claims. The worst: {worst.name}, where mu is {least}. Do not publish "
        "with this mechanism."
    )
