"""Error bars for every pair: de-biased estimate, standard error with both noises, p-values, false-discovery control.

With T a pilot of the precision and S_hat the corrected covariance, T_d = 2T - T S_hat T has the first-order bias of the
penalty removed. Its variance is that of sampling plus that of the privacy noise (docs/maths/inference.md).

Where columns own several features a pair is a block. With D = diag(T_ii^-1/2) the block R_ij = -(D T_d D)_ij is, up to
second order, Gaussian about the partial correlations of the two columns' features, with a covariance C that both noises
make. Then vec(R)^T C^-1 vec(R) is chi-square with K^2 degrees of freedom if the block is zero. Between columns that
depend on each other only through a third, the block is zero only as far as the features describe the third column's
part in it. What they leave is a share of the product of the two dependences that led there, so the test asks whether
the block is larger than that: a non-central chi-square (docs/maths/curved.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from hazeglass.analyst.blocks import BlockInference, block_scale, level_evidence, level_test, pair_kinds
from hazeglass.analyst.error_model import BENDING, block_multiply, block_sandwich, own_blocks
from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.analyst.penalty import Pilot, Problem, Whitened, sparse_pilot
from hazeglass.analyst.select import Refit
from hazeglass.errors import SolverInputError
from hazeglass.glasso import Solution
from hazeglass.glasso.distance import psd_distance
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import block_norms

_STEADIER = 2.0
# A sparse fit ranks pairs better than an inverse, unless it misses so many times what noise leaves in the inverse;
# with less noise than that, both rank alike.
_MISSES, _LEAST_NOISE = 1.0, 0.05
# What three features of the column between leave of a path, as a share of the product of its two dependences.
_LEFTOVER = 0.45
_LEAST_OWN = 0.25  # of what the pilot says of a column by itself: a de-biased block with less is mostly noise
_ROUNDING = float(np.finfo(float).eps)  # nothing is known better
_TINY = float(np.finfo(float).tiny)
_DEAD = 1e-6  # relative variance below which a direction of a block carries no information


@dataclass(frozen=True, eq=False)
class PairInference:
    """One value per pair i < j, in the order of numpy.triu_indices: partial correlations with their uncertainty.

    block  where columns own several features: the whole blocks. The partial correlation is then that of the columns
           themselves, given all features of all others; p- and q-values are those of the block
    """

    partial_correlation: FloatArray
    std_error: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    p_value: FloatArray
    q_value: FloatArray
    block: BlockInference | None = None

    @classmethod
    def of(
        cls,
        estimate: FloatArray,
        error: FloatArray,
        p_value: FloatArray,
        q_value: FloatArray,
        block: BlockInference | None = None,
    ) -> PairInference:
        """With 95 % intervals that never leave [-1, 1]; where noise left it, they begin where it came in."""
        estimate, half = np.clip(estimate, -1.0, 1.0), float(ndtri(0.975)) * error
        low, high = np.clip(estimate - half, -1.0, 1.0), np.clip(estimate + half, -1.0, 1.0)
        return cls(estimate, error, low, high, p_value, q_value, block)


def pilot(noisy: NoisyCovariance, problem: Problem, chosen: Solution | None = None) -> Pilot:
    """The precision to de-bias, with the smallest error of second order, whichever way it is found.

    De-biasing leaves an error of second order in what the pilot missed. Where the error of the covariance is small in
    every direction, its inverse misses least, however strongly columns depend on each other. Where it is not, a sparse
    fit does, solved as `problem` is. Larger blocks are refitted on the graph of `chosen`.
    """
    if noisy.size > 1 and chosen is not None:
        found = Refit(noisy, problem).fit(problem.support(chosen))
        if found is None:  # pragma: no cover (above d(S) every graph has an estimate)
            raise SolverInputError("no estimate was found on the chosen graph. Pass a larger alpha.")
        return Pilot(found.precision, found.alpha)
    if noisy.error.basis.shape[0] != noisy.error.basis.shape[1]:  # seen through more features than there are columns
        return _sparse_pilot(noisy, problem)
    whitened = _Whitened.of(noisy)
    return whitened.pilot(max(whitened.share, _noise_of_columns(noisy)), lambda: _sparse_pilot(noisy, problem))


def _noise_of_columns(noisy: NoisyCovariance) -> float:
    """The mean square of the error of correlations, summed over a row.

    Columns that are hardly known (nearly constant, or nearly all missing) have correlations which noise makes as large
    as 3, and coordinates in which the error is even need not show it.
    """
    variances = np.diag(noisy.covariance)
    errors = noisy.error.entry_variance / np.outer(variances, variances)
    return float(errors.sum() - np.trace(errors)) / len(errors)


@dataclass(frozen=True, eq=False)
class _Whitened(Whitened):
    """By its eigenvalues in these coordinates, and their vectors."""

    values: FloatArray
    vectors: FloatArray

    @classmethod
    def of(cls, noisy: NoisyCovariance) -> _Whitened:
        back = np.linalg.inv(noisy.error.basis)
        own = np.maximum(np.diag(back @ noisy.covariance @ back.T), np.sqrt(np.diag(noisy.error.off)) + _ROUNDING)
        back = back / np.sqrt(own)[:, None]
        values, vectors = np.linalg.eigh(back @ noisy.covariance @ back.T)
        off = noisy.error.off / np.outer(own, own)
        np.fill_diagonal(off, 0.0)
        return cls(back, max(0.0, float(off.sum()) / len(own)), values, vectors)

    def inverse(self) -> FloatArray:
        loads = self.back.T @ self.vectors
        return np.asarray((loads / (np.maximum(self.values, 0.0) + max(self.ridge, 1e-12))) @ loads.T)

    def gaps(self, precision: FloatArray) -> tuple[float, float]:
        forth = np.linalg.inv(self.back)
        root = (self.vectors * np.sqrt(np.maximum(self.values, 0.0))) @ self.vectors.T
        found = np.linalg.eigvalsh(root @ forth.T @ precision @ forth @ root) - 1
        return float(np.mean(found**2)), float(np.abs(found).max())


def _sparse_pilot(noisy: NoisyCovariance, problem: Problem) -> Pilot:
    """The diagonal pays nothing, because variances that are shrunk bias every edge."""
    free, upper = _unshrunk(noisy, problem), np.triu_indices(len(noisy.names), 1)

    def error(precision: FloatArray) -> float:
        found = noisy.error.partial_correlation_sd(precision)[upper]
        return len(noisy.names) * float(np.mean(found**2))

    return sparse_pilot(lambda deviations: _pilot_at(noisy, deviations, free), error)


def _pilot_at(noisy: NoisyCovariance, deviations: float, free: Problem) -> Pilot:
    """Every entry pays so many of its standard deviations, or more where an indefinite covariance needs it."""
    movable = free.weights * ~np.eye(len(noisy.names), dtype=bool)
    deviation = noisy.block_sd()[movable > 0] / movable[movable > 0]
    alpha = deviations * float(deviation.mean())
    while not free.is_safe(alpha) and psd_distance(noisy.covariance, movable, threshold=alpha).upper >= alpha:
        alpha *= 1.5
    found = free.fit(alpha)
    return Pilot(found.precision, found.alpha)


def _unshrunk(noisy: NoisyCovariance, problem: Problem) -> Problem:
    return Problem.of(noisy, penalize_diagonal=False, solver=problem.solver, device=problem.device)


def evidence(noisy: NoisyCovariance, base: Pilot, problem: Problem) -> FloatArray:
    """A score by which to rank the pairs i < j: z-scores of the de-biased estimate, at twice the pilot's penalty.

    Error bars need little bias, a ranking little variance. The noisier the release, the closer this comes to the
    z-scores of plain correlations, which rank best when little can be told (docs/evidence/recovery.md).
    """
    if noisy.groups:
        return level_evidence(noisy)
    precision = base.precision
    if base.alpha > 0:
        precision = _unshrunk(noisy, problem).fit(_STEADIER * base.alpha).precision
    steady = infer(noisy, precision)
    return np.abs(steady.partial_correlation) / steady.std_error


def steady_evidence(noisy: NoisyCovariance, problem: Problem) -> FloatArray | None:
    """The same by a sparse fit to all columns, where noise is loud and the fit misses little that it leaves to see.

    An inverse, and columns that seem to be determined by others, are then more of the noise than of the data.
    """
    basis = noisy.error.basis
    if noisy.groups or noisy.size > 1 or basis.shape[0] != basis.shape[1]:
        return None
    whitened = _Whitened.of(noisy)
    if not _LEAST_NOISE <= whitened.share < math.inf:  # of a direction that noise hides altogether it is no number
        return None
    sparse = _sparse_pilot(noisy, problem)
    if whitened.missed(sparse.precision) > _MISSES * whitened.risk:
        return None
    return evidence(noisy, sparse, problem)


def infer(noisy: NoisyCovariance, precision: FloatArray, blur: float = 0.0) -> PairInference:
    """Every pair of columns at the given precision: 95 % intervals that never leave [-1, 1], and q-values."""
    from scipy.stats import false_discovery_control

    debiased = 2 * precision - precision @ noisy.covariance @ precision
    if noisy.size == 1:
        block = None
        estimate, error = _of_first_features(noisy, precision, debiased, blur)
        # Noise may leave [-1, 1], where no truth is: an interval begins where it came in, and is never a point.
        estimate, error = np.clip(estimate, -1.0, 1.0), np.maximum(error, _ROUNDING)
        p_value = 2 * ndtr(-np.abs(estimate) / error)
    else:
        block = _blocks(noisy, precision, debiased)
        estimate, error = block.linear_part()
        p_value = _block_test(noisy, block)
    if noisy.groups:
        # Two ordered columns as anywhere; of others the p-value of their block, and no partial correlation.
        estimate, error = _of_first_features(noisy, precision, debiased)
        ordered, apart = 2 * ndtr(-np.abs(estimate) / np.maximum(error, _TINY)), pair_kinds(noisy) > 0
        estimate, error = np.where(apart, np.nan, estimate), np.where(apart, np.nan, error)
        p_value = np.where(apart, p_value, ordered)
    return PairInference.of(estimate, error, p_value, false_discovery_control(p_value), block)


def _of_first_features(
    noisy: NoisyCovariance, precision: FloatArray, debiased: FloatArray, blur: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Partial correlation and standard error of every pair by the columns' first features alone.

    They are those of the columns themselves where both ends are ordered, and nothing where one is not.
    """
    # The de-biased diagonal may lose positivity under heavy noise; the penalised one cannot.
    diagonal = np.where(np.diag(debiased) > 0, np.diag(debiased), np.diag(precision))[:: noisy.size]
    upper = np.triu_indices(len(diagonal), 1)
    estimate = -(debiased[:: noisy.size, :: noisy.size] / np.sqrt(np.outer(diagonal, diagonal)))[upper]
    own = noisy.error.partial_correlation_sd(precision)[:: noisy.size, :: noisy.size]
    error = math.sqrt(1 + blur) * own[upper]
    if noisy.bent is not None:  # of what the other columns leave of a column, which strong dependence makes little
        share = np.sqrt(noisy.bent * np.diag(precision)[:: noisy.size])
        error = np.hypot(error, BENDING * np.outer(share, share)[upper])
    if noisy.astray is not None:
        share = np.sqrt(noisy.astray * np.diag(precision)[:: noisy.size])
        error = np.hypot(error, np.hypot.outer(share, share)[upper])
    return estimate, error


def _blocks(noisy: NoisyCovariance, precision: FloatArray, debiased: FloatArray) -> BlockInference:
    size, p = noisy.size, len(noisy.names)
    scale = _own_scale(precision, debiased, size) if noisy.groups else block_scale(precision, size)
    i, j = np.triu_indices(p, 1)
    found = -block_sandwich(scale, debiased).reshape(p, size, p, size)[i, :, j, :]
    covariances = noisy.error.block_covariances(block_multiply(scale, precision), size)
    themselves = noisy.itself @ np.linalg.inv(noisy.whitening)
    return BlockInference(found, covariances, scale, np.einsum("pab,pb->pa", scale, themselves))


def _own_scale(precision: FloatArray, debiased: FloatArray, size: int) -> FloatArray:
    """T_ii^-1/2 of the de-biased estimate: with the pilot's, what its penalty takes off an edge would come back in part
    twice. The pilot's where noise leaves a de-biased block without a root."""
    scale = block_scale(precision, size)
    own = own_blocks(block_sandwich(scale, debiased), size)
    values, vectors = np.linalg.eigh(own)
    usable = values[:, 0] > _LEAST_OWN
    root = (vectors / np.sqrt(np.maximum(values, _LEAST_OWN))[:, None]) @ vectors.transpose(0, 2, 1)
    return np.where(usable[:, None, None], root @ scale, scale)


def _block_test(noisy: NoisyCovariance, found: BlockInference) -> FloatArray:
    """P(at least as large) for a block as large as what a path through a third column leaves, in no one direction.

    A column of few values has features that depend on each other, and directions without error are no evidence: they
    are left out, and the degrees of freedom are those that remain.
    """
    from scipy.stats import ncx2

    margin = _LEFTOVER * _best_path(noisy)[np.triu_indices(len(noisy.names), 1)]
    if noisy.groups:  # only an ordered column between two categorical ones leaves anything
        return level_test(noisy, found, np.where(pair_kinds(noisy) > 1, margin, 0.0))
    variances, axes = np.linalg.eigh(found.covariances)
    alive = variances > _DEAD * variances[:, -1:]
    weights = np.where(alive, 1.0 / np.where(alive, variances, 1.0), 0.0)
    statistic = np.sum(np.einsum("pab,pa->pb", axes, found.entries) ** 2 * weights, axis=1)
    degrees = alive.sum(axis=1)
    shift = margin**2 * weights.sum(axis=1) / degrees
    central = chdtrc(degrees, statistic)
    shifted = ncx2.sf(statistic, degrees, np.maximum(shift, 1e-9))
    return np.asarray(np.where(shift > 1e-9, np.maximum(shifted, central), central))


def _best_path(noisy: NoisyCovariance) -> FloatArray:
    """The largest product of two columns' dependence on a third, |S_ik|_F |S_kj|_F with the noise's part taken off."""
    squares = np.square(block_norms(noisy.covariance, noisy.size)) - np.square(noisy.block_sd())
    strength = np.sqrt(np.clip(squares, 0.0, 1.0))
    np.fill_diagonal(strength, 0.0)
    through = np.array([not noisy.groups or one is None for one in noisy.groups or noisy.names])
    return np.array([np.max(row * strength * through, axis=1) for row in strength])
