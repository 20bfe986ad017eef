"""The studio as an ASGI application: pages, assets, the two rooms, all behind the guard."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from hazeglass.errors import HazeglassError, PrivacyRefusal
from hazeglass.studio.analyst_room import AnalystRoom
from hazeglass.studio.folders import Folders, OutsideError
from hazeglass.studio.guard import Guard
from hazeglass.studio.jobs import Jobs
from hazeglass.studio.publisher_room import PublisherRoom

__all__ = ["Settings", "make_app"]

_LARGEST_REQUEST = 32 << 20  # a plan of 100,000 columns
_PAGES = {"/": "home.html", "/publisher": "publisher.html", "/analyst": "analyst.html", "/help": "help.html"}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Settings:
    """How a studio was started."""

    port: int
    token: str
    folders: Folders
    largest_upload: int = 1 << 30


def make_app(settings: Settings, jobs: Jobs) -> Guard:
    """The guarded application."""
    rooms = [
        *PublisherRoom(settings.folders, jobs).routes(),
        *AnalystRoom(settings.folders, jobs).routes(),
    ]
    static = [
        *(Route(path, _page_route(name)) for path, name in _PAGES.items()),
        *(Route(f"/assets/{name}", _asset_route(name)) for name in _assets()),
        Route("/favicon.ico", _asset_route("mark.svg")),
    ]
    app = Starlette(
        routes=[*static, Route("/settings", _settings_route(settings)), *rooms],
        exception_handlers={HazeglassError: _clear_error, HTTPException: _http_error, Exception: _unexpected},
    )
    limits = {"/analyst/upload": settings.largest_upload}
    return Guard(
        app,
        port=settings.port,
        token=settings.token,
        static=frozenset(route.path for route in static),
        limit=lambda path: limits.get(path, _LARGEST_REQUEST),
    )


def _page_route(name: str) -> Any:
    async def page(request: Request) -> Response:
        return HTMLResponse(_page(name))

    return page


@functools.cache
def _page(name: str) -> str:
    """A page as every studio has it: what differs between studios is asked for with the page secret."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("hazeglass.studio", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render()


def _settings_route(settings: Settings) -> Any:
    async def answer(request: Request) -> Response:
        return JSONResponse({"folders": settings.folders.labels, "largest_upload": settings.largest_upload})

    return answer


def _asset_route(name: str) -> Any:
    async def asset(request: Request) -> Response:
        content, kind = _assets()[name]
        return Response(content, media_type=kind)

    return asset


@functools.cache
def _assets() -> dict[str, tuple[bytes, str]]:
    """Every style sheet, script and picture by name; a name that is not here names nothing."""
    from hazeglass.present.pages import raw_template

    found = {"base.css": (raw_template("base.css").encode(), "text/css")}
    for item in files("hazeglass.studio").joinpath("web").iterdir():
        suffix = "." + item.name.rsplit(".", 1)[-1]
        if suffix in _TYPES:
            found[item.name] = (item.read_bytes(), _TYPES[suffix])
    return found


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
