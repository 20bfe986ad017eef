"""Choose the penalty. Every choice is made from the release alone, so it costs no privacy."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.moments import NoisyCovariance
from hazeglass.analyst.nearest_psd import nearest_psd_max_norm
from hazeglass.analyst.solvers import Solution, graphical_lasso
from hazeglass.errors import SelectionWarning, UnboundedObjectiveError

__all__ = ["Choice", "ebic", "effective_rows", "inference_penalty"]

FloatArray = npt.NDArray[np.float64]

_GAMMA = 0.5
_NONZERO = 1e-10
_GRID = 20
_FIRST_SPAN, _LONGEST_SPAN = 1e-2, 1e-4
# Penalties must stay above d(S), the distance to the positive semidefinite cone; this much above is comfortable.
_ABOVE_DISTANCE = 1.05


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen penalty, its fit, and the criterion along the path."""

    method: str
    alpha: float
    solution: Solution
    alphas: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    edges: tuple[int, ...] = ()


def effective_rows(noisy: NoisyCovariance) -> float:
    """Rows of clean data that would leave as much error in a typical off-diagonal entry (correlation scale)."""
    off = ~np.eye(len(noisy.names), dtype=bool)
    return 1.0 / float(np.mean(noisy.error.entry_sd()[off] ** 2))


def inference_penalty(noisy: NoisyCovariance, alpha: float) -> float:
    """A penalty for the fit that error bars are built on: small beside the noise when there is data enough.

    De-biasing removes the penalty's effect to first order; what is left is of second order in the penalty, and must be
    small beside the standard error.
    """
    sd = float(np.median(noisy.error.entry_sd()))
    crowding = min(3.0, max(0.1, 10 * len(noisy.names) / effective_rows(noisy)))
    _, distance = nearest_psd_max_norm(noisy.covariance)
    return max(min(alpha, crowding * sd), min(alpha, _ABOVE_DISTANCE * distance))


def ebic(noisy: NoisyCovariance) -> Choice:
    """Extended Bayesian information criterion, counting the rows by what the noise leaves of them.

    n_eff (tr(S T) - log det T) + k log n_eff + 4 gamma k log p, gamma = 1/2, where T is refitted without a penalty on
    the k edges of each graph along the path (Foygel and Drton 2010): the penalised fit itself would be charged for its
    shrinkage, and strong edges would drag in every weak one. The grid goes from the penalty that empties the graph
    downwards, and extends itself while the smallest penalty is the best.
    """
    covariance = noisy.covariance
    _, distance = nearest_psd_max_norm(covariance)
    top = 1.0001 * float(np.abs(covariance[~np.eye(len(covariance), dtype=bool)]).max(initial=1e-3))
    floor = max(_LONGEST_SPAN * top, _ABOVE_DISTANCE * distance)
    path = _Path(noisy)
    path.extend(_geometric(top, max(_FIRST_SPAN * top, floor), _GRID))
    while path.best_is_last and path.alphas[-1] > 1.001 * floor:
        path.extend(_geometric(path.alphas[-1] / 1.3, max(path.alphas[-1] / 10, floor), _GRID // 2))
    if path.best_is_last and len(path.alphas) > 1:
        why = (
            f"d(S) = {distance:.3g} allows none below"
            if floor > _LONGEST_SPAN * top
            else "smaller ones fit nearly all pairs"
        )
        warnings.warn(
            f"ebic chose the smallest penalty it tried, {path.alphas[-1]:.3g}; {why}.", SelectionWarning, stacklevel=2
        )
    return path.choice("ebic")


class _Path:
    """Fits along decreasing penalties with their criterion."""

    def __init__(self, noisy: NoisyCovariance) -> None:
        self.covariance = noisy.covariance
        self.rows = max(2.0, effective_rows(noisy))
        self.alphas: list[float] = []
        self.solutions: list[Solution] = []
        self.scores: list[float] = []
        self.counts: list[int] = []
        self._known: dict[bytes, float] = {}

    def extend(self, alphas: list[float]) -> None:
        for alpha in alphas:
            solution = graphical_lasso(
                self.covariance, alpha, warm_start=self.solutions[-1] if self.solutions else None
            )
            support = np.abs(solution.precision) > _NONZERO
            self.alphas.append(alpha)
            self.solutions.append(solution)
            self.counts.append(int(np.count_nonzero(np.triu(support, 1))))
            self.scores.append(self._score(support, self.counts[-1]))

    def _score(self, support: npt.NDArray[np.bool_], count: int) -> float:
        """The criterion of a graph; infinite where its refit has no maximum (an indefinite covariance)."""
        key = support.tobytes()
        if key not in self._known:
            cost = count * (math.log(self.rows) + 4 * _GAMMA * math.log(max(2, len(support))))
            try:
                refit = graphical_lasso(
                    self.covariance, 1.0, weights=np.where(support, 0.0, np.inf), penalize_diagonal=False
                )
                self._known[key] = self.rows * refit.objective + cost
            except UnboundedObjectiveError:
                self._known[key] = math.inf
        return self._known[key]

    @property
    def best(self) -> int:
        return int(np.argmin(self.scores))

    @property
    def best_is_last(self) -> bool:
        return self.best == len(self.scores) - 1

    def choice(self, method: str) -> Choice:
        best = self.best
        return Choice(
            method, self.alphas[best], self.solutions[best], tuple(self.alphas), tuple(self.scores), tuple(self.counts)
        )


def _geometric(top: float, bottom: float, size: int) -> list[float]:
    """Decreasing penalties; a single one where the floor has passed the top."""
    return [bottom] if bottom >= top else [float(alpha) for alpha in np.geomspace(top, bottom, size)]
