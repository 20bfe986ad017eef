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

from hazeglass.analyst.covariance import NoisyCovariance
from hazeglass.analyst.error_model import block_multiply, block_sandwich
from hazeglass.analyst.penalty import Problem
from hazeglass.analyst.select import Refit
from hazeglass.analyst.shape import BlockInference, block_scale
from hazeglass.errors import SolverInputError
from hazeglass.glasso import Solution
from hazeglass.glasso.distance import psd_distance
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import block_norms

_HEAVIEST, _LIGHTEST = 3.0, 0.1  # penalties of the pilot, in standard deviations of an entry
_STEADIER = 2.0
_CROWDED = 0.2  # relative error of the precision, squared, from which the heaviest is right
# What three features of the column between leave of a path, as a share of the product of its two dependences.
_LEFTOVER = 0.45
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


def pilot(noisy: NoisyCovariance, problem: Problem, chosen: Solution | None = None) -> Solution:
    """The precision that error bars are built on, solved as `problem` is.

    De-biasing leaves an error of second order: in the noise where the penalty is light, in the penalty where it is
    heavy. The relative error of the precision says which of the two to fear. The diagonal pays nothing, because
    variances that are shrunk bias every edge. Larger blocks are refitted on the graph of `chosen`.
    """
    if noisy.size > 1 and chosen is not None:
        found = Refit(noisy, problem).fit(problem.support(chosen))
        if found is None:  # pragma: no cover (above d(S) every graph has an estimate)
            raise SolverInputError("no estimate was found on the chosen graph. Pass a larger alpha.")
        return found
    free = _unshrunk(noisy, problem)
    heavy = _pilot_at(noisy, _HEAVIEST, free)
    upper = np.triu_indices(len(noisy.names), 1)
    error = noisy.error.partial_correlation_sd(heavy.precision)[upper]
    penalty = _HEAVIEST * math.sqrt(len(noisy.names) * float(np.mean(error**2)) / _CROWDED)
    return heavy if penalty >= _HEAVIEST else _pilot_at(noisy, max(_LIGHTEST, penalty), free)


def _pilot_at(noisy: NoisyCovariance, deviations: float, free: Problem) -> Solution:
    """Every entry pays so many of its standard deviations, or more where an indefinite covariance needs it."""
    movable = free.weights * ~np.eye(len(noisy.names), dtype=bool)
    deviation = noisy.block_sd()[movable > 0] / movable[movable > 0]
    alpha = deviations * float(deviation.mean())
    while psd_distance(noisy.covariance, movable, threshold=alpha).upper >= alpha:
        alpha *= 1.5
    return free.fit(alpha)


def _unshrunk(noisy: NoisyCovariance, problem: Problem) -> Problem:
    return Problem.of(noisy, penalize_diagonal=False, solver=problem.solver, device=problem.device)


def evidence(noisy: NoisyCovariance, base: Solution, problem: Problem) -> FloatArray:
    """A score by which to rank the pairs i < j: z-scores of the de-biased estimate, at twice the pilot's penalty.

    Error bars need little bias, a ranking little variance. The noisier the release, the closer this comes to the
    z-scores of plain correlations, which rank best when little can be told (docs/evidence/recovery.md).
    """
    steady = infer(noisy, _unshrunk(noisy, problem).fit(_STEADIER * base.alpha, base).precision)
    return np.abs(steady.partial_correlation) / steady.std_error


def infer(noisy: NoisyCovariance, precision: FloatArray) -> PairInference:
    """Every pair of columns at the given precision: 95 % intervals that never leave [-1, 1], and q-values."""
    from scipy.stats import false_discovery_control

    debiased = 2 * precision - precision @ noisy.covariance @ precision
    block = None
    if noisy.size == 1:
        # The de-biased diagonal may lose positivity under heavy noise; the penalised one cannot.
        diagonal = np.where(np.diag(debiased) > 0, np.diag(debiased), np.diag(precision))
        upper = np.triu_indices(len(precision), 1)
        estimate = -(debiased / np.sqrt(np.outer(diagonal, diagonal)))[upper]
        error = noisy.error.partial_correlation_sd(precision)[upper]
        p_value = 2 * ndtr(-np.abs(estimate) / error)
    else:
        block = _blocks(noisy, precision, debiased)
        estimate, error = block.linear_part()
        p_value = _block_test(noisy, block)
    half = float(ndtri(0.975)) * error
    return PairInference(
        np.clip(estimate, -1.0, 1.0),
        error,
        np.clip(estimate - half, -1.0, 1.0),
        np.clip(estimate + half, -1.0, 1.0),
        p_value,
        false_discovery_control(p_value),
        block,
    )


def _blocks(noisy: NoisyCovariance, precision: FloatArray, debiased: FloatArray) -> BlockInference:
    size, p = noisy.size, len(noisy.names)
    scale = block_scale(precision, size)
    i, j = np.triu_indices(p, 1)
    found = -block_sandwich(scale, debiased).reshape(p, size, p, size)[i, :, j, :]
    covariances = noisy.error.block_covariances(block_multiply(scale, precision), size)
    themselves = np.linalg.inv(noisy.whitening)[:, 0]
    return BlockInference(found, covariances, scale, np.einsum("pab,pb->pa", scale, themselves))


def _block_test(noisy: NoisyCovariance, found: BlockInference) -> FloatArray:
    """P(at least as large) for a block as large as what a path through a third column leaves, in no one direction.

    A column of few values has features that depend on each other, and directions without error are no evidence: they
    are left out, and the degrees of freedom are those that remain.
    """
    from scipy.stats import ncx2

    margin = _LEFTOVER * _best_path(noisy)[np.triu_indices(len(noisy.names), 1)]
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
    return np.array([np.max(row * strength, axis=1) for row in strength])
