"""The HTTP client for releases and data sets: bounded in size and time, and sent on only where the caller allows it.

It speaks http and https alone, through the proxies of the environment, but for what this machine serves itself.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO
from urllib.parse import SplitResult, urlsplit

from hazeglass._version import __version__

_HEADERS = {"Accept-Encoding": "identity", "User-Agent": f"hazeglass/{__version__}"}
_CHUNK = 1 << 16
_SECONDS_WITHOUT_A_BYTE = 30
_BETWEEN_LOOKS = 0.2  # seconds
# Of a redirect from one address to another: None, or where it leads and why it is not followed.
Objection = Callable[[SplitResult, SplitResult], str | None]


class DownloadError(Exception):
    """Why a download was given up, as a sentence; `status` is the server's answer, where that was the reason."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class HttpClient:
    """Fetches files one after the other and keeps count of bytes and time."""

    def __init__(self, largest: int, seconds: float, objection: Objection) -> None:
        self._sockets: list[socket.socket] = []
        self._opener = urllib.request.OpenerDirector()  # build_opener's would open files and ftp as well
        for handler in (
            _Proxies(),
            _Redirects(objection, self._sockets),
            _Plain(self._sockets),
            _Encrypted(self._sockets),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.UnknownHandler(),
        ):
            self._opener.add_handler(handler)
        self._left, self._seconds = largest, seconds
        self._deadline = time.monotonic() + seconds

    def fetch(self, address: str, name: str, sink: BinaryIO, largest: int | None = None) -> None:
        """Write what lies at an address; `name` is what messages call it."""
        allowed = self._left if largest is None else min(largest, self._left)
        received = 0
        if self._late:
            raise self._too_late(name)
        # Headers and trailers may be endless, too, and come byte by byte.
        over = threading.Event()
        threading.Thread(target=self._watch, args=(over,), daemon=True).start()
        try:
            request = urllib.request.Request(address, headers=_HEADERS)
            with self._opener.open(request, timeout=_SECONDS_WITHOUT_A_BYTE) as answer:
                while chunk := answer.read1(_CHUNK):
                    received += len(chunk)
                    if received > allowed:
                        raise DownloadError(f"{name} is larger than {allowed:,} bytes; the download was stopped.")
                    if self._late:
                        raise self._too_late(name)
                    sink.write(chunk)
                if self._late:
                    raise self._too_late(name)
                announced = answer.headers.get("Content-Length", "")
                if announced.isdigit() and int(announced) != received:
                    raise DownloadError(f"{name} broke off after {received:,} of {int(announced):,} bytes.")
        except urllib.error.HTTPError as error:
            with error:
                raise DownloadError(f"{address} answers {error.code} {_printable(error.reason)}.", error.code) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if self._late:
                raise DownloadError(
                    f"{name} is not here after {self._seconds:,} s; the download was stopped."
                ) from None
            reason = getattr(error, "reason", None) or type(error).__name__
            raise DownloadError(f"{address} cannot be fetched: {_printable(reason)}.") from None
        finally:
            over.set()
            _close(self._sockets)
        self._left -= received

    @property
    def _late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _too_late(self, name: str) -> DownloadError:
        return DownloadError(f"{name} is not here after {self._seconds:,} s; the download was stopped.")

    def _watch(self, over: threading.Event) -> None:
        """Hang up when time is, again and again: a redirect or a broken handshake may have made a new connection."""
        over.wait(max(0.0, self._deadline - time.monotonic()))
        while not over.is_set():
            for one in [*self._sockets]:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            over.wait(_BETWEEN_LOOKS)


def _printable(reason: object) -> str:
    """What a server or the system says, without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in str(reason)[:200])


def is_here(host: str) -> bool:
    """Whether a host, as addresses name it, is this machine by its own word: localhost, 127.0.0.1, ::1."""
    host = host.lower().rstrip(".")
    if host.rpartition(".")[2] == "localhost":
        return True
    with suppress(OSError):
        return socket.inet_aton(host)[0] == 127  # 127.1 as well, and whatever else connecting takes for it
    with suppress(ValueError):
        address = ipaddress.IPv6Address(host)
        return (address.ipv4_mapped or address).is_loopback
    return False


class _Proxies(urllib.request.ProxyHandler):
    def __init__(self) -> None:
        found = urllib.request.getproxies()
        super().__init__({scheme: found[scheme] for scheme in ("http", "https") if scheme in found})

    def proxy_open(self, req: Any, proxy: str, type: str) -> Any:
        here = is_here(urlsplit(f"//{req.host}").hostname or "")
        return None if here else super().proxy_open(req, proxy, type)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self._sockets = sockets

    def http_open(self, req: Any) -> Any:
        return self.do_open(_noting(http.client.HTTPConnection, self._sockets), req)


class _Encrypted(urllib.request.HTTPSHandler):
    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self._sockets = sockets

    def https_open(self, req: Any) -> Any:
        return self.do_open(_noting(http.client.HTTPSConnection, self._sockets), req)


def _noting(kind: type[Any], sockets: list[socket.socket]) -> Any:
    """The same kind of connection, whose sockets are noted, so that they can be shut from outside.

    Of each a second handle is noted, before a handshake takes the first one away.
    """

    class Noting(kind):  # type: ignore[misc]
        @property
        def sock(self) -> socket.socket | None:
            return self._own

        @sock.setter
        def sock(self, made: socket.socket | None) -> None:
            self._own = made
            if made is not None and not isinstance(made, ssl.SSLSocket):
                sockets.append(made.dup())

    return Noting


def _close(sockets: list[socket.socket]) -> None:
    """Shut the connections, whoever else holds a handle of them."""
    while sockets:
        with sockets.pop() as one, suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def __init__(self, objection: Objection, sockets: list[socket.socket]) -> None:
        self._objection, self._sockets = objection, sockets

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        old = urlsplit(req.full_url)
        if (objection := self._objection(old, urlsplit(newurl))) is not None:
            fp.close()
            raise DownloadError(f"{old.netloc} sends us on to {objection}.")
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None:
            new.remove_header("Proxy-authorization")  # the next host may be reached without the proxy
        fp.close()  # what stands beside the new address may be endless, and urllib would read all of it
        _close(self._sockets)
        return new
