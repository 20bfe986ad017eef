"""hazeglass publish | verify | recover."""

from __future__ import annotations

import json as jsonlib
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from hazeglass.bundle.reader import Release, load
from hazeglass.cli.printing import plain
from hazeglass.errors import SimulationError
from hazeglass.guarantee.explain import explain

__all__ = ["publish_release", "recover_graph", "show_edges", "verify_release"]


def publish_release(data: str, plan: Path, out: Path, ledger: Path | None, engine: str) -> None:
    """Publish with a progress line that is silent when nobody watches."""
    from hazeglass.publisher.publish import publish

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading rows")
        release = publish(
            data,
            plan,
            out,
            ledger=ledger,
            engine=engine,
            progress=lambda rows: bar.update(task, description=f"{rows:,} rows"),
        )
    _describe(release, Console())
    Console().print(f"Wrote {out}. Hand over the whole folder; statement.html says what it promises.", highlight=False)


def verify_release(path: Path, as_json: bool, simulation: bool) -> None:
    """Every byte is checked by loading; a simulation is refused as a private release unless it was announced as one."""
    release = load(path)
    manifest = release.manifest
    if as_json:
        summary = {
            "ok": not manifest.simulation,
            **{key: getattr(manifest, key) for key in ("title", "form", "n", "mu", "epsilon", "delta", "simulation")},
            "unit": manifest.unit.name,
            "columns": list(manifest.names),
        }
        Console(soft_wrap=True).print_json(jsonlib.dumps(summary))
    elif not manifest.simulation:
        _describe(release, Console())
        Console().print("Every file is as it was published.", highlight=False)
    elif simulation:
        Console().print("A simulation, as announced: every file is as it was written, and nothing is promised.")
    if manifest.simulation and not simulation:
        raise SimulationError(
            "this bundle is a simulation: its noise came from a seed and anyone can remove it. "
            "It is no private release."
        )


def recover_graph(path: Path, out: Path, alpha: float | None, select: str, fdr: float, solver: str) -> None:
    """Recover, save, and show the strongest edges."""
    from hazeglass.analyst.recover import recover

    release = load(path)
    console = Console(stderr=True)
    watched = console.status("recovering the graph") if console.is_terminal else nullcontext()
    with watched:
        graph = recover(release, alpha=alpha, select=select, fdr=fdr, solver=solver)
        graph.save(out)
    show_edges(graph.selected.to_pylist(), Console())
    for note in graph.fit["notes"]:
        Console().print(f"note: {note}", highlight=False)
    Console().print(f"Wrote {out}. Open {out / 'report.html'} in a browser.", highlight=False)


def show_edges(edges: list[dict[str, object]], console: Console, most: int = 15) -> None:
    """The strongest selected edges as a table."""
    if not edges:
        console.print("No pair is distinguishable from independence at this false-discovery rate.")
        return
    more = f", the strongest {most}" if len(edges) > most else ""
    table = Table(title=f"{len(edges)} edges{more}", title_justify="left")
    for heading in ("source", "target", "partial correlation", "95 % interval", "q"):
        table.add_column(heading, justify="left" if heading in ("source", "target") else "right", overflow="fold")
    for edge in edges[:most]:
        interval = f"{edge['ci_low']:+.3f} to {edge['ci_high']:+.3f}"
        values = (f"{edge['partial_correlation']:+.3f}", interval, f"{edge['q_value']:.1e}")
        table.add_row(plain(edge["source"]), plain(edge["target"]), *values)
    console.print(table)


def _describe(release: Release, console: Console) -> None:
    manifest = release.manifest
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    console.print(
        f"{plain(manifest.title)}: {manifest.form}, {manifest.n:,} rows, {len(manifest.columns)} columns.",
        highlight=False,
    )
    for sentence in words.promise:
        console.print(f"  {sentence}", highlight=False)
