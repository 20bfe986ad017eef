"""Normal scores: every column mapped to a standard normal through its ranks (a Gaussian copula).

For a column without ties the score of the k-th smallest of n values is close to Phi^-1((k - 1/2)/n). Equal values
stand for an interval of the normal, and their score is its conditional mean s = E[Z | interval]. With v = Var(s), s/v
is the hidden normal Z plus an error of variance 1/v - 1 that is uncorrelated with Z: exactly the form of rows with
known noise, so ties are corrected like any other noise. Between two columns with ties this is first order in their
correlation (docs/maths/marginals.md says how far that goes).

Noise in the cells blurs ranks. While it is small its variance on the scale of the scores is the mean squared slope of
the map times its variance; where it is not small the map itself is wrong and the scores are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hazeglass.errors import InputError

__all__ = ["NormalScores", "normal_scores"]

FloatArray = npt.NDArray[np.float64]

_MOST_NOISE = 0.1  # share of a column's variance
_BINS = 40


@dataclass(frozen=True, eq=False)
class NormalScores:
    """Scores whose covariance minus `noise` estimates the correlations of the hidden normals.

    values  s/v, one column per column
    ranked  s itself, for those who want a column and not an estimate
    noise   variance that ties and cell noise add to each column of `values`
    """

    values: FloatArray
    ranked: FloatArray
    noise: FloatArray
    note: str


def normal_scores(rows: FloatArray, noise_variance: FloatArray, names: tuple[str, ...]) -> NormalScores:
    """Scores of every column; refused where noise is more than a tenth of a column's variance."""
    _refuse_noise(rows, noise_variance, names)
    ranked = np.column_stack([_conditional_means(column) for column in rows.T])
    kept = ranked.var(axis=0)
    noise = 1 / kept - 1
    for k, variance in enumerate(noise_variance):
        if variance > 0:
            noise[k] += _squared_slope(rows[:, k], ranked[:, k]) * variance / kept[k] ** 2
    note = "Columns were mapped to standard normals through their ranks: edges are those of a Gaussian copula."
    coarse = [name for name, share in zip(names, kept, strict=True) if share < 0.95]
    if coarse:
        shown = ", ".join(coarse[:5]) + (", ..." if len(coarse) > 5 else "")
        note += f" Ties were corrected for ({shown}); strong correlations between such columns come out a little high."
    return NormalScores(ranked / kept, ranked, noise, note)


def _refuse_noise(rows: FloatArray, noise_variance: FloatArray, names: tuple[str, ...]) -> None:
    observed = rows.var(axis=0, ddof=1)
    if not np.all(observed > 0):
        flat = names[int(np.argmin(observed))]
        raise InputError(f"every column must vary, and {flat!r} holds one value only. Leave it out.")
    share = noise_variance / observed
    worst = int(np.argmax(share))
    if share[worst] > _MOST_NOISE:
        raise InputError(
            f"marginals = 'normal-scores' needs noise below {100 * _MOST_NOISE:.0f} % of a column's variance, and in "
            f"{names[worst]!r} it is {100 * share[worst]:.0f} %: the ranks would be those of the noise. Use 'as-is'."
        )


def _conditional_means(column: FloatArray) -> FloatArray:
    """E[Z | interval] for the interval of the standard normal that each value of the column stands for."""
    _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    cuts = ndtri(np.concatenate([[0.0], np.cumsum(counts)[:-1] / len(column), [1.0]]))
    density = np.exp(-(cuts**2) / 2) / np.sqrt(2 * np.pi)
    means = (density[:-1] - density[1:]) * len(column) / counts
    return np.asarray(means[inverse])


def _squared_slope(column: FloatArray, score: FloatArray) -> float:
    """Mean squared slope of the map from values to scores, over bins of equally many rows."""
    order = np.argsort(column, kind="stable")
    slopes = []
    for part in np.array_split(order, min(_BINS, len(order) // 10)):
        x, s = column[part], score[part]
        spread = float(np.var(x))
        if spread > 0:
            slopes.append(float(np.mean((x - x.mean()) * (s - s.mean()))) / spread)
    return float(np.mean(np.square(slopes))) if slopes else 0.0
