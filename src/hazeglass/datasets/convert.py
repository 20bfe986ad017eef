"""From what a public address serves to the files our loaders read, byte for byte.

Cells keep the text they came with wherever they can, so that the hash of the result is a check of the source.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence

from hazeglass.datasets.catalogue import HOMES
from hazeglass.errors import DataError

__all__ = ["CONVERTERS"]

Files = dict[str, bytes]
LARGEST_MEMBER = 1 << 26
_LOAD = "Equipment Electric Power [kWh]"
_PROTEINS = ("Raf", "Mek", "Plcg", "PIP2", "PIP3", "Erk", "Akt", "PKA", "PKC", "P38", "Jnk")


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
