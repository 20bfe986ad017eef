"""The path of penalties, and the one chosen from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.penalties import Repair, Setting
from hazeglass.errors import InputError, RepairWarning, SelectionWarning, warn
from hazeglass.glasso import Solution

__all__ = ["ABOVE_DISTANCE", "GRID", "Choice", "PenaltyPath", "edge_count", "edge_support", "given", "warn_at_the_edge"]

FloatArray = npt.NDArray[np.float64]

_NONZERO = 1e-10
GRID = 20
_FIRST_SPAN, _LONGEST_SPAN = 1e-2, 1e-4
# Penalties must stay above d(S), the distance to the positive semidefinite cone;
# this much above it the solvers arrive without trouble.
ABOVE_DISTANCE = 1.05


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen penalty, its fit, and the criterion along the path (smaller is better).

    stability    how often each pair was an edge over the subsamples, at the chosen penalty (stars only)
    fold_scores  the criterion of every fold along the path, one row per fold (cross-validation only)
    moved        the largest change of an entry that an indefinite covariance needed at the chosen penalty
    """

    method: str
    alpha: float
    solution: Solution
    alphas: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    edges: tuple[int, ...] = ()
    stability: FloatArray | None = None
    fold_scores: FloatArray | None = None
    moved: float = 0.0


def given(covariance: FloatArray, setting: Setting, alpha: float) -> Choice:
    """Fit at the user's penalty; where that is too small for an indefinite covariance, move it as little as needed."""
    if alpha == 0 or not setting.penalize_diagonal:
        return Choice("given", alpha, setting.fit(covariance, alpha))
    repair = Repair(covariance, setting)
    moved = repair.size(alpha)
    if moved > 0:
        warn(
            f"no estimate exists at alpha = {alpha:.3g}: the corrected covariance is indefinite, d(S) = "
            f"{repair.distance:.3g}. It was moved by at most {moved:.3g} per entry; or use a larger alpha.",
            RepairWarning,
        )
    return Choice("given", alpha, setting.fit(repair.at(alpha), alpha), moved=moved)


def edge_support(precision: FloatArray) -> npt.NDArray[np.bool_]:
    """Which entries are not zero."""
    return np.asarray(np.abs(precision) > _NONZERO)


def edge_count(precision: FloatArray) -> int:
    """How many pairs are edges."""
    return int(np.count_nonzero(np.triu(edge_support(precision), 1)))


class PenaltyPath:
    """Decreasing penalties with their fits: those given, or so many from the one that empties the graph.

    The latter extends itself on demand. Where a given penalty is too small for an indefinite covariance, that is moved.
    """

    def __init__(self, covariance: FloatArray, setting: Setting, alphas: int | npt.ArrayLike = GRID) -> None:
        self.setting, self._repair = setting, Repair(covariance, setting)
        off = ~np.eye(len(covariance), dtype=bool) & (setting.weights > 0)
        ratio = np.abs(covariance[off]) / setting.weights[off]
        self.top = 1.0001 * float(ratio.max(initial=1e-3))
        self.distance = self._repair.distance if setting.penalize_diagonal else setting.distance(covariance)
        self.floor = max(_LONGEST_SPAN * self.top, ABOVE_DISTANCE * self.distance)
        self.alphas: list[float] = []
        self.solutions: list[Solution] = []
        self._grid = int(alphas) if isinstance(alphas, int | np.integer) else 0
        if isinstance(alphas, int | np.integer):
            if alphas < 1:
                raise InputError(f"alphas must be at least one penalty, got {alphas}.")
            self.extend()
        else:
            wanted = np.sort(np.asarray(alphas, dtype=np.float64).ravel())[::-1]
            if wanted.size == 0 or not np.all(np.isfinite(wanted) & (wanted > 0)):
                raise InputError("alphas must be a number of penalties, or penalties > 0.")
            self._fit(wanted.tolist())

    @property
    def can_extend(self) -> bool:
        """Whether smaller penalties than the last are worth trying and have an estimate."""
        return self._grid > 0 and self.alphas[-1] > 1.001 * self.floor

    def extend(self) -> list[Solution]:
        """Fit the next, smaller penalties: two decades at first, one more each time."""
        if not self.alphas:
            new = _geometric(self.top, max(_FIRST_SPAN * self.top, self.floor), self._grid)
        else:
            new = _geometric(self.alphas[-1] / 1.3, max(self.alphas[-1] / 10, self.floor), max(1, self._grid // 2))
        return self._fit(new)

    def _fit(self, alphas: list[float]) -> list[Solution]:
        for alpha in alphas:
            before = self.solutions[-1] if self.solutions else None
            self.solutions.append(self.setting.fit(self._repair.at(alpha), alpha, before))
            self.alphas.append(alpha)
        return self.solutions[-len(alphas) :]

    def choice(
        self,
        method: str,
        scores: list[float],
        best: int,
        stability: FloatArray | None = None,
        fold_scores: FloatArray | None = None,
    ) -> Choice:
        """The chosen point of the path."""
        counts = tuple(edge_count(solution.precision) for solution in self.solutions)
        alpha, path = self.alphas[best], tuple(self.alphas)
        moved = self._repair.size(alpha)
        return Choice(method, alpha, self.solutions[best], path, tuple(scores), counts, stability, fold_scores, moved)


def warn_at_the_edge(method: str, path: PenaltyPath, best: int) -> None:
    """Say so when the best penalty is the smallest that could be tried, and what that means."""
    if best < len(path.alphas) - 1 or len(path.alphas) == 1:
        return
    if not path.can_extend and path.alphas[best] > 1.001 * path.floor:
        why = "smaller ones were not given"
    elif path.floor > _LONGEST_SPAN * path.top:
        why = f"an indefinite covariance, d(S) = {path.distance:.3g}, allows none below; less noise would"
    else:
        why = "nearly every pair is an edge there. Pass alpha to go lower, or use fdr to choose edges"
    warn(f"{method} chose the smallest penalty, {path.alphas[best]:.3g}: {why}.", SelectionWarning)


def _geometric(top: float, bottom: float, size: int) -> list[float]:
    """Decreasing penalties; a single one where the floor has passed the top."""
    return [bottom] if bottom >= top else [float(alpha) for alpha in np.geomspace(top, bottom, size)]
