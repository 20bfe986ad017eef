"""Voltages on power grids, whose lines are the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hazeglass.datasets.catalogue import entry
from hazeglass.datasets.dataset import Dataset, pairs
from hazeglass.datasets.files import numbers, read_table, strings
from hazeglass.errors import DataError

__all__ = ["load_grid8", "load_grid11", "load_grid115", "load_home_loads"]


def load_grid11(data_dir: str | Path | None = None) -> Dataset:
    """8,760 hours by 11 buses: voltage magnitudes per unit on a medium-voltage feeder. A reconstruction."""
    return _grid("grid11", "voltages.csv", data_dir)


def load_grid115(data_dir: str | Path | None = None) -> Dataset:
    """8,760 hours by 115 buses: voltage magnitudes per unit on a village grid. A reconstruction."""
    return _grid("grid115", "voltages.csv", data_dir)


def load_grid8(data_dir: str | Path | None = None, *, variant: Literal["fixed", "solar"] = "fixed") -> Dataset:
    """8,760 hours by the 7 buses that move: one power factor per bus, or random ones with solar power."""
    files = {"fixed": "voltages_fixpf.csv", "solar": "voltages_randpf_solar.csv"}
    if variant not in files:
        raise DataError(f"variant must be 'fixed' or 'solar', got {variant!r}.")
    return _grid("grid8", files[variant], data_dir, slack="bus1")


def load_home_loads(data_dir: str | Path | None = None) -> Dataset:
    """8,760 hours by 15 homes, kWh: what drives the two reconstructed grids."""
    known = entry("home-loads")
    table = read_table(known, "homes_hourly_kwh.csv", data_dir)
    return known.dataset(numbers(table, table.column_names), table.column_names)


def _grid(name: str, voltages: str, data_dir: str | Path | None, slack: str | None = None) -> Dataset:
    known = entry(name)
    table = read_table(known, voltages, data_dir)
    lines = read_table(known, "edges.csv", data_dir)
    columns = [bus for bus in table.column_names if bus != slack]
    truth = pairs(strings(lines, "from"), strings(lines, "to"))
    return known.dataset(numbers(table, columns), columns, frozenset(line for line in truth if slack not in line))
