"""Legislative effectiveness of the members of the U.S. House who sat through ten congresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hazeglass.datasets.catalogue import Entry, entry
from hazeglass.datasets.dataset import Dataset
from hazeglass.datasets.files import numbers, read_table, strings
from hazeglass.errors import DataError

__all__ = ["load_lawmakers"]

# Members counted by name alone: a father and a son under one name each, and one man under two numbers.
_BY_NAME_ONLY = {"Duncan, John": ("TN", "R"), "Perkins, Carl": ("KY", "D"), "Goodling, William": ("PA", "R")}


def load_lawmakers(data_dir: str | Path | None = None, *, members: int = 73) -> Dataset:
    """10 congresses by 73 members identified by number, or by 76 identified by name.

    `column_info` holds their state and party ('D' or 'R'); both numbers of members give the paper's epsilon.
    """
    if members not in (73, 76):
        raise DataError(f"members must be 73 (by number) or 76 (by name), got {members}.")
    known = entry("lawmakers")
    people = _members(known, data_dir)
    name = "les_matrix_10x73_icpsr.csv" if members == 73 else "les_matrix_10x76_name.csv"
    table = read_table(known, name, data_dir)
    fields = [column for column in table.column_names if column != "congress"]
    columns = tuple(people) if members == 73 else tuple(fields)
    about = {**people, **_BY_NAME_ONLY}
    return known.dataset(
        numbers(table, fields),
        columns,
        column_info={
            "state": tuple(about[name][0] for name in columns),
            "party": tuple(about[name][1] for name in columns),
        },
        row_info={"congress": tuple(int(c) for c in table.column("congress").to_pylist())},
    )


def _members(known: Entry, data_dir: Any) -> dict[str, tuple[str, str]]:
    """Name to state and party, in the order of the columns of the 73."""
    table = read_table(known, "members_73.csv", data_dir)
    parties = ["D" if one else "R" for one in table.column("dem").to_pylist()]
    rows = zip(strings(table, "name"), strings(table, "state"), parties, strict=True)
    return {name: (state, party) for name, state, party in rows}
