"""Where to draw the nodes: each connected part by stress majorisation, the parts packed side by side.

Deterministic, so the same graph always looks the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["node_positions"]

FloatArray = npt.NDArray[np.float64]
_ITERATIONS = 300
_STILL = 1e-3
_WIDE = 1.35  # the drawing is wider than high
_MARGIN = 0.45  # around each part, where two linked nodes are about 1 apart


def node_positions(adjacency: npt.NDArray[np.bool_]) -> FloatArray:
    """Positions in the unit square, one row per node; the largest connected part first, nodes without an edge last."""
    from scipy.sparse.csgraph import connected_components

    p = len(adjacency)
    if not adjacency.any():
        return 0.5 + 0.5 * _circle(p)
    _, labels = connected_components(adjacency, directed=False)
    parts = sorted((np.flatnonzero(labels == k) for k in np.unique(labels)), key=lambda part: (-part.size, part[0]))
    drawings = [_drawn(adjacency[np.ix_(part, part)]) for part in parts]
    positions = np.zeros((p, 2))
    for part, drawing, corner in zip(parts, drawings, _packed([_size(drawing) for drawing in drawings]), strict=True):
        positions[part] = drawing + np.array(corner) + _MARGIN
    low, high = positions.min(axis=0), positions.max(axis=0)
    flat = (positions - low) / np.where(high > low, high - low, 1.0)
    flat[:, high <= low] = 0.5
    return np.column_stack([flat[:, 0], 1 - flat[:, 1]])


def _size(drawing: FloatArray) -> tuple[float, float]:
    """Width and height of a part with room around it."""
    width, height = drawing.max(axis=0)
    return float(width + 2 * _MARGIN), float(height + 2 * _MARGIN)


def _packed(sizes: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Left and top of boxes in decreasing size: in shelves, small ones stacked beside large ones."""
    width = max(sizes[0][0], math.sqrt(_WIDE * sum(w * h for w, h in sizes)))
    corners = []
    shelf_top, shelf_height, left, column_width, filled = 0.0, sizes[0][1], 0.0, sizes[0][0], 0.0
    for w, h in sizes:
        if (
            filled + h > shelf_height + 1e-9 or w > column_width + 1e-9
        ):  # no room below: another column, or another shelf
            left, filled, column_width = left + column_width, 0.0, w
            if left + w > width + 1e-9 or h > shelf_height + 1e-9:
                shelf_top, shelf_height, left = shelf_top + shelf_height, h, 0.0
        corners.append((left, shelf_top + filled))
        filled += h
    return corners


def _drawn(adjacency: npt.NDArray[np.bool_]) -> FloatArray:
    """One connected part, from (0, 0) to a size that grows with the root of its nodes."""
    from scipy.sparse.csgraph import shortest_path

    p = len(adjacency)
    if p == 1:
        return np.zeros((1, 2))
    level = _level(_stress(shortest_path(adjacency.astype(float), unweighted=True, directed=False)))
    return level * 0.75 * math.sqrt(p)


def _stress(distances: FloatArray) -> FloatArray:
    """Minimise sum of (|x_i - x_j| - d_ij)^2 / d_ij^2 by majorisation, starting from classical scaling."""
    p = len(distances)
    weights = 1 / np.where(distances > 0, distances, np.inf) ** 2
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.inv(laplacian + 1 / p) - 1 / p
    points = _classical(distances)
    for _ in range(max(25, int(_ITERATIONS * min(1.0, 200 / p) ** 1.5))):
        squares = (points**2).sum(axis=1)
        gaps = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * points @ points.T, 1e-12))
        ratio = weights * distances / gaps
        np.fill_diagonal(ratio, 0.0)
        moved = inverse @ (ratio.sum(axis=1)[:, None] * points - ratio @ points)
        step = float(np.abs(moved - points).max())
        points = moved
        if step < _STILL:
            break
    return np.asarray(points)


def _classical(distances: FloatArray) -> FloatArray:
    """The two leading coordinates of classical scaling, nudged by a circle so that no two points coincide."""
    squares = distances**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    leading = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    leading *= np.where(leading[np.abs(leading).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    return np.asarray(leading + 0.1 * _circle(len(distances)))


def _circle(p: int) -> FloatArray:
    angles = 2 * math.pi * np.arange(p) / p
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _level(points: FloatArray) -> FloatArray:
    """Turn the long axis level and give it length 1; the short one is stretched, up to twice, towards a half."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ (axes * np.where(axes.sum(axis=1, keepdims=True) < 0, -1.0, 1.0)).T
    turned -= turned.min(axis=0)
    long, short = turned.max(axis=0)
    stretch = max(1.0, min(2.0, 0.5 * long / max(short, 1e-9))) if short > 1e-6 * long else 1.0
    return np.asarray(turned / (long or 1.0) * np.array([1.0, stretch]))
