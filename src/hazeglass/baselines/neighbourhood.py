"""Neighbourhood selection (Meinshausen and Bühlmann 2006): regress every column on all others, keep what stays."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.baselines.estimate import Estimate, check_alpha, usable_covariance, warn_unless
from hazeglass.baselines.lasso import solve_lasso
from hazeglass.errors import SolverInputError
from hazeglass.glasso.linalg import FloatArray

__all__ = ["neighbourhood_selection", "regressions"]

TOLERANCE = 1e-6  # of alpha: how well the optimality conditions are met


def neighbourhood_selection(covariance: ArrayLike, alpha: float, *, rule: Literal["or", "and"] = "or") -> Estimate:
    """Join i and j where the lasso of one of them (or: either, and: both) keeps the other.

        for each j:   minimise over b, b_j = 0:   b' S b / 2 - S_j' b + alpha sum_k |b_k|

    Parameters
    ----------
    covariance : array of shape (p, p)
        S; an indefinite one is repaired first (see `usable_covariance`).
    alpha : float
        The penalty, on the scale of the covariance.
    rule : {"or", "and"}
        The score of a pair is the larger or the smaller of its two coefficients' sizes.

    Examples
    --------
    >>> S = [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> neighbourhood_selection(S, 0.1).scores.round(3).tolist()
    [[0.0, 0.4, 0.0], [0.4, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if rule not in ("or", "and"):
        raise SolverInputError(f"rule must be 'or' or 'and', got {rule!r}.")
    alpha = check_alpha(alpha)
    sizes = np.abs(regressions(usable_covariance(covariance), alpha))
    scores = np.maximum(sizes, sizes.T) if rule == "or" else np.minimum(sizes, sizes.T)
    return Estimate(f"neighbourhood selection ({rule})", alpha, scores)


def regressions(S: FloatArray, alpha: float) -> FloatArray:
    """Column j holds the lasso coefficients of column j on the others."""
    found, finished = np.zeros_like(S), True
    for j in range(len(S)):
        weights = np.full(len(S), alpha)
        weights[j] = np.inf  # a column does not explain itself
        found[:, j], met = solve_lasso(S, S[j], weights, TOLERANCE * alpha)
        finished = finished and met
    warn_unless(finished, "neighbourhood selection")
    return found
