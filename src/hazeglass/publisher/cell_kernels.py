"""Cells to lattice points in one pass each: what NumPy would do in a dozen, bit for bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hazeglass.publisher.compiled import elementwise

__all__ = ["to_lattice", "to_unit"]

FloatArray = NDArray[np.float64]
_STRETCH = 256


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
def to_lattice(cells: FloatArray, centre: FloatArray, scale: FloatArray, steps: float, room: float) -> None:
    """In place: columns become (u - centre) / scale * steps, rows longer than `room` are shrunk to it, all are rounded.

    A few hundred rows at a time, so that all their columns are still in the fastest cache for the second pass. One
    array for both ends: of two, the compiler would have to fear that they overlap, and use no vectors if they do.
    """
    columns, rows = cells.shape
    factor = np.empty(_STRETCH)
    for start in range(0, rows, _STRETCH):
        size = min(_STRETCH, rows - start)
        factor[:] = 0.0
        for column in range(columns):
            middle, width = centre[column], scale[column]
            for row in range(size):
                value = (cells[column, start + row] - middle) / width * steps
                cells[column, start + row] = value
                factor[row] += value * value
        for row in range(size):
            length = np.sqrt(factor[row])
            factor[row] = room / length if length > room else 1.0
        for column in range(columns):
            for row in range(size):
                cells[column, start + row] = np.rint(cells[column, start + row] * factor[row])
