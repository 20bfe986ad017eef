"""The studio's pages and both sides behind the guard, served on 127.0.0.1; when it stops, all work stops."""

from __future__ import annotations

import contextlib
import functools
import secrets
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from hazeglass.errors import HazeglassError, InputError, PrivacyRefusal
from hazeglass.present.pages import raw_template, render
from hazeglass.studio.analyst import AnalystSide
from hazeglass.studio.guard import Folders, Guard, OutsideError
from hazeglass.studio.jobs import Jobs
from hazeglass.studio.publisher import PublisherSide, warm_up

_TRIES = 20  # for a port that is free on both addresses
_LARGEST_REQUEST = 32 << 20  # a plan of 100,000 columns
_PAGES = {"/": "home.html", "/publisher": "publisher.html", "/analyst": "analyst.html", "/help": "help.html"}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_OPENING = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}"><title>studio</title>'
)


@dataclass(frozen=True)
class Settings:
    """How a studio was started; `host` is its name and port, as browsers send them."""

    host: str
    token: str
    folders: Folders
    largest_upload: int = 1 << 30


def make_app(settings: Settings, jobs: Jobs) -> Guard:
    """The guarded application."""
    sides = [route for side in (PublisherSide, AnalystSide) for route in side(settings.folders, jobs).routes()]
    assets = _assets()
    static = [
        *(_route(path, functools.partial(_page_response, name)) for path, name in _PAGES.items()),
        *(_route(f"/assets/{name}", asset) for name, asset in assets.items()),
        _route("/favicon.ico", assets["mark.svg"]),
    ]
    shown = {"folders": settings.folders.labels, "largest_upload": settings.largest_upload}
    app = Starlette(
        routes=[*static, _route("/settings", lambda: JSONResponse(shown)), *sides],
        exception_handlers={HazeglassError: _clear_error, HTTPException: _http_error, Exception: _unexpected},
    )
    limits = {"/analyst/upload": settings.largest_upload}
    return Guard(
        app,
        host=settings.host,
        token=settings.token,
        static=frozenset(route.path for route in static),
        limit=lambda path: limits.get(path, _LARGEST_REQUEST),
    )


def _route(path: str, answer: Callable[[], Response]) -> Route:
    async def answered(request: Request) -> Response:
        return answer()

    return Route(path, answered)


def _page_response(name: str) -> Response:
    return HTMLResponse(page(name))


@functools.cache
def page(name: str) -> str:
    """A page as every studio has it: what differs between studios is asked for with the page secret."""
    from hazeglass.analyst import SELECTS, SOLVERS
    from hazeglass.bundle.columns import KINDS, TRANSFORMS

    choices = {"selects": SELECTS, "solvers": SOLVERS, "kinds": KINDS, "transforms": TRANSFORMS}
    return render(name, package="hazeglass.studio", folder="web", **choices)


@functools.cache
def _assets() -> dict[str, Callable[[], Response]]:
    """Every style sheet, script and picture by name; a name that is not here names nothing."""
    found = {item.name: item.read_bytes() for item in files("hazeglass.studio").joinpath("web").iterdir()}
    found["base.css"] = raw_template("base.css").encode()
    return {
        name: functools.partial(Response, content, media_type=_TYPES[Path(name).suffix])
        for name, content in found.items()
        if Path(name).suffix in _TYPES
    }


async def _clear_error(request: Request, error: Exception) -> Response:
    status = 403 if isinstance(error, OutsideError) else 409 if isinstance(error, PrivacyRefusal) else 422
    return JSONResponse({"error": str(error)}, status_code=status)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    nothing = error.status_code in (404, 405)
    sentence = "There is nothing at this address of the studio." if nothing else error.detail
    return JSONResponse({"error": sentence}, status_code=error.status_code)


async def _unexpected(request: Request, error: Exception) -> Response:
    return JSONResponse(
        {"error": f"Something unexpected failed ({type(error).__name__}); the terminal of the studio says where."},
        status_code=500,
    )


def serve(
    folders: Sequence[Path],
    *,
    port: int = 0,
    browser: bool = True,
    plain_address: bool = False,
    largest_upload: int = 1 << 30,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve until interrupted. Port 0 takes any that is free; `announce` gets the one-time link.

    With `plain_address` the link has 127.0.0.1, which tabs and service workers of earlier services may share.
    """
    known = Folders.of(folders)
    listeners = _listen(port)
    name = "127.0.0.1" if plain_address else f"{secrets.token_hex(16)}.localhost"
    host = f"{name}:{listeners[0].getsockname()[1]}"
    settings = Settings(host, secrets.token_urlsafe(32), known, largest_upload)
    link = f"http://{host}/?token={settings.token}"
    with tempfile.TemporaryDirectory(prefix="hazeglass-studio-", ignore_cleanup_errors=True) as workspace:
        jobs = Jobs(Path(workspace))

        def ready() -> None:
            announce(link)
            threading.Thread(target=warm_up, daemon=True).start()
            if browser:
                _open_browser(link, Path(workspace))

        server = _Server(settings, jobs, ready)
        with _ended_by_signals(server), contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=listeners)


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


def _listen(port: int) -> list[socket.socket]:
    """The port on 127.0.0.1, and on [::1] where this machine has it.

    Browsers may try either for a name that ends in .localhost: a neighbour who listened on the other one would be sent
    the link's token.
    """
    for _ in range(_TRIES if port == 0 else 1):
        first = _bound(socket.AF_INET, "127.0.0.1", port)
        try:
            second = _bound(socket.AF_INET6, "::1", first.getsockname()[1]) if _has_ipv6() else None
        except InputError as error:
            first.close()
            taken = error
            continue
        return [first] if second is None else [first, second]
    raise taken


def _bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen()  # at once: until then another process could take the port as well
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or "there is no such port"
        raise InputError(f"port {port} of this machine cannot be used: {reason}. Choose another, or 0.") from None
    return listener


def _has_ipv6() -> bool:
    """Whether this machine has [::1]."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _open_browser(link: str, workspace: Path) -> None:
    """Through a file only its owner can read: a command line, which everybody can, would show the token."""
    page = workspace / "open.html"
    page.touch(mode=0o600)
    page.write_text(_OPENING.format(link=link), encoding="utf-8")
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
