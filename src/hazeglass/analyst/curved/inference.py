"""Is there a direct dependence of any shape between two columns? A p-value for every pair of blocks.

T is a precision of the whitened features, sparse by blocks; T_d = 2T - T S T has its first-order bias removed. With
D = diag(T_ii^-1/2) the block R_ij = -(D T_d D)_ij is, up to second order, Gaussian about the partial correlations of
the two columns' features, with a covariance C that both noises make. Then vec(R)^T C^-1 vec(R) is chi-square with K^2
degrees of freedom if the block is zero.

Between columns that depend on each other only through a third, the block is zero only as far as three features describe
the third column's part in it. What they leave is a share of the product of the two dependences that led there, so the
test asks whether the block is larger than that: a non-central chi-square (docs/maths/curved.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from hazeglass.analyst.curved.blocks import FeatureBlocks
from hazeglass.analyst.curved.ridge import block_scale
from hazeglass.analyst.inference import PairInference, pair_inference
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import block_norms

__all__ = ["LEFTOVER", "CurvedInference", "infer_blocks"]

# What three features of the column between leave of a path, as a share of the product of its two dependences.
LEFTOVER = 0.45
_DEAD = 1e-6  # relative variance below which a direction of a block carries no information


@dataclass(frozen=True, eq=False)
class CurvedInference:
    """One value per pair i < j, in the order of numpy.triu_indices.

    blocks       R_ij, shape (pairs, K, K)
    covariances  of the entries of R_ij, row by row
    scale        block diagonal T_ii^-1/2, which turns whitened features into the coordinates of R
    linear       the part of R that is a partial correlation of the columns themselves, with error bars; its p- and
                 q-values are those of the whole block
    curved       whether the linear part is less than half of the block
    """

    blocks: FloatArray
    covariances: FloatArray
    scale: FloatArray
    statistic: FloatArray
    linear: PairInference
    curved: npt.NDArray[np.bool_]


def infer_blocks(
    blocks: FeatureBlocks, precision: FloatArray, *, leftover: float = LEFTOVER, level: float = 0.95
) -> CurvedInference:
    """Inference for every pair of columns at the given precision of the whitened features."""
    size, p = blocks.size, len(blocks.names)
    scale = block_scale(precision, size)
    debiased = 2 * precision - precision @ blocks.covariance @ precision
    i, j = np.triu_indices(p, 1)
    found = -(scale @ debiased @ scale).reshape(p, size, p, size)[i, :, j, :]
    covariances = blocks.error.carried(scale @ precision).block_covariances(size)
    entries = found.reshape(len(i), size * size)
    statistic, p_value = _test(entries, covariances, leftover * _best_path(blocks)[i, j])
    directions = linear_directions(blocks.whitener, scale, size)
    both = np.einsum("pa,pb->pab", directions[i], directions[j]).reshape(len(i), -1)
    estimate = np.einsum("pa,pa->p", both, entries)
    variance = np.einsum("pa,pab,pb->p", both, covariances, both)
    linear = pair_inference(estimate, np.sqrt(variance), p_value, level)
    curved = _is_curved(found, covariances, directions[i], directions[j])
    return CurvedInference(found, covariances, scale, statistic, linear, curved)


def linear_directions(whitener: FloatArray, scale: FloatArray, size: int) -> FloatArray:
    """Unit vectors of the columns themselves in the coordinates of R, shape (p, K)."""
    p = len(whitener) // size
    directions = np.empty((p, size))
    for k in range(p):
        span = slice(k * size, (k + 1) * size)
        unwhitened = np.linalg.solve(whitener[span, span], np.eye(size))[0]
        direction = scale[span, span] @ unwhitened
        directions[k] = direction / np.linalg.norm(direction)
    return directions


def _is_curved(
    blocks: FloatArray, covariances: FloatArray, left: FloatArray, right: FloatArray
) -> npt.NDArray[np.bool_]:
    """Whether the linear part is the smaller one of what either column's mean owes to the other.

    With unit vectors a, b of the columns themselves, |R b|^2 is what the features of one explain of the other's mean
    and (a R b)^2 what the column itself explains. Dependence may also be in the spread alone, which neither shows: a
    linear Gaussian dependence has a third of |R|_F^2 or more in its linear part, so less than a quarter counts as
    curved. Squares of noise are taken off throughout.
    """
    pairs, size = len(blocks), blocks.shape[1]
    noise = covariances.reshape(pairs, size, size, size, size)
    onto_right = np.einsum("pab,pb->pa", blocks, right)
    onto_left = np.einsum("pab,pa->pb", blocks, left)
    noise_right = np.einsum("pabad,pb,pd->p", noise, right, right)
    noise_left = np.einsum("pabcb,pa,pc->p", noise, left, left)
    linear = np.einsum("pa,pa->p", left, onto_right) ** 2
    linear = np.maximum(linear - np.einsum("pabcd,pa,pb,pc,pd->p", noise, left, right, left, right), 0.0)
    means = np.maximum(np.square(onto_right).sum(axis=1) - noise_right, np.square(onto_left).sum(axis=1) - noise_left)
    total = np.square(blocks).sum(axis=(1, 2)) - np.einsum("pabab->p", noise)
    return np.asarray((linear <= means / 2) | (linear <= total / 4))


def _best_path(blocks: FeatureBlocks) -> FloatArray:
    """The largest product of two columns' dependence on a third, |S_ik|_F |S_kj|_F with the noise's part taken off."""
    squares = np.square(block_norms(blocks.covariance, blocks.size)) - np.square(blocks.block_sd())
    strength = np.sqrt(np.clip(squares, 0.0, 1.0))
    np.fill_diagonal(strength, 0.0)
    return np.array([np.max(row * strength, axis=1) for row in strength])


def _test(entries: FloatArray, covariances: FloatArray, margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The statistic of every block, and P(at least as large) for a block of size `margin` in no particular direction.

    A column of few values has features that depend on each other, and directions without error are no evidence: they
    are left out, and the degrees of freedom are those that remain.
    """
    from scipy.stats import ncx2

    variances, axes = np.linalg.eigh(covariances)
    alive = variances > _DEAD * variances[:, -1:]
    weights = np.where(alive, 1.0 / np.where(alive, variances, 1.0), 0.0)
    statistic = np.sum(np.einsum("pab,pa->pb", axes, entries) ** 2 * weights, axis=1)
    degrees = alive.sum(axis=1)
    shift = margin**2 * weights.sum(axis=1) / degrees
    central = chdtrc(degrees, statistic)
    shifted = ncx2.sf(statistic, degrees, np.maximum(shift, 1e-9))
    return statistic, np.asarray(np.where(shift > 1e-9, np.maximum(shifted, central), central))
