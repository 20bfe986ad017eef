"""The analyst's side: open a release, recover its graph, look at it, take it away."""

from __future__ import annotations

import ipaddress
import math
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from hazeglass.analyst import SELECTS, SOLVERS
from hazeglass.errors import InputError
from hazeglass.studio.jobs import Job
from hazeglass.studio.side import Answers, Side, attached, framed_page, number_in, read_json, zipped

__all__ = ["AnalystSide"]

_LARGEST_UNPACKED = 8 << 30


class AnalystSide(Side):
    """Routes below /analyst."""

    name = "analyst"
    worker = "hazeglass.studio.analyst_worker"

    def gets(self) -> Answers:
        """Results."""
        return {
            "jobs/{job}/report.html": self.report,
            "jobs/{job}/graph.zip": self.everything,
            "jobs/{job}/files/{name}": self.file,
        }

    def posts(self) -> Answers:
        """Work."""
        return {"upload": self.upload, "open": self.open, "recover": self.recover}

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
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return await self._open(str(archive), "the uploaded archive", ours=True)

    async def open(self, request: Request) -> Response:
        """Open a release below the studio's folders, or at a loopback address."""
        body = await read_json(request)
        if "address" in body:
            address = _loopback(body["address"])
            return await self._open(address, address)
        path = self._folders.resolve(body.get("release"))
        if self.kind(path) is None:
            raise InputError("a release is a folder with a release.json, or a .zip of one; choose such.")
        return await self._open(str(path), path.name)

    async def _open(self, source: str, label: str, *, ours: bool = False) -> Response:
        request = {"operation": "open", "source": source, "ours": ours, "largest": _LARGEST_UNPACKED}
        return await self.start(request, label)

    async def recover(self, request: Request) -> Response:
        """Start recovering the graph of a release that was opened."""
        body = await read_json(request)
        opened = self._jobs.get(self.name, str(body.get("opened")))
        if opened.kind != "open" or opened.state != "done":
            raise InputError("a release must be opened and verified before its graph is recovered.")
        wanted = {"operation": "recover", "source": opened.result["_folder"], **_options(body)}
        return await self.start(wanted, opened.result["title"])

    async def report(self, request: Request) -> Response:
        """report.html, byte for byte as `recover` writes it, in a frame without an origin."""
        return framed_page(_results(self._recovered(request)) / "report.html")

    async def everything(self, request: Request) -> Response:
        """All that `recover` writes."""
        return zipped(_results(self._recovered(request)), "graph")

    async def file(self, request: Request) -> Response:
        """One of the files."""
        job, name = self._recovered(request), request.path_params["name"]
        if name not in job.result["files"]:
            raise InputError("there is no such file among the results.")
        return attached(_results(job) / name)

    def _recovered(self, request: Request) -> Job:
        return self.finished(request, "recover")


def _results(job: Job) -> Path:
    return job.folder / "graph"


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


def _options(body: dict[str, Any]) -> dict[str, Any]:
    alpha = body.get("alpha")
    if alpha is not None:
        alpha = float(number_in(body, "alpha"))
    select, solver, fdr = body.get("select", "ebic"), body.get("solver", "auto"), float(number_in(body, "fdr"))
    if select not in SELECTS or solver not in SOLVERS:
        raise InputError("the way to choose the penalty, or the solver, is none that recover knows.")
    if not 0 < fdr < 1 or (alpha is not None and not (alpha >= 0 and math.isfinite(alpha))):
        raise InputError("the false-discovery rate must lie between 0 and 1, and a penalty be at least 0.")
    return {"alpha": alpha, "select": select, "solver": solver, "fdr": fdr}
