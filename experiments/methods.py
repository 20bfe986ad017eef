"""The methods that are compared, each from a covariance: ours is the graphical lasso, the others the paper's."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hazeglass import baselines
from hazeglass.errors import HazeglassWarning

from .protocol import area, fit, scores_of

__all__ = ["METHODS", "best_over"]

Floats = npt.NDArray[np.float64]
Method = Callable[[Floats, float, int], Floats]


def _ours(covariance: Floats, alpha: float, n: int) -> Floats:
    return scores_of(fit(covariance, alpha))


def _neighbourhood(covariance: Floats, alpha: float, n: int) -> Floats:
    return _upper(baselines.neighbourhood_selection(covariance, alpha).scores)


def _upper(scores: Floats) -> Floats:
    return np.asarray(scores[np.triu_indices(len(scores), 1)])


METHODS: dict[str, Method] = {"neighbourhood": _neighbourhood, "ours": _ours}


def best_over(
    name: str, covariance: Floats, n: int, truth: npt.NDArray[np.bool_], shares: list[float]
) -> tuple[Floats, float, float]:
    """Scores, AUC and penalty share at the best of a list of penalties, which every method is granted alike."""
    largest = float(np.abs(covariance - np.diag(covariance.diagonal())).max())
    tried = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazeglassWarning)
        for share in shares:
            scores = METHODS[name](covariance, share * largest, n)
            tried.append((area(truth, scores), share, scores))
    value, share, scores = max(tried, key=lambda one: one[0])
    return scores, value, share
