"""The solver that runs where torch puts it: check on the device, solve there, hand back what came."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.errors import MissingExtraError, SolverInputError, UnboundedObjectiveError
from hazeglass.glasso.linalg import check_square, check_symmetric
from hazeglass.glasso.objective import Attempt, Start
from hazeglass.glasso.penalty import Penalty

if TYPE_CHECKING:
    from torch import Tensor


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
        raise UnboundedObjectiveError(
            f"the penalised likelihood is unbounded at alpha = {penalty.alpha:.4g}: a direction was found along which "
            "it falls for ever. Use a larger alpha, or repair the covariance first: nearest_psd_max_norm(S)."
        )
    if not as_tensors:
        pair: tuple[Any, Any] = found.precision, found.covariance
        found = replace(found, precision=pair[0].cpu().numpy(), covariance=pair[1].cpu().numpy())
    return replace(answer, certificate=found)


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
