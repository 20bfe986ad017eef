"""Several releases of the same columns as one covariance: sites, months or wards, each with rows of its own.

Every release standardises its columns by itself, through its own marginals or its own deviations. What is pooled are
the correlations within releases, so that a difference of level or scale between sites makes no dependence. With C_k the
correlations of release k and U an inverse of which all errors are nearly independent entry by entry,

    C = U (sum_k W_k * U^-1 C_k U^-T) U^T,      W_k,ab = (1 / V_k,ab) / sum_l 1 / V_l,ab

V_k,ab being the error of release k as a smooth function of the common eigenvalues, so that weights do not follow the
estimates they weigh. Errors of releases are independent, and so those of C are known (docs/maths/many.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from hazeglass.analyst.error_model import ErrorModel
from hazeglass.analyst.graph import Origin
from hazeglass.analyst.noisy import NoisyCovariance, Stacked, some_of
from hazeglass.analyst.pooling import inflation
from hazeglass.analyst.source import Source, source_of
from hazeglass.bundle.columns import Column
from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Engine
from hazeglass.errors import HazeglassWarning, InputError, warn
from hazeglass.glasso.linalg import FloatArray

_ROTATED = 200  # columns up to which the errors of variances are carried over with their correlations
_MOST_NOTES = 3
_MOST_BENT = 0.3  # of a column's variance: beyond, noise has made its distribution up
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Several:
    """Releases that can be pooled: the same columns, on one scale; what :func:`recover` asks of a source."""

    sources: tuple[Source, ...]
    origin: Origin
    release: Release | None = None
    made_for_curves: bool = False

    @classmethod
    def of(cls, releases: Sequence[Any]) -> Several:
        """From releases or the places of them; refused in one sentence where they cannot be pooled."""
        sources = tuple(map(source_of, releases))
        if any(source.release is None for source in sources):
            raise InputError("only releases are pooled, and some of these are rows. Put rows together before.")
        made = [source.release for source in sources if source.release is not None]
        for k, release in enumerate(made):
            _check_poolable(release, k + 1)
            check_alike(made[0], release, f"release {k + 1}")
        check_apart(combinations(made, 2))
        return cls(sources, _origin(sources))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, in the order of the first release."""
        return self.sources[0].names

    def covariance(self, engine: Engine, *, curved: bool) -> NoisyCovariance:
        """The correlations within releases, pooled."""
        if curved:
            raise InputError(
                "releases are pooled by straight-line dependence. Use dependence = 'linear', or one release."
            )
        parts = [_in_order(source.covariance(engine, curved=False), self.names) for source in self.sources]
        return pooled([part.standardised() for part in parts], self.titles)

    @property
    def titles(self) -> tuple[str, ...]:
        """What each release is called, numbered where titles are the same."""
        own = [source.origin.title for source in self.sources]
        return tuple(one if own.count(one) == 1 else f"{one} ({k + 1})" for k, one in enumerate(own))

    def cut(self, deviations: FloatArray, engine: Engine) -> None:
        """No rows to cut into folds."""

    @property
    def lags(self) -> int:
        """Rows of several tables stand for themselves."""
        return 0

    def in_time(self, lags: int) -> Source:
        """Refused: rows of one table do not follow those of another."""
        raise InputError(f"lags is for the rows of one table, got several releases and lags = {lags}. Leave it out.")

    def stacks(self) -> Stacked:
        """Refused, as `in_time` is."""
        raise InputError("several releases have no stacks. Recover each by itself.")

    def as_normal_scores(self) -> Source:
        """Refused: ranks of several tables are no ranks of one."""
        raise InputError("marginals = 'normal-scores' ranks the rows of one table, got several releases. Use 'as-is'.")


def is_several(data: Any) -> bool:
    """Whether these are releases, or places of them, and not rows."""
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(one, Release | str | Path) for one in data)


def _origin(sources: Sequence[Source]) -> Origin:
    origins = [source.origin for source in sources]
    forms, units = {one.form for one in origins}, {(one.unit, one.unit_readings, one.unit_max_rows) for one in origins}
    unit = units.pop() if len(units) == 1 else (None, None, None)
    return Origin(
        f"{len(origins)} releases together",
        forms.pop() if len(forms) == 1 else "pooled",
        sum(one.n for one in origins),
        *unit,
        simulation=any(one.simulation for one in origins),
        marginals=origins[0].marginals,
        releases=tuple(origins),
    )


def _check_poolable(release: Release, number: int) -> None:
    """Refuse what has no covariance of one feature per column."""
    where = f"release {number} ({release.manifest.title!r})"
    if categorical := [column.name for column in release.columns if not column.ordered]:
        raise InputError(
            f"releases are pooled by columns that have an order, and {where} has levels without one "
            f"({some_of(categorical)}). Recover each release by itself."
        )
    if any(stage.features == "cosines" for stage in release.manifest.stages[-1:]):
        raise InputError(
            f"releases are pooled by straight-line dependence, and {where} was made for curves. Recover it by itself."
        )


def check_alike(first: Release, other: Release, which: str) -> None:
    """Refuse a release whose columns are not those of the first, on the same scale."""
    where, own, theirs = f"{which} ({other.manifest.title!r})", _scale(first), _scale(other)
    if own != theirs:
        raise InputError(
            f"releases must be on one scale, and the first is on the {own} scale, {where} on the {theirs} one. Take "
            "those that agree."
        )
    if first.manifest.series is not None or other.manifest.series is not None:
        raise InputError(
            f"releases of rows in time have two layers, which are neither pooled nor compared, and {where} or the "
            "first is one. Recover each release by itself."
        )
    known, found = ({column.name: _shown(column, own) for column in one.columns} for one in (first, other))
    if known.keys() != found.keys():
        odd = sorted(known.keys() ^ found.keys())
        raise InputError(f"releases must have the same columns, and {where} differs from the first in {some_of(odd)}.")
    if differing := [name for name in known if known[name] != found[name]]:
        raise InputError(
            f"columns must have the same kind, levels and transform in all releases, and in {where} these differ from "
            f"the first: {some_of(differing)}."
        )


def check_apart(pairs: Iterable[tuple[Release, Release]]) -> None:
    """Refuse releases of the same rows, whose errors go together; warn where nothing says that rows are others."""
    doubtful = []
    for release, other in pairs:
        one, two = release.manifest, other.manifest
        if _same(release, other):
            raise InputError(f"releases must be of other rows, and {one.title!r} is given twice. Leave one out.")
        names = f"{one.title!r} and {two.title!r}"
        if _goes_on(release, other) or _goes_on(other, release):
            raise InputError(f"releases must be of other rows; the later of {names} holds the rows of both. Give that.")
        charged = one.ledger is not None and two.ledger is not None and one.ledger.dataset == two.ledger.dataset
        if one.period == two.period and (charged or (one.title, one.n) == (two.title, two.n)):
            doubtful.append(names)
    if doubtful:
        told = f"{doubtful[0]} may be of the same ones: one ledger and no two periods, or one title and as many rows"
        warn(f"releases must be of other rows, and {told}. Leave one out: error bars are too narrow.", HazeglassWarning)


def _same(release: Release, other: Release) -> bool:
    """Whether two releases are one; one that was simulated in memory has no files to compare."""
    files = {part.sha256 for part in release.manifest.files}
    return files == {part.sha256 for part in other.manifest.files} and files != {""}


def _goes_on(release: Release, other: Release) -> bool:
    """Whether a running release repeats the draws of another."""
    own, theirs = release.manifest.lifetime, other.manifest.lifetime
    if own is None or theirs is None or own.counts[: theirs.step] != theirs.counts:
        return False
    return np.array_equal(release.draws()[0].second, other.draws()[0].second)


def _scale(release: Release) -> str:
    return "score" if release.manifest.scale == "scores" else "linear"


def _shown(column: Column, scale: str) -> tuple[Any, ...]:
    """What two releases must have in common; ranks do not change under a transform."""
    kind = "number" if column.kind in ("continuous", "integer") else column.kind
    return kind, column.levels, column.part, None if scale == "score" else column.transform


def _in_order(noisy: NoisyCovariance, names: tuple[str, ...]) -> NoisyCovariance:
    """The same with columns in this order."""
    if noisy.names == names:
        return noisy
    at = [noisy.names.index(name) for name in names]

    def some(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else values[at]

    error, stretch = noisy.error, noisy.error.stretch
    error = replace(
        error,
        basis=error.basis[at],
        stretch=None if stretch is None else stretch[np.ix_(at, at)],
        own=some(error.own),
        excess=some(error.excess),
    )
    covariance = noisy.covariance[np.ix_(at, at)]
    return replace(
        noisy, names=names, covariance=covariance, error=error, bent=some(noisy.bent), astray=some(noisy.astray)
    )


# ------------------------------------------------------------------------------------------------ one covariance of all


def pooled(parts: Sequence[NoisyCovariance], titles: Sequence[str]) -> NoisyCovariance:
    """Standardised covariances of independent rows as one, with what is known of its error."""
    named = list(zip(parts, titles, strict=True))
    kept = [part for part in parts if not _too_noisy(part)] or list(parts)
    left = [title for part, title in named if _too_noisy(part) and len(kept) < len(parts)]
    notes = [_left_out(left)] if left else []
    own = [f"{title}: {note}" for part, title in named if title not in left for note in part.notes]
    notes += own[:_MOST_NOTES]
    if len(own) > _MOST_NOTES:
        more = len(own) - _MOST_NOTES
        notes.append(f"The releases have more notes like these ({more}); recover one by itself to see its own.")
    distrusted = [f"{title}: {part.distrusted}" for part, title in named if part.distrusted and title not in left]
    kept = [_straightened(part) for part in kept]
    whole = _Mean.of(kept)
    return NoisyCovariance(
        parts[0].names,
        sum(part.n for part in kept),
        whole.covariance,
        whole.error,
        hidden=tuple(dict.fromkeys(name for part in kept for name in part.hidden)),
        notes=tuple(notes),
        bent=_summed(whole.shares, [part.bent for part in kept], power=2),
        astray=_summed(whole.shares, [part.astray for part in kept]),
        distrusted="; ".join(distrusted) or None,
        parts=tuple(kept),
    )


def _too_noisy(part: NoisyCovariance) -> bool:
    """Whether noise hides a column: its variance, which correlations are divided by, or its distribution."""
    return bool(part.hidden) or (part.bent is not None and float(part.bent.max()) > _MOST_BENT)


def _straightened(part: NoisyCovariance) -> NoisyCovariance:
    """Correlations as they are without what noise in marginals bends.

    A bent column has more variance, by the share `bent`, and no more covariance with others. One release hides that in
    its own error; the mean of ten does not.
    """
    if part.bent is None:
        return part
    straight = np.sqrt(1 - np.minimum(part.bent, _MOST_BENT))
    found = part.covariance / np.outer(straight, straight)
    np.fill_diagonal(found, np.diag(part.covariance))
    return replace(part, covariance=found, error=part.error.carried((1 / straight)[:, None, None]))


def _left_out(titles: Sequence[str]) -> str:
    which = f"{some_of(list(titles))} {'is' if len(titles) == 1 else 'are'} left out"
    return f"{which}: taken alone, noise hides a column there, so that its correlations have no scale."


def _summed(shares: FloatArray, values: Sequence[FloatArray | None], power: int = 1) -> FloatArray | None:
    """Variances of the mean of independent errors; where they enter in pairs, as the product of two such (power 2)."""
    if all(one is None for one in values):
        return None
    total = sum(share**2 * one**power for share, one in zip(shares, values, strict=True) if one is not None)
    return np.asarray(total ** (1 / power))


@dataclass(frozen=True, eq=False)
class _Mean:
    """The weighted mean of correlations; `shares` says what each counts for over all."""

    covariance: FloatArray
    error: ErrorModel
    shares: FloatArray

    @classmethod
    def of(cls, parts: Sequence[NoisyCovariance]) -> _Mean:
        rough = np.array([1 / part.typical_variance() for part in parts])
        rough /= rough.sum()
        middle = np.tensordot(rough, [part.covariance for part in parts], 1)
        first = parts[int(np.argmax(rough))].error.basis
        inner = np.linalg.solve(first, np.linalg.solve(first, middle).T)
        vectors = np.linalg.eigh((inner + inner.T) / 2)[1]
        basis, back = first @ vectors, np.asarray(vectors.T @ np.linalg.inv(first))
        carried = [_bare(part.error, back) for part in parts]
        variances = np.array([np.maximum(one.entry_variance, _TINY) for one in carried])
        lengths = np.maximum(np.diag(back @ middle @ back.T), 0.0)
        weights = 1 / np.array([_smooth(one, lengths) for one in variances])
        weights /= weights.sum(axis=0)
        values = np.array([back @ part.covariance @ back.T for part in parts])
        off = np.sum(weights**2 * variances, axis=0)
        off *= inflation(carried, back, weights, off)
        diagonal = _diagonal(carried, [np.diag(one) for one in weights])
        shares = np.array([float(np.mean(one)) for one in weights])
        error = _with_corrections(ErrorModel(basis, off, diagonal), parts, shares)
        covariance = basis @ np.sum(weights * values, axis=0) @ basis.T
        return cls((covariance + covariance.T) / 2, error, shares)


def _bare(error: ErrorModel, back: FloatArray) -> ErrorModel:
    """Noise and sampling alone, in other coordinates."""
    return replace(error, basis=back @ error.basis, stretch=None, own=None, excess=None)


def _smooth(variance: FloatArray, lengths: FloatArray) -> FloatArray:
    """The variances of entries as alpha l_a l_b + beta (l_a + l_b) + gamma, none of the three below zero.

    Sampling is the first, noise in cells all of them, noise in moments the last, and with shaped stages all again.
    Variances that were used as they are would be small where the estimate itself came out small, and the mean too.
    """
    from scipy.optimize import nnls

    upper = np.triu_indices(len(lengths), 1)
    terms = [np.outer(lengths, lengths), np.add.outer(lengths, lengths), np.ones_like(variance)]
    design = np.column_stack([term[upper] / variance[upper] for term in terms])
    found = nnls(design, np.ones(len(design)))[0]
    return np.asarray(np.maximum(sum(f * term for f, term in zip(found, terms, strict=True)), _TINY))


def _diagonal(carried: Sequence[ErrorModel], weights: Sequence[FloatArray]) -> FloatArray:
    """Covariance of the errors of variances in the common coordinates."""
    p = len(weights[0])
    if p > _ROTATED:
        return np.diag(np.sum([w**2 * np.diag(one.entry_variance) for one, w in zip(carried, weights, strict=True)], 0))
    total = np.zeros((p, p))
    for one, weight in zip(carried, weights, strict=True):
        turned, squares = one.basis, one.basis**2
        off = one.off - np.diag(np.diag(one.off))
        found = squares @ one.diagonal @ squares.T
        for a in range(p):
            products = turned[a] * turned
            found[a] += 2 * np.einsum("bc,bc->b", products @ off, products)
        total += np.outer(weight, weight) * found
    return total


def _with_corrections(error: ErrorModel, parts: Sequence[NoisyCovariance], shares: FloatArray) -> ErrorModel:
    """What coarse columns and missing cells add, so that every entry has the variance that the releases give it."""
    p = len(error.basis)
    bare = [replace(part.error, stretch=None, own=None, excess=None).entry_variance for part in parts]
    before = np.tensordot(shares**2, bare, 1)
    stretch = excess = None
    if any(part.error.stretch is not None for part in parts):
        squares = [np.ones((p, p)) if part.error.stretch is None else part.error.stretch**2 for part in parts]
        stretch = np.sqrt(np.tensordot(shares**2, np.array(bare) * squares, 1) / np.maximum(before, _TINY))
        np.fill_diagonal(stretch, 1.0)
    if any(part.error.excess is not None for part in parts):
        kept = np.array([np.zeros(p) if part.error.excess is None else part.error.excess for part in parts])
        excess = np.tensordot(shares**2, np.diagonal(bare, axis1=1, axis2=2) * kept, 1) / np.diag(before)
    return replace(error, stretch=stretch, own=_summed(shares, [part.error.own for part in parts]), excess=excess)


# ------------------------------------------------------------------------------------------------ do releases agree?


def disagreement(parts: Sequence[NoisyCovariance], precision: FloatArray) -> FloatArray:
    """For every pair i < j the p-value that all releases have the same partial correlation.

    To first order a release's partial correlation differs from that of the others by a linear function of its own
    covariance, which has no bias however noisy the release is. Cochran's Q, the squared differences from their weighted
    mean in standard errors, is chi-square with one degree of freedom fewer than releases.
    """
    from scipy.special import chdtrc

    scale = np.sqrt(np.diag(precision))
    load, tilt = precision / scale[:, None], -precision / np.outer(scale, scale)
    upper = np.triu_indices(len(precision), 1)
    found, weights = [], []
    for part in parts:
        seen = load @ part.covariance @ load.T
        own = np.diag(seen)
        # Of a larger covariance the de-biased precision is smaller, and what is printed is its negative.
        found.append((seen + tilt / 2 * (own[:, None] + own[None, :]))[upper])
        weights.append(1 / part.error.partial_correlation_sd(precision)[upper] ** 2)
    middle = np.average(found, axis=0, weights=weights)
    statistic = np.sum(weights * (np.array(found) - middle) ** 2, axis=0)
    return np.asarray(chdtrc(len(parts) - 1, statistic))
