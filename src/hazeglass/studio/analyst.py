"""The analyst's side: open a release, recover its graph, look at it, take it away.

The functions of OPERATIONS run in a worker; the rest runs in the studio and reads no release itself.
"""

from __future__ import annotations

import ipaddress
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hazeglass.analyst import SELECTS, SOLVERS
from hazeglass.errors import InputError
from hazeglass.studio.jobs import Job, Operation, Report, Work
from hazeglass.studio.side import Body, Side, attached, framed_page, number_in, release_facts, zipped

_LARGEST_UNPACKED = 8 << 30
_STEPS = {
    "checking every byte again": 0.05,
    "correcting the covariance": 0.15,
    "choosing the penalty": 0.25,
    "fitting the graph": 0.3,
    "working out intervals for every pair": 0.7,
    "drawing the report": 0.85,
}


class AnalystSide(Side):
    """Routes below /analyst."""

    name, makes = "analyst", "recover"

    def results(self) -> Mapping[str, Callable[..., Response]]:
        """All that `recover` writes; its report byte for byte, in a frame without an origin."""
        return {
            "report.html": lambda job: framed_page(_graph(job) / "report.html"),
            "graph.zip": lambda job: zipped(_graph(job), "graph"),
            "files/{name}": _file,
        }

    def questions(self) -> Mapping[str, Callable[[Body], Any]]:
        """Work."""
        return {"open": self.open, "recover": self.recover}

    def routes(self) -> list[Route]:
        """An upload is the one request whose body is no JSON."""
        return [*super().routes(), Route(f"/{self.name}/upload", self.upload, methods=["POST"])]

    def file_kind(self, path: Path) -> str | None:
        """An archive may hold a release."""
        return "archive" if path.suffix.lower() == ".zip" else None

    async def upload(self, request: Request) -> Response:
        """Take a .zip from the browser and open it; the guard has bounded its size."""
        folder = self._jobs.new_folder()
        archive = folder / "release.zip"
        try:
            with archive.open("wb") as file:
                async for chunk in request.stream():
                    await run_in_threadpool(file.write, chunk)
            return await self.start(_opening(str(archive), "the uploaded archive", ours=True))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def open(self, body: Body) -> Work:
        """Open a release below the studio's folders, or at a loopback address."""
        if "address" in body:
            address = _loopback(body["address"])
            return _opening(address, address)
        path = self._folders.resolve(body.get("release"))
        if self.kind(path) is None:
            raise InputError("a release is a folder with a release.json, or a .zip of one; choose such.")
        return _opening(str(path), path.name)

    def recover(self, body: Body) -> Work:
        """Recover the graph of a release that was opened."""
        opened = self._jobs.get(self.name, str(body.get("opened")))
        if opened.kind != "open" or opened.state != "done":
            raise InputError("a release must be opened and verified before its graph is recovered.")
        wanted = {"source": opened.result["_folder"], "options": _options(body)}
        return Work("recover", wanted, opened.result["title"])


def _graph(job: Job) -> Path:
    return job.folder / "graph"


def _file(job: Job, name: str) -> Response:
    if name not in job.result["files"]:
        raise InputError("there is no such file among the results.")
    return attached(_graph(job) / name)


def _opening(source: str, label: str, *, ours: bool = False) -> Work:
    return Work("open", {"source": source, "ours": ours}, label)


def _loopback(address: Any) -> str:
    """An http address on this machine, and no other."""
    try:
        parts = urlsplit(address.strip() if isinstance(address, str) else "")
        host = parts.hostname or ""
        home = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        home = False
    if not home or parts.scheme not in ("http", "https"):
        raise InputError(
            "the studio fetches only from this machine: an address must begin with http://127.0.0.1 or "
            "http://localhost. Download a release from elsewhere yourself, and open the .zip."
        )
    return str(address).strip()


def _options(body: Body) -> dict[str, Any]:
    """What is handed to `recover`; an option that a page leaves out is left to it."""
    options: dict[str, Any] = {key: body[key] for key in ("select", "solver") if key in body}
    if options.get("select", SELECTS[0]) not in SELECTS or options.get("solver", SOLVERS[0]) not in SOLVERS:
        raise InputError("the way to choose the penalty, or the solver, is none that recover knows.")
    numbers = ("fdr",) if body.get("alpha") is None else ("fdr", "alpha")
    options |= {key: float(number_in(body, key)) for key in numbers}
    if not 0 < options["fdr"] < 1 or options.get("alpha", 0.0) < 0:
        raise InputError("the false-discovery rate must lie between 0 and 1, and a penalty be at least 0.")
    return options


def open_release(request: dict[str, Any], report: Report) -> dict[str, Any]:
    """Verify a folder, a .zip or an address; what was unpacked or fetched stays with the studio until it stops."""
    from hazeglass.bundle.reader import load
    from hazeglass.guarantee.gdp import explain

    report("fetching and checking every byte" if "://" in request["source"] else "checking every byte")
    workspace = Path(request["workspace"])
    tempfile.tempdir = str(workspace)
    try:
        release = load(request["source"], largest=_LARGEST_UNPACKED)
        release.check_values()
    finally:
        if request["ours"]:
            Path(request["source"]).unlink()
    folder = release.path
    if folder.is_relative_to(workspace):
        folder = folder.rename(workspace / "release")
    manifest = release.manifest
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    return {
        **release_facts(manifest),
        "_folder": str(folder),
        "unit": words.unit,
        "created": manifest.created,
        "simulation": manifest.simulation,
        "promise": [] if manifest.simulation else list(words.promise),
    }


def recover(request: dict[str, Any], report: Report) -> dict[str, Any]:
    """Recover and write everything `hazeglass recover` writes."""

    def step(name: str) -> None:
        report(name, _STEPS.get(name))

    step("checking every byte again")
    from hazeglass.analyst.recover import recover as recover_graph
    from hazeglass.bundle.reader import load

    graph = recover_graph(load(request["source"]), **request["options"], progress=step)
    step("drawing the report")
    out = graph.save(Path(request["workspace"]) / "graph")
    return {
        "title": graph.fit["title"],
        "columns": len(graph.names),
        "edges": graph.selected.num_rows,
        "files": sorted(path.name for path in out.iterdir()),
        "notes": [str(note) for note in graph.fit["notes"]],
    }


OPERATIONS: dict[str, Operation] = {"open": open_release, "recover": recover}
