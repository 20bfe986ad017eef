"""hazeglass studio."""

from __future__ import annotations

from pathlib import Path

import typer

from hazeglass.errors import MissingExtraError

__all__ = ["open_studio"]


def open_studio(folders: list[Path], port: int, browser: bool, upload_limit: int) -> None:
    """Serve until Ctrl-C; the link goes to standard output, once the studio answers."""
    try:
        from hazeglass.studio.server import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "anyio"):
            raise
        raise MissingExtraError(
            "the studio needs starlette and uvicorn. Install them with: pip install 'hazeglass[studio]'"
        ) from None

    def announce(link: str) -> None:
        typer.echo(f"The studio is open: {link}")
        typer.echo("The link works once, on this machine. Ctrl-C closes the studio and cancels what is running.")

    serve(folders, port=port, browser=browser, largest_upload=upload_limit << 20, announce=announce)
