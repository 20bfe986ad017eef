"""Clip rows to an l2 ball and put them on a lattice without leaving the ball."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hazeglass.errors import InputError

__all__ = ["clip_to_lattice", "row_lengths", "standardise_to_lattice"]

FloatArray = npt.NDArray[np.float64]
# Floating-point error of a row's norm is far below this share of it; the promise must not hang on the last bit.
_MARGIN = 1 - 2.0**-40


def clip_to_lattice(rows: FloatArray, *, steps: int, radius: float | None) -> FloatArray:
    """Rows times `steps`, rounded to whole numbers (as floats), inside the ball of `radius * steps`.

    Rounding to the nearest lattice point moves a row by at most sqrt(p)/2, so the row is first shrunk to a ball that
    much smaller: the rounded row stays inside the ball the promise is computed for, and rounding has no drift towards
    zero, which would show as a bias once the rows run into the millions. `radius=None` leaves only the box [-1, 1].
    """
    scaled = rows * steps
    if radius is not None:
        room = _room(rows.shape[1], steps, radius)
        scaled *= (room / np.maximum(row_lengths(scaled), room))[:, None]
    return np.rint(scaled, out=scaled)


def standardise_to_lattice(
    rows: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    *,
    steps: int,
    radius: float | None,
    out: FloatArray | None = None,
) -> FloatArray:
    """clip_to_lattice((rows - centre) / scale), the same bits several times as fast; `out` may be `rows`."""
    from hazeglass.publisher.cell_kernels import to_lattice

    lattice = np.array(rows.T, order="C") if out is None else out.T
    if out is not None and out is not rows:
        out[:] = rows
    room = math.inf if radius is None else _room(len(centre), steps, radius)
    to_lattice(lattice, centre, scale, float(steps), room)
    return lattice.T


def _room(columns: int, steps: int, radius: float) -> float:
    """The ball that leaves the rounding its place."""
    room = (radius * steps - math.sqrt(columns) / 2) * _MARGIN
    if room <= 0:
        raise InputError(f"the lattice of {steps} steps is too coarse for rows of length {radius:g}; refine it.")
    return room


def row_lengths(rows: FloatArray) -> FloatArray:
    """Euclidean lengths, column after column: a row's length is the same bits in whatever block it stands."""
    squares = np.square(rows[:, 0])
    for column in rows.T[1:]:
        squares += np.square(column)
    return np.sqrt(squares, out=squares)
