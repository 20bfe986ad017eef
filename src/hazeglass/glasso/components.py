"""Solve a checked problem: component by component, each with the first solver that proves its answer.

Exact screening: columns of different components of |S_ij| > alpha w_ij are never joined by an edge. T and W are then
block diagonal, the gap of the whole is the sum over the blocks, and each block is solved by itself (Witten, Friedman
and Simon 2011; Mazumder and Hastie 2012). docs/maths/solvers.md has the two-line proof.

Solvers are tried in this order: closed forms, cd, newton, some admm, cd from a safe start, all of admm. Where `cd` has
no safe start of its own, `newton` is the faster second on sparse problems; on dense ones coordinate descent on its
ill-conditioned Hessian crawls, so it comes last there. Blocks of several features are for admm alone.
Importing this file imports numba: do it where a solver runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hazeglass.glasso import admm, cd, newton
from hazeglass.glasso.kernels import announce_compilation, inlined, kernel
from hazeglass.glasso.linalg import FloatArray, blank
from hazeglass.glasso.objective import NO_LIMIT, Attempt, Certificate, Clock, Solver, Start, certify
from hazeglass.glasso.penalty import Penalty, block_norms

# Newton closes in within a few steps or not at all. Asked for by name, it gets its own, larger limit.
NEWTON_STEPS = 25
# So does admm, away from d(S). Close to it, cd from a safe start is usually the quicker one by far, but not always.
SHARE_FIRST, SAFE_SWEEPS = 20, 20
DENSE = 0.2
SOLVERS: dict[str, Solver] = {"cd": cd.solve, "newton": newton.solve, "admm": admm.solve}
SMALL, BATCH = 32, 64  # components up to SMALL columns are solved together, BATCH columns at a time: fewer calls
DOMINANT = 0.7  # one component with this share of the columns: splitting would cost more copying than it saves
ComponentSolver = Callable[[FloatArray, Penalty, Start | None], Attempt]


def solve_problem(
    S: FloatArray,
    penalty: Penalty,
    start: Start | None,
    *,
    solver: str,
    tol: float,
    max_iter: int | None,
    clock: Clock = NO_LIMIT,
) -> Attempt:
    """Solve a problem whose input was checked, component by component."""
    if penalty.block > 1:
        return _solve_blocks(S, penalty, start, tol=tol, max_iter=max_iter, clock=clock)
    solve = partial(solve_component, solver=solver, tol=tol, max_iter=max_iter, clock=clock)
    parts = split(S, penalty)
    return solve(S, penalty, start) if parts is None else solve_components(S, penalty, parts, start, solve)


def _solve_blocks(
    S: FloatArray, penalty: Penalty, start: Start | None, *, tol: float, max_iter: int | None, clock: Clock
) -> Attempt:
    """The same for columns of several features, by admm: blocks shorter than their penalty join no columns either."""
    solve = partial(admm.solve, tol=tol, max_iter=max_iter, clock=clock)
    parts = split(block_norms(S, penalty.block), penalty)
    if parts is None:
        return replace(solve(S, penalty, start=start), solver="admm")
    T, W = blank(len(S)), blank(len(S))
    total = Attempt(Certificate(T, W, 0.0, 0.0, 0.0), 0, solver="admm")
    for columns in _batch([*parts.large, *parts.pairs, *parts.single[:, None]]):
        rows = (columns[:, None] * penalty.block + np.arange(penalty.block)).ravel()
        here = np.ix_(rows, rows)
        part = None if start is None else start.part(rows)
        answer = solve(np.ascontiguousarray(S[here]), penalty.part(columns), start=part)
        found, sums = answer.certificate, total.certificate
        if found is None or sums is None:
            return replace(answer, solver="admm")
        T[here], W[here] = found.precision, found.covariance
        objective, gap, kkt = sums.objective + found.objective, sums.gap + found.gap, max(sums.kkt, found.kkt)
        total = Attempt(Certificate(T, W, objective, gap, kkt), max(total.n_iter, answer.n_iter), solver="admm")
    return total


def solve_component(
    S: FloatArray,
    penalty: Penalty,
    start: Start | None,
    *,
    solver: str,
    tol: float,
    max_iter: int | None,
    clock: Clock = NO_LIMIT,
) -> Attempt:
    """Solve one component with the named solver, or with the first that proves its answer."""
    exact = closed_form(S, penalty)
    if exact is not None and (exact.unbounded or exact.reached(tol)):
        return replace(exact, solver="closed form")
    best: Attempt | None = None
    for name, attempt in _attempts(S, penalty, start, solver, tol, max_iter, clock):
        named = replace(attempt, solver=name)
        if attempt.unbounded or attempt.reached(tol):
            return named
        best = _better(best, named)
        if clock.over:
            break
    assert best is not None
    return best


def _attempts(
    S: FloatArray, penalty: Penalty, start: Start | None, solver: str, tol: float, max_iter: int | None, clock: Clock
) -> Iterator[tuple[str, Attempt]]:
    """One after the other, as long as the caller asks for more."""
    if solver not in ("auto", "cd"):
        yield solver, SOLVERS[solver](S, penalty, tol=tol, max_iter=max_iter, start=start, clock=clock)
        return
    yield "cd", cd.solve(S, penalty, tol=tol, max_iter=max_iter, start=start, clock=clock)
    if solver == "cd":
        if max_iter is None:
            yield "cd", cd.solve_from_safe_start(S, penalty, tol=tol, clock=clock)
        return
    steps = max_iter or NEWTON_STEPS
    sparse = np.count_nonzero(np.abs(S) > penalty.off) <= DENSE * S.size
    if sparse:
        yield "newton", newton.solve(S, penalty, tol=tol, max_iter=steps, start=start, clock=clock)
    few = max_iter or admm.default_max_iter(penalty.size) // SHARE_FIRST
    yield "admm", admm.solve(S, penalty, tol=tol, max_iter=few, start=start, clock=clock)
    yield "cd", cd.solve_from_safe_start(S, penalty, tol=tol, max_iter=max_iter or SAFE_SWEEPS, clock=clock)
    if max_iter is None:
        yield "admm", admm.solve(S, penalty, tol=tol, start=start, clock=clock)
    if not sparse:
        yield "newton", newton.solve(S, penalty, tol=tol, max_iter=steps, start=start, clock=clock)


def _better(best: Attempt | None, new: Attempt) -> Attempt:
    if best is None or best.certificate is None:
        return new
    return best if new.certificate is None or new.certificate.gap >= best.certificate.gap else new


def closed_form(S: FloatArray, penalty: Penalty) -> Attempt | None:
    """The exact solution for one column, two, or no penalty off the diagonal; None where no closed form applies.

    With W known its inverse is T: for two columns the best off-diagonal is the point of its interval nearest to 0;
    with no penalty the box is the single point S + diagonal penalty. T is computed in units where W has ones on its
    diagonal.
    """
    p = penalty.size
    off = penalty.off[~np.eye(p, dtype=bool)] if not penalty.uniform else penalty.off[:, 1:]
    if p > 2 and np.any(off > 0):
        return None
    W = penalty.into_box(np.zeros_like(S), S)
    scale = np.sqrt(np.diagonal(W))
    units = np.outer(scale, scale)
    values, vectors = np.linalg.eigh(W / units)
    if values[0] <= 1e-14 * values[-1]:
        return Attempt(None, 0, unbounded=True)
    T = (vectors / values) @ vectors.T / units
    return Attempt(certify((T + T.T) / 2, S, penalty, W), 0)


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
