"""A worker process: one piece of work, told on standard input, reported line by line on standard output.

It stops when its standard input closes, so it never outlives the studio, however the studio ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from hazeglass.errors import HazeglassError, HazeglassWarning

__all__ = ["Operation", "Report", "run", "too_late_to_cancel"]

_SECONDS_BETWEEN_REPORTS = 0.1
_cancelled = threading.Event()


class Report:
    """Tells the studio how far the work is."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._last, self._step = out, 0.0, ""

    def __call__(self, step: str, share: float | None = None) -> None:
        """A step in words, and how much of the work is done, from 0 to 1, where that is known."""
        now = time.monotonic()
        if step == self._step and now - self._last < _SECONDS_BETWEEN_REPORTS:
            return
        self._last, self._step = now, step
        self.tell(state="running", step=step, share=share)

    def tell(self, **facts: Any) -> None:
        """One line."""
        self._out.write(json.dumps(facts, allow_nan=False) + "\n")
        self._out.flush()


Operation = Callable[[dict[str, Any], Report], dict[str, Any]]


def run(operations: Mapping[str, Operation]) -> None:
    """Do the work named on the first line of standard input and say how it ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background would have it ignored
    report = Report(_own_output())
    try:
        line = sys.stdin.readline()
        if not line:
            raise KeyboardInterrupt  # cancelled before it was told what to do
        request = json.loads(line)
        threading.Thread(target=_stop_with_the_studio, daemon=True).start()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HazeglassWarning)
            result = operations[request["operation"]](request, report)
        notes = [str(one.message) for one in caught if issubclass(one.category, HazeglassWarning)]
        report.tell(state="done", result={**result, "warnings": notes})
    except KeyboardInterrupt:
        report.tell(state="cancelled")
    except Exception as error:
        if _cancelled.is_set():  # an interrupt inside a library may come out as an error of its own
            report.tell(state="cancelled")
            return
        if isinstance(error, HazeglassError):
            report.tell(state="failed", error=str(error), refused=error.exit_status == 3)
            return
        # Where it was, to the studio's terminal; neither it nor the browser gets its words, which may quote a cell.
        traceback.print_tb(error.__traceback__)
        report.tell(
            state="failed",
            error=f"something unexpected failed ({type(error).__name__}); the terminal of the studio says where.",
        )


def too_late_to_cancel() -> None:
    """The work has had its effect; a wish to cancel that comes now must not make it look undone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _own_output() -> TextIO:
    """Standard output for reports alone; whatever else is printed goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def _stop_with_the_studio() -> None:
    """Wait for the end of standard input, then interrupt the work as Ctrl-C would."""
    while sys.stdin.readline():
        pass
    _cancelled.set()
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
