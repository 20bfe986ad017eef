"""Where the files of a table lie: local paths, folders and globs, or addresses such as s3://bucket/folder/*.parquet."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Any

from hazeglass.errors import DataError

SUFFIXES = {".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WILD = re.compile(r"[*\[]")  # not "?", which starts the options of an address


@dataclass(frozen=True)
class Place:
    """One file: a path, and the address its file system is opened from ("" for local files).

    Plain text, so that another process can open it; credentials are looked up where it is opened and never travel.
    """

    path: str
    address: str = ""

    @property
    def name(self) -> str:
        """The file's own name, for messages."""
        return posixpath.basename(self.path.replace("\\", "/"))

    @property
    def suffix(self) -> str:
        """How the name ends, in lower case, with .csv.gz as one."""
        name = self.name.lower()
        return ".csv.gz" if name.endswith(".csv.gz") else posixpath.splitext(name)[1]

    @property
    def kind(self) -> str:
        """'csv' or 'parquet'; refused when the name says neither."""
        kind = SUFFIXES.get(self.suffix)
        if kind is None:
            raise DataError(f"the data file must end in .csv, .csv.gz, .tsv or .parquet, got {self.name!r}.")
        return kind

    @property
    def size(self) -> int:
        """Its number of bytes."""
        return int(_file_system(self.address).get_file_info(self.path).size)

    def open_file(self) -> Any:
        """For reading anywhere in it."""
        return _file_system(self.address).open_input_file(self.path)

    def open_stream(self) -> Any:
        """For reading from the start, unpacked where the name says it is packed."""
        packed = "gzip" if self.suffix.endswith(".gz") else None
        return _file_system(self.address).open_input_stream(self.path, compression=packed)


def expand(text: str) -> tuple[Place, ...]:
    """The files a path, a folder, a glob or an address stands for, in order of their names."""
    if _ADDRESS.match(text):
        return _expand_address(text)
    path = Path(text)
    if path.is_dir():
        return _tables([Place(str(p)) for p in sorted(path.rglob("*")) if p.is_file()], text)
    if path.exists():
        return (Place(text),)
    found = sorted(glob(text, recursive=True))
    if not found:
        raise DataError(f"there is no file {text!r}. Give the path of a CSV or Parquet file, a folder, or a glob.")
    return tuple(Place(match) for match in found)


def _expand_address(text: str) -> tuple[Place, ...]:
    from pyarrow.fs import FileSelector, FileType

    scheme, rest = text.split("://", 1)
    if "@" in rest.split("/", 1)[0]:
        raise DataError(
            "an address must not carry credentials: they would travel with it. Leave them to the environment or the "
            f"provider's configuration file, and write {scheme}://{rest.split('@', 1)[1]}"
        )
    path, question, options = rest.partition("?")
    wild = _WILD.search(path)
    base = path[: wild.start()].rpartition("/")[0] if wild else path
    address = f"{scheme}://{base}{question}{options}"
    try:
        system, root = _opened(address)
        info = system.get_file_info(root)
        if info.type == FileType.File:
            return (Place(root, address),)
        listed = system.get_file_info(FileSelector(root, recursive=True)) if info.type == FileType.Directory else []
    except (OSError, ValueError, ImportError) as error:
        raise DataError(
            f"{address!r} cannot be opened: {type(error).__name__}. Check the address and access."
        ) from None
    files = [Place(entry.path, address) for entry in listed if entry.type == FileType.File]
    files.sort(key=lambda place: place.path)
    if wild is None:
        return _tables(files, text)
    matching = tuple(place for place in files if fnmatchcase(place.path, root + path[len(base) :]))
    if not matching:
        raise DataError(f"there is no file {text!r}. Give the address of a CSV or Parquet file, a folder, or a glob.")
    return matching


def _tables(files: Sequence[Place], text: str) -> tuple[Place, ...]:
    """Those files of a folder that are tables."""
    found = tuple(place for place in files if place.suffix in SUFFIXES)
    if not found:
        raise DataError(f"the folder {text!r} holds no .csv or .parquet file.")
    return found


@lru_cache(maxsize=16)
def _opened(address: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    system, path = FileSystem.from_uri(address)
    return system, str(path)


def _file_system(address: str) -> Any:
    from pyarrow.fs import LocalFileSystem

    return _opened(address)[0] if address else LocalFileSystem()
