"""hazeglass datasets | reproduce: the data sets we can load, and the paper's results run again on them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hazeglass
from hazeglass.cli.terminal import Printer, moving, plain, speaking, table
from hazeglass.errors import InputError

if TYPE_CHECKING:
    from hazeglass.datasets.dataset import Entry

_PACKAGE = "hazeglass_experiments"


@speaking
def datasets(
    printer: Printer,
    data_dir: Annotated[
        Path | None, typer.Option(help="The folder with the data; HAZEGLASS_DATA or our cache when left out.")
    ] = None,
    fetch: Annotated[
        str | None,
        typer.Option(help="First download this one into our cache, where its terms allow it.", metavar="NAME"),
    ] = None,
) -> None:
    """The data sets hazeglass can load: shape, truth, terms, source, and whether they are here.

    Example: hazeglass datasets --fetch cell_signalling
    """
    from hazeglass.datasets.dataset import CATALOGUE, folders
    from hazeglass.datasets.download import fetch as download

    if fetch is not None:
        with printer.watch(f"fetching {plain(fetch)}"):
            folder = download(fetch)
        printer.say(f"{plain(fetch)} is in {plain(folder)}. Its terms: {CATALOGUE[fetch].licence}.")
    looked = [str(folder) for folder in folders(data_dir)]
    found = [_described(one, data_dir) for one in CATALOGUE.values()]
    printer.answer({"folders": looked, "datasets": found})
    words = ("name", "kind", "here", "true graph")
    shown = table("name", "rows x columns", *words[1:], words=words)
    for facts in found:
        shape, here = f"{facts['rows']:,} x {facts['columns']}", "yes" if facts["present"] else "no"
        shown.add_row(facts["name"], shape, facts["kind"], here, facts["truth"])
    printer.say(shown)
    for one in CATALOGUE.values():
        printer.say(
            f"[bold]{one.name}[/bold]: {plain(one.source)}. Licence: {plain(one.licence)}. {plain(one.note)}".rstrip()
        )
    fetched = ", ".join(one.name for one in CATALOGUE.values() if one.addresses)
    printer.say(
        f"Looked in {plain(' and '.join(looked))}. --data-dir or HAZEGLASS_DATA names another folder; --fetch NAME "
        f"downloads {fetched}; grid11 and grid115 can be made again from the home loads "
        f"({plain('hazeglass[grid]')}: hazeglass_experiments.grids.make_grid11, make_grid115)."
    )


def _described(one: Entry, data_dir: Path | None) -> dict[str, Any]:
    from hazeglass.datasets.dataset import find, is_present

    kept = ("name", "rows", "columns", "kind", "truth", "licence", "source", "note", "addresses")
    rows = find(one, next(iter(one.files)), data_dir)
    here = {"present": is_present(one, data_dir), "path": None if rows is None else str(rows.parent)}
    return {**{key: getattr(one, key) for key in kept}, **here}


@speaking
def reproduce(
    printer: Printer,
    result: Annotated[
        str,
        typer.Argument(
            help="A result of the paper: table1a, table1b, table2, figures, ... or all; any other word lists them.",
            metavar="RESULT",
        ),
    ],
    out: Annotated[Path, typer.Option(help="A new folder for tables, pictures and the page.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs and smaller cases: under four minutes.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="The folder with the data sets (else HAZEGLASS_DATA, else downloads).")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
) -> None:
    """Run the paper's experiments and put our numbers beside the printed ones.

    Example: hazeglass reproduce table1a --quick --out table1a
    """
    load_experiments()
    everything = import_module(f"{_PACKAGE}.everything")
    if result not in everything.TARGETS:
        raise InputError(f"a result must be one of {', '.join(everything.TARGETS)}, got {result!r}.")
    setup = import_module(f"{_PACKAGE}.cells").Setup(quick, None if data_dir is None else str(data_dir))
    try:
        with moving("reproduce", counted=True, quiet=printer.quiet) as update:

            def watch(total: int) -> Callable[[str], None]:
                update(total=total)
                return lambda name: update(description=name, advance=1)

            sections = everything.reproduce(result, setup, out, work, workers=workers, watch=watch)
    except KeyboardInterrupt:
        typer.echo("hazeglass: interrupted; the same command goes on where this one stopped.", err=True)
        raise typer.Exit(130) from None
    for section in sections:
        printer.say(f"{section.title}. {section.text[0]}")
    printer.say(f"\nOpen {out / 'index.html'}; tables and pictures are in {out}.")
    printer.answer({"out": str(out), "sections": [section.name for section in sections]})


def load_experiments() -> ModuleType:
    """The experiments as a package: the folder of a checkout, or the one the wheel brings."""
    if _PACKAGE in sys.modules:
        return sys.modules[_PACKAGE]
    library = Path(hazeglass.__file__).resolve().parent
    for folder in (library.parents[1] / "experiments", library.parent / _PACKAGE):
        if (folder / "everything.py").is_file():
            return _load(folder)
    raise InputError(
        "hazeglass reproduce needs the experiments, and this installation has none. "
        "Run it from a checkout, or install the wheel."
    )


def _load(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)
    return package


def work(function: str, setup: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """Compute one cell. It lives here because a new process can import this module but not yet the experiments."""
    load_experiments()
    return import_module(f"{_PACKAGE}.cells").call(function, setup, arguments)
