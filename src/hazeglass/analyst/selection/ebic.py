"""Extended Bayesian information criterion, counting the rows by what the noise leaves of them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.moments import NoisyCovariance
from hazeglass.analyst.penalties import Setting
from hazeglass.analyst.selection.choice import Choice, PenaltyPath, edge_support, warn_at_the_edge
from hazeglass.errors import ConvergenceWarning, SolverInputError
from hazeglass.glasso import graphical_lasso

__all__ = ["ebic", "effective_rows"]

_GAMMA = 0.5
_REFIT_STEPS = 300


def effective_rows(noisy: NoisyCovariance) -> float:
    """Rows of clean data that would leave as much error in a typical off-diagonal entry (correlation scale)."""
    off = ~np.eye(len(noisy.names), dtype=bool)
    return 1.0 / float(np.mean(noisy.error.entry_sd()[off] ** 2))


def ebic(noisy: NoisyCovariance, setting: Setting) -> Choice:
    """n_eff (tr(S T) - log det T) + k log n_eff + 4 gamma k log p, gamma = 1/2.

    T is refitted without a penalty on the k edges of each graph along the path (Foygel and Drton 2010): the penalised
    fit itself would be charged for its shrinkage, and strong edges would drag in every weak one.
    """
    path = PenaltyPath(noisy.covariance, setting)
    criterion = _Criterion(noisy, setting.device)
    scores = [criterion.score(edge_support(solution.precision)) for solution in path.solutions]
    while int(np.argmin(scores)) == len(scores) - 1 and path.can_extend:
        scores += [criterion.score(edge_support(solution.precision)) for solution in path.extend()]
    best = int(np.argmin(scores))
    warn_at_the_edge("ebic", path, best)
    return path.choice("ebic", scores, best)


class _Criterion:
    """Scores graphs, each only once, from sparse to dense."""

    def __init__(self, noisy: NoisyCovariance, device: str) -> None:
        self.covariance, self.device = noisy.covariance, device
        self.rows = max(2.0, effective_rows(noisy))
        self._known: dict[bytes, float] = {}
        self._too_many = math.inf  # so many edges are too many for an indefinite covariance

    def score(self, support: npt.NDArray[np.bool_]) -> float:
        """The criterion of a graph; infinite where its refit has no maximum (an indefinite covariance)."""
        key = support.tobytes()
        if key not in self._known:
            count = int(np.count_nonzero(np.triu(support, 1)))
            cost = count * (math.log(self.rows) + 4 * _GAMMA * math.log(max(2, len(support))))
            refit = self._refit(support) if count < self._too_many else None
            if refit is None:
                self._too_many = min(self._too_many, count)
            self._known[key] = math.inf if refit is None else self.rows * refit + cost
        return self._known[key]

    def _refit(self, support: npt.NDArray[np.bool_]) -> float | None:
        """The unpenalised objective on the graph's edges; None where it has no minimum.

        Its dual asks for a positive definite matrix that agrees with S on the edges: where a graph has none, neither
        has one with more edges. A refit that creeps on for hundreds of iterations is as good as unbounded.
        """
        weights = np.where(support, 0.0, np.inf)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                refit = graphical_lasso(
                    self.covariance,
                    1.0,
                    weights=weights,
                    penalize_diagonal=False,
                    max_iter=_REFIT_STEPS,
                    device=self.device,
                )
            except SolverInputError:  # no positive definite refit, or none within the steps
                return None
        return refit.objective if refit.converged else None
