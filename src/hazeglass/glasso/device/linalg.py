"""Cholesky factor, log determinant and inverse of a large matrix, made of matrix products.

The factor L and its inverse M are built together, half by half, so that all but the smallest blocks are products:
accelerators run those several times faster than triangular solves, and tensor cores can take part.
Importing this file imports torch: do it where a device was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

BASE = 1024  # blocks of this size go to the library


def logdet_and_inverse(A: Tensor) -> float | None:
    """Overwrite A with its inverse and return log det A; None (and A destroyed) where A is not positive definite."""
    pivots: list[Tensor] = []
    _factor(A, pivots)
    logdet = torch.stack(pivots).sum().item()
    if not math.isfinite(logdet):
        return None
    _square(A)
    mirror(A)
    return float(logdet)


def logdet(A: Tensor) -> float | None:
    """log det A, or None where A is not positive definite; A is destroyed."""
    factor, info = torch.linalg.cholesky_ex(A)
    if int(info) != 0:
        return None
    value = float(2.0 * factor.diagonal().log().sum())
    return value if math.isfinite(value) else None


def _factor(A: Tensor, pivots: list[Tensor]) -> None:
    """Lower half of A becomes M = inverse of its Cholesky factor; NaN pivots where A is not positive definite."""
    p = A.shape[0]
    if p <= BASE:
        factor, info = torch.linalg.cholesky_ex(A)
        bad = torch.where(info > 0, torch.nan, 0.0).to(A.dtype)
        pivots.append(2.0 * factor.diagonal().log().sum() + bad)
        eye = torch.eye(p, dtype=A.dtype, device=A.device)
        A.copy_(torch.linalg.solve_triangular(factor, eye, upper=False))
        return
    half = _half(p)
    top, low, corner = A[:half, :half], A[half:, :half], A[half:, half:]
    _factor(top, pivots)
    top.tril_()
    below = low @ top.T  # L21 = A21 inverse(L11)'
    corner.addmm_(below, below.T, alpha=-1.0)
    _factor(corner, pivots)
    corner.tril_()
    torch.mm(corner, below @ top, out=low)
    low.neg_()


def _square(A: Tensor) -> None:
    """Lower half of A becomes that of M'M."""
    p = A.shape[0]
    if p <= BASE:
        A.tril_()
        A.copy_(A.T @ A)
        return
    half = _half(p)
    top, low, corner = A[:half, :half], A[half:, :half], A[half:, half:]
    _square(top)
    top.addmm_(low.T, low)
    low.copy_(corner.tril().T @ low)
    _square(corner)


def mirror(A: Tensor) -> None:
    """Copy the lower half of A into its upper half, block by block."""
    for rows in row_blocks(A.shape[0], BASE):
        block = A[rows, rows]
        block.copy_(block.tril() + block.tril(-1).T)
        A[: rows.start, rows] = A[rows, : rows.start].T


def row_blocks(p: int, size: int = 2048) -> Iterator[slice]:
    """The rows in pieces: what is computed entry by entry never holds more than a piece besides its result."""
    for begin in range(0, p, size):
        yield slice(begin, min(begin + size, p))


def _half(p: int) -> int:
    return max(BASE, (p // 2 + BASE - 1) // BASE * BASE)
