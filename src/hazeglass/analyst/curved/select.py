"""Choose the group penalty from the release alone: the extended Bayesian information criterion over blocks."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.curved.blocks import FeatureBlocks
from hazeglass.analyst.selection.choice import ABOVE_DISTANCE, Choice
from hazeglass.errors import SolverInputError
from hazeglass.glasso import Solution, admm, graphical_lasso
from hazeglass.glasso.distance import psd_distance
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import block_norms, make_penalty

__all__ = ["Refit", "effective_rows", "group_ebic", "support_of"]

_GRID, _SPAN, _PATIENCE = 20, 0.02, 5
_GAMMA = 0.5
_ROUGH = 1e-4  # duality gap per feature along the path: far below what moves the criterion
_MOST_ITERATIONS = 400
_ROUGHLY, _DISTANCE_STEPS = 0.01, 2_000  # two digits of d(S) will do
_MARGIN = 1.5

Support = npt.NDArray[np.bool_]


def effective_rows(blocks: FeatureBlocks) -> float:
    """Rows of clean data that would leave as much error in a typical entry of the whitened covariance."""
    return max(2.0, 1.0 / blocks.entry_sd() ** 2)


def group_ebic(refit: Refit) -> Choice:
    """n_eff (tr(S T) - log det T) + k K^2 log n_eff + 4 gamma k log p over k edges, T refitted on each graph.

    Every edge has K^2 numbers of its own. The path runs from the penalty that empties the graph to a fiftieth of it,
    above d(S), and ends early once the criterion has stopped falling.
    """
    S, size, weights = refit.blocks.covariance, refit.blocks.size, refit.weights
    criterion = _Criterion(refit)
    alphas: list[float] = []
    solutions: list[Solution] = []
    scores: list[float] = []
    for alpha in _penalties(S, weights, size, refit.distance):
        before = solutions[-1] if solutions else None
        solutions.append(graphical_lasso(S, alpha, weights=weights, block_size=size, tol=_ROUGH, warm_start=before))
        scores.append(criterion.score(support_of(solutions[-1], size)))
        alphas.append(alpha)
        if len(scores) - 1 - int(np.argmin(scores)) >= _PATIENCE:
            break
    best = int(np.flatnonzero(np.array(scores) == min(scores))[-1])  # of one graph's penalties the gentlest
    counts = tuple(int(np.triu(support_of(solution, size), 1).sum()) for solution in solutions)
    return Choice("ebic", alphas[best], solutions[best], tuple(alphas), tuple(scores), counts)


def support_of(solution: Solution, size: int) -> Support:
    """Which blocks are not zero."""
    return np.asarray(block_norms(solution.precision, size) > 0)


class Refit:
    """Estimates on given graphs that are as free of the penalty as the noise allows.

    Blocks of the graph, and the columns' own, keep a pull the size of the error of one entry, or half as much again as
    d(S) where an indefinite covariance needs more; with it an estimate exists for every graph.
    """

    def __init__(self, blocks: FeatureBlocks, weights: FloatArray) -> None:
        self.blocks, self.weights = blocks, weights
        near = psd_distance(blocks.covariance, weights, block=blocks.size, rtol=_ROUGHLY, max_steps=_DISTANCE_STEPS)
        self.distance = near.upper
        self.pull = max(_MARGIN * self.distance, blocks.entry_sd())

    def fit(self, support: Support) -> FloatArray:
        """The precision on a graph."""
        weights = np.where(support, self.weights, np.inf)
        penalty = make_penalty(len(weights), self.pull, weights, block=self.blocks.size)
        found = admm.solve(self.blocks.covariance, penalty, tol=_ROUGH, max_iter=_MOST_ITERATIONS)
        if found.certificate is None:  # pragma: no cover (above d(S) every graph has an estimate)
            raise SolverInputError(f"no estimate was found on a graph in {found.n_iter} steps. Pass a larger alpha.")
        return found.certificate.precision


def _penalties(S: FloatArray, weights: FloatArray, size: int, distance: float) -> list[float]:
    off = ~np.eye(len(weights), dtype=bool)
    top = 1.0001 * float(np.max(block_norms(S, size)[off] / weights[off]))
    floor = max(_SPAN * top, ABOVE_DISTANCE * distance)
    return [float(alpha) for alpha in np.geomspace(top, floor, _GRID)] if floor < top else [floor]


class _Criterion:
    """Scores graphs, each only once."""

    def __init__(self, refit: Refit) -> None:
        self.refit = refit
        self.rows = effective_rows(refit.blocks)
        self._known: dict[bytes, float] = {}

    def score(self, support: Support) -> float:
        key = support.tobytes()
        if key not in self._known:
            blocks = self.refit.blocks
            precision = self.refit.fit(support)
            fit = float(np.vdot(blocks.covariance, precision)) - float(np.linalg.slogdet(precision)[1])
            edges = int(np.triu(support, 1).sum())
            each = blocks.size**2 * math.log(self.rows) + 4 * _GAMMA * math.log(max(2, len(support)))
            self._known[key] = self.rows * fit + edges * each
        return self._known[key]
