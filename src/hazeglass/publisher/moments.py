"""The moments form: exact integer sums of rows and of their products, noised once per stage.

Stage values are public once released, so a second stage may recentre and rescale by the first (docs/maths/adaptive.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import RadiusSearch, Stage
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.compute.engines import Engine
from hazeglass.errors import DataError, PlanError
from hazeglass.features.harmonics import DEGREES, FeatureKind, features_of, to_features
from hazeglass.features.standardise import standardisation
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.lattice import RoundedGaussian
from hazeglass.guarantee.units import Unit, count_weight, fewest_steps_in_ball, mean_weight, moments_distance
from hazeglass.publisher.clip import (
    RADIUS_SHARE,
    answer_noise,
    clip_to_lattice,
    private_radius,
    radius_grid,
    standardise_to_lattice,
)
from hazeglass.publisher.noise import draw, total_variation
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.randomness import BitSource
from hazeglass.publisher.rows import Block, Cells, Rows

__all__ = [
    "NoisyMoments",
    "PieceSums",
    "add_noise",
    "design_stages",
    "exact_sums",
    "first_stage",
    "lattice_rows",
    "publish_moments",
    "second_stage",
]

FIRST_STAGE_SHARE = 0.1
_BITS = 16
_SUM_BITS = 61
_SMALLEST_RADIUS = 1e-6  # smaller rows would need more lattice steps than 64 bits hold
_TILE_CELLS = 1 << 18
_FEWEST_TILE_ROWS, _MOST_TILE_ROWS = 1 << 10, 1 << 14

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NoisyMoments:
    """What one stage releases: noisy mean and second moments of its rows x, with the noise's standard deviations.

    `rows` is what the sums were divided by: the public number of rows, or, for persons, a noisy one.
    """

    stage: Stage
    rows: IntArray
    mean: FloatArray
    second: FloatArray
    mean_noise_sd: FloatArray
    second_noise_sd: FloatArray
    diagonal_noise_sd: FloatArray
    total_variation: float

    def divided(self, rows: int | IntArray) -> NoisyMoments:
        """Sums become means: divided by the number of rows as it is released."""
        rows = np.asarray(rows)
        return replace(
            self,
            stage=replace(self.stage, rows=int(rows)) if rows.ndim == 0 else self.stage,
            rows=rows,
            mean=self.mean / rows[..., None],
            second=self.second / rows[..., None, None],
            mean_noise_sd=self.mean_noise_sd / rows,
            second_noise_sd=self.second_noise_sd / rows,
            diagonal_noise_sd=self.diagonal_noise_sd / rows,
        )

    def standardisation(self) -> tuple[FloatArray, FloatArray]:
        """Centre and scale for a stage that follows."""
        squares = np.diagonal(self.second, axis1=-2, axis2=-1)
        return standardisation(self.mean, squares, self.mean_noise_sd[..., None], self.diagonal_noise_sd[..., None])

    def released(self, names: tuple[str, ...]) -> ReleasedMoments:
        """The same with names, as it goes into the bundle."""
        p = self.mean.size
        noise = np.full((p, p), float(self.second_noise_sd))
        np.fill_diagonal(noise, float(self.diagonal_noise_sd))
        features = features_of(names, self.stage.features)
        return ReleasedMoments(features, self.mean, self.second, np.full(p, float(self.mean_noise_sd)), noise)


def publish_moments(
    rows: Rows, plan: Plan, engine: Engine, bits: BitSource
) -> tuple[list[NoisyMoments], RadiusSearch | None]:
    """One stage, or two when the plan is adaptive; before them the search for a radius when the plan asks for one."""
    size = rows.public_size
    if plan.adaptive:
        first = _run_stage(rows, first_stage(plan, size, plan.guarantee.share(FIRST_STAGE_SHARE)), engine, bits)
        return [first, _run_stage(rows, second_stage(plan, size, first), engine, bits)], None
    search, guarantee, radius = None, plan.guarantee, None
    if plan.clip_radius == "private":
        search = private_radius(rows, plan.unit, plan.guarantee.share(RADIUS_SHARE), engine, bits)
        guarantee, radius = plan.guarantee.share(1 - RADIUS_SHARE), search.radius
    return [_run_stage(rows, first_stage(plan, size, guarantee, radius), engine, bits)], search


def first_stage(plan: Plan, n: int, guarantee: GaussianDP, radius: float | None = None) -> Stage:
    """Rows about the public centre, in the box, or in the ball of the plan's radius (sqrt(p/3) unless it names one)."""
    p = len(plan.columns)
    clipped = plan.unit.name in ("record", "person")
    if not clipped:
        radius = math.sqrt(p)
    elif radius is None:
        named = plan.clip_radius if isinstance(plan.clip_radius, float) else None
        radius = math.sqrt(p / 3) if named is None else named
    return _stage(plan.unit, n, guarantee, radius, clipped, np.zeros(p), np.ones(p))


def second_stage(plan: Plan, n: int, first: NoisyMoments | None) -> Stage:
    """Rows standardised by the first stage's released means and variances (None: not known yet).

    They are clipped to the root mean square length of what is summed: sqrt(p) for p standardised columns, sqrt(3p) for
    their Hermite functions.
    """
    p = len(plan.columns)
    features: FeatureKind = "hermite" if plan.dependence == "curved" else "linear"
    centre, scale = (np.zeros(p), np.ones(p)) if first is None else first.standardisation()
    guarantee = plan.guarantee.share(1 - FIRST_STAGE_SHARE)
    return _stage(plan.unit, n, guarantee, math.sqrt(p * DEGREES[features]), True, centre, scale, features)


def design_stages(plan: Plan, n: int) -> list[Stage]:
    """The stages as far as they are known before the data; refused where 64 bits do not hold their sums."""
    if plan.adaptive:
        return [first_stage(plan, n, plan.guarantee.share(FIRST_STAGE_SHARE)), second_stage(plan, n, None)]
    if plan.clip_radius != "private":
        return [first_stage(plan, n, plan.guarantee)]
    answer_noise(plan.unit, plan.guarantee.share(RADIUS_SHARE))
    rest, grid = plan.guarantee.share(1 - RADIUS_SHARE), radius_grid(len(plan.columns))
    for radius in (grid[0], grid[-1]):  # whichever the search finds must fit; what lies between behaves like its ends
        first_stage(plan, n, rest, float(radius))
    return [first_stage(plan, n, rest)]


def _stage(
    unit: Unit,
    n: int,
    guarantee: GaussianDP,
    radius: float,
    clipped: bool,
    centre: FloatArray,
    scale: FloatArray,
    features: FeatureKind = "linear",
) -> Stage:
    """`n` is the public number of rows, or of persons: each has at most `max_rows` rows, and how many is secret."""
    weight = mean_weight(radius, n, guarantee.mu)
    tau = moments_distance(unit, columns=centre.size, radius=radius, mean_weight=weight) / guarantee.mu
    largest = radius if clipped else 1.0
    fewest = fewest_steps_in_ball(centre.size * DEGREES[features], "moments") if clipped else 1.0
    person = unit.name == "person"
    return Stage(
        mu=guarantee.mu,
        radius=radius,
        clipped=clipped,
        mean_weight=weight,
        tau=tau,
        steps=_steps(n * unit.max_rows, largest, tau, weight, fewest),
        family=RoundedGaussian.name,
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        features=features,
        rows=0 if person else n,
        count_weight=count_weight(radius) if person else 0.0,
    )


def _steps(n: int, largest: float, tau: float, weight: float, fewest: float) -> int:
    """Lattice steps per unit: 16 bits for the largest coordinate, fewer when the sums would not fit 64 bits."""
    if not largest >= _SMALLEST_RADIUS:
        raise PlanError(f"clip_radius must be at least {_SMALLEST_RADIUS:g}, got {largest:g}. Raise it.")
    for bits in range(_BITS, 5, -1):
        steps = int(2**bits / largest)
        largest_sum = n * (steps * largest) ** 2
        largest_noise = 20 * tau * max(steps**2, steps / weight if weight else math.inf)
        if steps >= 1 and steps * largest >= fewest and largest_sum + largest_noise < 2**_SUM_BITS:
            return steps
    raise DataError(f"{n} rows at this budget do not fit the 64-bit sums. Publish fewer rows, or raise epsilon.")


def _run_stage(rows: Rows, stage: Stage, engine: Engine, bits: BitSource) -> NoisyMoments:
    noisy = add_noise(*exact_sums(rows, stage, engine), rows.n, stage, bits)
    released = int(np.clip(noisy.rows, *rows.public_range)) if stage.count_weight else rows.n
    return noisy.divided(released)


def exact_sums(rows: Rows, stage: Stage, engine: Engine) -> tuple[IntArray, IntArray]:
    """The secret sums of the stage's rows and of their products, in lattice steps."""
    features = len(stage.centre) * DEGREES[stage.features]
    first, second = np.zeros(features, dtype=np.int64), np.zeros((features, features), dtype=np.int64)
    for part_first, part_second in rows.run(engine, PieceSums(stage)):
        first += part_first
        second += part_second
    return first, second


def lattice_rows(
    unit_box: FloatArray, centre: FloatArray, scale: FloatArray, stage: Stage, out: FloatArray | None = None
) -> FloatArray:
    """Rows as the stage sums them: standardised, as features, clipped, on the lattice; in `out` where they fit it."""
    radius = stage.radius if stage.clipped else None
    if stage.features == "linear" and centre.ndim == 1:
        return standardise_to_lattice(unit_box, centre, scale, steps=stage.steps, radius=radius, out=out)
    return clip_to_lattice(to_features((unit_box - centre) / scale, stage.features), steps=stage.steps, radius=radius)


@dataclass(frozen=True)
class PieceSums:
    """The sums of one piece's rows, as integers: adding pieces in any order gives the same bits."""

    stage: Stage

    def __call__(self, cells: Cells, start: int, blocks: Iterator[Block]) -> tuple[IntArray, IntArray]:
        """Sum up, a few thousand rows at a time, so that they stay in the processor's cache."""
        centre, scale = np.array(self.stage.centre), np.array(self.stage.scale)
        features = centre.size * DEGREES[self.stage.features]
        first, second = np.zeros(features, dtype=np.int64), np.zeros((features, features), dtype=np.int64)
        memory = np.empty((centre.size, _tile_rows(features)))
        for block in blocks:
            # At most 2^16 rows of 16-bit numbers: every partial sum is an integer below 2^53, so the product is exact
            # and the same bits come out whatever the order of summation.
            for tile in _tiles(block, features):
                box = cells.unit_box(tile, out=memory if tile[0].size == memory.shape[1] else None)
                z = lattice_rows(box, centre, scale, self.stage, out=box)
                first += z.sum(axis=0).astype(np.int64)
                second += (z.T @ z).astype(np.int64)
        return first, second


def _tile_rows(features: int) -> int:
    return max(_FEWEST_TILE_ROWS, min(_MOST_TILE_ROWS, _TILE_CELLS // features))


def _tiles(block: Block, features: int) -> Iterator[Block]:
    """The block again, in stretches of rows."""
    rows = _tile_rows(features)
    for start in range(0, block[0].size, rows):
        yield [column[start : start + rows] for column in block]


def add_noise(first: IntArray, second: IntArray, rows: int, stage: Stage, bits: BitSource) -> NoisyMoments:
    """The only place where sums meet noise; nothing before this line may leave the publisher.

    Leading axes, if the sums have any, are independent releases, each with noise of its own: the audit runs many.
    """
    p, steps = first.shape[-1], stage.steps
    on_mean = RoundedGaussian(_whole(stage.tau * steps / stage.mean_weight))
    off_diagonal = RoundedGaussian(_whole(stage.tau * steps**2))
    on_diagonal = RoundedGaussian(_whole(math.sqrt(2) * stage.tau * steps**2))
    upper, lower = np.triu_indices(p, 1)
    releases, diagonal = first.shape[:-1], np.arange(p)
    noise = np.zeros(second.shape, dtype=np.int64)
    noise[..., upper, lower] = _draw(off_diagonal, (*releases, upper.size), bits)
    noise[..., lower, upper] = noise[..., upper, lower]
    noise[..., diagonal, diagonal] = _draw(on_diagonal, first.shape, bits)
    noisy_first, loss = first + _draw(on_mean, first.shape, bits), 0.0
    count = np.full(releases, rows)
    if stage.count_weight:
        on_count = RoundedGaussian(_whole(stage.tau / stage.count_weight))
        count, loss = count + _draw(on_count, releases, bits), total_variation(on_count)
    return NoisyMoments(
        stage=stage,
        rows=count,
        mean=noisy_first / steps,
        second=(second + noise) / steps**2,
        mean_noise_sd=np.full(releases, math.sqrt(on_mean.variance) / steps),
        second_noise_sd=np.full(releases, math.sqrt(off_diagonal.variance) / steps**2),
        diagonal_noise_sd=np.full(releases, math.sqrt(on_diagonal.variance) / steps**2),
        total_variation=loss
        + p * total_variation(on_mean)
        + upper.size * total_variation(off_diagonal)
        + p * total_variation(on_diagonal),
    )


def _draw(noise: RoundedGaussian, shape: tuple[int, ...], bits: BitSource) -> IntArray:
    return draw(noise, math.prod(shape), bits).reshape(shape)


def _whole(scale: float) -> float:
    """The next whole number: never too little noise, and exact."""
    return float(math.ceil(scale * (1 + 1e-15)))
