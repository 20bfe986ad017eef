"""Voltages on a grid of lines behind one transformer, for many hours at once.

The grid is Y v = conj(s / v) at its load buses, with Y the admittances and the far side of the transformer held at a
fixed voltage. Solved by the implicit Z-bus fixed point: v = Y_LL^-1 (conj(s / v) - Y_LS v_S). Everything is in volts
(kV), MW and Mvar, so that no base has to be chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass.datasets.dataset import FloatArray
from hazeglass.errors import DataError

__all__ = ["Grid", "grid_from_case", "voltage_magnitudes"]

ComplexArray = npt.NDArray[np.complex128]
_ROUNDS, _SETTLED = 200, 1e-15


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
