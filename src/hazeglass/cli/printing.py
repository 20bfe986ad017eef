"""What is printed, and when: prose for people, JSON for programs, nothing when asked to be quiet."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["Printer", "moving", "plain"]


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
            Console(soft_wrap=True).print_json(json.dumps(_finite(document), allow_nan=False))

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
    return escape("".join(c if c.isprintable() else "\ufffd" for c in str(text)))


def _finite(value: Any) -> Any:
    """JSON has no infinity; null stands for it."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
