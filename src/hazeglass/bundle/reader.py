"""Open a release and believe nothing about it until it has been checked.

Parquet parts have the columns, types and rows that release.json describes, and values that are numbers.
"""

from __future__ import annotations

import hashlib
import shutil
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.catalogue import check_derived
from hazeglass.bundle.footer import PHYSICAL_TYPES, footer_rows
from hazeglass.bundle.manifest import CellNoise, Column, Manifest
from hazeglass.bundle.moments import (
    MOMENT_COLUMNS,
    ReleasedMoments,
    moment_batches,
    moment_rows,
    moments_from_arrow,
    moments_schema,
)
from hazeglass.bundle.promise import check_manifest, check_standardised
from hazeglass.bundle.sign import Signature, check_signature, read_public_key
from hazeglass.bundle.synthetic import check_synthetic
from hazeglass.bundle.transport import LARGEST_BUNDLE, local_folder
from hazeglass.bundle.verify import check_files, parse_checksums, read_checksums, read_manifest
from hazeglass.errors import BundleError
from hazeglass.features.harmonics import DEGREES
from hazeglass.guarantee.gdp import GaussianDP

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_BLOCK_CELLS = 1 << 19
# Noise as wide as a lattice step has more than a bit per cell, so that many such cells in a byte hold no noise.
# Narrower noise may leave every cell as it was, and equal cells take hardly any bytes.
_CELLS_PER_BYTE = 200
_FREE_CELLS = 1 << 20
# A cell takes 8 bytes, and 8 more in a dictionary; the rest is for row groups, each of which names every column again.
_BYTES_PER_CELL = 32
_BYTES_PER_FILE, _BYTES_PER_COLUMN, _TIMES_A_NAME = 1 << 16, 1 << 10, 8
_LARGEST_VALUE, _LARGEST_WHOLE = 1e150, 2**53


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
            table = _check_rows(pa.concat_tables(self._part(name) for name in self.parts), self.columns)
        except pa.ArrowInvalid:
            raise BundleError("the parts of the table do not have the same columns. Ask for a new copy.") from None
        if self.form == "synthetic":
            batches = table.to_batches(max_chunksize=self._block_rows)
            check_synthetic(self.manifest, self.moments()[-1], (_numbers(batch) for batch in batches))
        return table

    def moments(self) -> tuple[ReleasedMoments, ...]:
        """The released moments, one set per stage."""
        if self.form == "table":
            raise BundleError("a table release holds rows, not moments. Use release.table(), or hg.recover(release).")
        table = self._part("moments.parquet")
        names = self.manifest.names
        return tuple(
            _check_moments(moments_from_arrow(table, k + 1, names, stage.features), self.manifest, k)
            for k, stage in enumerate(self.manifest.stages)
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the files that hold the rows, in order."""
        return tuple(_parts_below(self.manifest, "data/"))

    def part_rows(self, name: str) -> int:
        """How many rows one of them holds, from its footer."""
        import pyarrow.parquet as pq

        return int(pq.read_metadata(self.path / name).num_rows)

    def blocks(self, name: str) -> Iterator[npt.NDArray[np.float64]]:
        """The rows of one part as numbers, some at a time; every cell is checked as in :meth:`table`."""
        import pyarrow as pa

        rows = self._block_rows
        with self._opened(name) as file, _readable(name):
            for group in range(file.num_row_groups):  # one at a time, as in _part
                for batch in file.iter_batches(rows, row_groups=[group], use_threads=False):
                    _check_rows(pa.Table.from_batches([batch]), self.columns)
                    yield _numbers(batch)

    def check_values(self) -> None:
        """Read every row, a few at a time, and refuse a cell that is no number or lies off its column's lattice, and
        synthetic rows that do not follow from the moments beside them. `load` has checked all else."""
        blocks = (block for name in self.parts for block in self.blocks(name))
        if self.form == "synthetic":
            check_synthetic(self.manifest, self.moments()[-1], blocks)
        for _ in blocks:
            pass

    @property
    def _block_rows(self) -> int:
        """How many rows are turned into numbers at a time."""
        return max(256, _BLOCK_CELLS // len(self.columns))

    def _part(self, name: str) -> pa.Table:
        import pyarrow as pa

        file = self._opened(name)
        with _readable(name):
            # One row group at a time: before 17, pyarrow crashes where a damaged page ends early and another group
            # follows (https://github.com/apache/arrow/issues/41321). It does not check that names are in dictionaries.
            table = pa.concat_tables(file.read_row_group(group) for group in range(file.num_row_groups))
            table.validate(full=True)
            return table

    def _opened(self, name: str) -> pq.ParquetFile:
        """Open one part; its hash is compared again, so that what is used is what was verified."""
        import pyarrow as pa

        expected = {part.path: part.sha256 for part in self.manifest.files}.get(name)
        try:
            raw = (self.path / name).read_bytes()
        except OSError:
            raise BundleError(f"{name} is gone since the release was opened. Load it again.") from None
        if hashlib.sha256(raw).hexdigest() != expected:
            raise BundleError(f"{name} changed after the release was opened. Load it again.")
        # Text comes as dictionaries, in which a long name stands once, whatever a forger made of it.
        text = ["left", "right"] if name == "moments.parquet" else None
        return _parquet(pa.BufferReader(raw), name, len(raw), read_dictionary=text)


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
    with local_folder(path, largest) as (folder, temporary):
        listing = read_checksums(folder)
        sums = parse_checksums(listing)
        check_files(folder, sums)
        signature = check_signature(folder, listing, public)
        manifest = read_manifest(folder, sums)
        check_manifest(manifest, sums)
        check_parts(folder, manifest)
        not_compared = check_derived(folder, manifest, signature)
        release = Release(folder, manifest, signature=signature, not_compared=not_compared)
        if release.form != "table":
            check_standardised(manifest.stages, release.moments())
    if temporary:
        weakref.finalize(release, shutil.rmtree, folder, ignore_errors=True)
    return release


# ---------------------------------------------------------------------------------------------------------------- parts


def _parts_below(manifest: Manifest, prefix: str) -> list[str]:
    """Names of the data parts that start with a prefix, in order."""
    return sorted(part.path for part in manifest.files if part.path.startswith(prefix))


@dataclass(frozen=True)
class _Expected:
    """What the manifest implies about the parts of one kind: their columns and types, rows and bytes in all, and the
    row groups and the footer's bytes of each."""

    columns: Mapping[str, str]
    rows: int
    fewest_bytes: int
    most_bytes: int
    row_groups: int
    footer_bytes: int


def check_parts(folder: Path, manifest: Manifest) -> None:
    """Sizes, columns, types and rows of every part, from the footers; nothing is unpacked yet.

    Parts are not compressed, so that no more can come out of one than its size, which is bounded first, and the rows
    and columns of the manifest allow.
    """
    expected = _expected(manifest)
    rows = [f"data/part-{k:05d}.parquet" for k in range(len(manifest.files))]
    known = {"moments.parquet": ["moments.parquet"], "data/": rows}
    allowed = {name for prefix in expected for name in known[prefix]}
    if not {part.path for part in manifest.files} <= allowed:
        raise BundleError(
            f"a {manifest.form} release holds no other parts than {', '.join(expected)}. Ask for a new copy."
        )
    for part in manifest.files:
        if (folder / part.path).stat().st_size != part.bytes:
            raise BundleError(f"{part.path[:200]} has another size than release.json says. Ask for a new copy.")
    for prefix, implied in expected.items():
        names = _parts_below(manifest, prefix)
        if not names:
            raise BundleError(
                f"a {manifest.form} release must hold {prefix}, and this one does not. Ask for a new copy."
            )
        size = sum(part.bytes for part in manifest.files if part.path.startswith(prefix))
        if size < implied.fewest_bytes:
            raise BundleError(f"{prefix} has {implied.rows:,} rows in {size:,} bytes: no noisy data fits that.")
        if size > implied.most_bytes:
            raise BundleError(f"{prefix} has {size:,} bytes, more than {implied.rows:,} rows take. Do not rely on it.")
        found = sum(_part_rows(folder / name, name, implied) for name in names)
        if found != implied.rows:
            raise BundleError(
                f"{prefix} holds {found} rows where release.json describes {implied.rows}. Ask for a new copy."
            )


def _expected(manifest: Manifest) -> dict[str, _Expected]:
    """By the beginning of their names."""
    expected = {}
    if manifest.form != "moments":
        cells = manifest.n * len(manifest.columns)
        noisy = sum(one.cell_noise is None or one.cell_noise.scale >= 1 for one in manifest.columns)
        # A part is written with at most 2^20 rows and 2^22 cells, in groups of 2^16 rows.
        groups = min(16, max(1, 64 // len(manifest.columns)))
        kinds = ["int64" if whole else "double" for whole in manifest.whole_columns]
        expected["data/"] = _Expected(
            columns=dict(zip(manifest.names, kinds, strict=True)),
            rows=manifest.n,
            fewest_bytes=(manifest.n * noisy - _FREE_CELLS) // _CELLS_PER_BYTE,
            most_bytes=_BYTES_PER_CELL * cells + len(_parts_below(manifest, "data/")) * _frame(manifest.names),
            row_groups=groups,
            footer_bytes=_frame(manifest.names, 1 + groups),
        )
    if manifest.form != "table":
        features = [len(manifest.names) * DEGREES[stage.features] for stage in manifest.stages]
        rows, groups = sum(map(moment_rows, features)), sum(map(moment_batches, features))
        # A row group states the first and the last name that occurs in it, besides those of its own columns.
        longest = max(MOMENT_COLUMNS + list(manifest.names), key=len)
        names = len(manifest.stages) * _frame(manifest.names)
        expected["moments.parquet"] = _Expected(
            columns={field.name: str(field.type) for field in moments_schema()},
            rows=rows,
            fewest_bytes=8 * rows,  # the numbers themselves
            most_bytes=_BYTES_PER_CELL * rows * len(MOMENT_COLUMNS) + names + _frame(MOMENT_COLUMNS),
            row_groups=groups,
            footer_bytes=_frame([longest] * len(MOMENT_COLUMNS), 1 + groups),
        )
    return expected


def _frame(names: Iterable[str], times: int = 1) -> int:
    """Bytes that a file may need besides its cells: its schema, and what is said of its columns, so many times."""
    return _BYTES_PER_FILE + times * sum(_BYTES_PER_COLUMN + _TIMES_A_NAME * len(name.encode()) for name in names)


def _part_rows(path: Path, name: str, implied: _Expected) -> int:
    """From the footer, which is walked through before pyarrow opens the file to see Arrow's types behind it."""
    types = {column: PHYSICAL_TYPES[kind] for column, kind in implied.columns.items()}
    rows = footer_rows(path, name, types, implied.row_groups, implied.footer_bytes)
    with _parquet(path, name, implied.footer_bytes) as file, _readable(name):
        schema = file.schema_arrow
    if schema.names != list(implied.columns):
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    for column in schema:
        if str(column.type) != implied.columns[column.name]:
            raise BundleError(f"{name}: column {column.name[:100]!r} does not hold numbers of the right kind.")
    return rows


def _parquet(source: Any, name: str, limit: int, **options: Any) -> pq.ParquetFile:
    """Open a part; no text and no list of its footer takes more than `limit`."""
    import pyarrow.parquet as pq

    limit = min(limit, 2**31 - 1)
    with _readable(name):
        return pq.ParquetFile(source, thrift_string_size_limit=limit, thrift_container_size_limit=limit, **options)


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


def _numbers(batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
    return np.column_stack([column.to_numpy().astype(np.float64, copy=False) for column in batch.columns])


def _check_rows(table: pa.Table, described: tuple[Column, ...]) -> pa.Table:
    """Released rows have no gaps, no value that is not a number and, in a table, none off its column's lattice."""
    import pyarrow.compute as pc

    for name, column, one in zip(table.column_names, table.columns, described, strict=True):
        finite = not column.null_count and bool(pc.all(pc.is_finite(column)).as_py())
        largest = max(abs(end) for end in pc.min_max(column).as_py().values()) if finite and len(column) else 0
        if not finite or largest > _LARGEST_VALUE:
            raise BundleError(f"column {name[:100]!r} holds a cell that is not a number. Ask for a new copy.")
        if str(column.type) == "int64" and largest > _LARGEST_WHOLE:
            raise BundleError(
                f"column {name[:100]!r} holds a whole number beyond 2^53, where floats do not tell one from the next; "
                "no release does. Ask for a new copy."
            )
        if one.cell_noise is not None and not _on_lattice(column.to_numpy(), one.cell_noise):
            raise BundleError(f"column {name[:100]!r} holds a cell off its lattice, without noise. Do not rely on it.")
    return table


def _on_lattice(values: npt.NDArray[Any], noise: CellNoise) -> bool:
    """Whether each is the offset plus a whole number of steps, as far as 64-bit numbers tell."""
    if values.dtype == np.int64:
        return not ((values - int(noise.offset)) % int(noise.step)).any()
    nearest = noise.offset + noise.step * np.rint((values - noise.offset) / noise.step)
    rounding = 8 * np.spacing(np.maximum(np.abs(values), abs(noise.offset)))
    return bool(np.all(np.abs(values - nearest) <= rounding))


def _check_moments(released: ReleasedMoments, manifest: Manifest, number: int) -> ReleasedMoments:
    """The noise stated beside each moment is that of the stage."""
    stage = manifest.stages[number]
    off_diagonal = released.second_noise_sd[~np.eye(len(released.mean), dtype=bool)]
    claims = (
        (released.mean_noise_sd, stage.tau / stage.mean_weight),
        (np.diag(released.second_noise_sd), np.sqrt(2) * stage.tau),
        (off_diagonal, stage.tau),
    )
    for stated, expected in claims:
        if not np.allclose(stated, expected / stage.rows, rtol=0.01, atol=0):
            raise BundleError("moments.parquet states other noise than release.json. Do not rely on it.")
    if not max(np.abs(released.mean).max(), np.abs(released.second).max()) <= _LARGEST_VALUE:
        raise BundleError("moments.parquet holds a number too large to be one. Ask for a new copy.")
    return released
