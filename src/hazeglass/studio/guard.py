"""Who may ask, and how much: the first thing every request meets.

Every start of the studio has an origin of its own, http://<random>.localhost:<port>, which browsers look for on this
machine. So no tab and no service worker that anybody served from this port before belongs to it.

A page on the web cannot reach the studio: the Host must be that name (so no other one can be made to point here), the
session cookie exists only in the browser that opened the one-time link and travels with no other site's request, and
whatever changes something must come from the studio's own pages.

A cookie does not know ports: browsers send it to every service on this machine that the person visits, and such a
service may replay it with any header it likes. So the cookie opens only pages and assets, which hold no data.
Everything else also needs the page secret. The page behind the one-time link puts it into the storage of the studio's
own origin, which has a port, and nothing hands it out again. Scripts send it in a header; a frame, a download or a
stream of events, which can send none, has a ticket in its address: HMAC-SHA-256 of the path under the secret, good
for that path alone.

The folders the studio was started with. Every path a browser names is checked here before it touches the disk.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from hazeglass.errors import InputError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types"
)
_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_DRAINED = 32 << 20  # bytes of a refused body that are read and forgotten, so that the refusal can be seen
_SECRET_HEADER = "Hazeglass-Page-Secret"
# The cookie is strict, so a redirect after a link in another program would come without it; a page of ours may go on.
_KEEP_SECRET = 'localStorage.setItem("hazeglass-page-secret", document.body.dataset.secret); location.replace("/");'
_WELCOME = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>hazeglass studio</title><body data-secret="{secret}">'
    "<noscript>The studio needs JavaScript: allow it, and start the studio again.</noscript>"
    f"<script>{_KEEP_SECRET}</script></html>"
)
_WELCOME_POLICY = PAGE_POLICY.replace(
    "script-src 'self'",
    f"script-src 'sha256-{base64.b64encode(hashlib.sha256(_KEEP_SECRET.encode()).digest()).decode()}'",
)
_NO_SECRET = (
    "This page does not hold the secret that came with the studio's link (perhaps the browser's storage was cleared): "
    "stop the studio in its terminal with Ctrl-C, start it again and open its new link."
)


class Guard:
    """ASGI middleware around the whole studio. `static` are the paths whose answers are the same in every studio."""

    def __init__(
        self, app: App, *, host: str, token: str, static: Collection[str], limit: Callable[[str], int]
    ) -> None:
        self._app, self._static, self._limit = app, static, limit
        self._host = host
        self._token: str | None = token
        self._session, self._page_secret = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._cookie = f"hazeglass_studio_{host.rpartition(':')[2]}"  # browsers share cookies between ports

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request, guarded = Request(scope), _with_headers(send)
        refusal = self._refusal(request)
        if refusal is not None:
            await _drain(receive, request.headers)
            await refusal(scope, receive, guarded)
            return
        await self._app(scope, self._counted(scope["path"], receive), guarded)

    def _refusal(self, request: Request) -> Response | None:
        """What is said instead of an answer, or nothing."""
        headers, path, method = request.headers, request.scope["path"], request.method
        if headers.get("host") != self._host:
            return _no("This studio answers only at its own address on this machine, which it printed when it started.")
        if (path, method) == ("/", "GET") and self._token and _same(request.query_params.get("token"), self._token):
            return self._welcome()
        if not _same(request.cookies.get(self._cookie), self._session):
            return _no("Open the studio with the link it printed when it started; each link works once.")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _no("This request came from another page.")
        holds_secret = _same(headers.get(_SECRET_HEADER), self._page_secret)
        if method in ("GET", "HEAD"):
            ticket = hmac.digest(self._page_secret.encode(), path.encode(), "sha256").hex()
            known = path in self._static or holds_secret or _same(request.query_params.get("ticket"), ticket)
            return None if known else _no(_NO_SECRET, 401)
        if method != "POST":
            return _no("The studio knows GET and POST only.", 405)
        if headers.get("origin") != f"http://{self._host}":
            return _no("This request came from another page.")
        if not holds_secret:
            return _no(_NO_SECRET, 401)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._limit(path):
            return _no(self._too_large(path), 413)
        return None

    def _welcome(self) -> Response:
        """Exchange the one-time token for the session's cookie and the page secret."""
        self._token = None
        page = _WELCOME.format(secret=self._page_secret)
        answer = HTMLResponse(page, headers={"Content-Security-Policy": _WELCOME_POLICY})
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _counted(self, path: str, receive: Receive) -> Receive:
        """The body as it comes, up to its limit; a body need not state its length."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit(path):
                raise HTTPException(413, self._too_large(path))
            return message

        return counted

    def _too_large(self, path: str) -> str:
        return f"At most {self._limit(path):,} bytes are taken here; this was more, and it was not read."


def _same(given: str | None, wanted: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest((given or "").encode(), wanted.encode())


def _no(sentence: str, status: int = 403) -> Response:
    return JSONResponse({"error": sentence}, status_code=status, headers={"Connection": "close"})


def _with_headers(send: Send) -> Send:
    """Every answer carries the protective headers; a page with a stricter policy of its own keeps it."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return guarded


async def _drain(receive: Receive, headers: Headers) -> None:
    """Read a refused body up to a point: a browser reports a connection closed early, not the answer on it."""
    if "content-length" not in headers and "transfer-encoding" not in headers:
        return
    seen, more = 0, True
    while more and seen < _DRAINED:
        message = await receive()
        seen += len(message.get("body", b""))
        more = message.get("more_body", False)


_MOST_ENTRIES = 2000
_LONGEST_NAME = 120
_NOT_IN_NAMES = set('/\\:*?"<>|')


class OutsideError(InputError):
    """A path that leaves the studio's folders."""


@dataclass(frozen=True)
class Folders:
    """Folders whose contents may be listed and named, and nothing else."""

    roots: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> Folders:
        """Check that each is a folder."""
        roots = []
        for folder in folders:
            if not folder.is_dir():
                raise InputError(f"the studio browses folders, and {str(folder)!r} is not one. Give a folder.")
            roots.append(folder.resolve())
        return cls(tuple(dict.fromkeys(roots)))

    @property
    def labels(self) -> list[str]:
        """What the folders are called on the page."""
        names = [root.name or str(root) for root in self.roots]
        return [name if names.count(name) == 1 else str(root) for name, root in zip(names, self.roots, strict=True)]

    def resolve(self, place: Any) -> Path:
        """The existing file or folder that `{"root": 0, "path": "a/b"}` names, links followed."""
        root, parts = self._parts(place)
        path = root.joinpath(*parts)
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            self._refuse_outside(path, root)
            raise InputError(f"there is no {'/'.join(parts)!r} in this folder any more. Choose again.") from None
        self._refuse_outside(real, root)
        return real

    def new_place(self, place: Any, name: object) -> Path:
        """A name for something new inside an existing folder."""
        folder = self.resolve(place)
        if not isinstance(name, str) or not _usable(name):
            raise InputError(
                f'a new name must be 1 to {_LONGEST_NAME} characters without / \\ : * ? " < > | and not begin or end '
                "with a dot or a space. Choose another."
            )
        if not folder.is_dir():
            raise InputError("new files are put into a folder, and the place that was named is none.")
        return folder / name

    def listing(self, place: Any, classify: Callable[[Path], str | None]) -> dict[str, Any]:
        """Folders, and the files `classify` has a word for; hidden ones and links that lead outside are left out."""
        folder = self.resolve(place)
        if not folder.is_dir():
            raise InputError("only a folder can be listed, and this is a file.")
        entries = []
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name.casefold())
        except OSError:
            raise InputError(f"the folder {folder.name!r} cannot be read. Check its permissions.") from None
        for entry in found:
            kind = None if entry.name.startswith(".") else self._kind(Path(entry.path), classify)
            if kind is not None:
                entries.append({"name": entry.name, "kind": kind})
        entries.sort(key=lambda entry: entry["kind"] != "folder")
        return {"entries": entries[:_MOST_ENTRIES], "left_out": max(0, len(entries) - _MOST_ENTRIES)}

    def _kind(self, path: Path, classify: Callable[[Path], str | None]) -> str | None:
        try:
            real = path.resolve(strict=True)
            if not any(real.is_relative_to(root) for root in self.roots):
                return None
            known = classify(real)
            return known if known is not None else "folder" if real.is_dir() else None
        except (OSError, RuntimeError):
            return None

    def _parts(self, place: Any) -> tuple[Path, list[str]]:
        root = place.get("root") if isinstance(place, dict) else None
        path = place.get("path") if isinstance(place, dict) else None
        if isinstance(root, bool) or not isinstance(root, int) or not isinstance(path, str):
            raise InputError("a place is the number of a folder and a path inside it.")
        if not 0 <= root < len(self.roots):
            raise OutsideError("that is none of the folders the studio was started with.")
        parts = path.split("/") if path else []
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            raise OutsideError("a path must stay inside the folder it starts from: no '..', no absolute path.")
        if os.name == "nt" and any(":" in part for part in parts):
            raise OutsideError("a path must stay inside the folder it starts from: no drive.")
        return self.roots[root], parts

    @staticmethod
    def _refuse_outside(path: Path, root: Path) -> None:
        try:
            inside = path.resolve().is_relative_to(root)
        except (OSError, RuntimeError, ValueError):
            inside = False
        if not inside:
            raise OutsideError("this leads outside the folders the studio was started with; it was not opened.")


def _usable(name: str) -> bool:
    return (
        0 < len(name) <= _LONGEST_NAME
        and name.isprintable()
        and name == name.strip(" .")
        and not _NOT_IN_NAMES & set(name)
    )
