"""hazeglass recover | compare | synthesize."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from hazeglass.analyst import MARGINALS, SELECTS, SOLVERS, Dependence, Device, Marginals, Select, SolverName
from hazeglass.cli.releases import KeyOption
from hazeglass.cli.terminal import (
    Printer,
    ReleaseArgument,
    SchedulerOption,
    counted,
    engine_name,
    plain,
    speaking,
    table,
)
from hazeglass.compute.engines import EngineName

if TYPE_CHECKING:
    from hazeglass.analyst.synthesize import Synthesis


@speaking
def recover(
    printer: Printer,
    releases: Annotated[
        list[str],
        typer.Argument(
            help="A release: its folder, a .zip of it, or its http(s) address. Several of the same columns are pooled.",
            metavar="RELEASE...",
        ),
    ],
    out: Annotated[Path, typer.Option(help="A new folder for the graph and the report.")],
    alpha: Annotated[float | None, typer.Option(help="The penalty; chosen by --select when left out.")] = None,
    select: Annotated[Select, typer.Option(help="How to choose the penalty.")] = SELECTS[0],
    fdr: Annotated[float, typer.Option(help="False-discovery rate for calling a pair an edge.")] = 0.1,
    solver: Annotated[SolverName, typer.Option(help="Which solver to use.")] = SOLVERS[0],
    device: Annotated[Device, typer.Option(help="Where to solve; cuda needs hazeglass[gpu].")] = "cpu",
    dependence: Annotated[
        Dependence | None,
        typer.Option(help="What to look for; left out, what the release was made for.", show_default=False),
    ] = None,
    marginals: Annotated[
        Marginals,
        typer.Option(help="Map columns to normal scores through their ranks first (tables with little noise)."),
    ] = MARGINALS[0],
    engine: Annotated[EngineName, typer.Option(help="How to work through a table's parts.")] = "threads",
    scheduler: SchedulerOption = None,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Also write edges.parquet with every pair, however many.")
    ] = False,
    lags: Annotated[
        int | None,
        typer.Option(help="Rows of your own, in time: how many rows before a row may lead to it.", show_default=False),
    ] = None,
    key: KeyOption = None,
) -> None:
    """Recover the graph from a release, with error bars, and write a report.

    Rows of your own (.csv, .parquet, .xlsx, or - for standard input) are taken as they are: no noise, no promise.
    Several releases of the same columns, each of rows of its own, become one graph.

    Example: hazeglass recover release/ --out graph/ --fdr 0.05
    """
    from hazeglass.analyst.recover import Step, recover
    from hazeglass.analyst.source import is_rows
    from hazeglass.bundle.reader import load
    from hazeglass.bundle.writer import check_new

    workers = engine_name(engine, scheduler)
    check_new(out)
    with printer.steps("recovering the graph") as step:
        step(Step("checking the release", 0.0))
        opened = [one if is_rows(one) and key is None else load(one, key=key) for one in releases]
        graph = recover(
            opened[0] if len(opened) == 1 else opened,
            alpha=alpha,
            select=select,
            fdr=fdr,
            solver=solver,
            device=device,
            dependence=dependence,
            marginals=marginals,
            engine=workers,
            all_pairs=all_pairs,
            lags=lags,
            progress=step,
        )
        step(Step("writing the report", 0.95))
        graph.save(out, all_pairs=all_pairs)
    edges, in_time = graph.selected.to_pylist(), graph.lagged is not None
    arrows = graph.arrows.to_pylist() if in_time else []
    if graph.fit.get("distrusted") is None:
        show_edges(edges, printer.console)
        show_arrows(arrows, printer.console)
    if apart := graph.fit.get("disagreement"):
        printer.say(_agreement(apart, len(graph.fit["releases"])))
    for note in graph.fit["notes"]:
        printer.say(f"note: {plain(note)}")
    printer.say(f"Wrote {plain(out)}. Open {plain(out / 'report.html')} in a browser.")
    printer.answer(
        {
            "out": str(out),
            "columns": list(graph.names),
            "edges": edges,
            **({"arrows": arrows} if in_time else {}),
            "fit": dict(graph.fit),
        }
    )


def _agreement(apart: dict[str, Any], releases: int) -> str:
    """Whether several releases have one graph, in a sentence."""
    count, chance = apart["pairs_that_differ"], f"overall p = {apart['p_value']:.2g}"
    if not count:
        return f"The {releases} releases agree on every pair, as far as their noise lets us see ({chance})."
    one, other, _ = apart["most"][0]
    return (
        f"The {releases} releases differ in {count} pair{'s' if count > 1 else ''}, most in {plain(one)} and "
        f"{plain(other)} ({chance}); edges.csv says which (disagreement_p)."
    )


def show_edges(edges: list[dict[str, object]], console: Console, most: int = 15) -> None:
    """The strongest selected edges as a table."""
    if not edges:
        console.print("No pair is distinguishable from independence at this false-discovery rate.")
        return
    more = f", the strongest {most}" if len(edges) > most else ""
    whole, curved = "strength" in edges[0], any(edge.get("shape") == "curved" for edge in edges)
    part = "linear\npart" if curved else "partial\ncorrelation"
    values = (*(("strength",) if whole else ()), *(("shape",) if curved else ()), part)
    ends = ("source", "target")
    shown = table(
        *ends, *values, "95 % interval", "q", words=ends, title=f"{counted(len(edges), 'edge')}{more}", lines=False
    )
    for edge in edges[:most]:
        size = ("", "")  # where an end has no order
        if edge["partial_correlation"] is not None:
            size = f"{edge['partial_correlation']:+.3f}", f"{edge['ci_low']:+.3f} to {edge['ci_high']:+.3f}"
        strength = (f"{edge['strength']:.3f}",) if whole else ()
        shape = (plain(edge["shape"]),) if curved else ()
        shown.add_row(plain(edge["source"]), plain(edge["target"]), *strength, *shape, *size, chance(edge["q_value"]))
    console.print(shown)
    if any(edge["partial_correlation"] is None for edge in edges[:most]):
        console.print("No partial correlation: an end has levels without an order; the report says which go together.")


def show_arrows(arrows: list[dict[str, Any]], console: Console, most: int = 15) -> None:
    """Who leads whom: the strongest arrows as a table."""
    if not arrows:
        return
    more = f", the strongest {most}" if len(arrows) > most else ""
    ends = ("source", "target")
    shown = table(*ends, "rows\nbefore", "coefficient", "q", words=ends, title=f"{len(arrows)} lead{more}", lines=False)
    for one in arrows[:most]:
        size = f"{one['coefficient']:+.3f}"
        shown.add_row(plain(one["source"]), plain(one["target"]), str(one["lag"]), size, chance(one["q_value"]))
    console.print(shown)


def chance(q: Any) -> str:
    """A q-value; below what a test can tell, its order of magnitude says nothing."""
    return "< 1e-16" if q < 1e-16 else f"{q:.1e}"


@speaking
def compare(
    printer: Printer,
    release_a: Annotated[str, typer.Argument(help="A release, as `recover` takes it.", metavar="RELEASE-A")],
    release_b: Annotated[str, typer.Argument(help="Another of the same columns.", metavar="RELEASE-B")],
    out: Annotated[Path, typer.Option(help="A new folder for the differences and a page about them.")],
    fdr: Annotated[float, typer.Option(help="False-discovery rate of the differences, and of edges.")] = 0.1,
    key: KeyOption = None,
) -> None:
    """Say which edges differ between two releases of the same columns: two groups, or two years.

    Example: hazeglass compare 2024/ 2025/ --out diff/
    """
    from hazeglass.analyst.compare import compare
    from hazeglass.bundle.writer import check_new

    check_new(out)
    with printer.steps("comparing") as step:
        diff = compare(release_a, release_b, fdr=fdr, key=key, progress=step)
        diff.save(out)
    rows = diff.selected.to_pylist()
    if diff.fit["distrusted"] is None:
        _show_differences(rows, printer.console)
    for note in diff.fit["notes"]:
        printer.say(f"note: {plain(note)}")
    printer.say(f"Wrote {plain(out)}. Open {plain(out / 'diff.html')} in a browser.")
    printer.answer({"out": str(out), "columns": list(diff.names), "differing": rows, "fit": dict(diff.fit)})


def _show_differences(rows: list[dict[str, Any]], console: Console, most: int = 15) -> None:
    """The largest differences as a table."""
    if not rows:
        console.print("No pair differs beyond noise and chance at this false-discovery rate.")
        return
    ends, more = ("source", "target"), f", the largest {most}" if len(rows) > most else ""
    title = f"{len(rows)} pair{' differs' if len(rows) == 1 else 's differ'}{more}"
    shown = table(*ends, "a", "b", "b - a", "95 % interval", "q", "change", words=ends, title=title, lines=False)
    for row in rows[:most]:
        sides = (f"{row['partial_correlation_a']:+.3f}", f"{row['partial_correlation_b']:+.3f}")
        interval = f"{row['ci_low']:+.3f} to {row['ci_high']:+.3f}"
        found = (f"{row['difference']:+.3f}", interval, chance(row["q_value"]), row["change"])
        shown.add_row(plain(row["source"]), plain(row["target"]), *sides, *found)
    console.print(shown)


@speaking
def synthesize(
    printer: Printer,
    release: ReleaseArgument,
    rows: Annotated[int, typer.Option(min=1, help="How many rows.")],
    out: Annotated[Path, typer.Option(help="A new folder; or a new file that ends in .parquet or .csv.")],
    form: Annotated[Literal["parquet", "csv"], typer.Option("--format", help="What a folder holds.")] = "parquet",
    copies: Annotated[int, typer.Option(min=1, max=100, help="How many sets of rows, for error bars.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed gives the same rows.")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Exactly the released mean and covariance (linear and public scale).")
    ] = False,
    complete: Annotated[bool, typer.Option("--complete", help="No missing cells.")] = False,
    compare: Annotated[
        Path | None, typer.Option(help="Publisher only: draw these real rows beside the synthetic ones.", metavar="RAW")
    ] = None,
    key: KeyOption = None,
) -> None:
    """Draw rows from a release of moments, at no further cost in privacy.

    Example: hazeglass synthesize release/ --rows 10000 --out rows/
    """
    import secrets

    from hazeglass.analyst.rows_package import PAGE, check_rows_place, write_comparison, write_package
    from hazeglass.bundle.reader import load
    from hazeglass.errors import InputError

    check_rows_place(out)
    if compare is not None and (
        copies > 1 or exact or complete or form != "parquet" or out.suffix in (".csv", ".parquet")
    ):
        raise InputError(
            "--compare makes a folder with one page and writes no rows. Leave --copies, --exact, --complete and "
            "--format out, and name a folder."
        )
    loaded = load(release, key=key)
    number = secrets.randbelow(2**53) if seed is None else seed
    with printer.steps("drawing rows") as progress:
        if compare is not None:
            made = [write_comparison(loaded, compare, out, rows, number)]
        else:
            write = partial(write_package, copies=copies, kind=form, exact=exact, missing=not complete)
            made = write(loaded, out, rows, number, progress=progress)
        for one in made:
            one.warn()
    _say(printer, out if compare is None else out / PAGE, made, compared=compare is not None)


def _say(printer: Printer, out: Path, made: list[Synthesis], *, compared: bool) -> None:
    """What was written, and how good it is."""
    rows, number, copies = made[0].rows, made[0].seed, len(made)
    what = f"{rows:,} rows" if copies == 1 else f"{copies} times {rows:,} rows"
    checked = [one.checked() for one in made]
    if checked[0]["model"].endswith("field"):
        worst = max(one["worst_agreement"] for one in checked)
        printer.say(
            f"Pairs of columns with tables of their own: {checked[0]['pairs']}. Rows miss the released ones by at most "
            f"{worst:.2g} times what noise and so many rows explain."
        )
    if compared:
        what = f"real rows beside {rows:,} synthetic ones. No noise protects what is on it: do not hand it over"
    printer.say(f"Wrote {plain(out)}: {what}{'' if compared else f', seed {number}'}.")
    printer.answer({"out": str(out), "checked": checked})
