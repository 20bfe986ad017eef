"""hazeglass reproduce: find the experiments, run them, say where the results are."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

import hazeglass
from hazeglass.cli.printing import Printer, moving
from hazeglass.errors import InputError

__all__ = ["load_experiments", "run_reproduce", "work"]

_PACKAGE = "hazeglass_experiments"


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
    return import_module(f"{_PACKAGE}.running").call(function, setup, arguments)


def run_reproduce(
    target: str, quick: bool, data_dir: Path | None, out: Path, workers: int | None, printer: Printer
) -> None:
    """Run, write, print one line per result."""
    load_experiments()
    everything = import_module(f"{_PACKAGE}.everything")
    setup = import_module(f"{_PACKAGE}.cells").Setup(quick, None if data_dir is None else str(data_dir))
    try:
        with _watching(printer) as watch:
            sections = everything.reproduce(target, setup, out, work, workers=workers, watch=watch)
    except KeyboardInterrupt:
        typer.echo("hazeglass: interrupted; the same command goes on where this one stopped.", err=True)
        raise typer.Exit(130) from None
    for section in sections:
        printer.say(f"{section.title}. {section.text[0]}")
    printer.say(f"\nOpen {out / 'index.html'}; tables and pictures are in {out}.")
    printer.answer({"out": str(out), "sections": [section.name for section in sections]})


@contextmanager
def _watching(printer: Printer) -> Iterator[Callable[[int], Callable[[str], None]]]:
    """A bar on a terminal, nothing anywhere else."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with moving(*columns, quiet=printer.quiet) as bar:

        def start(total: int) -> Callable[[str], None]:
            task = bar.add_task("reproduce", total=total)
            return lambda name: bar.update(task, description=name, advance=1)

        yield start
