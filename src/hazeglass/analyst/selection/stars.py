"""Stability: the smallest penalty at which edges do not flicker between subsamples (StARS, Liu et al. 2010).

With rows, subsamples are drawn from them. From moments, where there are no rows, covariances are drawn from the error
model of the release: a parametric bootstrap of sampling and privacy noise together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.moments import NoisyCovariance
from hazeglass.analyst.penalties import Repair, Setting
from hazeglass.analyst.selection.choice import Choice, PenaltyPath, edge_support, warn_at_the_edge
from hazeglass.analyst.selection.crossval import SEED, RowSource
from hazeglass.glasso import Solution

__all__ = ["stars"]

FloatArray = npt.NDArray[np.float64]
_INSTABILITY = 0.05
_DENSEST = 0.5


def stars(
    noisy: NoisyCovariance,
    setting: Setting,
    source: RowSource | None = None,
    subsamples: int = 50,
    n_jobs: int | None = None,
) -> Choice:
    """The smallest penalty with a mean edge variance 2 f (1 - f) of at most 0.05, and at most half of all pairs.

    The original rule stops at the first penalty where edges flicker. With few columns that is where the strongest edges
    enter, all at once; judging each penalty by itself lets them pass, and half of the pairs keeps out the dense end,
    where everything is an edge and nothing flickers either.
    """
    path = PenaltyPath(noisy.covariance, setting)
    draw = _drawn_covariances(noisy) if source is None else source.subsamples(subsamples, _subsample_size(source.n))
    frequencies = _frequencies(path.alphas, setting, draw, subsamples, n_jobs)
    upper = np.triu_indices(len(noisy.names), 1)
    shares = np.array([f[upper] for f in frequencies])
    instability = np.mean(2 * shares * (1 - shares), axis=1)
    stable = np.flatnonzero((instability <= _INSTABILITY) & (shares.mean(axis=1) <= _DENSEST))
    best = int(stable[-1]) if stable.size else 0
    warn_at_the_edge("stars", path, best)
    return path.choice("stars", [float(value) for value in instability], best, frequencies[best])


def _subsample_size(n: int) -> int:
    return min(int(10 * np.sqrt(n)), int(0.8 * n)) if n > 144 else max(2, int(0.8 * n))


def _drawn_covariances(noisy: NoisyCovariance) -> Callable[[int], FloatArray]:
    def draw(number: int) -> FloatArray:
        return noisy.covariance + noisy.error.sample(np.random.default_rng((SEED, number)))

    return draw


def _frequencies(
    alphas: list[float],
    setting: Setting,
    draw: Callable[[int], FloatArray],
    subsamples: int,
    n_jobs: int | None,
) -> FloatArray:
    """How often each pair is an edge, for every penalty."""
    from joblib import Parallel, delayed

    jobs = (delayed(_supports)(draw(number), alphas, setting) for number in range(subsamples))
    return np.asarray(np.mean(Parallel(n_jobs=n_jobs, prefer="threads")(jobs), axis=0), dtype=np.float64)


def _supports(covariance: FloatArray, alphas: list[float], setting: Setting) -> npt.NDArray[np.bool_]:
    before: Solution | None = None
    repair = Repair(covariance, setting)
    found = []
    for alpha in alphas:
        before = setting.fit(repair.at(alpha), alpha, before)
        found.append(edge_support(before.precision))
    return np.array(found)
