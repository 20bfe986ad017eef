"""Parquet parts: columns, types and rows as release.json describes them, and values that are numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.bundle.features import DEGREES
from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.moments import ReleasedMoments, moment_rows, moments_schema
from hazeglass.errors import BundleError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_moments", "check_parts", "check_rows", "parts_below"]

# Noise has at least a fraction of a bit per cell, so a part that claims more cells than this per byte holds no noise.
_CELLS_PER_BYTE = 200
_FREE_CELLS = 1 << 20
_LARGEST_VALUE = 1e150


def parts_below(manifest: Manifest, prefix: str) -> list[str]:
    """Names of the data parts that start with a prefix, in order."""
    return sorted(part.path for part in manifest.files if part.path.startswith(prefix))


def check_parts(folder: Path, manifest: Manifest) -> None:
    """Columns, types and rows of every part, from the footers; nothing is unpacked yet."""
    expected: dict[str, tuple[dict[str, set[str]], int]] = {}
    if manifest.form != "moments":
        expected["data/"] = ({name: {"double", "int64"} for name in manifest.names}, manifest.n)
    if manifest.form != "table":
        rows = sum(moment_rows(len(manifest.names) * DEGREES[stage.features]) for stage in manifest.stages)
        expected["moments.parquet"] = ({field.name: {str(field.type)} for field in moments_schema()}, rows)
    known = [part.path for part in manifest.files if part.path.startswith(tuple(expected))]
    if len(known) != len(manifest.files):
        raise BundleError(
            f"a {manifest.form} release holds no other parts than {', '.join(expected)}. Ask for a new copy."
        )
    for prefix, (columns, rows) in expected.items():
        parts = parts_below(manifest, prefix)
        if not parts:
            raise BundleError(
                f"a {manifest.form} release must hold {prefix}, and this one does not. Ask for a new copy."
            )
        found = sum(_footer_rows(folder / name, name, columns) for name in parts)
        if found != rows:
            raise BundleError(f"{prefix} holds {found} rows where release.json describes {rows}. Ask for a new copy.")


def _footer_rows(path: Path, name: str, columns: dict[str, set[str]]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        schema, rows = file.schema_arrow, int(file.metadata.num_rows)
    except (pa.ArrowException, OSError, ValueError, OverflowError):
        raise BundleError(f"{name} is not a readable Parquet file. Ask the publisher for a new copy.") from None
    if schema.names != list(columns):
        raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
    for field in schema:
        if str(field.type) not in columns[field.name]:
            raise BundleError(f"{name}: column {field.name[:100]!r} does not hold numbers of the right kind.")
    if rows * len(columns) > _CELLS_PER_BYTE * path.stat().st_size + _FREE_CELLS:
        raise BundleError(f"{name} claims {rows:,} rows in {path.stat().st_size:,} bytes: no noisy data fits that.")
    return rows


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
