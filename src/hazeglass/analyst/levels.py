"""What a block says where a column is categorical: is it more than noise, how strong is it, which levels go together.

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
from typing import Any

import numpy as np
from scipy.special import chdtrc, ndtr

from hazeglass.analyst.error_model import own_blocks
from hazeglass.analyst.noisy import LevelGroups, NoisyCovariance
from hazeglass.analyst.shape import BlockInference
from hazeglass.glasso.linalg import FloatArray

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


def ordered_pairs(
    noisy: NoisyCovariance, precision: FloatArray, debiased: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Partial correlation, standard error and p-value of every pair by the columns' first features alone.

    They are those of the columns themselves where both ends are ordered, and nothing where one is not.
    """
    size = noisy.size
    first = np.arange(len(noisy.names)) * size
    diagonal = np.where(np.diag(debiased) > 0, np.diag(debiased), np.diag(precision))[first]
    upper = np.triu_indices(len(first), 1)
    estimate = -(debiased[np.ix_(first, first)] / np.sqrt(np.outer(diagonal, diagonal)))[upper]
    error = noisy.error.partial_correlation_sd(precision)[np.ix_(first, first)][upper]
    return estimate, error, 2 * ndtr(-np.abs(estimate) / np.maximum(error, np.finfo(float).tiny))
