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
from dataclasses import dataclass, replace

import numpy as np

from hazeglass._arrays import (
    Array,
    FloatArray,
    diagonal_matrix,
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
from hazeglass.analyst.large_lengths import Lengths, covariance_of_stage, length_by, lengths
from hazeglass.analyst.pooling import StageMoments, is_loud
from hazeglass.features.clipping import LEAST_NOISE, UNDOING

_LEADING = 12  # products of errors
_FADED = 1e-5  # relative: a product of errors below that changes no digit that is shown
_DRAWS, _SEED, _MOST_ROWS = 2, 20_241_118, 100
_PROBES = 128  # of a trace


@dataclass(frozen=True, eq=False)
class Estimate:
    """A covariance of many columns, and its error as independent parts, each a covariance kernel w P (x) P.

    Var(a E b) = sum_r w_r [(a P_r a)(b P_r b) + (a P_r b)^2]. P_r is U diag(f_r) U^T where `factors` holds a vector
    f_r, and itself where it holds a matrix; `basis` is U, None for the identity.

    middle, back  the covariance and the columns in coordinates in which noise is nearly even: middle = back S back^T;
                  None where that is the covariance itself
    """

    n: int
    covariance: Array
    weights: tuple[float, ...]
    factors: tuple[Array, ...]
    basis: Array | None = None
    middle: Array | None = None
    back: Array | None = None
    noise: int = 1  # how many of the parts, the first ones, are noise and not sampling
    distrust: tuple[float, int] = (0.0, 0)
    share_clipped: float = 0.0

    def products(self, load: Array | None = None) -> list[tuple[float, Array]]:
        """Weights, and load P load^T of every part (None: of the columns themselves)."""
        seen = load if self.basis is None else (self.basis if load is None else load @ self.basis)
        found = []
        for weight, factor in zip(self.weights, self.factors, strict=True):
            if seen is None:
                own = factor if factor.ndim == 2 else diagonal_matrix(factor)
            else:
                own = seen @ factor @ seen.T if factor.ndim == 2 else (seen * factor) @ seen.T
            found.append((weight, own))
        return found

    def entry_variance(self) -> Array:
        """Of every entry of the covariance."""
        total = None
        for weight, P in self.products():
            own = P.diagonal()
            part = P * P
            for rows in strips(part):
                part[rows] += own[rows, None] * own[None, :]
            part *= weight
            total = part if total is None else _added(total, part)
        return total

    def own_variances(self) -> list[tuple[float, Array]]:
        """Weights, and the diagonal of every part's P."""
        squares = None if self.basis is None else self.basis * self.basis
        return [
            (weight, f.diagonal() if f.ndim == 2 else (f if squares is None else squares @ f))
            for weight, f in zip(self.weights, self.factors, strict=True)
        ]

    def squared_norms(self) -> list[float]:
        """Weight times the sum of the squares of every part's P, by vectors of random signs."""
        signs = on(self.covariance, np.random.default_rng(_SEED).choice([-1.0, 1.0], (len(self.covariance), _PROBES)))
        seen = signs if self.basis is None else self.basis.T @ signs
        found = []
        for weight, f in zip(self.weights, self.factors, strict=True):
            there = f @ seen if f.ndim == 2 else f[:, None] * seen
            if self.basis is not None:
                there = self.basis @ there
            found.append(weight * float((there**2).sum()) / _PROBES)
        return found

    def trace_variance(self) -> float:
        """Of the noise in the trace."""
        return 2 * sum(self.squared_norms()[: self.noise])

    def total_variance(self) -> float:
        """Sum of the variances of all entries."""
        traces = sum(weight * float(own.sum()) ** 2 for weight, own in self.own_variances())
        return traces + sum(self.squared_norms())

    def standardised(self, doubt: float) -> tuple[Estimate, FloatArray, np.ndarray]:
        """On the correlation scale, each variance raised to `doubt` standard errors; what columns were divided by, and
        which variances were raised."""
        variance = self.covariance.diagonal()
        error = sum(2 * w * to_host(own) ** 2 for w, own in self.own_variances())
        own, least = to_host(variance), doubt * np.sqrt(error)
        low = own < (1 - 1e-9) * least
        deviation = np.sqrt(np.maximum(own, least))
        rate = on(self.covariance, 1 / deviation)
        S = self.covariance * rate[:, None]
        S *= rate
        set_diagonal(S, 1.0)
        if self.basis is not None:
            return replace(self, covariance=S, basis=self.basis * rate[:, None], back=self.back / rate), deviation, low
        factors = tuple(
            rate**2 * f if f.ndim == 1 else (S if f is self.covariance else f * rate[:, None] * rate)
            for f in self.factors
        )
        return replace(self, covariance=S, factors=factors), deviation, low


def _added(one: Array, other: Array) -> Array:
    one += other
    return one


def estimate_of_rows(observed: Array, covariance: Array, n: int) -> Estimate:
    """Of rows whose covariance was `observed`, and is `covariance` without what noise added: sampling error alone."""
    return Estimate(n, covariance, (1 / n,), (observed,), noise=0)


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
        S = value if S is None else _added(S, value)
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
        total = weight if total is None else _added(total, weight)
        value_sum = value if value_sum is None else _added(value_sum, value)
        noise_sum = noise if noise_sum is None else _added(noise_sum, noise)
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
