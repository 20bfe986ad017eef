"""hazeglass plan new | check | preview and hazeglass ledger new | show | history | check."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from hazeglass.cli.terminal import DataArgument, Printer, counted, facts, group, number, plain, speaking, table
from hazeglass.errors import InputError, PrivacyRefusal
from hazeglass.guarantee.units import Unit, UnitName

if TYPE_CHECKING:
    from hazeglass.publisher.ledger import Summary
    from hazeglass.publisher.preview import Preview

PlanArgument = Annotated[Path, typer.Argument(help="A plan.toml.", metavar="PLAN")]
NamesOption = Annotated[
    str | None, typer.Option("--data", help="For a plan with match: the data whose names (and nothing else) are read.")
]
LedgerArgument = Annotated[Path, typer.Argument(help="The ledger file.", metavar="FILE")]
plan_app = group("Make, check and preview a plan. Only `new` opens the data: see its help.")
ledger_app = group("Keep a dataset's total budget in a file.")


@plan_app.command("new")
@speaking
def new_plan(
    printer: Printer,
    data: DataArgument,
    out: Annotated[Path, typer.Option(help="Where to write the plan.")] = Path("plan.toml"),
    header: Annotated[
        bool | None,
        typer.Option(help="The first line of the CSV holds names, numbers though they are; or data (x1, x2, ...)."),
    ] = None,
) -> None:
    """Scaffold a plan with DATA's column names and kinds; bounds and levels are left for you to fill in.

    Kinds are those a Parquet file declares. A CSV declares none, so its first lines (at most 1 MiB) are looked at here,
    on your machine, and what they suggest is marked as a guess for you to confirm.

    Example: hazeglass plan new rows.csv --out plan.toml
    """
    from hazeglass.publisher.plan_columns import names_an_id
    from hazeglass.publisher.scaffold import write_scaffold

    look = write_scaffold(data, out, header=header)
    if str(out) == "-":
        return
    printer.say(f"Wrote {plain(out)}: {counted(len(look.proposed), 'column')}, bounds and levels blank on purpose.")
    for name in filter(names_an_id, look.kinds):
        printer.say(
            f"{plain(repr(name))} is called as ids are. Does one person have several rows? Then set protects = "
            f'"person", id_column = {plain(repr(name))} and max_rows, and remove its entry.'
        )
    if look.left_out:
        printer.say(
            f"Left out, because they may be free text or ids: {plain(', '.join(look.left_out))}. Text whose words are "
            "a public list has an entry behind # in the plan."
        )
    if str(data).lower().endswith(".xlsx"):
        printer.say("The kinds are those of the cells, looked at on this machine: confirm or change them in the plan.")
    elif look.text is None:
        printer.say("The kinds are those the data declares; no cell was read.")
    else:
        printer.say(
            "How the file is written and the kinds of its columns are guesses from its first lines (at most 1 MiB), "
            "looked at on this machine: confirm or change them in the plan."
        )
        if look.text.quoted_newlines:
            printer.say(
                "Some quoted cells go over several lines, so the plan says quoted_newlines = true: the file must then "
                "hold no stray quote, because one takes the rows behind it into its own."
            )
    printer.say(
        "Fill in bounds and levels from what anyone who knows the subject could say without seeing your data: "
        "physical limits, a meter's range, a rule, a code book; in an editor, or with hazeglass plan fill. Then: "
        "hazeglass plan check " + plain(f'"{out}"' if " " in str(out) else out)
    )
    answer = {"out": str(out), "columns": len(look.proposed), "left_out": look.left_out}
    printer.answer({**answer, "guessed": look.text is not None})


@plan_app.command("check")
@speaking
def check_plan(printer: Printer, plan: PlanArgument, data: NamesOption = None) -> None:
    """Say whether a plan is complete, or list everything that is missing.

    Example: hazeglass plan check plan.toml
    """
    from hazeglass.publisher.plan import Plan
    from hazeglass.publisher.plan_columns import cautions, patterns, with_patterns_as_names
    from hazeglass.publisher.plan_file import read_plan, toml_document

    document = toml_document(read_plan(plan), plan.name)
    wild = patterns(document) if data is None else []
    made = Plan.from_dict(with_patterns_as_names(document) if wild else document, data)  # making one is checking
    for sentence in cautions(made):
        typer.echo(f"caution: {sentence}", err=True)
    if wild:
        printer.say(f"Patterns choose among the data's names when it is known (--data): {plain(', '.join(wild))}.")
    printer.say(
        f"{plain(plan)} is complete: a {made.form} release of {counted(len(made.columns), 'column')} that protects "
        f"{made.unit.in_words}; mu = {made.guarantee.mu:.4g}, epsilon = {made.epsilon:.4g} at delta = {made.delta:g}."
    )
    printer.answer({"ok": True, **facts(made, "title")})


@plan_app.command("fill")
@speaking
def fill_plan(
    printer: Printer,
    plan: PlanArgument,
    match: Annotated[str, typer.Option(help="Which columns: a name, or a pattern such as 'temp*'.")],
    lower: Annotated[float | None, typer.Option(help="The smallest value there can be.", parser=number)] = None,
    upper: Annotated[float | None, typer.Option(help="The largest value there can be.", parser=number)] = None,
    reason: Annotated[str | None, typer.Option(help="Why bounds or levels are public, for the statement.")] = None,
    kind: Annotated[str | None, typer.Option(help="What the columns hold.")] = None,
    transform: Annotated[str | None, typer.Option(help="log, log1p, sqrt or asinh.")] = None,
    level: Annotated[list[str] | None, typer.Option(help="A level; once for each, in their order.")] = None,
) -> None:
    """Write the same bounds, levels, reason, kind or transform for many columns into a plan; all other lines stay.

    Example: hazeglass plan fill plan.toml --match 'temp*' --lower -40 --upper 60 --reason "sensor's range"
    """
    from hazeglass.publisher.plan_file import fill_plan_file

    given = {"kind": kind, "lower": lower, "upper": upper, "levels": level, "transform": transform, "reason": reason}
    values = {key: value for key, value in given.items() if value not in (None, [])}
    if not values:
        raise InputError("say what to fill in: --lower, --upper, --level, --reason, --kind or --transform.")
    if level and len(level) == 1 and "," in level[0]:
        each = " ".join(f'--level "{one.strip()}"' for one in level[0].split(","))
        raise InputError(f"--level must be given once for each level, got {level[0]!r}. Write {each}.")
    count = fill_plan_file(plan, match, values)
    printer.say(f"Filled in {', '.join(values)} for {counted(count, 'column')} of {plain(plan)}.")
    printer.answer({"plan": str(plan), "columns": count, **values})


@plan_app.command("preview")
@speaking
def preview_plan(
    printer: Printer,
    plan: PlanArgument,
    rows: Annotated[int, typer.Option(help="How many rows the data has (public).", parser=number)],
    see: Annotated[
        float | None, typer.Option(help="Also say which epsilon shows a partial correlation this big.")
    ] = None,
    data: NamesOption = None,
) -> None:
    """Cost and expected quality of a plan, without the data.

    Example: hazeglass plan preview plan.toml --rows 12000
    """
    from hazeglass.publisher.plan import Plan
    from hazeglass.publisher.preview import epsilon_to_see

    made = Plan.load(plan, data)
    look = made.preview(rows)
    needed = None if see is None else epsilon_to_see(made, rows, see)
    printer.answer(look.to_dict() if see is None else {**look.to_dict(), "see": see, "epsilon_to_see": needed})
    show_preview(look, printer.console)
    if see is not None:
        verdict = "no epsilon shows it: sampling error alone hides it" if needed is None else f"epsilon = {needed:.3g}"
        printer.say(f"To see a partial correlation of {see:g}: {verdict}.")


def show_preview(look: Preview, console: Console) -> None:
    """The preview as sentences and one table."""
    for sentence in look.promise.promise:
        console.print(sentence)
    headings = ("form", "sampling error", "privacy noise", "ratio", "smallest edge")
    title = f"Expected quality for {look.rows:,} rows, {counted(look.columns, 'column')}"
    shown = table(*headings, words=("form",), title=title)
    for form in look.forms:
        mark = " *" if form.form == look.form else ""
        seen = f"{form.detectable:.2g}" if form.detectable < 1 else "none"
        errors = (f"{error:.2g}" for error in (form.sampling_error, form.privacy_error, form.ratio))
        shown.add_row(form.form + mark, *errors, seen)
    console.print(shown)
    console.print(
        "* this plan. Errors are of a correlation between unrelated columns; the smallest edge is the partial "
        "correlation found with power 0.8 at a false-discovery rate of 0.1. Where the data's spread matters, "
        f"it is supposed to be {look.supposed_spread:.2g} of half the bounds. Between columns that others nearly "
        "determine only stronger edges are found."
    )
    console.print(look.verdict)
    for sentence in look.cautions:
        console.print(f"Caution: {plain(sentence)}")
    if look.rows_for_equal_noise is not None:
        console.print(f"Privacy noise equals sampling error at about {look.rows_for_equal_noise:,.0f} rows.")
    if look.kinds:
        _show_kinds(look, console)
    for sentence in look.dependence.sentences if look.dependence else ():
        console.print(sentence)
    fewest, most = look.passes
    if most > 1:
        console.print(f"Publishing reads the rows {fewest if fewest == most else f'{fewest} to {most}'} times.")


def _show_kinds(look: Preview, console: Console) -> None:
    """The smallest strength that shows, for every two kinds of columns."""
    sizes = {frozenset(pair.kinds): pair.detectable for pair in look.kinds}
    kinds = list(dict.fromkeys(kind for pair in look.kinds for kind in pair.kinds))
    shown = table(
        "", *kinds, words=("",), title="Smallest strength that shows, by the kinds of two columns", lines=False
    )
    for kind in kinds:
        found = (sizes.get(frozenset((kind, other))) for other in kinds)
        shown.add_row(kind, *("" if size is None else f"{size:.2g}" if size < 1 else "none" for size in found))
    console.print(shown)


@ledger_app.command("new")
@speaking
def new_ledger(
    printer: Printer,
    file: LedgerArgument,
    dataset: Annotated[str, typer.Option(help="Whose budget it is.")],
    epsilon: Annotated[float | None, typer.Option(help="The total as epsilon, with --delta.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta that goes with --epsilon.")] = None,
    mu: Annotated[float | None, typer.Option(help="The total as mu, instead of epsilon and delta.")] = None,
    protects: Annotated[UnitName, typer.Option(help="The unit the budget protects.")] = "record",
    readings: Annotated[int, typer.Option(help="With --protects readings: how many cells.")] = 1,
    max_rows: Annotated[int, typer.Option(help="With --protects person: rows of one person.")] = 1,
    id_column: Annotated[
        str | None, typer.Option(help="With --protects person: the column that says who is one person.")
    ] = None,
) -> None:
    """Start a ledger for a dataset with its total budget.

    Example: hazeglass ledger new ward.ledger --dataset "Ward 7" --epsilon 3 --delta 1e-6
    """
    from hazeglass.publisher.ledger import Ledger

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


@ledger_app.command("show")
@speaking
def show_ledger(printer: Printer, file: LedgerArgument) -> None:
    """Total, spent and left.

    Example: hazeglass ledger show ward.ledger
    """
    from hazeglass.guarantee.gdp import GaussianDP
    from hazeglass.publisher.ledger import Ledger

    summary = Ledger.open(file).summary()
    printer.answer(asdict(summary))
    delta = summary.delta or 1e-6
    spent = GaussianDP(summary.mu_spent).epsilon(delta) if summary.mu_spent > 0 else 0.0
    console = printer.console
    console.print(f"{plain(summary.dataset)}: protects {_protected(summary)}.")
    console.print(
        f"  mu: {summary.mu_total:.4g} in total, {summary.mu_spent:.4g} spent "
        f"(epsilon {spent:.3g} at delta {delta:g}), {summary.mu_remaining:.4g} left for one more release."
    )
    console.print(f"  {counted(summary.releases, 'release')}, {summary.unfinished} unfinished but charged.")


@ledger_app.command("history")
@speaking
def show_history(printer: Printer, file: LedgerArgument) -> None:
    """Every release ever charged.

    Example: hazeglass ledger history ward.ledger
    """
    from hazeglass.publisher.ledger import Ledger

    entries = Ledger.open(file).history()
    printer.answer([asdict(entry) for entry in entries])
    shown = table("no.", "charged at", "mu", "state", "release", words=("charged at", "state", "release"))
    for entry in entries:
        mu = f"{entry.charge.mu:.4g}"
        shown.add_row(str(entry.id), entry.charged_at, mu, entry.state, plain(entry.charge.label))
    printer.say(shown)


@ledger_app.command("check")
@speaking
def check_ledger(
    printer: Printer,
    file: LedgerArgument,
    releases: Annotated[
        list[str], typer.Argument(help="Releases: folders, .zip files or http(s) addresses.", metavar="RELEASE...")
    ],
) -> None:
    """Find a ledger that is behind its releases: cut off at its end, or an older copy put back.

    Example: hazeglass ledger check ward.ledger release/ release-2/
    """
    from hazeglass.bundle.reader import load
    from hazeglass.publisher.ledger import Ledger

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
