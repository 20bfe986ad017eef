"""From the name of a file to its checked contents: found in one of three folders, its hash compared, then read.

The folders, in this order: the one handed over, the one named by HAZEGLASS_DATA, our own cache of downloads.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from hazeglass.datasets.catalogue import Entry, FloatArray
from hazeglass.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

VARIABLE = "HAZEGLASS_DATA"
LARGEST = 1 << 27


def cache_folder() -> Path:
    """Where downloads are kept: HAZEGLASS_CACHE, or the user's own cache folder."""
    if chosen := os.environ.get("HAZEGLASS_CACHE"):
        return Path(chosen)
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hazeglass" / "data"


def find(data: Entry, name: str, data_dir: str | Path | None = None) -> Path | None:
    """The file, compressed or not, in the first folder that has it. A folder handed over is the only one looked at."""
    for folder in folders(data_dir):
        for candidate in (name, f"{name}.gz"):
            path = folder / data.folder / candidate
            if path.is_file():
                return path
    return None


def is_present(data: Entry, data_dir: str | Path | None = None) -> bool:
    """Whether every file the data set needs can be found (hashes are compared when it is loaded)."""
    return all(find(data, name, data_dir) is not None for name in data.files)


def read_table(data: Entry, name: str, data_dir: str | Path | None = None) -> pa.Table:
    """The file's rows with named columns, after its hash was compared."""
    from pyarrow import csv

    return csv.read_csv(BytesIO(_contents(data, name, data_dir)))


def numbers(table: pa.Table, columns: list[str]) -> FloatArray:
    """The named columns as one float64 array."""
    return np.column_stack([table.column(name).to_numpy().astype(np.float64) for name in columns])


def strings(table: pa.Table, column: str) -> list[str]:
    """One column as text, trimmed."""
    return [str(value).strip() for value in table.column(column).to_pylist()]


def folders(data_dir: str | Path | None) -> list[Path]:
    """Where files are looked for, in this order."""
    if data_dir is not None:
        return [Path(data_dir)]
    named = os.environ.get(VARIABLE)
    return [*([Path(named)] if named else []), cache_folder()]


def _contents(data: Entry, name: str, data_dir: str | Path | None) -> bytes:
    path = find(data, name, data_dir)
    if path is None:
        raise DataError(_missing(data, name, data_dir))
    contents = _decompressed(path)
    found = hashlib.sha256(contents).hexdigest()
    if not data.knows(name, found):
        raise DataError(
            f"{path} is not the {data.name} data that results refer to: its contents have SHA-256 {found[:16]}..., "
            f"expected {data.expected(name)[:16]}.... Take a fresh copy."
        )
    return contents


def _decompressed(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as source:
            contents = source.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__}). Take a fresh copy.") from None
    if len(contents) > LARGEST:
        raise DataError(f"{path} holds more than {LARGEST:,} bytes and is none of our data sets. Take a fresh copy.")
    return contents


def _missing(data: Entry, name: str, data_dir: str | Path | None) -> str:
    looked = " or ".join(str(folder) for folder in folders(data_dir))
    return (
        f"the {data.name} data ({data.folder}/{name}) is not in {looked}. Name the folder that holds {data.folder}/ "
        f"with data_dir (on the command line --data-dir) or {VARIABLE}. {_other_way(data)}"
    )


def _other_way(data: Entry) -> str:
    if data.addresses:
        host = urlsplit(data.addresses[0]).hostname
        return f"Or fetch it from {host} with `hazeglass datasets --fetch {data.name}`; its terms: {data.licence}."
    return data.obtain
