"""The table form: every cell, rounded to a public lattice, plus noise on the same lattice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.columns import CellNoise, Column, origins, response_of
from hazeglass.errors import InputError, PlanError
from hazeglass.guarantee.gdp import RandomisedResponse
from hazeglass.guarantee.lattice import (
    LARGEST_SCALE,
    SMALLEST_SCALE,
    TAIL_SCALES,
    DiscreteGaussian,
    RoundedGaussian,
    lattice_noise,
    total_variation,
)
from hazeglass.guarantee.units import CELL_UNITS, fewest_steps_in_ball, table_distance
from hazeglass.publisher.noise import BitSource, draw, draw_response
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Block
from hazeglass.publisher.sums import clip_to_lattice

__all__ = ["TableMechanism"]

# The noise is about this many lattice steps wide, so that rounding the data loses nothing beside it.
_NOISE_STEPS = 1000
_FEWEST_STEPS = 16
_SCALE_FRACTION = 2.0**20
_SMALLEST_MU = 1e-300  # needs more noise than anything holds: a column says so, instead of dividing by 0
_MOST_STEPS = 2.0**50  # in half a column's range: a cell's place on the lattice is still an exact float
_LARGEST_WHOLE = 2**53  # up to here every whole number is a float of its own, so that a reader sees what was drawn

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TableMechanism:
    """Columns with their lattice and noise, chosen from the plan and the number of rows alone."""

    columns: tuple[Column, ...]
    clip_radius: float | None

    @classmethod
    def design(cls, plan: Plan, rows: int) -> TableMechanism:
        """Choose each column's lattice and the noise that keeps the plan's promise."""
        radius = None if plan.clip_radius is None else float(plan.clip_radius)
        p, made_of = len(plan.columns), origins(plan.columns)
        distance = table_distance(replace(plan.unit, together=1), columns=p, rows=rows, radius=radius)
        # What a change of a cell across its whole range may cost, so that a whole unit costs mu. Where a unit is cells
        # of one column, the columns that are made of it share that.
        mu_cell = max(2 * plan.guarantee.mu / distance, _SMALLEST_MU)
        shares = [made_of.count(name) if plan.unit.name in CELL_UNITS else 1 for name in made_of]
        both = zip(plan.columns, shares, strict=True)
        return cls(tuple(_with_noise(one, mu_cell / math.sqrt(share), p, radius) for one, share in both), radius)

    def noise(self, rows: int, bits: BitSource) -> list[IntArray]:
        """The noise of some rows, in lattice steps or levels, column by column."""
        return [
            draw_response(response_of(column), rows, bits)
            if column.cell_noise is None
            else draw(lattice_noise(column.cell_noise.family, column.cell_noise.scale), rows, bits)
            for column in self.columns
        ]

    def release(self, raw: Block, unit_box: FloatArray, noise: Sequence[IntArray]) -> list[FloatArray | IntArray]:
        """Noisy columns of one block: the only place where cells meet noise."""
        if self.clip_radius is not None:
            unit_box = self._clipped(unit_box)
        return [
            _noisy_levels(column, raw[k], noise[k])
            if column.cell_noise is None
            else _noisy_integers(column, raw[k], noise[k])
            if self.keeps_integers(column)
            else _noisy_reals(column, unit_box[:, k], noise[k])
            for k, column in enumerate(self.columns)
        ]

    def keeps_integers(self, column: Column) -> bool:
        """Whether the column is released as integers."""
        return _keeps_integers(column, clipped=self.clip_radius is not None)

    def total_variation(self) -> float:
        """Bound on the sampler's distance from the ideal, for one row; responses are drawn exactly."""
        return sum(
            total_variation(lattice_noise(c.cell_noise.family, c.cell_noise.scale))
            for c in self.columns
            if c.cell_noise
        )

    def _clipped(self, unit_box: FloatArray) -> FloatArray:
        """Rows inside the ball, already on the lattice all columns share when rows are clipped."""
        assert self.clip_radius is not None
        noise, half = self.columns[0].cell_noise, self.columns[0].half_width
        assert noise is not None
        steps = round(half / noise.step)
        return clip_to_lattice(unit_box, steps=steps, radius=self.clip_radius) / steps


def _with_noise(column: Column, mu_cell: float, columns: int, radius: float | None) -> Column:
    if column.kind != "categorical":
        return replace(column, cell_noise=_cell_noise(column, mu_cell, columns, radius))
    try:
        law = RandomisedResponse.for_mu(len(column.levels) + 1, mu_cell)
    except InputError as error:
        raise PlanError(f"column {column.name!r}: {error}") from None
    return replace(column, response=law.other)


def _cell_noise(column: Column, mu_cell: float, columns: int, radius: float | None) -> CellNoise:
    """Refused, from public numbers alone, where 64 bits do not hold what would be released."""
    if _keeps_integers(column, clipped=radius is not None):
        return _integer_noise(column, mu_cell)
    in_ball = 0.0 if radius is None else fewest_steps_in_ball(columns, "table") / radius
    fewest = max(_FEWEST_STEPS, in_ball)
    wanted = max(fewest, _NOISE_STEPS * mu_cell / 2)
    if not wanted <= _MOST_STEPS:
        remedy = "Lower the budget." if radius is None else "Raise clip_radius, or lower the budget."
        raise PlanError(f"column {column.name!r} would need {wanted:.3g} lattice steps, and 2^50 is the most. {remedy}")
    steps = max(math.ceil(fewest), math.floor(wanted))
    noise = RoundedGaussian(_checked_scale(column, 2 * steps / mu_cell))
    step = column.half_width / steps
    spacing = float(np.spacing(abs(column.centre) + column.half_width))
    if noise.scale * step < 4 * spacing:
        raise PlanError(
            f"column {column.name!r}: its bounds are so far from 0, for their distance, that the noise of standard "
            f"deviation {noise.scale * step:.3g} would be lost in the rounding of 64-bit numbers ({spacing:.3g}). "
            "Subtract a public constant from the column, or lower the budget."
        )
    return CellNoise(noise.name, noise.scale, step, column.centre, noise.variance * step**2)


def _integer_noise(column: Column, mu_cell: float) -> CellNoise:
    """Integer columns keep their own lattice, coarsened only where the noise dwarfs a step of one."""
    width = int(column.upper) - int(column.lower)
    step = max(1, math.floor(min(width / mu_cell / _NOISE_STEPS, width / (2 * _FEWEST_STEPS))))
    span = math.ceil(width / step)
    scale = _checked_scale(column, span / mu_cell)
    noise: RoundedGaussian | DiscreteGaussian = RoundedGaussian(scale)
    if column.noise == "discrete":
        noise = DiscreteGaussian(scale)
        while noise.mu(span) > mu_cell:
            noise = DiscreteGaussian(_rounded_up(noise.scale * (noise.mu(span) / mu_cell)) + 1 / _SCALE_FRACTION)
    farthest = max(abs(int(column.lower)), abs(int(column.upper)))
    if farthest + step * (span + math.ceil((TAIL_SCALES + 1) * Fraction(noise.scale))) > _LARGEST_WHOLE:
        raise PlanError(
            f"column {column.name!r} is released as integers, and with noise of standard deviation "
            f"{noise.scale * step:.3g} they would lie beyond 2^53, where a 64-bit number no longer tells one from the "
            'next. Raise the budget, narrow the bounds, or use kind = "continuous".'
        )
    return CellNoise(noise.name, noise.scale, float(step), column.lower, noise.variance * step**2)


def _checked_scale(column: Column, scale: float) -> float:
    """The scale, rounded up, where there is a noise of that scale."""
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE / 2:
        small = scale < SMALLEST_SCALE
        raise PlanError(
            f"column {column.name!r}: this budget asks for noise of {scale:.3g} lattice steps, which is "
            f"{'no noise at all. Lower' if small else 'more than 64 bits hold. Raise'} the budget."
        )
    return _rounded_up(scale)


def _rounded_up(scale: float) -> float:
    """The next multiple of 2^-20: an exact binary fraction that is never too little noise."""
    return math.ceil(scale * (1 + 1e-15) * _SCALE_FRACTION) / _SCALE_FRACTION


def _keeps_integers(column: Column, *, clipped: bool) -> bool:
    """A transform, or a ball shared with other columns, leaves an integer column no lattice of its own."""
    return column.whole and not clipped


def _noisy_levels(column: Column, raw: FloatArray, beyond: IntArray) -> IntArray:
    """A level is counted on round the levels, behind which stands missing."""
    missing = len(column.levels)
    place = np.rint(np.nan_to_num(np.clip(raw, 0, missing - 1), nan=missing)).astype(np.int64)
    return (place + beyond) % (missing + 1)


def _noisy_integers(column: Column, raw: FloatArray, noise: IntArray) -> IntArray:
    step = _step(column)
    middle = math.floor((column.lower + column.upper) / 2)
    cells = np.nan_to_num(np.clip(raw, column.lower, column.upper), nan=middle)
    index = np.rint((cells - column.lower) / step).astype(np.int64)
    return int(column.lower) + int(step) * (index + noise)


def _noisy_reals(column: Column, unit_box: FloatArray, noise: IntArray) -> FloatArray:
    step = _step(column)
    index = np.rint(unit_box * round(column.half_width / step)).astype(np.int64)
    return np.asarray(column.centre + step * (index + noise), dtype=np.float64)


def _step(column: Column) -> float:
    assert column.cell_noise is not None
    return column.cell_noise.step
