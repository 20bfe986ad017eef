"""The shape of a dependence: how one column moves on average with another, the rest held fixed.

Regressing column j on the features of all other columns, the part of column i is a curve g(x) = sum_a c_a f_a(x). It
comes from the pair's block of the de-biased precision, so its error band comes from the block's covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from hazeglass.analyst.curved.blocks import FeatureBlocks
from hazeglass.analyst.curved.inference import CurvedInference
from hazeglass.bundle.features import expand
from hazeglass.glasso.linalg import FloatArray

__all__ = ["Shape", "shape_of"]

_REACH, _POINTS = 2.0, 21  # standard deviations of x that most rows lie within


@dataclass(frozen=True, eq=False)
class Shape:
    """A curve with a 95 % band at every point; x and y in standard deviations about their means."""

    x_name: str
    y_name: str
    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """For fit.json: three decimals are finer than any band."""
        numbers = {key: getattr(self, key).round(3).tolist() for key in ("x", "y", "low", "high")}
        return {"x_name": self.x_name, "y_name": self.y_name, **numbers}


def shape_of(blocks: FeatureBlocks, found: CurvedInference, pair: int) -> Shape:
    """The curve of a pair (its number in numpy.triu_indices), drawn in the direction that explains more."""
    i, j = (int(ends[pair]) for ends in np.triu_indices(len(blocks.names), 1))
    block = found.blocks[pair]
    ends = [_End.of(blocks, found, k) for k in (i, j)]
    explained = [np.linalg.norm(block @ ends[1].direction), np.linalg.norm(block.T @ ends[0].direction)]
    grid = np.linspace(-_REACH, _REACH, _POINTS)
    if explained[0] >= explained[1]:
        loads = np.einsum("xa,b->xab", ends[0].features(grid), ends[1].residual)
        x_name, y_name = blocks.names[i], blocks.names[j]
    else:
        loads = np.einsum("xb,a->xab", ends[1].features(grid), ends[0].residual)
        x_name, y_name = blocks.names[j], blocks.names[i]
    loads = loads.reshape(len(grid), -1)
    y = loads @ block.ravel()
    half = float(ndtri(0.975)) * np.sqrt(np.einsum("xa,ab,xb->x", loads, found.covariances[pair], loads))
    return Shape(x_name, y_name, grid, y, y - half, y + half)


@dataclass(frozen=True, eq=False)
class _End:
    """One end of an edge in the coordinates of R: how its features and the column itself are written there."""

    mean: FloatArray
    inverse_scale: FloatArray
    whitener: FloatArray
    residual: FloatArray

    @classmethod
    def of(cls, blocks: FeatureBlocks, found: CurvedInference, column: int) -> _End:
        span = slice(column * blocks.size, (column + 1) * blocks.size)
        whitener, scale = blocks.whitener[span, span], found.scale[span, span]
        unwhitened = np.linalg.inv(whitener)[0]
        inverse_scale = np.asarray(np.linalg.inv(scale), dtype=np.float64)
        return cls(blocks.mean[span], inverse_scale, whitener, scale @ unwhitened)

    @property
    def direction(self) -> FloatArray:
        return np.asarray(self.residual / np.linalg.norm(self.residual))

    def features(self, x: FloatArray) -> FloatArray:
        """Rows of centred features at the given values, in these coordinates."""
        centred = expand(x[:, None], "hermite")[:, : len(self.mean)] - self.mean
        return np.asarray(centred @ self.whitener.T @ self.inverse_scale.T)
