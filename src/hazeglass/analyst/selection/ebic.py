"""Extended Bayesian information criterion, counting the rows by what the noise leaves of them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.moments import NoisyCovariance
from hazeglass.analyst.penalties import Setting
from hazeglass.analyst.selection.choice import ABOVE_DISTANCE, Choice, PenaltyPath, edge_support, warn_at_the_edge
from hazeglass.analyst.solvers import graphical_lasso
from hazeglass.errors import UnboundedObjectiveError

__all__ = ["ebic", "effective_rows", "inference_penalty"]

_GAMMA = 0.5


def effective_rows(noisy: NoisyCovariance) -> float:
    """Rows of clean data that would leave as much error in a typical off-diagonal entry (correlation scale)."""
    off = ~np.eye(len(noisy.names), dtype=bool)
    return 1.0 / float(np.mean(noisy.error.entry_sd()[off] ** 2))


def inference_penalty(noisy: NoisyCovariance, setting: Setting, alpha: float) -> float:
    """A penalty for the fit that error bars are built on: small beside the noise when there is data enough.

    De-biasing removes the penalty's effect to first order; what is left is of second order in the penalty, and must be
    small beside the standard error.
    """
    sd = float(np.median(noisy.error.entry_sd()))
    crowding = min(3.0, max(0.1, 10 * len(noisy.names) / effective_rows(noisy)))
    return max(min(alpha, crowding * sd), min(alpha, ABOVE_DISTANCE * setting.distance(noisy.covariance)))


def ebic(noisy: NoisyCovariance, setting: Setting) -> Choice:
    """n_eff (tr(S T) - log det T) + k log n_eff + 4 gamma k log p, gamma = 1/2.

    T is refitted without a penalty on the k edges of each graph along the path (Foygel and Drton 2010): the penalised
    fit itself would be charged for its shrinkage, and strong edges would drag in every weak one.
    """
    path = PenaltyPath(noisy.covariance, setting)
    criterion = _Criterion(noisy)
    scores = [criterion.score(edge_support(solution.precision)) for solution in path.solutions]
    while int(np.argmin(scores)) == len(scores) - 1 and path.can_extend:
        scores += [criterion.score(edge_support(solution.precision)) for solution in path.extend()]
    best = int(np.argmin(scores))
    warn_at_the_edge("ebic", path, best)
    return path.choice("ebic", scores, best)


class _Criterion:
    """Scores graphs, each only once."""

    def __init__(self, noisy: NoisyCovariance) -> None:
        self.covariance = noisy.covariance
        self.rows = max(2.0, effective_rows(noisy))
        self._known: dict[bytes, float] = {}

    def score(self, support: npt.NDArray[np.bool_]) -> float:
        """The criterion of a graph; infinite where its refit has no maximum (an indefinite covariance)."""
        key = support.tobytes()
        if key not in self._known:
            count = int(np.count_nonzero(np.triu(support, 1)))
            cost = count * (math.log(self.rows) + 4 * _GAMMA * math.log(max(2, len(support))))
            weights = np.where(support, 0.0, np.inf)
            try:
                refit = graphical_lasso(self.covariance, 1.0, weights=weights, penalize_diagonal=False)
                self._known[key] = self.rows * refit.objective + cost
            except UnboundedObjectiveError:
                self._known[key] = math.inf
        return self._known[key]
