"""The command line: thin, and quick to start because heavy imports happen inside the commands."""

import errno
import io
import os
import signal
import sys
from typing import TextIO


def main() -> None:
    """Entry point of the `hazeglass` command."""
    try:
        from hazeglass.cli.app import app
    except KeyboardInterrupt:  # before a command could catch it
        raise SystemExit(130) from None
    for stream in (sys.stdout, sys.stderr):  # a console may not have every letter of a column's name
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for name in ("SIGTERM", "SIGHUP"):  # who is asked to end tidies up, as who is interrupted
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, signal.default_int_handler)
    try:
        if sys.stdout is None and sys.stderr is not None:  # closed: a file that is opened would take its place
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        app()
    except OSError as error:
        if sys.stdout is not None and _takes(sys.stdout, "\n") and _takes(sys.stderr, "\n"):
            raise
        why = f"what is printed must find a place, and standard output took nothing ({error.strerror})"
        _takes(sys.stderr, f"hazeglass: {why}. Print to another place; files that were complete by then are there.\n")
        raise SystemExit(2) from None


def _takes(stream: TextIO, text: str) -> bool:
    """Whether a stream takes what is printed; if not, the rest of it goes nowhere."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True
