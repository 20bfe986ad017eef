"""The commands. Heavy imports happen inside them, so that `hazeglass --help` is quick."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hazeglass._files import check_new_file, new_file
from hazeglass.cli.doctor import doctor
from hazeglass.cli.graphs import compare, recover, synthesize
from hazeglass.cli.plans import ledger_app, plan_app
from hazeglass.cli.releases import export, key_app, pack, publish, registry, verify
from hazeglass.cli.reproduce import datasets, reproduce
from hazeglass.cli.terminal import Printer, clear_errors, first_sentence, group, moving, plain, speaking, table
from hazeglass.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console

    from hazeglass.audit.run import AuditResult, Finding


class _InOrder(TyperGroup):
    """Commands in the order of a first journey: after the demo one makes a plan."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: (name != "demo", name != "plan"))


app = group(
    "Publish private tables with a proven promise; recover the graph of dependence from what was published.", _InOrder
)


def _version(wanted: bool) -> None:
    if wanted:
        from hazeglass._version import __version__

        typer.echo(f"hazeglass {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@speaking
def demo(
    printer: Printer,
    out: Annotated[Path, typer.Option(help="A new folder for everything the demo writes.")] = Path("demo-out"),
) -> None:
    """The whole journey on data it makes itself: publish, verify, recover, compare with the truth.

    Example: hazeglass demo --out demo-out
    """
    from hazeglass.cli.demo import run_demo

    run_demo(out, printer)


@clear_errors
def studio(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders the studio may browse; this one when none is given.")
    ] = None,
    port: Annotated[int, typer.Option(help="A port of this machine; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    plain_address: Annotated[
        bool,
        typer.Option(
            "--plain-address",
            help="For a browser that cannot find names in .localhost (Safari): a link with 127.0.0.1. Where "
            "others may use this machine, close every other tab of that address first.",
        ),
    ] = False,
    upload_limit: Annotated[int, typer.Option(help="Largest .zip an analyst may upload, in MiB.", min=1)] = 1024,
) -> None:
    """Both sides in your browser, on this machine only: publish from one, look at releases in the other.

    It serves until Ctrl-C; the link goes to standard output, once the studio answers.

    Example: hazeglass studio ~/data
    """
    try:
        from hazeglass.studio.server import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "anyio"):
            raise
        raise MissingExtraError(
            "the studio needs starlette and uvicorn. Install them with: pip install 'hazeglass[studio]'"
        ) from None

    def announce(link: str) -> None:
        typer.echo(f"The studio is open: {link}")
        typer.echo("The link works once, on this machine. Ctrl-C closes the studio and cancels what is running.")
        if not plain_address:
            typer.echo("If your browser cannot find that address, close the studio and start it with --plain-address.")

    serve(
        folders or [Path()],
        port=port,
        browser=browser,
        plain_address=plain_address,
        largest_upload=upload_limit << 20,
        announce=announce,
    )


@speaking
def audit(
    printer: Printer,
    plan: Annotated[Path | None, typer.Option(help="Attack this plan's mechanism instead of all of them.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer runs: under three minutes, slightly lower bounds.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also draw a picture (.png, .svg or .pdf).")] = None,
    appendix: Annotated[
        Path | None, typer.Option(help="With --plan: also write the motivated-intruder test for an office (.html).")
    ] = None,
) -> None:
    """Attack our own mechanisms: certified lower bounds on mu beside the claimed ones.

    Example: hazeglass audit --plan plan.toml --quick
    """
    from hazeglass.audit.run import audit
    from hazeglass.present.plots import check_picture, plot_audit
    from hazeglass.publisher.plan import Plan

    if out is not None:
        check_picture(out)
    if appendix is not None:
        if plan is None:
            raise InputError("--appendix is about one plan: add --plan PLAN.")
        check_new_file(appendix)
    chosen = None if plan is None else Plan.load(plan)
    with moving("audit", counted=True, quiet=printer.quiet) as update:
        result = audit(
            chosen,
            quick=quick,
            progress=lambda name, number, total: update(description=name, completed=number, total=total),
        )
    if out is not None:
        plot_audit(result, save=out)
    if appendix is not None and chosen is not None:
        from hazeglass.present.statement import intruder_page

        with new_file(appendix) as draft:
            draft.write_text(intruder_page(chosen.title, chosen.unit.in_words, quick, result), encoding="utf-8")
        printer.say(f"Wrote {plain(appendix)}.")
    printer.answer(result.to_dict())
    _show_audit(result, printer.console)
    if result.broken:
        typer.echo(f"hazeglass: {_verdict(result.broken)}", err=True)
        raise typer.Exit(1)


def _show_audit(result: AuditResult, console: Console) -> None:
    words = ("form", "unit", "mechanism")
    title = f"Lower bounds on mu, at {100 * result.confidence:g} % confidence"
    shown = table(*words, "claimed", "certified", "ratio", words=words, title=title)
    for finding in result.findings:
        certified, ratio = _finite(finding.certified_mu, "{:.3f}"), _finite(finding.ratio, "{:.2f}")
        certified = certified if finding.holds else f"[red]{certified}[/red]"
        shown.add_row(finding.form, finding.unit, finding.noise, f"{finding.claimed_mu:.4g}", certified, ratio)
    console.print(shown)
    console.print(
        f"{len(result.findings)} attacks in {result.seconds:.0f} s. A bound above the claim would refute it; one close "
        "below it shows that both the mechanism and the attack are tight."
    )
    if result.structural:
        console.print(_structure(result.structural))
    if not result.broken:
        console.print("No attack refutes a claim of hazeglass.")


def _finite(value: float, words: str) -> str:
    return words.format(value) if math.isfinite(value) else "infinite"


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
    least = _finite(worst.certified_mu, "at least {:.4g}")
    return (
        f"an attack refutes {len(broken)} of the claims. The worst: {worst.name}, where mu is {least}. Do not publish "
        "with this mechanism."
    )


for command in (
    demo,
    publish,
    verify,
    pack,
    export,
    recover,
    synthesize,
    compare,
    registry,
    audit,
    datasets,
    studio,
    reproduce,
    doctor,
):
    app.command(short_help=first_sentence(command))(command)
for inside in (*plan_app.registered_commands, *ledger_app.registered_commands, *key_app.registered_commands):
    inside.short_help = first_sentence(inside.callback)
app.add_typer(plan_app, name="plan", short_help="Make, fill in, check and preview a plan.")
app.add_typer(ledger_app, name="ledger")
app.add_typer(key_app, name="key")
