"""Columns that others determine, as far as a release can tell: the error bars of all others must not suffer.

Two columns that say the same (an hour and a time of departure, a level of education and its years), or one that is
the sum of others, leave a direction in which nothing is known but noise. Given each other they have no partial
correlation to speak of, and given both no pair of theirs has: every interval would reach from -1 to 1. So of such
columns one is left out of what the others are conditioned on, and its own pairs are looked at with it in the place of
those that determine it (docs/maths/inference.md).

Two coarse columns that are never high together (gains and losses of one year) are another such pair: nothing says how
the normals behind them depend on each other, and that error would reach every pair that depends on both. Of them, too,
one is left out.

Leaving out is adding a large variance to a column: its block of the precision then vanishes, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.inference import PairInference, evidence, infer, pilot, steady_evidence
from hazeglass.analyst.noisy import NoisyCovariance, some_of
from hazeglass.analyst.penalty import Pilot, Problem
from hazeglass.glasso import Solution
from hazeglass.glasso.linalg import FloatArray

_SURE, _LOST = 3.0, 1.5  # standard errors; with less than so many of its own, a column has none that can be told
_NEARLY = 0.35  # of a column's variance: with so much of its own, no column counts as determined
_EXACTLY = 1e-10  # of a column's variance: what rounding leaves of copies and sums in rows without noise
_FINEST = 1e-3  # of a column's variance: scores are made from leaves, and do not say more
_UNTOLD, _APART = 0.5, 5.0  # standard error of a correlation that nothing says, and how far above those beside it
_OUT = 1e4  # what is added to the variance of a column that is left out
_MOST = 12  # columns that may be left out
_MOST_COLUMNS = 300
_NAMED = 3  # pairs of columns in notes, each in a sentence


@dataclass(frozen=True, eq=False)
class Inferred:
    """Every pair with its uncertainty, by the view that is for it.

    base      what error bars of most pairs are built on
    evidence  what pairs are ranked by; None for curved dependence
    left_out  columns that most pairs are not given
    untold    pairs of columns whose own dependence nothing says, the first of which is left out for that
    """

    pairs: PairInference
    base: Pilot
    evidence: FloatArray | None
    left_out: tuple[str, ...]
    untold: tuple[tuple[str, str], ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of columns that were left out."""
        found, determined = [], [name for name in self.left_out if name not in [one for one, _ in self.untold]]
        if determined:
            verb = "is" if len(determined) == 1 else "are each"
            found.append(
                f"{some_of(determined)} {verb} determined by other columns, as far as this release can tell. Pairs "
                "of the others are given all columns but those; pairs of those, all columns but what determines them."
            )
        for column, other in self.untold[:_NAMED]:
            found.append(
                f"Nothing in this release says how {column} and {other} depend on each other: both have few values, "
                f"and hardly any row is high in both, or low in both. Pairs of the others are not given {column}, and "
                f"its own pairs are not given {other}."
            )
        return tuple(found)


def inferred(noisy: NoisyCovariance, problem: Problem, chosen: Solution) -> Inferred:
    """Every pair, seen so that error bars do not suffer from columns which others determine."""
    curved = noisy.size > 1 and not noisy.groups
    steady = steady_evidence(noisy, problem)
    whole = View(noisy, (), np.ones((len(noisy.names),) * 2, dtype=bool))
    # Where noise is loud it makes columns seem to be determined; a sparse fit that misses nothing shows that none is.
    explained = steady is not None and pilot(noisy, problem, chosen).alpha > 0
    seen = (whole,) if noisy.size > 1 or explained else views(noisy)
    found: list[PairInference] = []
    ranked, bases = [], []
    for view in seen:
        own = problem if view.noisy is noisy else Problem.of(view.noisy, solver=problem.solver, device=problem.device)
        base = pilot(view.noisy, own, chosen)
        bases.append(base)
        found.append(infer(view.noisy, base.precision, base.blur))
        ranked.append(None if curved else evidence(view.noisy, base, own) if steady is None else steady)
    left_out = tuple(noisy.names[k] for k in seen[0].out)
    untold = tuple((noisy.names[i], noisy.names[j]) for i, j in (_untold(noisy) if left_out else ()))
    if len(seen) == 1:
        return Inferred(found[0], bases[0], ranked[0], left_out)
    upper = np.triu_indices(len(noisy.names), 1)
    which = np.zeros(upper[0].size, dtype=np.intp)
    for number, view in enumerate(seen):
        which[view.pairs[upper]] = number
    return Inferred(_merged(found, which), bases[0], _picked(ranked, which), left_out, untold)


def _picked(values: Sequence[FloatArray | None], which: npt.NDArray[np.intp]) -> FloatArray:
    stacked = np.array(values)
    return np.asarray(stacked[which, np.arange(which.size)])


def _merged(found: Sequence[PairInference], which: npt.NDArray[np.intp]) -> PairInference:
    """Each pair from the view that is for it; q-values over all of them."""
    from scipy.stats import false_discovery_control

    names = ("partial_correlation", "std_error", "ci_low", "ci_high", "p_value")
    parts = {name: _picked([getattr(one, name) for one in found], which) for name in names}
    block = found[0].block
    if block is not None:
        blocks = [one.block for one in found if one.block is not None]
        both = {name: _picked([getattr(one, name) for one in blocks], which) for name in ("blocks", "covariances")}
        block = replace(block, **both)
    return PairInference(**parts, q_value=false_discovery_control(parts["p_value"]), block=block)


@dataclass(frozen=True, eq=False)
class View:
    """The covariance for some of the pairs.

    noisy   with every column in `out` left out
    pairs   which entries of (p, p) it is for
    """

    noisy: NoisyCovariance
    out: tuple[int, ...]
    pairs: npt.NDArray[np.bool_]


def views(noisy: NoisyCovariance) -> tuple[View, ...]:
    """The covariance as it is where every column has something of its own; else one view for all pairs of columns that
    are not left out, and for each that is, one for its pairs with others and one for those with what determines it."""
    p = len(noisy.names)
    everything = np.ones((p, p), dtype=bool)
    untold = _untold(noisy) if p <= _MOST_COLUMNS else ()
    apart = tuple(dict.fromkeys(i for i, _ in untold))
    out = (*apart, *_determined(_without(noisy, apart), apart)) if p <= _MOST_COLUMNS else ()
    if not out:
        return (View(noisy, (), everything),)
    found = [View(_without(noisy, out), out, everything)]
    for column in out:
        others = tuple(one for one in out if one != column)
        partners = tuple(j for i, j in untold if i == column and j not in others)
        before = (*others, *partners)
        instead = (*partners, *_determined(_without(noisy, before), before, keep=column))
        pairs = _pairs_of(p, column)
        found.append(View(_without(noisy, (*others, *instead)), (*others, *instead), pairs))
        among = np.zeros((p, p), dtype=bool)
        among[column, list(instead)] = among[list(instead), column] = True
        doubt = _EXACTLY**0.5  # what rounding needs; where only the noise may say so, what that leaves unsure
        if not _exactly(noisy, others).any():
            doubt = _SURE * _own_variance(_without(noisy, (*others, *instead)))[1].max(initial=0.0)
        found.append(View(_added(_without(noisy, others), (column, *instead), doubt), others, among))
    return tuple(found)


def _untold(noisy: NoisyCovariance) -> tuple[tuple[int, int], ...]:
    """Pairs of columns with a correlation whose error is beyond all others of the two, the one to leave out first."""
    error = np.sqrt(noisy.error.entry_variance)
    np.fill_diagonal(error, 0.0)
    usual = np.median(error, axis=1)
    alone = (error > _UNTOLD) & (error > _APART * np.maximum.outer(usual, usual))
    found: list[tuple[int, int]] = []
    while alone.any() and len(found) < _MOST:
        column = int(np.lexsort((usual, alone.sum(axis=1)))[-1])  # of most such pairs, or else the one known least
        found += [(column, int(other)) for other in np.flatnonzero(alone[column])]
        alone[column] = alone[:, column] = False
    return tuple(found)


def _pairs_of(columns: int, one: int) -> npt.NDArray[np.bool_]:
    pairs = np.zeros((columns, columns), dtype=bool)
    pairs[one] = pairs[:, one] = True
    return pairs


def _determined(noisy: NoisyCovariance, before: tuple[int, ...], keep: int | None = None) -> tuple[int, ...]:
    """Columns to leave out, one after the other, until every other column has something of its own."""
    out: list[int] = []
    while len(out) < _MOST:
        left, error = _own_variance(_without(noisy, tuple(out)))
        exactly = _exactly(noisy, (*before, *out))
        error[exactly] = 1.0  # any of them will do: the last
        hidden = exactly | ((left < _LOST * error) & (left + _SURE * error < _NEARLY))
        hidden[[*before, *out, *([] if keep is None else [keep])]] = False
        if not hidden.any():
            return tuple(out)
        out.append(max(np.flatnonzero(hidden).tolist(), key=lambda k: (error[k], k)))  # the one that is known least
    return ()  # not a few columns but all of them: nothing here helps


def _exactly(noisy: NoisyCovariance, out: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Which columns others determine beyond doubt: in some direction of theirs not even sampling leaves an error."""
    error, p = noisy.error, len(noisy.names)
    kept = np.setdiff1d(np.arange(p), out)
    seen = (error.basis[kept] * np.sqrt(noisy.n * np.diag(error.off))) @ error.basis[kept].T
    values, vectors = np.linalg.eigh(seen)
    found = np.zeros(p, dtype=bool)
    found[kept] = (vectors[:, values < _EXACTLY] ** 2).sum(axis=1) > _EXACTLY
    return found & (noisy.n > p)  # with fewer rows there is always such a direction


def _own_variance(noisy: NoisyCovariance) -> tuple[FloatArray, FloatArray]:
    """The share of each column's variance that others leave, the least over its features, and its standard error."""
    p, size = len(noisy.names), noisy.size
    values, vectors = np.linalg.eigh(noisy.covariance)
    precision = (vectors / np.maximum(values, np.sqrt(noisy.typical_variance()))) @ vectors.T
    load = precision / np.diag(precision)[:, None]
    left = np.einsum("ij,jk,ik->i", load, noisy.covariance, load)
    error = replace(noisy.error, basis=load @ noisy.error.basis, stretch=None, excess=None)
    variance = np.diag(error.entry_variance).copy()
    if noisy.error.own is not None:
        variance += load**4 @ noisy.error.own
    if noisy.bent is not None:  # what bends scores, noise or leaves that are not finer, looks like something of its own
        bends = load[:, ::size] ** 2 @ noisy.bent
        left, variance = left - bends, variance + bends**2 + _FINEST**2
    deviation = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    alive = np.arange(size) < noisy.live[:, None]
    worst = np.argmin(np.where(alive, (left / deviation).reshape(p, size), np.inf), axis=1)
    at = np.arange(p) * size + worst
    return left[at], deviation[at]


def _without(noisy: NoisyCovariance, out: tuple[int, ...]) -> NoisyCovariance:
    return _added(noisy, out, _OUT)


def _added(noisy: NoisyCovariance, columns: tuple[int, ...], variance: float) -> NoisyCovariance:
    """With more variance in these columns."""
    if not columns:
        return noisy
    more = np.zeros(len(noisy.names))
    more[list(columns)] = variance
    return replace(noisy, covariance=noisy.covariance + np.diag(np.repeat(more, noisy.size)))
