"""Exact screening: columns of different components of |S_ij| > alpha w_ij are never joined by an edge.

T and W are then block diagonal, the gap of the whole is the sum over the blocks, and each block is solved by
itself (Witten, Friedman and Simon 2011; Mazumder and Hastie 2012). docs/maths/solvers.md has the two-line proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hazeglass.glasso.compiled import announce_compilation, inlined, kernel
from hazeglass.glasso.linalg import FloatArray, blank
from hazeglass.glasso.objective import Attempt, Certificate, Start
from hazeglass.glasso.penalty import Penalty

SMALL, BATCH = 32, 64  # components up to SMALL columns are solved together, BATCH columns at a time: fewer calls
DOMINANT = 0.7  # one component with this share of the columns: splitting would cost more copying than it saves


ComponentSolver = Callable[[FloatArray, Penalty, Start | None], Attempt]


@dataclass(frozen=True, eq=False)
class Components:
    """The columns of each component: of those with more than two columns, of pairs, and of columns by themselves."""

    large: list[NDArray[np.intp]]
    pairs: NDArray[np.intp]
    single: NDArray[np.intp]


def split(S: FloatArray, penalty: Penalty) -> Components | None:
    """The components in order of first column; None where there is one, or one so large that it may stand for all."""
    announce_compilation(join_columns)
    p = penalty.size
    root = np.empty(p, np.int64)
    if join_columns(S, penalty.off, root) == 1:
        return None
    sizes = np.bincount(root)
    if DOMINANT * p <= sizes.max() and p > 2:
        return None
    order = np.argsort(root, kind="stable")
    sizes = sizes[sizes > 0]
    first = np.cumsum(sizes) - sizes
    large = [order[first[k] : first[k] + sizes[k]] for k in np.flatnonzero(sizes > 2)]
    return Components(large, order[first[sizes == 2][:, None] + np.arange(2)], order[first[sizes == 1]])


def solve_components(
    S: FloatArray, penalty: Penalty, parts: Components, start: Start | None, solve: ComponentSolver
) -> Attempt:
    """Solve each component and put the answers together; those of one or two columns are done all at once."""
    T, W = blank(S.shape[0]), blank(S.shape[0])

    def one(rows: NDArray[np.intp]) -> Attempt:
        part = None if start is None else start.part(rows)
        answer = solve(np.ascontiguousarray(S[_place(rows)]), penalty.part(rows), part)
        found = answer.certificate
        if found is None:
            return answer
        # written here and let go, so that the next component finds warm memory
        T[_place(rows)], W[_place(rows)] = found.precision, found.covariance
        return replace(answer, certificate=replace(found, precision=T[:0, :0], covariance=W[:0, :0]))

    return _assemble(S, penalty, T, W, [one(rows) for rows in _batch(parts.large)], parts)


def _batch(components: list[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
    """Join small components into batches; what no edge joins, no solver joins either."""
    batches = [rows for rows in components if rows.size > SMALL]
    waiting: list[NDArray[np.intp]] = []
    for rows in components:
        if rows.size > SMALL:
            continue
        if waiting and sum(part.size for part in waiting) + rows.size > BATCH:
            batches.append(np.sort(np.concatenate(waiting)))
            waiting = []
        waiting.append(rows)
    return [*batches, np.sort(np.concatenate(waiting))] if waiting else batches


def _assemble(
    S: FloatArray, penalty: Penalty, T: FloatArray, W: FloatArray, answers: list[Attempt], parts: Components
) -> Attempt:
    """Complete the block-diagonal T and W; log det, objective and gap add up."""
    objective = gap = kkt = 0.0
    for answer in answers:
        found = answer.certificate
        if answer.unbounded or found is None:
            return answer
        objective, gap, kkt = objective + found.objective, gap + found.gap, max(kkt, found.kkt)
    pairs, single = parts.pairs, parts.single
    if not _fill_pairs(S, penalty, pairs, T, W):
        return Attempt(None, 0, unbounded=True, solver="closed form")
    variance = np.diagonal(S)[single] + penalty.diagonal[single]
    W[single, single], T[single, single] = variance, 1.0 / variance
    # at a closed form tr(S T) + penalty is the number of columns, and log det W is the rest of the objective
    i, j = pairs.T
    objective += float(np.sum(np.log(W[i, i] * W[j, j] - W[i, j] ** 2))) + pairs.size
    objective += float(np.sum(np.log(variance))) + single.size
    used = {answer.solver for answer in answers}
    name = "+".join(sorted(used - {"closed form"})) or "closed form"
    steps = max((answer.n_iter for answer in answers), default=0)
    return Attempt(Certificate(T, W, objective, gap, kkt), steps, solver=name)


def _fill_pairs(S: FloatArray, penalty: Penalty, pairs: NDArray[np.intp], T: FloatArray, W: FloatArray) -> bool:
    """All components of two columns in closed form; False where one of them is unbounded."""
    i, j = pairs.T
    first, second = (np.diagonal(S)[k] + penalty.diagonal[k] for k in (i, j))
    paid = np.broadcast_to(penalty.off, S.shape)[i, j]
    shared = np.copysign(np.maximum(np.abs(S[i, j]) - paid, 0.0), S[i, j])
    determinant = first * second - shared**2
    if np.any(determinant <= 1e-14 * first * second):
        return False
    W[i, i], W[j, j], W[i, j], W[j, i] = first, second, shared, shared
    T[i, i], T[j, j] = second / determinant, first / determinant
    T[i, j] = T[j, i] = -shared / determinant
    return True


def _place(rows: NDArray[np.intp]) -> tuple[slice, slice] | tuple[NDArray[np.intp], ...]:
    """An index for the block: slices where its columns are neighbours, which copies much faster."""
    if rows[-1] - rows[0] == rows.size - 1:
        here = slice(int(rows[0]), int(rows[-1]) + 1)
        return here, here
    return np.ix_(rows, rows)


@inlined
def find_root(root, i):  # type: ignore[no-untyped-def]
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


@kernel
def join_columns(S, lam, root):  # type: ignore[no-untyped-def]
    """root[i] = the first column of i's component in the graph |S_ij| > lam_ij; returns the number of components."""
    p = S.shape[0]
    full = lam.shape[0] > 1
    for i in range(p):
        root[i] = i
    apart = p
    for i in range(p):
        if apart == 1:
            break
        s = S[i]
        paid = lam[i if full else 0]
        here = find_root(root, i)
        for j in range(i + 1, p):
            if abs(s[j]) > paid[j]:
                other = find_root(root, j)
                apart -= other != here
                root[max(here, other)] = min(here, other)
                here = min(here, other)
    for i in range(p):
        root[i] = find_root(root, i)
    return apart
