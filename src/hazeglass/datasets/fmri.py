"""A brain at rest: ABIDE series in the Harvard-Oxford atlas, standing in for the paper's MSDL regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from hazeglass.datasets.catalogue import Entry, entry
from hazeglass.datasets.dataset import Dataset
from hazeglass.datasets.files import numbers, read_table, strings
from hazeglass.errors import DataError

__all__ = ["load_fmri"]


def load_fmri(
    data_dir: str | Path | None = None, *, subject: int = 1, regions: Literal["msdl39", "all"] = "msdl39"
) -> Dataset:
    """176 time points by the 39 columns nearest to the MSDL regions, or by all 110 regions.

    Subjects 1 to 5 are controls; the default was not picked by result. With 'msdl39', `column_info` holds the region
    each column stands for ('region'), its network ('network'), its own name ('atlas_name') and the region's centre in
    millimetres ('xyz').
    """
    if subject not in range(1, 6):
        raise DataError(f"subject must be 1 to 5, got {subject}.")
    if regions not in ("msdl39", "all"):
        raise DataError(f"regions must be 'msdl39' or 'all', got {regions!r}.")
    known = entry("fmri")
    table = read_table(known, f"abide_ho_control{subject:02d}.csv", data_dir)
    columns, about = _nearest(known, data_dir) if regions == "msdl39" else (table.column_names, {})
    return known.dataset(
        numbers(table, columns),
        columns,
        column_info=about,
    )


def _nearest(known: Entry, data_dir: Any) -> tuple[list[str], dict[str, tuple[Any, ...]]]:
    table = read_table(known, "msdl39_nearest_columns.csv", data_dir)
    centres = numbers(table, ["x", "y", "z"])
    about: dict[str, tuple[Any, ...]] = {
        "region": tuple(strings(table, "msdl_region")),
        "network": tuple(strings(table, "msdl_network")),
        "atlas_name": tuple(strings(table, "ho_name")),
        "xyz": tuple((float(x), float(y), float(z)) for x, y, z in centres),
    }
    return strings(table, "column"), about
