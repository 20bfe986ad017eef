"""What all commands share: their options, what is printed and when, and how an error ends.

Prose for people, JSON for programs, nothing when asked to be quiet; one clear sentence and the right exit status
instead of a traceback.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import math
import re
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from typer.core import TyperGroup

from hazeglass.compute.engines import EngineName
from hazeglass.errors import HazeglassError, HazeglassWarning, InputError

if TYPE_CHECKING:
    from hazeglass.bundle.manifest import Manifest
    from hazeglass.publisher.plan import Plan

_SHORTEST_WORD = 8  # letters of a name that stand side by side, however narrow the terminal is
_EVERY = 2.5  # seconds between two lines of progress where no terminal shows it

P = ParamSpec("P")
R = TypeVar("R")

DataArgument = Annotated[
    str,
    typer.Argument(
        help="A CSV, Parquet or .xlsx file, a folder or a glob; - for standard input; or an address: s3://bucket/dir, "
        "duckdb:///file.db?table=visits, postgresql://...",
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


def group(summary: str, cls: type[TyperGroup] | None = None) -> typer.Typer:
    """Commands under one name."""
    # Pretty tracebacks would print local variables, and those may be raw rows.
    return typer.Typer(
        help=summary,
        cls=cls,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def first_sentence(command: Callable[..., Any] | None) -> str:
    """What a list of commands says of one; a summary that is handed over is not cut."""
    return (getattr(command, "__doc__", None) or "").strip().partition("\n\n")[0].replace("\n    ", " ")


def counted(number: int, what: str) -> str:
    """A number and the thing it counts, whose plural is with an s."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def number(text: str) -> float:
    """What an option says; where that is no number, it is quoted."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    remedy = f" Write {text.replace(',', '')}." if re.fullmatch(r"[+-]?\d+(,\d{3})+", text) else ""
    raise typer.BadParameter(f"it must be a number, got {text!r}.{remedy}")


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
            typer.echo("hazeglass: " + "\n  ".join(map(_printable, error.gaps or (error,))), err=True)
            raise typer.Exit(error.exit_status) from None
        except KeyboardInterrupt:
            typer.echo("hazeglass: interrupted. What was complete by then is there; nothing is half-written.", err=True)
            raise typer.Exit(130) from None

    return wrapped


def speaking(command: Callable[..., None]) -> Callable[..., None]:
    """Every command that reports has --json and --quiet; its first argument is the printer they make."""
    signature = inspect.signature(command, eval_str=True)
    given = list(signature.parameters.values())[1:]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for name, option in (("json", JsonOption), ("quiet", QuietOption))
    ]

    @functools.wraps(command)
    def wrapped(*, json: bool, quiet: bool, **options: Any) -> None:
        printer = Printer(json, quiet)
        try:
            command(printer, **options)
        except HazeglassError as error:
            if not printer.answered:
                told = {"ok": False, "error": str(error), "kind": type(error).__name__, "status": error.exit_status}
                printer.answer({**told, "gaps": list(error.gaps)})
            raise

    wrapped.__signature__ = signature.replace(parameters=[*given, *added])  # type: ignore[attr-defined]
    return clear_errors(wrapped)


class Printer:
    """Prints prose, or JSON, or nothing but errors."""

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet, self.answered = as_json, quiet, False
        self.console = Console(quiet=quiet or as_json, highlight=False, emoji=False)  # a title is not drawn upon
        # that kernels are being compiled is no warning, though the library has to log it as one to be seen
        logging.getLogger("hazeglass").setLevel(logging.ERROR if quiet else logging.NOTSET)

    def say(self, text: Any) -> None:
        """A sentence or a table for people."""
        # A pipe gets one line per sentence; a terminal gets words wrapped at its width.
        self.console.print(text, soft_wrap=isinstance(text, str) and not self.console.is_terminal)

    def answer(self, document: Any) -> None:
        """The same for programs, where --json asks for it."""
        self.answered = True
        if self.as_json:
            # ASCII: a name may hold what a terminal acts on, or what changes the direction of what follows.
            Console(soft_wrap=True).print_json(json.dumps(_finite(document), allow_nan=False), ensure_ascii=True)

    @contextmanager
    def watch(self, description: str) -> Iterator[Callable[[int], None]]:
        """A moving line; the value is to be called with how many are done."""
        with moving(description, quiet=self.quiet) as update:
            yield lambda done: update(description=f"{description}: {done:,} done")

    @contextmanager
    def steps(self, description: str) -> Iterator[Callable[[str], None]]:
        """The same for work in steps; the value is to be called with each, which knows how much is `done` by then."""
        with moving(description, total=1.0, quiet=self.quiet) as update:
            yield lambda step: update(description=f"{description}: {step}", completed=getattr(step, "done", None))


@contextmanager
def moving(
    description: str, *, counted: bool = False, total: float | None = None, quiet: bool = False
) -> Iterator[Callable[..., None]]:
    """What moves on a terminal's standard error, and is gone when it ends; anywhere else a line every few seconds.

    The value is to be called with what changed: `description`, and where it is counted `completed` or `advance`, and
    `total`.
    """
    console = Console(stderr=True)
    if quiet:
        yield lambda **changes: None
    elif not console.is_terminal:
        with _Lines(description, total) as lines:
            yield lines.update
    else:
        first: tuple[ProgressColumn, ...] = () if counted else (SpinnerColumn(),)
        last: tuple[ProgressColumn, ...] = (BarColumn(), MofNCompleteColumn()) if counted else ()
        if total is not None:
            last = (BarColumn(), TimeRemainingColumn())
        columns = (*first, TextColumn("{task.description}"), *last, TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            yield functools.partial(bar.update, bar.add_task(description, total=total))


class _Lines:
    """What is being done, on standard error, a line every few seconds; nothing where it is done sooner."""

    def __init__(self, description: str, total: float | None) -> None:
        self._description, self._total, self._completed = description, total, 0.0
        self._began, self._done = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def update(
        self,
        description: str | None = None,
        completed: float | None = None,
        total: float | None = None,
        advance: float | None = None,
    ) -> None:
        """Take over what changed."""
        self._description = description or self._description
        self._total = self._total if total is None else total
        self._completed = (self._completed if completed is None else completed) + (advance or 0.0)

    def _run(self) -> None:
        while not self._done.wait(_EVERY):
            typer.echo(self._line(time.monotonic() - self._began), err=True)

    def _line(self, seconds: float) -> str:
        share = self._completed / self._total if self._total else 0.0
        left = f", about {seconds * (1 - share) / share:.0f} s left" if 0 < share < 1 else ""
        return f"{_printable(self._description)}, {seconds:.0f} s so far{left}"


def table(*headings: str, words: Collection[str] = (), title: str | None = None, lines: bool = True) -> Table:
    """An empty table: numbers stand on the right and are never cut, `words` on the left and are folded.

    Without `lines` more of it fits into a narrow terminal.
    """
    made = Table(title=title, title_justify="left")
    if not lines:
        made.box, made.padding, made.pad_edge, made.show_edge = box.SIMPLE_HEAD, (0, 1, 0, 0), False, False
    for heading in headings:
        if heading in words:
            made.add_column(heading, overflow="fold", min_width=_SHORTEST_WORD)
        else:
            made.add_column(heading, justify="right", no_wrap=True)
    return made


def facts(made: Plan | Manifest, *more: str) -> dict[str, Any]:
    """What --json says of a plan or of a release."""
    kept = {key: getattr(made, key) for key in (*more, "form", "epsilon", "delta")}
    return {**kept, "mu": made.guarantee.mu, "unit": made.unit.name, "columns": list(made.names)}


def plain(text: object) -> str:
    """A name from a file, made safe to print: no markup, no control characters."""
    return escape(_printable(text))


def _printable(text: object) -> str:
    """A name may hold anything, also what moves the cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in str(text))


def _finite(value: Any) -> Any:
    """JSON has no infinity; null stands for it."""
    if isinstance(value, dict):
        if isinstance(value.get("epsilon"), float):  # where it follows from mu, the last digits are those of rounding
            value = {**value, "epsilon": float(f"{value['epsilon']:.12g}")}
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
