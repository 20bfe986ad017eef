"""mu-Gaussian differential privacy in closed form.

A mechanism is mu-GDP when telling two neighbouring datasets apart from its output is at least as hard as
telling N(0, 1) from N(mu, 1) from one draw. Everything else (epsilon and delta, attack odds, composition)
follows from mu. Derivations: docs/maths/gdp.md.

Randomised response: a level is released as itself, or as any other with equal probability.

With K levels, each other one with probability q and itself with P = 1 - (K - 1) q, the likelihoods of an answer under
two levels are P and q or the other way round, or equal. The trade-off function has its corners at (q, 1 - P) and
(1 - P, q), and a Gaussian one runs through both of them: the response is mu-GDP for mu = Phi^-1(P) - Phi^-1(q), and for
no smaller mu. q is a whole number of 2^-53, so that uniform bits of that number give it exactly and nothing is lost to
rounding.

The promise in attack odds and plain words: one function for preview, verify, statement and report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri

from hazeglass.errors import InputError
from hazeglass.guarantee.units import Unit

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class GaussianDP:
    """The promise: mu-Gaussian differential privacy.

    delta(eps) = Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2)

    >>> round(GaussianDP(1.0).delta(1.0), 12)
    0.126936737507
    """

    mu: float

    def __post_init__(self) -> None:
        if not (isinstance(self.mu, int | float | np.floating) and math.isfinite(self.mu) and self.mu > 0):
            raise InputError(f"mu must be a finite number above 0, got {self.mu!r}. Smaller means more private.")

    @classmethod
    def from_budget(cls, epsilon: float, delta: float) -> GaussianDP:
        """The largest mu whose delta at `epsilon` is at most `delta`."""
        _check_epsilon(epsilon)
        _check_delta(delta)
        target = math.log(delta)
        return cls(_increasing_root(lambda mu: _log_delta(epsilon, mu) - target, start=1.0))

    def delta(self, epsilon: float) -> float:
        """The delta for which this promise implies (epsilon, delta)-differential privacy."""
        return math.exp(self.log_delta(epsilon))

    def log_delta(self, epsilon: float) -> float:
        """Natural logarithm of :meth:`delta`, also where delta itself is below the smallest float."""
        _check_epsilon(epsilon)
        return _log_delta(epsilon, self.mu)

    def epsilon(self, delta: float) -> float:
        """The epsilon for which this promise implies (epsilon, delta)-differential privacy."""
        _check_delta(delta)
        target = math.log(delta)
        if _log_delta(0.0, self.mu) <= target:
            return 0.0
        return _increasing_root(lambda eps: target - _log_delta(eps, self.mu), start=self.mu)

    def tradeoff(self, alpha: float) -> float:
        """The smallest false-negative rate of any attack with false-positive rate `alpha`."""
        if not 0.0 <= alpha <= 1.0:
            raise InputError(f"alpha must be a false-positive rate between 0 and 1, got {alpha!r}.")
        return float(ndtr(-ndtri(alpha) - self.mu))

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """How often the best attack is right about someone when it is wrong about others at the given rate."""
        return 1.0 - self.tradeoff(false_positive_rate)

    @property
    def best_accuracy(self) -> float:
        """How often the best attack is right about which of two neighbours was published; 1/2 is blind guessing."""
        return float(ndtr(self.mu / 2))

    def compose(self, *others: GaussianDP) -> GaussianDP:
        """The promise of this release and the others together."""
        return GaussianDP(math.hypot(self.mu, *(other.mu for other in others)))

    def share(self, fraction: float) -> GaussianDP:
        """The promise that spends `fraction` of this one's mu squared."""
        return GaussianDP(self.mu * math.sqrt(fraction))


def _log_delta(epsilon: float, mu: float) -> float:
    """log delta without overflow or cancellation.

    With x = eps/mu - mu/2, phi the normal density and m(t) = (1 - Phi(t))/phi(t) Mills' ratio,
    delta = phi(x) (m(x) - m(x + mu)), because exp(eps) phi(x + mu) = phi(x).
    """
    x = epsilon / mu - mu / 2
    if mu < 0.5:
        # m(x) - m(x + mu) cancels for small mu; its integral form does not.
        t = x + mu / 2 * (1 + _NODES)
        return _log_density(x) + math.log(mu / 2 * float(_WEIGHTS @ _mills_slope(t)))
    if x > 0:
        return _log_density(x) + math.log(_mills(x) - _mills(x + mu))
    return math.log(float(ndtr(-x)) - math.exp(_log_density(x)) * _mills(x + mu))


def _log_density(x: float) -> float:
    return -0.5 * x * x - _LOG_SQRT_2PI


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def _mills_slope(t: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """-m'(t) = 1 - t m(t), by its asymptotic series where the difference would cancel."""
    far = t > 100.0
    safe = np.where(far, t, 100.0)
    series = (1 - 3 / safe**2 * (1 - 5 / safe**2 * (1 - 7 / safe**2))) / safe**2
    near = np.where(far, 0.0, t)
    return np.where(far, series, 1 - near * math.sqrt(math.pi / 2) * erfcx(near / math.sqrt(2)))


def _increasing_root(function, start: float) -> float:  # type: ignore[no-untyped-def]
    """Root of an increasing function on (0, inf), to the last bits of a float."""
    low = high = start
    while function(high) < 0:
        low, high = high, high * 2
        if high > 1e300:
            raise InputError("the budget is so loose that no number expresses it; lower mu, epsilon or delta.")
    while function(low) > 0:
        low /= 2
        if low < 1e-300:
            raise InputError("the budget is so tight that no positive mu meets it; raise epsilon or delta.")
    return float(brentq(function, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=1000))


def _check_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InputError(f"epsilon must be a finite number, at least 0, got {epsilon!r}.")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise InputError(f"delta must lie strictly between 0 and 1, got {delta!r}; 1e-6 is a common choice.")


BITS = 53  # of the numbers that answers are drawn from: q is a float, exactly
NUMBERS = 1 << BITS


@dataclass(frozen=True)
class RandomisedResponse:
    """`levels` answers (missing is one of them), each but the true one given with probability `other`.

    >>> law = RandomisedResponse(2, 0.25)
    >>> law.kept, round(law.mu, 6)
    (0.75, 1.34898)
    """

    levels: int
    other: float

    def __post_init__(self) -> None:
        whole = self.other * NUMBERS
        if self.levels < 2 or not (whole >= 1 and whole.is_integer() and self.levels * self.ticks <= NUMBERS):
            raise InputError(
                f"a response among {self.levels} levels needs a probability for each other one that is at most that "
                f"of the true one and a multiple of 2^-{BITS}, got {self.other!r}."
            )

    @classmethod
    def for_mu(cls, levels: int, mu: float) -> RandomisedResponse:
        """The one that says most within a promise of `mu`."""
        low, high = 0, NUMBERS // levels  # more than mu, and (all but) nothing
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if cls(levels, middle / NUMBERS).mu <= mu else (middle, high)
        found = cls(levels, high / NUMBERS)
        if found.mu > mu:
            raise InputError(f"mu = {mu:g} is too little for a response among {levels} levels. Raise the budget.")
        return found

    @property
    def ticks(self) -> int:
        """How many of the 2^53 equally likely numbers stand for each other level."""
        return int(self.other * NUMBERS)

    @property
    def kept(self) -> float:
        """The probability P of the true level."""
        return (NUMBERS - (self.levels - 1) * self.ticks) / NUMBERS

    @property
    def mu(self) -> float:
        """The exact GDP parameter; Phi^-1(P) from 1 - P, which keeps its digits where P is all but 1."""
        from scipy.special import ndtri  # a ledger should open at once, without it

        return float(abs(-ndtri((self.levels - 1) * self.other) - ndtri(self.other)))


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
