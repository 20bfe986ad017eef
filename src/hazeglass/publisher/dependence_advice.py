"""Linear or curved moments? What each would show, from the rows, the columns and the budget alone.

Curved moments see more kinds of dependence and pay for it twice: rows of 3p features need three times the noise of rows
of p columns, and a test of nine numbers needs a stronger signal than a test of one (docs/maths/curved.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from scipy.special import chdtri, chndtrinc, ndtri

from hazeglass.bundle.features import DEGREES
from hazeglass.publisher.moments import design_stages
from hazeglass.publisher.plan import Plan

__all__ = ["DependenceAdvice", "dependence_advice"]

# Mean of 1/variance of the clamped, clipped features of normal columns: what whitening does to the noise.
_WHITENING = 1.6
# A dependence of this strength explains about a tenth of a column's variance; who would miss it should not look for it.
WORTHWHILE = 0.3


@dataclass(frozen=True)
class DependenceAdvice:
    """The smallest partial correlation that linear moments show, the smallest strength that curved ones do."""

    linear_detectable: float
    curved_detectable: float
    advice: Literal["linear", "curved"]
    chosen: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """For people who have not decided yet."""
        linear, curved = _from(self.linear_detectable), _from(self.curved_detectable)
        first = (
            f'Linear or curved: with dependence = "linear" this budget shows partial correlations {linear}; with '
            f'"curved" it shows dependence of any smooth shape {curved} in strength.'
        )
        if self.advice == "curved":
            return (first, 'Advice: "curved", unless you know that only straight lines matter and they may be faint.')
        return (first, f'Advice: "linear"; a curve that explains a tenth of a column (strength {WORTHWHILE}) is lost.')


def dependence_advice(plan: Plan, rows: int, threshold: float, power: float) -> DependenceAdvice | None:
    """For moments that could be either: found means a p-value of `threshold`, with this power."""
    if plan.form != "moments" or not plan.adaptive:
        return None
    sampling = 1 / math.sqrt(rows)
    linear, curved = (
        design_stages(replace(plan, dependence=kind), rows)[-1].tau / rows for kind in ("linear", "curved")
    )
    one = float(ndtri(1 - threshold / 2) + ndtri(power))
    degrees = DEGREES["hermite"] ** 2
    nine = math.sqrt(float(chndtrinc(chdtri(degrees, threshold), degrees, 1 - power)))
    linear_detectable = min(1.0, one * math.hypot(sampling, linear))
    curved_detectable = min(1.0, nine * math.hypot(sampling, _WHITENING * curved))
    advice: Literal["linear", "curved"] = "curved" if curved_detectable <= WORTHWHILE else "linear"
    return DependenceAdvice(linear_detectable, curved_detectable, advice, plan.dependence)


def _from(smallest: float) -> str:
    return f"from {smallest:.2g}" if smallest < 1 else "of no size"
