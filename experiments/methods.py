"""The methods that are compared, each from a covariance: two of ours, and those the paper compares with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hazeglass.errors import HazeglassWarning, SolverInputError

from . import baselines
from .protocol import area, fit, scores_of

__all__ = ["CORRECTED", "METHODS", "best_over"]

Floats = npt.NDArray[np.float64]
Method = Callable[[Floats, float, int], Floats]
_LEVELS = (0.01, 0.5, 1.0, 1.96, 3.0)  # of G-Wishart: how many posterior deviations an entry must lie from zero


def _paper(covariance: Floats, share: float, n: int) -> Floats:
    """The paper's: graphical lasso of the corrected covariance, pairs ranked by |precision|."""
    return scores_of(fit(covariance, share * _largest(covariance)))


def _hazeglass(covariance: Floats, share: float, n: int) -> Floats:
    """As `hazeglass recover` works: on the correlation scale, pairs ranked by |partial correlation|."""
    correlation = baselines.as_correlation(covariance)
    precision = fit(correlation, share * _largest(correlation))
    scale = np.sqrt(np.diag(precision))
    return scores_of(precision / np.outer(scale, scale))


def _adaptive(covariance: Floats, share: float, n: int) -> Floats:
    return _upper(baselines.adaptive_graphical_lasso(covariance, share * _largest(covariance)))


def _neighbourhood(covariance: Floats, share: float, n: int) -> Floats:
    return _upper(baselines.neighbourhood_selection(covariance, share * _largest(covariance)))


def _scio(covariance: Floats, share: float, n: int) -> Floats:
    return _upper(baselines.scio(covariance, share * _largest(covariance)))


def _clime(covariance: Floats, share: float, n: int) -> Floats:
    return _upper(baselines.clime(covariance, share * _largest(covariance)))


def _wishart(covariance: Floats, level: float, n: int) -> Floats:
    return _upper(baselines.g_wishart(covariance, level, rows=n))


def _largest(covariance: Floats) -> float:
    return float(np.abs(covariance - np.diag(covariance.diagonal())).max())


def _upper(estimate: baselines.Estimate) -> Floats:
    return np.asarray(estimate.scores[np.triu_indices(len(estimate.scores), 1)])


METHODS: dict[str, Method] = {
    "G-Wishart": _wishart,
    "SCIO": _scio,
    "neighbourhood selection": _neighbourhood,
    "CLIME": _clime,
    "adaptive lasso": _adaptive,
    "the paper's": _paper,
    "hazeglass": _hazeglass,
}
CORRECTED = ("the paper's", "hazeglass")
"""The two that correct for the noise by design, and cope with an indefinite covariance themselves."""


def best_over(
    name: str, covariance: Floats, n: int, truth: npt.NDArray[np.bool_], shares: Sequence[float]
) -> tuple[Floats, float, float]:
    """Scores, AUC and penalty at the best of a list of penalties, which every method is granted alike.

    The penalties are shares of the largest covariance between two columns; G-Wishart has levels of its own. A penalty
    at which a method has no answer is left out; without any answer the AUC is one half.
    """
    best = (0.5, float("nan"), np.zeros(len(truth)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazeglassWarning)
        if name not in CORRECTED:
            covariance = baselines.usable_covariance(covariance)  # once, instead of at every penalty
        for penalty in _LEVELS if name == "G-Wishart" else shares:
            try:
                scores = METHODS[name](covariance, penalty, n)
            except SolverInputError:
                continue
            best = max(best, (area(truth, scores), penalty, scores), key=lambda one: one[0])
    value, penalty, scores = best
    return scores, value, penalty
