"""Does the release contradict the model that its error bars rest on? Everything is judged by released numbers alone.

Undoing of clipping supposes Gaussian rows. Scores of a Gaussian copula are such rows; on the linear scale nothing makes
them so. Where the release itself says otherwise, error bars would be wrong, and nothing is selected.

    undoing      did not converge, or nearly every row was clipped
    agreement    stages clip in different ways, so each would be undone to another covariance if the model were wrong
    lengths      scores have variance 1 as far as the marginals are known; rows that are clipped, undone, must show that
    marginals    (linear) rows drawn with the released marginals are clipped and undone: what that does not give back
                 widens error bars, and is too much where it is twice as large as they are
    public       (no marginals) nothing confirms the model, so hardly a row may be clipped
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from hazeglass.analyst.pooling import Pooled, StageMoments, gained, is_loud, pool
from hazeglass.analyst.scored import cumulative_noise
from hazeglass.features.marginal import Marginal
from hazeglass.features.scores import Link
from hazeglass.features.shaping import OTHER_SHAPE
from hazeglass.glasso.linalg import FloatArray

TOO_TIGHT = "rows were clipped too tightly, and no Gaussian rows would have these moments when clipped"
_SURE = 4.0  # standard errors
_DISAGREE = 1.3  # stages differ by so many times their noise, squared: with less, error bars are nearly right
# Per unit of a wrong mean square and root of n, the bias of partial correlations in standard errors, and how much of it
# is borne. A rough reading (0.014 to 0.038) of simulated Student copulas and rows that swing together, 12 columns,
# epsilon 1, 5 replicates each; no benchmark in the repository measures it yet, and it was not checked on other seeds.
_HARM, _HARM_BORNE = 0.025, 0.8
_MOST_CLIPPED = 0.9
_HARDLY = 0.01  # of the rows, by the model: a stage that clips no more can be believed by itself
_FEW_CLIPPED, _BEYOND = 0.002, 3.0  # public scale: rows by the model, and squared radius beside the mean squared length
# Bias in standard errors, root mean square, that error bars are widened by; beyond, the release says too little. Nine
# releases of rows that are no Gaussian copula, on the linear scale, had 2 to 3: coverage was at least .97 in each.
_BIAS_BORNE = 3.0
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
        return TOO_TIGHT
    if last.share_clipped > _MOST_CLIPPED:
        return f"{100 * last.share_clipped:.0f} % of the rows were clipped, more than can be undone"
    return None


def agreement(pooled: Pooled) -> str | None:
    """Whether the stages, each undone, say the same within their noise."""
    return contradicting(pooled.disagreement)


def contradicting(disagreement: tuple[float, int]) -> str | None:
    """The same of the squared differences between stages, in units of their noise, and how many there are."""
    statistic, freedom = disagreement
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
    known = sum(variance_error(one, link) for one, link in zip(marginals, links, strict=True))
    error = math.sqrt(pooled.noise.trace_variance() + known) / p
    return None if is_loud(pooled.stages[-1].stage) else odd_lengths(excess, error, n)


def odd_lengths(excess: float, error: float, n: int) -> str | None:
    """The same of how far the mean variance exceeds 1, with its error."""
    if abs(excess) < _SURE * error or _HARM * abs(excess) * math.sqrt(n) < _HARM_BORNE:
        return None
    return (
        f"rows are not as long as scores of a Gaussian copula are: their mean square is {1 + excess:.2f} where it "
        f"must be 1.00 within {2 * error:.2f}"
    )


def swing(first: StageMoments, pooled: Pooled, marginals: Sequence[Marginal], links: Sequence[Link] | None) -> float:
    """How far rows swing together: the standard deviation of the logarithm of a common factor of each row.

    Rows may be far out in all columns at once, more often than Gaussian ones are. Clipped to a ball, such rows lose
    more of their length than others. The first stage clips the columns as they are, and how long its rows are without
    that is known twice: every column has variance 1 but for the error of its marginal, and later stages may have
    clipped less. What is missing shows a factor exp(s N).
    """
    if first.radius is None or not marginals:
        return 0.0
    known = 0.0 if links is None else sum(map(variance_error, marginals, links))
    variances = np.diag(pooled.covariance)
    deviation = np.sqrt(np.maximum(variances, 1e-12))
    values = np.linalg.eigvalsh(nearest_correlation(pooled.covariance / np.outer(deviation, deviation)))
    total = float(np.maximum(variances, 0.0).sum())
    return swing_of(first, total, pooled.noise.trace_variance(), np.asarray(values, dtype=np.float64), known)


def swing_of(first: StageMoments, total: float, trace_variance: float, values: FloatArray, known: float) -> float:
    """The same of the sum of the pooled variances and its noise, the correlations' eigenvalues, and the error that the
    marginals leave in the sum."""
    assert first.radius is not None
    p, radius, lengths = len(first.mean), first.radius, _Lengths.of(values)
    seen, noise = float(first.second.diagonal().sum()), 2 * p * first.noise_sd**2

    def missing(whole: float, variance: float) -> float:
        """The s that leaves so little of rows of this mean squared length, give or take one standard error."""
        low, high, reach = 0.0, _MOST_SWING, seen + math.sqrt(variance)
        for _ in range(20 if lengths.left(whole, radius, 0.0) > reach else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if lengths.left(whole, radius, middle) > reach else (low, middle)
        return low

    return max(missing(p, noise + known), missing(total, noise + trace_variance))


def more_sampling(swung: float) -> float:
    """What to multiply sampling variances by: products of rows with a factor exp(s N) vary exp(4 s^2) times as much."""
    return 1 + _SWUNG * math.expm1(4 * swung**2)


def doubt(stages: Sequence[StageMoments], covariance: FloatArray, swung: float) -> float:
    """What undoing of clipping may get wrong between two directions of rows: a share of what clipping took.

    Undoing supposes that the long rows, from which clipping takes, depend on each other as the others do. Of most real
    tables they do not quite (docs/maths/widening.md).
    """
    lost, weights = [], []
    for stage in stages:
        values = np.maximum(np.linalg.eigvalsh(stage.map @ covariance @ stage.map.T), 0.0)
        whole = float(values.sum())
        clipped = stage.radius is not None and whole > 0
        left = _Lengths.of(values).left(whole, stage.radius or 0.0, swung) / whole if clipped else 1.0
        lost.append(1 - left)
        weights.append(1 / max(stage.noise_sd, 1e-12) ** 2)
    return OTHER_SHAPE * float(np.average(lost, weights=weights))


@dataclass(frozen=True, eq=False)
class _Lengths:
    """Squared lengths of Gaussian rows, 1 on average, and the draws N of a common factor."""

    squares: FloatArray
    factors: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> _Lengths:
        """Of rows whose covariance has these eigenvalues."""
        rng, p = np.random.default_rng(_SEED), values.size
        draws = min(_DRAWS, max(_FEWEST_DRAWS, _MOST_NUMBERS // p))  # lengths of many columns are all alike
        squares, factors = np.square(rng.standard_normal((draws, p))) @ values, rng.standard_normal(draws)
        return cls(np.asarray(squares / squares.mean()), factors)

    def left(self, whole: float, radius: float, swung: float) -> float:
        """The mean squared length of rows, `whole` before, that is left when they are clipped to a ball."""
        return float(np.minimum(whole * self.squares * np.exp(2 * swung * (self.factors - swung)), radius**2).mean())


def variance_error(known: Marginal, link: Link) -> float:
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


def marginals_bias(pooled: Pooled, marginals: Sequence[Marginal]) -> FloatArray | None:
    """What clipping and undoing do to the covariance of rows with the released marginals; None where these are normal.

    Columns may be far from normal each by itself, or because whole rows swing together. Both are tried, and the one
    that explains the released lengths of rows is believed.
    """
    if pooled.stages[-1].stage.radius is None or not any(map(_is_bent, marginals)):
        return None
    deviation = np.sqrt(np.maximum(np.diag(pooled.covariance), 1e-12))
    correlation = nearest_correlation(pooled.covariance / np.outer(deviation, deviation))
    apart = _rows_with(marginals, correlation)
    tried = [_gained(rows, pooled.stages[-1].stage) for rows in (apart, _rows_that_swing(apart, correlation))]
    _, bias, noise = min(tried, key=lambda one: abs(one[0] - float(np.mean(deviation**2))))
    shrunk = np.sqrt(np.maximum(bias**2 - noise**2, 0.0))  # half-samples say what part of it is chance
    return np.asarray(shrunk * np.outer(deviation, deviation))


def biased(pooled: Pooled, bias: FloatArray | None) -> str | None:
    """Whether that bias is more than wider error bars should make up for."""
    if bias is None:
        return None
    upper = np.triu_indices(len(bias), 1)
    size = math.sqrt(float(np.mean(bias[upper] ** 2 / pooled.error.entry_variance[upper])))
    if size < _BIAS_BORNE:
        return None
    return (
        f"columns are not normal on the linear scale, and clipping {100 * pooled.stages[-1].share_clipped:.2g} % of "
        f"such rows moves correlations by {size:.1f} standard errors that undoing does not give back. Use scale = "
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
