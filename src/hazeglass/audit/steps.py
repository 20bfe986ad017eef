"""The steps of a release of moments as an attacker sees them, and the two rows that all of them tell apart best.

A view is what one step looks at rows through: a partition whose cells are counted, or an encoder, a map and a ball. It
says how far apart two rows are, and makes a step of two tables. A step holds the exact numbers of both, computed once
by the publisher's own block code; the publisher's own noise code then runs many times on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from hazeglass.audit.attack import Floats, far_rows, order_cells, raw_rows, with_own_cells
from hazeglass.bundle.columns import Column
from hazeglass.bundle.manifest import Stage
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.compute.warehouse import Warehouse
from hazeglass.features.fitting import Counts
from hazeglass.guarantee.lattice import RoundedGaussian
from hazeglass.publisher.marginals import Encoder, exact_counts, noisy_counts
from hazeglass.publisher.moments import (
    Drawn,
    NoisyMoments,
    add_noise,
    column_encoder,
    means_of,
    presence_encoder,
    seasons_encoder,
)
from hazeglass.publisher.noise import BitSource
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Cells, Rows
from hazeglass.publisher.sums import exact_sums, lattice_rows

Integers = npt.NDArray[np.int64]
Sums = tuple[Integers, Integers, int]  # of rows, of their products, and how many
T = TypeVar("T")
Pair = tuple[T, T]  # under D and under D'
PUBLIC = Encoder("public", "columns")
_SPREAD, _COMMON = 0.05, 0.95  # of the other rows: narrow, so that changed rows are long, and strongly dependent
SEED = 19  # of what is made up and of the release that the shapes come from; the attack's own noise has none
_STARTS, _SWEEPS = 4, 3
_SEARCHED = 64  # beyond so many columns a search would take minutes, and finds little
_SCORES = np.linspace(-3.5, 3.5, 15)
ENDS = np.array([-1.0, -0.5, -0.25, 0.25, 0.5, 1.0])


class Step(Protocol):
    """Noisy numbers, in units of their noise, as differences from what D would give without it."""

    @property
    def move(self) -> Floats:
        """How far D' lies from D."""

    def outputs(self, side: int, runs: int, bits: BitSource) -> Floats:
        """The noise step, many times on the same exact numbers: one row a run."""

    def of_release(self, released: Any) -> Floats:
        """What a release gave in this step."""


class View(Protocol):
    """What a step looks at rows through."""

    def apart(self, plan: Plan, x: Floats, y: Floats) -> Floats:
        """Squared distances of rows of the [-1, 1] scale, pair by pair, in units of the step's noise."""

    def step(self, sides: Pair[Rows]) -> Step:
        """The step on two tables."""


@dataclass(frozen=True, eq=False)
class CountsStep:
    """One round of counts: those that D and D' differ in. Others have noise of their own and say nothing."""

    noise: RoundedGaussian
    differing: npt.NDArray[np.bool_]
    counts: Pair[Integers]

    @cached_property
    def move(self) -> Floats:
        return np.asarray((self.counts[1] - self.counts[0]) / math.sqrt(self.noise.variance))

    def outputs(self, side: int, runs: int, bits: BitSource) -> Floats:
        exact = np.broadcast_to(self.counts[side], (runs, self.move.size))
        return self._in_noise(noisy_counts(exact, self.noise, bits))

    def of_release(self, released: Sequence[Counts]) -> Floats:
        """Those of a round that was released."""
        counts = np.concatenate([np.append(one.counts, one.missing) for one in released])
        return self._in_noise(counts[self.differing])

    def _in_noise(self, counts: Floats | Integers) -> Floats:
        return np.asarray((counts - self.counts[0]) / math.sqrt(self.noise.variance))


@dataclass(frozen=True, eq=False)
class StageStep:
    """One stage of moments, or one draw of a lifetime, whose lattices are finer."""

    stage: Stage
    sums: Pair[Sums]
    fine: int = 1

    @cached_property
    def move(self) -> Floats:
        return self._flat(self.sums[1]) - self._flat(self.sums[0])

    def outputs(self, side: int, runs: int, bits: BitSource) -> Floats:
        first, second, rows = self.sums[side]
        copies = np.broadcast_to(first, (runs, *first.shape)), np.broadcast_to(second, (runs, *second.shape))
        return self._of_sums(add_noise(*copies, rows, self.stage, bits, self.fine))

    def of_release(self, released: NoisyMoments) -> Floats:
        """A stage that was released, whose sums were divided by the number of rows."""
        by = released.rows
        return self._of_sums(replace(released, mean=released.mean * by, second=released.second * by))

    def _of_sums(self, noisy: NoisyMoments) -> Floats:
        return in_noise(self.stage, noisy.mean, noisy.second, noisy.rows / self.fine) - self._flat(self.sums[0])

    def _flat(self, sums: Sums) -> Floats:
        (first, second, rows), steps = sums, self.stage.steps
        counted = np.asarray(rows / self.fine)
        return in_noise(self.stage, first / (steps * self.fine), second / (steps**2 * self.fine), counted)


def in_noise(stage: Stage, mean: Floats, second: Floats, rows: Floats | Integers) -> Floats:
    """Sums as one vector in units of their noise, which is tau / a on the mean, tau off the diagonal, sqrt(2) tau on
    it, and tau / b on the number of rows where that is secret."""
    p = mean.shape[-1]
    upper, lower = np.triu_indices(p, 1)
    diagonal = second[..., np.arange(p), np.arange(p)] / math.sqrt(2)
    parts: list[Floats] = [stage.mean_weight * mean, second[..., upper, lower], np.asarray(diagonal, dtype=np.float64)]
    if stage.count_weight:
        parts.append(np.asarray(stage.count_weight * rows[..., None], dtype=np.float64))
    return np.concatenate(parts, axis=-1) / stage.tau


@dataclass(frozen=True, eq=False)
class CountsView:
    """Every column's cells are counted between borders."""

    borders: Sequence[Floats]
    noise: RoundedGaussian

    def apart(self, plan: Plan, x: Floats, y: Floats) -> Floats:
        return np.asarray(2 * np.sum(self._leaves(plan, x) != self._leaves(plan, y), axis=0) / self.noise.variance)

    def step(self, sides: Pair[Rows]) -> CountsStep:
        here, there = (np.concatenate(exact_counts(rows, self.borders, get_engine("serial"))) for rows in sides)
        differing = here != there
        return CountsStep(self.noise, differing, (here[differing], there[differing]))

    def _leaves(self, plan: Plan, rows: Floats) -> Integers:
        units = Cells(plan).units(_block(plan, rows))
        leaves = [
            np.searchsorted(cuts[1:-1], cells, side="right") for cuts, cells in zip(self.borders, units, strict=True)
        ]
        return np.where(np.isnan(units), -1, leaves)


@dataclass(frozen=True, eq=False)
class StageView:
    """Rows are encoded, mapped, recentred and clipped."""

    stage: Stage
    encoder: Encoder
    through: Floats | None = None

    def apart(self, plan: Plan, x: Floats, y: Floats) -> Floats:
        left, right = (self.lattice(Cells(plan), _block(plan, rows)) / self.stage.steps for rows in (x, y))
        squares = (np.sum(left**2, axis=0) ** 2 + np.sum(right**2, axis=0) ** 2) / 2 - np.sum(left * right, axis=0) ** 2
        mean = self.stage.mean_weight**2 * np.sum((left - right) ** 2, axis=0)
        return np.asarray((squares + mean) / self.stage.tau**2)

    def step(self, sides: Pair[Rows]) -> StageStep:
        under, neighbour = (self._sums(rows) for rows in sides)
        return StageStep(self.stage, (under, neighbour))

    def lattice(self, cells: Cells, block: Sequence[Floats]) -> Floats:
        """The rows that are summed up, in lattice steps, one row per feature."""
        rows = np.empty((self.stage.size, block[0].size))
        self.encoder.rows(cells, block, 0, rows)
        if self.through is not None:
            rows = self.through @ rows
        return lattice_rows(rows, np.array(self.stage.centre), self.stage)

    def _sums(self, rows: Rows) -> Sums:
        return exact_sums(rows, self.stage, self.encoder, get_engine("serial"), self.through)


def _block(plan: Plan, unit_box: Floats) -> list[Floats]:
    return [np.ascontiguousarray(cells) for cells in raw_rows(unit_box, plan.columns).T]


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
    def distance(self) -> float:
        """The square of how far D' lies from D, in units of the noise."""
        return sum(float(step.move @ step.move) for step in self.steps)

    @property
    def _alike(self) -> list[int]:
        """Steps that have as many numbers as the next one."""
        sizes = [step.move.size for step in self.steps]
        return [i for i, (one, other) in enumerate(pairwise(sizes)) if one == other]


# ------------------------------------------------------------------------------------- rows, changed and others


def farthest(plan: Plan, views: Sequence[View], places: Floats, free: Sequence[int]) -> Pair[Floats]:
    """Two rows as far apart as can be found for all views together; they differ in the columns `free` alone.

    Their cells lie at `places`, one column of them a column. The search starts from the pairs that are farthest in a
    ball and changes one cell after the other as long as that helps; all starts go on at once.
    """
    count, p = places.shape
    starts = np.rint((np.array(far_rows(p, 0.1)) + 1) / 2 * (count - 1)).astype(np.int64)
    at = np.vstack([starts, starts // 2 + count // 4])  # those, and nearer to the middle
    at[:, 1] = np.where(np.isin(np.arange(p), free), at[:, 1], at[:, 0])

    def apart(tried: Integers) -> Floats:
        cells = places[tried, np.arange(p)]
        return np.asarray(sum(view.apart(plan, cells[:, 0], cells[:, 1]) for view in views))

    at = at[np.argsort(-apart(at))[:_STARTS]]
    moves = [(k, sides) for k in range(p) for sides in (([0], [1]) if k in free else ([0, 1],))]
    for k, sides in moves * min(_SWEEPS, _SEARCHED // p):
        tried = np.repeat(at[:, None], count, axis=1)  # start, place, side, column
        tried[:, :, sides, k] = np.arange(count)[None, :, None]
        found = apart(tried.reshape(-1, 2, p)).reshape(len(at), count)
        at = tried[np.arange(len(at)), found.argmax(axis=1)]
    x, y = places[at[apart(at).argmax()], np.arange(p)]
    return x, y


def pair_of(plan: Plan, stage: Stage) -> Pair[Floats]:
    """The changed rows of a stage on the public scale, under D and D'."""
    p = len(plan.columns)
    if plan.unit.name in ("entry", "readings"):  # one column of otherwise equal rows, from one end to the other
        row = np.ones(p)
        row[0] = -1.0
        return np.tile(row, (plan.unit.readings, 1)), np.ones((plan.unit.readings, p))
    view, pairs = StageView(stage, PUBLIC), far_rows(p, (stage.mean_weight / stage.radius) ** 2)
    x, y = max(pairs, key=lambda pair: float(view.apart(plan, pair[0][None], pair[1][None])[0]))
    return np.tile(x, (plan.unit.max_rows, 1)), np.tile(y, (plan.unit.max_rows, 1))


def made_up_rows(plan: Plan, rows: int, missing: float = 0.0) -> Floats:
    """Strongly dependent rows near the middle of the [-1, 1] scale; a share of the cells may be missing."""
    rng = np.random.default_rng(SEED)
    common, own = rng.standard_normal((rows, 1)), rng.standard_normal((rows, len(plan.columns)))
    made = np.clip(_SPREAD * (math.sqrt(_COMMON) * common + math.sqrt(1 - _COMMON) * own), -0.9, 0.9)
    return np.where(rng.random(made.shape) < missing, math.nan, made)


def places_of(drawn: Drawn) -> Floats:
    """Where the cells of changed rows may lie: at even scores, and between those and the bounds."""
    assert drawn.marginals is not None
    return np.column_stack(
        [np.sort(np.concatenate([known.quantile(ndtr(_SCORES)), ENDS])) for known in drawn.marginals.columns]
    )


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

    from hazeglass.publisher.warehouse import QueriedRows

    # Such a plan is for a table in a database. The key is the row's own, so it changes with its row: here with a cell.
    columns[plan.order_column] = np.arange(len(raw)) * 7919 + np.signbit(raw[:, 0])
    database = ibis.duckdb.connect()
    database.con.register("given", pa.table(columns))
    database.con.execute("CREATE TABLE audited AS SELECT * FROM given")
    return QueriedRows(own, Warehouse(database, database.table("audited")))


def _as_written(column: Column, cells: Floats) -> Any:
    """Levels by their names, numbers as they are."""
    if not column.levels:
        return cells
    return [None if math.isnan(cell) else column.levels[int(cell)] for cell in cells]
