"""Clip rows to an l2 ball and put them on a lattice without leaving the ball; the radius may be bought from the data.

A bought radius is a quantile of the row lengths, found by noisy bisection on a public grid. Each step asks how many
rows are at most so long; replacing one row changes the answer by at most 1 (one person: by at most max_rows), so
rounded Gaussian noise of scale max_rows * sqrt(steps) / mu on each answer makes all of them together mu-GDP, however
the questions depend on the answers (adaptive composition). Only the noisy answers are used and released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import RadiusSearch, Stage
from hazeglass.compute.engines import Engine
from hazeglass.errors import InputError, PlanError
from hazeglass.guarantee.lattice import LARGEST_SCALE, RoundedGaussian
from hazeglass.guarantee.units import RADIUS_QUANTILE, SEARCH_STEPS, Unit, bisect_radius, questions, radius_grid
from hazeglass.publisher.noise import draw, total_variation
from hazeglass.publisher.randomness import BitSource
from hazeglass.publisher.rows import Block, Cells, Rows
from hazeglass.publisher.warehouse import QueriedRows

__all__ = [
    "SEARCH_STEPS",
    "answer_noise",
    "clip_to_lattice",
    "inner_radius",
    "lattice_rows",
    "private_radius",
    "questions",
    "radius_grid",
    "row_lengths",
    "rows_within",
    "search_radius",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
_ULP = 2.0**-52  # twice the largest relative error u of one operation


def clip_to_lattice(rows: FloatArray, *, steps: int, radius: float | None) -> FloatArray:
    """Rows times `steps`, rounded to whole numbers (as floats), inside the ball of `radius * steps`.

    Rounding to the nearest lattice point moves a row by at most sqrt(p)/2, so the row is first shrunk to a ball that
    much smaller: the rounded row stays inside the ball the promise is computed for, and rounding has no drift towards
    zero, which would show as a bias once the rows run into the millions. `radius=None` leaves only the box [-1, 1].
    """
    scaled = rows * steps
    if radius is not None:
        longest = inner_radius(rows.shape[1], steps, radius)
        scaled *= (longest / np.maximum(row_lengths(scaled), longest))[:, None]
    return np.rint(scaled, out=scaled)


def lattice_rows(rows: FloatArray, centre: FloatArray, stage: Stage) -> FloatArray:
    """In place, one row per feature: clip_to_lattice of what a stage sums, about its centre, several times as fast."""
    from hazeglass.publisher.kernels import to_lattice

    scored = stage.scored
    if scored:
        longest = inner_radius(scored, stage.steps, stage.radius) if stage.clipped else math.inf
        to_lattice(rows[:scored], centre[:scored], float(stage.steps), longest)
    rows[scored:] *= stage.steps  # indicators: a level is so many whole steps, and no row of them is too long
    return rows


def inner_radius(columns: int, steps: int, radius: float) -> float:
    """The ball that leaves the rounding its place, and the arithmetic its errors: the promise hangs on no last bit.

    With R = radius * steps and p columns, a squared length summed up in any order is at least 1 - p u of the true one
    (p - 1 additions and a square, underflow apart, which is far below 1). So a row that counts as `longest` long, or
    was shrunk to that by a root, a quotient and a product, is at most (1 + (p + 4) u) * longest long while p u < 1/4.
    The five roundings below add at most 5 u R, and a margin of 2 (p + 16) u R covers both.
    """
    longest = radius * steps * (1 - (columns + 16) * _ULP) - math.sqrt(columns) / 2
    if longest <= 0:
        raise InputError(f"the lattice of {steps} steps is too coarse for rows of length {radius:g}; refine it.")
    return longest


def row_lengths(rows: FloatArray) -> FloatArray:
    """Euclidean lengths, column after column: a row's length is the same bits in whatever block it stands."""
    squares = np.square(rows[:, 0])
    for column in rows.T[1:]:
        squares += np.square(column)
    return np.sqrt(squares, out=squares)


# ---------------------------------------------------------------------------- a radius from the data, by noisy counts


def private_radius(rows: Rows, unit: Unit, mu: float, engine: Engine, bits: BitSource) -> RadiusSearch:
    """The smallest radius of the grid that seems to hold 95 % of the rows."""
    grid = radius_grid(len(rows.plan.columns))
    n = None if unit.name == "person" else rows.n
    return search_radius(rows_within(rows, grid, engine), n, grid, unit, mu, bits)


def rows_within(rows: Rows, grid: FloatArray, engine: Engine) -> IntArray:
    """How many rows are at most as long as each radius: secret."""
    if isinstance(rows, QueriedRows):
        return rows.within(grid)
    histogram = np.zeros(grid.size + 1, dtype=np.int64)
    for part in rows.run(engine, _PieceLengths(tuple(grid.tolist()))):
        histogram += part
    return np.cumsum(histogram[:-1])


def search_radius(
    within: IntArray,
    n: int | None,
    grid: FloatArray,
    unit: Unit,
    mu: float,
    bits: BitSource,
) -> RadiusSearch:
    """Bisection on noisy counts: the only place where the counts meet noise.

    Where the number of rows `n` is secret (None), the first question is for it: all rows lie within the last radius.
    """
    noise = answer_noise(unit, mu)
    noises = iter(draw(noise, questions(unit), bits).tolist())
    asked: list[tuple[float, int]] = []

    def answer(number: int) -> int:
        asked.append((float(grid[number]), int(within[number]) + next(noises)))
        return asked[-1][1]

    n = answer(grid.size - 1) if n is None else n
    found = bisect_radius(answer, grid.size, RADIUS_QUANTILE * n)
    return RadiusSearch(
        mu=mu,
        quantile=RADIUS_QUANTILE,
        noise_scale=noise.scale,
        answers=tuple(asked),
        radius=float(grid[found]),
        total_variation=len(asked) * total_variation(noise),
    )


def answer_noise(unit: Unit, mu: float) -> RoundedGaussian:
    """The noise on each answer, a whole number of rows wide."""
    scale = unit.max_rows * math.sqrt(questions(unit)) / mu
    if not scale <= LARGEST_SCALE / 2:
        raise PlanError(
            f"the search for a clip radius would need noise of {scale:.3g} rows, which 64 bits do not hold. Raise the "
            "budget, or give clip_radius as a number."
        )
    return RoundedGaussian(float(math.ceil(scale * (1 + 1e-15))))  # never too little, whatever was rounded


@dataclass(frozen=True)
class _PieceLengths:
    """How many rows of a piece fall between neighbouring radii; the last entry is for none of them."""

    grid: tuple[float, ...]

    def __call__(self, cells: Cells, start: int, blocks: Iterator[Block]) -> IntArray:
        counts = np.zeros(len(self.grid) + 1, dtype=np.int64)
        for block in blocks:
            between = np.searchsorted(self.grid, row_lengths(cells.unit_box(block)), side="left")
            counts += np.bincount(between, minlength=counts.size)
        return counts
