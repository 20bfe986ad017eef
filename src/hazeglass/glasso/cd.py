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

from hazeglass.glasso.cd_kernels import (
    BROKEN,
    DONE,
    GROW,
    SHORT,
    clip_into,
    fill_lists,
    sweep,
    symmetrise,
    threshold_into,
)
from hazeglass.glasso.distance import psd_distance
from hazeglass.glasso.linalg import FloatArray, blank, cholesky, logdet
from hazeglass.glasso.objective import Attempt, Certificate, Start
from hazeglass.glasso.penalty import Penalty
from hazeglass.glasso.sparse import inverse_miss, sparse_logdet

DEFAULT_MAX_ITER = 200
FIRST_CAPACITY = 64
# Inner tolerances. The first sweep sees columns of W that are still wrong by about the squared correlations, so
# solving its lassos exactly is wasted, unless the columns hardly know each other: then one sweep is enough.
FIRST_TOLERANCE = 1e-2
WEAK_COUPLING, STRONG_COUPLING = 0.01, 0.15
SPARSE_FROM = 150  # columns from which eliminating those of low degree first pays where rows have few entries
PER_PAGE = 1 / 1024  # share of non-zeros below which most small pages of a matrix have none
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
        lists = cls.empty(T.shape[0], FIRST_CAPACITY)
        fill_lists(T, lists.index, lists.value, lists.count)
        most = int(np.max(lists.count))
        if most > lists.index.shape[1]:
            lists = cls.empty(T.shape[0], 2 * most)
            fill_lists(T, lists.index, lists.value, lists.count)
        return lists

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
    effort: Effort = QUICK,
) -> Attempt:
    """Sweep until the gap is at most tol * p. An attempt without certificate means: no safe start here."""
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
        slack, found = _check(S, penalty, W, sd, lists, tol)
        if found is not None and (best is None or found.gap < best.gap):
            best = found
        if best is not None and best.gap <= tol * p:
            break
        if slack < mark / 2 or (best is not None and best.gap < mark / 2):
            last_progress, mark = count, min(slack, best.gap if best else np.inf)
        if count - last_progress > STALL:
            break
    return Attempt(best, tried)


def solve_from_safe_start(S: FloatArray, penalty: Penalty, *, tol: float, max_iter: int | None = None) -> Attempt:
    """Patient sweeps from a positive definite W inside the box. No certificate: no such W was found in time.

    Finding that W (or the proof that there is none) may take a search for the nearest positive semidefinite matrix. It
    is worth it close to d(S), where the likelihood hardly has a minimum and newton and admm crawl.
    """
    begin = S + np.diag(penalty.diagonal)  # the start of the paper's Algorithm 1
    if cholesky(begin) is None:
        if penalty.alpha == 0:
            return Attempt(None, 0)
        steps = int(np.clip(5e10 / penalty.size**3, 100, 20_000))
        near = psd_distance(S, penalty.full() / penalty.alpha, threshold=penalty.alpha, max_steps=steps)
        if near.lower >= penalty.alpha:
            return Attempt(None, 0, unbounded=True)
        if not near.upper < penalty.alpha:
            return Attempt(None, 0)
        begin = _inside(near.nearest, S, penalty)
        if cholesky(begin) is None:
            return Attempt(None, 0)
    start = Start(np.diag(1.0 / penalty.fitted(np.diagonal(S))), begin)
    return solve(S, penalty, tol=tol, max_iter=max_iter, start=start, effort=PATIENT)


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
    W = np.empty_like(S)
    if start is not None:
        lists = _Lists.of_precision(start.precision)
        clip_into(start.covariance, S, penalty.off, penalty.diagonal, W)
        return W, lists, later_tol, float(np.mean(lists.count)) / penalty.size
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
    column = 0
    while True:
        beta = lists.index, lists.value, lists.count, lists.schur
        status, column = sweep(S, lam, W, sd, *beta, column, inner_tol, effort.rounds, effort.passes, *lists.scratch)
        if status == GROW:
            lists.grow()
            continue
        assert status in (DONE, BROKEN)
        return bool(status == DONE)


def _check(
    S: FloatArray, penalty: Penalty, W: FloatArray, sd: FloatArray, lists: _Lists, tol: float
) -> tuple[float, Certificate | None]:
    """The slackness of the current pair, and its certificate where that leaves room for one."""
    p = penalty.size
    most = p + 2 * int(np.sum(lists.count))
    start, column, entry = np.empty(p + 1, np.int64), np.empty(most, np.int64), np.empty(most)
    beta = lists.index, lists.value, lists.count, lists.schur
    box = S, penalty.off, penalty.diagonal, W, sd
    size, slack, linear, kkt = symmetrise(*beta, *box, start, column, entry, np.empty((3, p + 1), np.int64))
    column, entry = column[:size], entry[:size]
    if slack > tol * p:
        return float(slack), None
    miss = np.inf
    if entry.size * 30 < p * p:  # cheaper than a Cholesky factor of W
        # a sum ended early is above 6 tol p, so the miss is above 3 tol p: never taken for the gap
        rows = start, column.astype(np.uint64), entry
        norm = float(np.sqrt(inverse_miss(*rows, W, sd, 6 * tol * p, np.empty(p))))
        miss = norm * norm / (2.0 * (1.0 - norm)) if norm < 1 else np.inf
        if norm < 0.5 and slack + miss > 3 * tol * p:
            return float(slack), None
    log_determinant, T = _logdet(start, column, entry)
    if log_determinant is None:
        return float(slack), None
    objective = linear - log_determinant
    gap = slack + miss
    if gap > tol * p:
        dual_factor = cholesky(W)
        if dual_factor is None:
            return float(slack), None
        gap = objective - logdet(dual_factor) - p
    dual = W.copy() if gap > tol * p else W  # the next sweep would overwrite it
    return float(slack), Certificate(T, dual, float(objective), max(float(gap), 0.0), float(kkt))


def _logdet(start: NDArray[np.int64], column: NDArray[np.int64], entry: FloatArray) -> tuple[float | None, FloatArray]:
    """log det of the precision given as compressed rows, None where it is not positive definite; and the precision."""
    p = start.size - 1
    if p >= SPARSE_FROM and column.size < min(30, p // 20) * p:
        found = sparse_logdet(_written(start, column, entry), start, column)
        return found, _written(start, column, entry)
    T = _written(start, column, entry)
    factor = cholesky(T)
    return None if factor is None else logdet(factor), T


def _written(start: NDArray[np.int64], column: NDArray[np.int64], entry: FloatArray) -> FloatArray:
    """The matrix of these compressed rows."""
    p = start.size - 1
    T = blank(p) if column.size < PER_PAGE * p * p else np.zeros((p, p))
    T.reshape(-1)[np.repeat(np.arange(0, p * p, p), np.diff(start)) + column] = entry
    return T
