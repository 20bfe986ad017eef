"""The two grids of the paper, made again: published networks from pandapower, driven by measured home loads.

The paper's own voltages are not public. The recipes below are those of the files that `load_grid11` and `load_grid115`
read; the home loads there were not yet rounded, so voltages agree to the seventh decimal and not to the ninth.

Power flow: Y v = conj(s / v) at the load buses, with Y the admittances and the far side of the transformer held at a
fixed voltage, solved by the implicit Z-bus fixed point v = Y_LL^-1 (conj(s / v) - Y_LS v_S) for many hours at once.
Everything is in volts (kV), MW and Mvar, so that no base has to be chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass.datasets import Dataset, load_home_loads
from hazeglass.datasets.dataset import entry
from hazeglass.errors import DataError, MissingExtraError

__all__ = ["Grid", "grid_from_case", "make_grid11", "make_grid115", "voltage_magnitudes"]

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]
_ROUNDS, _SETTLED = 200, 1e-15
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


@dataclass(frozen=True, eq=False)
class Grid:
    """Buses at one nominal voltage, joined by lines and fed by one transformer.

    names      of the buses
    lines      pairs of bus positions
    admittance (buses, buses), transformer included
    feed       (buses,), current that the fixed voltage behind the transformer drives into each bus
    nominal    kV
    """

    names: tuple[str, ...]
    lines: tuple[tuple[int, int], ...]
    admittance: ComplexArray
    feed: ComplexArray
    nominal: float


def voltage_magnitudes(grid: Grid, p_mw: FloatArray, q_mvar: FloatArray) -> FloatArray:
    """Per-unit voltage magnitudes, shape (hours, buses), for loads of that shape."""
    to_voltage = np.linalg.inv(grid.admittance)
    unloaded = (to_voltage @ grid.feed)[:, None]
    drawn = -(p_mw - 1j * q_mvar).T  # the conjugate of what is fed in
    v = np.repeat(unloaded, len(p_mw), axis=1)
    for _ in range(_ROUNDS):
        new = unloaded + to_voltage @ (drawn / np.conj(v))
        change = float(np.max(np.abs(new - v)))
        v = new
        if change <= _SETTLED * grid.nominal:
            break
    else:
        if change > 1e-10 * grid.nominal:
            raise DataError("the power flow did not settle: the loads are more than the grid can carry.")
    return np.asarray(np.abs(v).T / grid.nominal)


def grid_from_case(case: Any, buses: list[int], names: list[str]) -> Grid:
    """The part of a pandapower case made of these buses, its slack behind the transformer that feeds them."""
    place = {bus: k for k, bus in enumerate(buses)}
    admittance = np.zeros((len(buses), len(buses)), dtype=np.complex128)
    lines = []
    for line in case.line.itertuples():
        ends = [bus for bus in (line.from_bus, line.to_bus) if bus in place]
        connected = [bus for bus in ends if not _is_open(case, line.Index, bus)]
        series, shunt = _line_admittances(line, case.f_hz)
        if len(connected) == 2:
            i, j = place[line.from_bus], place[line.to_bus]
            lines.append((i, j))
            admittance[[i, j], [i, j]] += series + shunt / 2
            admittance[[i, j], [j, i]] -= series
        elif len(connected) == 1 and len(ends) == 2:
            # a line open at its far end still charges: its capacitance hangs on the near one
            admittance[place[connected[0]], place[connected[0]]] += shunt / 2 + 1 / (1 / series + 2 / shunt)
    feed = np.zeros(len(buses), dtype=np.complex128)
    (transformer,) = (row for row in case.trafo.itertuples() if row.lv_bus in place)
    near, mutual = _transformer_admittances(transformer)
    k = place[transformer.lv_bus]
    admittance[k, k] += near
    feed[k] = -mutual * float(case.ext_grid.vm_pu.iloc[0]) * transformer.vn_lv_kv
    return Grid(tuple(names), tuple(lines), admittance, feed, float(transformer.vn_lv_kv))


def _is_open(case: Any, line: int, bus: int) -> bool:
    here = case.switch[(case.switch.et == "l") & (case.switch.element == line) & (case.switch.bus == bus)]
    return bool((~here.closed.astype(bool)).any())


def _line_admittances(line: Any, frequency: float) -> tuple[complex, complex]:
    """Of the whole line: in series, and to earth (1/ohm)."""
    series = 1 / (complex(line.r_ohm_per_km, line.x_ohm_per_km) * line.length_km)
    leak = line.g_us_per_km * 1e-6 if hasattr(line, "g_us_per_km") else 0.0
    shunt = complex(leak, 2 * np.pi * frequency * line.c_nf_per_km * 1e-9) * line.length_km
    return series, shunt


def _transformer_admittances(transformer: Any) -> tuple[complex, complex]:
    """Seen from the low side: own and mutual admittance of a T of half the series impedance, the core, the other half.

    Phase shifts turn all voltages alike and leave magnitudes as they are.
    """
    base = transformer.vn_lv_kv**2 / transformer.sn_mva
    resistance = transformer.vkr_percent / 100 * base
    impedance = transformer.vk_percent / 100 * base
    half = complex(resistance, np.sqrt(impedance**2 - resistance**2)) / 2
    iron = transformer.pfe_kw * 1e-3
    magnetising = np.sqrt(max((transformer.i0_percent / 100 * transformer.sn_mva) ** 2 - iron**2, 0.0))
    core = complex(iron, -magnetising) / transformer.vn_lv_kv**2
    # the two halves and the core, with the middle node eliminated
    middle = 2 / half + core
    return 1 / half - 1 / half**2 / middle, -(1 / half**2) / middle
