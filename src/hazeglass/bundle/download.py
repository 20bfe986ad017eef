"""A bundle behind an http(s) address, fetched into a folder of our own: bounded in size and time, never off-host."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from hazeglass.bundle.integrity import LARGEST_JSON, parse_checksums
from hazeglass.bundle.sign import SIGNATURE, SIGNATURE_BYTES
from hazeglass.bundle.writer import CHECKSUMS
from hazeglass.errors import BundleError

_CHUNK = 1 << 16
_SECONDS_WITHOUT_A_BYTE = 30
_SECONDS_IN_ALL = 3600


class _StaysHome(urllib.request.HTTPRedirectHandler):
    """Follow a redirect only to the same scheme, host and port."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise BundleError(
                f"{old.netloc} sends us on to {new.netloc[:100]!r}; a release is not fetched from elsewhere."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _NotThereError(BundleError):
    """The place is known, the file is not (object stores say 403 for it)."""


class _Fetcher:
    """Fetches files from one place and keeps count of bytes and time."""

    def __init__(self, largest: int) -> None:
        self._opener = urllib.request.build_opener(_StaysHome)
        self._left = largest
        self._deadline = time.monotonic() + _SECONDS_IN_ALL

    def fetch(self, url: str, name: str, target: Path, largest: int | None = None) -> str:
        """Write one file and return its hash."""
        allowed = self._left if largest is None else min(largest, self._left)
        digest, written = hashlib.sha256(), 0
        target.parent.mkdir(parents=True, exist_ok=True)
        request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "hazeglass"})
        try:
            with self._opener.open(request, timeout=_SECONDS_WITHOUT_A_BYTE) as answer, target.open("xb") as sink:
                while chunk := answer.read1(_CHUNK):
                    written += len(chunk)
                    if written > allowed:
                        raise BundleError(f"{name[:100]} is larger than {allowed:,} bytes; the download was stopped.")
                    if time.monotonic() > self._deadline:
                        raise BundleError("the download took more than an hour and was stopped.")
                    digest.update(chunk)
                    sink.write(chunk)
        except urllib.error.HTTPError as error:
            with error:
                kind = _NotThereError if error.code in (403, 404, 410) else BundleError
                raise kind(f"{url} answers {error.code} {error.reason}. Is it the address of a release?") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, BundleError):
                raise
            reason = getattr(error, "reason", None) or type(error).__name__
            raise BundleError(f"{url} cannot be fetched: {reason}.") from None
        self._left -= written
        return digest.hexdigest()


def fetch_bundle(prefix: str, folder: Path, largest: int) -> None:
    """Fetch SHA256SUMS, its signature if there is one, and then each file listed, up to the first with another hash."""
    base = _checked(prefix)
    fetcher = _Fetcher(largest)
    fetcher.fetch(f"{base}/{CHECKSUMS}", CHECKSUMS, folder / CHECKSUMS, LARGEST_JSON)
    with suppress(_NotThereError):
        fetcher.fetch(f"{base}/{SIGNATURE}", SIGNATURE, folder / SIGNATURE, SIGNATURE_BYTES)
    sums = parse_checksums((folder / CHECKSUMS).read_bytes())
    for name, expected in sums.items():
        limit = None if name.endswith(".parquet") else LARGEST_JSON
        if fetcher.fetch(f"{base}/{urllib.parse.quote(name)}", name, folder / name, limit) != expected:
            raise BundleError(f"{name} was changed after publication: its hash does not match. Ask for a new copy.")


def fetch_archive(url: str, target: Path, largest: int) -> None:
    """Fetch one .zip."""
    _Fetcher(largest).fetch(_checked(url), target.name, target)


def _checked(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or parts.username is not None:
        raise BundleError(f"{url!r} must be a plain http(s) address: a host and a path, no query and no password.")
    if not url.isascii() or any(c.isspace() for c in url):
        raise BundleError(f"{url!r} must be written in ASCII, other characters percent-encoded.")
    return url.rstrip("/")
