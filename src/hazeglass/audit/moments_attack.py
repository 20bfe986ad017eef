"""The likelihood-ratio attack on moments: on a whole release, on one of its steps with all of the budget, and on the
search for a clip radius.

An adaptive release is published once, for rows that do not include the changed ones. The partitions, maps, centres,
radii and shares of the budget that came of it are then taken as they are, and two rows are sought that all steps tell
apart. That the loop itself keeps its promise, whatever it decides on the way, is what :class:`LoopAttack` looks at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from hazeglass.audit.attack import far_rows, order_cells, raw_rows, with_own_cells
from hazeglass.audit.steps import CountsStep, CountsView, Floats, Pair, StageStep, StageView, Step, View, farthest
from hazeglass.bundle.columns import Column, unit_step
from hazeglass.bundle.manifest import Stage
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.compute.warehouse import Warehouse
from hazeglass.features.fitting import Counts
from hazeglass.features.marginal import first_borders
from hazeglass.features.shaping import first_shape, largest_entry, next_shape
from hazeglass.guarantee.lattice import RoundedGaussian
from hazeglass.guarantee.units import RADIUS_SHARE, radius_grid
from hazeglass.publisher.marginals import Encoder, count_noise
from hazeglass.publisher.moments import (
    Drawn,
    NoisyMoments,
    column_encoder,
    means_of,
    plain_stage,
    presence_encoder,
    publish_moments,
    seasons_encoder,
    stage_of,
)
from hazeglass.publisher.noise import BitSource, SecretBits, SeededBits
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.sums import private_radius, rows_within, search_radius
from hazeglass.publisher.warehouse import QueriedRows

StageKind = Literal["first", "shaped", "presence"]
_PUBLIC = Encoder("public", "columns")
_SPREAD, _COMMON = 0.05, 0.95  # of the other rows: narrow, so that changed rows are long, and strongly dependent
_SCORES = np.linspace(-3.5, 3.5, 15)
_ENDS = np.array([-1.0, -0.5, -0.25, 0.25, 0.5, 1.0])
SEED = 19  # of what is made up and of the release that the shapes come from; the attack's own noise has none


@dataclass(frozen=True, eq=False)
class StepsAttack:
    """One step, or several of the same release, given what each of them looks at.

    All likelihood ratios added show whether the promises compose as stated. The contrast of two steps of equal size,
    each in units of its noise, has no business telling D from D' better; where they share noise it does, because the
    noise cancels.
    """

    steps: tuple[Step, ...]

    @property
    def statistics(self) -> tuple[str, ...]:
        return ("likelihood ratio", *(f"contrast of steps {i + 1} and {i + 2}" for i in self._alike))

    @property
    def cells(self) -> int:
        return sum(step.move.size for step in self.steps)

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """All steps of every run."""
        return self.of_outputs([step.outputs(side, runs, bits) for step in self.steps])

    def of_outputs(self, outputs: Sequence[Floats]) -> Floats:
        """The statistics of what the steps released, each in units of its noise."""
        moves = [step.move for step in self.steps]
        ratio = sum(output @ move for output, move in zip(outputs, moves, strict=True))
        contrasts = [(outputs[i + 1] - outputs[i]) @ (moves[i + 1] - moves[i]) for i in self._alike]
        return np.stack([np.asarray(ratio), *contrasts], axis=-1)

    @property
    def _alike(self) -> list[int]:
        """Steps that have as many numbers as the next one."""
        sizes = [step.move.size for step in self.steps]
        return [i for i, (one, other) in enumerate(pairwise(sizes)) if one == other]


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
    return _on([StageView(stage, _PUBLIC)], plan, (np.vstack([here, others]), np.vstack([there, others])))


def attack_row_number(plan: Plan, rows: int) -> StepsAttack:
    """The attack on one stage by a person who has all their rows under D and none under D'."""
    stage = plain_stage(plan, size_of(plan, rows), plan.guarantee.mu)
    here, _ = pair_of(plan, stage)
    others = np.tile(-here[0], (rows - len(here), 1))
    return _on([StageView(stage, _PUBLIC)], plan, (np.vstack([here, others]), others))


def size_of(plan: Plan, rows: int) -> int:
    """The public number behind so many rows: theirs, or that of the persons."""
    return plan.persons or math.ceil(rows / plan.unit.max_rows)


def _on(views: Sequence[View], plan: Plan, boxes: Pair[Floats]) -> StepsAttack:
    here, there = (table_of(plan, box) for box in boxes)
    return StepsAttack(tuple(view.step((here, there)) for view in views))


def pair_of(plan: Plan, stage: Stage) -> Pair[Floats]:
    """The changed rows of a stage on the public scale, under D and D'."""
    p = len(plan.columns)
    if plan.unit.name in ("entry", "readings"):  # one column of otherwise equal rows, from one end to the other
        row = np.ones(p)
        row[0] = -1.0
        return np.tile(row, (plan.unit.readings, 1)), np.ones((plan.unit.readings, p))
    view, pairs = StageView(stage, _PUBLIC), far_rows(p, (stage.mean_weight / stage.radius) ** 2)
    x, y = max(pairs, key=lambda pair: float(view.apart(plan, pair[0][None], pair[1][None])[0]))
    return np.tile(x, (plan.unit.max_rows, 1)), np.tile(y, (plan.unit.max_rows, 1))


# ------------------------------------------------------------------------------------------------ adaptive releases


def attack_release(plan: Plan, rows: int) -> StepsAttack:
    """All steps of one release together: do the shares that each of them was given add up to the promise?"""
    others = made_up_rows(plan, rows)
    drawn = publish_moments(table_of(plan, others), plan, get_engine("serial"), SeededBits(SEED))
    return _attack_views(plan, views_of(plan, drawn, SeededBits(SEED).key()), others, places_of(drawn))


def attack_counts(plan: Plan, rows: int) -> StepsAttack:
    """One round of counts that has the whole budget."""
    p = len(plan.columns)
    borders = [first_borders(unit_step(one, plan.scale), levels=not one.ordered) for one in plan.columns]
    view = CountsView(borders, count_noise(plan.unit, p, plan.guarantee.mu))
    return _attack_views(plan, [view], made_up_rows(plan, rows), np.tile(_ENDS[:, None], (1, p)))


def attack_stage(plan: Plan, rows: int, kind: StageKind) -> StepsAttack:
    """One stage of a release that has the whole budget: rows as they are, mapped, or which of their cells are there."""
    others = made_up_rows(plan, rows, missing=0.1 if kind == "presence" else 0.0)
    drawn = publish_moments(table_of(plan, others), plan, get_engine("serial"), SeededBits(SEED))
    places = np.tile([[0.0], [math.nan]], (1, len(plan.columns))) if kind == "presence" else places_of(drawn)
    return _attack_views(plan, [stage_view(plan, drawn, rows, kind)], others, places)


def stage_view(plan: Plan, drawn: Drawn, rows: int, kind: StageKind) -> StageView:
    """What such a stage looks at, by what a release said."""
    assert drawn.marginals is not None
    mu, size = plan.guarantee.mu, size_of(plan, rows)
    if kind == "presence":
        encoder = presence_encoder(plan, drawn.marginals.often_missing)
        return StageView(stage_of(plan.unit, size, mu, encoder, first_shape(len(encoder.of), shaped=True)), encoder)
    encoder = column_encoder(plan, drawn.marginals.columns, SeededBits(SEED).key())
    beside = sum(encoder.levels)
    shape = first_shape(encoder.width(len(plan.columns)), shaped=kind == "shaped", beside=beside)
    first = drawn.stages[0]
    if kind == "shaped":
        about, largest = float(first.second_noise_sd), largest_entry(encoder.scale)
        shape = next_shape(shape, first.stage.radius, first.mean, first.second, about, 1, largest)
    return StageView(stage_of(plan.unit, size, mu, encoder, shape), encoder, shape.whole_map)


def _attack_views(plan: Plan, views: Sequence[View], others: Floats, places: Floats) -> StepsAttack:
    """The attack by two rows that are far apart in all views, among others that do not change."""
    p, unit = len(plan.columns), plan.unit
    cells = unit.name in ("entry", "readings")
    pair = farthest(plan, views, places, [0] if cells else range(p))
    changed = unit.readings if cells else unit.max_rows
    here, there = (np.vstack([np.tile(row, (changed, 1)), others[changed:]]) for row in pair)
    return _on(views, plan, (here, there))


def made_up_rows(plan: Plan, rows: int, missing: float = 0.0) -> Floats:
    """Strongly dependent rows near the middle of the [-1, 1] scale; a share of the cells may be missing."""
    rng = np.random.default_rng(SEED)
    common, own = rng.standard_normal((rows, 1)), rng.standard_normal((rows, len(plan.columns)))
    made = np.clip(_SPREAD * (math.sqrt(_COMMON) * common + math.sqrt(1 - _COMMON) * own), -0.9, 0.9)
    return np.where(rng.random(made.shape) < missing, math.nan, made)


def views_of(plan: Plan, drawn: Drawn, key: bytes) -> list[View]:
    """What every step of a release looked at."""
    assert drawn.marginals is not None
    views: list[View] = [
        CountsView([one.borders for one in counts], RoundedGaussian(about.noise_scale))
        for about, counts in zip(drawn.marginals.rounds, drawn.marginals.counts, strict=True)
    ]
    encoder = column_encoder(plan, drawn.marginals.columns, key)
    for one in drawn.stages:
        if one.stage.features == "presence":
            views.append(StageView(one.stage, presence_encoder(plan, one.stage.of)))
        elif plan.series is not None and one.stage.features == "seasons":
            views.append(StageView(one.stage, seasons_encoder(encoder, plan.series)))
            encoder = replace(encoder, means=means_of(one, plan.scale))
        else:
            views.append(StageView(one.stage, encoder, one.map))
    return views


def places_of(drawn: Drawn) -> Floats:
    """Where the cells of changed rows may lie: at even scores, and between those and the bounds."""
    assert drawn.marginals is not None
    return np.column_stack(
        [np.sort(np.concatenate([known.quantile(ndtr(_SCORES)), _ENDS])) for known in drawn.marginals.columns]
    )


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
        rounds = [step for step in attack.steps if isinstance(step, CountsStep)]
        stages = [step for step in attack.steps if isinstance(step, StageStep)]
        outputs = [
            *(step.of_release(_all_counts(one)) for step, one in zip(rounds, drawn.marginals.counts, strict=True)),
            *(step.of_sums(_as_sums(one)) for step, one in zip(stages, drawn.stages, strict=True)),
        ]
        half = (
            sum(float(step.move @ step.move) for step in attack.steps) / 2
        )  # runs differ in it: compare like with like
        return [float(attack.of_outputs(outputs)[0]) - half, _centre(drawn.stages[1], stages[0])]


def _all_counts(columns: Sequence[Counts]) -> Floats:
    return np.concatenate([np.append(one.counts, one.missing) for one in columns])


def _as_sums(one: NoisyMoments) -> NoisyMoments:
    return replace(one, mean=one.mean * one.rows, second=one.second * one.rows)


def _centre(second: NoisyMoments, first: StageStep) -> float:
    """The second stage's centre, as a mean that the first one could have released, along what D' does to that."""
    centre = np.array(second.stage.centre)
    mean = centre if second.map is None else np.linalg.solve(second.map, centre)
    under_d = first.sums[0][0] / first.stage.steps
    return float((mean * second.rows - under_d) @ first.move[: centre.size])


def attack_loop(plan: Plan, rows: int) -> LoopAttack:
    """The attack on whole releases, by the two rows that the steps of a typical one tell apart best."""
    others = made_up_rows(plan, rows)
    drawn = publish_moments(table_of(plan, others), plan, get_engine("serial"), SeededBits(SEED))
    views = views_of(plan, drawn, SeededBits(SEED).key())
    here, there = farthest(plan, views, places_of(drawn), range(len(plan.columns)))
    sides = (table_of(plan, np.vstack([row, others[1:]])) for row in (here, there))
    return LoopAttack(plan, (next(sides), next(sides)))


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


def _as_written(column: Column, cells: Floats) -> Any:
    """Levels by their names, numbers as they are."""
    if not column.levels:
        return cells
    return [None if math.isnan(cell) else column.levels[int(cell)] for cell in cells]


def table_of(
    plan: Plan, unit_box: Floats, periods: npt.NDArray[np.str_] | None = None, ids: npt.NDArray[np.int64] | None = None
) -> Rows:
    """Rows of a table that the publisher brings to these places of the [-1, 1] scale, and to these periods.

    Where persons are protected, each has as many rows as a person may have, the first one's first, unless `ids` are
    given.
    """
    import pyarrow as pa

    raw = raw_rows(unit_box, plan.columns)
    columns: dict[str, Any] = {one.name: _as_written(one, raw[:, k]) for k, one in enumerate(plan.columns)}
    if plan.period_column is not None:
        columns[plan.period_column] = periods
    own = with_own_cells(plan)
    if plan.series is not None:
        columns |= order_cells(plan.series, len(raw))
    if plan.id_column is not None:
        columns[plan.id_column] = np.arange(len(raw)) // plan.unit.max_rows if ids is None else ids
    if plan.order_column is None or plan.series is not None:
        return Rows(own, open_table(pa.table(columns)))
    if find_spec("ibis") is None:
        return Rows(replace(own, order_column=None), open_table(pa.table(columns)))
    import ibis

    # Such a plan is for a table in a database. The key is the row's own, so it changes with its row: here with a cell.
    columns[plan.order_column] = np.arange(len(raw)) * 7919 + np.signbit(raw[:, 0])
    database = ibis.duckdb.connect()
    database.con.register("given", pa.table(columns))
    database.con.execute("CREATE TABLE audited AS SELECT * FROM given")
    return QueriedRows(own, Warehouse(database, database.table("audited")))
