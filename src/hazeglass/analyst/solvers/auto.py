"""Choose for the user: closed forms, cd, newton, some admm, cd from a safe start, all of admm, until one is certified.

Where `cd` has no safe start of its own, `newton` is the faster second on sparse problems; on dense ones coordinate
descent on its ill-conditioned Hessian crawls, so it comes last there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.penalty import Penalty
from hazeglass.analyst.solvers import admm, cd, closed_form, newton, safe
from hazeglass.analyst.solvers.attempt import Attempt, Solver, Start
from hazeglass.analyst.solvers.components import Named
from hazeglass.analyst.solvers.splitting import default_max_iter

# Newton closes in within a few steps or not at all. Asked for by name, it gets its own, larger limit.
NEWTON_STEPS = 25
# So does admm, away from d(S). Close to it, cd from a safe start is usually the quicker one by far, but not always.
SHARE_FIRST, SAFE_SWEEPS = 20, 20
DENSE = 0.2
SOLVERS: dict[str, Solver] = {"cd": cd.solve, "newton": newton.solve, "admm": admm.solve}


def solve_block(
    S: FloatArray, penalty: Penalty, start: Start | None, *, solver: str, tol: float, max_iter: int | None
) -> Named:
    """Solve one component with the named solver, or with the first that proves its answer."""
    exact = closed_form.solve(S, penalty)
    if exact is not None and (exact.unbounded or exact.reached(tol)):
        return Named(exact, "closed form")
    best: Named | None = None
    for name, attempt in _attempts(S, penalty, start, solver, tol, max_iter):
        if attempt.unbounded or attempt.reached(tol):
            return Named(attempt, name)
        best = _better(best, Named(attempt, name))
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
            yield "cd", safe.solve(S, penalty, tol=tol)
        return
    steps = max_iter or NEWTON_STEPS
    sparse = np.count_nonzero(np.abs(S) > penalty.off) <= DENSE * S.size
    if sparse:
        yield "newton", newton.solve(S, penalty, tol=tol, max_iter=steps, start=start)
    few = max_iter or default_max_iter(penalty.size) // SHARE_FIRST
    yield "admm", admm.solve(S, penalty, tol=tol, max_iter=few, start=start)
    yield "cd", safe.solve(S, penalty, tol=tol, max_iter=max_iter or SAFE_SWEEPS)
    if max_iter is None:
        yield "admm", admm.solve(S, penalty, tol=tol, start=start)
    if not sparse:
        yield "newton", newton.solve(S, penalty, tol=tol, max_iter=steps, start=start)


def _better(best: Named | None, new: Named) -> Named:
    if best is None or best.attempt.certificate is None:
        return new
    if new.attempt.certificate is None or new.attempt.certificate.gap >= best.attempt.certificate.gap:
        return best
    return new
