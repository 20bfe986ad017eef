"""One clear sentence and the right exit status instead of a traceback."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from hazeglass.errors import HazeglassError, HazeglassWarning

__all__ = ["clear_errors"]

P = ParamSpec("P")
R = TypeVar("R")


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
                        typer.echo(f"note: {warning.message}", err=True)
        except HazeglassError as error:
            shown = "".join(c if c.isprintable() else "\ufffd" for c in str(error))  # a name may hold anything
            typer.echo(f"hazeglass: {shown}", err=True)
            raise typer.Exit(error.exit_status) from None
        except KeyboardInterrupt:
            typer.echo("hazeglass: interrupted. What was complete by then is there; nothing is half-written.", err=True)
            raise typer.Exit(130) from None

    return wrapped
