"""A lower bound on mu that holds with a stated probability, from the scores of an attack on both sides.

An attack says "D'" when its score passes a threshold. If it is wrong about D at the rate alpha and about D' at the rate
beta, no mechanism below mu = Phi^-1(1 - alpha) - Phi^-1(beta) can have produced the scores. Everything that is chosen
(statistic, direction, threshold) is chosen on the first half of the runs; the second half is used once, through
Clopper-Pearson upper bounds on both rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, ndtri

from hazeglass.errors import InputError

Floats = npt.NDArray[np.float64]
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
