"""What all commands share: their options, what is printed and when, and how an error ends.

Prose for people, JSON for programs, nothing when asked to be quiet; one clear sentence and the right exit status
instead of a traceback.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from hazeglass.compute.engines import EngineName
from hazeglass.errors import HazeglassError, HazeglassWarning, InputError

__all__ = [
    "DataArgument",
    "JsonOption",
    "Printer",
    "QuietOption",
    "ReleaseArgument",
    "SchedulerOption",
    "clear_errors",
    "engine_name",
    "group",
    "moving",
    "plain",
]

P = ParamSpec("P")
R = TypeVar("R")

DataArgument = Annotated[
    str,
    typer.Argument(
        help="A CSV or Parquet file, a folder of them, a glob, or an address such as s3://bucket/folder.",
        metavar="DATA",
    ),
]
ReleaseArgument = Annotated[
    str, typer.Argument(help="A release: its folder, a .zip of it, or its http(s) address.", metavar="RELEASE")
]
SchedulerOption = Annotated[
    str | None, typer.Option(help="With --engine dask: the scheduler's address. Default: local processes.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences and tables.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")]


def group(summary: str) -> typer.Typer:
    """Commands under one name."""
    # Pretty tracebacks would print local variables, and those may be raw rows.
    return typer.Typer(help=summary, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def engine_name(engine: EngineName, scheduler: str | None) -> str:
    """The engine with the address of its scheduler."""
    if scheduler is None:
        return engine
    if engine != "dask":
        raise InputError(f"--scheduler belongs to --engine dask, got --engine {engine}. Leave one of them out.")
    return f"dask:{scheduler}"


def clear_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Print hazeglass's own errors and warnings as sentences; anything else is a bug and keeps its traceback."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", HazeglassWarning)
                try:
                    return command(*args, **kwargs)
                finally:
                    # A library's own warning is for programmers, and may quote a cell.
                    for warning in (one for one in caught if issubclass(one.category, HazeglassWarning)):
                        typer.echo(f"note: {_printable(warning.message)}", err=True)
        except HazeglassError as error:
            typer.echo(f"hazeglass: {_printable(error)}", err=True)
            raise typer.Exit(error.exit_status) from None
        except KeyboardInterrupt:
            typer.echo("hazeglass: interrupted. What was complete by then is there; nothing is half-written.", err=True)
            raise typer.Exit(130) from None

    return wrapped


class Printer:
    """Prints prose, or JSON, or nothing but errors."""

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.console = Console(quiet=quiet or as_json, highlight=False)
        # that kernels are being compiled is no warning, though the library has to log it as one to be seen
        logging.getLogger("hazeglass").setLevel(logging.ERROR if quiet else logging.NOTSET)

    def say(self, text: Any) -> None:
        """A sentence or a table for people."""
        # A pipe gets one line per sentence; a terminal gets words wrapped at its width.
        self.console.print(text, soft_wrap=isinstance(text, str) and not self.console.is_terminal)

    def answer(self, document: Any) -> None:
        """The same for programs, where --json asks for it."""
        if self.as_json:
            # ASCII: a name may hold what a terminal acts on, or what changes the direction of what follows.
            Console(soft_wrap=True).print_json(json.dumps(_finite(document), allow_nan=False), ensure_ascii=True)

    @contextmanager
    def watch(self, description: str) -> Iterator[Callable[[int], None]]:
        """A moving line on a terminal, silent anywhere else; the value is to be called with how many are done."""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with moving(*columns, quiet=self.quiet) as bar:
            task = bar.add_task(description)
            yield lambda done: bar.update(task, description=f"{description}: {done:,} done")


@contextmanager
def moving(*columns: ProgressColumn, quiet: bool = False) -> Iterator[Progress]:
    """What moves on a terminal's standard error, and is gone when it ends; anywhere else nothing."""
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
    # Never entered where it is hidden: on its way out, an old rich prints an empty line even then.
    with nullcontext() if bar.disable else bar:
        yield bar


def plain(text: object) -> str:
    """A name from a file, made safe to print: no markup, no control characters."""
    return escape(_printable(text))


def _printable(text: object) -> str:
    """A name may hold anything, also what moves the cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in str(text))


def _finite(value: Any) -> Any:
    """JSON has no infinity; null stands for it."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
