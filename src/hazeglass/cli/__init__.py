"""The command line: thin, and quick to start because heavy imports happen inside the commands."""

__all__ = ["main"]


def main() -> None:
    """Entry point of the `hazeglass` command."""
    from hazeglass.cli.app import app

    app()
