"""What every baseline takes and gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.nearest_psd import nearest_psd_max_norm
from hazeglass.analyst.validation import as_covariance
from hazeglass.errors import ConvergenceWarning, RepairWarning, SolverInputError

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
    """The covariance, or the nearest positive semidefinite one where subtracting noise has left it indefinite.

    Column by column lasso needs a convex problem. Nearest in the max norm moves every entry by as little as can be
    (the rule of Datta and Zou's CoCoLasso); a RepairWarning says by how much.
    """
    S = _with_positive_variances(covariance)
    lowest = float(np.linalg.eigvalsh(S)[0])
    if lowest >= -_NOTHING * float(np.max(np.abs(S))):
        return S
    nearest, moved = nearest_psd_max_norm(S)
    warnings.warn(
        f"the covariance is indefinite (smallest eigenvalue {lowest:.3g}); entries were moved by up to {moved:.3g}.",
        RepairWarning,
        stacklevel=3,
    )
    return nearest


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
        warnings.warn(
            f"{method} did not meet its optimality conditions in every column. Raise alpha.",
            ConvergenceWarning,
            stacklevel=4,
        )
