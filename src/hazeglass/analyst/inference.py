"""Error bars for every pair: de-biased estimate, standard error with both noises, p-values, false-discovery control.

With T the penalised precision and S_hat the corrected covariance, 2T - T S_hat T has the first-order bias of the
penalty removed. Its variance is that of sampling plus that of the privacy noise (docs/maths/inference.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from hazeglass.analyst.moments import NoisyCovariance
from hazeglass.analyst.penalties import Setting, pair_weights
from hazeglass.glasso import Solution
from hazeglass.glasso.distance import psd_distance

__all__ = ["PairInference", "evidence", "infer", "pair_inference", "pilot"]

FloatArray = npt.NDArray[np.float64]

_HEAVIEST, _LIGHTEST = 3.0, 0.1  # penalties of the pilot, in standard deviations of an entry
_STEADIER = 2.0
_CROWDED = 0.2  # relative error of the precision, squared, from which the heaviest is right


@dataclass(frozen=True, eq=False)
class PairInference:
    """One value per pair i < j, in the order of numpy.triu_indices: partial correlations with their uncertainty."""

    partial_correlation: FloatArray
    std_error: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    p_value: FloatArray
    q_value: FloatArray


def pilot(noisy: NoisyCovariance, solver: str = "auto", device: str = "cpu") -> Solution:
    """The precision that error bars are built on.

    De-biasing leaves an error of second order: in the noise where the penalty is light, in the penalty where it is
    heavy. The relative error of the precision says which of the two to fear. The diagonal pays nothing, because
    variances that are shrunk bias every edge.
    """
    setting = _unshrunk(noisy, solver, device)
    heavy = _pilot_at(noisy, _HEAVIEST, setting)
    upper = np.triu_indices(len(noisy.names), 1)
    error = noisy.error.partial_correlation_sd(heavy.precision)[upper]
    penalty = _HEAVIEST * math.sqrt(len(noisy.names) * float(np.mean(error**2)) / _CROWDED)
    return heavy if penalty >= _HEAVIEST else _pilot_at(noisy, max(_LIGHTEST, penalty), setting)


def _pilot_at(noisy: NoisyCovariance, deviations: float, setting: Setting) -> Solution:
    """Every entry pays so many of its standard deviations, or more where an indefinite covariance needs it."""
    movable = setting.weights * ~np.eye(len(noisy.names), dtype=bool)
    deviation = noisy.error.entry_sd()[movable > 0] / movable[movable > 0]
    alpha = deviations * float(deviation.mean())
    while psd_distance(noisy.covariance, movable, threshold=alpha).upper >= alpha:
        alpha *= 1.5
    return setting.fit(noisy.covariance, alpha)


def _unshrunk(noisy: NoisyCovariance, solver: str, device: str) -> Setting:
    weights = pair_weights("noise", noisy.error.entry_sd())
    return Setting(weights, penalize_diagonal=False, solver=solver, device=device)


def evidence(noisy: NoisyCovariance, base: Solution, solver: str = "auto", device: str = "cpu") -> FloatArray:
    """A score by which to rank the pairs i < j: z-scores of the de-biased estimate, at twice the pilot's penalty.

    Error bars need little bias, a ranking little variance. The noisier the release, the closer this comes to the
    z-scores of plain correlations, which rank best when little can be told (docs/evidence/recovery.md).
    """
    setting = _unshrunk(noisy, solver, device)
    steady = infer(noisy, setting.fit(noisy.covariance, _STEADIER * base.alpha, base).precision)
    return np.abs(steady.partial_correlation) / steady.std_error


def infer(noisy: NoisyCovariance, precision: FloatArray, *, level: float = 0.95) -> PairInference:
    """Inference for every pair of columns at the given precision estimate."""
    debiased = 2 * precision - precision @ noisy.covariance @ precision
    # The de-biased diagonal may lose positivity under heavy noise; the penalised one cannot.
    diagonal = np.where(np.diag(debiased) > 0, np.diag(debiased), np.diag(precision))
    upper = np.triu_indices(len(precision), 1)
    estimate = -(debiased / np.sqrt(np.outer(diagonal, diagonal)))[upper]
    error = noisy.error.partial_correlation_sd(precision)[upper]
    p_value = 2 * ndtr(-np.abs(estimate) / error)
    return pair_inference(estimate, error, p_value, level)


def pair_inference(estimate: FloatArray, error: FloatArray, p_value: FloatArray, level: float) -> PairInference:
    """Intervals around the estimates, which never leave [-1, 1], and q-values (Benjamini and Hochberg)."""
    from scipy.stats import false_discovery_control

    half = float(ndtri(0.5 + level / 2)) * error
    return PairInference(
        np.clip(estimate, -1.0, 1.0),
        error,
        np.clip(estimate - half, -1.0, 1.0),
        np.clip(estimate + half, -1.0, 1.0),
        p_value,
        false_discovery_control(p_value),
    )
