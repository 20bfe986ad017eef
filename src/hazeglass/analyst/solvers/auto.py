"""Choose for the user: exact screening, closed forms, then cd, newton, admm until a certificate arrives."""

from __future__ import annotations

from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.penalty import Penalty
from hazeglass.analyst.solvers import admm, cd, closed_form, newton
from hazeglass.analyst.solvers.attempt import Solver, Start
from hazeglass.analyst.solvers.components import Named
from hazeglass.analyst.solvers.feasible import feasible_start

# Newton closes in within a few steps or not at all (a Hessian too ill-conditioned for coordinate descent); admm does
# not care. Asked for by name, newton gets its own, larger limit.
NEWTON_STEPS = 25
SOLVERS: dict[str, Solver] = {"cd": cd.solve, "newton": newton.solve, "admm": admm.solve}


def solve_block(
    S: FloatArray, penalty: Penalty, start: Start | None, *, solver: str, tol: float, max_iter: int | None
) -> Named:
    """Solve one component with the named solver, or with the first that proves its answer."""
    exact = closed_form.solve(S, penalty)
    if exact is not None and (exact.unbounded or exact.reached(tol)):
        return Named(exact, "closed form")
    best: Named | None = None
    for name in SOLVERS if solver == "auto" else (solver,):
        limit = NEWTON_STEPS if (solver, name, max_iter) == ("auto", "newton", None) else max_iter
        attempt = SOLVERS[name](S, penalty, tol=tol, max_iter=limit, start=start)
        if attempt.certificate is None and solver == "cd":
            safe = feasible_start(S, penalty)
            attempt = attempt if safe is None else cd.solve(S, penalty, tol=tol, max_iter=max_iter, start=safe)
        if attempt.unbounded or attempt.reached(tol):
            return Named(attempt, name)
        best = _better(best, Named(attempt, name))
    assert best is not None
    return best


def _better(best: Named | None, new: Named) -> Named:
    if best is None or best.attempt.certificate is None:
        return new
    if new.attempt.certificate is None or new.attempt.certificate.gap >= best.attempt.certificate.gap:
        return best
    return new
