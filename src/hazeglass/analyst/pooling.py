"""Stages of moments, each undone in its own coordinates, and pooled into one covariance with its error.

Stage k saw y = A_k x - c_k with a public matrix A_k, clipped y to a ball, and released moments with isotropic noise of
standard deviation t_k. Undoing gives the covariance C_k of y, and S_k = A_k^-1 C_k A_k^-T is one estimate of the
covariance of x. All stages saw the same rows: they share the sampling error, and their privacy noise is independent.

They are averaged entry by entry in the coordinates U^-1 x, U = A^-1 V, with A of the last stage and V the eigenvectors
of its C. There the rows' coordinates are uncorrelated, and as stages are shaped by one another their noise nearly is as
well, so that weights by the inverse of each entry's noise variance lose next to nothing against the full least squares
(docs/maths/shaping.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hazeglass.analyst.error_model import ErrorModel, widened_error
from hazeglass.features.clipping import LEAST_NOISE, stage_doubts, stage_scales, widen
from hazeglass.glasso.linalg import FloatArray

_DRAWS, _FEWEST_DRAWS, _SEED = 50, 3, 20_241_118
_MOST_ROWS = 100  # columns whose pairs say what noise does to products
_LOUD = 0.3


@dataclass(frozen=True, eq=False)
class StageMoments:
    """One stage as the analyst needs it, its noisy moments in the stage's own coordinates y = map x - centre.

    radius         of the ball that rows y were clipped to, None where they were not
    noise_sd       of an entry off the diagonal of `second` (on it sqrt(2) times that)
    mean_noise_sd  of an entry of `mean`
    map            a matrix; of many columns (large_pooling.py) None where it is the identity
    """

    mean: FloatArray
    second: FloatArray
    noise_sd: float
    mean_noise_sd: float
    map: Any
    centre: FloatArray
    radius: float | None


@dataclass(frozen=True, eq=False)
class Undone:
    """A stage's covariance of x, with the errors that sampling and privacy noise left in it.

    converged      whether clipping could be undone; where not, the covariance is that of clipped rows
    share_clipped  of the rows, by the model
    """

    stage: StageMoments
    covariance: FloatArray
    mean: FloatArray
    sampling: ErrorModel
    noise: ErrorModel
    converged: bool
    share_clipped: float


@dataclass(frozen=True, eq=False)
class Pooled:
    """One covariance of x from all stages.

    noise         the part of the error that stages do not share
    disagreement  sum of the squared differences between stages in units of their noise, and how many there are
    inflation     by how much `noise` is larger than entries that were independent would make it (:func:`inflation`)
    carried       the noise of every stage in the coordinates of `error.basis`, and
    weights       the share that every stage has in each entry there
    unshared      variances of what stages that clip more add to the sampling error that all of them share
    """

    covariance: FloatArray
    mean: FloatArray
    error: ErrorModel
    noise: ErrorModel
    stages: tuple[Undone, ...]
    disagreement: tuple[float, int]
    inflation: float
    carried: tuple[ErrorModel, ...]
    weights: FloatArray
    unshared: FloatArray

    def draw_noise(self, rng: np.random.Generator) -> FloatArray:
        """One draw of the privacy noise in the coordinates of `error.basis`, with entries that go together."""
        drawn = (weight * noise.sample(rng) for weight, noise in zip(self.weights, self.carried, strict=True))
        own = np.triu(rng.standard_normal(self.unshared.shape) * np.sqrt(self.unshared))
        return np.asarray(sum(drawn) + np.triu(own, 1) + own.T)

    def with_doubt(self, factor: float, shape: float, bias: FloatArray | None = None) -> Pooled:
        """The same, the variance of sampling (all of the error but the noise) times `factor`; and undoing of clipping
        may be wrong by the share `shape` of what two directions of rows vary, and by as much as `bias`."""
        back = np.linalg.inv(self.error.basis)
        own = np.diag(back @ self.covariance @ back.T)
        beside = shape**2 * np.outer(own, own)
        if bias is not None:
            beside = beside + np.square(back @ bias @ back.T)

        def more(whole: FloatArray, noise: FloatArray) -> FloatArray:
            return noise + factor * (whole - noise)

        off = more(self.error.off, self.noise.off) + beside
        diagonal = more(self.error.diagonal, self.noise.diagonal) + 2 * np.diag(np.diag(beside))
        return replace(self, error=replace(self.error, off=off, diagonal=diagonal))


def undo(stage: StageMoments, n: int, alike: FloatArray | None = None) -> Undone:
    """Clipping undone under a Gaussian model, and back from y to x.

    `alike` are rows that resemble the data better than Gaussian ones do: what undoing gets wrong for them is taken off.
    """
    inverse = np.asarray(np.linalg.inv(stage.map), dtype=np.float64)
    found = None if stage.radius is None else widen(stage.second, stage.radius, stage.mean)
    if found is not None:
        inner = found.row_covariance(n, np.full(len(stage.mean), stage.mean_noise_sd))
        mean, share = found.mean, found.share_clipped
        mean_sd = stage.mean_noise_sd / found.mean_kept
        sampling, noise = widened_error(found, n, 0.0), widened_error(found, math.inf, stage.noise_sd)
    else:
        mean, mean_sd, share = stage.mean, stage.mean_noise_sd, 0.0
        product = np.outer(mean, mean) - mean_sd**2 * np.eye(len(mean))
        inner = (stage.second - product) * n / (n - 1)
        sampling = ErrorModel.of_gaussian_rows(inner, n)
        noise = replace(sampling, off=0 * sampling.off, diagonal=0 * sampling.off).plus_isotropic(stage.noise_sd)
    noise = noise.plus_noisy_mean(mean, mean_sd)
    if alike is not None and found is not None:
        inner = inner - gained(alike, stage)
    return Undone(
        stage,
        inverse @ inner @ inverse.T,
        inverse @ (mean + stage.centre),
        _carried(sampling, inverse),
        _carried(noise, inverse),
        stage.radius is None or found is not None,
        share,
    )


def gained(rows: FloatArray, stage: StageMoments) -> FloatArray:
    """What clipping and undoing it add to the covariance of rows on the stage's own scale, y = map x about its mean."""
    if stage.radius is None:
        return np.zeros_like(stage.second)
    y = rows @ stage.map.T
    y -= y.mean(axis=0)
    before = y.T @ y / len(y)
    y *= np.minimum(1, stage.radius / np.maximum(np.linalg.norm(y, axis=1), np.finfo(float).tiny))[:, None]
    found = widen(y.T @ y / len(y), stage.radius, y.mean(axis=0))
    return np.zeros_like(before) if found is None else found.covariance - before


def pool(stages: Sequence[StageMoments], n: int, alike: FloatArray | None = None) -> Pooled:
    """The stages' weighted mean; stages whose clipping could not be undone are left out.

    Unless it is the last, which only noise may excuse: else it contradicts the model, and stands alone.
    """
    every = [undo(stage, n, alike) for stage in stages]
    kept = [one for one in every if one.converged]
    if not kept or not (every[-1].converged or is_loud(every[-1].stage)):
        kept = every[-1:]
    last = kept[-1]
    basis, back = _basis(last)
    values = np.array([back @ one.covariance @ back.T for one in kept])
    noise = np.maximum([_carried(one.noise, back).entry_variance for one in kept], LEAST_NOISE)
    scale = stage_scales(values, noise)
    values, noise = values * scale[:, None, None], noise * scale[:, None, None] ** 2
    sampling = np.array([_carried(one.sampling, back).entry_variance for one in kept])
    common = sampling.min(axis=0)  # the same rows: this error does not average out; clipping adds to it
    noise += sampling - common
    doubt = stage_doubts(values, noise)
    weights = 1 / doubt
    weights /= weights.sum(axis=0)
    middle = np.sum(weights * values, axis=0)
    apart = np.sum(weights**2 * noise, axis=0)
    carried = tuple(_carried(one.noise, back) for one in kept)
    inflated = inflation(carried, back, weights, apart)
    apart = apart * inflated
    gaps, upper = values - middle, np.triu_indices(len(middle))
    return Pooled(
        basis @ middle @ basis.T,
        last.mean,
        _model(basis, apart + common, _carried(last.sampling, back), _carried(last.noise, back)),
        _model(basis, apart, None, _carried(last.noise, back)),
        tuple(kept),
        (float(np.sum((gaps**2 / doubt)[:, upper[0], upper[1]])), (len(kept) - 1) * (upper[0].size - 1)),
        inflated,
        carried,
        weights,
        np.maximum(np.sum(weights**2 * (sampling - common), axis=0), 0.0),
    )


def inflation(carried: Sequence[ErrorModel], back: FloatArray, weights: FloatArray, apart: FloatArray) -> float:
    """By how much a weighted mean's error varies more in what is inverted than independent entries would make it.

    In common coordinates the errors of some have entries that go together. Some draws of all of them say what that
    does, on average, to the products that partial correlations are made of; `apart` are the entries' variances.
    """
    if len(carried) == 1:
        return 1.0
    p = len(back)
    some = np.unique(np.linspace(0, p - 1, min(p, _MOST_ROWS)).astype(np.intp))
    loads = np.asarray(back.T[some] / np.linalg.norm(back.T[some], axis=1)[:, None])
    rng, upper = np.random.default_rng(_SEED), np.triu_indices(len(loads), 1)
    draws = max(_FEWEST_DRAWS, min(_DRAWS, _DRAWS * _MOST_ROWS // (2 * p)))  # of many columns each draw says more
    drawn = np.zeros(len(upper[0]))
    for _ in range(draws):
        whole = sum(weight * noise.sample(rng) for weight, noise in zip(weights, carried, strict=True))
        drawn += (loads @ whole @ loads.T)[upper] ** 2
    squares = loads**2
    products = loads[upper[0]] * loads[upper[1]]
    twice = np.einsum("rb,rb->r", products @ (apart - np.diag(np.diag(apart))), products)
    expected = (squares @ apart @ squares.T)[upper] + twice
    return max(1.0, float(np.mean(drawn / draws / expected)))


def is_loud(stage: StageMoments) -> bool:
    """Whether noise alone can make clipped moments that no rows have: its largest eigenvalue beside variances of 1."""
    return 2 * math.sqrt(len(stage.mean)) * stage.noise_sd > _LOUD


def _basis(last: Undone) -> tuple[FloatArray, FloatArray]:
    """U and its inverse."""
    inner = last.stage.map @ last.covariance @ last.stage.map.T
    vectors = np.linalg.eigh((inner + inner.T) / 2)[1]
    return np.asarray(np.linalg.solve(last.stage.map, vectors)), np.asarray(vectors.T @ last.stage.map)


def _carried(error: ErrorModel, matrix: FloatArray) -> ErrorModel:
    return replace(error, basis=matrix @ error.basis)


def _model(basis: FloatArray, variance: FloatArray, sampling: ErrorModel | None, noise: ErrorModel) -> ErrorModel:
    """Independent entries with these variances; the diagonal's correlations are those of the last stage.

    Both models of the last stage are diagonal in the basis up to rounding, so their own diagonals serve.
    """
    diagonal = noise.diagonal + (0.0 if sampling is None else sampling.diagonal)
    scale = np.sqrt(np.diag(variance) / np.maximum(np.diag(diagonal), np.finfo(float).tiny))
    return ErrorModel(basis, variance, diagonal * np.outer(scale, scale))
