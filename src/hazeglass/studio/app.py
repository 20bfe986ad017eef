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
    pages = [Route(path, _page_route(name, settings)) for path, name in _PAGES.items()]
    app = Starlette(
        routes=[*pages, Route("/assets/{name}", _asset), Route("/favicon.ico", _favicon), *rooms],
        exception_handlers={HazeglassError: _clear_error, HTTPException: _http_error, Exception: _unexpected},
    )
    limits = {"/analyst/upload": settings.largest_upload}
    return Guard(
        app,
        port=settings.port,
        token=settings.token,
        limit=lambda path: limits.get(path, _LARGEST_REQUEST),
    )


def _page_route(name: str, settings: Settings) -> Any:
    async def page(request: Request) -> Response:
        return HTMLResponse(_page(name, tuple(settings.folders.labels), settings.largest_upload))

    return page


@functools.cache
def _page(name: str, folders: tuple[str, ...], largest_upload: int) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("hazeglass.studio", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(folders=folders, largest_upload=largest_upload)


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    known = _assets()
    if name not in known:
        raise HTTPException(404)
    content, kind = known[name]
    return Response(content, media_type=kind)


async def _favicon(request: Request) -> Response:
    return Response(_assets()["mark.svg"][0], media_type="image/svg+xml")


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
