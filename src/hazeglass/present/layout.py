"""Where to draw the nodes: stress majorisation of graph distances, deterministic, so the same graph looks the same."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["node_positions"]

FloatArray = npt.NDArray[np.float64]
_ITERATIONS = 300


def node_positions(adjacency: npt.NDArray[np.bool_]) -> FloatArray:
    """Positions in the unit square, one row per node; nodes without an edge stand in a row below."""
    from scipy.sparse.csgraph import shortest_path

    p = len(adjacency)
    linked = np.flatnonzero(adjacency.any(axis=0))
    alone = np.setdiff1d(np.arange(p), linked)
    positions = np.zeros((p, 2))
    if linked.size:
        distances = shortest_path(adjacency[np.ix_(linked, linked)].astype(float), unweighted=True)
        finite = distances[np.isfinite(distances)]
        distances[~np.isfinite(distances)] = finite.max() + 1.5
        positions[linked] = _unit_square(_stress(distances))
    if alone.size:
        positions[linked, 1] = positions[linked, 1] * 0.84 + 0.16 if linked.size else positions[linked, 1]
        positions[alone] = np.column_stack([(np.arange(alone.size) + 0.5) / alone.size, np.zeros(alone.size)])
    return positions


def _stress(distances: FloatArray) -> FloatArray:
    """Minimise sum of (|x_i - x_j| - d_ij)^2 / d_ij^2 by majorisation from a circle."""
    p = len(distances)
    if p == 1:
        return np.zeros((1, 2))
    weights = 1 / np.where(distances > 0, distances, np.inf) ** 2
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    angles = 2 * math.pi * np.arange(p) / p
    points = np.column_stack([np.cos(angles), np.sin(angles)]) * distances.max() / 2
    for _ in range(_ITERATIONS):
        gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
        ratio = weights * distances / np.maximum(gaps, 1e-9)
        pull = np.diag(ratio.sum(axis=1)) - ratio
        points = inverse @ (pull @ points)
    return np.asarray(points)


def _unit_square(points: FloatArray) -> FloatArray:
    low, high = points.min(axis=0), points.max(axis=0)
    span = float((high - low).max()) or 1.0
    return np.asarray((points - (low + high) / 2) / span + 0.5)
