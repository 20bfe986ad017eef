"""Does the release contradict the model that its error bars rest on? Everything is judged by released numbers alone.

Undoing of clipping supposes Gaussian rows. Scores of a Gaussian copula are such rows; on the linear scale nothing makes
them so. Where the release itself says otherwise, error bars would be wrong, and nothing is selected.

    undoing      did not converge, or nearly every row was clipped
    agreement    stages clip in different ways, so each would be undone to another covariance if the model were wrong
    lengths      scores have variance 1 as far as the marginals are known; rows that are clipped, undone, must show that
    marginals    (linear) rows drawn with the released marginals are clipped and undone: does that give them back?
    public       (no marginals) nothing confirms the model, so hardly a row may be clipped
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from hazeglass.analyst.pooling import Pooled, StageMoments, gained, is_loud, pool
from hazeglass.analyst.scored import cumulative_noise
from hazeglass.features.latent import Link
from hazeglass.features.marginal import Marginal
from hazeglass.glasso.linalg import FloatArray

_SURE = 4.0  # standard errors
_DISAGREE = 1.3  # stages differ by so many times their noise, squared: with less, error bars are nearly right
# Per unit of a wrong mean square and root of n, the bias of partial correlations in standard errors, and how much of it
# is borne. A rough reading (0.014 to 0.038) of simulated Student copulas and rows that swing together, 12 columns,
# epsilon 1, 5 replicates each; no benchmark in the repository measures it yet, and it was not checked on other seeds.
_HARM, _HARM_BORNE = 0.025, 0.8
_MOST_CLIPPED = 0.9
_HARDLY = 0.01  # of the rows, by the model: a stage that clips no more can be believed by itself
_FEW_CLIPPED, _BEYOND = 0.002, 3.0  # public scale: rows by the model, and squared radius beside the mean squared length
_BIAS_BORNE = 0.5  # standard errors, root mean square: intervals of nominal 95 % still cover 92 %
_BEYOND_NOISE = 0.4  # a marginal's weight that noise alone gives to one normal column in a thousand
_SKEW_BORNE = 0.1  # bend of a fit that changes little
_DRAWS, _SEED = 20_000, 20_241_117
_FEWEST_DRAWS, _MOST_NUMBERS = 2000, 4_000_000
# Errors of sampling by how much rows swing, measured on Student copulas with 3 to 16 degrees: 1.30 to 1.42.
_SWUNG = 1.35
_MOST_SWING = 1.5  # standard deviation of the logarithm of a row's common factor


def undoing(pooled: Pooled) -> str | None:
    """Whether clipping could be undone at all."""
    last = pooled.stages[-1]
    if not last.converged:
        return "rows were clipped too tightly, and no Gaussian rows would have these moments when clipped"
    if last.share_clipped > _MOST_CLIPPED:
        return f"{100 * last.share_clipped:.0f} % of the rows were clipped, more than can be undone"
    return None


def agreement(pooled: Pooled) -> str | None:
    """Whether the stages, each undone, say the same within their noise."""
    statistic, freedom = pooled.disagreement
    if freedom == 0 or statistic / freedom < _DISAGREE or (statistic - freedom) / math.sqrt(2 * freedom) < _SURE:
        return None
    return (
        f"the stages contradict each other: they differ by {math.sqrt(statistic / freedom):.1f} times what their noise "
        "explains, as they do when rows are not Gaussian on the scale they are clipped on"
    )


def agreeing(stages: Sequence[StageMoments], n: int, alike: FloatArray | None = None) -> Pooled:
    """All stages pooled; the last alone where the others contradict it and hardly a row was clipped in it.

    Early stages clip many rows. Coarse columns and heavy tails show in what is undone there, and not in the last.
    """
    pooled = pool(stages, n, alike)
    if agreement(pooled) is not None and pooled.stages[-1].share_clipped < _HARDLY:
        return pool(stages[-1:], n, alike)
    return pooled


def lengths(pooled: Pooled, marginals: Sequence[Marginal], links: Sequence[Link], n: int) -> str | None:
    """Whether the scores' variances are, on average, what the marginals make them.

    A wrong scale by itself does no harm to correlations; it shows that lengths are not those of Gaussian rows, and that
    biases what was undone beside the scale, more so the larger it is.
    """
    p = len(marginals)
    excess = float(np.mean(np.diag(pooled.covariance))) - 1
    known = sum(_variance_error(one, link) for one, link in zip(marginals, links, strict=True))
    error = math.sqrt(pooled.noise.trace_variance() + known) / p
    if (
        is_loud(pooled.stages[-1].stage)
        or abs(excess) < _SURE * error
        or _HARM * abs(excess) * math.sqrt(n) < _HARM_BORNE
    ):
        return None
    return (
        f"rows are not as long as scores of a Gaussian copula are: their mean square is {1 + excess:.2f} where it "
        f"must be 1.00 within {2 * error:.2f}"
    )


def swing(first: StageMoments, pooled: Pooled, marginals: Sequence[Marginal], links: Sequence[Link] | None) -> float:
    """By which share products of a row vary more than those of Gaussian rows: sampling errors are so much larger.

    Rows may swing together: all columns are far out at once, more often than Gaussian ones are. Clipped to a ball, such
    rows lose more of their length than others. The first stage clips the columns as they are, and how long its rows
    are without that is known twice: every column has variance 1 but for the error of its marginal, and later stages may
    have clipped less. What is missing shows a common factor exp(s N) of a row, and products of rows then vary
    exp(4 s^2) times as much.
    """
    if first.radius is None or not marginals:
        return 0.0
    p, most = len(first.mean), first.radius**2
    known = 0.0 if links is None else sum(map(_variance_error, marginals, links))
    seen, noise = float(np.trace(first.second)), 2 * p * first.noise_sd**2
    deviation = np.sqrt(np.maximum(np.diag(pooled.covariance), 1e-12))
    values = np.linalg.eigvalsh(nearest_correlation(pooled.covariance / np.outer(deviation, deviation)))
    rng = np.random.default_rng(_SEED)
    draws = min(_DRAWS, max(_FEWEST_DRAWS, _MOST_NUMBERS // p))  # lengths of many columns are all alike
    lengths, factor = np.square(rng.standard_normal((draws, p))) @ values, rng.standard_normal(draws)
    lengths /= lengths.mean()

    def missing(whole: float, variance: float) -> float:
        """The s that leaves so little of rows of this mean squared length, give or take one standard error."""

        def left(s: float) -> float:
            return float(np.minimum(whole * lengths * np.exp(2 * s * (factor - s)), most).mean())

        low, high, reach = 0.0, _MOST_SWING, seen + math.sqrt(variance)
        for _ in range(20 if left(0.0) > reach else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if left(middle) > reach else (low, middle)
        return low

    variances = float(np.square(deviation).sum())
    found = max(missing(p, noise + known), missing(variances, noise + pooled.noise.trace_variance()))
    return _SWUNG * math.expm1(4 * found**2)


def _variance_error(known: Marginal, link: Link) -> float:
    """Variance of the error that the noise of the counts leaves in the variance of the scores made with them."""
    noise, between = cumulative_noise(known, ndtr(link.places))
    load = between @ link.variance_sensitivity
    return float(load @ noise @ load)


def public(pooled: Pooled) -> str | None:
    """Whether rows on the public scale were left as they are, for nothing shows their shape."""
    last = pooled.stages[-1]
    radius = last.stage.radius
    if radius is None:
        return None
    length = float(np.trace(last.stage.second))
    if last.share_clipped < _FEW_CLIPPED and radius**2 > _BEYOND * length:
        return None
    return (
        f"about {100 * last.share_clipped:.2g} % of the rows were clipped on the public scale, and nothing in this "
        "release shows whether they are Gaussian, as undoing that supposes. A release with marginals (adaptive) would, "
        "or one with a larger clip radius"
    )


def marginals_bias(pooled: Pooled, marginals: Sequence[Marginal]) -> str | None:
    """Whether rows with the released marginals come back when they are clipped and undone as these were.

    Columns may be far from normal each by itself, or because whole rows swing together. Both are tried, and the one
    that explains the released lengths of rows is believed.
    """
    last = pooled.stages[-1]
    if last.stage.radius is None or not any(map(_is_bent, marginals)):
        return None
    variance = np.diag(pooled.covariance)
    deviation = np.sqrt(np.maximum(variance, 1e-12))
    correlation = nearest_correlation(pooled.covariance / np.outer(deviation, deviation))
    apart = _rows_with(marginals, correlation)
    tried = [_gained(rows, last.stage) for rows in (apart, _rows_that_swing(apart, correlation))]
    _, bias, noise = min(tried, key=lambda one: abs(one[0] - float(variance.mean())))
    error = np.sqrt(pooled.error.entry_variance) / np.outer(deviation, deviation)
    upper = np.triu_indices(len(error), 1)
    mean_square = float(np.mean((bias[upper] / error[upper]) ** 2) - np.mean((noise[upper] / error[upper]) ** 2))
    if mean_square < _BIAS_BORNE**2:
        return None
    return (
        f"columns are not normal on the linear scale, and clipping {100 * last.share_clipped:.2g} % of such rows moves "
        f"correlations by {math.sqrt(mean_square):.1f} standard errors that undoing does not give back. Use scale = "
        '"scores", a larger budget, or a transform'
    )


def nearest_correlation(correlation: FloatArray) -> FloatArray:
    """The correlation matrix without its negative eigenvalues."""
    values, vectors = np.linalg.eigh(correlation)
    whole = (vectors * np.maximum(values, 1e-3)) @ vectors.T
    scale = np.sqrt(np.diag(whole))
    return np.asarray(whole / np.outer(scale, scale))


def _rows_with(marginals: Sequence[Marginal], correlation: FloatArray) -> FloatArray:
    """Rows of a Gaussian copula with these marginals, each column standardised; normal where they do not contradict."""
    rows = np.random.default_rng(_SEED).standard_normal((_DRAWS, len(marginals))) @ np.linalg.cholesky(correlation).T
    grid = np.linspace(-4, 4, 801)
    for k, one in enumerate(marginals):
        if _is_bent(one):
            cells, ends = one.quantile(ndtr(grid)), one.borders[[1, -2]]  # an open end is as long as its bound is far
            rows[:, k] = np.interp(rows[:, k], grid, np.clip(cells, ends[0] - one.spread, ends[1] + one.spread))
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def _rows_that_swing(like: FloatArray, correlation: FloatArray) -> FloatArray:
    """Gaussian rows times a common factor, which gives columns the tails that those of `like` have on average."""
    rng = np.random.default_rng(_SEED + 1)
    rows = rng.standard_normal(like.shape) @ np.linalg.cholesky(correlation).T
    heavier = max(float(np.mean(like**4)) / 3, 1.0)
    rows *= np.exp(math.sqrt(math.log(heavier)) / 2 * rng.standard_normal(len(rows)))[:, None]
    return np.asarray(rows / rows.std(axis=0))


def _gained(rows: FloatArray, stage: StageMoments) -> tuple[float, FloatArray, FloatArray]:
    """The variance that clipping and undoing leave on average, what they add to correlations, and half-sample noise."""
    back, scales, found = np.linalg.inv(stage.map), [], []
    for half in np.array_split(rows, 2):
        after = np.cov(half, rowvar=False) + back @ gained(half, stage) @ back.T
        scale = np.sqrt(np.maximum(np.diag(after), np.finfo(float).tiny))
        scales.append(float(np.mean(scale**2)))
        found.append(after / np.outer(scale, scale) - np.corrcoef(half, rowvar=False))
    return sum(scales) / 2, (found[0] + found[1]) / 2, (found[0] - found[1]) / 2


def _is_bent(known: Marginal) -> bool:
    """Whether the counts contradict a normal distribution beyond their noise."""
    skewed = abs(known.fitted[2]) > max(_SKEW_BORNE, _SURE * math.sqrt(known.skew_variance))
    return skewed or known.weight > _BEYOND_NOISE
