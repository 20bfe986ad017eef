"""Open a release and believe nothing about it until it has been checked."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.catalogue import check_derived
from hazeglass.bundle.document import check_size, parse_manifest
from hazeglass.bundle.integrity import check_files, parse_checksums, read_checksums
from hazeglass.bundle.manifest import Column, Manifest
from hazeglass.bundle.moments import ReleasedMoments, moments_from_arrow
from hazeglass.bundle.parts import check_moments, check_parts, check_rows, parts_below
from hazeglass.bundle.places import LARGEST_BUNDLE, local_folder
from hazeglass.bundle.promise import check_manifest
from hazeglass.bundle.sign import Signature, check_signature, read_public_key
from hazeglass.errors import BundleError
from hazeglass.guarantee.gdp import GaussianDP

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_BLOCK_CELLS = 1 << 19


@dataclass(frozen=True)
class Release:
    """A verified release. Made by :func:`load`."""

    path: Path
    manifest: Manifest
    signature: Signature = field(default="none", kw_only=True)
    """Whether somebody signed the release: 'none', 'not checked' (no key was given) or 'valid'."""
    not_compared: tuple[str, ...] = field(default=(), kw_only=True)
    """Files that another version of hazeglass derived from release.json, so that this one cannot judge them."""

    @property
    def form(self) -> str:
        """'table', 'moments' or 'synthetic'."""
        return self.manifest.form

    @property
    def n(self) -> int:
        """Number of rows behind the release."""
        return self.manifest.n

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns with their public bounds, transforms and noise."""
        return self.manifest.columns

    @property
    def guarantee(self) -> GaussianDP:
        """The promise."""
        return self.manifest.guarantee

    def table(self) -> pa.Table:
        """The released rows."""
        import pyarrow as pa

        if self.form == "moments":
            raise BundleError("a moments release holds no rows. Use release.moments(), or hg.recover(release).")
        try:
            return check_rows(pa.concat_tables(self._part(name) for name in parts_below(self.manifest, "data/")))
        except pa.ArrowInvalid:
            raise BundleError("the parts of the table do not have the same columns. Ask for a new copy.") from None

    def moments(self) -> tuple[ReleasedMoments, ...]:
        """The released moments, one set per stage."""
        if self.form == "table":
            raise BundleError("a table release holds rows, not moments. Use release.table(), or hg.recover(release).")
        table = self._part("moments.parquet")
        names = self.manifest.names
        return tuple(
            check_moments(moments_from_arrow(table, k + 1, names, stage.features), self.manifest, k)
            for k, stage in enumerate(self.manifest.stages)
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the files that hold the rows, in order."""
        return tuple(parts_below(self.manifest, "data/"))

    def part_rows(self, name: str) -> int:
        """How many rows one of them holds, from its footer."""
        import pyarrow.parquet as pq

        return int(pq.read_metadata(self.path / name).num_rows)

    def blocks(self, name: str) -> Iterator[npt.NDArray[np.float64]]:
        """The rows of one part as numbers, some at a time; they are checked like those of :meth:`table`."""
        import pyarrow as pa

        with self._opened(name) as file:
            try:
                rows = max(256, _BLOCK_CELLS // len(self.columns))
                for group in range(file.num_row_groups):  # one at a time, as in _part
                    for batch in file.iter_batches(rows, row_groups=[group], use_threads=False):
                        columns = check_rows(pa.Table.from_batches([batch])).columns
                        yield np.column_stack([column.to_numpy().astype(np.float64, copy=False) for column in columns])
            except (pa.ArrowException, OSError):
                raise BundleError(f"{name} is not a readable Parquet file. Ask the publisher for a new copy.") from None

    def check_values(self) -> None:
        """Read every row, a few at a time, and refuse a cell that is no number. `load` has checked all else."""
        for name in self.parts:
            for _ in self.blocks(name):
                pass

    def _part(self, name: str) -> pa.Table:
        import pyarrow as pa

        file = self._opened(name)
        try:
            # One row group at a time: before 17, pyarrow crashes where a damaged page ends early and another group
            # follows (https://github.com/apache/arrow/issues/41321). It does not check that names are in dictionaries.
            table = pa.concat_tables(file.read_row_group(group) for group in range(file.num_row_groups))
            table.validate(full=True)
            return table
        except (pa.ArrowException, OSError, ValueError):
            raise BundleError(f"{name} is not a readable Parquet file. Ask the publisher for a new copy.") from None

    def _opened(self, name: str) -> pq.ParquetFile:
        """Open one part; its hash is compared again, so that what is used is what was verified."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        expected = {part.path: part.sha256 for part in self.manifest.files}.get(name)
        try:
            raw = (self.path / name).read_bytes()
        except OSError:
            raise BundleError(f"{name} is gone since the release was opened. Load it again.") from None
        if hashlib.sha256(raw).hexdigest() != expected:
            raise BundleError(f"{name} changed after the release was opened. Load it again.")
        try:
            # Text comes as dictionaries, in which a long name stands once, whatever a forger made of it.
            text = ["left", "right"] if name == "moments.parquet" else None
            limit = min(len(raw), 2**31 - 1)
            return pq.ParquetFile(
                pa.BufferReader(raw),
                read_dictionary=text,
                thrift_string_size_limit=limit,
                thrift_container_size_limit=limit,
            )
        except (pa.ArrowException, OSError, ValueError):
            raise BundleError(f"{name} is not a readable Parquet file. Ask the publisher for a new copy.") from None


def load(path: str | Path, *, key: str | Path | None = None, largest: int = LARGEST_BUNDLE) -> Release:
    """Open a release and verify every byte and every claim of it before anything is returned.

    The cells of rows are looked at when they are read (or by :meth:`Release.check_values`), moments at once.
    Hashes show damage and incomplete copies. Who made a release, only a signature shows: pass `key` to have it checked.

    Parameters
    ----------
    path : a folder, a .zip, or the http(s) address of a folder (or of a .zip) with release.json in it
    key : the publisher's public key (FILE.pub); a release that it did not sign is refused
    largest : bytes a download or an unpacked archive may take; archives and downloads live in a temporary folder that
        is removed with the Release
    """
    public = None if key is None else read_public_key(key)
    with local_folder(path, largest) as place:
        listing = read_checksums(place.folder)
        sums = parse_checksums(listing)
        check_files(place.folder, sums)
        signature = check_signature(place.folder, listing, public)
        manifest = _read_manifest(place.folder, sums)
        check_manifest(manifest, sums)
        check_parts(place.folder, manifest)
        not_compared = check_derived(place.folder, manifest)
        release = Release(place.folder, manifest, signature=signature, not_compared=not_compared)
        if release.form != "table":
            release.moments()
    if place.temporary:
        weakref.finalize(release, place.remove)
    return release


def _read_manifest(folder: Path, sums: dict[str, str]) -> Manifest:
    path = folder / "release.json"
    part_bytes = sum((folder / name).stat().st_size for name in sums if name.endswith(".parquet"))
    check_size(path.stat().st_size, part_bytes)
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != sums.get("release.json"):
        raise BundleError("release.json is not listed in SHA256SUMS, or changed while it was read. Ask for a new copy.")
    return Manifest.from_json(parse_manifest(raw, part_bytes))
