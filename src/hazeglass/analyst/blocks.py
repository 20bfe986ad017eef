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

What a block says where a column is categorical: is it more than noise, how strong is it, which levels go together.

R_ij, the block of partial correlations of two columns' whitened features, does not depend on how levels are coded, only
its rotation does. With d_i and d_j features

    test      vec(R)^T C^-1 vec(R) is chi-square with d_i d_j degrees of freedom if the block is zero
    strength  sqrt((|R|_F^2 - tr C) / min(d_i, d_j)), the noise's part taken off: Cramer's V with all other columns held
              fixed, and the absolute partial correlation where both columns are ordered
    evidence  the same statistic of a ridge estimate, divided by sqrt(d_i d_j): what pairs are ranked by. The ridge is
              the size that the noise has as an operator in the coordinates it was drawn in

Indicators span all functions of their column, so that two columns which depend on each other through a categorical one
alone have a zero block. An ordered column between two categorical ones shows only its linear part, and what that leaves
is not taken for an edge (docs/maths/levels.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, ndtri

from hazeglass.analyst.error_model import block_sandwich, own_blocks
from hazeglass.analyst.noisy import LevelGroups, NoisyCovariance
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


_LEAST_SHARE = 1e-3  # a conditional share below counts as that: odds stay finite
_MOST_TABLES = 60


def pair_kinds(noisy: NoisyCovariance) -> FloatArray:
    """How many ends of each pair i < j are categorical."""
    categorical = np.array([one is not None for one in noisy.groups], dtype=np.float64)
    i, j = np.triu_indices(len(noisy.names), 1)
    return np.asarray(categorical[i] + categorical[j])


def live_parts(noisy: NoisyCovariance, blocks: FloatArray, covariances: FloatArray) -> Iterator[tuple[FloatArray, ...]]:
    """Each pair's block and its covariance, without the features that fill blocks up."""
    size, live = noisy.size, noisy.live
    whole = covariances.reshape(len(blocks), size, size, size, size)
    for pair, (i, j) in enumerate(zip(*np.triu_indices(len(noisy.names), 1), strict=True)):
        a, b = int(live[i]), int(live[j])
        yield blocks[pair, :a, :b].ravel(), whole[pair, :a, :b, :a, :b].reshape(a * b, a * b)


def _statistic(entries: FloatArray, covariance: FloatArray) -> float:
    scale = 1 / np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    return float(entries * scale @ np.linalg.lstsq(covariance * np.outer(scale, scale), entries * scale, rcond=1e-9)[0])


def level_test(noisy: NoisyCovariance, found: BlockInference, margin: FloatArray) -> FloatArray:
    """P(at least as large) for a zero block, or one of the size `margin`, in no one direction."""
    from scipy.stats import ncx2

    p_values = np.ones(len(found.blocks))
    for pair, (entries, covariance) in enumerate(live_parts(noisy, found.blocks, found.covariances)):
        statistic, degrees = _statistic(entries, covariance), entries.size
        p_values[pair] = chdtrc(degrees, statistic)
        if margin[pair] > 0:
            shift = margin[pair] ** 2 * float(np.mean(1 / np.diag(covariance)))
            p_values[pair] = max(p_values[pair], float(ncx2.sf(statistic, degrees, max(shift, 1e-9))))
    return p_values


def strengths(noisy: NoisyCovariance, found: BlockInference, estimate: FloatArray, std_error: FloatArray) -> FloatArray:
    """Of every pair, between 0 and 1; `estimate` are the partial correlations where both ends are ordered."""
    live = noisy.live
    i, j = np.triu_indices(len(noisy.names), 1)
    parts = live_parts(noisy, found.blocks, found.covariances)
    squares = np.array([float(entries @ entries) - float(np.trace(covariance)) for entries, covariance in parts])
    squares = np.where(np.isnan(estimate), squares / np.minimum(live[i], live[j]), estimate**2 - std_error**2)
    return np.asarray(np.sqrt(np.clip(squares, 0.0, 1.0)))


def level_evidence(noisy: NoisyCovariance) -> FloatArray:
    """How strongly the release speaks for each pair i < j."""
    assert noisy.ridge is not None
    alive = np.flatnonzero(np.arange(len(noisy.covariance)) % noisy.size < np.repeat(noisy.live, noisy.size))
    here = np.ix_(alive, alive)
    values, vectors = np.linalg.eigh(noisy.ridge[here])
    root = (vectors * np.sqrt(np.maximum(values, 1e-12 * values[-1]))) @ vectors.T
    back = np.linalg.inv(root)
    inner, axes = np.linalg.eigh(back @ noisy.covariance[here] @ back)
    loads = back @ axes
    precision = np.eye(len(noisy.covariance))
    precision[here] = (loads / (np.maximum(inner, 0.0) + 1)) @ loads.T
    p, size = len(noisy.names), noisy.size
    i, j = np.triu_indices(p, 1)
    blocks = precision.reshape(p, size, p, size)[i, :, j, :]
    parts = live_parts(noisy, blocks, noisy.error.block_covariances(precision, size))
    return np.array([_statistic(entries, own) / math.sqrt(entries.size) for entries, own in parts])


# --------------------------------------------------------------------------------------------------- odds for people


def odds_tables(
    noisy: NoisyCovariance, debiased: FloatArray, levels: Sequence[Sequence[str]], pairs: Sequence[tuple[int, int]]
) -> list[dict[str, Any]]:
    """For the strongest edges with a categorical end, how the odds of its levels change, all other columns as usual."""
    own = own_blocks(debiased, noisy.size)
    chosen = [(i, j) if noisy.groups[j] is not None else (j, i) for i, j in pairs]
    return [_odds(noisy, debiased, own, levels, i, j) for i, j in chosen[:_MOST_TABLES]]


def _odds(
    noisy: NoisyCovariance, debiased: FloatArray, own: FloatArray, levels: Sequence[Sequence[str]], i: int, j: int
) -> dict[str, Any]:
    """Odds of every group of column j's levels beside what they are over all rows.

    Regressing the features of j on those of all others, i has the coefficients -T_jj^-1 T_ji. They move the features
    by what i's level differs from its mean, and with them the shares of j's levels.
    """
    size, target = noisy.size, noisy.groups[j]
    assert target is not None
    here, there = int(noisy.live[i]), int(noisy.live[j])
    block = debiased[j * size : j * size + there, i * size : i * size + here]
    slope = -np.linalg.solve(own[j][:there, :there], block)
    source = noisy.groups[i]
    if source is None:
        rows, places = ["one deviation lower", "one deviation higher"], np.array([[-1.0], [1.0]])
        if levels[i]:
            rows = [f"towards {levels[i][0]}", f"towards {levels[i][-1]}"]
    else:
        rows = labels(source, levels[i])
        places = (source.basis / np.sqrt(source.shares)).T
    # A feature's value f of j changes the share of each group by sqrt(share) B^T f.
    moved = target.shares + (places @ slope.T @ target.basis) * np.sqrt(target.shares)
    moved = np.clip(moved, _LEAST_SHARE, 1 - _LEAST_SHARE)
    usual = np.clip(target.shares / target.shares.sum(), _LEAST_SHARE, 1 - _LEAST_SHARE)
    ratio = moved / (1 - moved) / (usual / (1 - usual))
    return {
        "given": noisy.names[i],
        "of": noisy.names[j],
        "rows": rows,
        "columns": labels(target, levels[j]),
        "odds": [[float(f"{value:.3g}") for value in row] for row in ratio],
    }


def labels(groups: LevelGroups, levels: Sequence[str]) -> list[str]:
    """The names of the groups: a level's own, or those of several."""
    found = []
    for own in groups.members:
        names = [levels[k] if k < len(levels) else f"level {k + 1}" for k in own]
        more = f"{names[0]} and {len(names) - 1} other{'s' if len(names) > 2 else ''}"
        found.append(names[0] if len(names) == 1 else more)
    return found
