"""The solver that runs where torch puts it: check on the device, solve there, hand back what came."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.errors import DeviceWarning, MissingExtraError, SolverInputError, UnboundedObjectiveError, warn
from hazeglass.glasso.linalg import check_square, check_symmetric
from hazeglass.glasso.objective import Attempt, Start
from hazeglass.glasso.penalty import Penalty

if TYPE_CHECKING:
    from torch import Tensor

    from hazeglass.glasso.api import Solution

_UNBOUNDED = (
    "the penalised likelihood is unbounded at alpha = {:.4g}: a direction was found along which it falls for ever. "
    "Use a larger alpha, or repair the covariance first: nearest_psd_max_norm(S)."
)


def to_device(covariance: Any, device: str) -> Tensor:
    """covariance as a finite, symmetric float64 tensor on the device."""
    torch = check_device(device)
    given = covariance if hasattr(covariance, "device") else np.asarray(covariance, dtype=np.float64)
    S: Tensor = torch.as_tensor(given, dtype=torch.float64, device=device)
    check_square(tuple(S.shape))
    largest = float(S.abs().max())
    if not np.isfinite(largest):
        raise SolverInputError("the covariance must be finite, got NaN or infinity. Fill or drop the missing values.")
    check_symmetric(float((S - S.T).abs().max()), largest)
    return S


def solve_on_device(
    S: Tensor, penalty: Penalty, start: Start | None, *, tol: float, max_iter: int | None, as_tensors: bool
) -> Attempt:
    """Solve where S is; the answer comes as NumPy arrays unless tensors are asked for."""
    import torch

    from hazeglass.glasso.device.prox import make_problem, solve

    diagonal = torch.as_tensor(penalty.diagonal, device=S.device)
    off = None if penalty.uniform else torch.as_tensor(penalty.off, device=S.device)
    first = None if start is None else torch.as_tensor(start.precision, dtype=torch.float64, device=S.device)
    answer = solve(make_problem(S, diagonal, penalty.alpha, off), tol=tol, max_iter=max_iter, start=first)
    found = answer.certificate
    if answer.unbounded or found is None:
        raise UnboundedObjectiveError(_UNBOUNDED.format(penalty.alpha))
    if not as_tensors:
        pair: tuple[Any, Any] = found.precision, found.covariance
        found = replace(found, precision=pair[0].cpu().numpy(), covariance=pair[1].cpu().numpy())
    return replace(answer, certificate=found)


def solve_tensors(
    S: Tensor,
    alpha: float,
    weights: Tensor | None = None,
    *,
    diagonal: bool = True,
    start: Any = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
) -> Solution:
    """Solve where S is, a symmetric tensor, with tensors for answers; nothing is checked and nothing warned about.

    A weight of 1e30 forbids a pair. `diagonal` says whether the diagonal pays its part.
    """
    import torch

    from hazeglass.glasso.api import Solution
    from hazeglass.glasso.device.prox import make_problem, solve

    paid = torch.full_like(S.diagonal(), alpha) if weights is None else alpha * weights.diagonal().double()
    own = paid if diagonal else torch.zeros_like(paid)
    off = None if weights is None else alpha * weights
    first = None if start is None else start.precision
    answer = solve(make_problem(S, own, alpha, off), tol=tol, max_iter=max_iter, start=first)
    found = answer.certificate
    if answer.unbounded or found is None:
        raise UnboundedObjectiveError(_UNBOUNDED.format(alpha))
    return Solution(
        **vars(found), n_iter=answer.n_iter, solver=answer.solver, converged=answer.reached(tol), alpha=alpha
    )


def usable(device: str) -> str:
    """The device, or the CPU where torch cannot use it; then a warning says why."""
    if device == "cpu":
        return device
    try:
        check_device(device)
    except (MissingExtraError, SolverInputError) as error:
        why = str(error).rstrip(".")
        warn(f"{why}. The CPU is used instead, which takes longer.", DeviceWarning)
        return "cpu"
    return device


def check_device(device: str) -> Any:
    """torch, once it has shown that it can use the device; refused otherwise, because the CPU would take hours."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"device={device!r} needs torch. Install it with: pip install 'hazeglass[gpu]', or leave device out."
        ) from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SolverInputError(f"device must be one torch can use here, got {device!r}: {reason}") from None
    return torch
