"""The likelihood-ratio attack on moments of one stage, on the adaptive two, and on the search for a clip radius.

The secret sums of each side are computed once by the publisher's own block code; the publisher's own noise step then
runs many times on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hazeglass.audit.attack import contrasted, far_rows, raw_rows
from hazeglass.bundle.manifest import Stage
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.publisher.clip import RADIUS_SHARE, private_radius, radius_grid, rows_within, search_radius
from hazeglass.publisher.moments import (
    FIRST_STAGE_SHARE,
    NoisyMoments,
    add_noise,
    exact_sums,
    first_stage,
    lattice_rows,
    second_stage,
)
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.randomness import BitSource, SecretBits
from hazeglass.publisher.rows import Cells, Rows

Floats = npt.NDArray[np.float64]
Sums = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]  # of rows, of their products, and how many
T = TypeVar("T")
Pair = tuple[T, T]  # under D and under D'
_SPREAD = 0.3  # of the other rows, in the adaptive attack: small, so that the changed rows are long on stage 2's scale


@dataclass(frozen=True, eq=False)
class StageAttack:
    """One stage: the exact sums under D and D'."""

    stage: Stage
    sums: Pair[Sums]
    statistics: tuple[str, ...] = ("likelihood ratio",)

    @property
    def cells(self) -> int:
        p = self.sums[0][0].size
        return p * (p + 3) // 2

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """The noise step, many times on the same sums."""
        released = add_noise(*_repeated(self.sums[side], runs), self.stage, bits)
        return likelihood_ratio(released, *self.sums)[:, None]


def _repeated(sums: Sums, runs: int) -> Sums:
    """The same sums for every run."""
    first, second, rows = sums
    return np.broadcast_to(first, (runs, *first.shape)), np.broadcast_to(second, (runs, *second.shape)), rows


def likelihood_ratio(released: NoisyMoments, under: Sums, under_neighbour: Sums) -> Floats:
    """<output - mean(D), (mean(D') - mean(D)) / variance> in every release; leading axes are releases.

    The noise has variance v off the diagonal and 2 v on it, so summing a product over the whole symmetric matrix and
    dividing by 2 v counts every released number with its own variance.
    """
    stage = released.stage
    unit, square = stage.steps, stage.steps**2  # the sums are whole, the release is per unit
    (mean, second, rows), (mean_there, second_there, rows_there) = under, under_neighbour
    mean_move, second_move = (mean_there - mean) / unit, (second_there - second) / square
    of_mean = _product("...i,...i->...", released.mean, mean / unit, mean_move)
    of_second = _product("...ij,...ij->...", released.second, second / square, second_move)
    of_rows = (released.rows - rows) * (rows_there - rows)
    weighted = of_mean * stage.mean_weight**2 + of_second / 2 + of_rows * stage.count_weight**2
    return np.asarray(weighted / stage.tau**2)


def _product(axes: str, output: Floats, mean: Floats, move: Floats) -> Floats:
    """<output - mean, move> without an array of the differences."""
    return np.asarray(np.einsum(axes, output, move) - np.einsum(axes, mean, move))


@dataclass(frozen=True, eq=False)
class AdaptiveAttack:
    """Two stages, the second on the scale that the first one released.

    `boxes` and `counts` are the distinct rows (on the [-1, 1] scale, as the publisher reads them) and how often each
    occurs: sums of equal rows are exact multiples, so the second stage of many runs can be computed at once. A noisy
    number of rows is moved into `rows_between`.
    """

    first: StageAttack
    second: Stage
    boxes: Pair[Floats]
    counts: Floats
    rows_between: tuple[int, int]
    statistics: tuple[str, ...] = ("likelihood ratio", "contrast of the stages")

    @property
    def cells(self) -> int:
        return self.first.cells + len(self.second.centre) ** 2 * (9 if self.second.features == "hermite" else 1)

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """Both stages of every run."""
        (scout, second), both = self.stages(side, runs, bits)
        left, right = likelihood_ratio(scout, *self.first.sums), likelihood_ratio(second, *both)
        return contrasted(left, right, self.first.stage.mu, self.second.mu)

    def stages(self, side: int, runs: int, bits: BitSource) -> tuple[tuple[NoisyMoments, NoisyMoments], Pair[Sums]]:
        """What both stages release in each run, and the second one's exact sums under D and D' given the first."""
        scout = add_noise(*_repeated(self.first.sums[side], runs), self.first.stage, bits)
        centre, scale = scout.divided(np.clip(scout.rows, *self.rows_between)).standardisation()
        here, there = (self._sums(box, centre, scale) for box in self.boxes)
        both = here, there
        return (scout, add_noise(*both[side], self.second, bits)), both

    def _sums(self, box: Floats, centre: Floats, scale: Floats) -> Sums:
        runs, k = len(centre), len(box)
        rows = np.tile(box, (runs, 1))
        z = lattice_rows(rows, np.repeat(centre, k, axis=0), np.repeat(scale, k, axis=0), self.second)
        z = z.reshape(runs, k, -1)
        weighted = z * self.counts[:, None]  # integers below 2^53, like all that follows
        first, second = weighted.sum(axis=1), np.swapaxes(weighted, 1, 2) @ z
        return first.astype(np.int64), second.astype(np.int64), int(self.counts.sum())


def attack_moments(plan: Plan, rows: int) -> StageAttack | AdaptiveAttack:
    """The attack on the moments that this plan releases for `rows` rows; persons have as many of them as they may."""
    if plan.adaptive:
        return _attack_adaptive(plan, rows)
    guarantee, radius = plan.guarantee, None
    if plan.clip_radius == "private":
        # The changed rows are equally long, so the search answers alike on both sides: attack what follows it.
        probe = first_stage(plan, _size(plan, rows), guarantee, 1.0)
        data = _table(plan, np.tile(_pair(plan, probe)[0] / 2, (rows, 1)))
        found = private_radius(data, plan.unit, guarantee.share(RADIUS_SHARE), get_engine("serial"), SecretBits())
        guarantee, radius = guarantee.share(1 - RADIUS_SHARE), found.radius
    stage = first_stage(plan, _size(plan, rows), guarantee, radius)
    return _attack_stage(plan, rows, stage)


def attack_presence(plan: Plan, rows: int) -> StageAttack:
    """The attack on one stage by a person who has all their rows under D and none under D'."""
    stage = first_stage(plan, _size(plan, rows), plan.guarantee)
    here, _ = _pair(plan, stage)
    others = np.tile(-here[0], (rows - len(here), 1))
    return _on_sums(stage, (_table(plan, np.vstack([here, others])), _table(plan, others)))


def _size(plan: Plan, rows: int) -> int:
    """The public number behind so many rows: theirs, or that of the persons."""
    return math.ceil(rows / plan.unit.max_rows)


def _on_sums(stage: Stage, sides: Pair[Rows]) -> StageAttack:
    """The attack on one stage of these two tables."""
    under, neighbour = ((*exact_sums(rows, stage, get_engine("serial")), rows.n) for rows in sides)
    return StageAttack(stage, (under, neighbour))


def _attack_stage(plan: Plan, n: int, stage: Stage) -> StageAttack:
    """Of the other rows three quarters lie opposite the first changed one and one quarter upon it: where they lie must
    not matter, and does when rows are centred by the data's own mean, before or after clipping."""
    here, there = _pair(plan, stage)
    others = np.where(np.arange(n - len(here)) % 4 == 0, 1.0, -1.0)[:, None] * here[0]
    return _on_sums(stage, (_table(plan, np.vstack([here, others])), _table(plan, np.vstack([there, others]))))


def _pair(plan: Plan, stage: Stage) -> Pair[Floats]:
    """The changed rows under D and D'."""
    p = len(plan.columns)
    if plan.unit.name in ("entry", "readings"):  # one column of otherwise equal rows, from one end to the other
        row = np.ones(p)
        row[0] = -1.0
        return np.tile(row, (plan.unit.readings, 1)), np.ones((plan.unit.readings, p))
    x, y = _farthest(p, [(stage, 1.0)])
    return np.tile(x, (plan.unit.max_rows, 1)), np.tile(y, (plan.unit.max_rows, 1))


def _attack_adaptive(plan: Plan, n: int) -> AdaptiveAttack:
    """Other rows spread evenly about the public centre, so that the first stage knows centre and scale well."""
    size = _size(plan, n)
    scout = first_stage(plan, size, plan.guarantee.share(FIRST_STAGE_SHARE))
    second = second_stage(plan, size, None)
    p, m = len(plan.columns), plan.unit.max_rows
    x, y = _farthest(p, [(scout, 1.0), (second, _SPREAD)])
    spread = np.vstack([np.full(p, _SPREAD), np.full(p, -_SPREAD)])
    counts = np.array([m, (n - m) // 2, n - m - (n - m) // 2], dtype=np.int64)
    here, there = np.vstack([x, spread]), np.vstack([y, spread])
    sides = _table(plan, np.repeat(here, counts, axis=0)), _table(plan, np.repeat(there, counts, axis=0))
    first, boxes = _on_sums(scout, sides), (_read(plan, here), _read(plan, there))
    return AdaptiveAttack(first, second, boxes, counts.astype(np.float64), sides[0].public_range)


def _farthest(columns: int, stages: list[tuple[Stage, float]]) -> Pair[Floats]:
    """The pair of rows farthest apart in all stages together; each stage comes with the scale it sees rows on."""
    last = stages[-1][0]
    pairs = far_rows(columns, (last.mean_weight / last.radius) ** 2)
    return max(pairs, key=lambda pair: sum(_distance(pair, stage, scale) ** 2 for stage, scale in stages))


def _distance(pair: Pair[Floats], stage: Stage, scale: float) -> float:
    """How far apart the moments of two rows are, in units of the stage's noise."""
    centre, x_and_y = np.zeros(len(pair[0])), np.vstack(pair)
    x, y = lattice_rows(x_and_y, centre, np.full(len(centre), scale), stage) / stage.steps
    second = np.outer(x, x) - np.outer(y, y)
    return math.sqrt(stage.mean_weight**2 * float((x - y) @ (x - y)) + float(np.sum(second**2)) / 2) / stage.tau


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
        unit, guarantee = self.plan.unit, self.plan.guarantee
        n = None if unit.name == "person" else self.n
        searches = (search_radius(self.within[side], n, self.grid, unit, guarantee, bits) for _ in range(runs))
        return np.array([[sum(answer - self.n for _, answer in found.answers)] for found in searches], dtype=float)


def attack_radius(plan: Plan, n: int) -> RadiusAttack:
    """The attack on a search that spends the whole of the plan's budget."""
    p, m = len(plan.columns), plan.unit.max_rows
    grid = radius_grid(p)
    long, short = np.zeros((n, p)), np.zeros((n, p))
    long[:m] = 1.0
    if plan.unit.name == "person":  # one without rows also moves the answer to how many rows there are
        long = long[m:]
    here, there = (rows_within(_table(plan, side), grid, get_engine("serial")) for side in (long, short))
    return RadiusAttack(plan, n, grid, (here, there))


def _table(plan: Plan, unit_box: Floats) -> Rows:
    """Rows of a table that the publisher brings to these places of the [-1, 1] scale.

    Where persons are protected, each has as many rows as a person may have, the first one's first.
    """
    import pyarrow as pa

    raw = raw_rows(unit_box, plan.columns)
    columns: dict[str, npt.NDArray[Any]] = {name: raw[:, k] for k, name in enumerate(plan.names)}
    if plan.id_column is not None:
        columns[plan.id_column] = np.arange(len(raw)) // plan.unit.max_rows
    return Rows(plan, open_table(pa.table(columns)))


def _read(plan: Plan, unit_box: Floats) -> Floats:
    """The rows as the publisher reads them."""
    return Cells(plan).unit_box(list(raw_rows(unit_box, plan.columns).T))
