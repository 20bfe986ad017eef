"""The publisher's room: choose a file, fill the plan, look ahead, publish. It never opens the data itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hazeglass.errors import InputError
from hazeglass.studio.folders import Folders
from hazeglass.studio.jobs import Jobs
from hazeglass.studio.publisher_plans import (
    check_reasons,
    confirmation,
    ledger_state,
    look_ahead,
    new_ledger,
    plan_document,
    read_plan,
)
from hazeglass.studio.room import finished_job, folder_listing, framed_page, job_routes, number_in, read_json, zipped

__all__ = ["PublisherRoom"]

ROOM = "publisher"
_WORKER = "hazeglass.studio.publisher_worker"
_DATA = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq")
_LEDGER_MARK = slice(68, 72)  # where an SQLite file says whose it is


class PublisherRoom:
    """Routes below /publisher."""

    def __init__(self, folders: Folders, jobs: Jobs) -> None:
        self._folders, self._jobs = folders, jobs

    def routes(self) -> list[Route]:
        """All but the page itself."""
        post = ["POST"]
        return [
            Route(f"/{ROOM}/folder", self.folder, methods=post),
            Route(f"/{ROOM}/look", self.look, methods=post),
            Route(f"/{ROOM}/plan/read", self.read, methods=post),
            Route(f"/{ROOM}/plan/text", self.text, methods=post),
            Route(f"/{ROOM}/preview", self.preview, methods=post),
            Route(f"/{ROOM}/ledger", self.ledger, methods=post),
            Route(f"/{ROOM}/ledger/new", self.ledger_new, methods=post),
            Route(f"/{ROOM}/check", self.check, methods=post),
            Route(f"/{ROOM}/publish", self.publish, methods=post),
            Route(f"/{ROOM}/jobs/{{job}}/bundle.zip", self.bundle),
            Route(f"/{ROOM}/jobs/{{job}}/statement.html", self.statement),
            *job_routes(ROOM, self._jobs),
        ]

    async def folder(self, request: Request) -> Response:
        """Data files, plans and ledgers below a folder."""
        return await folder_listing(request, self._folders, _kind)

    async def look(self, request: Request) -> Response:
        """Start reading a file's names and kinds."""
        data = self._data((await read_json(request)).get("data"))
        job = await self._jobs.start(_WORKER, {"operation": "look", "data": str(data)}, room=ROOM, label=data.name)
        return JSONResponse({"job": job.id})

    async def read(self, request: Request) -> Response:
        """A plan.toml as the form understands it."""
        path = self._folders.resolve((await read_json(request)).get("plan"))
        return JSONResponse(await run_in_threadpool(read_plan, path))

    async def text(self, request: Request) -> Response:
        """The form as a plan.toml."""
        from hazeglass.publisher.plan_file import plan_text

        document = plan_document(await read_json(request))
        return PlainTextResponse(await run_in_threadpool(plan_text, document))

    async def preview(self, request: Request) -> Response:
        """What the promise means and what the release will be good for."""
        body = await read_json(request)
        rows = number_in(body, "rows", whole=True)
        return JSONResponse(await run_in_threadpool(look_ahead, plan_document(body), rows))

    async def ledger(self, request: Request) -> Response:
        """A ledger's state."""
        path = self._folders.resolve((await read_json(request)).get("ledger"))
        return JSONResponse(await run_in_threadpool(ledger_state, path))

    async def ledger_new(self, request: Request) -> Response:
        """Start a ledger."""
        body = await read_json(request)
        path = self._folders.new_place(body.get("folder"), body.get("name"))
        return JSONResponse(await run_in_threadpool(new_ledger, path, body))

    async def check(self, request: Request) -> Response:
        """Everything that can be refused before the rows are read, and the promise in one sentence."""
        body = await read_json(request)
        wanted = self._wanted(body)
        sentence = await run_in_threadpool(confirmation, plan_document(body), wanted["ledger"])
        return JSONResponse({"sentence": sentence, "name": Path(wanted["out"]).name})

    async def publish(self, request: Request) -> Response:
        """Start publishing."""
        body = await read_json(request)
        document = plan_document(body)
        wanted = self._wanted(body)
        await run_in_threadpool(confirmation, document, wanted["ledger"])
        out = Path(wanted["out"])
        job = await self._jobs.start(
            _WORKER,
            {"operation": "publish", "document": document, **wanted},
            room=ROOM,
            label=out.name,
            target=out,
            clean_up=lambda: _remove_partial(out),
        )
        return JSONResponse({"job": job.id})

    async def bundle(self, request: Request) -> Response:
        """The release as a .zip."""
        folder = self._release(request)
        return zipped(folder, folder.name)

    async def statement(self, request: Request) -> Response:
        """The release's own privacy statement."""
        return framed_page(self._release(request) / "statement.html")

    def _release(self, request: Request) -> Path:
        target = finished_job(self._jobs, ROOM, request, "publish").target
        if target is None or not (target / "statement.html").is_file():
            raise InputError("the release is not where it was written any more; it was moved or removed.")
        return target

    def _data(self, place: Any) -> Path:
        path = self._folders.resolve(place)
        if _kind(path) != "data":
            raise InputError(f"the data must be a file that ends in {', '.join(_DATA)}; choose such a file.")
        return path

    def _wanted(self, body: dict[str, Any]) -> dict[str, Any]:
        """The places and the number of rows of a request to publish, all checked."""
        from hazeglass.bundle.writer import check_new

        check_reasons(plan_document(body))
        out = self._folders.new_place(body.get("folder"), body.get("name"))
        check_new(out)
        ledger = body.get("ledger")
        rows = number_in(body, "rows", whole=True)
        if rows < 2:
            raise InputError(f"a release needs at least 2 rows, and {rows} was given as their number.")
        return {
            "data": str(self._data(body.get("data"))),
            "out": str(out),
            "ledger": None if ledger is None else str(self._folders.resolve(ledger)),
            "rows": rows,
        }


def _kind(path: Path) -> str | None:
    """What the publisher can use a file for."""
    if path.is_dir():
        return "release" if (path / "release.json").is_file() else "folder"
    if path.name.lower().endswith(_DATA):
        return "data"
    if path.suffix.lower() == ".toml":
        return "plan"
    return "ledger" if _is_ledger(path) else None


def _is_ledger(path: Path) -> bool:
    from hazeglass.publisher.ledger_events import APPLICATION_ID

    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(_LEDGER_MARK.stop)[_LEDGER_MARK] == APPLICATION_ID.to_bytes(4, "big")


def _remove_partial(out: Path) -> None:
    """What a killed worker left beside the place of its release."""
    for folder in out.parent.glob(f".{_literal(out.name)}.partial-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _literal(name: str) -> str:
    return name.replace("[", "[[]")
