"""What a release says of the shares of a categorical column's levels, from everything that tells of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.features.marginal import Levels

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LevelMoments:
    """What one stage says of indicators, as it was released.

    cross          products of the stage's scores and the indicators
    second         of the indicators with each other
    noise_sd       of an entry off the diagonal of either, and on the diagonal 1/sqrt(2) of what that has
    """

    mean: FloatArray
    score_mean: FloatArray
    cross: FloatArray
    second: FloatArray
    noise_sd: float
    mean_noise_sd: float


def shares_of(
    known: Levels, part: slice, others: Sequence[slice], stages: Sequence[LevelMoments]
) -> tuple[FloatArray, float]:
    """The shares of a column's levels by counts, means, squares and sums over the levels of every other column
    together, and the standard error of one by noise."""
    total = max(float(known.rounds[-1].counts.sum()), 1.0)
    found, weight = [known.shares], [(total / known.count_sd) ** 2]
    for stage in stages:
        noise = max(stage.noise_sd**2, 1e-24)
        found += [stage.mean[part], np.diag(stage.second)[part]]
        weight += [1 / max(stage.mean_noise_sd, 1e-12) ** 2, 1 / (2 * noise)]
        found += [stage.second[part, other].sum(axis=1) for other in others]
        weight += [1 / (noise * (other.stop - other.start)) for other in others]
    shares = np.maximum(np.average(found, axis=0, weights=weight), 0.0)
    return shares / max(float(shares.sum()), np.finfo(float).tiny), 1 / math.sqrt(sum(weight))
