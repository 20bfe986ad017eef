"""The commands and their options. What they do lives in the rooms; what they print lives beside them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hazeglass.cli.errors import clear_errors

__all__ = ["app"]

# Pretty tracebacks would print local variables, and those may be raw rows.
_SETTINGS = {"no_args_is_help": True, "pretty_exceptions_enable": False, "rich_markup_mode": None}

app = typer.Typer(
    help="Publish private tables with a proven promise; recover the graph of dependence from what was published.",
    **_SETTINGS,  # type: ignore[arg-type]
)
plan_app = typer.Typer(help="Make, check and preview a plan. Only `new` opens the data: see its help.", **_SETTINGS)  # type: ignore[arg-type]
app.add_typer(plan_app, name="plan")
ledger_app = typer.Typer(help="Keep a dataset's total budget in a file.", **_SETTINGS)  # type: ignore[arg-type]
app.add_typer(ledger_app, name="ledger")
key_app = typer.Typer(help="Make keys to sign releases with.", **_SETTINGS)  # type: ignore[arg-type]
app.add_typer(key_app, name="key")

DataArgument = Annotated[
    str,
    typer.Argument(
        help="A CSV or Parquet file, a folder of them, a glob, or an address such as s3://bucket/folder.",
        metavar="DATA",
    ),
]
PlanArgument = Annotated[Path, typer.Argument(help="A plan.toml.", metavar="PLAN")]
ReleaseArgument = Annotated[
    str, typer.Argument(help="A release: its folder, a .zip of it, or its http(s) address.", metavar="RELEASE")
]
SchedulerOption = Annotated[
    str | None, typer.Option(help="With --engine dask: the scheduler's address. Default: local processes.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences and tables.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")]


class EngineName(StrEnum):
    """Engines `publish` and `recover` can use."""

    serial = "serial"
    threads = "threads"
    dask = "dask"


class UnitChoice(StrEnum):
    """Units a budget can protect."""

    entry = "entry"
    readings = "readings"
    record = "record"
    person = "person"
    column = "column"


class SelectName(StrEnum):
    """Ways `recover` can choose the penalty."""

    ebic = "ebic"
    stars = "stars"
    cv = "cv"
    mse = "mse"


class DependenceName(StrEnum):
    """Kinds of dependence `recover` can look for."""

    linear = "linear"
    curved = "curved"


class MarginalsName(StrEnum):
    """What `recover` can do to columns first."""

    as_is = "as-is"
    normal_scores = "normal-scores"


class SolverName(StrEnum):
    """Solvers `recover` can use."""

    auto = "auto"
    newton = "newton"
    cd = "cd"
    admm = "admm"


def _engine(engine: EngineName, scheduler: str | None) -> str:
    """The engine's full name."""
    from hazeglass.errors import InputError

    if scheduler is None:
        return engine.value
    if engine is not EngineName.dask:
        raise InputError(f"--scheduler belongs to --engine dask, got --engine {engine.value}. Leave one of them out.")
    return f"dask:{scheduler}"


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


@app.command()
@clear_errors
def demo(
    out: Annotated[Path, typer.Option(help="A new folder for everything the demo writes.")] = Path("demo-out"),
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """The whole journey on data it makes itself: publish, verify, recover, compare with the truth."""
    from hazeglass.cli.demo import run_demo
    from hazeglass.cli.printing import Printer

    run_demo(out, Printer(json, quiet))


@plan_app.command("new")
@clear_errors
def plan_new(
    data: DataArgument,
    out: Annotated[Path, typer.Option(help="Where to write the plan.")] = Path("plan.toml"),
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The first line of the CSV holds data: name the columns x1, x2, ...")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Scaffold a plan with DATA's column names and kinds; bounds are left for you to fill in.

    Kinds are those a Parquet file declares. A CSV declares none, so its first lines (at most 1 MiB) are looked at here,
    on your machine, and what they suggest is marked as a guess for you to confirm.
    """
    from hazeglass.cli.plans import new_plan
    from hazeglass.cli.printing import Printer

    new_plan(data, out, not no_header, Printer(json, quiet))


@plan_app.command("check")
@clear_errors
def plan_check(plan: PlanArgument, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Say whether a plan is complete, or what is missing."""
    from hazeglass.cli.plans import check_plan
    from hazeglass.cli.printing import Printer

    check_plan(plan, Printer(json, quiet))


@plan_app.command("preview")
@clear_errors
def plan_preview(
    plan: PlanArgument,
    rows: Annotated[int, typer.Option(help="How many rows the data has (public).")],
    see: Annotated[
        float | None, typer.Option(help="Also say which epsilon shows a partial correlation this big.")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Cost and expected quality of a plan, without the data."""
    from hazeglass.cli.plans import preview_plan
    from hazeglass.cli.printing import Printer

    preview_plan(plan, rows, see, Printer(json, quiet))


@app.command()
@clear_errors
def publish(
    data: DataArgument,
    plan: Annotated[Path, typer.Option(help="The plan.toml to follow.")],
    out: Annotated[Path, typer.Option(help="A new folder for the release.")],
    ledger: Annotated[Path | None, typer.Option(help="Charge the release to this ledger first.")] = None,
    engine: Annotated[EngineName, typer.Option(help="How to work through the rows.")] = EngineName.threads,
    scheduler: SchedulerOption = None,
    sign: Annotated[
        Path | None, typer.Option(help="Sign the release with this private key (`hazeglass key new`).", metavar="KEY")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and read the rows; draw, charge and write nothing.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Release DATA as the plan says. The release appears complete or not at all."""
    from hazeglass.cli.printing import Printer
    from hazeglass.cli.releases import publish_release, rehearse_release

    act = rehearse_release if dry_run else publish_release
    act(data, plan, out, ledger, _engine(engine, scheduler), sign, Printer(json, quiet))


@app.command()
@clear_errors
def verify(
    release: ReleaseArgument,
    key: Annotated[
        Path | None, typer.Option(help="The publisher's public key: refuse what it did not sign.", metavar="KEY.pub")
    ] = None,
    simulation: Annotated[
        bool, typer.Option("--simulation", help="Accept a simulation, which promises nothing.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check every byte of a release, derive its promise again, and say what it promises."""
    from hazeglass.cli.printing import Printer
    from hazeglass.cli.releases import verify_release

    verify_release(release, key, simulation, Printer(json, quiet))


@key_app.command("new")
@clear_errors
def key_new(
    file: Annotated[Path, typer.Argument(help="Where to write the private key; the public one is FILE.pub.")],
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make an Ed25519 key pair: FILE, which signs releases, and FILE.pub, which shows who signed them."""
    from hazeglass.cli.printing import Printer
    from hazeglass.cli.releases import make_key

    make_key(file, Printer(json, quiet))


@app.command()
@clear_errors
def recover(
    release: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="A new folder for the graph and the report.")],
    alpha: Annotated[float | None, typer.Option(help="The penalty; chosen by --select when left out.")] = None,
    select: Annotated[SelectName, typer.Option(help="How to choose the penalty.")] = SelectName.ebic,
    fdr: Annotated[float, typer.Option(help="False-discovery rate for calling a pair an edge.")] = 0.1,
    solver: Annotated[SolverName, typer.Option(help="Which solver to use.")] = SolverName.auto,
    dependence: Annotated[
        DependenceName | None,
        typer.Option(help="What to look for; left out, what the release was made for.", show_default=False),
    ] = None,
    marginals: Annotated[
        MarginalsName,
        typer.Option(help="Map columns to normal scores through their ranks first (tables with little noise)."),
    ] = MarginalsName.as_is,
    engine: Annotated[EngineName, typer.Option(help="How to work through a table's parts.")] = EngineName.threads,
    scheduler: SchedulerOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Recover the graph from a release, with error bars, and write a report."""
    from hazeglass.cli.printing import Printer
    from hazeglass.cli.releases import recover_graph

    options = {
        "alpha": alpha,
        "select": select.value,
        "fdr": fdr,
        "solver": solver.value,
        "dependence": None if dependence is None else dependence.value,
        "marginals": marginals.value,
        "engine": _engine(engine, scheduler),
    }
    recover_graph(release, out, options, Printer(json, quiet))


@app.command()
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
    from hazeglass.cli.audit import run_audit

    run_audit(plan, quick, json, out)


@app.command()
@clear_errors
def datasets(
    data_dir: Annotated[
        Path | None, typer.Option(help="The folder with the data; HAZEGLASS_DATA or our cache when left out.")
    ] = None,
    fetch: Annotated[
        str | None,
        typer.Option(help="First download this one into our cache, where its terms allow it.", metavar="NAME"),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """The data sets hazeglass can load: shape, truth, terms, source, and whether they are here."""
    from hazeglass.cli.datasets import list_datasets
    from hazeglass.cli.printing import Printer

    list_datasets(data_dir, fetch, Printer(json, quiet))


@app.command()
@clear_errors
def studio(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders the studio may browse; this one when none is given.")
    ] = None,
    port: Annotated[int, typer.Option(help="A port of this machine; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    upload_limit: Annotated[int, typer.Option(help="Largest .zip an analyst may upload, in MiB.", min=1)] = 1024,
) -> None:
    """Both rooms in your browser, on this machine only: publish from one, look at releases in the other."""
    from hazeglass.cli.studio import open_studio

    open_studio(folders or [Path()], port, browser, upload_limit)


class ResultName(StrEnum):
    """Results `reproduce` can run."""

    table1a = "table1a"
    table1b = "table1b"
    table2 = "table2"
    figures = "figures"
    toy = "toy"
    solvers = "solvers"
    baselines = "baselines"
    attacks = "attacks"
    honest = "honest"
    all = "all"


@app.command()
@clear_errors
def reproduce(
    result: Annotated[ResultName, typer.Argument(help="Which result of the paper.")],
    out: Annotated[Path, typer.Option(help="A new folder for tables, pictures and the page.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs and smaller cases: under four minutes.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="The folder with the data sets (else HAZEGLASS_DATA, else downloads).")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run the paper's experiments and put our numbers beside the printed ones."""
    from hazeglass.cli.printing import Printer
    from hazeglass.cli.reproduce import run_reproduce

    run_reproduce(result.value, quick, data_dir, out, workers, Printer(json, quiet))


LedgerArgument = Annotated[Path, typer.Argument(help="The ledger file.", metavar="FILE")]


@ledger_app.command("new")
@clear_errors
def ledger_new(
    file: LedgerArgument,
    dataset: Annotated[str, typer.Option(help="Whose budget it is.")],
    epsilon: Annotated[float | None, typer.Option(help="The total as epsilon, with --delta.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta that goes with --epsilon.")] = None,
    mu: Annotated[float | None, typer.Option(help="The total as mu, instead of epsilon and delta.")] = None,
    protects: Annotated[UnitChoice, typer.Option(help="The unit the budget protects.")] = UnitChoice.record,
    readings: Annotated[int, typer.Option(help="With --protects readings: how many cells.")] = 1,
    max_rows: Annotated[int, typer.Option(help="With --protects person: rows of one person.")] = 1,
    id_column: Annotated[
        str | None, typer.Option(help="With --protects person: the column that says who is one person.")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Start a ledger for a dataset with its total budget."""
    from hazeglass.cli.ledgers import new_ledger
    from hazeglass.cli.printing import Printer

    printer = Printer(json, quiet)
    new_ledger(file, dataset, mu, epsilon, delta, protects.value, readings, max_rows, id_column, printer)


@ledger_app.command("show")
@clear_errors
def ledger_show(file: LedgerArgument, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Total, spent and left."""
    from hazeglass.cli.ledgers import show_ledger
    from hazeglass.cli.printing import Printer

    show_ledger(file, Printer(json, quiet))


@ledger_app.command("history")
@clear_errors
def ledger_history(file: LedgerArgument, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Every release ever charged."""
    from hazeglass.cli.ledgers import show_history
    from hazeglass.cli.printing import Printer

    show_history(file, Printer(json, quiet))


@ledger_app.command("check")
@clear_errors
def ledger_check(
    file: LedgerArgument,
    releases: Annotated[
        list[str],
        typer.Argument(help="Releases: folders, .zip files or http(s) addresses.", metavar="RELEASE..."),
    ],
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find a ledger that is behind its releases: cut off at its end, or an older copy put back."""
    from hazeglass.cli.ledgers import check_ledger
    from hazeglass.cli.printing import Printer

    check_ledger(file, releases, Printer(json, quiet))
