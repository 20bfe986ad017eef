"""Choose the penalty. Every choice is made from the release alone, so it costs no privacy (post-processing).

ebic   an information criterion that counts the rows by what the noise leaves of them
stars  stability: the smallest penalty at which edges do not flicker between subsamples (Liu et al. 2010)
cv     likelihood of held-out rows, and mse, the paper's squared error: for tables and clean rows

Rows cut into folds and subsamples, in memory or on disk; covariances come out corrected, on the full data's scale.

Means and scatter of released rows are accumulated part by part: memory is set by a part, not by the number of rows. Two
sets of rows are merged as Chan, Golub and LeVeque (1983) do, which loses no digits to large means. Parts are merged in
their order whoever reads them, so that every engine gives the same bits.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.analyst.penalty import GAMMA, GRID, PATIENCE, ROUGH, Choice, PenaltyPath, Problem, Support
from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Engine
from hazeglass.errors import ConvergenceWarning, InputError, SolverInputError
from hazeglass.glasso import Solution, graphical_lasso
from hazeglass.glasso.linalg import FloatArray

SEED = 0
Indices = npt.NDArray[np.int64]
Pairs = list[tuple[FloatArray, FloatArray]]  # of training and held-out covariances


@dataclass(frozen=True, eq=False)
class Scatter:
    """Number of rows, their mean, and the sum of (x - mean)(x - mean)^T."""

    n: int
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> Scatter:
        """Of rows in memory."""
        p = rows.shape[1]
        if len(rows) == 0:
            return cls(0, np.zeros(p), np.zeros((p, p)))
        mean = rows.mean(axis=0)
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred)

    def __add__(self, other: Scatter) -> Scatter:
        """Of both sets of rows."""
        n = self.n + other.n
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        shift = other.mean - self.mean
        between = np.outer(shift, shift) * (self.n / n * other.n)
        return Scatter(n, self.mean + shift * (other.n / n), self.scatter + other.scatter + between)

    def covariance(self) -> FloatArray:
        """Unbiased covariance."""
        return self.scatter / (self.n - 1)


def scatter_of(release: Release, engine: Engine) -> Scatter:
    """Of all rows of a table release."""
    return reduce(Scatter.__add__, engine.map(_PartScatter(release), release.parts))


def rows_of(release: Release) -> FloatArray:
    """The rows of a table release."""
    table = release.table()
    return np.column_stack([table.column(name).to_numpy() for name in release.manifest.names]).astype(np.float64)


@dataclass(frozen=True)
class _PartScatter:
    release: Release

    def __call__(self, part: str) -> Scatter:
        return reduce(Scatter.__add__, (Scatter.of(block) for block in self.release.blocks(part)))


@dataclass(frozen=True)
class _PartGroups:
    """The scatters of groups of a part's rows.

    `groups` says, from the number of a part and how many rows it has, which of them belong to each group, in order.
    """

    release: Release
    groups: Callable[[int, int], Sequence[Indices]]

    def __call__(self, numbered: tuple[int, str]) -> list[Scatter]:
        number, part = numbered
        groups = self.groups(number, self.release.part_rows(part))
        empty = Scatter.of(np.zeros((0, len(self.release.columns))))
        found, start = [empty] * len(groups), 0
        for block in self.release.blocks(part):
            for k, rows in enumerate(groups):
                low, high = np.searchsorted(rows, [start, start + len(block)])
                found[k] += Scatter.of(block[rows[low:high] - start])
            start += len(block)
        return found


def _check_folds(count: int, n: int) -> None:
    """Refuse a number of folds that leaves fewer than two rows in one."""
    if not 2 <= count <= n // 2:
        raise InputError(f"the number of folds must lie between 2 and half the rows ({n // 2}), got {count}.")


def _subsample(number: int, n: int, size: int) -> Indices:
    """Row numbers, drawn without replacement, the same ones wherever the rows are."""
    return np.random.default_rng((SEED, number)).choice(n, size, replace=False)


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Rows, the covariance of the noise in each, and the standard deviations that covariances are divided by."""

    rows: FloatArray
    noise: FloatArray
    standard_deviations: FloatArray

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def covariance(self, chosen: npt.NDArray[np.intp]) -> FloatArray:
        """Corrected covariance of some of the rows."""
        part = np.cov(self.rows[chosen], rowvar=False) - self.noise
        return np.asarray(part / np.outer(self.standard_deviations, self.standard_deviations))

    def folds(self, count: int) -> Pairs:
        """Pairs of training and held-out covariance; which row goes where is drawn with a fixed seed."""
        _check_folds(count, self.n)
        parts = np.array_split(np.random.default_rng(SEED).permutation(self.n), count)
        every = np.arange(self.n)
        return [(self.covariance(np.setdiff1d(every, held)), self.covariance(held)) for held in parts]

    def subsamples(self, count: int, size: int) -> Callable[[int], FloatArray]:
        """The covariance of a random subsample by its number, for numbers below `count`."""
        return lambda number: self.covariance(_subsample(number, self.n, size))


@dataclass(frozen=True, eq=False)
class RowsOnDisk:
    """The same for the rows of a table release too large for memory, read part by part."""

    release: Release
    noise: FloatArray
    standard_deviations: FloatArray
    engine: Engine

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.release.n

    def folds(self, count: int) -> Pairs:
        """Pairs of training and held-out covariance; rows are dealt to folds part by part, with a fixed seed."""
        _check_folds(count, self.n)

        def dealt(number: int, rows: int) -> Sequence[Indices]:
            order = np.random.default_rng((SEED, number)).permutation(rows)
            return [np.sort(fold) for fold in np.array_split(order, count)]

        held = self._scatters(dealt)
        training = [reduce(Scatter.__add__, held[:k] + held[k + 1 :]) for k in range(count)]
        return [(self._scaled(a), self._scaled(b)) for a, b in zip(training, held, strict=True)]

    def subsamples(self, count: int, size: int) -> Callable[[int], FloatArray]:
        """The covariances of random subsamples by their number, all read in one pass."""
        wanted = [np.sort(_subsample(number, self.n, size)) for number in range(count)]
        ends = np.cumsum([self.release.part_rows(part) for part in self.release.parts])

        def drawn(number: int, rows: int) -> Sequence[Indices]:
            start = ends[number] - rows
            cuts = (np.searchsorted(chosen, [start, start + rows]) for chosen in wanted)
            return [chosen[a:b] - start for chosen, (a, b) in zip(wanted, cuts, strict=True)]

        scatters = self._scatters(drawn)
        return lambda number: self._scaled(scatters[number])

    def _scatters(self, groups: Callable[[int, int], Sequence[Indices]]) -> list[Scatter]:
        """Of groups of rows, in one pass over the parts."""
        parts = self.engine.map(_PartGroups(self.release, groups), enumerate(self.release.parts))
        return reduce(lambda one, other: [a + b for a, b in zip(one, other, strict=True)], parts)

    def _scaled(self, scatter: Scatter) -> FloatArray:
        corrected = scatter.covariance() - self.noise
        return np.asarray(corrected / np.outer(self.standard_deviations, self.standard_deviations))


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
