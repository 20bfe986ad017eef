"""What a stage takes moments of: the columns themselves, or Hermite functions of them that see curved dependence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

FeatureKind = Literal["linear", "hermite"]
DEGREES: dict[str, int] = {"linear": 1, "hermite": 3}
# Standardised values beyond this many standard deviations are moved to it before squares and cubes are taken.
CLAMP = 2.5

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Feature:
    """A function of one column: z, (z^2 - 1)/sqrt(2) or (z^3 - 3z)/sqrt(6), orthonormal for standard normal z."""

    column: str
    power: int


def features_of(names: tuple[str, ...], kind: str) -> tuple[Feature, ...]:
    """The features of a stage, column by column."""
    return tuple(Feature(name, power) for name in names for power in range(1, DEGREES[kind] + 1))


def to_features(x: FloatArray, kind: str) -> FloatArray:
    """Standardised rows to rows of features, in the order of :func:`features_of`.

    >>> to_features(np.array([[1.0, 2.0]]), "hermite").round(3).tolist()
    [[1.0, 0.0, -0.816, 2.0, 2.121, 0.816]]
    """
    if kind == "linear":
        return x
    z = np.clip(x, -CLAMP, CLAMP)
    stacked = np.stack([z, (z * z - 1) / math.sqrt(2), (z * z * z - 3 * z) / math.sqrt(6)], axis=2)
    return stacked.reshape(len(z), -1)
