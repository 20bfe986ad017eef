"""hazeglass publish | verify | recover."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.reader import Release, load
from hazeglass.cli.printing import Printer, plain
from hazeglass.errors import SimulationError
from hazeglass.guarantee.explain import explain

__all__ = ["publish_release", "recover_graph", "rehearse_release", "show_edges", "verify_release"]


def publish_release(data: str, plan: Path, out: Path, ledger: Path | None, engine: str, printer: Printer) -> None:
    """Publish with a progress line that is silent when nobody watches."""
    from hazeglass.publisher.publish import publish

    with printer.watch("publishing") as progress:
        release = publish(data, plan, out, ledger=ledger, engine=engine, progress=progress)
    _describe(release, printer)
    printer.say(f"Wrote {plain(out)}. Hand over the whole folder; statement.html says what it promises.")
    printer.answer({"out": str(out), **_summary(release.manifest)})


def rehearse_release(data: str, plan: Path, out: Path, ledger: Path | None, engine: str, printer: Printer) -> None:
    """Everything `publish` checks, without its consequences."""
    from hazeglass.publisher.rehearse import rehearse

    with printer.watch("reading") as progress:
        seen = rehearse(data, plan, out, ledger=ledger, engine=engine, progress=progress)
    made = seen.plan
    size = f"{seen.persons:,} persons" if seen.rows is None else f"{seen.rows:,} rows"
    printer.say(
        f"All is well: {size} and {len(made.columns)} columns would become a {made.form} release that "
        f"protects {made.unit.in_words}, at mu = {made.guarantee.mu:.4g} (epsilon = {made.epsilon:.4g} at delta = "
        f"{made.delta:g})."
    )
    if seen.mu_left is not None:
        printer.say(f"The ledger has room: mu = {seen.mu_left:.4g} is left for one release.")
    printer.say("Nothing was drawn, charged or written. Run it again without --dry-run to publish.")
    printer.answer(
        {
            "dry_run": True,
            "rows": seen.rows,
            "persons": seen.persons,
            "columns": list(made.names),
            "form": made.form,
            "unit": made.unit.name,
            "mu": made.guarantee.mu,
            "epsilon": made.epsilon,
            "delta": made.delta,
            "mu_left_in_ledger": seen.mu_left,
        }
    )


def verify_release(path: str, simulation: bool, printer: Printer) -> None:
    """Every byte is checked by loading; a simulation is refused as a private release unless it was announced as one."""
    with printer.watch("checking"):
        release = load(path)
    manifest = release.manifest
    printer.answer({"ok": not manifest.simulation, **_summary(manifest)})
    if not manifest.simulation:
        _describe(release, printer)
        printer.say("Every file is as it was published, and the promise follows from the noise that is stated.")
    elif simulation:
        printer.say("A simulation, as announced: every file is as it was written, and nothing is promised.")
    else:
        raise SimulationError(
            "this bundle is a simulation: its noise came from a seed and anyone can remove it. "
            "It is no private release."
        )


def recover_graph(path: str, out: Path, options: Mapping[str, Any], printer: Printer) -> None:
    """Recover with the options of :func:`hazeglass.recover`, save, and show the strongest edges."""
    from hazeglass.analyst.recover import recover
    from hazeglass.bundle.writer import check_new

    check_new(out)
    with printer.watch("recovering the graph"):
        graph = recover(load(path), **options)
        graph.save(out)
    edges = graph.selected.to_pylist()
    show_edges(edges, printer.console)
    for note in graph.fit["notes"]:
        printer.say(f"note: {plain(note)}")
    printer.say(f"Wrote {plain(out)}. Open {plain(out / 'report.html')} in a browser.")
    printer.answer({"out": str(out), "columns": list(graph.names), "edges": edges, "fit": dict(graph.fit)})


def show_edges(edges: list[dict[str, object]], console: Console, most: int = 15) -> None:
    """The strongest selected edges as a table."""
    if not edges:
        console.print("No pair is distinguishable from independence at this false-discovery rate.")
        return
    more = f", the strongest {most}" if len(edges) > most else ""
    table = Table(title=f"{len(edges)} edges{more}", title_justify="left")
    curved = "shape" in edges[0]
    headings = ("strength", "shape", "linear part") if curved else ("partial correlation",)
    for heading in ("source", "target", *headings, "95 % interval", "q"):
        table.add_column(heading, justify="left" if heading in ("source", "target") else "right", overflow="fold")
    for edge in edges[:most]:
        interval = f"{edge['ci_low']:+.3f} to {edge['ci_high']:+.3f}"
        values = (f"{edge['partial_correlation']:+.3f}", interval, f"{edge['q_value']:.1e}")
        whole = (f"{edge['strength']:.3f}", plain(edge["shape"])) if curved else ()
        table.add_row(plain(edge["source"]), plain(edge["target"]), *whole, *values)
    console.print(table)


def _summary(manifest: Manifest) -> dict[str, Any]:
    kept = ("title", "form", "n", "persons", "mu", "epsilon", "delta", "simulation")
    return {
        **{key: getattr(manifest, key) for key in kept},
        "unit": manifest.unit.name,
        "columns": list(manifest.names),
    }


def _describe(release: Release, printer: Printer) -> None:
    manifest = release.manifest
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    size = f"{manifest.n:,} rows"
    if manifest.persons is not None:
        size = f"{manifest.persons:,} persons, {'' if manifest.form == 'table' else 'about '}{size}"
    printer.say(f"{plain(manifest.title)}: {manifest.form}, {size}, {len(manifest.columns)} columns.")
    for sentence in words.promise:
        printer.say(f"  {sentence}")
