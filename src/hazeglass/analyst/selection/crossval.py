"""K-fold choices, for tables and clean rows: held-out likelihood (`cv`), or the paper's squared error (`mse`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.moments import NoisyCovariance
from hazeglass.analyst.penalties import Repair, Setting
from hazeglass.analyst.selection.choice import GRID, Choice, PenaltyPath, edge_count, warn_at_the_edge
from hazeglass.errors import InputError
from hazeglass.glasso import Solution

__all__ = ["SEED", "FoldSource", "Pairs", "RowSource", "check_folds", "cross_validate", "subsample"]

FloatArray = npt.NDArray[np.float64]
SEED = 0
Pairs = list[tuple[FloatArray, FloatArray]]  # of training and held-out covariances


class RowSource(Protocol):
    """Rows that can be cut, wherever they are; covariances come out corrected, on the full data's scale."""

    @property
    def n(self) -> int:
        """Number of rows."""

    def folds(self, count: int) -> Pairs:
        """Pairs of training and held-out covariance."""

    def subsamples(self, count: int, size: int) -> Callable[[int], FloatArray]:
        """The covariance of a random subsample by its number, for numbers below `count`."""


def check_folds(count: int, n: int) -> None:
    """Refuse a number of folds that leaves fewer than two rows in one."""
    if not 2 <= count <= n // 2:
        raise InputError(f"the number of folds must lie between 2 and half the rows ({n // 2}), got {count}.")


def subsample(number: int, n: int, size: int) -> npt.NDArray[np.int64]:
    """Row numbers, drawn without replacement, the same ones wherever the rows are."""
    return np.random.default_rng((SEED, number)).choice(n, size, replace=False)


@dataclass(frozen=True, eq=False)
class FoldSource:
    """Rows in memory, with the noise every cut of them carries."""

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
        check_folds(count, self.n)
        order = np.random.default_rng(SEED).permutation(self.n)
        parts = np.array_split(order, count)
        every = np.arange(self.n)
        return [(self.covariance(np.setdiff1d(every, held)), self.covariance(held)) for held in parts]

    def subsamples(self, count: int, size: int) -> Callable[[int], FloatArray]:
        """The covariance of a random subsample by its number."""
        return lambda number: self.covariance(subsample(number, self.n, size))


def cross_validate(
    noisy: NoisyCovariance,
    setting: Setting,
    pairs: Pairs,
    method: str = "cv",
    n_jobs: int | None = None,
    alphas: int | npt.ArrayLike = GRID,
) -> Choice:
    """Choose by the mean of a held-out loss.

    cv   tr(S_out T) - log det T, the negative likelihood of the held-out rows
    mse  mean of (W - S_out)^2 over all entries, the paper's; penalties whose graph has no edge do not count
    """
    path = PenaltyPath(noisy.covariance, setting, alphas)
    losses = _losses(path.alphas, pairs, setting, method, n_jobs)
    while int(np.argmin(losses.mean(axis=0))) == losses.shape[1] - 1 and path.can_extend:
        done = len(path.alphas)
        path.extend()
        losses = np.hstack([losses, _losses(path.alphas[done:], pairs, setting, method, n_jobs)])
    scores = losses.mean(axis=0)
    allowed = scores.copy()
    if method == "mse":
        counts = np.array([edge_count(solution.precision) for solution in path.solutions])
        allowed[counts == 0] = np.inf
    best = int(np.argmin(allowed))
    warn_at_the_edge(method, path, best)
    return path.choice(method, scores.tolist(), best, fold_scores=losses)


def _losses(alphas: list[float], pairs: Pairs, setting: Setting, method: str, n_jobs: int | None) -> FloatArray:
    """One row per fold, one column per penalty."""
    from joblib import Parallel, delayed

    loss = {"cv": _negative_likelihood, "mse": _squared_error}[method]
    jobs = (delayed(_fold_losses)(train, held, alphas, setting, loss) for train, held in pairs)
    return np.array(Parallel(n_jobs=n_jobs, prefer="threads")(jobs))


def _fold_losses(
    train: FloatArray,
    held: FloatArray,
    alphas: list[float],
    setting: Setting,
    loss: Callable[[Solution, FloatArray], float],
) -> list[float]:
    """Losses along the path; a fold is noisier than the whole and may need repair where the whole does not."""
    before: Solution | None = None
    repair = Repair(train, setting)
    found = []
    for alpha in alphas:
        before = setting.fit(repair.at(alpha), alpha, before)
        found.append(loss(before, held))
    return found


def _negative_likelihood(solution: Solution, held: FloatArray) -> float:
    return float(np.sum(held * solution.precision) - np.linalg.slogdet(solution.precision)[1])


def _squared_error(solution: Solution, held: FloatArray) -> float:
    return float(np.mean((solution.covariance - held) ** 2))
