"""Clip rows to an l2 ball and put them on a lattice without leaving the ball."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hazeglass.errors import InputError

__all__ = ["clip_to_lattice"]

# Floating-point error of a row's norm is far below this share of it; the promise must not hang on the last bit.
_MARGIN = 1 - 2.0**-40


def clip_to_lattice(rows: npt.NDArray[np.float64], *, steps: int, radius: float | None) -> npt.NDArray[np.float64]:
    """Rows times `steps`, rounded to whole numbers (as floats), inside the ball of `radius * steps`.

    Rounding to the nearest lattice point moves a row by at most sqrt(p)/2, so the row is first shrunk to a ball that
    much smaller: the rounded row stays inside the ball the promise is computed for, and rounding has no drift towards
    zero, which would show as a bias once the rows run into the millions. `radius=None` leaves only the box [-1, 1].
    """
    scaled = rows * steps
    if radius is not None:
        room = (radius * steps - math.sqrt(rows.shape[1]) / 2) * _MARGIN
        if room <= 0:
            raise InputError(f"the lattice of {steps} steps is too coarse for rows of length {radius:g}; refine it.")
        norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        scaled *= (room / np.maximum(norms, room))[:, None]
    return np.rint(scaled, out=scaled)
