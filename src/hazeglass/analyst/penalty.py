"""The penalty sum_ij alpha w_ij |T_ij| as one value: what each entry pays, and the box it opens around S."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.analyst.factor import FloatArray
from hazeglass.errors import SolverInputError


@dataclass(frozen=True, eq=False)
class Penalty:
    """alpha times the weights, off the diagonal and on it.

    `off` is (p, p), or (1, p) when every off-diagonal entry pays the same: it broadcasts, and a kernel
    reads one row that stays in cache instead of p^2 doubles. Its diagonal is never read; `diagonal` is.
    An infinite entry forbids the edge (T_ij = 0), a zero entry leaves it free.
    """

    alpha: float
    off: FloatArray
    diagonal: FloatArray

    @property
    def size(self) -> int:
        return int(self.diagonal.shape[0])

    @property
    def uniform(self) -> bool:
        return self.off.shape[0] == 1 and self.size > 1

    @cached_property
    def has_infinite(self) -> bool:
        return not bool(np.all(np.isfinite(self.off)))

    def full(self) -> FloatArray:
        """The penalty of every entry as a new (p, p) array."""
        full = np.array(np.broadcast_to(self.off, (self.size, self.size)))
        np.fill_diagonal(full, self.diagonal)
        return full

    def part(self, rows: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Penalty:
        """The penalty of a subset of the columns."""
        off = self.off[:, : len(rows)] if self.uniform else self.off[np.ix_(rows, rows)]
        return Penalty(self.alpha, np.ascontiguousarray(off), self.diagonal[rows])

    def off_cost(self, T: FloatArray) -> float:
        """sum over i != j of the penalty times |T_ij|."""
        size = np.abs(T)
        np.fill_diagonal(size, 0.0)
        if self.uniform:
            return float(self.off[0, 0] * np.sum(size)) if self.off[0, 0] < np.inf or np.any(size) else 0.0
        if self.has_infinite:
            forbidden = np.isinf(np.broadcast_to(self.off, size.shape))
            if np.any(size[forbidden]):
                return float("inf")
            return float(np.sum(np.where(forbidden, 0.0, self.off) * size))
        return float(np.vdot(np.broadcast_to(self.off, size.shape), size))

    def cost(self, T: FloatArray) -> float:
        """The whole penalty of T."""
        return self.off_cost(T) + float(np.dot(self.diagonal, np.abs(np.diagonal(T))))


def make_penalty(p: int, alpha: float, weights: ArrayLike | None = None, penalize_diagonal: bool = True) -> Penalty:
    """Check alpha and the weights and combine them; 0 times infinity is infinity (a forbidden edge stays forbidden)."""
    try:
        alpha = float(alpha)
    except (TypeError, ValueError):
        raise SolverInputError(f"alpha must be one number >= 0, got {alpha!r}.") from None
    if not np.isfinite(alpha) or alpha < 0:
        raise SolverInputError(f"alpha must be finite and >= 0, got {alpha}.")
    if weights is None:
        diagonal = np.full(p, alpha if penalize_diagonal else 0.0)
        return Penalty(alpha, np.full((1, p), alpha), diagonal)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (p, p):
        raise SolverInputError(f"weights must be {p}x{p} to match the covariance, got {w.shape}.")
    if np.any(np.isnan(w)) or np.any(w < 0):
        raise SolverInputError(
            "weights must be >= 0 (infinity forbids an edge, 0 leaves it free), got a negative or NaN."
        )
    if not np.array_equal(w, w.T):
        raise SolverInputError("weights must be symmetric. Pass (weights + weights.T) / 2.")
    if penalize_diagonal and np.any(np.isinf(np.diagonal(w))):
        raise SolverInputError("weights on the diagonal must be finite: T_ii = 0 is never positive definite.")
    with np.errstate(invalid="ignore"):
        off = np.where(np.isinf(w), np.inf, alpha * w)
    diagonal = np.diagonal(off).copy() if penalize_diagonal else np.zeros(p)
    np.fill_diagonal(off, 0.0)
    return Penalty(alpha, np.ascontiguousarray(off), diagonal)
