"""Many columns: how clipping shortened the rows of a stage, and the covariance they had before.

Rows of many columns are all about equally long, so that clipping takes the same share of nearly every direction. The
few that make up much of a row's length lose another share: those are found one by one (docs/maths/many-columns.md).
This file needs NumPy alone, or torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hazeglass._arrays import Array, FloatArray, leading, on, set_diagonal, strips, to_host
from hazeglass.analyst.pooling import StageMoments

_LEADING, _ROUGHLY = 12, 0.02  # directions that are undone one by one, and the error of their moments
_NODES, _REACH = 401, 8.0  # of the integral over lengths
_ALONE = 21  # of that over one direction
_STEPS, _ARRIVED = 200, 1e-10
_PROBES, _SEED = 128, 20_241_118  # vectors of random signs that tell a trace


@dataclass(frozen=True, eq=False)
class Lengths:
    """How clipping shortened the rows of a stage.

    kept          share of a second moment that it leaves of most directions
    values        second moments of the leading directions as they were, `narrow` as they are; `axes` the directions
    squares       E[min(1, r^2/|x|^2)^2] / kept^2: how much more products of clipped rows vary
    mean_kept     share of a mean that it leaves
    clipped       share of the rows that were longer than the radius
    """

    kept: float
    values: FloatArray
    narrow: FloatArray
    axes: Array
    squares: float
    mean_kept: float
    clipped: float


def lengths(stage: StageMoments, known: float | None = None) -> Lengths | None:
    """From released moments alone; None where they do not tell, because nearly all rows were clipped.

    Those rows still say all about directions. Where their mean squared length is `known`, by other stages, it is taken.
    """
    second, p = stage.second, len(stage.mean)
    trace = float(second.diagonal().sum())
    if stage.radius is None:
        nothing = np.zeros(0)
        return Lengths(1.0, nothing, nothing, second[:, :0], 1.0, 1.0, 0.0)
    if known is None and trace >= stage.radius**2:
        return None
    narrow, axes = leading(second, min(_LEADING, p // 4), _ROUGHLY)
    found = np.flatnonzero(narrow > 0)
    narrow, axes = narrow[found], axes[:, found.tolist()]
    squared = float((second * second).sum()) - p * (p + 1) * stage.noise_sd**2
    rest, rest_squared = trace - narrow.sum(), squared - np.square(narrow).sum()
    if rest <= 0:
        return None
    total, values, kept = known or trace, narrow.copy(), 1.0
    for _ in range(_STEPS):
        other = total - values.sum()
        spread = 2 * max(rest_squared / kept**2, other**2 / p)
        shrink, weight = shortened(other + values.sum(), spread + 2 * np.square(values).sum(), stage.radius)
        own = np.array([_alone(value, total, spread + 2 * np.square(values).sum(), stage.radius) for value in values])
        # The clipped length that rows so long would have: it is what is to be found where the length is not known.
        whole = float(weight @ shrink[1]) if known is None else trace
        kept = (whole - float(own @ values)) / other
        if not (kept > 1e-3 and np.all(own > 1e-3)):
            return None
        after = narrow / own
        moved = rest / kept + after.sum() if known is None else known
        done = abs(moved - total) <= _ARRIVED * total and bool(np.all(np.abs(after - values) <= _ARRIVED * total))
        total, values = moved, after
        if done:
            shares = weight @ shrink[0] ** 2, weight @ np.sqrt(shrink[0]), weight @ (shrink[0] < 1)
            return Lengths(kept, values, narrow, axes, float(shares[0]) / kept**2, float(shares[1]), float(shares[2]))
    return None


def shortened(length: float, variance: float, radius: float) -> tuple[FloatArray, FloatArray]:
    """min(1, r^2/q) and min(q, r^2) at nodes of the squared length q, a multiple of a chi-square; and their weights."""
    z = np.linspace(-_REACH, _REACH, _NODES)
    weight = np.exp(-np.square(z) / 2)
    part = variance / (9 * length**2)  # Wilson and Hilferty: the cube root of a chi-square is nearly normal
    nodes = length * np.maximum(1 - part + z * math.sqrt(part), 1e-6) ** 3
    weight /= weight.sum()
    nodes *= length / float(weight @ nodes)
    return np.stack([np.minimum(1, radius**2 / nodes), np.minimum(nodes, radius**2)]), weight


def _alone(value: float, length: float, variance: float, radius: float) -> float:
    """E[min(1, r^2/|x|^2) g^2] for a direction x = sqrt(value) g whose share in the length is its own."""
    g = np.linspace(-6, 6, _ALONE)
    weight = np.exp(-np.square(g) / 2) * g**2
    rest = max(length - value, 1e-3 * length)
    base = shortened(rest, max(variance - 2 * value**2, 2 * rest**2 / 1e9), math.inf)
    nodes, spread = base[0][1], base[1]
    lengths_there = nodes[None, :] + value * g[:, None] ** 2
    kept = np.minimum(1, radius**2 / lengths_there) @ spread
    return float(weight @ kept / weight.sum())


def length_by(stage: StageMoments, first: tuple[StageMoments, Lengths | None] | None, n: int) -> float:
    """The mean squared length of a stage's rows before they were clipped, by a stage that tells.

    The trace of a product of matrices, by vectors of random signs. Where no stage tells, scores have variance 1.
    """
    p = len(stage.mean)
    signs = on(stage.second, np.random.default_rng(_SEED).choice([-1.0, 1.0], (p, _PROBES)))
    seen = signs if stage.map is None else stage.map @ signs
    if first is None or first[1] is None or first[0].map is not None:
        return float((seen**2).sum()) / _PROBES
    S = covariance_of_stage(first[0], first[1], n)
    mean = to_host(stage.mean)
    return float((seen * (S @ seen)).sum()) / _PROBES + float(mean @ mean)


def covariance_of_stage(stage: StageMoments, found: Lengths, n: int) -> Array:
    """Of the rows before they were clipped, in the stage's own coordinates."""
    S = stage.second / found.kept
    if found.values.size:
        S += (found.axes * on(S, found.values - found.narrow / found.kept)) @ found.axes.T
    mean = on(S, to_host(stage.mean)) / found.mean_kept
    for rows in strips(S):
        S[rows] -= mean[rows, None] * mean[None, :]
    set_diagonal(S, S.diagonal() + (stage.mean_noise_sd / found.mean_kept) ** 2)
    S *= n / (n - 1)
    return S
