"""Bacteria in 89 soils (Lauber et al. 2009)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hazeglass.datasets.catalogue import Entry, entry
from hazeglass.datasets.dataset import Dataset
from hazeglass.datasets.files import find, numbers, read_table, strings

__all__ = ["load_soil"]


def load_soil(data_dir: str | Path | None = None) -> Dataset:
    """89 samples by 116 OTUs, counts plus 1.

    `row_info` holds the samples and their pH; `column_info` taxonomy and phylum, where the file with them is there.
    """
    known = entry("soil")
    table = read_table(known, "soil_116.csv", data_dir)
    acidity = read_table(known, "ph.csv", data_dir)
    columns = [name for name in table.column_names if name != "sample"]
    samples = strings(table, "sample")
    ph = dict(zip(strings(acidity, "sample"), acidity.column("ph").to_pylist(), strict=True))
    return known.dataset(
        numbers(table, columns),
        columns,
        column_info=_taxonomy(known, columns, data_dir),
        row_info={"sample": tuple(samples), "ph": tuple(ph[sample] for sample in samples)},
    )


def _taxonomy(known: Entry, columns: list[str], data_dir: Any) -> dict[str, tuple[str, ...]]:
    """What each OTU is, where the file that says so is there."""
    if find(known, "taxonomy_116.csv", data_dir) is None:
        return {}
    names = read_table(known, "taxonomy_116.csv", data_dir)
    taxonomy = dict(zip(strings(names, "otu"), strings(names, "taxonomy"), strict=True))
    return {
        "taxonomy": tuple(taxonomy[otu] for otu in columns),
        "phylum": tuple(_phylum(taxonomy[otu]) for otu in columns),
    }


def _phylum(taxonomy: str) -> str:
    """'k__Bacteria; p__Acidobacteria; ...' to 'Acidobacteria'."""
    for rank in taxonomy.split(";"):
        if rank.strip().startswith("p__"):
            return rank.strip()[3:]
    return ""
