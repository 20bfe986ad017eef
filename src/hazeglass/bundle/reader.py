"""Open a release and believe nothing about it until it has been checked."""

from __future__ import annotations

import hashlib
import io
import math
import shutil
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.catalogue import Described
from hazeglass.bundle.columns import Column
from hazeglass.bundle.contents import check_cells, check_dictionaries, check_pages, check_spread, in_words
from hazeglass.bundle.followed import check_followed, known_columns
from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.moments import (
    ReleasedMoments,
    check_moments,
    marginals_from_arrow,
    moments_from_arrow,
    running_moments,
)
from hazeglass.bundle.promise import check_manifest
from hazeglass.bundle.sign import Signature, check_signature, read_public_key
from hazeglass.bundle.synthetic import SyntheticRows, check_synthetic, synthetic_rows, warn_of
from hazeglass.bundle.transport import (
    LARGEST_BUNDLE,
    check_files,
    check_hashes,
    local_folder,
    parse_checksums,
    read_checksums,
)
from hazeglass.bundle.verify import Expected, check_derived, check_parts, expected_parts, parts_below, read_manifest
from hazeglass.bundle.writer import part_rows
from hazeglass.errors import BundleError
from hazeglass.features.fitting import Counts
from hazeglass.features.marginal import Marginal
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.lattice import RoundedGaussian

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_CELLS = 1 << 19


@dataclass(frozen=True, repr=False)
class Release(Described):
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

    def table(self, *, words: bool = False) -> pa.Table:
        """The released rows; with `words` levels as words in place of their numbers, where they have no noise."""
        import pyarrow as pa

        if self.form == "moments":
            raise BundleError(
                "a moments release holds no rows. Use release.moments(), hg.synthesize(release, rows) or "
                "hg.recover(release)."
            )
        table = pa.concat_tables(group for name in self.parts for group in self._groups(name))
        self._check_blocks(self._checked(batch) for batch in table.to_batches(max_chunksize=self._block_rows))
        return in_words(table, self.columns) if words else table

    def moments(self) -> tuple[ReleasedMoments, ...]:
        """The released moments, one set per stage."""
        if self.form == "table":
            raise BundleError("a table release holds rows, not moments. Use release.table(), or hg.recover(release).")
        found, lifetime = self.draws(), self.manifest.lifetime
        if lifetime is not None:
            return (running_moments(found, self.manifest, lifetime),)
        return tuple(check_moments(one, self.manifest, k) for k, one in enumerate(found))

    def draws(self) -> tuple[ReleasedMoments, ...]:
        """What moments.parquet holds, set by set: moments of stages, or the noisy sums of a lifetime's draws."""
        import pyarrow as pa

        table = pa.concat_tables(self._groups("moments.parquet"))
        sets = enumerate(self.manifest.moment_sets, start=1)
        return tuple(moments_from_arrow(table, number, self.columns, stage) for number, stage in sets)

    def marginals(self) -> tuple[Marginal, ...]:
        """What the released counts say of each column's distribution; of none where a release has no counts."""
        return known_columns(self.manifest, self._counts())

    def _counts(self) -> list[list[Counts]]:
        """Of every round and column."""
        import pyarrow as pa

        rounds = self.manifest.rounds
        if not rounds:
            return []
        deviations = [math.sqrt(RoundedGaussian(one.noise_scale).variance) for one in rounds]
        return marginals_from_arrow(pa.concat_tables(self._groups("marginals.parquet")), self.manifest, deviations)

    @cached_property
    def _made_up(self) -> SyntheticRows:
        try:
            with np.errstate(all="ignore"):  # whatever a forger wrote
                return synthetic_rows(self.manifest, self.moments(), self.marginals())
        except np.linalg.LinAlgError:  # maps are compared beside their largest entry; this one has no inverse
            raise BundleError("moments.parquet holds numbers that no rows can be made of. Do not rely on it.") from None

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Names of the files that hold the rows, in order."""
        return tuple(parts_below(self.manifest, "data/"))

    def part_rows(self, name: str) -> int:
        """How many rows one of them holds."""
        size, last = part_rows(len(self.columns)), self.parts[-1]
        return self.n - size * (len(self.parts) - 1) if name == last else size

    def blocks(self, name: str) -> Iterator[npt.NDArray[np.float64]]:
        """The rows of one part as numbers, some at a time; every cell is checked as in :meth:`table`."""
        for group in self._groups(name):
            for batch in group.to_batches(max_chunksize=self._block_rows):
                yield self._checked(batch)

    def check_values(self) -> None:
        """Read every row, a few at a time, and refuse a cell that is no number or that no noise gives, a column that
        varies less than its noise, and synthetic rows that do not follow from the moments beside them. `load` has
        checked all else."""
        self._check_blocks(block for name in self.parts for block in self.blocks(name))
        if self.form == "synthetic":
            warn_of(self._made_up, self.manifest.names)

    def _check_blocks(self, blocks: Iterator[npt.NDArray[np.float64]]) -> None:
        if self.form == "synthetic":
            check_synthetic(self._made_up, blocks)
        if self.form == "table":
            check_spread(self.columns, blocks, self.manifest.clip_radius)

    def _checked(self, batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
        """Rows as numbers."""
        check_cells(batch, self.columns)
        return np.column_stack([column.to_numpy().astype(np.float64, copy=False) for column in batch.columns])

    @cached_property
    def _implied(self) -> dict[str, Expected]:
        return expected_parts(self.manifest)

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {part.path: part.sha256 for part in self.manifest.files}

    @property
    def _block_rows(self) -> int:
        """How many rows are turned into numbers at a time."""
        return max(256, _BLOCK_CELLS // len(self.columns))

    def _groups(self, name: str) -> Iterator[pa.Table]:
        """The row groups of one part, one at a time.

        Its hash is compared again, so that what is used is what was verified; its pages are checked before pyarrow sees
        them, and its dictionaries behind it.
        """
        import pyarrow.parquet as pq

        try:
            raw = (self.path / name).read_bytes()
        except OSError:
            raise BundleError(f"{name} is gone since the release was opened. Load it again.") from None
        if hashlib.sha256(raw).hexdigest() != self._hashes.get(name):
            raise BundleError(f"{name} changed after the release was opened. Load it again.")
        implied = next(one for prefix, one in self._implied.items() if name.startswith(prefix))
        groups = implied.footer(io.BytesIO(raw), name)
        check_pages(raw, name, implied.types.values(), groups)
        # Text comes as dictionaries, in which a long name stands once, whatever a forger made of it.
        text = [column for column, kind in implied.columns.items() if kind == "string"]
        limit = min(len(raw), 2**31 - 1)  # no text and no list of the footer takes more
        limits = {"thrift_string_size_limit": limit, "thrift_container_size_limit": limit}
        with _readable(name):
            opened = pq.ParquetFile(io.BytesIO(raw), read_dictionary=text, **limits)
        with opened as file:
            for number, group in enumerate(groups):
                with _readable(name):
                    table = file.read_row_group(number, use_threads=False)
                    table.validate(full=True)  # pyarrow does not check that names are in dictionaries
                check_dictionaries(table, raw, name, group.chunks)
                yield table


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
    with _reachable(), local_folder(path, largest) as (folder, temporary):
        listing = read_checksums(folder)
        sums = parse_checksums(listing)
        check_files(folder, sums)
        signature = check_signature(folder, listing, public)
        manifest = read_manifest(folder, sums)
        check_manifest(manifest, sums)
        check_parts(folder, manifest)
        check_hashes(folder, sums)  # last: a file of holes may be larger than every disk, and take hours to hash
        not_compared = check_derived(folder, manifest, signature)
        release = Release(folder, manifest, signature=signature, not_compared=not_compared)
        if release.form != "table":
            check_followed(manifest, release._counts(), release.moments())
    if temporary:
        weakref.finalize(release, shutil.rmtree, folder, ignore_errors=True)
    return release


@contextmanager
def _reachable() -> Iterator[None]:
    """One sentence for whatever the system says of a file or a folder."""
    try:
        yield
    except OSError as error:
        name = "a file" if error.filename is None else repr(Path(str(error.filename)).name[:100])
        raise BundleError(
            f"the release cannot be read, because of {name}: {error.strerror or type(error).__name__}. Look whether "
            "you may read all of its files, or ask for a new copy."
        ) from None


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """One sentence for whatever Arrow says of a part."""
    import pyarrow as pa

    try:
        yield
    except BundleError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError):
        raise BundleError(f"{name} is not a readable Parquet file. Ask the publisher for a new copy.") from None
