"""What moments are taken of: the columns themselves, or functions of them that see curved dependence.

Releases of moments hold cosines of a column's rank, sqrt(2) cos(pi k F), k = 1, 2, 3: bounded, orthonormal, and the
same whatever the column's distribution is. Rows with noise in their cells are read by Hermite functions, whose squares
and cubes can be corrected exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

FeatureKind = Literal["columns", "cosines", "presence", "seasons"]
DEGREES: dict[str, int] = {"columns": 1, "cosines": 3, "presence": 1, "seasons": 1, "hermite": 3}
# Standardised values beyond this many standard deviations are moved to it before squares and cubes are taken.
CLAMP = 2.5

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Feature:
    """A function of one column, by its number."""

    column: str
    power: int


def features_of(names: tuple[str, ...], kind: str) -> tuple[Feature, ...]:
    """The features of a stage, column by column."""
    return tuple(Feature(name, power) for name in names for power in range(1, DEGREES[kind] + 1))


def to_features(x: FloatArray, kind: str) -> FloatArray:
    """Standardised rows to rows of z, (z^2 - 1)/sqrt(2) and (z^3 - 3z)/sqrt(6), in the order of :func:`features_of`.

    >>> to_features(np.array([[1.0, 2.0]]), "hermite").round(3).tolist()
    [[1.0, 0.0, -0.816, 2.0, 2.121, 0.816]]
    """
    z = np.clip(x, -CLAMP, CLAMP)
    stacked = np.stack([z, (z * z - 1) / math.sqrt(2), (z * z * z - 3 * z) / math.sqrt(6)], axis=2)
    return stacked.reshape(len(z), -1)


def cosines(scores: FloatArray) -> FloatArray:
    """sqrt(2) cos(pi k Phi(z)), k = 1, 2, 3, in a last axis.

    >>> cosines(np.array([0.0])).round(3).tolist()
    [[0.0, -1.414, -0.0]]
    """
    from scipy.special import ndtr

    angles = math.pi * ndtr(scores)[..., None] * np.arange(1, DEGREES["cosines"] + 1)
    return np.asarray(math.sqrt(2) * np.cos(angles))
