"""Exact screening: columns of different components of |S_ij| > alpha w_ij are never joined by an edge.

T and W are then block diagonal, the gap of the whole is the sum over the blocks, and each block is solved by
itself (Witten, Friedman and Simon 2011; Mazumder and Hastie 2012). docs/maths/solvers.md has the two-line proof.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.objective import Certificate
from hazeglass.analyst.penalty import Penalty
from hazeglass.analyst.solvers.attempt import Attempt, Start

DOMINANT = 0.7  # one component with this share of the columns: splitting would cost more copying than it saves


@dataclass(frozen=True, eq=False)
class Named:
    """An attempt and the name of the solver that made it."""

    attempt: Attempt
    solver: str


BlockSolver = Callable[[FloatArray, Penalty, Start | None], Named]


def split(S: FloatArray, penalty: Penalty) -> list[NDArray[np.intp]]:
    """The columns of each component, in order of first column; one list of all when one component dominates."""
    from hazeglass.analyst.solvers.screen_kernel import component_labels

    p = penalty.size
    labels, count = component_labels(S, penalty.off)
    sizes = np.bincount(labels, minlength=count)
    if count == 1 or (DOMINANT * p <= sizes.max() < p and p > 2):
        return [np.arange(p)]
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])


def solve_blocks(
    S: FloatArray,
    penalty: Penalty,
    blocks: list[NDArray[np.intp]],
    start: Start | None,
    solve: BlockSolver,
    n_threads: int = 1,
) -> Named:
    """Solve each block and put the pieces together; blocks of one column are done all at once."""
    if len(blocks) == 1:
        return solve(S, penalty, start)
    large = [rows for rows in blocks if rows.size > 1]

    def one(rows: NDArray[np.intp]) -> Named:
        part = None if start is None else start.part(rows)
        return solve(np.ascontiguousarray(S[_place(rows)]), penalty.part(rows), part)

    if n_threads > 1 and len(large) > 1:
        with ThreadPoolExecutor(n_threads) as pool:
            answers = list(pool.map(one, large))
    else:
        answers = [one(rows) for rows in large]
    return _assemble(S, penalty, large, answers)


def _assemble(S: FloatArray, penalty: Penalty, large: list[NDArray[np.intp]], answers: list[Named]) -> Named:
    """Block-diagonal T and W; log det, objective and gap add up."""
    p = penalty.size
    T, W = np.zeros((p, p)), np.zeros((p, p))
    fitted = np.diagonal(S) + penalty.diagonal
    alone = np.ones(p, dtype=bool)
    objective = gap = kkt = 0.0
    for rows, answer in zip(large, answers, strict=True):
        found = answer.attempt.certificate
        if answer.attempt.unbounded or found is None:
            return answer
        alone[rows] = False
        place = _place(rows)
        T[place], W[place] = found.precision, found.covariance
        objective, gap, kkt = objective + found.objective, gap + found.gap, max(kkt, found.kkt)
    single = np.flatnonzero(alone)
    T[single, single], W[single, single] = 1.0 / fitted[single], fitted[single]
    objective += float(np.sum(np.log(fitted[single]))) + single.size
    used = {answer.solver for answer in answers}
    name = "+".join(sorted(used - {"closed form"})) or "closed form"
    steps = max((answer.attempt.n_iter for answer in answers), default=0)
    return Named(Attempt(Certificate(T, W, objective, gap, kkt), steps), name)


def _place(rows: NDArray[np.intp]) -> tuple[slice, slice] | tuple[NDArray[np.intp], ...]:
    """An index for the block: slices where its columns are neighbours, which copies much faster."""
    if rows[-1] - rows[0] == rows.size - 1:
        here = slice(int(rows[0]), int(rows[-1]) + 1)
        return here, here
    return np.ix_(rows, rows)
