"""Rows in time: who moves together now, given the past, and who leads whom.

A release of stacked rows (x_t, ..., x_t-L) has one covariance S. With S_tt its block of the latest row, S_ll that of
the rows before and A = S_tl S_ll^-1 the regression of one on the other, the innovations e_t = x_t - A (past) have the
covariance S_tt - A S_lt; its inverse is the block of x_t in the joint precision. Both layers follow:

    now     pairs of columns by the innovations' precision, undirected: a graph like any other (recover.py)
    lagged  A itself, directed: A_ij says what column j at t-k adds to i at t, all other rows before held fixed

Rows are not independent, innovations are: products of e_t with anything before it are martingale differences, so that
the error of A has covariance Sigma_e x S_ll^-1 / n, and that of the innovations' covariance is that of n independent
rows. Both are what the error model of independent rows gives for the loads [I, -A] and S_ll^-1, and privacy noise goes
through the same loads (docs/maths/series.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from hazeglass.analyst.error_model import ErrorModel
from hazeglass.analyst.noisy import NoisyCovariance, Stacked
from hazeglass.features.harmonics import calendar, season_noise
from hazeglass.glasso.linalg import FloatArray

IntArray = npt.NDArray[np.intp]
_DRAWS, _FEWEST, _SEED = 400, 20, 20_261_118
_MOST_NUMBERS = 4_000_000
# The error of the rows before, squared and summed over a row where they are whitened: with more, it hides them, and
# least squares has too few rows for its error bars.
_HIDDEN = 0.15
_BENDING = 0.9  # as in inference.py
_ROUGH = 1.1  # what draws miss of the noise: variances of simulated nulls were 6 to 8 % larger (seeds 200 to 207)
_STILL, _STILL_ALIKE = 2.0, 0.03  # root mean square of residual autocorrelations, in standard errors; and what harms
_SMALL = 1e-3  # of an eigenvalue of the rows before, beside the largest: below, they say nothing apart


@dataclass(frozen=True, eq=False)
class Past:
    """What a stacked covariance says of the rows before, and of what they leave of the latest.

    coefficients      A, one row per column; entries are column by column, and of each from lag 1 on
    error             standard deviation of every coefficient
    innovations       covariance of what the rows before leave, with its error
    precision_before  inverse of the covariance of the rows before
    """

    coefficients: FloatArray
    error: FloatArray
    innovations: NoisyCovariance
    precision_before: FloatArray
    lags: int

    @property
    def by_lag(self) -> FloatArray:
        """A_1, ..., A_L, shape (lags, p, p): entry (k, i, j) leads from j at t - k - 1 to i at t."""
        p = len(self.coefficients)
        return np.asarray(self.coefficients.reshape(p, p, self.lags).transpose(2, 0, 1))


def past_of(stacked: Stacked, names: tuple[str, ...], lags: int) -> Past:
    """Regress the latest row on those before it, with all errors carried along."""
    stacked = alike(stacked, lags)
    noisy, size, q = stacked.noisy, lags + 1, len(stacked.noisy.covariance)
    now, before = np.arange(0, q, size), np.flatnonzero(np.arange(q) % size)
    S = noisy.covariance
    inverse, hidden = _inverse(S[np.ix_(before, before)])
    A = S[np.ix_(now, before)] @ inverse
    forth, back = np.zeros((len(now), q)), np.zeros((before.size, q))
    draws = Draws.of(stacked)
    # An inverse of a noisy matrix is too large on average, and so would be the variances it is a load of.
    steady = _less_bias(draws, inverse, before)
    forth[:, now], forth[:, before], back[:, before] = np.eye(len(now)), -A, steady
    bias, spread, gap = _second_order(draws, A, inverse, now, before)
    sampling = replace(stacked.sampling, basis=np.vstack([forth, back]) @ stacked.sampling.basis).entry_variance
    variance = sampling[: len(now), len(now) :] + _ROUGH * draws.noise_variance(forth, back) + spread
    found = S[np.ix_(now, now)] - A @ S[np.ix_(before, now)]
    found = (found + found.T) / 2 + gap
    share = math.inf if hidden else _share(draws, S, before)
    bent = _bent(noisy, A, now, before)
    innovations = NoisyCovariance(
        names,
        noisy.n,
        found,
        draws.error(forth, np.asarray(np.linalg.pinv(found, hermitian=True))),
        notes=noisy.notes,
        swing=noisy.swing,
        distrusted=noisy.distrusted or _why_hidden(share, lags),
        bent=None if bent is None else bent / np.maximum(np.diag(found), 1e-3),
    )
    if bent is not None and noisy.bent is not None:  # what noise in the marginals bent goes through both loads
        own = _BENDING * np.sqrt(np.outer(bent, np.diag(inverse) ** 2 * noisy.bent[before]))
        variance = variance + own**2
    return Past(A - bias, np.sqrt(variance), innovations, steady, lags)


def still_in_time(rows: FloatArray, lags: int) -> str | None:
    """Whether what so many rows before leave of a row still resembles what they leave of the one before: then
    innovations are not independent, and error bars are those of independent ones."""
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    before = np.hstack([z[lags - k : len(z) - k] for k in range(1, lags + 1)])
    left = z[lags:] - before @ np.linalg.lstsq(before, z[lags:], rcond=None)[0]
    alike = np.sum(left[1:] * left[:-1], axis=0) / np.maximum(np.sum(left**2, axis=0), np.finfo(float).tiny)
    worst = float(np.sqrt(np.mean(alike**2)))
    if worst < _STILL * max(1 / math.sqrt(len(z)), _STILL_ALIKE):
        return None
    return (
        f"what {_rows_before(lags)} before leave of a row still resembles what they leave of the one before it "
        f"(correlation {worst:.2f} on average), so that innovations are not independent. Use more lags"
    )


def _rows_before(lags: int) -> str:
    return "the row" if lags == 1 else f"{lags} rows"


@dataclass(frozen=True, eq=False)
class Draws:
    """Some draws of the error: of sampling, and of privacy noise, whose entries go together as no formula here says.

    stacked  with errors that any loads can be put before (:func:`plain`)
    noise    draws of the noise in the coordinates of the features
    """

    stacked: Stacked
    noise: FloatArray
    sampling: FloatArray

    @classmethod
    def of(cls, stacked: Stacked) -> Draws:
        rng, q = np.random.default_rng(_SEED), len(stacked.noisy.covariance)
        count = max(_FEWEST, min(_DRAWS, _MOST_NUMBERS // q**2))
        sampling = np.array([stacked.sampling.sample(rng) for _ in range(count)])
        if stacked.draw is None or stacked.noise is None:
            return cls(stacked, np.zeros((1, q, q)), sampling)
        basis = stacked.noise.basis
        return cls(stacked, np.array([basis @ stacked.draw(rng) @ basis.T for _ in range(count)]), sampling)

    def noise_variance(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Of every entry of left E right^T, the noise's part."""
        return np.asarray(np.mean(np.square(left @ self.noise @ right.T), axis=0))

    def error(self, loads: FloatArray, inner: FloatArray) -> ErrorModel:
        """That of loads S loads^T, its noise as large as draws make it in products with `inner`."""
        sampling, noise = self.stacked.sampling, self.stacked.noise
        found = replace(sampling, basis=loads @ sampling.basis)
        if noise is None:
            return found
        both = inner @ loads
        upper = np.triu_indices(len(both), 1)
        drawn = self.noise_variance(both, both)[upper]
        ruled = replace(noise, basis=both @ noise.basis).entry_variance[upper]
        factor = float(drawn.sum() / ruled.sum()) if upper[0].size else 1.0
        m = len(noise.off)
        off, diagonal = found.off.copy(), found.diagonal.copy()
        off[:m, :m] += factor * noise.off
        diagonal[:m, :m] += factor * noise.diagonal
        return replace(found, off=off, diagonal=diagonal)


def _bent(noisy: NoisyCovariance, A: FloatArray, now: IntArray, before: IntArray) -> FloatArray | None:
    """The variance that noise in marginals left in the innovations."""
    if noisy.bent is None:
        return None
    return np.asarray(noisy.bent[now] + np.square(A) @ noisy.bent[before])


def _why_hidden(share: float, lags: int) -> str | None:
    if share < _HIDDEN:
        return None
    rows = "row" if lags == 1 else f"{lags} rows"
    return (
        f"noise, or that rows are few, hides how columns go together in the {rows} before, so that what the past "
        "explains cannot be taken off. It takes more rows, a larger epsilon, fewer columns or fewer lags"
    )


def alike(stacked: Stacked, lags: int) -> Stacked:
    """On one scale for all lags of a column: it is the same column, whatever noise its released variances have."""
    noisy = stacked.noisy.standardised()
    deviation = noisy.standard_deviations.reshape(-1, lags + 1)
    common = np.sqrt(np.mean(np.square(deviation), axis=1, keepdims=True))
    back = (deviation / common).ravel()
    whole = back * stacked.noisy.standard_deviations / noisy.standard_deviations

    def plain(error: ErrorModel) -> ErrorModel:
        """As U E U^T alone, which any loads can be put before: errors that the pairs of a column share are further
        columns of U, and what single pairs are known worse by is spread over all of them."""
        factor = 1.0 if error.stretch is None else float(np.mean(np.square(error.stretch)))
        off, diagonal, basis = factor * error.off, factor * error.diagonal, whole[:, None] * error.basis
        if error.own is not None and error.own.any():
            q, size = len(error.own), lags + 1
            own = np.sqrt(np.outer(error.own, error.own)) * np.kron(np.eye(q // size), np.ones((size, size)))
            basis = np.hstack([basis, np.eye(q)])
            off, diagonal = _beside(off, np.zeros((q, q))), _beside(diagonal, own)
        return ErrorModel(basis, off, diagonal)

    return replace(
        stacked,
        noisy=replace(noisy, covariance=noisy.covariance * np.outer(back, back), whitener=None),
        sampling=plain(stacked.sampling),
        noise=None if stacked.noise is None else plain(stacked.noise),
    )


def _beside(one: FloatArray, other: FloatArray) -> FloatArray:
    n, m = len(one), len(other)
    whole = np.zeros((n + m, n + m))
    whole[:n, :n], whole[n:, n:] = one, other
    return whole


def _inverse(before: FloatArray) -> tuple[FloatArray, bool]:
    """Of the covariance of the rows before, and whether it has none: directions that only noise fills are held down."""
    values, vectors = np.linalg.eigh(before)
    least = _SMALL * float(values[-1])
    return np.asarray((vectors / np.maximum(values, least)) @ vectors.T), bool(values[0] < least)


def _share(draws: Draws, S: FloatArray, before: IntArray) -> float:
    """The error of the rows before in coordinates in which they are the identity, squared, summed over a row."""
    values, vectors = np.linalg.eigh(S[np.ix_(before, before)])
    whiten = np.zeros((before.size, len(S)))
    whiten[:, before] = (vectors / np.sqrt(values)) @ vectors.T
    sampling = replace(draws.stacked.sampling, basis=whiten @ draws.stacked.sampling.basis).entry_variance
    variance = sampling + draws.noise_variance(whiten, whiten)
    return float((variance.sum() - np.trace(variance)) / len(before))


def _less_bias(draws: Draws, inverse: FloatArray, before: IntArray) -> FloatArray:
    """The inverse without what the error adds to it on average, to second order; at most half of it is taken off."""
    E = (draws.sampling + draws.noise)[:, before[:, None], before[None, :]]
    root = np.linalg.cholesky(inverse)
    gain = (root.T @ np.mean(E @ inverse @ E, axis=0)) @ root
    values, vectors = np.linalg.eigh((gain + gain.T) / 2)
    kept = vectors * (1 - np.clip(values, 0.0, 0.5))
    return np.asarray(root @ kept @ vectors.T @ root.T)


def _second_order(
    draws: Draws, A: FloatArray, inverse: FloatArray, now: IntArray, before: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What the error does to A and to the innovations' covariance beyond first order: the bias of A, the variance that
    it adds, and what the innovations' covariance lost; means over draws of the error.

    A + dA = (S_tl + E_tl)(S_ll + E_ll)^-1, so with G = E_tl - A E_ll the first order is G S_ll^-1, the second
    -G S_ll^-1 E_ll S_ll^-1, and the innovations' covariance loses G S_ll^-1 G^T.
    """
    E = draws.sampling + draws.noise
    within = E[:, before[:, None], before[None, :]]
    G = E[:, now[:, None], before[None, :]] - A @ within
    first = G @ inverse
    second = -first @ within @ inverse
    return second.mean(axis=0), second.var(axis=0), (first @ G.transpose(0, 2, 1)).mean(axis=0)


@dataclass(frozen=True, eq=False)
class Arrows:
    """One value per directed pair of different columns and lag, target by target, source by source, lag by lag."""

    source: FloatArray
    target: FloatArray
    lag: FloatArray
    coefficient: FloatArray
    coefficient_error: FloatArray
    precision: FloatArray
    partial_correlation: FloatArray
    std_error: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    p_value: FloatArray
    q_value: FloatArray


def arrows(past: Past) -> Arrows:
    """Who leads whom: every column's own past is held fixed, and is no arrow."""
    from scipy.stats import false_discovery_control

    A, error, p = past.coefficients, past.error, len(past.coefficients)
    target, entry = (axis.ravel() for axis in np.indices(A.shape))
    source, lag = entry // past.lags, 1 + entry % past.lags
    other = source != target
    target, entry, source, lag = (one[other] for one in (target, entry, source, lag))
    own, spread = np.diag(past.innovations.covariance), np.diag(past.precision_before)
    # The partial correlation of x_i now and x_j before, given all else before: a monotone function of the coefficient.
    unit = np.sqrt(np.maximum(own, 1e-12)[target] * np.maximum(spread, 1e-12)[entry])

    def partial(coefficient: FloatArray) -> FloatArray:
        ratio = coefficient / unit
        return np.asarray(ratio / np.sqrt(1 + ratio**2))

    value, sd = A[target, entry], error[target, entry]
    reach = float(ndtri(0.975)) * sd
    estimate = partial(value)
    p_value = 2 * ndtr(-np.abs(value) / np.maximum(sd, np.finfo(float).tiny))
    joint = -np.linalg.pinv(past.innovations.covariance, hermitian=True) @ A
    return Arrows(
        source,
        target,
        lag,
        value,
        sd,
        joint[target, entry],
        estimate,
        sd / unit * (1 - estimate**2) ** 1.5,
        partial(value - reach),
        partial(value + reach),
        p_value,
        np.asarray(false_discovery_control(p_value)) if p > 1 else p_value,
    )


# -------------------------------------------------------------------------------------------------------------- seasons


@dataclass(frozen=True, eq=False)
class SeasonNoise:
    """What noise in means by hour or weekday leaves in the rows that they were taken off.

    The means had noise e, one draw for each level and column, known in size. The covariance of stacks gains
    (1/T) sum_t e_t e_t^T over the calendar, whose mean is known, and what it differs by from its mean is a further
    error, which draws show. `variances` are those of a level's mean for each season.
    """

    columns: int
    lags: int
    levels: tuple[int, ...]
    step: float
    variances: tuple[float, ...]

    @classmethod
    def of(cls, second: FloatArray, levels: Sequence[int], noise_sd: float, step: float, lags: int) -> SeasonNoise:
        """From the released moments of the stage of seasons."""
        columns = len(second) - sum(levels)
        return cls(columns, lags, tuple(levels), step, tuple(season_noise(second, levels, noise_sd)))

    @property
    def mean(self) -> FloatArray:
        """What the covariance of stacks gains on average: every column by itself, between the rows of a stack."""
        size = self.lags + 1
        own = np.zeros((size, size))
        for variance, codes in zip(self.variances, calendar(self.levels, self.step, self.lags), strict=True):
            own += variance * np.mean(codes[:, None] == codes[None, :], axis=2)
        return np.asarray(np.kron(np.eye(self.columns), own))

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """One draw of what it gains beyond that."""
        left: FloatArray | float = 0.0
        for count, variance, codes in zip(
            self.levels, self.variances, calendar(self.levels, self.step, self.lags), strict=True
        ):
            noise = rng.standard_normal((count, self.columns)) * np.sqrt(variance * count / max(1, count - 1))
            left = left + (noise - noise.mean(axis=0))[codes]  # lags, rows, columns
        stacked = np.asarray(left).transpose(1, 2, 0).reshape(np.asarray(left).shape[1], -1)
        return np.asarray(stacked.T @ stacked / len(stacked)) - self.mean
