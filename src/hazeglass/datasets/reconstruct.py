"""The two grids of the paper, made again: published networks from pandapower, driven by measured home loads.

The paper's own voltages are not public. The recipes below are those of the files that `load_grid11` and `load_grid115`
read; the home loads there were not yet rounded, so voltages agree to the seventh decimal and not to the ninth.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hazeglass.datasets.catalogue import entry
from hazeglass.datasets.dataset import Dataset, FloatArray
from hazeglass.datasets.grids import load_home_loads
from hazeglass.datasets.power_flow import Grid, grid_from_case, voltage_magnitudes
from hazeglass.errors import MissingExtraError

__all__ = ["make_grid11", "make_grid115"]

_FEEDER_BUSES = 11
_BUS_WITHOUT_LOAD, _LOAD_GIVEN_TO_IT = 2, 0.3  # MW
_BUSY_HOUR = 0.999  # the quantile of a home's load that counts as its nominal power
_POWER_FACTORS = (0.85, 0.95)
_SHIFTS = (-1, 0, 1, 2)  # whole weeks
_WEEK = 168
# pandapower draws the cable of each house connection at random; these are the ones drawn when the files were made.
_CABLES = {"1": "NAYY 4x50", "0": "NAYY 4x50 SE"}
_CONNECTIONS = "111101111111010100111010110010110110011011100111011111000"


def make_grid11(data_dir: str | Path | None = None) -> Dataset:
    """Simulate the 11-bus feeder: CIGRE's medium-voltage benchmark, one home's load shape at each bus."""
    case = _networks().create_cigre_network_mv()
    buses = list(range(1, _FEEDER_BUSES + 1))
    grid = grid_from_case(case, buses, [f"bus{bus}" for bus in buses])
    nominal = np.array([case.load.p_mw[case.load.bus == bus].sum() for bus in buses])
    nominal[buses.index(_BUS_WITHOUT_LOAD)] = _LOAD_GIVEN_TO_IT
    homes = load_home_loads(data_dir).data[:, :_FEEDER_BUSES]
    power = homes / np.quantile(homes, _BUSY_HOUR, axis=0) * nominal
    factors = np.random.default_rng(11).uniform(*_POWER_FACTORS, size=power.shape)
    return _simulated("grid11", grid, power, factors)


def make_grid115(data_dir: str | Path | None = None) -> Dataset:
    """Simulate the 115-bus village: Kerber's grid, a measured home at each of its 57 load buses.

    There are 15 homes; the same home serves up to four buses, shifted by whole weeks.
    """
    case = _village()
    buses = [int(bus) for bus in case.bus.index if bus != case.ext_grid.bus.iloc[0]]
    grid = grid_from_case(case, buses, [str(case.bus.name[bus]) for bus in buses])
    rng = np.random.default_rng(115)
    homes = load_home_loads(data_dir).data
    shifted = [np.roll(home, weeks * _WEEK) for weeks in _SHIFTS for home in homes.T]
    order = rng.permutation(len(shifted))
    power = np.column_stack([shifted[k] for k in order[: len(case.load)]]) * 1e-3
    factors = rng.uniform(*_POWER_FACTORS, size=power.T.shape).T  # drawn home by home
    places = [buses.index(int(bus)) for bus in case.load.bus]
    return _simulated("grid115", grid, _at_buses(power, len(buses), places), _at_buses(factors, len(buses), places))


def _simulated(name: str, grid: Grid, power: FloatArray, power_factors: FloatArray) -> Dataset:
    """Solve for every hour, and name the lines. Both arrays have one column per bus."""
    reactive = power * np.tan(np.arccos(power_factors))
    truth = frozenset(frozenset((grid.names[i], grid.names[j])) for i, j in grid.lines)
    return entry(name).dataset(voltage_magnitudes(grid, power, reactive), grid.names, truth)


def _at_buses(values: FloatArray, buses: int, places: list[int]) -> FloatArray:
    """Columns moved to the buses they belong to; the others carry no load, whatever its power factor."""
    spread = np.zeros((len(values), buses))
    spread[:, places] = values
    return spread


def _village() -> Any:
    networks = _networks()
    case = networks.create_kerber_dorfnetz()
    from pandapower import change_std_type

    connections = case.line.index[case.line.to_bus.isin(case.load.bus)]
    for line, cable in zip(connections, _CONNECTIONS, strict=True):
        change_std_type(case, line, _CABLES[cable], element="line")
    return case


def _networks() -> Any:
    try:
        import pandapower.networks
    except ImportError:
        raise MissingExtraError(
            "making the grids again needs pandapower. Install it with: pip install 'hazeglass[grid]'"
        ) from None
    return pandapower.networks
