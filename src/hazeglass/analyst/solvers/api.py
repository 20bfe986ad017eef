"""The function users call: check, solve, certify, and say so when it did not work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.analyst.factor import FloatArray, cholesky, inverse
from hazeglass.analyst.nearest_psd import Distance, psd_distance
from hazeglass.analyst.objective import Certificate
from hazeglass.analyst.penalty import Penalty, make_penalty
from hazeglass.analyst.solvers.attempt import Attempt, Start
from hazeglass.analyst.solvers.auto import SOLVERS, solve_block
from hazeglass.analyst.solvers.components import Named, solve_blocks, split
from hazeglass.analyst.validation import as_covariance, check_diagonal
from hazeglass.errors import ConvergenceWarning, SolverInputError, UnboundedObjectiveError, warn


@dataclass(frozen=True, eq=False)
class Solution:
    """A sparse inverse covariance and the proof of how good it is.

    Attributes
    ----------
    precision : array of shape (p, p)
        The minimiser T, positive definite, with exact zeros.
    covariance : array of shape (p, p)
        The dual point W: inside the box |W - S| <= alpha w, positive definite, the inverse of T up to the gap.
    objective : float
        -log det T + tr(S T) + penalty.
    gap : float
        Absolute duality gap: the objective is within `gap` of the smallest possible.
    kkt : float
        Largest |W - S - alpha w sign(T)| over the edges, in units of the fitted standard deviations.
    n_iter : int
        Iterations (sweeps for cd) of the solver that finished, the largest over the components.
    solver : str
        Which solver gave the answer.
    converged : bool
        gap / p <= tol.
    alpha : float
        The penalty it was solved at.
    """

    precision: FloatArray = field(repr=False)
    covariance: FloatArray = field(repr=False)
    objective: float
    gap: float
    kkt: float
    n_iter: int
    solver: str
    converged: bool
    alpha: float


def graphical_lasso(
    covariance: ArrayLike,
    alpha: float,
    *,
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    warm_start: Solution | ArrayLike | None = None,
    names: Sequence[str] | None = None,
    n_threads: int = 1,
    device: str | None = None,
) -> Solution:
    """Sparse inverse covariance of a symmetric, possibly indefinite matrix.

    Parameters
    ----------
    covariance : array of shape (p, p)
        S. Anything numpy.asarray understands; never written to.
    alpha : float
        The penalty, >= 0.
    weights : array of shape (p, p), optional
        Entry (i, j) pays alpha * weights[i, j]: 0 for a known edge, infinity for a known non-edge.
    penalize_diagonal : bool
        Whether the diagonal pays as well (it must where a corrected variance may be negative).
    solver : {"auto", "cd", "newton", "admm"}
        "auto" tries them, cd first, until one proves its answer. Whichever it is, independent groups of columns
        are solved one by one, and groups of one or two columns in closed form.
    tol : float
        Stop when duality gap / p <= tol.
    max_iter : int
        Most iterations of one solver; None for its own limit.
    warm_start : Solution or array, optional
        A precision to begin from.
    names : sequence of str, optional
        Column names, used in messages.
    n_threads : int
        Threads for independent groups of columns, worth it from a tenth of a second of work on. The answer does not
        depend on it.
    device : str, optional
        Where torch computes, e.g. "cuda": for thousands of columns. The certificate is the same as on the CPU.
        A torch tensor as covariance gives tensors back; the choice of solver and warm_start do not apply.

    Returns
    -------
    Solution

    Raises
    ------
    SolverInputError
        Something about the input makes no sense.
    UnboundedObjectiveError
        No estimate exists at this penalty; the message says which penalty would do.

    Examples
    --------
    >>> answer = graphical_lasso([[1.0, 0.5], [0.5, 1.0]], alpha=0.1)
    >>> answer.covariance.round(3).tolist()
    [[1.1, 0.4], [0.4, 1.1]]
    """
    check_settings(solver, tol, max_iter)
    if n_threads < 1:
        raise SolverInputError(f"n_threads must be >= 1, got {n_threads}.")
    if device is not None:
        if solver != "auto" or warm_start is not None:
            raise SolverInputError('device goes with solver="auto" and no warm_start: it has one way of its own.')
        return _on_device(covariance, alpha, weights, penalize_diagonal, tol, max_iter, device)
    S = as_covariance(covariance, names, n_threads)
    penalty = make_penalty(S.shape[0], alpha, weights, penalize_diagonal)
    check_diagonal(S, penalty, names)
    start = start_from(warm_start, S.shape[0])
    return solve_checked(S, penalty, solver=solver, tol=tol, max_iter=max_iter, start=start, n_threads=n_threads)


def _on_device(
    covariance: Any,
    alpha: float,
    weights: Any,
    penalize_diagonal: bool,
    tol: float,
    max_iter: int | None,
    device: str,
) -> Solution:
    from hazeglass.analyst.solvers.on_device import as_given, solve_on_device

    found = solve_on_device(
        covariance,
        alpha,
        weights=weights,
        penalize_diagonal=penalize_diagonal,
        tol=tol,
        max_iter=max_iter,
        device=device,
    )
    T, W = as_given(found.precision, covariance), as_given(found.covariance, covariance)
    certificate = Certificate(T, W, found.objective, found.gap, found.kkt)
    return _finish(Named(Attempt(certificate, found.n_iter), f"prox on {device}"), tol, alpha)


def solve_checked(
    S: FloatArray,
    penalty: Penalty,
    *,
    solver: str,
    tol: float,
    max_iter: int | None,
    start: Start | None,
    n_threads: int = 1,
) -> Solution:
    """Solve a problem whose input was checked; raise where it is unbounded, warn where it did not converge."""
    block = partial(solve_block, solver=solver, tol=tol, max_iter=max_iter)
    parts = split(S, penalty)
    answer = block(S, penalty, start) if parts is None else solve_blocks(S, penalty, parts, start, block, n_threads)
    if answer.attempt.unbounded or not answer.attempt.reached(tol):
        refuse_if_unbounded(S, penalty, proven=answer.attempt.unbounded)
    return _finish(answer, tol, penalty.alpha)


def _finish(answer: Named, tol: float, alpha: float) -> Solution:
    found, steps, name = answer.attempt.certificate, answer.attempt.n_iter, answer.solver
    if found is None:
        raise SolverInputError(
            f"{name} found no positive definite estimate in {steps} iterations, though one exists. "
            'Use solver="auto", or raise max_iter or alpha.'
        )
    p = found.precision.shape[0]
    converged = answer.attempt.reached(tol)
    if not converged:
        warn(
            f"{name} stopped after {steps} iterations with gap/p = {found.gap / p:.2e} > tol = {tol:.0e}. "
            "Raise max_iter or alpha, or accept the gap: the objective is within it of the optimum.",
            ConvergenceWarning,
        )
    return Solution(
        found.precision, found.covariance, found.objective, found.gap, found.kkt, steps, name, converged, alpha
    )


def check_settings(solver: str, tol: float, max_iter: int | None) -> None:
    if solver != "auto" and solver not in SOLVERS:
        raise SolverInputError(f"solver must be one of auto, {', '.join(SOLVERS)}, got {solver!r}.")
    if not tol > 0:
        raise SolverInputError(f"tol must be > 0, got {tol}. It bounds the duality gap divided by p.")
    if max_iter is not None and max_iter < 1:
        raise SolverInputError(f"max_iter must be >= 1, got {max_iter}.")


def start_from(warm_start: Solution | ArrayLike | None, p: int) -> Start | None:
    """Check a warm start and complete it with its inverse."""
    if warm_start is None:
        return None
    if isinstance(warm_start, Solution):
        start = Start(warm_start.precision, warm_start.covariance)
    else:
        precision = as_covariance(warm_start)
        factor = cholesky(precision)
        if factor is None:
            raise SolverInputError("warm_start must be a positive definite precision matrix.")
        start = Start(precision, inverse(factor))
    if start.precision.shape[0] != p:
        raise SolverInputError(f"warm_start must be {p}x{p} to match the covariance, got {start.precision.shape}.")
    return start


def refuse_if_unbounded(S: FloatArray, penalty: Penalty, *, proven: bool) -> None:
    """Raise where no estimate exists; return where alpha is above d(S)."""
    alpha = penalty.alpha
    if alpha > 0:
        steps = int(np.clip(1e10 / penalty.size**3, 50, 20_000))  # a message may take seconds, not minutes
        relative = penalty.full() / alpha
        distance = psd_distance(S, relative, threshold=None if proven else alpha, max_steps=steps)
    else:
        lowest = float(np.linalg.eigvalsh(S)[0])
        distance = Distance(S, 0.0, 0.0) if lowest >= 0 else psd_distance(S, np.ones_like(S), max_steps=200)
        proven = proven or lowest <= 0
    if not proven and distance.lower >= alpha > 0:
        proven, distance = True, psd_distance(S, relative, max_steps=steps)
    if proven:
        raise UnboundedObjectiveError(_unbounded_message(alpha, distance, penalty))


def _unbounded_message(alpha: float, distance: Distance, penalty: Penalty) -> str:
    if distance.upper - distance.lower <= 1e-3 * distance.upper:
        size, needed = f"= {distance.upper:.4g}", f"Use alpha > {distance.upper:.4g}"
    elif np.isfinite(distance.upper):
        size = f"lies between {distance.lower:.4g} and {distance.upper:.4g}"
        needed = f"Use alpha > {distance.upper:.4g}"
    else:
        size = f">= {distance.lower:.4g}"
        needed = "Use a larger alpha" if np.all(penalty.diagonal > 0) else "Use penalize_diagonal=True"
    return (
        f"the penalised likelihood is unbounded at alpha = {alpha:.4g}: an estimate exists only for alpha > d(S), the "
        f"max-norm distance of the covariance to the positive semidefinite cone (weighted like the penalty), and "
        f"d(S) {size}. {needed}, or repair the covariance first: matrix, distance = nearest_psd_max_norm(S)."
    )
