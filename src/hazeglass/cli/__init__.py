"""The command line: thin, and quick to start because heavy imports happen inside the commands."""


def main() -> None:
    """Entry point of the `hazeglass` command."""
    try:
        from hazeglass.cli.app import app
    except KeyboardInterrupt:  # before a command could catch it
        raise SystemExit(130) from None
    app()
