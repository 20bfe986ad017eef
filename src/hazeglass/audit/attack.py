"""What an attack is: scores, one row a run and one column a statistic, from runs of the mechanism on D or on D'.

And the worst-case neighbours it runs on, as places on the public [-1, 1] scale and raw cells that stand for them. Cells
at an end of the scale are given raw values far beyond the bounds, and rows longer than the ball stay longer, so that a
mechanism that forgets to clamp or to clip shows. The attack on a table is here as well; those on moments and on
structure have files of their own.

A lower bound on mu that holds with a stated probability, from the scores of an attack on both sides.

An attack says "D'" when its score passes a threshold. If it is wrong about D at the rate alpha and about D' at the rate
beta, no mechanism below mu = Phi^-1(1 - alpha) - Phi^-1(beta) can have produced the scores. Everything that is chosen
(statistic, direction, threshold) is chosen on the first half of the runs; the second half is used once, through
Clopper-Pearson upper bounds on both rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, ndtri

from hazeglass.bundle.columns import Column, origins, response_of
from hazeglass.bundle.manifest import Series
from hazeglass.errors import InputError
from hazeglass.guarantee.units import CELL_UNITS
from hazeglass.publisher.noise import BitSource
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Cells
from hazeglass.publisher.table import TableMechanism

Floats = npt.NDArray[np.float64]
_BEYOND = 10.0  # ranges beyond a bound
_INVERSE = {"log": np.exp, "log1p": np.expm1, "sqrt": np.square, "asinh": np.sinh}


class Attack(Protocol):
    """A mechanism, a pair of neighbours and the statistics that tell them apart."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """What the columns of the scores are."""

    @property
    def cells(self) -> int:
        """Noisy numbers drawn in one run: what a run costs."""

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """Scores of independent runs on D (side 0) or D' (side 1), shape (runs, statistics)."""


@dataclass(frozen=True)
class Together:
    """Two releases of the same data. `mus` are their promises.

    Both likelihood ratios added show whether promises compose as stated. Their contrast, each in units of its noise,
    has no business telling D from D' better; it does when the two releases share noise, because then it cancels.
    """

    first: Attack
    second: Attack
    mus: tuple[float, float]
    statistics: tuple[str, ...] = ("likelihood ratio", "contrast of the releases")

    @property
    def cells(self) -> int:
        return self.first.cells + self.second.cells

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """Both releases, run one after the other on the same bits."""
        left, right = (attack.scores(side, runs, bits)[:, 0] for attack in (self.first, self.second))
        return np.column_stack([left + right, left / self.mus[0] - right / self.mus[1]])


def alternating(count: int) -> Floats:
    """+1, -1, +1, ...: as far apart as equal signs, and noise that two cells share cancels in the difference."""
    return np.asarray(1.0 - 2.0 * (np.arange(count) % 2), dtype=np.float64)


def far_rows(columns: int, tilt: float) -> list[tuple[Floats, Floats]]:
    """Candidates for two rows x, y of the box whose moments are as far apart as a ball allows.

    The distance is largest for |x| = |y| = r and x.y = -a^2 (docs/maths/sensitivity.md), `tilt` being a^2 / r^2. So x
    points along (1, 1, -1, -1, ...) and y along (1, -1, 1, -1, ...), tilted a little against x; both reach the surface
    of the box. The others serve where x and y are seen through something else: y agrees with x on every second column,
    at part of its length, and opposes it on the rest.
    """
    x = np.asarray(1.0 - 2.0 * (np.arange(columns) // 2 % 2), dtype=np.float64)
    half = np.arange(columns) % 2 == 1
    ys = [np.where(half, -x, part * x) for part in (1.0, 0.7, 0.5, 0.4, 0.3, 0.2, 0.0)]
    across = alternating(columns) - x * (x @ alternating(columns)) / columns
    if columns > 1:
        tilted = math.sqrt(1 - tilt**2) * across / np.linalg.norm(across) - tilt * x / np.linalg.norm(x)
        ys.append(tilted / np.abs(tilted).max())
    return [(x, y) for y in (*ys, -x)]


def order_cells(series: Series, rows: int) -> dict[str, Any]:
    """The columns that say that every row follows the one before it."""
    found: dict[str, Any] = {}
    if series.order_column is not None:
        steps = np.arange(rows) * series.step
        start = np.datetime64("2025-01-06T00:00:00", "s")
        dates = start + np.rint(steps * 86_400).astype(np.int64) * np.timedelta64(1, "s")
        found[series.order_column] = dates if series.dated else steps
    if series.series_column is not None:
        found[series.series_column] = ["one"] * rows
    return found


def raw_rows(unit_box: Floats, columns: Sequence[Column]) -> Floats:
    """Raw cells that the publisher's clamping and rescaling brings to these places; ends become far outliers."""
    raw = np.empty_like(unit_box)
    for k, column in enumerate(columns):
        place = unit_box[:, k]
        inside = column.centre + column.half_width * (np.clip(place, -1, 1) if column.levels else place)
        if column.kind == "categorical":  # from missing to the last level
            raw[:, k] = np.where(place <= -1, np.nan, np.rint(inside))
            continue
        if column.transform is not None:
            inside = _INVERSE[column.transform](inside)
        if column.counted:
            inside = np.rint(inside)
        if column.levels:  # anything outside them would be missing
            raw[:, k] = inside
            continue
        width = column.upper - column.lower
        raw[:, k] = np.where(
            place >= 1, column.upper + _BEYOND * width, np.where(place <= -1, column.lower - _BEYOND * width, inside)
        )
    return raw


def with_own_cells(plan: Plan) -> Plan:
    """The same plan for rows in which every column has cells of its own, also where one is made of another's: an attack
    chooses all of them, and what cells can be is no part of the promise."""
    plain = [replace(one, missing="random", source=None, part=None, since=None) for one in plan.columns]
    return replace(plan, columns=tuple(plain))


@dataclass(frozen=True, eq=False)
class TableAttack:
    """The likelihood-ratio attack on a table: every changed cell moves across its whole range.

    Rows are noised one by one, so a table of many copies of the changed rows is as many runs of the mechanism. Columns
    that do not change carry no information and are left out. `pair` holds the changed rows under D and D' as raw cells,
    `weights` the likelihood ratio's coefficients.
    """

    mechanism: TableMechanism
    reading: Cells
    pair: tuple[Floats, Floats]
    weights: Floats

    @property
    def statistics(self) -> tuple[str, ...]:
        if self.mechanism.keeps_integers(self.mechanism.columns[0]):
            return ("likelihood ratio",)
        return ("likelihood ratio", "lowest bit")

    @property
    def cells(self) -> int:
        return self.weights.size

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """Release many copies of one side's rows; copies are independent runs."""
        import pyarrow as pa

        names = [column.name for column in self.mechanism.columns]
        copies = pa.RecordBatch.from_arrays(
            [pa.array(np.tile(cells, runs)) for cells in self.pair[side].T], names=names
        )
        block = self.reading.block(copies)
        noise = self.mechanism.noise(copies.num_rows, bits)
        released = self.mechanism.release(block, self.reading.unit_box(block), noise)
        told = [_told(column, cells) for column, cells in zip(self.mechanism.columns, released, strict=True)]
        table = np.column_stack(told).reshape(runs, *self.weights.shape)
        scores = [np.einsum("rij,ij->r", table, self.weights)]
        if len(self.statistics) > 1:
            scores.append(lowest_bit(table[:, 0, 0].astype(np.float64)))
        return np.column_stack(scores)


def attack_table(plan: Plan, rows: int, column: int | None = None) -> TableAttack:
    """The attack on this plan's table of `rows` rows; `column` is the one that changes unless whole rows do.

    Under Gaussian noise the log-likelihood ratio is the sum of shift * output / variance, up to a constant and a
    factor. For the discrete Gaussian that is exact; for the rounded one it nearly is from a few lattice steps on. Of a
    response it is log(P / q) times whether the answer is the one or the other level. Columns that are made of one cell
    change together.
    """
    unit = plan.unit
    mechanism = TableMechanism.design(plan, rows)
    if unit.name in CELL_UNITS:
        made_of = origins(mechanism.columns)
        chosen = [one for one, of in zip(mechanism.columns, made_of, strict=True) if of == made_of[column or 0]]
        mechanism = replace(mechanism, columns=tuple(chosen))
    changed = {"entry": 1, "readings": unit.readings, "record": 1, "person": unit.max_rows, "column": rows}[unit.name]
    p = len(mechanism.columns)
    signs = alternating(changed * p).reshape(changed, p)
    pair = raw_rows(-signs, mechanism.columns), raw_rows(signs, mechanism.columns)
    weights = signs * np.array([_shift_over_variance(column) for column in mechanism.columns])
    return TableAttack(mechanism, Cells(replace(plan, columns=mechanism.columns)), pair, weights)


def _shift_over_variance(column: Column) -> float:
    if column.cell_noise is None:
        law = response_of(column)
        return math.log(law.kept / law.other)
    return 2 * column.half_width / column.cell_noise.variance


def _told(column: Column, released: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What the weights are for: the cell, or which of the two levels was answered."""
    if column.cell_noise is not None:
        return released
    last, missing = len(column.levels) - 1, len(column.levels)
    return np.asarray((released == last).astype(np.int64) - (released == missing))


def lowest_bit(values: Floats) -> Floats:
    """The exponent of the last bit set in each float: noise added in floating point leaves the value's own there."""
    mantissa, exponent = np.frexp(values)
    whole = (np.abs(mantissa) * 2.0**53).astype(np.int64)
    last = np.log2(np.maximum(whole & -whole, 1).astype(np.float64))
    return np.asarray(np.where(whole == 0, 0.0, exponent - 53 + last))


Counts = npt.NDArray[np.int64]
_CANDIDATES = 65
_CAUTION = 4  # thresholds are judged at level^4, lest a lucky one in the tails be taken; the bound is not touched


@dataclass(frozen=True)
class Certificate:
    """What the held-out half shows: mu is at least `mu`, unless an event of probability `level` happened."""

    mu: float
    statistic: str
    runs: int
    level: float
    threshold: float = 0.0
    above: bool = True
    false_positives: int = 0
    false_negatives: int = 0


@dataclass(frozen=True)
class _Test:
    """Say "D'" when sign * score > sign * threshold."""

    column: int
    sign: int
    threshold: float

    def errors(self, under: Floats, under_neighbour: Floats) -> tuple[int, int]:
        cut = self.sign * self.threshold
        false_positives = int(np.count_nonzero(self.sign * under[:, self.column] > cut))
        return false_positives, int(np.count_nonzero(self.sign * under_neighbour[:, self.column] <= cut))


def certify(under: Floats, under_neighbour: Floats, *, statistics: Sequence[str], level: float) -> Certificate:
    """Bound mu from below by scores under D and under its neighbour D', one row a run, one column a statistic.

    The bound exceeds the true mu with probability at most `level`, whatever the statistics are.
    """
    if under.shape != under_neighbour.shape or under.ndim != 2 or under.shape[1] != len(statistics):
        raise InputError(
            f"both sides need scores of shape (runs, {len(statistics)}), got {under.shape} and {under_neighbour.shape}."
        )
    half = len(under) // 2
    if half < 1:
        raise InputError(f"a certificate needs at least 2 runs on each side, got {len(under)}.")
    test = _strongest(under[:half], under_neighbour[:half], level**_CAUTION)
    held_out, held_out_neighbour = under[half:], under_neighbour[half:]
    false_positives, false_negatives = test.errors(held_out, held_out_neighbour)
    mu = float(_bound(np.array(false_positives), np.array(false_negatives), len(held_out), level))
    return Certificate(
        mu=max(mu, 0.0),
        statistic=statistics[test.column],
        threshold=test.threshold,
        above=test.sign > 0,
        false_positives=false_positives,
        false_negatives=false_negatives,
        runs=len(held_out),
        level=level,
    )


def upper_rate(errors: Counts, runs: int, level: float) -> Floats:
    """Clopper-Pearson: a rate that is below the true one with probability at most `level`."""
    rest = np.maximum(runs - errors, 1)
    return np.asarray(np.where(errors >= runs, 1.0, betainccinv(errors + 1.0, rest, level)))


def _bound(false_positives: Counts, false_negatives: Counts, runs: int, level: float) -> Floats:
    """Phi^-1(1 - alpha) - Phi^-1(beta) at the upper bounds of both rates, each wrong with probability level / 2."""
    alpha, beta = (upper_rate(errors, runs, level / 2) for errors in (false_positives, false_negatives))
    return np.asarray(np.where((alpha < 1) & (beta < 1), -ndtri(alpha) - ndtri(beta), 0.0))


def _strongest(under: Floats, under_neighbour: Floats, level: float) -> _Test:
    """The test whose bound would be largest on these runs.

    For Gaussian scores every threshold promises the same mu, but rare errors are estimated badly: judging a threshold
    by the bound it would give, not by the errors it makes, finds the moderate ones.
    """
    runs = len(under)
    best, best_bound = _Test(0, 1, 0.0), -np.inf
    for column in range(under.shape[1]):
        low, high = np.sort(under[:, column]), np.sort(under_neighbour[:, column])
        thresholds = _candidates(low, high)
        not_above = np.searchsorted(low, thresholds, side="right"), np.searchsorted(high, thresholds, side="right")
        not_below = np.searchsorted(low, thresholds, side="left"), np.searchsorted(high, thresholds, side="left")
        for sign, positives, negatives in (
            (1, runs - not_above[0], not_above[1]),
            (-1, not_below[0], runs - not_below[1]),
        ):
            bounds = _bound(positives, negatives, runs, level)
            ties = np.flatnonzero(bounds == bounds.max())
            at = int(ties[len(ties) // 2])  # between two sides that are wholly apart, the middle is the safest
            if bounds[at] > best_bound:
                best, best_bound = _Test(column, sign, float(thresholds[at])), float(bounds[at])
    return best


def _candidates(low: Floats, high: Floats) -> Floats:
    """Quantiles of both sides and the midpoints between them."""
    at = np.linspace(0, len(low) - 1, min(_CANDIDATES, len(low))).astype(np.int64)
    values = np.unique(np.concatenate([low[at], high[at]]))
    return np.sort(np.concatenate([values, (values[1:] + values[:-1]) / 2]))
