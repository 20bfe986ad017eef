"""Write a bundle so that it appears complete or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hazeglass._files import check_name, flush
from hazeglass.bundle.catalogue import derived, json_pieces
from hazeglass.bundle.manifest import CellNoise, Manifest, Part
from hazeglass.bundle.sign import SIGNATURE
from hazeglass.errors import InputError, OutputError

if TYPE_CHECKING:
    import pyarrow as pa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CHECKSUMS = "SHA256SUMS"
_PART_CELLS, _MOST_PART_ROWS, _ROW_GROUP = 1 << 22, 1 << 20, 1 << 16
_LARGEST_DICTIONARY = 1 << 30
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC))  # writing alone ends so
_NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EIO)  # reading does as well
# Nothing but columns: not compressed, so that a file's size tells a reader how much can come out of it, no statistics
# that could contradict the values, and no schema in words of Arrow's own beside the one of Parquet.
PLAIN_PARQUET = {"compression": "none", "write_statistics": False, "store_schema": False}


def part_rows(columns: int) -> int:
    """How many rows a part of rows holds: the largest power of two that keeps it within 32 MiB."""
    return min(_MOST_PART_ROWS, 1 << max(6, (_PART_CELLS // columns).bit_length() - 1))


def row_groups(rows: int, columns: int) -> list[list[int]]:
    """How many rows each row group of each part has, and so how many parts there are."""
    size = part_rows(columns)
    parts = [min(size, rows - start) for start in range(0, rows, size)]
    return [[min(_ROW_GROUP, part - start) for start in range(0, part, _ROW_GROUP)] for part in parts]


def repeats(noise: CellNoise) -> bool:
    """Whether cells with this noise are written as places in a dictionary.

    They lie on a lattice and take fewer bytes so, but not fewer than their noise has bits. Noise narrower than a step
    may leave all cells alike: such cells are written as they are, so that a small file does not become a large table.
    """
    return noise.scale >= 1


@contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """A temporary folder beside `out` that takes its name when the block ends well, and vanishes when it does not.

    Everything is on disk before the name is given, so that a power cut leaves no half bundle under it.
    """
    target = check_new(out).resolve()
    parent = target.parent
    temporary = parent / f".{target.name}.partial-{secrets.token_hex(8)}"
    try:  # from before the folder exists: an interrupt may come between any two lines
        _make(temporary, out)
        yield temporary
        temporary.chmod(0o755)
        for path in (*sorted(temporary.rglob("*")), temporary):
            flush(path)
        if target.exists() or target.is_symlink():  # rename would replace an empty folder
            raise OutputError(
                f"the output folder {str(out)!r} appeared while the results were made; it was not touched."
            )
        temporary.rename(target)
        flush(parent)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in (*_NO_ROOM, *_NO_ACCESS):
            raise _refusal(error, temporary, out) from None
        raise


def _refusal(error: OSError, folder: Path, out: str | Path) -> InputError:
    """What the system refused, in one sentence: to write the results, or to read what they are made from.

    It names the file it would not open; of one that is open already it does not say which it was.
    """
    why = os.strerror(error.errno or 0)
    charge = "where a ledger was charged, noise may have been drawn and the charge stays."
    named = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else None
    place = folder if named is None else Path(named).absolute()
    if error.errno in _NO_ROOM or (named is not None and (place == folder.parent or place.is_relative_to(folder))):
        return OutputError(f"cannot write {str(out)!r}: {why}. Make room, or name a place with more; {charge}")
    if named is not None:
        return InputError(f"{named!r} cannot be opened: {why}. See that it may be read, and run this again; {charge}")
    return InputError(f"cannot write {str(out)!r}, or cannot read what it is made from: {why}. Look at both; {charge}")


def _make(folder: Path, out: str | Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise OutputError(f"cannot write beside {str(out)!r}: {error.strerror}.") from None


def check_new(out: str | Path) -> Path:
    """Refuse a place for results that is taken or cannot be."""
    target = Path(out)
    check_name(out)
    if str(out) == "-":
        raise OutputError("results are a folder, so they cannot go to standard output (-). Name a new folder.")
    if target.exists() or target.is_symlink():
        raise OutputError(f"the output folder {str(out)!r} already exists. Name a new one, or remove it first.")
    parent = target.resolve().parent
    if not parent.is_dir():
        raise OutputError(f"the output folder's parent {str(parent)!r} does not exist. Make it first.")
    return target


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass
class BundleWriter:
    """Collects the files of a release inside a folder that :func:`new_folder` made."""

    folder: Path
    hashes: dict[str, str] = field(default_factory=dict)

    def parquet(self, name: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        """A Parquet part from a stream of batches.

        Whatever repeats stands in a dictionary, names of columns too, however long they are; noisy values are all
        different.
        """
        import pyarrow.parquet as pq

        repeating = [field.name for field in schema if field.name not in ("value", "map", "lower", "upper", "count")]
        dictionaries = {"use_dictionary": repeating, "dictionary_pagesize_limit": _LARGEST_DICTIONARY}
        with pq.ParquetWriter(self._place(name), schema, **PLAIN_PARQUET, **dictionaries) as writer:
            for batch in batches:
                writer.write_batch(batch)

    def table(self, name: str, table: pa.Table, repeating: Sequence[str]) -> None:
        """A Parquet part from rows in hand; the columns that `repeating` names are written as dictionaries."""
        import pyarrow.parquet as pq

        options = {"use_dictionary": list(repeating), **PLAIN_PARQUET}
        pq.write_table(table, self._place(name), row_group_size=_ROW_GROUP, **options)

    def text(self, name: str, pieces: Iterable[str]) -> None:
        """A text file."""
        with (self.folder / name).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)

    def json(self, name: str, document: Mapping[str, Any]) -> None:
        """A JSON file."""
        self.text(name, json_pieces(document))

    def seal(self, manifest: Manifest, key: Ed25519PrivateKey | None = None) -> None:
        """Write release.json with the hashes of the data parts, what follows from it, SHA256SUMS, and its signature."""
        paths = sorted(path for path in self.folder.rglob("*.parquet"))
        parts = tuple(Part(self._name(path), self._hash(path), path.stat().st_size) for path in paths)
        self.json("release.json", replace(manifest, files=parts).to_json())
        raw = (self.folder / "release.json").read_bytes()
        # From what a reader reads, not from what was written: these files are derived and compared there.
        for name, pieces in derived(Manifest.from_json(json.loads(raw))):
            self.text(name, pieces)
        self.checksums()
        if key is not None:
            (self.folder / SIGNATURE).write_bytes(key.sign((self.folder / CHECKSUMS).read_bytes()))

    def checksums(self) -> None:
        """SHA256SUMS over everything, in the format of `sha256sum`; only the signature over it is not listed."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name != SIGNATURE)
        lines = [f"{self._hash(path)}  {self._name(path)}\n" for path in paths]
        self.text(CHECKSUMS, "".join(lines))

    def _place(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _hash(self, path: Path) -> str:
        """Computed once for each part, which does not change any more; the reader computes it again."""
        name = self._name(path)
        if name not in self.hashes or path.suffix != ".parquet":
            self.hashes[name] = sha256_of(path)
        return self.hashes[name]
