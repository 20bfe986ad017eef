"""Weekly chickenpox cases in the counties of Hungary; neighbouring counties are the truth."""

from __future__ import annotations

from pathlib import Path

from hazeglass.datasets.catalogue import entry
from hazeglass.datasets.dataset import Dataset, pairs
from hazeglass.datasets.files import numbers, read_table, strings

__all__ = ["load_chickenpox"]


def load_chickenpox(data_dir: str | Path | None = None) -> Dataset:
    """522 weeks by 20 counties, counts; `row_info` holds the first day of each week as dd/mm/yyyy."""
    known = entry("chickenpox")
    table = read_table(known, "hungary_chickenpox.csv", data_dir)
    borders = read_table(known, "hungary_county_edges.csv", data_dir)
    columns = [name for name in table.column_names if name != "Date"]
    return known.dataset(
        numbers(table, columns),
        columns,
        # the ids beside the names follow another order than the columns do: only the names can be trusted
        truth=pairs(strings(borders, "name_1"), strings(borders, "name_2")),
        row_info={"date": tuple(strings(table, "Date"))},
    )
