"""A polite download: only when asked, one file at a time, bounded in size and time, checked, overwriting nothing.

What a public address serves becomes the files our loaders read, byte for byte. Cells keep the text they came with
wherever they can, so that the hash of the result is a check of the source.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from hazeglass._files import take_name
from hazeglass._http import DownloadError, HttpClient
from hazeglass.datasets.dataset import Entry, cache_folder, entry
from hazeglass.errors import DataError

Files = dict[str, bytes]
LARGEST = LARGEST_MEMBER = 1 << 26
SECONDS_IN_ALL = 900
# Buildings 12 and 15 read zero in half of their hours and were left out.
HOMES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 16, 17)
_PARTING = "Nothing was written."
_LOAD = "Equipment Electric Power [kWh]"
_PROTEINS = ("Raf", "Mek", "Plcg", "PIP2", "PIP3", "Erk", "Akt", "PKA", "PKC", "P38", "Jnk")


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
            host = urlsplit(data.addresses[0]).hostname
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


def _download(address: str) -> bytes:
    received = io.BytesIO()
    try:
        HttpClient(LARGEST, SECONDS_IN_ALL, _less_safe).fetch(address, address, received)
    except DownloadError as error:
        raise DataError(f"{error} {_PARTING}") from None
    return received.getvalue()


def _less_safe(old: SplitResult, new: SplitResult) -> str | None:
    """A redirect may lead to https, or stay within one scheme and host."""
    if new.scheme == "https" or (old.scheme, old.netloc) == (new.scheme, new.netloc):
        return None
    return f"{new.geturl()[:100]!r}, which is not https"


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
                take_name(Path(beside), path)
        finally:
            Path(beside).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"{path.parent} cannot be written ({error.strerror}). Name another folder with HAZEGLASS_CACHE."
        ) from None


def _cells(parts: Sequence[bytes]) -> Files:
    """The proteins get the names the literature uses; the order stays."""
    _, rows = _table(parts[0])
    return {"sachs.csv": _csv(_PROTEINS, rows)}


def _chickenpox(parts: Sequence[bytes]) -> Files:
    names = ("hungary_chickenpox.csv", "hungary_county_edges.csv")
    return {name: _member(parts[0], name).replace(b"\r\n", b"\n") for name in names}


def _soil(parts: Sequence[bytes]) -> Files:
    counts, acidity = (_table(part) for part in parts)
    return {
        "soil_116.csv": _csv(("sample", *counts[0][1:]), counts[1]),
        "ph.csv": _csv(("sample", *acidity[0][1:]), acidity[1]),
    }


def _movielens(parts: Sequence[bytes]) -> Files:
    """The .dat files separate by '::' and are Latin-1; times of rating are dropped."""
    ratings = (line.split("::")[:3] for line in _lines(_member(parts[0], "ratings.dat")))
    movies = (line.split("::") for line in _lines(_member(parts[0], "movies.dat")))
    return {
        "ratings.csv": _csv(("user_id", "movie_id", "rating"), ratings),
        "movies.csv": _csv(("movie_id", "title", "genres"), movies),
    }


def _homes(parts: Sequence[bytes]) -> Files:
    """One column of each home, with all its digits."""
    columns = []
    for part in parts:
        header, rows = _table(part)
        place = header.index(_LOAD)
        columns.append([row[place] for row in rows])
    header = [f"home{home:02d}" for home in HOMES]
    return {"homes_hourly_kwh.csv": _csv(header, zip(*columns, strict=True))}


CONVERTERS: Mapping[str, Callable[[Sequence[bytes]], Files]] = {
    "cell-signalling": _cells,
    "chickenpox": _chickenpox,
    "soil": _soil,
    "movielens": _movielens,
    "home-loads": _homes,
}


def _table(part: bytes) -> tuple[list[str], list[list[str]]]:
    rows = list(csv.reader(io.StringIO(part.decode("utf-8-sig"))))
    if not rows:
        raise DataError("what was fetched is empty.")
    return rows[0], rows[1:]


def _csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue().encode()


def _lines(part: bytes) -> list[str]:
    return part.decode("latin-1").splitlines()


def _member(archive: bytes, name: str) -> bytes:
    """One file of a zip, wherever in it, and never more than fits."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for info in opened.infolist():
            if info.filename.rpartition("/")[2] == name:
                if info.file_size > LARGEST_MEMBER:
                    raise DataError(f"{name} in the archive is larger than {LARGEST_MEMBER:,} bytes.")
                return opened.read(info)
    raise DataError(f"the archive holds no {name}.")
