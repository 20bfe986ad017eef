"""The attack on the private search for a clip radius: one person's rows are all long under D and all short under D'.

Every answer then moves by max_rows, whatever was asked, so the likelihood ratio is the sum of the answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.audit.moments_attack import unit_table
from hazeglass.compute.engines import get_engine
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.radius import radius_grid, rows_within, search_radius
from hazeglass.publisher.randomness import BitSource

__all__ = ["RadiusAttack", "attack_radius"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RadiusAttack:
    """`within` are the exact counts under D and D'. The search runs one by one, so a run is dear: see `cells`."""

    plan: Plan
    n: int
    grid: Floats
    within: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    statistics: tuple[str, ...] = ("sum of the answers",)
    cells: int = 4096

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """One search a run."""
        scores = np.empty((runs, 1))
        for run in range(runs):
            plan = self.plan
            n = None if plan.unit.name == "person" else self.n
            found = search_radius(self.within[side], n, self.grid, plan.unit, plan.guarantee, bits)
            scores[run] = sum(answer for _, answer in found.answers) - len(found.answers) * self.n
        return scores


def attack_radius(plan: Plan, n: int) -> RadiusAttack:
    """The attack on a search that spends the whole of the plan's budget."""
    p, m = len(plan.columns), plan.unit.max_rows
    grid = radius_grid(p)
    long, short = np.zeros((n, p)), np.zeros((n, p))
    long[:m] = 1.0
    if plan.unit.name == "person":  # one without rows also moves the answer to how many rows there are
        long = long[m:]
    here, there = (rows_within(unit_table(plan, side), grid, get_engine("serial")) for side in (long, short))
    return RadiusAttack(plan, n, grid, (here, there))
