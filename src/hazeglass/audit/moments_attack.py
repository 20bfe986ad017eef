"""The likelihood-ratio attack on moments: on a whole release, on one of its steps with all of the budget, on the search
for a clip radius, on rows in time, and on all draws of a lifetime together.

An adaptive release is published once, for rows that do not include the changed ones. The partitions, maps, centres,
radii and shares of the budget that came of it are then taken as they are, and two rows are sought that all steps tell
apart. That the loop itself keeps its promise, whatever it decides on the way, is what :class:`LoopAttack` looks at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from hazeglass.audit.attack import Floats, alternating, far_rows, raw_rows
from hazeglass.audit.steps import (
    ENDS,
    PUBLIC,
    SEED,
    CountsView,
    Pair,
    StageStep,
    StageView,
    StepsAttack,
    Sums,
    View,
    farthest,
    in_noise,
    made_up_rows,
    pair_of,
    places_of,
    table_of,
    views_of,
)
from hazeglass.bundle.columns import unit_step
from hazeglass.compute.engines import get_engine
from hazeglass.features.fitting import Counts
from hazeglass.features.marginal import Marginal, first_borders
from hazeglass.features.shaping import first_shape, largest_entry, next_shape
from hazeglass.guarantee.units import RADIUS_SHARE, radius_grid
from hazeglass.publisher.marginals import Encoder, count_noise
from hazeglass.publisher.moments import (
    Drawn,
    NoisyMoments,
    add_noise,
    column_encoder,
    draw_sums,
    plain_stage,
    presence_encoder,
    publish_moments,
    running_stage,
    stage_of,
)
from hazeglass.publisher.noise import BitSource, SecretBits, SeededBits
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Cells, Rows
from hazeglass.publisher.sums import private_radius, rows_within, search_radius

StageKind = Literal["first", "shaped", "presence"]


def attack_moments(plan: Plan, rows: int) -> StepsAttack:
    """The attack on the moments that this plan releases for `rows` rows; persons have as many of them as they may."""
    if plan.adaptive:
        return attack_release(plan, rows)
    mu, radius = plan.guarantee.mu, None
    if plan.clip_radius == "private":
        # The changed rows are equally long, so the search answers alike on both sides: attack what follows it.
        data = table_of(plan, np.tile(pair_of(plan, plain_stage(plan, size_of(plan, rows), mu, 1.0))[0] / 2, (rows, 1)))
        search = mu * math.sqrt(RADIUS_SHARE)
        radius = private_radius(data, plan.unit, search, get_engine("serial"), SecretBits()).radius
        mu *= math.sqrt(1 - RADIUS_SHARE)
    stage = plain_stage(plan, size_of(plan, rows), mu, radius)
    here, there = pair_of(plan, stage)
    # Of the other rows three quarters lie opposite the first changed one and one quarter upon it: where they lie must
    # not matter, and does when rows are centred by the data's own mean, before or after clipping.
    others = np.where(np.arange(rows - len(here)) % 4 == 0, 1.0, -1.0)[:, None] * here[0]
    return _on([StageView(stage, PUBLIC)], plan, (np.vstack([here, others]), np.vstack([there, others])))


def attack_row_number(plan: Plan, rows: int) -> StepsAttack:
    """The attack on one stage by a person who has all their rows under D and none under D'."""
    stage = plain_stage(plan, size_of(plan, rows), plan.guarantee.mu)
    here, _ = pair_of(plan, stage)
    others = np.tile(-here[0], (rows - len(here), 1))
    return _on([StageView(stage, PUBLIC)], plan, (np.vstack([here, others]), others))


def size_of(plan: Plan, rows: int) -> int:
    """The public number behind so many rows: theirs, or that of the persons."""
    return plan.persons or math.ceil(rows / plan.unit.max_rows)


def _on(views: Sequence[View], plan: Plan, boxes: Pair[Floats]) -> StepsAttack:
    here, there = (table_of(plan, box) for box in boxes)
    return StepsAttack(tuple(view.step((here, there)) for view in views))


# ------------------------------------------------------------------------------------------------ adaptive releases


def _typical(plan: Plan, rows: int, missing: float = 0.0) -> tuple[Floats, Drawn, Encoder]:
    """Made-up rows, what their release said, and what its first stage of columns saw them through."""
    others, bits = made_up_rows(plan, rows, missing), SeededBits(SEED)
    drawn = publish_moments(table_of(plan, others), plan, get_engine("serial"), bits)
    assert drawn.marginals is not None
    return others, drawn, column_encoder(plan, drawn.marginals.columns, bits.key())


def attack_release(plan: Plan, rows: int) -> StepsAttack:
    """All steps of one release together: do the shares that each of them was given add up to the promise?"""
    others, drawn, encoder = _typical(plan, rows)
    return _attack_views(plan, views_of(plan, drawn, encoder.key), others, places_of(drawn))


def attack_counts(plan: Plan, rows: int) -> StepsAttack:
    """One round of counts that has the whole budget."""
    p = len(plan.columns)
    borders = [first_borders(unit_step(one, plan.scale), levels=not one.ordered) for one in plan.columns]
    view = CountsView(borders, count_noise(plan.unit, p, plan.guarantee.mu))
    return _attack_views(plan, [view], made_up_rows(plan, rows), np.tile(ENDS[:, None], (1, p)))


def attack_stage(plan: Plan, rows: int, kind: StageKind) -> StepsAttack:
    """One stage of a release that has the whole budget: rows as they are, mapped, or which of their cells are there."""
    others, drawn, _ = _typical(plan, rows, missing=0.1 if kind == "presence" else 0.0)
    places = np.tile([[0.0], [math.nan]], (1, len(plan.columns))) if kind == "presence" else places_of(drawn)
    return _attack_views(plan, [stage_view(plan, drawn, rows, kind)], others, places)


def stage_view(plan: Plan, drawn: Drawn, rows: int, kind: StageKind) -> StageView:
    """What such a stage looks at, by what a release said."""
    assert drawn.marginals is not None
    mu, size, first = plan.guarantee.mu, size_of(plan, rows), drawn.stages[0]
    if kind == "presence":
        encoder = presence_encoder(plan, drawn.marginals.often_missing)
        return StageView(stage_of(plan.unit, size, mu, encoder, first_shape(len(encoder.of), shaped=True)), encoder)
    encoder = column_encoder(plan, drawn.marginals.columns, SeededBits(SEED).key())
    shape = first_shape(encoder.width(len(plan.columns)), shaped=kind == "shaped", beside=sum(encoder.levels))
    if kind == "shaped":
        about, largest = float(first.second_noise_sd), largest_entry(encoder.scale)
        shape = next_shape(shape, first.stage.radius, first.mean, first.second, about, 1, largest)
    return StageView(stage_of(plan.unit, size, mu, encoder, shape), encoder, shape.whole_map)


def _attack_views(plan: Plan, views: Sequence[View], others: Floats, places: Floats) -> StepsAttack:
    """The attack by two rows that are far apart in all views, among others that do not change."""
    unit, cells = plan.unit, plan.unit.name in ("entry", "readings")
    pair = farthest(plan, views, places, [0] if cells else range(len(plan.columns)))
    changed = unit.readings if cells else unit.max_rows
    here, there = (np.vstack([np.tile(row, (changed, 1)), others[changed:]]) for row in pair)
    return _on(views, plan, (here, there))


@dataclass(frozen=True, eq=False)
class LoopAttack:
    """The real publisher, from the first count to the last stage, once a run: slow, and nothing is held fixed.

    What a step looked at is known to whoever sees the release, so each run has its own likelihood ratio. The centre of
    the second stage is a number of its own in the release, and must know no more than the first stage's noisy mean.
    """

    plan: Plan
    sides: Pair[Rows]
    statistics: tuple[str, ...] = ("likelihood ratio", "centre of the second stage")
    cells: int = 1 << 15

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """One release a run, each with bits of its own."""
        return np.array([self._run(side, bits.stream(int(bits.uint64(1)[0]) >> 1)) for _ in range(runs)])

    def _run(self, side: int, bits: BitSource) -> list[float]:
        drawn = publish_moments(self.sides[side], self.plan, get_engine("serial"), bits)
        assert drawn.marginals is not None
        attack = StepsAttack(tuple(view.step(self.sides) for view in views_of(self.plan, drawn, bits.key())))
        released = (*drawn.marginals.counts, *drawn.stages)
        outputs = [step.of_release(one) for step, one in zip(attack.steps, released, strict=True)]
        first = next(step for step in attack.steps if isinstance(step, StageStep))
        half = attack.distance / 2  # runs differ in it: compare like with like
        return [float(attack.of_outputs(outputs)[0]) - half, _centre(drawn.stages[1], first)]


def _centre(second: NoisyMoments, first: StageStep) -> float:
    """The second stage's centre, as a mean that the first one could have released, along what D' does to that."""
    centre = np.array(second.stage.centre)
    mean = centre if second.map is None else np.linalg.solve(second.map, centre)
    under_d = first.sums[0][0] / first.stage.steps
    return float((mean * second.rows - under_d) @ first.move[: centre.size])


def attack_loop(plan: Plan, rows: int) -> LoopAttack:
    """The attack on whole releases, by the two rows that the steps of a typical one tell apart best."""
    others, drawn, encoder = _typical(plan, rows)
    pair = farthest(plan, views_of(plan, drawn, encoder.key), places_of(drawn), range(len(plan.columns)))
    under, neighbour = (table_of(plan, np.vstack([row, others[1:]])) for row in pair)
    return LoopAttack(plan, (under, neighbour))


# ------------------------------------------------------------------------------------------------------------ radius


@dataclass(frozen=True, eq=False)
class RadiusAttack:
    """The private search for a clip radius: one person's rows are all long under D and all short under D'.

    Every answer then moves by max_rows, whatever was asked, so the likelihood ratio is the sum of the answers. `within`
    are the exact counts under D and D'. The search runs one by one, so a run is dear: see `cells`.
    """

    plan: Plan
    n: int
    grid: Floats
    within: Pair[npt.NDArray[np.int64]]
    statistics: tuple[str, ...] = ("sum of the answers",)
    cells: int = 4096

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """One search a run."""
        unit, mu = self.plan.unit, self.plan.guarantee.mu
        n = None if unit.name == "person" else self.n
        searches = (search_radius(self.within[side], n, self.grid, unit, mu, bits) for _ in range(runs))
        return np.array([[sum(answer - self.n for _, answer in found.answers)] for found in searches], dtype=float)


def attack_radius(plan: Plan, n: int) -> RadiusAttack:
    """The attack on a search that spends the whole of the plan's budget."""
    p, m = len(plan.columns), plan.unit.max_rows
    grid = radius_grid(p)
    long, short = np.zeros((n, p)), np.zeros((n, p))
    long[:m] = 1.0
    if plan.unit.name == "person":  # one without rows also moves the answer to how many rows there are
        long = long[m:]
    here, there = (rows_within(table_of(plan, side), grid, get_engine("serial")) for side in (long, short))
    return RadiusAttack(plan, n, grid, (here, there))


# ------------------------------------------------------------------------------------------- scores drawn inside leaves

VALUES = 4  # of every column, from 0: the first and the last are rare
_RARE, _ROWS = 2e-4, 1e6  # how rare, and among how many rows the marginals were counted
OTHERS = 3
_LEARNT = 1 << 14  # runs from which the attacker learns what the sums are on average


@dataclass(frozen=True, eq=False)
class JitterAttack:
    """One stage on few rows of whole-numbered columns, whose scores are drawn inside leaves, anew in every run. Many
    runs are one long table.

    A draw depends on the release's key, the row's number and the column, and on nothing that a cell could change. So
    the distance between neighbours is what it is for any fixed draws, and whoever does not know them learns no more.
    The pair lies at rare values, whose scores are far out and hardly vary, so that the attack comes close although it
    does not know the draws; the other rows lie at common values, whose scores vary most: if a changed cell touched
    them, it would show.

    `rows` are raw cells under D and D', `move` is how far apart the sums are on average, in units of the noise.
    """

    plan: Plan
    view: StageView
    rows: Pair[Floats]
    move: Floats
    statistics: tuple[str, ...] = ("likelihood ratio",)

    @property
    def cells(self) -> int:
        return self.move.size + self.rows[0].size

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """Draws and noise of every run."""
        released = add_noise(*self.sums(side, runs, bits), self.view.stage, bits)
        return (in_noise(self.view.stage, released.mean, released.second, released.rows) @ self.move)[:, None]

    def sums(self, side: int, runs: int, bits: BitSource) -> Sums:
        """Exact sums of every run, each with draws of its own."""
        rows = self.rows[side]
        view = replace(self.view, encoder=replace(self.view.encoder, key=bits.uint64(4).tobytes()))
        block = [np.tile(column, runs) for column in rows.T]
        z = view.lattice(Cells(self.plan), block).T.reshape(runs, len(rows), -1)  # integers below 2^53
        return z.sum(axis=1).astype(np.int64), (np.swapaxes(z, 1, 2) @ z).astype(np.int64), len(rows)

    def mean(self, side: int) -> Floats:
        """What the sums of one side are on average, in units of the noise."""
        stage, (first, second, rows) = self.view.stage, self.sums(side, _LEARNT, SeededBits(side))
        mean, square = first.mean(axis=0) / stage.steps, second.mean(axis=0) / stage.steps**2
        return in_noise(stage, mean, square, np.asarray(rows))


def attack_jitter(plan: Plan) -> JitterAttack:
    """The attack on a stage with the whole budget; the plan's columns are whole numbers below VALUES."""
    p, unit = len(plan.columns), plan.unit
    x, y = far_rows(p, 0.0)[0]
    if unit.name in ("entry", "readings"):
        x, y = np.ones((2, p))
        x[0], x[-1], y[-1] = -1.0, 1 / 3, 1 / 3
        # The last cell is common: if the first one touched its draw, it would show.
    here, there = (np.tile(row, (unit.max_rows * unit.readings, 1)) for row in (x, y))
    others = np.where(np.arange(OTHERS * p).reshape(OTHERS, p) % 3 == 0, 1 / 3, -1 / 3)
    key = SeededBits(0).key()
    encoder = column_encoder(plan, [_marginal(unit_step(column, plan.scale)) for column in plan.columns], key)
    n = 1 + -(-OTHERS // unit.max_rows)
    stage = stage_of(unit, n, plan.guarantee.mu, encoder, first_shape(p, shaped=False))
    under, neighbour = (raw_rows(np.vstack([changed, others]), plan.columns) for changed in (here, there))
    attack = JitterAttack(plan, StageView(stage, encoder), (under, neighbour), np.zeros(0))
    return replace(attack, move=attack.mean(1) - attack.mean(0))


def _marginal(step: float) -> Marginal:
    """A column with two common values and a rare one at either end."""
    shares = np.full(VALUES, (1 - 2 * _RARE) / (VALUES - 2))
    shares[[0, -1]] = _RARE
    return Marginal((Counts(first_borders(step), _ROWS * shares, 0.0, 1.0),), step)


# ------------------------------------------------------------------------------------------------------- rows in time


def attack_stacks(plan: Plan, rows: int) -> StepsAttack:
    """One stage of stacked rows that has the whole budget, and no season is taken off."""
    others, drawn, encoder = _typical(plan, rows)
    shape = first_shape(encoder.width(len(plan.columns)), shaped=False)
    stage = stage_of(plan.unit, size_of(plan, rows), plan.guarantee.mu, encoder, shape)
    return _attack_turned(plan, [StageView(stage, encoder)], others, drawn)


def attack_series(plan: Plan, rows: int) -> StepsAttack:
    """All steps of one release of stacked rows together, those on single rows among them."""
    others, drawn, encoder = _typical(plan, rows)
    return _attack_turned(plan, views_of(plan, drawn, encoder.key), others, drawn)


def _attack_turned(plan: Plan, views: Sequence[View], others: Floats, drawn: Drawn) -> StepsAttack:
    """The attack by rows that turn round among rows like them, by the turn that all views together tell apart best.

    With v for all rows the stacks around a record are (v, v) twice; with -v in the middle they are (-v, v) and (v, -v),
    at a right angle to the first and with the same products as each other. Both move the second moments alike, so that
    for one lag the claim is met but for the mean's part. What sees single rows tells v from -v by their mean alone, and
    better from a row that turned in some columns only, which is why some are tried. For more lags no such rows were
    found, nor for persons, who are charged for 2 L + 1 stacks a row and here move L + 1: the bound is looser there, as
    it is where cells are protected.
    """
    p, unit, lags, series = others.shape[1], plan.unit, plan.stacked, plan.series
    whole = unit.name in ("record", "person")
    turns = sorted({p, -(-3 * p // 4), -(-p // 2)}) if whole else [1]
    # Rows that follow rows of their own person alone stand side by side, and every other one turns.
    alone = series is not None and series.series_column == plan.id_column is not None
    changed, apart = (unit.max_rows, 1 if alone else lags + 1) if whole else (unit.readings, 1)
    places = max(lags, (len(others) - changed * apart) // 2) + np.arange(changed) * apart
    places = places[places < len(others)]
    ids = np.arange(1, len(others) + 1)
    ids[places] = 0
    ids[ids > 0] = 1 + np.arange(np.sum(ids > 0)) // unit.max_rows
    turned = places[::2] if alone else places
    found = []
    for v in (np.ones(p), alternating(p)) if p > 1 else [np.ones(p)]:
        here = others.copy()
        here[places[0] - lags : places[-1] + lags + 1] = v
        side = table_of(plan, here, ids=ids)
        for columns in turns:
            there = here.copy()
            there[turned, :columns] *= -1
            sides = side, table_of(plan, there, ids=ids)
            found.append(StepsAttack(tuple(view.step(sides) for view in views)))
    return max(found, key=lambda attack: attack.distance)


def attack_lifetime(plan: Plan, rows: int) -> StepsAttack:
    """All draws of a lifetime together: a person has all rows in the first period under D, and in another under D'.

    Which one is farthest follows from the coefficients and from what a row measures.
    """
    lifetime = plan.lifetime
    assert lifetime is not None
    stage = running_stage(plan, plan.persons or 0, lifetime)
    r, a, c = stage.radius, stage.mean_weight, np.array(lifetime.coefficients) / lifetime.fine
    longest, product = stage.count_weight**2 + a**2 * r**2 + r**4 / 2, stage.count_weight**2 - a**4 / 2
    columns = [np.concatenate([np.zeros(late), c[: c.size - late]]) for late in range(c.size)]
    apart = [(one @ one + c @ c) * longest - 2 * (c @ one) * product for one in columns]
    late = int(np.argmax(apart))
    pair = pair_of(plan, replace(stage, tau=1.0))
    others = np.tile(-pair[0][0], (rows - plan.unit.max_rows, 1))
    steps = []
    for period in lifetime.periods:
        now = replace(plan, period=period)
        assert now.lifetime is not None
        sides = []
        for changed, at in zip(pair, (0, late), strict=True):
            cells = np.array(lifetime.periods)[[*[at] * len(changed), *(np.arange(len(others)) % c.size)]]
            table = table_of(now, np.vstack([changed, others]), cells)
            sides.append(draw_sums(table, stage, now.lifetime, get_engine("serial")))
        steps.append(StageStep(stage, (sides[0], sides[1]), lifetime.fine))
    return StepsAttack(tuple(steps))
