"""The moments form: exact integer sums of rows and of their products, noised once per stage.

Adaptive releases first count (publisher/marginals.py), then take moments in stages: what a stage released is public, so
the next may map rows by a matrix that follows from it (features/shaping.py, docs/maths/shaping.md). One object holds
the budget of all of them and cannot overspend.

Running releases of persons: one more draw, about all rows so far, beside the draws of the releases before. What those
drew is public, so nothing secret is kept from one to the next: a release repeats the draws of the one before it, as
they stand there, and adds its own. No draw is made twice: the ledger, which is charged for all of them with the first,
lets every period in once and in order (docs/maths/lifetime.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hazeglass.bundle.columns import Column
from hazeglass.bundle.manifest import RadiusSearch, Series, Stage, Standard
from hazeglass.bundle.moments import ReleasedMoments, most_counts, noise_of, running_rows, stage_features, whole_scale
from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Engine
from hazeglass.features.harmonics import SEASON_SHARE, FeatureKind, season_means
from hazeglass.features.marginal import MOST_ROUNDS, PRESENCE_SHARE, Marginal
from hazeglass.features.scores import STEPS
from hazeglass.features.shaping import BOX, LINEAR_STEPS, MOST_STAGES, Shape, first_shape, largest_entry, next_shape
from hazeglass.guarantee.budget import BudgetFilter, Lifetime, running_count_weight
from hazeglass.guarantee.lattice import LARGEST_SCALE, RoundedGaussian, total_variation
from hazeglass.guarantee.units import (
    RADIUS_SHARE,
    Unit,
    count_weight,
    mean_weight,
    moments_distance,
    radius_grid,
    stacks_touched,
)
from hazeglass.publisher.choice import FloatArray, IntArray
from hazeglass.publisher.marginals import (
    Encoder,
    LevelTable,
    NoisyMarginals,
    count_noise,
    marginals_share,
    publish_marginals,
    standard_of,
)
from hazeglass.publisher.noise import BitSource, draw
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.sums import answer_noise, exact_sums, private_radius


@dataclass(frozen=True)
class NoisyMoments:
    """What one stage releases: noisy mean and second moments of its rows y, with the noise's standard deviations.

    `rows` is what the sums were divided by: the public number of rows, or, for persons, a noisy one.
    """

    stage: Stage
    rows: IntArray
    mean: FloatArray
    second: FloatArray
    mean_noise_sd: FloatArray
    second_noise_sd: FloatArray
    diagonal_noise_sd: FloatArray
    map: FloatArray | None = None

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

    def released(self, columns: Sequence[Column]) -> ReleasedMoments:
        """The same with names, as it goes into the bundle."""
        p = self.mean.size
        noise = np.full((p, p), float(self.second_noise_sd))
        np.fill_diagonal(noise, float(self.diagonal_noise_sd))
        features = stage_features(columns, self.stage)
        return ReleasedMoments(features, self.mean, self.second, np.full(p, float(self.mean_noise_sd)), noise, self.map)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Everything a release of moments consists of."""

    stages: tuple[NoisyMoments, ...]
    marginals: NoisyMarginals | None = None
    standard: Standard | None = None
    search: RadiusSearch | None = None
    lifetime: Lifetime | None = None


def publish_moments(rows: Rows, plan: Plan, engine: Engine, bits: BitSource) -> Drawn:
    """Counts, then stages; or one stage on the public scale where the plan is not adaptive."""
    budget = BudgetFilter(plan.guarantee.mu)
    if not plan.adaptive:
        search = None
        if plan.clip_radius == "private":
            search = private_radius(rows, plan.unit, budget.take(RADIUS_SHARE), engine, bits)
        stage = plain_stage(plan, rows.public_size, budget.take(1.0), None if search is None else search.radius)
        return Drawn((_run_stage(rows, stage, Encoder("public", "columns"), engine, bits),), search=search)
    marginals = publish_marginals(rows, plan, engine, bits, budget)
    stages: list[NoisyMoments] = []
    missing = marginals.often_missing
    if len(missing) > 1:
        encoder = presence_encoder(plan, missing)
        share = budget.take(PRESENCE_SHARE)
        shape = first_shape(encoder.width(len(missing)), shaped=True)
        stage = stage_of(plan.unit, rows.public_size, share, encoder, shape)
        stages.append(_run_stage(rows, stage, encoder, engine, bits))
    encoder = column_encoder(plan, marginals.columns, bits.key())
    if plan.series is not None and plan.series.seasons:
        seasons = seasons_encoder(encoder, plan.series)
        shape = first_shape(len(plan.columns), shaped=True, beside=sum(seasons.seasons))
        stage = stage_of(plan.unit, rows.public_size, budget.take(SEASON_SHARE), seasons, shape)
        stages.append(_run_stage(rows, stage, seasons, engine, bits))
        encoder = replace(encoder, means=means_of(stages[-1], plan.scale))
    shaped = encoder.features == "columns" and encoder.box is None
    stages += _shaped_stages(rows, plan, encoder, budget, engine, bits, shaped=shaped)
    return Drawn(tuple(stages), marginals, encoder.standard)


def publish_running(
    rows: Rows, plan: Plan, engine: Engine, bits: BitSource, before: Release | None
) -> tuple[Drawn, list[ReleasedMoments]]:
    """This period's draw and all before it; and the stage that the running sums are."""
    assert plan.lifetime is not None
    assert rows.persons is not None
    stage = running_stage(plan, rows.persons, plan.lifetime)
    noisy = add_noise(*draw_sums(rows, stage, plan.lifetime, engine), stage, bits, plan.lifetime.fine)
    draws = [noisy.released(plan.columns)]
    counts: tuple[int, ...] = (int(noisy.rows),)
    if before is not None and before.manifest.lifetime is not None:
        draws, counts = [*before.draws(), *draws], (*before.manifest.lifetime.counts, *counts)
    lifetime = replace(plan.lifetime, counts=counts)
    most = rows.persons * plan.unit.max_rows
    running = replace(stage, tau=stage.tau * lifetime.error, rows=running_rows(lifetime, most))
    return Drawn((replace(noisy, stage=running),), lifetime=lifetime), draws


def draw_sums(rows: Rows, stage: Stage, lifetime: Lifetime, engine: Engine) -> tuple[IntArray, IntArray, int]:
    """The secret sums that this period's draw is about, in lattice steps of 2^-bits: those of every period so far,
    times their coefficients."""
    first, second = np.zeros(stage.size, dtype=np.int64), np.zeros((stage.size, stage.size), dtype=np.int64)
    number, weights = 0, reversed(lifetime.coefficients[: lifetime.step])
    for weight, own in zip(weights, rows.of_periods(), strict=True):
        sums, products, count = exact_sums(own, stage, Encoder("public", "columns"), engine)
        first, second, number = first + weight * sums, second + weight * products, number + weight * count
    return first, second, number


def seasons_encoder(encoder: Encoder, series: Series) -> Encoder:
    """The columns of single rows beside indicators of their hour and day."""
    return replace(encoder, features="seasons", seasons=series.season_levels, lags=0)


def means_of(noisy: NoisyMoments, scale: str) -> tuple[FloatArray, ...]:
    """What is taken off by season, from a stage's released moments."""
    steps = LINEAR_STEPS if scale == "linear" else STEPS
    return tuple(season_means(noisy.second, noisy.stage.levels, float(noisy.second_noise_sd), steps))


def presence_encoder(plan: Plan, missing: tuple[int, ...]) -> Encoder:
    """Whether the cells of these columns are there."""
    return Encoder(plan.scale, "presence", of=missing, box=1.0 if _boxed(plan.unit) else None, lags=plan.stacked)


def column_encoder(plan: Plan, columns: Sequence[Marginal], key: bytes) -> Encoder:
    """Scores, their cosines, or standardised cells, by what the counts said of every column."""
    box = BOX if _boxed(plan.unit) else None
    if plan.scale == "linear":
        return Encoder("linear", "columns", standard=standard_of(columns), box=box, lags=plan.stacked)
    made = Encoder.of_scores(columns, "cosines" if plan.dependence == "curved" else "columns", key, box)
    return replace(made, lags=plan.stacked)


def _boxed(unit: Unit) -> bool:
    """Whether single cells are protected, so that each is bounded for itself."""
    return unit.name in ("entry", "readings")


def _shaped_stages(
    rows: Rows, plan: Plan, encoder: Encoder, budget: BudgetFilter, engine: Engine, bits: BitSource, *, shaped: bool
) -> Iterator[NoisyMoments]:
    """Stage after stage until the budget is spent; each one's shape follows from what the one before released."""
    size, p = rows.public_size, encoder.width(len(plan.columns))
    shape = first_shape(p, shaped=shaped and p > 1, beside=sum(encoder.levels))
    largest = largest_entry(encoder.scale)
    for number in range(1, MOST_STAGES + 1):
        mu = budget.take(shape.share)
        stage = stage_of(plan.unit, size, mu, encoder, shape)
        noisy = _run_stage(rows, stage, encoder, engine, bits, shape.whole_map)
        yield noisy
        if shape.share == 1.0:
            return
        noise_sd = float(noisy.second_noise_sd)
        shape = next_shape(shape, stage.radius, noisy.mean, noisy.second, noise_sd, number, largest)


def plain_stage(plan: Plan, n: int, mu: float, radius: float | None = None) -> Stage:
    """Rows about the public centre, in the box, or in the ball of the plan's radius (sqrt(p/3) unless it names one)."""
    p = len(plan.columns)
    if plan.unit.name not in ("record", "person"):
        return _stage(plan.unit, n, mu, math.sqrt(p), np.zeros(p), box=1.0)
    if radius is None:
        named = plan.clip_radius if isinstance(plan.clip_radius, float) else None
        radius = math.sqrt(p / 3) if named is None else named
    return _stage(plan.unit, n, mu, radius, np.zeros(p))


def running_stage(plan: Plan, persons: int, lifetime: Lifetime) -> Stage:
    """One draw of a lifetime: a stage whose noise is large enough for all draws together, on finer lattices."""
    one, unit, fine = plain_stage(plan, persons, plan.guarantee.mu), plan.unit, lifetime.fine
    weight, a, radius = running_count_weight(one.radius), one.mean_weight, one.radius
    tau = lifetime.distance(unit.max_rows, radius=radius, mean_weight=a, count_weight=weight) / one.mu
    steps = replace(one, tau=tau * fine).lattice(persons * unit.max_rows * fine)
    return replace(one, tau=tau, steps=steps, count_weight=weight)


def stage_of(unit: Unit, n: int, mu: float, encoder: Encoder, shape: Shape) -> Stage:
    """A stage of an adaptive release that spends `mu` on rows of this shape."""
    centre, levels, lags, box = shape.whole_centre, encoder.levels, encoder.lags, encoder.box
    scored, radius = centre.size - sum(levels), 0.0
    if box is not None or encoder.features == "presence":
        radius = math.sqrt(scored) * (box or 1.0)
    elif scored:
        # Noise on stacks is that of so many times less budget, and the radius follows the noise.
        worth = mu / stacks_touched(unit, lags)
        radius = shape.radius(encoder.features, n, worth, indicators=len(levels))
    kind, of = encoder.features, encoder.of
    made = _stage(unit, n, mu, radius, centre, box=box, features=kind, of=of, levels=levels, lags=lags)
    return replace(made, mapped=shape.map is not None)


def design_stages(plan: Plan, n: int) -> list[Stage]:
    """The stages as far as they are known before the data: the last is typical, with all that is left.

    Refused where 64 bits do not hold their sums.
    """
    mu, p = plan.guarantee.mu, len(plan.columns)
    if plan.adaptive:
        budget = BudgetFilter(mu)
        counting = budget.take(marginals_share(plan, n))
        count_noise(plan.unit, p, counting / 10)  # more than any round has
        kind: FeatureKind = "cosines" if plan.dependence == "curved" else "columns"
        tables = tuple(LevelTable.even(len(one.levels)) for one in plan.columns if not one.ordered)
        encoder = Encoder("scores", kind, tables=tables, box=BOX if _boxed(plan.unit) else None, lags=plan.stacked)
        size = encoder.width(p)
        for share in (0.01, 1.0):  # less and more than any stage has; what lies between behaves like its ends
            shape = first_shape(size, shaped=False, beside=sum(encoder.levels))
            stage = stage_of(plan.unit, n, math.sqrt(share) * budget.left, encoder, shape)
        return [stage]
    if plan.lifetime is not None:
        draw = running_stage(plan, n, plan.lifetime)
        return [replace(draw, tau=draw.tau * plan.lifetime.error)]
    if plan.clip_radius != "private":
        return [plain_stage(plan, n, mu)]
    answer_noise(plan.unit, mu * math.sqrt(RADIUS_SHARE))
    rest, grid = mu * math.sqrt(1 - RADIUS_SHARE), radius_grid(p)
    for radius in (grid[0], grid[-1]):  # whichever the search finds must fit; what lies between behaves like its ends
        plain_stage(plan, n, rest, float(radius))
    return [plain_stage(plan, n, rest)]


def most_draws(plan: Plan) -> int:
    """At most how many draws of noise a release takes; the counts have up to 256 leaves."""
    p, person = len(plan.columns), plan.unit.name == "person"  # then the number of rows is drawn as well
    levels = [len(one.levels) for one in plan.columns if not one.ordered]
    size = (p - len(levels)) * (3 if plan.dependence == "curved" else 1) * (plan.stacked + 1) + sum(levels)
    stage = size + size * (size + 1) // 2 + (person or plan.stacked > 0)
    if not plan.adaptive:
        return stage + 10
    # Seasons have a stage of their own, of each column once and of at most 31 indicators.
    seasons = 0 if plan.series is None or not plan.series.seasons else (p + 31) * (p + 34) // 2
    return MOST_ROUNDS * most_counts(plan.columns) + (MOST_STAGES + 1) * stage + seasons


def most_total_variation(plan: Plan) -> float:
    """Between the release and one with ideal noise, at most.

    How many draws a release takes follows from what the first of them gave. The distance is that of all releases there
    might have been: one that ended early may not state its own few draws.
    """
    times = 1 if plan.lifetime is None else len(plan.lifetime.periods)
    farthest = total_variation(RoundedGaussian(LARGEST_SCALE))  # no scale's draws are farther off
    return times * most_draws(plan) * farthest


def _stage(
    unit: Unit,
    n: int,
    mu: float,
    radius: float,
    centre: FloatArray,
    *,
    box: float | None = None,
    features: FeatureKind = "columns",
    of: tuple[int, ...] = (),
    levels: tuple[int, ...] = (),
    lags: int = 0,
) -> Stage:
    """`n` is the public number of rows, or of persons: each has at most `max_rows` rows, and how many is secret.

    How many stacks there are is secret as well.
    """
    scored, longest = centre.size - sum(levels), math.hypot(radius, math.sqrt(len(levels)))
    weight = mean_weight(longest, n, mu)
    distance = moments_distance(
        unit, columns=scored, radius=radius, mean_weight=weight, box=box or 1.0, indicators=len(levels), lags=lags
    )
    counted = unit.name == "person" or lags > 0
    made = Stage(
        mu=mu,
        radius=radius,
        clipped=box is None,
        mean_weight=weight,
        tau=distance / mu,
        steps=1,
        family=RoundedGaussian.name,
        centre=tuple(centre.tolist()),
        features=features,
        of=of,
        box=box,
        rows=0 if counted else n,
        count_weight=count_weight(longest) if counted else 0.0,
        levels=levels,
        lags=lags,
    )
    return replace(made, steps=made.lattice(n * unit.max_rows))


def _run_stage(
    rows: Rows, stage: Stage, encoder: Encoder, engine: Engine, bits: BitSource, through: FloatArray | None = None
) -> NoisyMoments:
    noisy = add_noise(*exact_sums(rows, stage, encoder, engine, through), stage, bits)
    released = int(np.clip(noisy.rows, *rows.public_range)) if stage.count_weight else rows.n
    return replace(noisy.divided(released), map=through)


def add_noise(
    first: IntArray, second: IntArray, rows: int, stage: Stage, bits: BitSource, fine: int = 1
) -> NoisyMoments:
    """The only place where sums meet noise; nothing before this line may leave the publisher.

    Leading axes, if the sums have any, are independent releases, each with noise of its own: the audit runs many. Where
    all lattices are `fine` times as fine as the stage says, so is that of the number of rows.
    """
    p, steps, squares = first.shape[-1], stage.steps * fine, stage.steps**2 * fine
    on_mean, on_diagonal, off_diagonal = noise_of(stage, fine)
    upper, lower = np.triu_indices(p, 1)
    releases, diagonal = first.shape[:-1], np.arange(p)
    noise = np.zeros(second.shape, dtype=np.int64)
    noise[..., upper, lower] = _draw(off_diagonal, (*releases, upper.size), bits)
    noise[..., lower, upper] = noise[..., upper, lower]
    noise[..., diagonal, diagonal] = _draw(on_diagonal, first.shape, bits)
    noisy_first = first + _draw(on_mean, first.shape, bits)
    count = np.full(releases, rows)
    if stage.count_weight:
        count = count + _draw(RoundedGaussian(whole_scale(stage.tau * fine / stage.count_weight)), releases, bits)
    return NoisyMoments(
        stage=stage,
        rows=count,
        mean=noisy_first / steps,
        second=(second + noise) / squares,
        mean_noise_sd=np.full(releases, math.sqrt(on_mean.variance) / steps),
        second_noise_sd=np.full(releases, math.sqrt(off_diagonal.variance) / squares),
        diagonal_noise_sd=np.full(releases, math.sqrt(on_diagonal.variance) / squares),
    )


def _draw(noise: RoundedGaussian, shape: tuple[int, ...], bits: BitSource) -> IntArray:
    return draw(noise, math.prod(shape), bits).reshape(shape)
