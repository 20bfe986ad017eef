"""hazeglass key | publish | verify | pack | export | registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hazeglass.cli.terminal import (
    DataArgument,
    Printer,
    ReleaseArgument,
    SchedulerOption,
    counted,
    engine_name,
    facts,
    group,
    plain,
    speaking,
)
from hazeglass.compute.engines import EngineName
from hazeglass.errors import InputError, SimulationError

if TYPE_CHECKING:
    from hazeglass.bundle.reader import Release
    from hazeglass.publisher.plan import Plan

_LONGEST_TITLE = 60
_COUNTS = ("title", "n", "persons", "delta_slack", "simulation")  # what --json says of a release beside the promise
KeyOption = Annotated[
    Path | None, typer.Option(help="The publisher's public key: refuse what it did not sign.", metavar="KEY.pub")
]

key_app = group("Make keys to sign releases with.")


@key_app.command("new")
@speaking
def new_key(
    printer: Printer,
    file: Annotated[Path, typer.Argument(help="Where to write the private key; the public one is FILE.pub.")],
) -> None:
    """Make an Ed25519 key pair: FILE, which signs releases, and FILE.pub, which shows who signed them.

    Example: hazeglass key new office.key
    """
    from hazeglass.bundle import sign

    public = sign.new_key(file)
    printer.say(f"Wrote {plain(file)}, the private key: keep it secret, it signs with `publish --sign`.")
    printer.say(f"Wrote {plain(public)}, the public key: give it to readers, but not by the way the release takes.")
    printer.answer({"private": str(file), "public": str(public)})


@speaking
def publish(
    printer: Printer,
    data: DataArgument,
    plan: Annotated[Path, typer.Option(help="The plan.toml to follow.")],
    out: Annotated[Path, typer.Option(help="A new folder for the release.")],
    ledger: Annotated[Path | None, typer.Option(help="Charge the release to this ledger first.")] = None,
    after: Annotated[
        Path | None, typer.Option(help="With a [lifetime]: the release of the period before.", metavar="RELEASE")
    ] = None,
    engine: Annotated[EngineName, typer.Option(help="How to work through the rows.")] = "threads",
    scheduler: SchedulerOption = None,
    sign: Annotated[
        Path | None, typer.Option(help="Sign the release with this private key (`hazeglass key new`).", metavar="KEY")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and read the rows; draw, charge and write nothing.")
    ] = False,
    weak_on_purpose: Annotated[
        bool, typer.Option("--weak-on-purpose", help="Publish although epsilon is above 20 and hardly protects.")
    ] = False,
) -> None:
    """Release DATA as the plan says. The release appears complete or not at all.

    Example: hazeglass publish rows.csv --plan plan.toml --out release/
    """
    from hazeglass.publisher.plan import Plan
    from hazeglass.publisher.plan_columns import cautions, check_strength
    from hazeglass.publisher.publish import publish

    workers = engine_name(engine, scheduler)
    made = Plan.load(plan, data)
    check_strength(made, weak_on_purpose)
    for sentence in cautions(made):
        typer.echo(f"caution: {sentence}", err=True)
    options: dict[str, Any] = {"ledger": ledger, "after": after, "engine": workers}
    if dry_run:
        _rehearse(data, made, out, options, sign, printer)
        return
    with printer.watch("publishing") as progress:
        release = publish(data, made, out, sign=sign, weak_on_purpose=weak_on_purpose, progress=progress, **options)
    _describe(release, printer)
    printer.say(f"Wrote {plain(out)}. Hand over the whole folder; statement.html says what it promises.")
    printer.answer({"ok": True, "out": str(out), **facts(release.manifest, *_COUNTS)})


def _rehearse(data: str, plan: Plan, out: Path, options: dict[str, Any], sign: Path | None, printer: Printer) -> None:
    """Everything `publish` checks, without its consequences."""
    from hazeglass.bundle.sign import read_private_key
    from hazeglass.publisher.publish import rehearse

    if sign is not None:
        read_private_key(sign)
    with printer.watch("reading") as progress:
        seen = rehearse(data, plan, out, progress=progress, **options)
    made = seen.plan
    size = f"{seen.persons:,} persons" if seen.rows is None else f"{seen.rows:,} rows"
    printer.say(  # the same whatever the publisher alone was told of the rows
        f"It would be published; read any lines above first: {size} and {counted(len(made.columns), 'column')} "
        f"would become a {made.form} release that protects {made.unit.in_words}, at mu = {made.guarantee.mu:.4g} "
        f"(epsilon = {made.epsilon:.4g} at delta = {made.delta:g})."
    )
    if seen.mu_left is not None:
        printer.say(f"The ledger has room: mu = {seen.mu_left:.4g} is left for one release.")
    printer.say("Nothing was drawn, charged or written. Run it again without --dry-run to publish.")
    sizes = {"rows": seen.rows, "persons": seen.persons, "mu_left_in_ledger": seen.mu_left}
    printer.answer({"ok": True, "dry_run": True, **sizes, **facts(made)})


@speaking
def verify(
    printer: Printer,
    release: ReleaseArgument,
    key: KeyOption = None,
    simulation: Annotated[
        bool, typer.Option("--simulation", help="Accept a simulation, which promises nothing.")
    ] = False,
) -> None:
    """Check every byte of a release, derive its promise again, and say what it promises.

    Example: hazeglass verify release/ --key office.key.pub
    """
    from hazeglass.bundle.reader import load

    with printer.watch("checking"):
        loaded = load(release, key=key)  # what another version wrote, it says on standard error, quiet or not
        loaded.check_values()
    manifest = loaded.manifest
    checked = {"signature": loaded.signature, "not_compared": list(loaded.not_compared)}
    printer.answer({"ok": not manifest.simulation, **checked, **facts(manifest, *_COUNTS)})
    if not manifest.simulation:
        _describe(loaded, printer)
        printer.say("No file is damaged or missing, and the promise follows from the noise that is stated.")
        _tell_origin(loaded, printer)
    elif simulation:
        printer.say("A simulation, as announced: no file is damaged or missing, and nothing is promised.")
        _tell_origin(loaded, printer)
    else:
        raise SimulationError(
            "this bundle is a simulation: its noise came from a seed and anyone can remove it. "
            "It is no private release."
        )


@speaking
def pack(
    printer: Printer,
    release: ReleaseArgument,
    out: Annotated[Path | None, typer.Option(help="Where to write the .zip; beside the release when left out.")] = None,
) -> None:
    """Make one .zip of a release, to hand over or to upload; verify and recover read it as it is.

    Example: hazeglass pack release/ --out ward-2025.zip
    """
    from hazeglass.bundle.reader import load
    from hazeglass.bundle.transport import pack

    loaded = load(release)
    if out is None and ("://" in release or Path(release).is_file()):
        raise InputError("a release from elsewhere, or packed already, is packed where you say: add --out FILE.zip.")
    target = out or Path(f"{Path(release).resolve()}.zip")
    with printer.watch("packing"):
        pack(loaded.path, target)
    printer.say(f"Wrote {plain(target)} ({target.stat().st_size:,} bytes).")
    printer.answer({"out": str(target), "bytes": target.stat().st_size})


@speaking
def export(
    printer: Printer,
    release: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="A new file for the rows: .csv or .parquet.")],
    words: Annotated[
        bool, typer.Option("--words", help="Write levels as words, not as numbers from 0, where they have no noise.")
    ] = False,
    key: KeyOption = None,
) -> None:
    """Write the rows of a table or synthetic release into one file, for programs that read CSV or Parquet.

    Example: hazeglass export release/ --out rows.csv
    """
    from hazeglass.analyst.export import write_rows
    from hazeglass.bundle.reader import load

    loaded = load(release, key=key)
    with printer.watch("writing rows"):
        write_rows(loaded, out, words=words)
    printer.say(f"Wrote {plain(out)}: {loaded.n:,} rows, {counted(len(loaded.columns), 'column')}.")
    printer.answer({"out": str(out), "rows": loaded.n, "columns": list(loaded.manifest.names)})


@speaking
def registry(
    printer: Printer,
    release: ReleaseArgument,
    out: Annotated[Path | None, typer.Option(help="A new file for the entry; standard output when left out.")] = None,
    form: Annotated[
        Literal["opendp", "dcat"],
        typer.Option("--format", help="For the OpenDP Deployments Registry (YAML), or a DCAT catalogue (JSON-LD)."),
    ] = "opendp",
) -> None:
    """Write an entry about a release for a registry or a catalogue, from what the release states.

    What only the publisher knows comes from [publication] in the plan.

    Example: hazeglass registry release/ --out entry.yaml
    """
    from hazeglass._files import new_file
    from hazeglass.bundle.catalogue import BLANK, dcat_entry, missing_words, registry_entry
    from hazeglass.bundle.reader import load

    manifest = load(release).manifest
    if manifest.simulation:
        raise SimulationError("a simulation promises nothing, so no registry should list it.")
    entry = registry_entry(manifest) if form == "opendp" else dcat_entry(manifest)
    missing = missing_words(manifest)
    printer.answer({"entry": entry, "missing": missing})
    text = printable(yaml_text(entry) if form == "opendp" else json.dumps(entry, indent=2, ensure_ascii=False) + "\n")
    if out is not None:
        with new_file(out) as draft:
            draft.write_text(text, encoding="utf-8", newline="\n")
        printer.say(f"Wrote {plain(out)}.")
    elif not printer.as_json:
        typer.echo(text, nl=False)
    if missing:
        blanks = f"stand there as {BLANK}" if form == "opendp" else "are left out"
        typer.echo(f"note: the plan's [publication] does not say {', '.join(missing)}, which {blanks}.", err=True)


def yaml_text(value: Mapping[str, Any]) -> str:
    """A document of mappings, lists, text and numbers as YAML; text is written as JSON has it, which YAML reads."""
    return "\n".join(_lines(value, 0)) + "\n"


def printable(document: str) -> str:
    """The same document of JSON or YAML, in which what a terminal would obey is written as an escape.

    Such characters stand in its strings alone.
    """
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in document)


def _lines(value: Any, depth: int) -> Iterator[str]:
    space = "  " * depth
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield f"{space}{key}:"
            yield from _lines(inner, depth + 1)
        elif isinstance(inner, list):
            yield f"{space}{key}:"
            for entry in inner:
                yield f"{space}  - {json.dumps(entry, ensure_ascii=False)}"
        elif isinstance(inner, float):  # 1e-06 would be a word to older readers
            number = repr(inner)
            yield f"{space}{key}: {number if '.' in number else number.replace('e', '.0e')}"
        else:
            yield f"{space}{key}: {json.dumps(inner, ensure_ascii=False)}"


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
        printer.say(f"Not checked: what {', '.join(release.not_compared)} say, which another version wrote.")


def _describe(release: Release, printer: Printer) -> None:
    from hazeglass.guarantee.gdp import explain

    manifest = release.manifest
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    size = f"{manifest.n:,} rows"
    if manifest.persons is not None:
        size = f"{manifest.persons:,} persons, {'' if manifest.form == 'table' else 'about '}{size}"
    # Short, and without room in it: a long title could end in lines that look like ours.
    title = " ".join(manifest.title.split())
    title = title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 3]}..."
    printer.say(f'"{plain(title)}": {manifest.form}, {size}, {counted(len(manifest.columns), "column")}.')
    for sentence in words.promise:
        printer.say(f"  {sentence}")
    printer.say(f"  The sampler's distance from the ideal adds at most {manifest.delta_slack:.2g} to delta.")
