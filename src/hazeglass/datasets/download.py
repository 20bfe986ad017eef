"""A polite download: only when asked, one file at a time, bounded in size and time, checked, overwriting nothing."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import http.client
import os
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from pathlib import Path
from typing import Any

from hazeglass._version import __version__
from hazeglass.datasets.catalogue import Entry, entry
from hazeglass.datasets.convert import CONVERTERS
from hazeglass.datasets.files import cache_folder
from hazeglass.errors import DataError

__all__ = ["fetch"]

LARGEST = 1 << 26
SECONDS_WITHOUT_A_BYTE = 30
SECONDS_IN_ALL = 900
_CHUNK = 1 << 16
_PARTING = "Nothing was written."


def fetch(name: str) -> Path:
    """Download a data set whose terms allow it into our cache folder, and return its folder there.

    Files that are there already are left as they are, and nothing is downloaded when all of them are. What is written
    has the hash the catalogue knows, or is not written at all.
    """
    return fetch_entry(entry(name))


def fetch_entry(data: Entry) -> Path:
    """The same for an entry."""
    folder = cache_folder() / data.folder
    if not data.addresses:
        raise DataError(f"the {data.name} data is not fetched for you. {data.obtain}".rstrip())
    there = [_is_there(data, name, folder) for name in data.files]  # each is looked at before anything is fetched
    if all(there):
        return folder
    contents = _converted(data, [_download(address) for address in data.addresses])
    for name in data.files:
        if not data.knows(name, hashlib.sha256(contents[name]).hexdigest()):
            host = urllib.parse.urlsplit(data.addresses[0]).hostname
            raise DataError(
                f"what {host} serves now is not the {data.name} data that results refer to: {name} has another "
                f"hash. {_PARTING} Get the files some other way and name their folder with HAZEGLASS_DATA."
            )
    for name in data.files:
        _write_new(folder / name, contents[name])
    return folder


def _is_there(data: Entry, name: str, folder: Path) -> bool:
    path = folder / name
    if not path.exists():
        return False
    if data.knows(name, hashlib.sha256(path.read_bytes()).hexdigest()):
        return True
    raise DataError(f"{path} is there and holds something else. Move it away, then fetch again. {_PARTING}")


def _converted(data: Entry, parts: list[bytes]) -> dict[str, bytes]:
    try:
        return CONVERTERS[data.name](parts)
    except (ValueError, IndexError, RuntimeError, EOFError, csv.Error, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error) if isinstance(error, DataError) else f"{type(error).__name__}."
        raise DataError(
            f"what the source of the {data.name} data serves now does not look like it: {reason} {_PARTING}"
        ) from None


class _NeverLessSafe(urllib.request.HTTPRedirectHandler):
    """Follow a redirect to https, or within the same scheme and host."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if new.scheme != "https" and (old.scheme, old.netloc) != (new.scheme, new.netloc):
            fp.close()
            raise DataError(f"{old.netloc} sends us on to {newurl[:100]!r}, which is not https. {_PARTING}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(address: str) -> bytes:
    headers = {
        "Accept-Encoding": "identity",
        "User-Agent": f"hazeglass/{__version__} (data set download, once per user)",
    }
    request = urllib.request.Request(address, headers=headers)
    deadline = time.monotonic() + SECONDS_IN_ALL
    received = bytearray()
    try:
        opener = urllib.request.build_opener(_NeverLessSafe)
        with opener.open(request, timeout=SECONDS_WITHOUT_A_BYTE) as answer:
            while chunk := answer.read1(_CHUNK):
                received += chunk
                if len(received) > LARGEST:
                    raise DataError(f"{address} is larger than {LARGEST:,} bytes; the download was stopped. {_PARTING}")
                if time.monotonic() > deadline:
                    raise DataError(
                        f"{address} took more than {SECONDS_IN_ALL} s; the download was stopped. {_PARTING}"
                    )
            _check_length(answer, received, address)
    except DataError:
        raise
    except urllib.error.HTTPError as error:
        with error:
            raise DataError(f"{address} answers {error.code} {error.reason}. {_PARTING}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise DataError(f"{address} cannot be fetched: {reason}. {_PARTING}") from None
    return bytes(received)


def _check_length(answer: Any, received: bytearray, address: str) -> None:
    announced = answer.headers.get("Content-Length")
    if announced is not None and announced.isdigit() and int(announced) != len(received):
        raise DataError(f"{address} broke off after {len(received):,} of {int(announced):,} bytes. {_PARTING}")


def _write_new(path: Path, contents: bytes) -> None:
    """Write beside, then link into place: the file appears whole, and one that is there already wins."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".fetching-")
        try:
            with os.fdopen(handle, "wb") as sink:
                sink.write(contents)
                sink.flush()
                os.fsync(sink.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(beside, path)
        finally:
            os.unlink(beside)
    except OSError as error:
        raise DataError(
            f"{path.parent} cannot be written ({error.strerror}). Name another folder with HAZEGLASS_CACHE."
        ) from None
