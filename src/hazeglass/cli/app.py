"""The commands. Heavy imports happen inside them, so that `hazeglass --help` is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hazeglass.cli.audit import audit
from hazeglass.cli.plans import ledger_app, plan_app
from hazeglass.cli.releases import key_app, publish, recover, verify
from hazeglass.cli.reproduce import datasets, reproduce
from hazeglass.cli.terminal import JsonOption, Printer, QuietOption, clear_errors, group
from hazeglass.errors import MissingExtraError

__all__ = ["app"]

app = group("Publish private tables with a proven promise; recover the graph of dependence from what was published.")


def _version(wanted: bool) -> None:
    if wanted:
        from hazeglass._version import __version__

        typer.echo(f"hazeglass {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@clear_errors
def demo(
    out: Annotated[Path, typer.Option(help="A new folder for everything the demo writes.")] = Path("demo-out"),
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """The whole journey on data it makes itself: publish, verify, recover, compare with the truth."""
    from hazeglass.cli.demo import run_demo

    run_demo(out, Printer(json, quiet))


@clear_errors
def studio(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders the studio may browse; this one when none is given.")
    ] = None,
    port: Annotated[int, typer.Option(help="A port of this machine; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    upload_limit: Annotated[int, typer.Option(help="Largest .zip an analyst may upload, in MiB.", min=1)] = 1024,
) -> None:
    """Both sides in your browser, on this machine only: publish from one, look at releases in the other.

    It serves until Ctrl-C; the link goes to standard output, once the studio answers.
    """
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

    serve(folders or [Path()], port=port, browser=browser, largest_upload=upload_limit << 20, announce=announce)


for command in (demo, publish, verify, recover, audit, datasets, studio, reproduce):
    app.command()(command)
app.add_typer(plan_app, name="plan")
app.add_typer(ledger_app, name="ledger")
app.add_typer(key_app, name="key")
