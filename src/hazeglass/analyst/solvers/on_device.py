"""The entrance to the solvers that run where torch puts them: check on the device, solve, hand back what came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.analyst.penalty import make_penalty
from hazeglass.errors import MissingExtraError, SolverInputError, UnboundedObjectiveError

if TYPE_CHECKING:
    from torch import Tensor

    from hazeglass.analyst.solvers.torch_prox import DeviceAnswer

ASYMMETRY = 1e-8


def solve_on_device(
    covariance: Any,
    alpha: float,
    *,
    weights: Any,
    penalize_diagonal: bool,
    tol: float,
    max_iter: int | None,
    device: str,
) -> DeviceAnswer:
    """Solve on `device`. The answer stays there as tensors; see :func:`as_given` for NumPy in, NumPy out."""
    torch = _torch(device)
    from hazeglass.analyst.solvers.torch_prox import make_problem, solve

    S = _as_covariance(torch, covariance, device)
    p = S.shape[0]
    unit = make_penalty(p, alpha, None, penalize_diagonal)
    weight = None
    diagonal = torch.as_tensor(unit.diagonal, device=device)
    if weights is not None:
        checked = make_penalty(p, 1.0, weights.cpu() if hasattr(weights, "cpu") else weights, penalize_diagonal)
        weight = torch.as_tensor(checked.off, device=device)
        diagonal = alpha * torch.as_tensor(checked.diagonal, device=device)
    fitted = S.diagonal() + diagonal
    if not bool((fitted > 0).all()):
        worst = int(fitted.argmin())
        variance, paid = float(S[worst, worst]), float(diagonal[worst])
        raise UnboundedObjectiveError(
            f"column {worst} has variance {variance:.4g} and diagonal penalty {paid:.4g}: "
            "their sum must be positive, or the likelihood is unbounded. Raise alpha, or drop the column."
        )
    answer = solve(make_problem(S, diagonal, unit.alpha, weight), tol=tol, max_iter=max_iter)
    if answer.unbounded:
        raise UnboundedObjectiveError(
            f"the penalised likelihood is unbounded at alpha = {alpha:.4g}: a direction was found along which it falls "
            "for ever. Use a larger alpha, or repair the covariance first: nearest_psd_max_norm(S)."
        )
    return answer


def as_given(matrix: Tensor, covariance: Any) -> Any:
    """A tensor for who gave a tensor, a NumPy array for everybody else."""
    return matrix if type(covariance).__module__.partition(".")[0] == "torch" else matrix.cpu().numpy()


def _torch(device: str) -> Any:
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


def _as_covariance(torch: Any, covariance: Any, device: str) -> Tensor:
    """covariance as a finite, symmetric float64 tensor on the device."""
    given = covariance if hasattr(covariance, "device") else np.asarray(covariance, dtype=np.float64)
    S: Tensor = torch.as_tensor(given, dtype=torch.float64, device=device)
    if S.ndim != 2 or S.shape[0] != S.shape[1] or S.shape[0] == 0:
        raise SolverInputError(f"the covariance must be a square matrix, got shape {tuple(S.shape)}.")
    largest = float(S.abs().max())
    if not np.isfinite(largest):
        raise SolverInputError("the covariance must be finite, got NaN or infinity. Fill or drop the missing values.")
    gap = float((S - S.T).abs().max())
    if gap > ASYMMETRY * largest:
        raise SolverInputError(
            f"the covariance must be symmetric, got entries that differ from their mirror by up to {gap:.3g}. "
            "Pass (S + S.T) / 2 if that is what you mean."
        )
    return S
