"""What a data set is, what is known of each before a byte of it is read, and its files: found, compared with their
hashes, and only then read.

The folders that are looked in, in this order: the one handed over, the one named by HAZEGLASS_DATA, our own cache of
downloads. `x.csv` and `x.csv.gz` are the same file here: a hash is that of the contents after decompression.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from hazeglass.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Edges = frozenset[frozenset[str]]
FloatArray = npt.NDArray[np.float64]
Kind = Literal["continuous", "integer", "categorical", "mixed"]
VARIABLE = "HAZEGLASS_DATA"
LARGEST = 1 << 27


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows, names, and the true graph where there is one.

    data         array of shape (rows, columns), as measured; where a column has levels, their numbers, from 0, and NaN
                 where a cell is missing
    columns      their names
    truth        the true edges as unordered pairs of names, or None
    kind         'continuous', 'integer', 'categorical' or 'mixed'
    name         what `hazeglass datasets` calls it
    note         what a reader must know before trusting a result on it
    scaling      what the paper does to the rows first: 'none' or 'z-score'
    truths       every candidate for the truth, by name, where there are several or where each is a guess
    column_info  more about the columns (a region, a party, genres): one value per column
    row_info     more about the rows (a date, a pH): one value per row
    levels       the words that the numbers of a column stand for, where it is one of levels
    """

    data: FloatArray
    columns: tuple[str, ...]
    truth: Edges | None
    kind: Kind
    licence: str
    source: str
    name: str = field(default="", kw_only=True)
    note: str = field(default="", kw_only=True)
    scaling: Literal["none", "z-score"] = field(default="none", kw_only=True)
    truths: Mapping[str, Edges] = field(default_factory=dict, kw_only=True)
    column_info: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, kw_only=True)
    row_info: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, kw_only=True)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, kw_only=True)

    def __repr__(self) -> str:
        edges = "no known graph" if self.truth is None else f"{len(self.truth)} true edges"
        rows, columns = self.data.shape
        size = f"{rows:,} rows x {columns} {self.kind} columns"
        return f"{type(self).__name__}({self.name or 'made up'}: {size}, {edges})"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table with named columns; levels are words."""
        import pyarrow as pa

        def column(name: str, cells: FloatArray) -> pa.Array:
            if name not in self.levels:
                return pa.array(cells, from_pandas=True)
            codes = pa.array(cells, from_pandas=True).cast(pa.int32())
            return pa.DictionaryArray.from_arrays(codes, pa.array(self.levels[name]))

        return pa.table({name: column(name, self.data[:, k]) for k, name in enumerate(self.columns)})

    def scaled(self) -> FloatArray:
        """The rows as the paper uses them: z-scored by column (dividing by n), or as they are."""
        if self.scaling == "none":
            return self.data.copy()
        return np.asarray((self.data - self.data.mean(axis=0)) / self.data.std(axis=0))

    def truth_matrix(self, which: str | None = None) -> npt.NDArray[np.bool_]:
        """The true graph as a symmetric matrix in the order of the columns; `which` names one of `truths`."""
        edges = self.truth if which is None else self._named_truth(which)
        if edges is None:
            known = f" It has these guesses: {', '.join(self.truths)}." if self.truths else ""
            raise DataError(f"{self.name or 'this data set'} has no true graph.{known}")
        place = {name: k for k, name in enumerate(self.columns)}
        matrix = np.zeros((len(place), len(place)), dtype=np.bool_)
        for a, b in edges:
            matrix[place[a], place[b]] = matrix[place[b], place[a]] = True
        return matrix

    def _named_truth(self, which: str) -> Edges:
        if which not in self.truths:
            raise DataError(f"the truth must be one of {', '.join(self.truths) or '(none)'}, got {which!r}.")
        return self.truths[which]


@dataclass(frozen=True)
class Entry:
    """One data set.

    folder   where its files lie inside the data folder
    files    name of each file the loader needs, with the SHA-256 of its contents
    extra    further files it reads where they are there or where asked to
    rows, columns   shape of what the loader returns by default
    truth    the true graph, in words
    scaling  what the paper does to the rows first
    as_fetched  a second hash, where what the source serves has more digits than the files results refer to
    addresses  where `fetch` may get it for the user; none where the terms or the form of the source do not allow it
    obtain   how else to come by it
    """

    name: str
    folder: str
    files: Mapping[str, str]
    rows: int
    columns: int
    kind: Kind
    truth: str
    licence: str
    source: str
    extra: Mapping[str, str] = field(default_factory=dict)
    as_fetched: Mapping[str, str] = field(default_factory=dict)
    addresses: Sequence[str] = ()
    obtain: str = ""
    note: str = ""
    scaling: Literal["none", "z-score"] = "none"

    def expected(self, name: str) -> str:
        """SHA-256 of the contents of the file `name`."""
        return {**self.files, **self.extra}[name]

    def knows(self, name: str, digest: str) -> bool:
        """Whether contents with this SHA-256 are those of the file `name`."""
        return digest in (self.expected(name), self.as_fetched.get(name))

    def dataset(self, data: FloatArray, columns: Sequence[str], truth: Edges | None = None, **more: Any) -> Dataset:
        """The rows together with what this entry knows; `more` are the further fields of Dataset."""
        shared = ("kind", "licence", "source", "name", "note", "scaling")
        return Dataset(data, tuple(columns), truth, **{key: getattr(self, key) for key in shared}, **more)


def _entries() -> dict[str, Entry]:
    known = tomllib.loads(files("hazeglass.datasets").joinpath("entries.toml").read_text(encoding="utf-8"))
    return {name: Entry(name=name, **facts) for name, facts in known.items()}


CATALOGUE: Mapping[str, Entry] = _entries()


def entry(name: str) -> Entry:
    """The entry called `name`."""
    if name not in CATALOGUE:
        raise DataError(f"a data set must be one of {', '.join(CATALOGUE)}, got {name!r}.")
    return CATALOGUE[name]


# --------------------------------------------------------------------------------------------------------------- files


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

    return csv.read_csv(BytesIO(contents(data, name, data_dir)))


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


def contents(data: Entry, name: str, data_dir: str | Path | None = None) -> bytes:
    """The file's bytes, after its hash was compared."""
    path = find(data, name, data_dir)
    if path is None:
        raise DataError(_missing(data, name, data_dir))
    held = _decompressed(path)
    found = hashlib.sha256(held).hexdigest()
    if not data.knows(name, found):
        raise DataError(
            f"{path} is not the {data.name} data that results refer to: its contents have SHA-256 {found[:16]}..., "
            f"expected {data.expected(name)[:16]}.... Take a fresh copy."
        )
    return held


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
