"""Start the studio on 127.0.0.1, say where it is, and stop all work when it stops."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import uvicorn

from hazeglass.errors import InputError
from hazeglass.studio.app import Settings, make_app
from hazeglass.studio.folders import Folders
from hazeglass.studio.jobs import Jobs
from hazeglass.studio.publisher_plans import warm_up

__all__ = ["serve"]

_DOOR = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}"><title>studio</title>'


def serve(
    folders: Sequence[Path],
    *,
    port: int = 0,
    browser: bool = True,
    largest_upload: int = 1 << 30,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve until interrupted. Port 0 takes any that is free; `announce` gets the one-time link."""
    known = Folders.of(folders)
    listener = _listen(port)
    settings = Settings(listener.getsockname()[1], secrets.token_urlsafe(32), known, largest_upload)
    link = f"http://127.0.0.1:{settings.port}/?token={settings.token}"
    with tempfile.TemporaryDirectory(prefix="hazeglass-studio-", ignore_cleanup_errors=True) as workspace:
        jobs = Jobs(Path(workspace))

        def ready() -> None:
            announce(link)
            threading.Thread(target=warm_up, daemon=True).start()
            if browser:
                _open_browser(link, Path(workspace))

        server = _Server(settings, jobs, ready)
        with _ended_by_signals(server), contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


@contextlib.contextmanager
def _ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let the studio end in order.

    uvicorn sends itself the signal that stopped it once it has stopped, which would kill us before the temporary folder
    is removed; and it knows nothing of a terminal that is closed.
    """

    def stop(*_: object) -> None:
        server.should_exit = True

    handlers: dict[signal.Signals, Callable[..., None]] = {signal.SIGTERM: signal.default_int_handler}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = stop
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """Tells when it is ready, and ends the work before it waits for the pages that watch it."""

    def __init__(self, settings: Settings, jobs: Jobs, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            make_app(settings, jobs),
            http="h11",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,  # it would write the token down
            server_header=False,
            timeout_graceful_shutdown=3,
        )
        super().__init__(config)
        self._jobs, self._ready = jobs, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Then say so."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """The work first: the streams that report it end with it."""
        await self._jobs.stop()
        await super().shutdown(sockets)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or "there is no such port"
        raise InputError(f"port {port} of this machine cannot be used: {reason}. Choose another, or 0.") from None
    return listener


def _open_browser(link: str, workspace: Path) -> None:
    """Through a file only its owner can read: a command line, which everybody can, would show the token."""
    door = workspace / "door.html"
    door.touch(mode=0o600)
    door.write_text(_DOOR.format(link=link), encoding="utf-8")
    threading.Thread(target=webbrowser.open, args=(door.as_uri(),), daemon=True).start()
