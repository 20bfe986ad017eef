"""The likelihood-ratio attack on rows in time: on moments of stacked rows, a whole release or one stage with all the
budget, and on all draws of a lifetime together (docs/maths/lifetime.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hazeglass.audit.attack import alternating
from hazeglass.audit.moments_attack import SEED, StepsAttack, made_up_rows, pair_of, size_of, table_of, views_of
from hazeglass.audit.steps import Floats, StageStep, StageView, View
from hazeglass.compute.engines import get_engine
from hazeglass.features.shaping import first_shape
from hazeglass.publisher.lifetime import draw_sums
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.moments import Drawn, column_encoder, publish_moments, running_stage, stage_of
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.plan import Plan


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


def _typical(plan: Plan, rows: int) -> tuple[Floats, Drawn, Encoder]:
    """Rows, what their release said, and what its first stage of columns saw them through."""
    others = made_up_rows(plan, rows)
    bits = SeededBits(SEED)
    drawn = publish_moments(table_of(plan, others), plan, get_engine("serial"), bits)
    assert drawn.marginals is not None
    return others, drawn, column_encoder(plan, drawn.marginals.columns, bits.key())


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
    return max(found, key=lambda attack: sum(float(step.move @ step.move) for step in attack.steps))


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
