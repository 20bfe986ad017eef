"""The promise in attack odds and plain words: one function for preview, verify, statement and report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.units import Unit

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.05)
LARGEST_DELTA = 1e-3  # delta is the chance that nothing is promised: an epsilon quoted at a larger one says nothing
WEAK_EPSILON, VERY_WEAK_EPSILON = (
    5.0,
    20.0,
)  # above the first a reader is told, above the second a publisher must insist
_CURVE_DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)


@dataclass(frozen=True)
class Odds:
    """The best possible attack: how often it is right when it is wrong this often."""

    false_positive_rate: float
    true_positive_rate: float


@dataclass(frozen=True)
class Explanation:
    """A promise, ready to be shown."""

    mu: float
    epsilon: float
    delta: float
    unit: str
    odds: tuple[Odds, ...]
    curve: tuple[tuple[float, float], ...]
    tradeoff: tuple[tuple[float, float], ...]
    promise: tuple[str, ...]
    not_promised: tuple[str, ...]
    cautions: tuple[str, ...] = ()


@lru_cache(maxsize=16)
def explain(guarantee: GaussianDP, unit: Unit, delta: float) -> Explanation:
    """Say what `guarantee` means for the protected `unit`, with epsilon quoted at `delta`."""
    epsilon = guarantee.epsilon(delta)
    odds = tuple(Odds(rate, guarantee.true_positive_rate(rate)) for rate in FALSE_POSITIVE_RATES)
    one_percent = odds[1]
    promise = (
        f"The release protects {unit.in_words}: it is {guarantee.mu:.4g}-GDP, "
        f"which is epsilon = {epsilon:.4g} at delta = {delta:g}.",
        f"An attacker who knows everything else about the data, and who may accuse wrongly in "
        f"1 case of 100, is right in {100 * one_percent.true_positive_rate:.3g} cases of 100 "
        f"(guessing blindly would be right in 1).",
        "This holds whatever the attacker knows or will learn, and whatever is computed from the release.",
    )
    not_promised = (
        "Facts about the population are not hidden: that two columns depend on each other is what the release is for, "
        "and someone may draw conclusions about a person from it even if that person's row had not been there.",
        "Other releases of the same rows add up: two promises of mu compose to the square root of the sum of squares.",
        f"The number of {'persons' if unit.name == 'person' else 'rows'}, the column names, the bounds and the plan "
        "are public and not protected.",
        "Several protected units that belong together (a household over many rows) are protected less than one alone.",
    )
    right = round(100 * guarantee.best_accuracy)
    weak = (
        f"epsilon = {epsilon:.3g} is weak: told that one of two inputs was published, which differ in one protected "
        f"unit, the best attack says which in {right} of 100 cases, where guessing blindly is right in 50.",
    )
    return Explanation(
        mu=guarantee.mu,
        epsilon=epsilon,
        delta=delta,
        unit=unit.in_words,
        odds=odds,
        curve=tuple((guarantee.epsilon(d), d) for d in _CURVE_DELTAS),
        tradeoff=tuple((i / 100, guarantee.tradeoff(i / 100)) for i in range(101)),
        promise=promise,
        not_promised=not_promised,
        cautions=weak if epsilon > WEAK_EPSILON else (),
    )
