"""The likelihood-ratio attack on all draws of a lifetime together (docs/maths/lifetime.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hazeglass.audit.moments_attack import StepsAttack, pair_of, table_of
from hazeglass.audit.steps import StageStep
from hazeglass.compute.engines import get_engine
from hazeglass.publisher.lifetime import draw_sums
from hazeglass.publisher.moments import running_stage
from hazeglass.publisher.plan import Plan


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
