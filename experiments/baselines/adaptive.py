"""The adaptive graphical lasso (Fan, Feng and Wu 2009): a second fit in which weak edges pay more."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.errors import SolverInputError
from hazeglass.glasso import graphical_lasso
from hazeglass.glasso.linalg import FloatArray

from .estimate import Estimate, check_alpha, estimate_from_precision

__all__ = ["adaptive_graphical_lasso", "adaptive_weights"]


def adaptive_graphical_lasso(
    covariance: ArrayLike,
    alpha: float,
    *,
    initial_alpha: float | None = None,
    gamma: float = 0.5,
    penalize_diagonal: bool = True,
) -> Estimate:
    """Graphical lasso at `initial_alpha`, then at `alpha` with a weight for each pair taken from the first.

        minimise over T > 0:   -log det T + tr(S T) + alpha sum_ij |T_ij| / |r_ij|^gamma

    r_ij is the first fit's partial correlation; a pair it left out stays out.

    Parameters
    ----------
    covariance : array of shape (p, p)
        S. It may be indefinite as long as initial_alpha is above its distance to the cone; the error says how large.
    alpha, initial_alpha : float
        The two penalties; the first fit takes `alpha` too when it is given none of its own.
    gamma : float
        How strongly weights follow the first fit: 0 not at all.
    """
    alpha = check_alpha(alpha)
    if not (np.isfinite(gamma) and gamma >= 0):
        raise SolverInputError(f"gamma must be finite and >= 0, got {gamma}.")
    start = alpha if initial_alpha is None else check_alpha(initial_alpha)
    first = graphical_lasso(covariance, start, penalize_diagonal=penalize_diagonal)
    weights = adaptive_weights(first.precision, gamma)
    second = graphical_lasso(covariance, alpha, weights=weights, penalize_diagonal=penalize_diagonal)
    return estimate_from_precision("adaptive graphical lasso", alpha, second.precision)


def adaptive_weights(precision: FloatArray, gamma: float) -> FloatArray:
    """|partial correlation|^-gamma, which is at least 1; infinite where there is none, 1 on the diagonal."""
    deviations = np.sqrt(np.diagonal(precision))
    size = np.abs(precision) / np.outer(deviations, deviations)
    with np.errstate(divide="ignore"):
        weights = np.where(size > 0, np.minimum(size, 1.0) ** -gamma, np.inf)
    np.fill_diagonal(weights, 1.0)
    return np.asarray(weights)
