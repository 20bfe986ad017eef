"""A clip radius bought from the data: a quantile of the row lengths, by noisy bisection.

Candidate radii form a public grid. Each step of a bisection asks how many rows are at most that long; replacing one row
changes the answer by at most 1 (one person: by at most max_rows), so rounded Gaussian noise of scale
max_rows * sqrt(steps) / mu on each answer makes all of them together mu-GDP, however the questions depend on the
answers (adaptive composition). Only the noisy answers are used and released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import RadiusSearch
from hazeglass.compute.engines import Engine
from hazeglass.errors import PlanError
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.lattice import LARGEST_SCALE, RoundedGaussian
from hazeglass.guarantee.sensitivity import SEARCH_STEPS, Unit, bisect_radius, questions, radius_grid
from hazeglass.publisher.clip import row_lengths
from hazeglass.publisher.noise import draw, total_variation
from hazeglass.publisher.randomness import BitSource
from hazeglass.publisher.rows import Block, Cells, Rows

__all__ = [
    "RADIUS_SHARE",
    "SEARCH_STEPS",
    "answer_noise",
    "private_radius",
    "questions",
    "radius_grid",
    "rows_within",
    "search_radius",
]

RADIUS_SHARE = 0.05
_QUANTILE = 0.95


def private_radius(rows: Rows, unit: Unit, guarantee: GaussianDP, engine: Engine, bits: BitSource) -> RadiusSearch:
    """The smallest radius of the grid that seems to hold 95 % of the rows."""
    grid = radius_grid(len(rows.plan.columns))
    n = None if unit.name == "person" else rows.n
    return search_radius(rows_within(rows, grid, engine), n, grid, unit, guarantee, bits)


def rows_within(rows: Rows, grid: npt.NDArray[np.float64], engine: Engine) -> npt.NDArray[np.int64]:
    """How many rows are at most as long as each radius: secret."""
    histogram = np.zeros(grid.size + 1, dtype=np.int64)
    for part in rows.run(engine, _PieceLengths(tuple(grid.tolist()))):
        histogram += part
    return np.cumsum(histogram[:-1])


def search_radius(
    within: npt.NDArray[np.int64],
    n: int | None,
    grid: npt.NDArray[np.float64],
    unit: Unit,
    guarantee: GaussianDP,
    bits: BitSource,
) -> RadiusSearch:
    """Bisection on noisy counts: the only place where the counts meet noise.

    Where the number of rows `n` is secret (None), the first question is for it: all rows lie within the last radius.
    """
    noise = answer_noise(unit, guarantee)
    noises = iter(draw(noise, questions(unit), bits).tolist())
    asked: list[tuple[float, int]] = []

    def answer(number: int) -> int:
        asked.append((float(grid[number]), int(within[number]) + next(noises)))
        return asked[-1][1]

    n = answer(grid.size - 1) if n is None else n
    found = bisect_radius(answer, grid.size, _QUANTILE * n)
    return RadiusSearch(
        mu=guarantee.mu,
        quantile=_QUANTILE,
        noise_scale=noise.scale,
        answers=tuple(asked),
        radius=float(grid[found]),
        total_variation=len(asked) * total_variation(noise),
    )


def answer_noise(unit: Unit, guarantee: GaussianDP) -> RoundedGaussian:
    """The noise on each answer, a whole number of rows wide."""
    scale = unit.max_rows * math.sqrt(questions(unit)) / guarantee.mu
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

    def __call__(self, cells: Cells, start: int, blocks: Iterator[Block]) -> npt.NDArray[np.int64]:
        counts = np.zeros(len(self.grid) + 1, dtype=np.int64)
        for block in blocks:
            between = np.searchsorted(self.grid, row_lengths(cells.unit_box(block)), side="left")
            counts += np.bincount(between, minlength=counts.size)
        return counts
