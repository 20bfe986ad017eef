"""Running releases of persons: one more draw, about all rows so far, beside the draws of the releases before.

What earlier releases drew is public, so nothing secret is kept from one to the next: a release repeats the draws of the
one before it, as they stand there, and adds its own. No draw is made twice: the ledger, which is charged for all of
them with the first, lets every period in once and in order (docs/maths/lifetime.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from hazeglass.bundle.manifest import Manifest, Stage
from hazeglass.bundle.moments import ReleasedMoments, running_rows
from hazeglass.bundle.reader import Release, load
from hazeglass.compute.engines import Engine
from hazeglass.errors import InputError, PrivacyRefusal
from hazeglass.guarantee.budget import Lifetime
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.moments import Drawn, IntArray, add_noise, running_stage
from hazeglass.publisher.noise import BitSource
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.sums import exact_sums

__all__ = ["draw_sums", "publish_running", "release_before"]


def release_before(plan: Plan, after: str | Path | None, *, ledger: bool, simulation: bool) -> Release | None:
    """The release whose draws this one repeats, verified; refused where the plan does not go on from it."""
    lifetime = plan.lifetime
    if lifetime is None:
        if after is not None:
            raise InputError(
                "after names the release of the period before, and the plan has no [lifetime]. Leave it out."
            )
        return None
    if not ledger and not simulation:
        raise PrivacyRefusal(
            "releases of a [lifetime] keep one promise together only if each period is drawn once, which a ledger sees "
            "to. Make one with `hazeglass ledger new --protects person --id-column ...`, and name it."
        )
    number = lifetime.step - 1
    if (after is None) != (number == 0):
        what = (
            "is the first, so no release comes before it: leave after out"
            if after
            else (f"goes on from that of {lifetime.periods[number - 1]!r}: name that release with after (--after)")
        )
        raise InputError(f"the release of period {lifetime.periods[number]!r} {what}.")
    if after is None:
        return None
    release = load(after)
    _check_same(plan, lifetime, release.manifest, simulation)
    return release


def _check_same(plan: Plan, lifetime: Lifetime, before: Manifest, simulation: bool) -> None:
    """Refuse to go on from a release that was made otherwise; the ledger compares the plans themselves."""
    theirs = before.lifetime
    if theirs is None or theirs.step != lifetime.step - 1:
        raise InputError(
            f"after must be the running release of period {lifetime.periods[lifetime.step - 2]!r}, and it is another. "
            "Name that one."
        )
    own, stage = running_stage(plan, plan.persons or 0, lifetime), before.stages[0]
    facts = [
        (theirs.column, theirs.periods, theirs.coefficients)
        == (lifetime.column, lifetime.periods, lifetime.coefficients),
        (before.unit, before.persons, before.columns) == (plan.unit, plan.persons, plan.columns),
        (before.mu, before.simulation) == (plan.guarantee.mu, simulation),
        replace(stage, tau=own.tau, rows=0) == own,
        math.isclose(stage.tau / theirs.error, own.tau, rel_tol=1e-9),
    ]
    if not all(facts):
        raise InputError(
            "a release of a [lifetime] must be made as the one before it, and the plan (or this version of hazeglass) "
            "says otherwise. Change nothing in it but title and period."
        )


def draw_sums(rows: Rows, stage: Stage, lifetime: Lifetime, engine: Engine) -> tuple[IntArray, IntArray, int]:
    """The secret sums that this period's draw is about, in lattice steps of 2^-bits: those of every period so far,
    times their coefficients."""
    first, second = np.zeros(stage.size, dtype=np.int64), np.zeros((stage.size, stage.size), dtype=np.int64)
    number, weights = 0, reversed(lifetime.coefficients[: lifetime.step])
    for weight, own in zip(weights, rows.of_periods(), strict=True):
        sums, products, count = exact_sums(own, stage, Encoder("public", "columns"), engine)
        first, second, number = first + weight * sums, second + weight * products, number + weight * count
    return first, second, number


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
