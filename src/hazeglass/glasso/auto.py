"""Choose for the user: closed forms, cd, newton, some admm, cd from a safe start, all of admm, until one is certified.

Where `cd` has no safe start of its own, `newton` is the faster second on sparse problems; on dense ones coordinate
descent on its ill-conditioned Hessian crawls, so it comes last there. Blocks of several features are for admm alone.
Importing this file imports numba: do it where a solver runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from hazeglass.glasso import admm, cd, newton
from hazeglass.glasso.components import solve_components, split
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.objective import Attempt, Solver, Start, certify
from hazeglass.glasso.penalty import Penalty

# Newton closes in within a few steps or not at all. Asked for by name, it gets its own, larger limit.
NEWTON_STEPS = 25
# So does admm, away from d(S). Close to it, cd from a safe start is usually the quicker one by far, but not always.
SHARE_FIRST, SAFE_SWEEPS = 20, 20
DENSE = 0.2
SOLVERS: dict[str, Solver] = {"cd": cd.solve, "newton": newton.solve, "admm": admm.solve}


def solve_problem(
    S: FloatArray, penalty: Penalty, start: Start | None, *, solver: str, tol: float, max_iter: int | None
) -> Attempt:
    """Solve a problem whose input was checked, component by component."""
    if penalty.block > 1:
        return replace(admm.solve(S, penalty, tol=tol, max_iter=max_iter, start=start), solver="admm")
    solve = partial(solve_component, solver=solver, tol=tol, max_iter=max_iter)
    parts = split(S, penalty)
    return solve(S, penalty, start) if parts is None else solve_components(S, penalty, parts, start, solve)


def solve_component(
    S: FloatArray, penalty: Penalty, start: Start | None, *, solver: str, tol: float, max_iter: int | None
) -> Attempt:
    """Solve one component with the named solver, or with the first that proves its answer."""
    exact = closed_form(S, penalty)
    if exact is not None and (exact.unbounded or exact.reached(tol)):
        return replace(exact, solver="closed form")
    best: Attempt | None = None
    for name, attempt in _attempts(S, penalty, start, solver, tol, max_iter):
        named = replace(attempt, solver=name)
        if attempt.unbounded or attempt.reached(tol):
            return named
        best = _better(best, named)
    assert best is not None
    return best


def _attempts(
    S: FloatArray, penalty: Penalty, start: Start | None, solver: str, tol: float, max_iter: int | None
) -> Iterator[tuple[str, Attempt]]:
    """One after the other, as long as the caller asks for more."""
    if solver not in ("auto", "cd"):
        yield solver, SOLVERS[solver](S, penalty, tol=tol, max_iter=max_iter, start=start)
        return
    yield "cd", cd.solve(S, penalty, tol=tol, max_iter=max_iter, start=start)
    if solver == "cd":
        if max_iter is None:
            yield "cd", cd.solve_from_safe_start(S, penalty, tol=tol)
        return
    steps = max_iter or NEWTON_STEPS
    sparse = np.count_nonzero(np.abs(S) > penalty.off) <= DENSE * S.size
    if sparse:
        yield "newton", newton.solve(S, penalty, tol=tol, max_iter=steps, start=start)
    few = max_iter or admm.default_max_iter(penalty.size) // SHARE_FIRST
    yield "admm", admm.solve(S, penalty, tol=tol, max_iter=few, start=start)
    yield "cd", cd.solve_from_safe_start(S, penalty, tol=tol, max_iter=max_iter or SAFE_SWEEPS)
    if max_iter is None:
        yield "admm", admm.solve(S, penalty, tol=tol, start=start)
    if not sparse:
        yield "newton", newton.solve(S, penalty, tol=tol, max_iter=steps, start=start)


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
