"""Parquet parts: columns, types and rows as release.json describes them, and values that are numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.moments import MOMENT_COLUMNS, ReleasedMoments, moment_rows, moments_schema
from hazeglass.errors import BundleError
from hazeglass.features.harmonics import DEGREES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["check_moments", "check_parts", "check_rows", "parts_below"]

# Noise has at least a fraction of a bit per cell, so a table that claims more cells than this per byte holds no noise.
_CELLS_PER_BYTE = 200
_FREE_CELLS = 1 << 20
# A cell takes 8 bytes, and 8 more in a dictionary; the rest is for row groups, each of which names every column again.
_BYTES_PER_CELL = 32
_BYTES_PER_FILE, _BYTES_PER_COLUMN, _TIMES_A_NAME = 1 << 16, 1 << 10, 8
_LARGEST_VALUE = 1e150


def parts_below(manifest: Manifest, prefix: str) -> list[str]:
    """Names of the data parts that start with a prefix, in order."""
    return sorted(part.path for part in manifest.files if part.path.startswith(prefix))


@dataclass(frozen=True)
class _Expected:
    """What the manifest implies about the parts of one kind: their columns and types, rows, and bytes in all."""

    columns: Mapping[str, set[str]]
    rows: int
    fewest_bytes: int
    most_bytes: int


def check_parts(folder: Path, manifest: Manifest) -> None:
    """Sizes, columns, types and rows of every part, from the footers; nothing is unpacked yet.

    Parts are not compressed, so that no more can come out of one than its size, which is bounded first, and the rows
    and columns of the manifest allow.
    """
    expected = _expected(manifest)
    known = [part.path for part in manifest.files if part.path.startswith(tuple(expected))]
    if len(known) != len(manifest.files):
        raise BundleError(
            f"a {manifest.form} release holds no other parts than {', '.join(expected)}. Ask for a new copy."
        )
    for part in manifest.files:
        if (folder / part.path).stat().st_size != part.bytes:
            raise BundleError(f"{part.path[:200]} has another size than release.json says. Ask for a new copy.")
    for prefix, implied in expected.items():
        names = parts_below(manifest, prefix)
        if not names:
            raise BundleError(
                f"a {manifest.form} release must hold {prefix}, and this one does not. Ask for a new copy."
            )
        size = sum(part.bytes for part in manifest.files if part.path.startswith(prefix))
        if size < implied.fewest_bytes:
            raise BundleError(f"{prefix} has {implied.rows:,} rows in {size:,} bytes: no noisy data fits that.")
        if size > implied.most_bytes:
            raise BundleError(f"{prefix} has {size:,} bytes, more than {implied.rows:,} rows take. Do not rely on it.")
        found = sum(_footer_rows(folder / name, name, implied.columns) for name in names)
        if found != implied.rows:
            raise BundleError(
                f"{prefix} holds {found} rows where release.json describes {implied.rows}. Ask for a new copy."
            )


def _expected(manifest: Manifest) -> dict[str, _Expected]:
    """By the beginning of their names."""
    expected = {}
    if manifest.form != "moments":
        cells = manifest.n * len(manifest.columns)
        expected["data/"] = _Expected(
            columns={name: {"double", "int64"} for name in manifest.names},
            rows=manifest.n,
            fewest_bytes=(cells - _FREE_CELLS) // _CELLS_PER_BYTE,
            most_bytes=_BYTES_PER_CELL * cells + len(parts_below(manifest, "data/")) * _frame(manifest.names),
        )
    if manifest.form != "table":
        rows = sum(moment_rows(len(manifest.names) * DEGREES[stage.features]) for stage in manifest.stages)
        names = len(manifest.stages) * _frame(manifest.names)
        expected["moments.parquet"] = _Expected(
            columns={field.name: {str(field.type)} for field in moments_schema()},
            rows=rows,
            fewest_bytes=8 * rows,  # the numbers themselves
            most_bytes=_BYTES_PER_CELL * rows * len(MOMENT_COLUMNS) + names + _frame(MOMENT_COLUMNS),
        )
    return expected


def _frame(names: Iterable[str]) -> int:
    """Bytes that a file may need besides its cells: its schema, and what is said of its columns."""
    return _BYTES_PER_FILE + sum(_BYTES_PER_COLUMN + _TIMES_A_NAME * len(name.encode()) for name in names)


def _footer_rows(path: Path, name: str, columns: Mapping[str, set[str]]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema, footer = file.schema_arrow, file.metadata
            _check_footer(name, footer)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"{name} is not a readable Parquet file. Ask the publisher for a new copy.") from None
    if schema.names != list(columns):
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    for field in schema:
        if str(field.type) not in columns[field.name]:
            raise BundleError(f"{name}: column {field.name[:100]!r} does not hold numbers of the right kind.")
    return int(footer.num_rows)


def _check_footer(name: str, footer: pq.FileMetaData) -> None:
    """Nothing compressed, no notes, and one count of rows throughout, since readers make room for what it says."""
    if (footer.metadata or {}).keys() - {b"ARROW:schema"}:
        raise BundleError(f"{name} carries notes that no release has. Ask the publisher for a new copy.")
    counted = 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        rows = group.num_rows
        counted += rows
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.compression != "UNCOMPRESSED":
                raise BundleError(f"{name} is compressed; the parts of a release are not. Ask for a new copy.")
            if chunk.num_values != rows or rows < 0:
                raise BundleError(f"{name} counts its rows in two ways. Do not rely on it.")
    if counted != footer.num_rows:
        raise BundleError(f"{name} counts its rows in two ways. Do not rely on it.")


def check_rows(table: pa.Table) -> pa.Table:
    """Released rows have no gaps and no value that is not a number."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count or not _usable(column):
            raise BundleError(f"column {name[:100]!r} holds a cell that is not a number. Ask for a new copy.")
    return table


def check_moments(released: ReleasedMoments, manifest: Manifest, number: int) -> ReleasedMoments:
    """The noise stated beside each moment is that of the stage."""
    stage = manifest.stages[number]
    off_diagonal = released.second_noise_sd[~np.eye(len(released.mean), dtype=bool)]
    claims = (
        (released.mean_noise_sd, stage.tau / stage.mean_weight),
        (np.diag(released.second_noise_sd), np.sqrt(2) * stage.tau),
        (off_diagonal, stage.tau),
    )
    for stated, expected in claims:
        if not np.allclose(stated * stage.rows, expected, rtol=0.01):
            raise BundleError("moments.parquet states other noise than release.json. Do not rely on it.")
    if not max(np.abs(released.mean).max(), np.abs(released.second).max()) <= _LARGEST_VALUE:
        raise BundleError("moments.parquet holds a number too large to be one. Ask for a new copy.")
    return released


def _usable(column: Any) -> bool:
    import pyarrow.compute as pc

    largest = pc.max(pc.abs_checked(column.cast("double"))).as_py()
    return largest is None or (bool(pc.all(pc.is_finite(column)).as_py()) and largest <= _LARGEST_VALUE)
