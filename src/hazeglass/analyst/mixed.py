"""Columns of every kind in one covariance: an ordered column is one feature, a categorical one has one feature fewer
than levels.

Stages release moments of rows (z, 1), scores and indicators of levels. With pi the shares of a column's levels its
indicators have the covariance diag(pi) - pi pi^T, and W = B^T diag(pi)^-1/2 (I - 1 1^T / K), B an orthonormal basis
of what is orthogonal to sqrt(pi), whitens them. So

    between two categorical columns    W_c (M_cd - pi_c pi_d^T) W_d^T
    a score and a categorical column   E[w y y^T] S^-1 S_yd = M_yd, w = min(1, r/|y|): clipping shrinks it by w alone

where M are released second moments. Errors are those of sampling, as if features were normal, and of the noise, which
is even in the coordinates it was drawn in; own blocks of levels are known from their shares (docs/maths/levels.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.error_model import ErrorModel
from hazeglass.analyst.noisy import LevelGroups, NoisyCovariance
from hazeglass.analyst.pooling import Pooled, Undone
from hazeglass.analyst.scored import Presence
from hazeglass.features.clipping import widen
from hazeglass.features.marginal import Levels
from hazeglass.features.scores import LevelMoments, shares_of
from hazeglass.glasso.linalg import FloatArray

_SURE_OF_SHARE = 5.0  # a level whose share is not so many standard errors is told apart from no other
_SKEWED = 0.3  # skewness of the noisy count of two levels together from which no normal distribution describes it
_MOST_GROUPS = 8  # of a column's levels: the others are taken together
_SAMPLING_RIDGE = 0.25  # sampling error is small where the covariance is, so that it needs little of a ridge


def group_levels(shares: FloatArray, share_sd: float, n: int, noise: float) -> LevelGroups:
    """Levels as far as the release tells them apart: rare ones are taken together.

    `noise` is the standard deviation of that in the number of rows that two levels share.
    """
    expected = n * shares**2
    skewness = expected / np.maximum(expected + noise**2, 1e-12) ** 1.5
    plain = (shares > _SURE_OF_SHARE * share_sd) & (skewness < _SKEWED) & (shares > 0)
    order = np.argsort(-shares, kind="stable")
    kept = [k for k in order if plain[k]][: _MOST_GROUPS - 1]
    rest = [k for k in order if k not in kept]
    if len(rest) == 1 and plain[rest[0]]:
        kept, rest = [*kept, rest[0]], []
    if rest and len(kept) > 1:  # together they may be as rare as each was: then they join the rarest of the others
        whole = float(shares[rest].sum())
        if whole <= _SURE_OF_SHARE * share_sd or n * whole**2 / (n * whole**2 + noise**2) ** 1.5 >= _SKEWED:
            rest.append(kept.pop())
    if len(kept) + bool(rest) < 2:  # nothing can be told: the commonest level against all others, for what it is worth
        kept, rest = [order[0]], list(order[1:])
    members = [[k] for k in sorted(kept)] + ([sorted(rest)] if rest else [])
    matrix = np.zeros((len(members), shares.size))
    for row, own in zip(matrix, members, strict=True):
        row[own] = 1.0
    return LevelGroups(tuple(tuple(int(k) for k in own) for own in members), np.maximum(matrix @ shares, 1e-9))


@dataclass(frozen=True, eq=False)
class _Released:
    """Everything on the scale it was released on: scores in the coordinates of the pooled stages, then indicators."""

    covariance: FloatArray
    noise: FloatArray
    noise_diagonal: FloatArray


def mixed_covariance(
    names: tuple[str, ...],
    n: int,
    known: Sequence[Levels | None],
    stages: Sequence[LevelMoments],
    seen: Presence,
    scored: tuple[NoisyCovariance, Pooled] | None,
) -> NoisyCovariance:
    """One covariance of all columns' features, padded to the largest block by features that have no error.

    known   the shares of categorical columns, None for ordered ones
    scored  the ordered columns by themselves: their correlations, and the pooled stages behind them
    """
    widths = [0 if one is None else one.shares.size for one in known]
    ends = np.cumsum(widths)
    parts = [slice(int(end - width), int(end)) for end, width in zip(ends, widths, strict=True)]
    groups: list[LevelGroups | None] = []
    share_sd = np.zeros(int(ends[-1]))
    weights = np.array([1 / max(stage.noise_sd, 1e-12) ** 2 for stage in stages])
    noise_sd = 1 / math.sqrt(float(weights.sum()))
    shares = np.zeros(int(ends[-1]))
    for one, part in zip(known, parts, strict=True):
        if one is None:
            groups.append(None)
            continue
        others = [own for own in parts if own.stop > own.start and own != part]
        shares[part], share_sd[part] = shares_of(one, part, others, stages)
        groups.append(group_levels(shares[part], float(share_sd[part][0]), n, n * noise_sd))
    released = _released(shares, share_sd, parts, stages, weights, scored, n)
    load, layout = _loads(names, groups, parts, seen, scored)
    # Means of scores are known by their products with each column's levels, as shares are by more than that.
    told = 1 / math.sqrt(sum(1 / width for width in widths if width))
    margins = _margins(load, shares, parts, max(float(share_sd.max()) / noise_sd, 0.0 if scored is None else told))
    found = _assembled(names, n, released, load, margins, layout, groups, seen, noise_sd)
    return found if scored is None else _with_scores(found, scored[0], layout)


def _released(
    shares: FloatArray,
    share_sd: FloatArray,
    parts: Sequence[slice],
    stages: Sequence[LevelMoments],
    weights: FloatArray,
    scored: tuple[NoisyCovariance, Pooled] | None,
    n: int,
) -> _Released:
    p_c = 0 if scored is None else len(scored[0].names)
    size, apart = p_c + shares.size, slice(p_c, None)
    share = weights / weights.sum()
    covariance, noise, diagonal = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    second = sum(w * stage.second for w, stage in zip(share, stages, strict=True)) - np.outer(shares, shares)
    noise[apart, apart] = 1 / float(weights.sum())
    for part in parts:
        own = np.arange(p_c + part.start, p_c + part.stop)
        second[part, part] = np.diag(shares[part]) - np.outer(shares[part], shares[part])
        noise[np.ix_(own, own)] = 0.0
    covariance[apart, apart] = second
    diagonal[apart, apart] = np.diag(share_sd**2)
    if scored is not None:
        pooled = scored[1]
        back = np.asarray(np.linalg.inv(pooled.error.basis), dtype=np.float64)
        inner = back @ pooled.covariance @ back.T
        covariance[:p_c, :p_c] = inner
        lengths = np.maximum(np.diag(inner), 0.0)
        # Undoing of clipping adds to the sampling error, which is otherwise that of all columns together.
        beyond = pooled.error.off - pooled.noise.off - np.outer(lengths, lengths) / n
        noise[:p_c, :p_c] = pooled.noise.off + np.maximum(beyond, 0.0)
        more = np.diag(pooled.error.diagonal - pooled.noise.diagonal) - 2 * lengths**2 / n
        diagonal[:p_c, :p_c] = pooled.noise.diagonal + np.diag(np.maximum(more, 0.0))
        cross, variance = _pooled_cross(pooled, back, stages, shares, parts)
        covariance[:p_c, apart], covariance[apart, :p_c] = cross, cross.T
        noise[:p_c, apart], noise[apart, :p_c] = variance[:, None], variance[None, :]
    return _Released(covariance, noise, diagonal)


def _pooled_cross(
    pooled: Pooled, back: FloatArray, stages: Sequence[LevelMoments], shares: FloatArray, parts: Sequence[slice]
) -> tuple[FloatArray, FloatArray]:
    """Covariances of scores and indicators from all stages, in the pooled coordinates, and the noise of each row."""
    told = [part for part in parts if part.stop > part.start]
    widths = np.array([part.stop - part.start for part in told])
    kept = {id(one.stage.mean): one for one in pooled.stages}
    values, variances = [], []
    for stage in stages:
        one = kept.get(id(stage.score_mean))
        if one is None:
            continue
        undo = back @ np.linalg.inv(one.stage.map) @ _unclipped(one)
        # The mean of the scores shows in their products with every column's indicators, which add up to 1.
        weight = np.array([(stage.noise_sd / max(stage.mean_noise_sd, 1e-12)) ** 2, *(1 / widths)])
        sums = [stage.score_mean, *(stage.cross[:, part].sum(axis=1) for part in told)]
        mean = np.average(sums, axis=0, weights=weight)
        values.append(undo @ (stage.cross - np.outer(mean, shares)))
        variances.append(stage.noise_sd**2 * np.sum(undo**2, axis=1))
    weights = 1 / np.maximum(variances, 1e-24)
    found = sum(w[:, None] * value for w, value in zip(weights, values, strict=True))
    return np.asarray(found / weights.sum(axis=0)[:, None]), np.asarray(1 / weights.sum(axis=0))


def _unclipped(one: Undone) -> FloatArray:
    """The inverse of E[w y y^T] S^-1: what clipped scores keep of a covariance with anything that is not clipped."""
    stage = one.stage
    found = None if stage.radius is None else widen(stage.second, stage.radius, stage.mean)
    if found is None:
        return np.eye(len(stage.mean))
    kept = np.sqrt(found.shrink) @ found.squares / len(found.shrink)
    return np.asarray((found.vectors / kept) @ found.vectors.T)


@dataclass(frozen=True, eq=False)
class _Layout:
    """Which rows of the padded covariance belong to which column.

    live     features of each column
    of       the column of every feature
    ordered  the first feature of each ordered column
    """

    size: int
    live: npt.NDArray[np.int64]
    of: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.int64]


def _loads(
    names: tuple[str, ...],
    groups: Sequence[LevelGroups | None],
    parts: Sequence[slice],
    seen: Presence,
    scored: tuple[NoisyCovariance, Pooled] | None,
) -> tuple[FloatArray, _Layout]:
    """Features in terms of what was released, scaled up as missing cells demand."""
    present = np.diag(seen.both)
    live = np.array([1 if one is None else one.shares.size - 1 for one in groups])
    size = max(2, int(live.max()))  # blocks, also where no column has more than two levels
    ordered = np.flatnonzero([one is None for one in groups])
    p_c = ordered.size
    load = np.zeros((len(names) * size, p_c + max(part.stop for part in parts)))
    if scored is not None:
        load[ordered * size, :p_c] = scored[0].error.basis
    for k, (one, part) in enumerate(zip(groups, parts, strict=True)):
        if one is not None:
            at = slice(k * size, k * size + int(live[k]))
            load[at, p_c + part.start : p_c + part.stop] = one.whitener(part.stop - part.start) / present[k]
    return load, _Layout(size, live, np.repeat(np.arange(len(names)), size), ordered * size)


def _margins(load: FloatArray, shares: FloatArray, parts: Sequence[slice], error: float) -> FloatArray:
    """What the error of means leaves in features, as if noise along equal entries, which W does not see, made it.

    Means and shares are subtracted as M - m pi^T. Their errors are independent of what W sees of M, and `error` times
    as large as the noise of one entry.
    """
    first, found = load.shape[1] - shares.size, np.zeros_like(load)
    for part in parts:
        width = part.stop - part.start
        if width:
            at = slice(first + part.start, first + part.stop)
            found[:, at] = np.outer(load[:, at] @ shares[part], np.full(width, error / math.sqrt(width)))
    return found


def _assembled(
    names: tuple[str, ...],
    n: int,
    released: _Released,
    load: FloatArray,
    margins: FloatArray,
    layout: _Layout,
    groups: Sequence[LevelGroups | None],
    seen: Presence,
    noise_sd: float,
) -> NoisyCovariance:
    """All columns, those of scores as they were released: how coarse they are is not undone yet."""
    present, of = np.diag(seen.both), np.ix_(layout.of, layout.of)
    pairs = np.outer(present, present) / seen.both
    np.fill_diagonal(pairs, 1.0)
    stretch = pairs[of]
    covariance = load @ released.covariance @ load.T * stretch
    same = layout.of[:, None] == layout.of[None, :]
    covariance[same] = np.eye(len(covariance))[same]
    values, vectors = np.linalg.eigh(released.covariance)
    values = np.maximum(values, 0.0)
    nothing = np.zeros_like(vectors)
    live = np.arange(len(load)) % layout.size < np.repeat(layout.live, layout.size)
    error = ErrorModel(
        np.hstack([load + margins, load @ vectors]),
        np.block([[released.noise, nothing], [nothing, np.outer(values, values) / n]]),
        np.block([[released.noise_diagonal, nothing], [nothing, np.diag(2 * values**2 / n)]]),
        stretch=stretch,
        own=4 * seen.column[layout.of] * live,
        excess=np.zeros(len(load)),
    )
    if seen.error.any():  # each pair's own error of pi, beside that of its covariance
        beside = covariance**2 * seen.error[of] / np.maximum(error.entry_variance, np.finfo(float).tiny)
        error = replace(error, stretch=stretch * np.sqrt(1 + beside))
    edge = 2 * math.sqrt(len(values)) * (noise_sd + _SAMPLING_RIDGE * float(np.mean(values)) / math.sqrt(n))
    return NoisyCovariance(
        names,
        n,
        covariance,
        error,
        functions="levels",
        notes=_notes(names, groups),
        groups=tuple(groups),
        ridge=edge * (load @ load.T),
    )


def _with_scores(noisy: NoisyCovariance, alone: NoisyCovariance, layout: _Layout) -> NoisyCovariance:
    """The same, two ordered columns being what they are by themselves."""
    at = layout.ordered
    here = np.ix_(at, at)
    covariance, stretch = noisy.covariance.copy(), np.array(noisy.error.stretch)
    own, excess, bent = np.array(noisy.error.own), np.array(noisy.error.excess), np.zeros(len(noisy.names))
    covariance[here] = alone.covariance
    stretch[here] = 1.0 if alone.error.stretch is None else alone.error.stretch
    own[at] = 0.0 if alone.error.own is None else alone.error.own
    excess[at] = 0.0 if alone.error.excess is None else alone.error.excess
    bent[at // layout.size] = 0.0 if alone.bent is None else alone.bent
    return replace(
        noisy,
        covariance=covariance,
        error=replace(noisy.error, stretch=stretch, own=own, excess=excess),
        hidden=alone.hidden,
        notes=(*alone.notes, *noisy.notes),
        bent=bent,
        distrusted=alone.distrusted,
    )


def _notes(names: Sequence[str], groups: Sequence[LevelGroups | None]) -> tuple[str, ...]:
    """Which columns have levels that are not told apart."""
    merged = [name for name, one in zip(names, groups, strict=True) if one is not None and one.merged]
    if not merged:
        return ()
    some = ", ".join(merged[:5]) + (f" and {len(merged) - 5} more" if len(merged) > 5 else "")
    return (f"Rare levels were taken together, because the noise hides them one by one or they are very many: {some}.",)
