"""Who may ask, and how much: the first thing every request meets.

A page on the web cannot reach the studio: the Host must be the loopback address it was started on (so no other name can
be made to point here), the session cookie exists only in the browser that opened the one-time link and travels with no
other site's request, and whatever changes something must come from the studio's own pages.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

__all__ = ["PAGE_POLICY", "Guard"]

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
# The cookie is strict, so a redirect after a link in another program would come without it; a page of ours may go on.
_WELCOME = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">'
    '<title>hazeglass studio</title><p><a href="/">Enter the studio</a></p></html>'
)


class Guard:
    """ASGI middleware around the whole studio."""

    def __init__(self, app: App, *, port: int, token: str, limit: Callable[[str], int]) -> None:
        self._app, self._limit = app, limit
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._token: str | None = token
        self._secret = secrets.token_urlsafe(32)
        self._cookie = f"hazeglass_studio_{port}"  # browsers share cookies between ports

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=dict(scope))
        refusal = self._refusal(scope, headers)
        guarded = _with_headers(send)
        if refusal is not None:
            await _drain(receive, headers)
            await refusal(scope, receive, guarded)
            return
        await self._app(scope, self._counted(scope["path"], receive), guarded)

    def _refusal(self, scope: MutableMapping[str, Any], headers: Headers) -> Response | None:
        """What is said instead of an answer, or nothing."""
        if headers.get("host") not in self._hosts:
            return _no("This studio answers only at its own address on this machine.")
        if scope["path"] == "/" and scope["method"] == "GET" and scope["query_string"]:
            welcome = self._welcome(scope["query_string"])
            if welcome is not None:
                return welcome
        if not self._known(headers):
            return _no("Open the studio with the link it printed when it started; each link works once.")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _no("This request came from another page.")
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST":
            return _no("The studio knows GET and POST only.", 405)
        if headers.get("origin") != f"http://{headers['host']}":
            return _no("This request came from another page.")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._limit(scope["path"]):
            return _no(self._too_large(scope["path"]), 413)
        return None

    def _welcome(self, query: bytes) -> Response | None:
        """Exchange the one-time token for the session's cookie."""
        given = parse_qs(query.decode("latin-1")).get("token", [""])[0]
        if self._token is None or not hmac.compare_digest(given.encode(), self._token.encode()):
            return None
        self._token = None
        answer = HTMLResponse(_WELCOME)
        answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict", path="/")
        return answer

    def _known(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._secret.encode())

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
