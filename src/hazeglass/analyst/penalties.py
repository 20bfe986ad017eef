"""How much each pair pays, and what stays fixed while the penalty varies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.errors import InputError
from hazeglass.glasso import Solution, graphical_lasso
from hazeglass.glasso.distance import psd_distance

__all__ = ["WEIGHTS", "Repair", "Setting", "Weights", "pair_weights"]

FloatArray = npt.NDArray[np.float64]
WEIGHTS = ("noise", "uniform")
Weights = str | npt.ArrayLike  # one of WEIGHTS, or what each pair pays
_ROUGHLY = 0.02  # two digits of d(S) will do: penalties keep five per cent above it
_SHARE = 0.9  # a repaired matrix lies this share of the penalty from the cone: bounded, and not barely


@dataclass(frozen=True, eq=False)
class Setting:
    """What stays fixed while the penalty varies."""

    weights: FloatArray
    penalize_diagonal: bool = True
    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int | None = None
    device: str = "cpu"

    def fit(self, covariance: FloatArray, alpha: float, before: Solution | None = None) -> Solution:
        """One graphical lasso, begun from a neighbour on the path."""
        return graphical_lasso(
            covariance,
            alpha,
            weights=self.weights,
            penalize_diagonal=self.penalize_diagonal,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            warm_start=before,
            device=self.device,
        )

    def distance(self, covariance: FloatArray) -> float:
        """d(S): penalties must exceed it for an estimate to exist."""
        if self.penalize_diagonal:
            return float(psd_distance(covariance, self.weights, rtol=_ROUGHLY).upper)
        return 0.0 if np.linalg.eigvalsh(covariance)[0] > 0 else np.inf


def pair_weights(weights: Weights, sd: FloatArray) -> FloatArray:
    """What each pair of columns pays times alpha, given the standard deviation of its covariance.

    'noise' makes that proportional to the standard deviation, with mean 1 off the diagonal; 'uniform' is 1 for all; a
    (p, p) matrix is taken as it is.
    """
    p = len(sd)
    if not isinstance(weights, str):
        given = np.asarray(weights, dtype=np.float64)
        if given.shape != (p, p):
            raise InputError(f"weights must be {p}x{p}, one number per pair of columns, got {given.shape}.")
        return given
    if weights not in WEIGHTS:
        raise InputError(f"weights must be one of {', '.join(WEIGHTS)}, or a {p}x{p} matrix, got {weights!r}.")
    typical = float(sd[~np.eye(p, dtype=bool)].mean()) if p > 1 else 0.0
    return sd / typical if weights == "noise" and typical > 0 else np.ones((p, p))


class Repair:
    """Moves an indefinite covariance towards the cone, only as far as a penalty needs.

    The nearest positive semidefinite matrix W lies at d(S) in the weighted max norm. Going the share t of the way
    leaves (1 - t) d(S), and the penalised likelihood has a maximum once that is below alpha.
    """

    def __init__(self, covariance: FloatArray, setting: Setting) -> None:
        self.covariance = covariance
        self._nearest = psd_distance(covariance, setting.weights, rtol=_ROUGHLY)
        self.distance = self._nearest.upper

    def at(self, alpha: float) -> FloatArray:
        """The covariance to use at this penalty."""
        if self.distance < alpha or self.distance == 0:
            return self.covariance
        share = 1 - _SHARE * alpha / self.distance
        return self.covariance + share * (self._nearest.nearest - self.covariance)

    def size(self, alpha: float) -> float:
        """The largest change of an entry at this penalty."""
        return float(np.abs(self.at(alpha) - self.covariance).max())
