"""SCIO, the sparse column-wise inverse operator (Liu and Luo 2015): one lasso for each column of the precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.baselines.clime import refuse_if_infeasible
from hazeglass.baselines.estimate import (
    Estimate,
    check_alpha,
    estimate_from_precision,
    smaller_of_mirrored,
    usable_covariance,
    warn_unless,
)
from hazeglass.baselines.lasso import solve_lasso
from hazeglass.glasso.linalg import FloatArray

__all__ = ["scio", "scio_columns"]

TOLERANCE = 1e-6  # of alpha: how well the optimality conditions are met


def scio(covariance: ArrayLike, alpha: float, *, penalize_diagonal: bool = True) -> Estimate:
    """Sparse precision, column by column, of two mirrored entries the one nearer to zero.

        for each j:   minimise over b:   b' S b / 2 - b_j + alpha sum_k |b_k|

    Parameters
    ----------
    covariance : array of shape (p, p)
        S; an indefinite one is repaired first (see `usable_covariance`).
    alpha : float
        The penalty. On a singular S it must be large enough for a minimiser to exist; the error says how large.
    penalize_diagonal : bool
        Whether b_j pays too, as in the article. (The authors' R package leaves it free unless told otherwise.)

    Examples
    --------
    >>> scio([[1.0, 0.5], [0.5, 1.0]], 0.1).precision.round(3).tolist()
    [[1.133, -0.467], [-0.467, 1.133]]
    """
    alpha = check_alpha(alpha)
    S = usable_covariance(covariance)
    columns, finished = scio_columns(S, alpha, penalize_diagonal)
    warn_unless(finished, "SCIO")
    return estimate_from_precision("SCIO", alpha, smaller_of_mirrored(columns))


def scio_columns(S: FloatArray, alpha: float, penalize_diagonal: bool = True) -> tuple[FloatArray, bool]:
    """The minimisers as columns, before they are made symmetric, and whether all meet their optimality conditions."""
    found, finished = np.zeros_like(S), True
    for j, unit in enumerate(np.eye(len(S))):
        weights = np.full(len(S), alpha)
        if not penalize_diagonal:
            weights[j] = 0.0
        found[:, j], met = solve_lasso(S, unit, weights, TOLERANCE * alpha)
        if not met:
            refuse_if_infeasible(S, j, alpha, 1.0 if penalize_diagonal else 0.0)
            finished = False
    return found, finished
