"""What every baseline takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from hazeglass.errors import ConvergenceWarning, RepairWarning, SolverInputError, warn
from hazeglass.glasso.linalg import FloatArray, as_covariance

__all__ = [
    "Estimate",
    "as_correlation",
    "check_alpha",
    "entry_scores",
    "estimate_from_precision",
    "smaller_of_mirrored",
    "usable_covariance",
    "warn_unless",
]

BoolArray = npt.NDArray[np.bool_]
_NOTHING = 1e-12  # relative to the largest entry: an eigenvalue this far below zero is rounding


@dataclass(frozen=True, eq=False)
class Estimate:
    """A graph from one of the baselines.

    method     which one
    alpha      its penalty or level
    scores     (p, p), symmetric, >= 0, diagonal 0: the larger, the surer the edge; 0 means no edge
    precision  the estimated precision where the method gives one (it need not be positive definite), else None
    """

    method: str
    alpha: float
    scores: FloatArray = field(repr=False)
    precision: FloatArray | None = field(default=None, repr=False)

    @property
    def adjacency(self) -> BoolArray:
        """The edges as a symmetric matrix."""
        return np.asarray(self.scores > 0)


def usable_covariance(covariance: ArrayLike) -> FloatArray:
    """The covariance, made positive definite where subtracting noise has left it indefinite.

    A lasso per column needs a convex problem, most methods one that is not singular either. The rule: with m < 0 the
    smallest eigenvalue, all those below -m are raised to -m. What is negative cannot be right, so m shows how far off
    eigenvalues are, and positive ones below -m say nothing. A RepairWarning tells how far entries moved.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     usable_covariance([[1.0, 1.5], [1.5, 1.0]])
    array([[1.5, 1. ],
           [1. , 1.5]])
    """
    S = _with_positive_variances(covariance)
    values, vectors = np.linalg.eigh(S)
    lowest = float(values[0])
    if lowest >= -_NOTHING * float(values[-1]):
        return S
    repaired = (vectors * np.maximum(values, -lowest)) @ vectors.T
    repaired = np.ascontiguousarray((repaired + repaired.T) / 2)
    moved = float(np.max(np.abs(repaired - S)))
    warn(
        f"the covariance is indefinite: eigenvalues below {-lowest:.3g} were raised to it, "
        f"which moved entries by up to {moved:.3g}.",
        RepairWarning,
    )
    return repaired


def as_correlation(covariance: ArrayLike) -> FloatArray:
    """The covariance divided by its own standard deviations; corrected variances must be positive."""
    S = _with_positive_variances(covariance)
    deviations = np.sqrt(np.diagonal(S))
    scaled = S / np.outer(deviations, deviations)
    np.fill_diagonal(scaled, 1.0)
    return np.asarray(scaled)


def _with_positive_variances(covariance: ArrayLike) -> FloatArray:
    S = as_covariance(covariance)
    bad = np.flatnonzero(np.diagonal(S) <= 0)
    if bad.size:
        raise SolverInputError(
            f"every variance must be > 0, got {S[bad[0], bad[0]]:.4g} in column {bad[0]}. "
            "Drop the columns that the noise hides."
        )
    return S


def entry_scores(method: Callable[[float], Estimate], alphas: Sequence[float]) -> FloatArray:
    """For each pair the largest alpha at which it is an edge, 0 where it never is: a score that needs no one alpha."""
    scores: FloatArray | None = None
    for alpha in sorted(alphas):
        edges = method(alpha).adjacency
        scores = np.where(edges, alpha, 0.0 if scores is None else scores)
    if scores is None:
        raise SolverInputError("alphas must hold at least one penalty, got none.")
    return scores


def check_alpha(alpha: float) -> float:
    """A penalty must be a finite number > 0."""
    try:
        value = float(alpha)
    except (TypeError, ValueError):
        raise SolverInputError(f"alpha must be one number > 0, got {alpha!r}.") from None
    if not np.isfinite(value) or value <= 0:
        raise SolverInputError(f"alpha must be finite and > 0, got {value}.")
    return value


def estimate_from_precision(method: str, alpha: float, precision: FloatArray) -> Estimate:
    """An estimate whose scores are the sizes of the precision's off-diagonal entries."""
    scores = np.abs(precision)
    np.fill_diagonal(scores, 0.0)
    return Estimate(method, alpha, scores, precision)


def smaller_of_mirrored(A: FloatArray) -> FloatArray:
    """Of A_ij and A_ji the one nearer to zero: how column-wise estimates are made symmetric."""
    return np.where(np.abs(A) <= np.abs(A.T), A, A.T)


def warn_unless(finished: bool, method: str) -> None:
    """Say so where a column's optimality conditions were not met."""
    if not finished:
        warn(
            f"{method} did not meet its optimality conditions in every column. Raise alpha.",
            ConvergenceWarning,
        )
