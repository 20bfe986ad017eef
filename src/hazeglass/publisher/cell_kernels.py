"""Cells to lattice points in one pass each: what NumPy would do in a dozen, bit for bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hazeglass.publisher.compiled import elementwise

__all__ = ["shrink_and_round", "to_lattice_scale", "to_unit"]

FloatArray = NDArray[np.float64]


@elementwise
def to_unit(cells: FloatArray, lower: float, upper: float, centre: float, half_width: float, out: FloatArray) -> None:
    """Cells clamped to their bounds, then (cell - centre) / half_width in [-1, 1]; NaN becomes 0, the public centre."""
    for row in range(cells.size):
        value = cells[row]
        value = lower if value < lower else value
        value = upper if value > upper else value
        value = (value - centre) / half_width
        value = -1.0 if value < -1.0 else value
        value = 1.0 if value > 1.0 else value
        out[row] = value if value == value else 0.0


@elementwise
def to_lattice_scale(
    unit: FloatArray, centre: FloatArray, scale: FloatArray, steps: float, out: FloatArray, squares: FloatArray
) -> None:
    """Columns times the steps, (u - centre) / scale * steps, and the square of each row's length, column by column."""
    for column in range(unit.shape[0]):
        for row in range(unit.shape[1]):
            value = (unit[column, row] - centre[column]) / scale[column] * steps
            out[column, row] = value
            squares[row] += value * value


@elementwise
def shrink_and_round(cells: FloatArray, shrink: FloatArray) -> None:
    """In place: every row times its factor, to the nearest whole numbers."""
    for column in range(cells.shape[0]):
        for row in range(cells.shape[1]):
            cells[column, row] = np.rint(cells[column, row] * shrink[row])
