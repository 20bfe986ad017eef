"""What the paper does to a table: noise at a signal-to-noise ratio, correction, graphical lasso, AUC."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hazeglass.errors import UnboundedObjectiveError
from hazeglass.glasso import graphical_lasso, nearest_psd_max_norm
from hazeglass.guarantee.lattice import DiscreteGaussian
from hazeglass.publisher.noise import SeededBits, draw

__all__ = ["add_noise", "area", "corrected_covariance", "edges_of", "fit", "noise_sd", "scores_of"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_SMALLEST_SCALE = 2.0**-6  # below it a discrete Gaussian is 0 with probability 1 - exp(-2000)
_EDGE = 1e-8


def noise_sd(rows: Floats, decibels: float) -> float:
    """sigma = sd of all cells x 10^(-dB/20): the definition that reproduces the printed epsilons."""
    return float(rows.std() * 10 ** (-decibels / 20))


def add_noise(rows: Floats, decibels: float | None, seed: int, kind: str) -> tuple[Floats, float]:
    """The released rows and the variance to subtract; None means no noise. Integers get discrete Gaussian noise."""
    if decibels is None:
        return rows, 0.0
    sigma = noise_sd(rows, decibels)
    if kind == "continuous":
        return rows + sigma * np.random.default_rng(seed).standard_normal(rows.shape), sigma**2
    if sigma < _SMALLEST_SCALE:
        return rows, 0.0
    noise = DiscreteGaussian(sigma)
    return rows + draw(noise, rows.size, SeededBits(seed)).reshape(rows.shape), noise.variance


def corrected_covariance(rows: Floats, variance: float = 0.0) -> Floats:
    """S = X'X / n - variance I about the released mean."""
    centred = rows - rows.mean(axis=0)
    return np.asarray(centred.T @ centred / len(rows) - variance * np.eye(rows.shape[1]))


def fit(covariance: Floats, alpha: float, solver: str = "auto", tol: float = 1e-6) -> Floats:
    """The precision; where no estimate exists, that of the nearest positive semidefinite matrix in the max norm."""
    try:
        return graphical_lasso(covariance, alpha, solver=solver, tol=tol).precision
    except UnboundedObjectiveError:
        repaired, _ = nearest_psd_max_norm(covariance)
        return graphical_lasso(repaired, alpha, solver=solver, tol=tol).precision


def scores_of(precision: Floats) -> Floats:
    """|precision| of every pair: what the paper ranks edges by."""
    return np.asarray(np.abs(precision[np.triu_indices(len(precision), 1)]))


def edges_of(precision: Floats) -> Bools:
    """Which pairs are edges."""
    return np.asarray(scores_of(precision) > _EDGE)


def area(truth: Bools, scores: Floats) -> float:
    """Area under the ROC curve."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth, scores))
