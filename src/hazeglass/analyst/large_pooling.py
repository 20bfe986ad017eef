"""Many columns: clipping undone and stages pooled by matrix products, where each column alone hardly counts.

Rows of many columns are all about equally long, so that clipping takes the same share of nearly every direction. Only
the few directions that make up much of a row's length lose another share: those are found one by one (Lanczos), and
the rest are stretched alike. No stage needs its eigenvectors, noise stays isotropic in the coordinates of its stage,
and all of it is products of matrices, on the CPU or on a device (`_arrays.py`). What this leaves out is of the order of
a direction's own share in the length of a row; docs/maths/many-columns.md says how large that is.

This file needs NumPy alone, or torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hazeglass._arrays import (
    Array,
    FloatArray,
    eigh,
    general_inverse,
    largest,
    leading,
    on,
    roughly,
    sandwich,
    set_diagonal,
    strips,
    symmetric,
    to_host,
    triangle_of,
)
from hazeglass.analyst.large import Estimate, added, random_signs
from hazeglass.analyst.pooling import StageMoments, is_loud
from hazeglass.features.clipping import LEAST_NOISE, UNDOING

_ALONG, _ROUGHLY = 12, 0.02  # directions that are undone one by one, and the error of their moments
_NODES, _REACH = 401, 8.0  # of the integral over lengths
_ALONE = 21  # of that over one direction
_STEPS, _ARRIVED = 200, 1e-10
_LEADING = 12  # products of errors
_FADED = 1e-5  # relative: a product of errors below that changes no digit that is shown
_DRAWS, _SEED, _MOST_ROWS = 2, 20_241_118, 100


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
    narrow, axes = leading(second, min(_ALONG, p // 4), _ROUGHLY)
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
    signs = random_signs(stage.second)
    probes: int = signs.shape[1]
    seen = signs if stage.map is None else stage.map @ signs
    if first is None or first[1] is None or first[0].map is not None:
        return float((seen**2).sum()) / probes
    S = covariance_of_stage(first[0], first[1], n)
    mean = to_host(stage.mean)
    return float((seen * (S @ seen)).sum()) / probes + float(mean @ mean)


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


# ------------------------------------------------------------------------------------------- several stages together


def pool_many(stages: Sequence[StageMoments], n: int) -> tuple[Estimate, bool]:
    """All stages undone, and averaged entry by entry where the last one's rows are uncorrelated (pooling.py).

    Stages without a map, all of them, are averaged as they are. And whether clipping could be undone at all: where not,
    the covariance is that of clipped rows.
    """
    known = [(stage, lengths(stage)) for stage in stages]
    first = next((both for both in known if both[1] is not None), None)
    known = [(stage, found or lengths(stage, length_by(stage, first, n))) for stage, found in known]
    told = [(stage, found) for stage, found in known if found is not None]
    undone = known[-1][1] is not None or (bool(told) and is_loud(stages[-1]))
    if not undone:
        last = stages[-1]
        told = [(last, Lengths(1.0, np.zeros(0), np.zeros(0), last.second[:, :0], 1.0, 1.0, 1.0))]
    if all(stage.map is None for stage, _ in told):
        return _alike(told, n), undone
    return _shaped(told, n), undone


def _noise(stage: StageMoments, found: Lengths) -> float:
    """Variance of an entry off the diagonal, in the stage's own coordinates."""
    own = (stage.noise_sd / found.kept) ** 2
    mean, sd = to_host(stage.mean), stage.mean_noise_sd / found.mean_kept
    product = 2 * sd**2 * float(mean @ mean) / len(mean) - sd**4
    return own + max(product, 0.0) + LEAST_NOISE


def _alike(told: list[tuple[StageMoments, Lengths]], n: int) -> Estimate:
    """Stages that saw rows as they are: their noise is the same for all entries."""
    noise = np.array([_noise(*one) for one in told])
    common = min(found.squares for _, found in told)
    extra = np.array([(found.squares - common) / n for _, found in told])
    p, S, scale = len(told[-1][0].mean), None, np.ones(len(told))
    own = covariance_of_stage(*told[-1], n).diagonal()
    doubt = noise + extra + UNDOING**2
    weights = 1 / doubt / np.sum(1 / doubt)
    statistic, length = 0.0, 0.0
    for k, one in enumerate(told):
        value = covariance_of_stage(*one, n)
        scale[k] = _scale(value.diagonal(), own, 2 * noise[k], 2 * noise[-1])
        value *= scale[k]
        statistic += float((value * value).sum()) / doubt[k]
        value *= weights[k]
        S = value if S is None else added(S, value)
    assert S is not None
    noise = noise * scale**2
    statistic -= float((S * S).sum()) * float(np.sum(1 / doubt))
    length = float(np.sum(weights**2 * noise))
    apart = float(np.sum(weights**2 * extra))
    S = symmetric(S)
    return Estimate(
        n,
        S,
        (length, common / n + apart),
        (on(S, np.ones(p)), S),
        distrust=(statistic / 2, (len(told) - 1) * (p * (p + 1) // 2 - 1)),
        share_clipped=told[-1][1].clipped,
    )


def _scale(own: Array, last: Array, noise: Array | float, noise_last: Array | float) -> float:
    """What to multiply a stage by: :func:`clipping.stage_scales` of one stage, from its diagonal."""
    weight = 1 / (noise + noise_last)
    square = float((weight * own**2).sum())
    clean = square - float((weight * noise * (0 * own + 1)).sum())
    if clean <= square / 2:
        return 1.0
    return float(np.clip(float((weight * own * last).sum()) / clean, 0.5, 2.0))


def _shaped(told: list[tuple[StageMoments, Lengths]], n: int) -> Estimate:
    """Stages that saw rows in coordinates of their own: averaged where the last one's covariance is diagonal."""
    last, found = told[-1]
    inner = symmetric(covariance_of_stage(last, found, n))
    rows, vectors = eigh(inner)
    del inner
    back = vectors.T if last.map is None else vectors.T @ last.map
    common = min(one.squares for _, one in told)
    sampled = largest(rows, 0.0)
    total: Array = None
    value_sum: Array = None
    noise_sum: Array = None
    statistic, weighed = 0.0, []
    own_noise = _noise(last, found)
    for stage, one in reversed(told):
        forth = back if stage.map is None else back @ general_inverse(stage.map)
        value = sandwich(forth, covariance_of_stage(stage, one, n))
        noise = forth @ forth.T
        own = noise.diagonal() * 1.0
        noise *= noise
        extra = (one.squares - common) / n
        across = _noise(stage, one)
        for part in strips(noise):
            noise[part] += own[part, None] * own[None, :]
            noise[part] *= across
        scale = 1.0 if stage is last else _scale(value.diagonal(), rows, noise.diagonal(), 2 * own_noise)
        value *= scale
        noise *= scale**2
        doubt, length = noise * 1.0, abs(value.diagonal())
        for part in strips(doubt):
            noise[part] += extra * sampled[part, None] * sampled[None, :]
            doubt[part] = noise[part] + UNDOING**2 * length[part, None] * length[None, :]
        set_diagonal(noise, noise.diagonal() + extra * sampled**2)
        statistic += sum(float((value[part] ** 2 / doubt[part]).sum()) for part in strips(doubt))
        noise /= doubt
        noise /= doubt
        value /= doubt
        weight = 1 / doubt
        del doubt
        weighed.append((roughly(forth), across * scale**2, roughly(weight)))
        del forth
        total = weight if total is None else added(total, weight)
        value_sum = value if value_sum is None else added(value_sum, value)
        noise_sum = noise if noise_sum is None else added(noise_sum, noise)
        del value, noise, weight
    middle = value_sum / total
    statistic -= float((middle * middle * total).sum())
    apart = noise_sum / total / total
    set_diagonal(apart, apart.diagonal() / 2)  # a part's own variances are twice the products of its factors
    apart *= _inflation(weighed, back, total, apart)
    del value_sum, noise_sum
    values, axes = leading(apart, _LEADING)
    sizes = np.abs(values)
    kept = np.flatnonzero(sizes > max(_FADED * sizes[0], min(4 * sizes[-1], 0.1 * sizes[0])))
    if kept.size == 0:
        kept = np.array([0])
    basis = general_inverse(back)
    p = len(middle)
    return Estimate(
        n,
        sandwich(basis, middle),
        (*values[kept].tolist(), common / n),
        (*(axes[:, k] for k in kept.tolist()), sampled),
        basis,
        middle,
        back,
        len(kept),
        (statistic / 2, (len(told) - 1) * (p * (p + 1) // 2 - 1)),
        found.clipped,
    )


def _inflation(weighed: list[tuple[Array, float, Array]], back: Array, total: Array, apart: Array) -> float:
    """By how much noise varies more in what is inverted than entries that were independent would make it.

    As in :func:`pooling.inflation`; the weights of a stage are smooth, so that a few of their own products will do, and
    the noise of a stage is drawn where it is isotropic: the same in every orthonormal basis, so that it is drawn for
    the directions that are looked at and no others.
    """
    if len(weighed) == 1:
        return 1.0
    p = len(back)
    some = np.unique(np.linspace(0, p - 1, min(p, _MOST_ROWS)).astype(np.intp)).tolist()
    loads = back.T[some]
    loads = loads / ((loads**2).sum(1) ** 0.5)[:, None]
    rng = np.random.default_rng(_SEED)
    upper = np.triu_indices(len(some), 1)
    drawn = np.zeros(len(upper[0]))
    stages = []
    for forth, noise, weight in weighed:
        values, axes = leading(weight / total, _LEADING)
        seen = [roughly(loads * axes[:, k]) @ forth for k in range(len(values))]
        stages.append((math.sqrt(noise) * values, to_host(triangle_of(seen)).reshape(-1, len(values), len(some))))
    for _ in range(_DRAWS):
        whole = np.zeros((len(some), len(some)))
        for values, seen in stages:
            E = rng.standard_normal((len(seen), len(seen)))
            E = (E + E.T) / math.sqrt(2)  # variance 1, 2 on the diagonal
            for k, value in enumerate(values):
                whole += value * (seen[:, k].T @ E @ seen[:, k])
        drawn += whole[upper] ** 2
    squares = loads**2
    crossed = to_host(squares @ apart @ squares.T)[upper]
    one, other = loads[upper[0].tolist()], loads[upper[1].tolist()]
    both = one * other
    twice = to_host(((both @ apart) * both).sum(1))
    return max(1.0, float(np.mean(drawn / _DRAWS / (crossed + twice))))
