"""Where the files of a table lie: local paths, folders and globs, addresses such as s3://bucket/folder/*.parquet, or
standard input, which is written `-`."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from hazeglass.errors import DataError, OutputError

SUFFIXES = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".data", ".data.gz"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".xlsx": "excel",
}
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# What an address may say of its file system (Arrow's names): where it is, never who asks.
_OPTIONS = (
    *("region", "scheme", "endpoint_override", "force_virtual_addressing", "replication", "buffer_size"),
    *("blob_storage_authority", "dfs_storage_authority", "blob_storage_scheme", "dfs_storage_scheme", "enable_tls"),
)
_WILD = re.compile(r"[*\[]")  # not "?", which starts the options of an address


@dataclass(frozen=True)
class Place:
    """One file: a path, and the address its file system is opened from ("" for local files).

    Plain text, so that another process can open it; credentials are looked up where it is opened and never travel.
    """

    path: str
    address: str = ""
    public = True  # whether it holds nothing but names

    @property
    def name(self) -> str:
        """The file's own name, for messages."""
        return posixpath.basename(self.path.replace("\\", "/"))

    @property
    def suffix(self) -> str:
        """How the name ends, in lower case, with .csv.gz as one."""
        name = self.name.lower()
        packed = name.endswith((".csv.gz", ".data.gz"))
        return posixpath.splitext(name.removesuffix(".gz"))[1] + ".gz" if packed else posixpath.splitext(name)[1]

    @property
    def kind(self) -> str:
        """'csv', 'parquet' or 'excel'; refused when the name says none of them."""
        kind = SUFFIXES.get(self.suffix)
        if kind is None:
            raise DataError(f"the data file must end in {', '.join(SUFFIXES)}, got {self.name!r}.")
        return kind

    @property
    def size(self) -> int:
        """Its number of bytes."""
        return int(_file_system(self.address).get_file_info(self.path).size)

    def open_file(self) -> Any:
        """For reading anywhere in it."""
        return self._opened("open_input_file")

    def open_stream(self) -> Any:
        """For reading from the start, unpacked where the name says it is packed."""
        return self._opened("open_input_stream", compression="gzip" if self.suffix.endswith(".gz") else None)

    def _opened(self, how: str, **options: Any) -> Any:
        try:
            return getattr(_file_system(self.address), how)(self.path, **options)
        except OSError:
            raise DataError(f"{self.name} cannot be opened: it must be a file that is there and may be read.") from None


@dataclass(frozen=True, repr=False)
class StandardInput(Place):
    """What came in through a pipe, held in memory because rows are read more than once; it names no file."""

    content: bytes = b""
    public = False

    @property
    def name(self) -> str:
        """For messages."""
        return "standard input"

    @property
    def suffix(self) -> str:
        """By the mark that every Parquet file begins with; anything else is text."""
        return ".parquet" if self.content.startswith(b"PAR1") else ".csv"

    @property
    def size(self) -> int:
        """Its number of bytes."""
        return len(self.content)

    def _opened(self, how: str, **options: Any) -> Any:
        import pyarrow as pa

        return pa.BufferReader(self.content)


@lru_cache(maxsize=1)
def _piped(stream: Any) -> StandardInput:
    return StandardInput("-", content=stream.buffer.read())


def expand(text: str) -> tuple[Place, ...]:
    """The files a path, a folder, a glob or an address stands for, in order of their names."""
    if text == "-":
        return (_piped(sys.stdin),)
    if _ADDRESS.match(text):
        return _once(_expand_address(text)) if text.startswith("file:") else _expand_address(text)
    path = Path(text)
    if path.is_dir():
        return _once(_tables([Place(str(p)) for p in sorted(path.rglob("*")) if p.is_file()], text))
    if path.exists():
        return (Place(text),)
    found = sorted(glob(text, recursive=True))
    if not found:
        raise DataError(
            f"there is no file {text!r}. Give the path of a CSV, Parquet or .xlsx file, a folder, or a glob."
        )
    return _once([Place(match) for match in found])


def _once(places: Sequence[Place]) -> tuple[Place, ...]:
    """Every file by the first of its names: of one with two (a link to the latest) each row would count twice."""
    files: dict[object, Place] = {}
    for place in places:
        key: object = os.path.realpath(place.path)
        with suppress(OSError):  # what is not there is refused when it is opened
            info = os.stat(place.path)
            key = (info.st_dev, info.st_ino) if info.st_nlink > 1 else key
        files.setdefault(key, place)
    return tuple(files.values())


def check_apart(data: Any, out: Path) -> None:
    """Refuse results among the files they are made from: whoever reads those again would take results for rows."""
    if not isinstance(data, str | Path):
        return
    folder = Path(str(data).removeprefix("file://"))
    if not folder.is_dir():
        parts = (folder if "**" in folder.name else folder.parent).parts
        wild = next((k for k, part in enumerate(parts) if re.search(r"[*?\[]", part)), None)
        if wild is None:  # a file, or some of a folder but none of the folders in it
            return
        folder = Path(*parts[:wild])
    if out.resolve().is_relative_to(folder.resolve()):
        raise OutputError(
            f"the output folder {str(out)!r} must lie outside the input {str(data)!r}, which would hold the release as "
            "if it were data the next time. Name another place."
        )


def _expand_address(text: str) -> tuple[Place, ...]:
    import pyarrow as pa
    from pyarrow.fs import FileSelector, FileType

    scheme, rest = text.split("://", 1)
    if "@" in rest.split("/", 1)[0]:
        raise DataError(
            "an address must not carry credentials: they would travel with it. Leave them to the environment or the "
            f"provider's configuration file, and write {scheme}://{rest.split('@', 1)[1]}"
        )
    path, question, options = rest.partition("?")
    names = {name for name, _ in parse_qsl(options, keep_blank_values=True)}
    if strange := sorted(names - set(_OPTIONS)):
        raise DataError(
            f"an address may carry the options {', '.join(_OPTIONS)}, got {', '.join(map(repr, strange))}. Leave "
            "credentials to the environment or the provider's configuration file."
        )
    wild = _WILD.search(path)
    base = path[: wild.start()].rpartition("/")[0] if wild else path
    address = f"{scheme}://{base}{question}{options}"
    try:
        system, root = _opened(address)
        info = system.get_file_info(root)
        if info.type == FileType.File:
            return (Place(root, address),)
        listed = system.get_file_info(FileSelector(root, recursive=True)) if info.type == FileType.Directory else []
    except (OSError, ValueError, ImportError, pa.ArrowException) as error:
        shown = f"{scheme}://{base}"
        raise DataError(f"{shown!r} cannot be opened: {type(error).__name__}. Check the address and access.") from None
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
