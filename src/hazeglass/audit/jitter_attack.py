"""The attack on scores that are drawn inside leaves: whole-numbered columns, few rows, fresh draws in every run.

A draw depends on the release's key, the row's number and the column, and on nothing that a cell could change. So the
distance between neighbours is what it is for any fixed draws, and whoever does not know them learns no more. The pair
lies at rare values, whose scores are far out and hardly vary, so that the attack comes close although it does not know
the draws; the other rows lie at common values, whose scores vary most: if a changed cell touched them, it would show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hazeglass.audit.attack import far_rows, raw_rows
from hazeglass.audit.steps import Floats, Pair, StageView, Sums, in_noise
from hazeglass.bundle.columns import unit_step
from hazeglass.features.fitting import Counts
from hazeglass.features.marginal import Marginal, first_borders
from hazeglass.features.shaping import first_shape
from hazeglass.publisher.moments import add_noise, column_encoder, stage_of
from hazeglass.publisher.noise import BitSource, SeededBits
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Cells

VALUES = 4  # of every column, from 0: the first and the last are rare
_RARE, _ROWS = 2e-4, 1e6  # how rare, and among how many rows the marginals were counted
OTHERS = 3
_LEARNT = 1 << 14  # runs from which the attacker learns what the sums are on average


@dataclass(frozen=True, eq=False)
class JitterAttack:
    """One stage on rows whose scores are drawn anew in every run. Many runs are one long table.

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


def attack_jitter(plan: Plan) -> JitterAttack:
    """The attack on a stage with the whole budget; the plan's columns are whole numbers below VALUES."""
    p, unit = len(plan.columns), plan.unit
    x, y = far_rows(p, 0.0)[0]
    if unit.name in ("entry", "readings"):
        x, y = np.ones((2, p))
        x[0], x[-1], y[-1] = (
            -1.0,
            1 / 3,
            1 / 3,
        )  # the last cell is common: if the first one touched its draw, it would show
    here, there = (np.tile(row, (unit.max_rows * unit.readings, 1)) for row in (x, y))
    others = np.where(np.arange(OTHERS * p).reshape(OTHERS, p) % 3 == 0, 1 / 3, -1 / 3)
    key = SeededBits(0).key()
    encoder = column_encoder(plan, [_marginal(unit_step(column, plan.scale)) for column in plan.columns], key)
    n = 1 + -(-OTHERS // unit.max_rows)
    stage = stage_of(unit, n, plan.guarantee.mu, encoder, first_shape(p, shaped=False))
    rows = tuple(raw_rows(np.vstack([changed, others]), plan.columns) for changed in (here, there))
    attack = JitterAttack(plan, StageView(stage, encoder), (rows[0], rows[1]), np.zeros(0))
    return replace(attack, move=attack_mean(attack, 1) - attack_mean(attack, 0))


def attack_mean(attack: JitterAttack, side: int) -> Floats:
    """What the sums of one side are on average, in units of the noise."""
    stage = attack.view.stage
    first, second, rows = attack.sums(side, _LEARNT, SeededBits(side))
    mean, square = first.mean(axis=0) / stage.steps, second.mean(axis=0) / stage.steps**2
    return in_noise(stage, mean, square, np.asarray(rows))


def _marginal(step: float) -> Marginal:
    """A column with two common values and a rare one at either end."""
    shares = np.full(VALUES, (1 - 2 * _RARE) / (VALUES - 2))
    shares[[0, -1]] = _RARE
    return Marginal((Counts(first_borders(step), _ROWS * shares, 0.0, 1.0),), step)
