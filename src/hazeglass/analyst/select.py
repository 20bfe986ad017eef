"""Choose the penalty. Every choice is made from the release alone, so it costs no privacy (post-processing).

ebic   an information criterion that counts the rows by what the noise leaves of them
stars  stability: the smallest penalty at which edges do not flicker between subsamples (Liu et al. 2010)
cv     likelihood of held-out rows, and mse, the paper's squared error: for tables and clean rows
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.folds import SEED, Pairs, RowsInMemory, RowsOnDisk
from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.analyst.penalty import GAMMA, GRID, PATIENCE, ROUGH, Choice, PenaltyPath, Problem, Support
from hazeglass.errors import ConvergenceWarning, SolverInputError
from hazeglass.glasso import Solution, graphical_lasso
from hazeglass.glasso.linalg import FloatArray

_REFIT_STEPS = {"free": 300, "pulled": 400}
_MARGIN = 1.5
_SUBSAMPLES, _INSTABILITY, _DENSEST = 50, 0.05, 0.5


class Refit:
    """Estimates on given graphs that are as free of the penalty as the noise allows.

    Blocks of one pay nothing on the graph. The edges of larger blocks, and the columns' own, keep a pull the size of
    the error of one entry, or half as much again as d(S) where an indefinite covariance needs more; with it an estimate
    exists for every graph.
    """

    def __init__(self, noisy: NoisyCovariance, problem: Problem) -> None:
        self.problem = problem
        self.pull = max(_MARGIN * problem.distance, math.sqrt(noisy.typical_variance())) if problem.size > 1 else 0.0

    def fit(self, support: Support) -> Solution | None:
        """The estimate on a graph; None where it has no maximum.

        The dual of a free refit asks for a positive definite matrix that agrees with S on the edges: where a graph has
        none, neither has one with more edges. One that creeps on for hundreds of iterations is as good as unbounded.
        """
        problem, free = self.problem, self.pull == 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                found = graphical_lasso(
                    problem.covariance,
                    1.0 if free else self.pull,
                    weights=np.where(support, 0.0 if free else problem.weights, np.inf),
                    penalize_diagonal=not free,
                    block_size=problem.size,
                    tol=1e-6 if free else ROUGH,
                    max_iter=_REFIT_STEPS["free" if free else "pulled"],
                    device=problem.device,
                )
            except SolverInputError:  # no positive definite refit, or none within the steps
                return None
        return found if found.converged or not free else None


class _Criterion:
    """Scores graphs, each only once, from sparse to dense."""

    def __init__(self, noisy: NoisyCovariance, problem: Problem) -> None:
        self.refit = Refit(noisy, problem)
        self.rows = max(2.0, noisy.effective_rows())
        self.numbers = np.outer(noisy.live, noisy.live)  # of the block of each pair
        self._known: dict[bytes, float] = {}
        self._too_many = math.inf  # so many edges are too many for an indefinite covariance

    def score(self, solution: Solution) -> float:
        """The criterion of a fit's graph; infinite where its refit has no maximum (an indefinite covariance)."""
        problem = self.refit.problem
        support = problem.support(solution)
        key = support.tobytes()
        if key not in self._known:
            count = problem.edges(solution)
            found = self.refit.fit(support) if count < self._too_many else None
            if found is None:
                self._too_many = min(self._too_many, count)
            numbers = float(np.sum(np.triu(self.numbers * support, 1)))
            cost = numbers * math.log(self.rows) + count * 4 * GAMMA * math.log(max(2, len(support)))
            fit = math.inf if found is None else negative_likelihood(found, problem.covariance)
            self._known[key] = self.rows * fit + cost
        return self._known[key]


def ebic(noisy: NoisyCovariance, problem: Problem) -> Choice:
    """n_eff (tr(S T) - log det T) + k K^2 log n_eff + 4 gamma k log p, gamma = 1/2, over k edges of K^2 numbers each.

    T is refitted on each graph along the path (Foygel and Drton 2010): the penalised fit itself would be charged for
    its shrinkage, and strong edges would drag in every weak one. The path ends once the criterion has stopped falling.
    """
    path, criterion = PenaltyPath(problem, least=problem.noise), _Criterion(noisy, problem)
    scores: list[float] = []
    while not scores or (int(np.argmin(scores)) == len(scores) - 1 and path.can_extend):
        for solution in path.fits():
            scores.append(criterion.score(solution))
            if len(scores) - 1 - int(np.argmin(scores)) >= PATIENCE:
                path.enough()
                break
    best = int(np.argmin(scores))
    path.warn_at_the_edge("ebic", best)
    if problem.size > 1:  # of one graph's penalties the gentlest
        best = int(np.flatnonzero(np.array(scores) == scores[best])[-1])
    return path.choice("ebic", scores, best)


def stars(
    noisy: NoisyCovariance, problem: Problem, rows: RowsInMemory | RowsOnDisk | None = None, n_jobs: int | None = None
) -> Choice:
    """The smallest penalty with a mean edge variance 2 f (1 - f) of at most 0.05, and at most half of all pairs.

    Subsamples are drawn from the rows; without any, covariances are drawn from the error model of the release: a
    parametric bootstrap of sampling and privacy noise together. The original rule stops at the first penalty where
    edges flicker. With few columns that is where the strongest edges enter, all at once; judging each penalty by itself
    lets them pass, and half of the pairs keeps out the dense end, where everything is an edge and nothing flickers.
    """

    def drawn(number: int) -> FloatArray:
        return noisy.covariance + noisy.error.sample(np.random.default_rng((SEED, number)))

    path = PenaltyPath(problem, least=problem.noise)
    list(path.fits())
    draw = drawn if rows is None else rows.subsamples(_SUBSAMPLES, _subsample_size(rows.n))
    jobs = ((replace(problem, covariance=draw(number)), path.alphas, problem.support) for number in range(_SUBSAMPLES))
    frequencies = np.asarray(np.mean(_in_parallel(jobs, n_jobs), axis=0), dtype=np.float64)
    upper = np.triu_indices(len(noisy.names), 1)
    shares = np.array([f[upper] for f in frequencies])
    instability = np.mean(2 * shares * (1 - shares), axis=1)
    stable = np.flatnonzero((instability <= _INSTABILITY) & (shares.mean(axis=1) <= _DENSEST))
    best = int(stable[-1]) if stable.size else 0
    path.warn_at_the_edge("stars", best)
    return path.choice("stars", instability.tolist(), best, frequencies[best])


def cross_validate(
    problem: Problem, pairs: Pairs, method: str = "cv", n_jobs: int | None = None, alphas: int | npt.ArrayLike = GRID
) -> Choice:
    """Choose by the mean of a held-out loss.

    cv   tr(S_out T) - log det T, the negative likelihood of the held-out rows
    mse  mean of (W - S_out)^2 over all entries, the paper's; penalties whose graph has no edge do not count
    """
    path = PenaltyPath(problem, alphas)
    loss = {"cv": negative_likelihood, "mse": _squared_error}[method]
    losses = np.empty((len(pairs), 0))
    while not losses.size or (int(np.argmin(losses.mean(axis=0))) == losses.shape[1] - 1 and path.can_extend):
        new = [solution.alpha for solution in path.fits()]
        jobs = ((replace(problem, covariance=train), new, loss, held) for train, held in pairs)
        losses = np.hstack([losses, np.array(_in_parallel(jobs, n_jobs))])
    scores = losses.mean(axis=0)
    allowed = scores.copy()
    if method == "mse":
        allowed[[problem.edges(solution) == 0 for solution in path.solutions]] = np.inf
    best = int(np.argmin(allowed))
    path.warn_at_the_edge(method, best)
    return path.choice(method, scores.tolist(), best, fold_scores=losses)


def negative_likelihood(solution: Solution, covariance: FloatArray) -> float:
    """tr(S T) - log det T."""
    return float(np.sum(covariance * solution.precision) - np.linalg.slogdet(solution.precision)[1])


def _squared_error(solution: Solution, held: FloatArray) -> float:
    return float(np.mean((solution.covariance - held) ** 2))


def _subsample_size(n: int) -> int:
    return min(int(10 * np.sqrt(n)), int(0.8 * n)) if n > 144 else max(2, int(0.8 * n))


def _in_parallel(jobs: Any, n_jobs: int | None) -> list[list[Any]]:
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=n_jobs, prefer="threads")(delayed(_along)(*job) for job in jobs))


def _along(problem: Problem, alphas: list[float], measure: Callable[..., Any], *given: Any) -> list[Any]:
    """A measure of each fit along the path; fewer rows are noisier and may need repair where all of them do not."""
    before: Solution | None = None
    found = []
    for alpha in alphas:
        before = problem.at(alpha).fit(alpha, before)
        found.append(measure(before, *given))
    return found
