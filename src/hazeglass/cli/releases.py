"""hazeglass key | publish | verify | recover."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.reader import Release, load
from hazeglass.bundle.sign import new_key, read_private_key
from hazeglass.cli.printing import Printer, plain
from hazeglass.errors import HazeglassWarning, SimulationError
from hazeglass.guarantee.explain import explain

__all__ = ["make_key", "publish_release", "recover_graph", "rehearse_release", "show_edges", "verify_release"]


def make_key(path: Path, printer: Printer) -> None:
    """A key pair to sign releases with."""
    public = new_key(path)
    printer.say(f"Wrote {plain(path)}, the private key: keep it secret, it signs with `publish --sign`.")
    printer.say(f"Wrote {plain(public)}, the public key: give it to readers, but not by the way the release takes.")
    printer.answer({"private": str(path), "public": str(public)})


def publish_release(
    data: str, plan: Path, out: Path, ledger: Path | None, engine: str, sign: Path | None, printer: Printer
) -> None:
    """Publish with a progress line that is silent when nobody watches."""
    from hazeglass.publisher.publish import publish

    with printer.watch("publishing") as progress:
        release = publish(data, plan, out, ledger=ledger, engine=engine, sign=sign, progress=progress)
    _describe(release, printer)
    printer.say(f"Wrote {plain(out)}. Hand over the whole folder; statement.html says what it promises.")
    printer.answer({"out": str(out), **_summary(release.manifest)})


def rehearse_release(
    data: str, plan: Path, out: Path, ledger: Path | None, engine: str, sign: Path | None, printer: Printer
) -> None:
    """Everything `publish` checks, without its consequences."""
    from hazeglass.publisher.rehearse import rehearse

    if sign is not None:
        read_private_key(sign)
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


def verify_release(path: str, key: Path | None, simulation: bool, printer: Printer) -> None:
    """Every byte is checked by loading; a simulation is refused as a private release unless it was announced as one."""
    with printer.watch("checking"), warnings.catch_warnings():
        warnings.simplefilter("ignore", HazeglassWarning)  # what it would say is said below
        release = load(path, key=key)
        release.check_values()
    manifest = release.manifest
    checked = {"signature": release.signature, "not_compared": list(release.not_compared)}
    printer.answer({"ok": not manifest.simulation, **checked, **_summary(manifest)})
    if not manifest.simulation:
        _describe(release, printer)
        printer.say("No file is damaged or missing, and the promise follows from the noise that is stated.")
        _tell_origin(release, printer)
    elif simulation:
        printer.say("A simulation, as announced: no file is damaged or missing, and nothing is promised.")
        _tell_origin(release, printer)
    else:
        raise SimulationError(
            "this bundle is a simulation: its noise came from a seed and anyone can remove it. "
            "It is no private release."
        )


_ORIGIN = {
    "none": "Nothing here shows who made it: hashes find damage and incomplete copies, and the release is not signed.",
    "not checked": "Nothing here shows who made it: hashes find damage and incomplete copies, and the signature was "
    "not checked. Get the publisher's public key by another way, and run verify with --key.",
    "valid": "The signature is right: whoever holds the private half of this key signed it, and it is unchanged since.",
}


def _tell_origin(release: Release, printer: Printer) -> None:
    """What was checked about where the release comes from, and what was not."""
    printer.say(_ORIGIN[release.signature])
    if release.not_compared:
        printer.say(
            f"Another version of hazeglass wrote {', '.join(release.not_compared)}: they were not compared with "
            "release.json, which is the truth."
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
