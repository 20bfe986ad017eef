"""What both sides do alike: answer questions, start, watch and cancel work, browse folders, hand out files."""

from __future__ import annotations

import json
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hazeglass.errors import InputError
from hazeglass.studio.guard import Folders
from hazeglass.studio.jobs import ENDED, Job, Jobs, Work

if TYPE_CHECKING:
    from hazeglass.bundle.manifest import Manifest

Body = dict[str, Any]
Endpoint = Callable[[Request], Awaitable[Response]]
_CHUNK = 1 << 20
# A finished page of somebody's release: it may run the scripts whose hashes it states and nothing else, and as a
# document without an origin it can reach neither the studio nor its cookie.
_FRAMED = {
    "Content-Security-Policy": (
        "sandbox allow-scripts; connect-src 'none'; img-src 'none'; frame-src 'none'; form-action 'none'; "
        "base-uri 'none'; frame-ancestors 'self'"
    ),
    "Cross-Origin-Opener-Policy": "unsafe-none",  # a page without an origin of its own cannot have the other
}


class Side:
    """Routes below the side's name; of all work in the studio it sees its own alone.

    `makes` is the operation whose results can be fetched.
    """

    name: ClassVar[str]
    makes: ClassVar[str]

    def __init__(self, folders: Folders, jobs: Jobs) -> None:
        self._folders, self._jobs = folders, jobs

    def results(self) -> Mapping[str, Callable[..., Response]]:
        """What can be fetched of a finished job, by its path below the job; called with the job."""
        raise NotImplementedError

    def questions(self) -> Mapping[str, Callable[[Body], Any]]:
        """What can be asked for, by its path: from the body of a request to an answer, or to work to start."""
        raise NotImplementedError

    def file_kind(self, path: Path) -> str | None:
        """What this side can use a file for."""
        raise NotImplementedError

    def routes(self) -> list[Route]:
        """All but the page itself."""
        gets: dict[str, Endpoint] = {"jobs": self.jobs, "jobs/{job}/events": self.events}
        gets |= {f"jobs/{{job}}/{path}": self._fetching(result) for path, result in self.results().items()}
        posts: dict[str, Endpoint] = {"jobs/{job}/cancel": self.cancel, "folder": self._asking(self.folder)}
        posts |= {path: self._asking(question) for path, question in self.questions().items()}
        return [
            Route(f"/{self.name}/{path}", answer, methods=[method])
            for method, answers in (("GET", gets), ("POST", posts))
            for path, answer in answers.items()
        ]

    def _fetching(self, result: Callable[..., Response]) -> Endpoint:
        async def answer(request: Request) -> Response:
            job = self._job(request)
            if job.kind != self.makes or job.state != "done":
                state = job.state if job.state in ENDED else "not finished"
                raise InputError(f"there is no result here: the work is {state}.")
            return result(job, **{key: value for key, value in request.path_params.items() if key != "job"})

        return answer

    def _asking(self, question: Callable[[Body], Any]) -> Endpoint:
        async def answer(request: Request) -> Response:
            found = await run_in_threadpool(question, await _read_json(request))
            if isinstance(found, Work):
                return await self.start(found)
            return found if isinstance(found, Response) else JSONResponse(found)

        return answer

    async def start(self, work: Work) -> Response:
        """Start work of this side, and say by which name it is known."""
        return JSONResponse({"job": (await self._jobs.start(self.name, work)).id})

    def folder(self, body: Body) -> dict[str, Any]:
        """What lies in the folder that a request names, as far as this side can use it."""
        return self._folders.listing(body, self.kind)

    async def jobs(self, request: Request) -> Response:
        """All work of this side."""
        return JSONResponse([job.snapshot() for job in self._jobs.of_side(self.name)])

    async def events(self, request: Request) -> Response:
        """A job's state as it changes."""
        return StreamingResponse(_event_stream(self._jobs, self._job(request)), media_type="text/event-stream")

    async def cancel(self, request: Request) -> Response:
        """Stop a job."""
        job = self._job(request)
        await self._jobs.cancel(job)
        return JSONResponse(job.snapshot())

    def kind(self, path: Path) -> str | None:
        """What this side can use a file or a folder for."""
        if path.is_dir():
            return "release" if (path / "release.json").is_file() else "folder"
        return self.file_kind(path)

    def _job(self, request: Request) -> Job:
        return self._jobs.get(self.name, request.path_params["job"])


async def _event_stream(jobs: Jobs, job: Job) -> AsyncIterator[str]:
    async for snapshot in jobs.watch(job):
        yield ": still here\n\n" if snapshot is None else f"data: {json.dumps(snapshot)}\n\n"


async def _read_json(request: Request) -> Body:
    """The body, which must be a JSON object."""
    try:
        document = json.loads(await request.body(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InputError("the request must be a JSON object.")
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def number_in(body: Body, key: str, *, whole: bool = False) -> Any:
    """A finite number of a request."""
    value = body.get(key)
    kinds, beyond = ((int,), 1e15) if whole else ((int, float), 1e300)
    if isinstance(value, bool) or not isinstance(value, kinds) or not abs(value) < beyond:
        raise InputError(f"{key.replace('_', ' ')} must be a {'whole ' if whole else ''}number below {beyond:g}.")
    return value


def release_facts(manifest: Manifest) -> dict[str, Any]:
    """What both sides' pages say of a release."""
    facts = {key: getattr(manifest, key) for key in ("title", "form", "mu", "epsilon", "delta")}
    return {**facts, "rows": manifest.n, "columns": len(manifest.columns)}


def framed_page(path: Path) -> Response:
    """A page that was written for the world, shown in a frame."""
    return FileResponse(path, media_type="text/html", headers=_FRAMED)


def attached(path: Path) -> Response:
    """A file to save."""
    return FileResponse(path, media_type="application/octet-stream", headers=_attachment(path.name))


def zipped(folder: Path, name: str) -> Response:
    """A folder as a .zip to save, made while it is sent."""
    return StreamingResponse(
        _zip_stream(folder, name), media_type="application/zip", headers=_attachment(f"{name}.zip")
    )


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


class _Pipe:
    """What a zip file writes into; it cannot be searched, so the archive states sizes behind each file."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep for the next :meth:`taken`."""
        self._waiting.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def taken(self) -> bytes:
        """All that was written since the last time."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data


def _zip_stream(folder: Path, name: str) -> Iterator[bytes]:
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            entry = zipfile.ZipInfo.from_file(path, f"{name}/{path.relative_to(folder).as_posix()}")
            entry.compress_type = zipfile.ZIP_STORED if path.suffix == ".parquet" else zipfile.ZIP_DEFLATED
            with path.open("rb") as source, archive.open(entry, "w", force_zip64=True) as sink:
                while chunk := source.read(_CHUNK):
                    sink.write(chunk)
                    yield pipe.taken()
    yield pipe.taken()
