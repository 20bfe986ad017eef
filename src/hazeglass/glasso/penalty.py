"""What every block of the precision pays, and the box that this opens around S.

    penalty(T) = sum_ij alpha w_ij |T_ij|_F        T_ij a block of `block` rows and columns, i = j included

An ordinary graphical lasso has blocks of one entry. Where columns are expanded into several features, the features of
a pair vanish together (docs/maths/curved.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.errors import SolverInputError, UnboundedObjectiveError
from hazeglass.glasso.linalg import FloatArray, column_name

_FAR = 1e8


def block_norms(matrix: FloatArray, block: int = 1) -> FloatArray:
    """Frobenius norm of every block of `block` rows and columns."""
    if block == 1:
        return np.abs(matrix)
    p = len(matrix) // block
    return np.asarray(np.sqrt(np.square(matrix).reshape(p, block, p, block).sum(axis=(1, 3))))


def spread(values: FloatArray, block: int = 1) -> FloatArray:
    """One value per block, repeated over the block's entries."""
    return values if block == 1 else np.repeat(np.repeat(values, block, axis=0), block, axis=1)


def rescale(matrix: FloatArray, norms: FloatArray, block: int = 1) -> FloatArray:
    """The matrix whose blocks have these norms and point where those of `matrix` do."""
    if block == 1:
        return np.copysign(norms, matrix)
    had = block_norms(matrix, block)
    return matrix * spread(np.divide(norms, had, out=np.zeros_like(had), where=had > 0), block)


def soft_threshold(matrix: FloatArray, threshold: FloatArray | float, block: int = 1) -> FloatArray:
    """Every block shortened by `threshold`; those shorter than that become 0."""
    return rescale(matrix, np.maximum(block_norms(matrix, block) - threshold, 0.0), block)


def times(weights: FloatArray, norms: FloatArray) -> FloatArray:
    """weights * norms with infinity * 0 = 0."""
    with np.errstate(invalid="ignore"):
        return np.where(norms == 0, 0.0, weights * norms)


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
    block: int = 1

    @property
    def size(self) -> int:
        """How many columns there are; S has `block` rows for each."""
        return int(self.diagonal.shape[0])

    @property
    def uniform(self) -> bool:
        return self.off.shape[0] == 1 and self.size > 1

    @cached_property
    def has_infinite(self) -> bool:
        return not bool(np.all(np.isfinite(self.off)))

    def full(self) -> FloatArray:
        """The penalty of every block as a new (p, p) array."""
        full = np.array(np.broadcast_to(self.off, (self.size, self.size)))
        np.fill_diagonal(full, self.diagonal)
        return full

    def part(self, rows: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Penalty:
        """The penalty of a subset of the columns."""
        off = self.off[:, : len(rows)] if self.uniform else self.off[np.ix_(rows, rows)]
        return Penalty(self.alpha, np.ascontiguousarray(off), self.diagonal[rows], self.block)

    def cost(self, T: FloatArray) -> float:
        """The whole penalty of T; infinite where a forbidden block is not zero."""
        norms = block_norms(T, self.block)
        on = float(np.dot(self.diagonal, np.diagonal(norms)))
        np.fill_diagonal(norms, 0.0)
        return on + float(np.sum(times(self.off, norms) if self.has_infinite else self.off * norms))

    def fitted(self, variances: FloatArray) -> FloatArray:
        """The largest mean variance that each column's features may have inside the box, given the diagonal of S.

        For blocks of one it is S_ii + lambda_ii, which the solution attains.
        """
        return np.asarray(variances.reshape(self.size, self.block).mean(axis=1) + self.diagonal / np.sqrt(self.block))

    def safe_start(self, S: FloatArray) -> FloatArray:
        """S moved towards zero by the penalty, its diagonal raised by it: always in the box.

        Where it is positive definite an estimate exists, and coordinate descent arrives soon.
        """
        return self.into_box(_FAR * max(1.0, float(np.abs(S).max())) * np.eye(len(S)), S)

    def into_box(self, W: FloatArray, S: FloatArray) -> FloatArray:
        """The nearest matrix with |W_ij - S_ij|_F <= lambda_ij; where a diagonal entry is a block, what it attains."""
        if self.block == 1:
            inside: FloatArray = np.minimum(W, S + self.off)
            np.maximum(inside, S - self.off, out=inside)
            np.fill_diagonal(inside, self.fitted(np.diagonal(S)))
            return inside
        move = W - S
        inside = S + rescale(move, np.minimum(block_norms(move, self.block), self.full()), self.block)
        return (inside + inside.T) / 2


def make_penalty(
    p: int, alpha: float, weights: ArrayLike | None = None, penalize_diagonal: bool = True, block: int = 1
) -> Penalty:
    """Check alpha and the weights and combine them; 0 times infinity is infinity (a forbidden edge stays forbidden)."""
    try:
        alpha = float(alpha)
    except (TypeError, ValueError):
        raise SolverInputError(f"alpha must be one number >= 0, got {alpha!r}.") from None
    if not np.isfinite(alpha) or alpha < 0:
        raise SolverInputError(f"alpha must be finite and >= 0, got {alpha}.")
    if weights is None:
        return Penalty(alpha, np.full((1, p), alpha), np.full(p, alpha if penalize_diagonal else 0.0), block)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (p, p):
        raise SolverInputError(f"weights must be {p}x{p}, one number per pair of columns, got {w.shape}.")
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
    return Penalty(alpha, np.ascontiguousarray(off), diagonal, block)


def check_diagonal(variances: FloatArray, penalty: Penalty, names: Sequence[str] | None = None) -> None:
    """What a column's fitted variance can at most be must be positive, or no estimate exists."""
    fitted = penalty.fitted(variances)
    bad = np.flatnonzero(~(fitted > 0))
    if bad.size == 0:
        return
    first = int(bad[0])
    mean, paid = variances.reshape(penalty.size, -1).mean(axis=1), penalty.diagonal / np.sqrt(penalty.block)
    more = f" (and {bad.size - 1} more columns)" if bad.size > 1 else ""
    if paid[first] > 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = float(np.max((-mean / paid)[bad])) * penalty.alpha
        remedy = (
            f"An estimate exists only for alpha > d(S), and d(S) >= {needed:.4g}. Use alpha > {needed:.4g}, or drop "
            "the column, or repair the covariance first: matrix, distance = nearest_psd_max_norm(S)."
        )
    else:
        remedy = (
            "With a free diagonal d(S) is infinite. Drop the column, or penalise its diagonal with alpha > 0 "
            "(penalize_diagonal=True), or repair the covariance first: matrix, distance = nearest_psd_max_norm(S)."
        )
    raise UnboundedObjectiveError(
        f"column {column_name(first, names)}{more} has variance {mean[first]:.4g} and diagonal penalty "
        f"{paid[first]:.4g} at alpha = {penalty.alpha:.4g}: their sum must be positive, or the likelihood is "
        f"unbounded. {remedy}"
    )
