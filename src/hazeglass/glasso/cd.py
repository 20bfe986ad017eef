"""Block coordinate descent on the dual: the paper's Algorithm 1, and the fastest way when it has a safe start.

Column j of W solves min w' inv(W_11) w over its part of the box, which is a lasso in beta = inv(W_11) w. From a
positive definite W inside the box every update keeps W positive definite. The start is S moved towards zero by the
penalty: always in the box, and nearly always positive definite. Should it not be, the descent gets a few sweeps only
and ends at the first Schur complement that is not positive; nothing is believed without the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hazeglass.glasso.distance import psd_distance
from hazeglass.glasso.kernels import BROKEN, GROW, SHORT, sweep, threshold_into
from hazeglass.glasso.linalg import FloatArray, cholesky
from hazeglass.glasso.objective import NO_LIMIT, Attempt, Certificate, Clock, Start
from hazeglass.glasso.penalty import Penalty
from hazeglass.glasso.sparse import Lists, certify_sparse

DEFAULT_MAX_ITER = 200
FIRST_CAPACITY = 64
# Inner tolerances. The first sweep sees columns of W that are still wrong by about the squared correlations, so
# solving its lassos exactly is wasted, unless the columns hardly know each other: then one sweep is enough.
FIRST_TOLERANCE = 1e-2
WEAK_COUPLING, STRONG_COUPLING = 0.01, 0.15
DENSE = 0.2  # share of non-zeros from which the start is factored before the first sweep
UNSAFE_SWEEPS = 8
STALL = 12  # sweeps without halving the gap: rounding or an unsafe start, not progress


class Effort(NamedTuple):
    """How far each column's lasso is solved: times that violators join it, passes over it, largest tolerance."""

    rounds: int
    passes: int
    tolerance: float


QUICK = Effort(1, 6, np.inf)
PATIENT = Effort(50, 500, 1e-9)  # a nearly singular W: lassos left unsolved would throw it off the cone


@dataclass(eq=False)
class _Lists:
    """beta of every column: count[j] pairs (index, value), and the Schur complement w_jj - w'beta."""

    index: NDArray[np.uint32]
    value: FloatArray
    count: NDArray[np.int64]
    schur: FloatArray
    scratch: tuple[NDArray[np.uint64], FloatArray, FloatArray]  # what a sweep works in: A, G and long

    @classmethod
    def empty(cls, p: int, capacity: int) -> _Lists:
        shape = (p, min(p, capacity))
        return cls(np.empty(shape, np.uint32), np.empty(shape), np.zeros(p, np.int64), np.ones(p), _scratch(*shape))

    @classmethod
    def of_precision(cls, T: FloatArray) -> _Lists:
        """beta_ij = -T_ij / T_jj."""
        j, i = np.nonzero(T - np.diag(np.diagonal(T)))
        count = np.bincount(j, minlength=len(T))
        most = int(np.max(count))
        lists = cls.empty(len(T), FIRST_CAPACITY if most <= FIRST_CAPACITY else 2 * most)
        place = np.arange(j.size) - np.repeat(np.cumsum(count) - count, count)
        lists.index[j, place], lists.value[j, place], lists.count[:] = i, -T[j, i] / T[j, j], count
        return lists

    @property
    def beta(self) -> Lists:
        return self.index, self.value, self.count, self.schur

    def grow(self) -> None:
        p, capacity = self.index.shape
        more = ((0, 0), (0, min(p, 2 * capacity) - capacity))
        self.index, self.value = np.pad(self.index, more), np.pad(self.value, more)
        self.scratch = _scratch(*self.index.shape)


def _scratch(p: int, capacity: int) -> tuple[NDArray[np.uint64], FloatArray, FloatArray]:
    # rows of G a power of two apart would share cache sets; its last rows are the vectors over the active set
    return np.empty(capacity, np.uint64), np.empty((capacity + SHORT, capacity + 8)), np.empty((2, p))


def solve(
    S: FloatArray,
    penalty: Penalty,
    *,
    tol: float,
    max_iter: int | None = None,
    start: Start | None = None,
    clock: Clock = NO_LIMIT,
    effort: Effort = QUICK,
) -> Attempt:
    """Sweep until the gap is at most tol * p, or the time is spent.

    An attempt without certificate means: no safe start here.
    """
    p = penalty.size
    later_tol = float(np.clip(100 * tol, 1e-5, FIRST_TOLERANCE))
    W, lists, inner_tol, density = _begin(S, penalty, start, later_tol)
    limit = max_iter or DEFAULT_MAX_ITER
    # Where sweeps are dear a factor is cheap. Without a safe start the descent still often arrives, and then soon.
    if density > DENSE and cholesky(W) is None:
        limit = min(limit, UNSAFE_SWEEPS)
    sd = np.sqrt(np.diagonal(W))
    best: Certificate | None = None
    tried, last_progress, mark = 0, 0, np.inf
    for count in range(1, limit + 1):
        tried = count
        if not _sweep(S, penalty.off, W, sd, lists, min(inner_tol, effort.tolerance), effort):
            break
        inner_tol = max(min(0.1 * inner_tol, later_tol), 1e-14)
        slack, found = certify_sparse(lists.beta, S, penalty, W, sd, tol)
        if found is not None and (best is None or found.gap < best.gap):
            best = found
        if best is not None and best.gap <= tol * p:
            break
        if slack < mark / 2 or (best is not None and best.gap < mark / 2):
            last_progress, mark = count, min(slack, best.gap if best else np.inf)
        if count - last_progress > STALL or clock.over:
            break
    return Attempt(best, tried)


def solve_from_safe_start(
    S: FloatArray, penalty: Penalty, *, tol: float, max_iter: int | None = None, clock: Clock = NO_LIMIT
) -> Attempt:
    """Patient sweeps from a positive definite W inside the box. No certificate: no such W was found in time.

    Finding that W (or the proof that there is none) may take a search for the nearest positive semidefinite matrix. It
    is worth it close to d(S), where the likelihood hardly has a minimum and newton and admm crawl.
    """
    begin = S + np.diag(penalty.diagonal)  # the start of the paper's Algorithm 1
    if cholesky(begin) is None:
        if penalty.alpha == 0:
            return Attempt(None, 0)
        steps = int(np.clip(5e10 / penalty.size**3, 100, 20_000))
        near = psd_distance(S, penalty.full() / penalty.alpha, threshold=penalty.alpha, max_steps=steps, clock=clock)
        if near.lower >= penalty.alpha:
            return Attempt(None, 0, unbounded=True)
        if not near.upper < penalty.alpha:
            return Attempt(None, 0)
        begin = _inside(near.nearest, S, penalty)
        if cholesky(begin) is None:
            return Attempt(None, 0)
    start = Start(np.diag(1.0 / penalty.fitted(np.diagonal(S))), begin)
    return solve(S, penalty, tol=tol, max_iter=max_iter, start=start, clock=clock, effort=PATIENT)


def _inside(nearest: FloatArray, S: FloatArray, penalty: Penalty) -> FloatArray:
    """`nearest` mixed with the fitted variances as far as the box allows, which makes it positive definite."""
    off = ~np.eye(penalty.size, dtype=bool) & (nearest != 0)
    room = (penalty.full() - np.abs(nearest - S))[off] / np.abs(nearest[off])
    share = float(np.clip(np.min(room, initial=1.0), 0.0, 1.0))
    return penalty.into_box((1.0 - share) * nearest, S)


def _begin(
    S: FloatArray, penalty: Penalty, start: Start | None, later_tol: float
) -> tuple[FloatArray, _Lists, float, float]:
    """W inside the box, the coefficients, the first inner tolerance, and the share of non-zeros to expect."""
    if start is not None:
        lists = _Lists.of_precision(start.precision)
        return penalty.into_box(start.covariance, S), lists, later_tol, float(np.mean(lists.count)) / penalty.size
    W = np.empty_like(S)
    rate = 1.0 / penalty.fitted(np.diagonal(S))
    coupling, density = threshold_into(S, penalty.off, penalty.diagonal, rate, W)
    inner_tol = later_tol if coupling < WEAK_COUPLING else FIRST_TOLERANCE
    if coupling > STRONG_COUPLING:
        inner_tol *= 3
    return W, _Lists.empty(penalty.size, FIRST_CAPACITY), inner_tol, float(density)


def _sweep(
    S: FloatArray, lam: FloatArray, W: FloatArray, sd: FloatArray, lists: _Lists, inner_tol: float, effort: Effort
) -> bool:
    """One pass over all columns; False where W proved not to be positive definite."""
    settings = inner_tol, effort.rounds, effort.passes
    status, column = sweep(S, lam, W, sd, *lists.beta, 0, *settings, *lists.scratch)
    while status == GROW:
        lists.grow()
        status, column = sweep(S, lam, W, sd, *lists.beta, column, *settings, *lists.scratch)
    return bool(status != BROKEN)
