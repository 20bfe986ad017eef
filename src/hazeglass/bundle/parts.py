"""Parquet parts: columns, types and rows as release.json describes them, and values that are numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hazeglass.bundle.footer import PHYSICAL_TYPES, footer_rows
from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.moments import MOMENT_COLUMNS, ReleasedMoments, moment_batches, moment_rows, moments_schema
from hazeglass.errors import BundleError
from hazeglass.features.harmonics import DEGREES

if TYPE_CHECKING:
    import pyarrow as pa

# Noise has at least a fraction of a bit per cell, so a table that claims more cells than this per byte holds no noise.
_CELLS_PER_BYTE = 200
_FREE_CELLS = 1 << 20
# A cell takes 8 bytes, and 8 more in a dictionary; the rest is for row groups, each of which names every column again.
_BYTES_PER_CELL = 32
_BYTES_PER_FILE, _BYTES_PER_COLUMN, _TIMES_A_NAME = 1 << 16, 1 << 10, 8
_LARGEST_VALUE, _LARGEST_WHOLE = 1e150, 2**53


def parts_below(manifest: Manifest, prefix: str) -> list[str]:
    """Names of the data parts that start with a prefix, in order."""
    return sorted(part.path for part in manifest.files if part.path.startswith(prefix))


@dataclass(frozen=True)
class _Expected:
    """What the manifest implies about the parts of one kind: their columns and types, rows and bytes in all, and the
    row groups and the footer's bytes of each."""

    columns: Mapping[str, set[str]]
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
        groups = table_row_groups(len(manifest.columns))
        expected["data/"] = _Expected(
            columns={name: {"double", "int64"} for name in manifest.names},
            rows=manifest.n,
            fewest_bytes=(cells - _FREE_CELLS) // _CELLS_PER_BYTE,
            most_bytes=_BYTES_PER_CELL * cells + len(parts_below(manifest, "data/")) * _frame(manifest.names),
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
            columns={field.name: {str(field.type)} for field in moments_schema()},
            rows=rows,
            fewest_bytes=8 * rows,  # the numbers themselves
            most_bytes=_BYTES_PER_CELL * rows * len(MOMENT_COLUMNS) + names + _frame(MOMENT_COLUMNS),
            row_groups=groups,
            footer_bytes=_frame([longest] * len(MOMENT_COLUMNS), 1 + groups),
        )
    return expected


def table_row_groups(columns: int) -> int:
    """How many row groups a part of rows has at most: it is written with at most 2^20 rows and 2^22 cells, in groups of
    2^16 rows."""
    return min(16, max(1, 64 // columns))


def _frame(names: Iterable[str], times: int = 1) -> int:
    """Bytes that a file may need besides its cells: its schema, and what is said of its columns, so many times."""
    return _BYTES_PER_FILE + times * sum(_BYTES_PER_COLUMN + _TIMES_A_NAME * len(name.encode()) for name in names)


def _part_rows(path: Path, name: str, implied: _Expected) -> int:
    """From the footer, which is walked through before pyarrow opens the file to see Arrow's types behind it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {column: [PHYSICAL_TYPES[kind] for kind in kinds] for column, kinds in implied.columns.items()}
    rows = footer_rows(path, name, types, implied.row_groups, implied.footer_bytes)
    limit = min(implied.footer_bytes, 2**31 - 1)
    try:
        with pq.ParquetFile(path, thrift_string_size_limit=limit, thrift_container_size_limit=limit) as file:
            schema = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError, OverflowError):
        raise BundleError(f"{name} is not a readable Parquet file. Ask the publisher for a new copy.") from None
    if schema.names != list(implied.columns):
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    for field in schema:
        if str(field.type) not in implied.columns[field.name]:
            raise BundleError(f"{name}: column {field.name[:100]!r} does not hold numbers of the right kind.")
    return rows


def check_rows(table: pa.Table) -> pa.Table:
    """Released rows have no gaps and no value that is not a number."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count or not _usable(column):
            raise BundleError(f"column {name[:100]!r} holds a cell that is not a number. Ask for a new copy.")
        if str(column.type) == "int64" and _largest(column) > _LARGEST_WHOLE:
            raise BundleError(
                f"column {name[:100]!r} holds a whole number beyond 2^53, where floats do not tell one from the next; "
                "no release does. Ask for a new copy."
            )
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
        if not np.allclose(stated, expected / stage.rows, rtol=0.01, atol=0):
            raise BundleError("moments.parquet states other noise than release.json. Do not rely on it.")
    if not max(np.abs(released.mean).max(), np.abs(released.second).max()) <= _LARGEST_VALUE:
        raise BundleError("moments.parquet holds a number too large to be one. Ask for a new copy.")
    return released


def _usable(column: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.is_finite(column)).as_py()) and _largest(column) <= _LARGEST_VALUE


def _largest(column: pa.ChunkedArray) -> float:
    """The largest size of a cell, exact for whole numbers."""
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py().values()
    return max(abs(end) for end in ends) if len(column) else 0
