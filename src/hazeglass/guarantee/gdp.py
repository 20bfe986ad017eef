"""mu-Gaussian differential privacy in closed form.

A mechanism is mu-GDP when telling two neighbouring datasets apart from its output is at least as hard as
telling N(0, 1) from N(mu, 1) from one draw. Everything else (epsilon and delta, attack odds, composition)
follows from mu. Derivations: docs/maths/gdp.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri

from hazeglass.errors import InputError

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
