"""How much each pair pays: the same for all, or in proportion to the noise in its covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.moments import NoisyCovariance
from hazeglass.errors import InputError
from hazeglass.glasso import Solution, graphical_lasso
from hazeglass.glasso.distance import psd_distance

__all__ = ["Repair", "Setting", "WeightKind", "entry_weights"]

FloatArray = npt.NDArray[np.float64]
WeightKind = Literal["noise", "uniform"]
_ROUGHLY = 0.02  # two digits of d(S) will do: penalties keep five per cent above it
_COMFORT = 0.9  # a repaired matrix lies this share of the penalty from the cone: bounded, and not barely


@dataclass(frozen=True, eq=False)
class Setting:
    """What stays fixed while the penalty varies."""

    weights: FloatArray
    penalize_diagonal: bool = True
    solver: str = "auto"
    tol: float = 1e-6

    def fit(self, covariance: FloatArray, alpha: float, before: Solution | None = None) -> Solution:
        """One graphical lasso, begun from a neighbour on the path."""
        return graphical_lasso(
            covariance,
            alpha,
            weights=self.weights,
            penalize_diagonal=self.penalize_diagonal,
            solver=self.solver,
            tol=self.tol,
            warm_start=before,
        )

    def distance(self, covariance: FloatArray) -> float:
        """d(S): penalties must exceed it for an estimate to exist."""
        if self.penalize_diagonal:
            return float(psd_distance(covariance, self.weights, rtol=_ROUGHLY).upper)
        return 0.0 if np.linalg.eigvalsh(covariance)[0] > 0 else np.inf


def entry_weights(noisy: NoisyCovariance, kind: str) -> FloatArray:
    """Weights with mean 1 off the diagonal; `noise` makes them proportional to each entry's standard deviation."""
    p = len(noisy.names)
    if kind == "uniform" or p < 2:
        return np.ones((p, p))
    if kind != "noise":
        raise InputError(f"weights must be 'noise' or 'uniform', got {kind!r}.")
    sd = noisy.error.entry_sd()
    typical = float(sd[~np.eye(p, dtype=bool)].mean())
    return sd / typical if typical > 0 else np.ones((p, p))


class Repair:
    """Moves an indefinite covariance towards the cone, only as far as a penalty needs.

    The nearest positive semidefinite matrix W lies at d(S) in the weighted max norm. Going the share t of the way
    leaves (1 - t) d(S), and the penalised likelihood has a maximum once that is below alpha.
    """

    def __init__(self, covariance: FloatArray, setting: Setting) -> None:
        self.covariance = covariance
        self._nearest = psd_distance(covariance, setting.weights, rtol=_ROUGHLY)

    def at(self, alpha: float) -> FloatArray:
        """The covariance to use at this penalty."""
        distance = self._nearest.upper
        if distance < alpha or distance == 0:
            return self.covariance
        share = 1 - _COMFORT * alpha / distance
        return self.covariance + share * (self._nearest.nearest - self.covariance)

    def size(self, alpha: float) -> float:
        """The largest change of an entry at this penalty."""
        return float(np.abs(self.at(alpha) - self.covariance).max())
