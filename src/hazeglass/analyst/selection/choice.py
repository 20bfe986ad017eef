"""The path of penalties, and the one chosen from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.penalties import Setting
from hazeglass.errors import SelectionWarning, warn
from hazeglass.glasso import Solution

__all__ = ["ABOVE_DISTANCE", "Choice", "PenaltyPath", "edge_count", "edge_support", "warn_at_the_edge"]

FloatArray = npt.NDArray[np.float64]

_NONZERO = 1e-10
_GRID = 20
_FIRST_SPAN, _LONGEST_SPAN = 1e-2, 1e-4
# Penalties must stay above d(S), the distance to the positive semidefinite cone; this much above is comfortable.
ABOVE_DISTANCE = 1.05


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen penalty, its fit, and the criterion along the path (smaller is better).

    stability  how often each pair was an edge over the subsamples, at the chosen penalty (stars only)
    """

    method: str
    alpha: float
    solution: Solution
    alphas: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    edges: tuple[int, ...] = ()
    stability: FloatArray | None = None


def edge_support(precision: FloatArray) -> npt.NDArray[np.bool_]:
    """Which entries are not zero."""
    return np.asarray(np.abs(precision) > _NONZERO)


def edge_count(precision: FloatArray) -> int:
    """How many pairs are edges."""
    return int(np.count_nonzero(np.triu(edge_support(precision), 1)))


class PenaltyPath:
    """Decreasing penalties from the one that empties the graph, with their fits; extends itself on demand."""

    def __init__(self, covariance: FloatArray, setting: Setting) -> None:
        self.covariance, self.setting = covariance, setting
        off = ~np.eye(len(covariance), dtype=bool) & (setting.weights > 0)
        ratio = np.abs(covariance[off]) / setting.weights[off]
        self.top = 1.0001 * float(ratio.max(initial=1e-3))
        self.distance = setting.distance(covariance)
        self.floor = max(_LONGEST_SPAN * self.top, ABOVE_DISTANCE * self.distance)
        self.alphas: list[float] = []
        self.solutions: list[Solution] = []
        self.extend()

    @property
    def can_extend(self) -> bool:
        """Whether smaller penalties than the last are worth trying and have an estimate."""
        return self.alphas[-1] > 1.001 * self.floor

    def extend(self) -> list[Solution]:
        """Fit the next, smaller penalties: two decades at first, one more each time."""
        if not self.alphas:
            new = _geometric(self.top, max(_FIRST_SPAN * self.top, self.floor), _GRID)
        else:
            new = _geometric(self.alphas[-1] / 1.3, max(self.alphas[-1] / 10, self.floor), _GRID // 2)
        fitted = []
        for alpha in new:
            before = self.solutions[-1] if self.solutions else None
            fitted.append(self.setting.fit(self.covariance, alpha, before))
            self.alphas.append(alpha)
            self.solutions.append(fitted[-1])
        return fitted

    def choice(self, method: str, scores: list[float], best: int, stability: FloatArray | None = None) -> Choice:
        """The chosen point of the path."""
        counts = tuple(edge_count(solution.precision) for solution in self.solutions)
        return Choice(
            method,
            self.alphas[best],
            self.solutions[best],
            tuple(self.alphas),
            tuple(scores),
            counts,
            stability,
        )


def warn_at_the_edge(method: str, path: PenaltyPath, best: int) -> None:
    """Say so when the best penalty is the smallest that could be tried, and what that means."""
    if best < len(path.alphas) - 1 or len(path.alphas) == 1:
        return
    if path.floor > _LONGEST_SPAN * path.top:
        why = f"an indefinite covariance, d(S) = {path.distance:.3g}, allows none below; less noise would"
    else:
        why = "nearly every pair is an edge there. Pass alpha to go lower, or use fdr to choose edges"
    warn(f"{method} chose the smallest penalty, {path.alphas[best]:.3g}: {why}.", SelectionWarning)


def _geometric(top: float, bottom: float, size: int) -> list[float]:
    """Decreasing penalties; a single one where the floor has passed the top."""
    return [bottom] if bottom >= top else [float(alpha) for alpha in np.geomspace(top, bottom, size)]
