"""What a block of several features says of two columns: how strongly they are tied, whether by a line, by which curve.

Strength is a ridge score, linear or not:

    T = (S+ + r I)^-1,     strength_ij = | T_ii^-1/2 T_ij T_jj^-1/2 |_F

S+ is the whitened covariance without its negative eigenvalues. The ridge r is 1/2 and the size that the error of S has
as an operator, 2 sqrt(q) times the standard deviation of an entry (the edge of Wigner's semicircle): directions with a
smaller eigenvalue cannot be told from noise. Three functions of a column do not hold all of it, so that what it
carries between two others is not all taken away given them; 1/2 keeps such remains from ranking high.

The shape is how one column moves on average with another, the rest held fixed. Regressing column j on the features of
all other columns, the part of column i is a curve g(x) = sum_a c_a f_a(x). It comes from the pair's block of the
de-biased precision, so its error band comes from the block's covariance. Derivations: docs/maths/curved.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hazeglass.analyst.error_model import block_sandwich, own_blocks
from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.features.harmonics import cosines, to_features
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import block_norms

# Chosen on cell signalling among 0 to 1 and the noise's own multiples; forests and graphs of Gaussian rows rank about
# the same, strong trees by average precision .95 for .99 (docs/maths/curved.md).
_STEADY = 0.5
_REACH, _POINTS = 2.0, 21  # standard deviations of x that most rows lie within


def strength_ridge(noisy: NoisyCovariance) -> float:
    """The operator norm that sampling and privacy noise give a symmetric matrix of this size, and a half."""
    return _STEADY + 2 * math.sqrt(len(noisy.covariance) * noisy.typical_variance())


def ridge_strength(noisy: NoisyCovariance) -> FloatArray:
    """Strength of every pair of columns, with a zero diagonal."""
    values, vectors = np.linalg.eigh(noisy.covariance)
    precision = (vectors / (np.maximum(values, 0.0) + strength_ridge(noisy))) @ vectors.T
    strength = block_norms(block_sandwich(block_scale(precision, noisy.size), precision), noisy.size)
    np.fill_diagonal(strength, 0.0)
    return strength


def block_scale(precision: FloatArray, size: int) -> FloatArray:
    """T_ii^-1/2 of every column, shape (p, size, size)."""
    values, vectors = np.linalg.eigh(own_blocks(precision, size))
    return np.asarray((vectors / np.sqrt(values)[:, None]) @ vectors.transpose(0, 2, 1))


@dataclass(frozen=True, eq=False)
class BlockInference:
    """Blocks of partial correlations of features, one per pair i < j in the order of numpy.triu_indices.

    blocks       R_ij, shape (pairs, K, K)
    covariances  of the entries of R_ij, row by row
    scale        T_ii^-1/2 of every column, which turns whitened features into the coordinates of R
    themselves   the columns themselves in the coordinates of R, shape (p, K)
    """

    blocks: FloatArray
    covariances: FloatArray
    scale: FloatArray
    themselves: FloatArray

    @property
    def entries(self) -> FloatArray:
        """Every block as one row."""
        return self.blocks.reshape(len(self.blocks), -1)

    @cached_property
    def directions(self) -> tuple[FloatArray, FloatArray]:
        """Unit vectors of the columns themselves, for both ends of every pair."""
        units = self.themselves / np.linalg.norm(self.themselves, axis=1)[:, None]
        i, j = np.triu_indices(len(units), 1)
        return units[i], units[j]

    def linear_part(self) -> tuple[FloatArray, FloatArray]:
        """The partial correlations of the columns themselves, and their standard errors."""
        both = np.einsum("pa,pb->pab", *self.directions).reshape(len(self.blocks), -1)
        variance = np.einsum("pa,pab,pb->p", both, self.covariances, both)
        return np.einsum("pa,pa->p", both, self.entries), np.sqrt(variance)

    @cached_property
    def curved(self) -> npt.NDArray[np.bool_]:
        """Whether the linear part is the smaller one of what either column's mean owes to the other.

        With unit vectors a, b of the columns themselves, |R b|^2 is what the features of one explain of the other's
        mean and (a R b)^2 what the column itself explains. Dependence may also be in the spread alone, which neither
        shows: a linear Gaussian dependence has a third of |R|_F^2 or more in its linear part, so less than a quarter
        counts as curved. Squares of noise are taken off throughout.
        """
        left, right = self.directions
        pairs, size, _ = self.blocks.shape
        noise = self.covariances.reshape(pairs, size, size, size, size)
        onto_right = np.einsum("pab,pb->pa", self.blocks, right)
        onto_left = np.einsum("pab,pa->pb", self.blocks, left)
        by_right = np.square(onto_right).sum(axis=1) - np.einsum("pabad,pb,pd->p", noise, right, right)
        by_left = np.square(onto_left).sum(axis=1) - np.einsum("pabcb,pa,pc->p", noise, left, left)
        estimate, error = self.linear_part()
        linear = np.maximum(estimate**2 - error**2, 0.0)
        total = np.square(self.blocks).sum(axis=(1, 2)) - np.einsum("pabab->p", noise)
        return np.asarray((linear <= np.maximum(by_right, by_left) / 2) | (linear <= total / 4))


@dataclass(frozen=True, eq=False)
class Shape:
    """A curve with a 95 % band at every point; x and y in standard deviations about their means."""

    x_name: str
    y_name: str
    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """For fit.json: three decimals are finer than any band."""
        numbers = {key: getattr(self, key).round(3).tolist() for key in ("x", "y", "low", "high")}
        return {"x_name": self.x_name, "y_name": self.y_name, **numbers}


def shape_of(noisy: NoisyCovariance, found: BlockInference, i: int, j: int) -> Shape:
    """The curve of columns i < j, drawn in the direction that explains more."""
    pair = i * (2 * len(noisy.names) - i - 3) // 2 + j - 1  # its number in numpy.triu_indices
    block, covariance = found.blocks[pair], found.covariances[pair]
    left, right = (directions[pair] for directions in found.directions)
    x, y, pattern = i, j, "xa,b->xab"
    if np.linalg.norm(block @ right) < np.linalg.norm(block.T @ left):
        x, y, pattern = j, i, "xb,a->xab"
    grid = np.linspace(-_REACH, _REACH, _POINTS)
    loads = np.einsum(pattern, _features(noisy, found, x, grid), found.themselves[y]).reshape(_POINTS, -1)
    curve = loads @ block.ravel()
    half = float(ndtri(0.975)) * np.sqrt(np.einsum("xa,ab,xb->x", loads, covariance, loads))
    return Shape(noisy.names[x], noisy.names[y], grid, curve, curve - half, curve + half)


def _features(noisy: NoisyCovariance, found: BlockInference, column: int, x: FloatArray) -> FloatArray:
    """Rows of a column's centred features at the given values, in the coordinates of R."""
    features = cosines(x) if noisy.functions == "cosines" else to_features(x[:, None], "hermite")
    if noisy.mean is not None:
        features = features - noisy.mean.reshape(-1, noisy.size)[column]
    inverse = np.asarray(np.linalg.inv(found.scale[column]), dtype=np.float64)
    return np.asarray(features @ noisy.whitening[column].T @ inverse.T)
