"""Many columns: the pilot, its de-biased form, and error bars for the pairs that can matter (inference.py for fewer).

All pairs are tested, strip by strip; kept are those that may be selected and the edges of the fit. Their q-values count
every pair as a test (docs/maths/many-columns.md). This file needs NumPy, and on a device torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass._arrays import (
    Array,
    FloatArray,
    eigh,
    inverse,
    is_tensor,
    largest,
    leading,
    on,
    set_diagonal,
    strips,
    symmetric,
    to_host,
    two_sided,
)
from hazeglass.analyst.error_model import BENDING
from hazeglass.analyst.large import COARSE, FINE, NONZERO, Estimate, choose, effective_rows, problem_of
from hazeglass.analyst.penalty import MOST_NOISE, Choice, Pilot, Whitened, sparse_pilot

_LEAST, _MOST = 0.01, 500_000  # p-values of pairs that are kept: below, or so many of a graph without edges
_GROWTH = 1.1
_POWER_STEPS = 40
DOUBT = 2.0  # standard errors of a variance; it is raised to that


def pilot(known: Estimate, variance: Array) -> Pilot:
    """The inverse where the error is small in every direction, a sparse fit where it is not (inference.pilot)."""
    evened = _evened(known, variance)
    if evened is None:
        return _sparse(known, variance)
    return evened.pilot(evened.share, lambda: _sparse(known, variance))


@dataclass(frozen=True, eq=False)
class _Evened(Whitened):
    """By the covariance itself in these coordinates, `inner`, and in those of the columns."""

    inner: Array
    covariance: Array

    def inverse(self) -> Array:
        ridge = max(self.ridge, 1e-12)
        raised = self.inner * 1.0
        set_diagonal(raised, raised.diagonal() + ridge)
        found = inverse(raised)
        if found is None:
            values, vectors = eigh(self.inner)
            found = (vectors / (largest(values, 0.0) + ridge)) @ vectors.T
        return symmetric(self.back.T @ found @ self.back)

    def gaps(self, precision: Array) -> tuple[float, float]:
        p = len(precision)
        product = self.covariance @ precision
        square = sum(float((product[rows] * product[:, rows].T).sum()) for rows in strips(product))
        mean = (square - 2 * float(product.diagonal().sum()) + p) / p
        x = on(product, np.random.default_rng(0).standard_normal(p))
        size = 0.0
        for _ in range(_POWER_STEPS):
            x = x / float((x**2).sum()) ** 0.5
            x = product @ x - x
            size = float((x**2).sum()) ** 0.5
        return mean, size


def _evened(known: Estimate, variance: Array) -> _Evened | None:
    """None where so much noise is certain that no inverse would do."""
    p = len(known.covariance)
    if known.middle is not None:
        own = known.middle.diagonal()
        parts = list(zip(known.weights, known.factors, strict=True))
        error = sum(w * f**2 for w, f in parts)
        own = largest(own, error.clip(min=0.0) ** 0.5)
        share = sum(w * (float((f / own).sum()) ** 2 - float(((f / own) ** 2).sum())) for w, f in parts) / p
        if share >= MOST_NOISE:
            return None
        back = known.back / (own**0.5)[:, None]
        return _Evened(back, float(share), _rescaled(known.middle, own), known.covariance)
    noise = float(variance.sum() - variance.diagonal().sum()) / (p * (p - 1))
    spread = float((known.covariance**2).sum()) / p
    if p * noise / (math.sqrt(max(spread, 1.0)) + math.sqrt(noise)) ** 2 >= MOST_NOISE:
        return None  # the mean of the eigenvalues' sizes is no larger than their root mean square
    values, vectors = eigh(known.covariance)
    own = largest(values, noise**0.5)
    seen = known.products(vectors.T)
    share = 0.0
    for w, P in seen:
        f = P.diagonal()
        share += w * (float((f / own).sum()) ** 2 - float(((f / own) ** 2).sum())) / p
    if share >= MOST_NOISE:
        return None
    inner = vectors * 0.0
    set_diagonal(inner, values / own)
    return _Evened(vectors.T / (own**0.5)[:, None], share, inner, known.covariance)


def _rescaled(A: Array, own: Array) -> Array:
    rate = own**-0.5
    return A * rate[:, None] * rate


def _sparse(known: Estimate, variance: Array) -> Pilot:
    free, p = problem_of(known, variance, diagonal=False), len(known.covariance)

    def at(deviations: float) -> Pilot:
        alpha = deviations * free.noise
        while not free.is_safe(alpha):
            alpha *= _GROWTH
        return Pilot(free.fit(alpha, None, COARSE / 10).precision, alpha)

    return sparse_pilot(at, lambda precision: p * _mean_square(known, precision))


@dataclass(frozen=True, eq=False)
class LargePairs:
    """Partial correlations i < j of the pairs that were kept, with their uncertainty, and how many were tested.

    The q-values are those of Benjamini and Hochberg with every pair as a test: never smaller than if all were kept, and
    the same wherever a pair is selected.
    """

    i: npt.NDArray[np.int64]
    j: npt.NDArray[np.int64]
    estimate: FloatArray
    error: FloatArray
    p_value: FloatArray
    q_value: FloatArray
    tested: int


def _tilted_variance(products: list[tuple[float, Array]], rho: Array, rows: slice) -> Array:
    """Var of a E b + (rho / 2)(a E a + b E b) for some rows of pairs."""
    total = 0.0
    for weight, P in products:
        own = P.diagonal()
        one, other, both = own[rows, None], own[None, :], P[rows] ** 2
        part = one * other + both + 2 * rho * P[rows] * (one + other)
        part += rho**2 / 2 * (one**2 + other**2 + 2 * both)
        total = total + weight * part
    return total


def _loads(precision: Array) -> tuple[Array, Array]:
    scale = precision.diagonal() ** 0.5
    return precision / scale[:, None], scale


def _mean_square(known: Estimate, precision: Array) -> float:
    """Mean variance of a partial correlation."""
    load, scale = _loads(precision)
    products, p, total = known.products(load), len(precision), 0.0
    for rows in strips(precision):
        rho = precision[rows] / -(scale[rows, None] * scale)
        found = largest(_tilted_variance(products, rho, rows), 0.0)
        total += float(found.sum()) - float(found[:, rows].diagonal().sum())
    return total / (p * (p - 1))


def infer(known: Estimate, base: Pilot, edges: Array, bent: FloatArray | None, astray: FloatArray | None) -> LargePairs:
    """Every pair is tested, strip by strip; kept are those with a small p-value and those that `edges` says."""
    T, p = base.precision, len(base.precision)
    twice = known.covariance @ T
    debiased = T @ twice
    del twice
    load, scale = _loads(T)
    products = known.products(load)
    del load
    own = 2 * T.diagonal() - debiased.diagonal()
    own = own * (own > 0) + T.diagonal() * (own <= 0)
    tested = p * (p - 1) // 2
    highest = max(_LEAST * 1e-9, min(_LEAST, _MOST / tested))
    least = _quantile(highest)
    shares = [on(T, one) * T.diagonal() for one in (bent, astray) if one is not None]
    found: list[tuple[Any, ...]] = []
    for rows in strips(T):
        rho = T[rows] / -(scale[rows, None] * scale)
        error = largest(_tilted_variance(products, rho, rows), 0.0) * (1 + base.blur)
        estimate = (2 * T[rows] - debiased[rows]) / -((own[rows, None] * own) ** 0.5)
        if bent is not None:
            error = error + BENDING**2 * shares[0][rows, None] * shares[0]
        if astray is not None:
            error = error + shares[-1][rows, None] + shares[-1]
        error = error**0.5
        kept = (abs(estimate) >= least * error) | edges[rows]
        kept = kept.triu(rows.start + 1) if is_tensor(kept) else np.triu(kept, rows.start + 1)
        i, j = kept.nonzero(as_tuple=True) if is_tensor(kept) else kept.nonzero()
        found.append((to_host(i) + rows.start, to_host(j), to_host(estimate[i, j]), to_host(error[i, j])))
    i, j, estimate, error = (np.concatenate(parts) for parts in zip(*found, strict=True))
    p_value = two_sided(np.abs(estimate) / error)
    return LargePairs(i, j, estimate, error, p_value, q_values(p_value, tested, highest), tested)


def q_values(p_value: FloatArray, tested: int, highest: float) -> FloatArray:
    """Benjamini and Hochberg's, of a list that has every p-value up to `highest`, among `tested` tests.

    q_(k) = min over ranks l >= k of m p_(l) / l. Ranks beyond the list are not seen, so that the minimum is taken over
    fewer: q can only be larger. A pair beyond `highest` has a rank of at least one more than the list has below it.
    """
    q = np.ones(p_value.size)
    inside = np.flatnonzero(p_value <= highest)
    order = inside[np.argsort(p_value[inside], kind="stable")]
    ranked = tested * p_value[order] / np.arange(1, order.size + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(ranked[::-1])[::-1])
    beyond = p_value > highest
    q[beyond] = np.minimum(1.0, tested * p_value[beyond] / (inside.size + 1))
    return q


def _quantile(p_value: float) -> float:
    """The z with P(|Z| >= z) = p_value."""
    low, high = 0.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if float(two_sided([middle])[0]) > p_value else (low, middle)
    return low


@dataclass(frozen=True, eq=False)
class LargeAnswer:
    """Everything that a graph of many columns is made of, on the host but for the fit's own matrices.

    deviations   what columns were divided by; `hidden` says of which noise hides the variance
    entries      i, j (i <= j) and the value of every entry of the chosen precision that is not zero
    smallest     eigenvalue of the covariance
    """

    choice: Choice
    alpha_for_inference: float
    pairs: LargePairs
    deviations: FloatArray
    hidden: npt.NDArray[np.bool_]
    entries: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatArray]
    rows: float
    smallest: float


def recover_large(
    known: Estimate,
    *,
    alpha: float | None = None,
    uniform: bool = False,
    bent: FloatArray | None = None,
    astray: FloatArray | None = None,
    tell: Callable[[str, float], None] = lambda step, share: None,
) -> LargeAnswer:
    """From a covariance and its error to a fit, and to error bars; all of it where the covariance lies."""
    known, deviations, hidden = known.standardised(DOUBT)
    variance = known.entry_variance()
    rows = effective_rows(variance)
    problem = problem_of(known, variance)
    if uniform:
        problem = replace(problem, weights=None)
    if alpha is None:
        choice = choose(problem, rows, lambda share: tell("choosing the penalty", share))
    else:
        choice = Choice("given", alpha, problem.fit(alpha, None, 10 * FINE))
    del problem
    tell("working out intervals for every pair", 0.0)
    base = pilot(known, variance)
    del variance
    edges: Array = abs(choice.solution.precision) > NONZERO
    pairs = infer(known, base, edges, bent, astray)
    kept: Array = edges.triu() if is_tensor(edges) else np.triu(edges)
    i, j = kept.nonzero(as_tuple=True) if is_tensor(kept) else kept.nonzero()
    values = to_host(choice.solution.precision[i, j])
    return LargeAnswer(
        choice,
        base.alpha,
        pairs,
        deviations,
        hidden,
        (to_host(i), to_host(j), values),
        rows,
        _smallest(known.covariance),
    )


def _smallest(A: Array) -> float:
    """The smallest eigenvalue, to three digits of the largest."""
    top = abs(float(leading(A, 1, 1e-3)[0][0])) * 1.01
    turned = A * -1.0
    set_diagonal(turned, turned.diagonal() + top)
    return top - float(leading(turned, 1, 1e-3)[0][0])
