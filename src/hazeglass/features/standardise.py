"""Where a second stage of moments puts its centre and scale: arithmetic on what the first one released.

The publisher follows this rule and a reader follows it again, so that no stage is centred or scaled by anything else.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_LARGEST_VARIANCE = 1.0  # no column of the box [-1, 1] varies more


def standardisation(
    mean: FloatArray, squares: FloatArray, mean_noise_sd: FloatArray, squares_noise_sd: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Centre and scale of the columns (last axis), from their noisy means and mean squares about the public centre.

    Noise in the first stage costs twice: a wrong centre and a wrong scale make rows longer, and longer rows are
    clipped. So noisy numbers are shrunk as far as their known noise says (empirical Bayes): means towards the public
    centre, variances towards their average, which has far less noise than each. This is arithmetic on released numbers;
    the promise does not depend on it, only the quality does.
    """
    kept = _signal_share(np.mean(mean**2, axis=-1, keepdims=True), mean_noise_sd)
    centre = kept * mean
    # About the centre, the shrunk mean being the best guess of the true one; the noisy mean's square is too large.
    about_centre = squares - centre**2
    return centre, np.sqrt(_shrunk_variances(about_centre, squares_noise_sd))


def _shrunk_variances(noisy: FloatArray, noise_sd: FloatArray) -> FloatArray:
    columns = noisy.shape[-1]
    pooled = np.maximum(noisy.mean(axis=-1, keepdims=True), noise_sd / math.sqrt(columns))
    spread = noisy - pooled
    kept = _signal_share(np.sum(spread**2, axis=-1, keepdims=True) / max(1, columns - 1), noise_sd)
    floor = np.minimum(noise_sd, pooled / 2)  # a column that the noise drowned
    return np.asarray(np.clip(pooled + kept * spread, np.minimum(floor, _LARGEST_VARIANCE), _LARGEST_VARIANCE))


def _signal_share(square: FloatArray, noise_sd: FloatArray) -> FloatArray:
    """Which part of a mean square is not noise."""
    noise = np.square(noise_sd)
    return np.asarray(1 - noise / np.maximum(square, np.maximum(noise, np.finfo(float).tiny)))
