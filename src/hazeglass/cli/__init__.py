"""The command line: thin, and quick to start because heavy imports happen inside the commands."""

import io
import signal
import sys


def main() -> None:
    """Entry point of the `hazeglass` command."""
    try:
        from hazeglass.cli.app import app
    except KeyboardInterrupt:  # before a command could catch it
        raise SystemExit(130) from None
    for stream in (sys.stdout, sys.stderr):  # a console may not have every letter of a column's name
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # who is asked to end tidies up, as who is interrupted
    app()
