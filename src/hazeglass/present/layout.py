"""Which nodes of a graph belong together, which of them a picture shows, and where: by networkx and scikit-learn.

Deterministic, so the same graph always looks the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LAYOUTS = ("paths", "spring", "community", "circle")  # of a picture; a page draws by paths
LARGE = 1000  # nodes: up to here every one is drawn
_MOST_DRAWN = 600
FOLDED = 150  # nodes: beyond, a picture begins with communities folded into circles
_GOLDEN = math.pi * (3 - math.sqrt(5))
_PUSHES = 200
_MOST_BY_STRESS = 250  # nodes of one connected part; beyond, networkx needs minutes
_WIDE = 1.35  # the drawing is wider than high
_MARGIN = 0.45  # around each part, where two linked nodes are about 1 apart

FloatArray = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Weights = Any  # a symmetric matrix, dense or of scipy.sparse


def communities(weights: Weights) -> Indices:
    """A group number per node, largest group first; a node without links is a group of its own, at the end.

    Groups are linked more among themselves than chance would have it: Louvain's search for the largest modularity.
    """
    import networkx as nx
    from scipy.sparse import csr_array

    links = csr_array(weights)
    links.eliminate_zeros()
    graph = nx.from_scipy_sparse_array(links)
    found = nx.community.louvain_communities(graph, seed=0)
    found.sort(key=lambda group: (not any(graph[node] for node in group), -len(group), min(group)))
    labels = np.empty(len(graph), dtype=np.int64)
    for number, group in enumerate(found):
        labels[list(group)] = number
    return labels


def community_order(groups: Indices, weights: Weights) -> Indices:
    """Nodes group by group, the best linked first."""
    degrees = np.asarray(weights.sum(axis=1), dtype=np.float64).ravel()
    return np.lexsort((np.arange(len(groups)), -degrees, groups))


def drawn_nodes(groups: Indices, links: Any) -> Indices:
    """All nodes of a graph that is not large; else those of the largest communities, in increasing order.

    A community too large for the picture is shown around its best-linked node, as far as there is space.
    """
    if len(groups) <= LARGE:
        return np.arange(len(groups))
    order = community_order(groups, links)
    sizes = np.bincount(groups)
    linked = sizes > 1
    kept = int(np.searchsorted(np.cumsum(sizes[linked]), _MOST_DRAWN, side="right"))
    if kept > 0:
        return np.sort(order[: int(sizes[:kept].sum())])
    return _around(order[0], order[: sizes[0]], links)


def _around(start: int, nodes: Indices, links: Any) -> Indices:
    from scipy.sparse.csgraph import breadth_first_order

    nodes = np.sort(nodes)
    inside = links[nodes][:, nodes]
    reached = breadth_first_order(inside, int(np.searchsorted(nodes, start)), directed=False)[0]
    return np.sort(nodes[reached[:_MOST_DRAWN]])


@dataclass(frozen=True, eq=False)
class Drawing:
    """Where the nodes of a graph are drawn: the numbers of those that are, and their places in the unit square."""

    groups: Indices
    order: Indices
    drawn: Indices
    spots: FloatArray

    @classmethod
    def of(cls, links: Any) -> Drawing:
        """Of the matrix of links between nodes; many of them community by community, each in a disc of its own."""
        groups = communities(links)
        drawn, order = drawn_nodes(groups, links), community_order(groups, links)
        if len(drawn) > FOLDED:
            return cls(groups, order, drawn, _in_discs(groups, order, links)[drawn])
        return cls(groups, order, drawn, node_positions(np.asarray(links[drawn][:, drawn].toarray() > 0)))


def _in_discs(groups: Indices, order: Indices, links: Any) -> FloatArray:
    """Places for all nodes: communities as discs that do not overlap, in each its nodes in a spiral, best linked first.

    Nodes without links stand in a row below.
    """
    sizes = np.bincount(groups)
    count = int(np.searchsorted(-sizes, -1))  # communities come first, the largest in front
    member = groups < count
    between = np.zeros((count, count))
    i, j = links.nonzero()
    np.add.at(between, (groups[i], groups[j]), 1.0)
    np.fill_diagonal(between, 0.0)
    places = np.zeros((len(groups), 2))
    if count:
        radii = 0.42 * np.sqrt(sizes[:count] / max(1, int(sizes[:count].sum())))
        centres = _apart(node_positions(between > 0) * np.array([_WIDE, 1.0]), radii)
        for group in range(count):
            inside = order[groups[order] == group]
            turn, out = _GOLDEN * np.arange(inside.size), np.sqrt(np.arange(inside.size) / inside.size)
            spiral = 0.85 * radii[group] * out[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
            places[inside] = centres[group] + spiral
    alone = np.flatnonzero(~member)
    low, high = places[member].min(axis=0, initial=0.0), places[member].max(axis=0, initial=1.0)
    places[alone] = np.column_stack([np.linspace(low[0], high[0], alone.size), np.full(alone.size, low[1] - 0.05)])
    return np.asarray((places - places.min(axis=0)) / np.maximum(np.ptp(places, axis=0), 1e-9))


def _apart(centres: FloatArray, radii: FloatArray) -> FloatArray:
    """Discs pushed away from each other until none overlap, or long enough."""
    centres = centres.copy()
    reach = 1.1 * (radii[:, None] + radii[None, :])
    np.fill_diagonal(reach, 0.0)
    for _ in range(_PUSHES):
        gap = centres[:, None] - centres[None, :]
        far = np.maximum(np.linalg.norm(gap, axis=2), 1e-6)
        overlap = np.maximum(reach - far, 0.0)
        if not overlap.any():
            break
        centres += 0.5 * np.sum((overlap / far)[:, :, None] * gap, axis=1)
    return centres


def arranged(weights: FloatArray, layout: str) -> FloatArray:
    """Positions in the unit square by one of the ways that LAYOUTS names."""
    import networkx as nx

    if layout == "paths":
        return node_positions(weights != 0)
    graph = nx.from_numpy_array(np.abs(weights))
    order = community_order(groups := communities(np.abs(weights)), np.abs(weights))
    if layout == "spring":
        spots = np.array(list(nx.spring_layout(graph, seed=0, k=2.2 / math.sqrt(len(graph)), iterations=200).values()))
    elif layout == "circle":
        spots = np.empty((len(graph), 2))
        spots[order] = _circle(len(graph))
    else:  # each community is a circle of its own, and the communities stand side by side in a large one
        reach = np.sqrt(np.bincount(groups)) * np.where(np.bincount(groups) > 1, 1.0, 0.6)
        angles = (np.cumsum(reach) - reach / 2) * 2 * math.pi / reach.sum()
        middles = 1.3 * reach.sum() / math.pi * np.column_stack([np.cos(angles), np.sin(angles)])
        spots = np.empty((len(graph), 2))
        for group, size in enumerate(np.bincount(groups)):
            inside = order[groups[order] == group]
            spots[inside] = middles[group] + (reach[group] if size > 1 else 0.0) * _circle(size)
    low, high = spots.min(axis=0), spots.max(axis=0)
    return np.asarray((spots - low) / np.where(high > low, high - low, 1.0))


def _circle(count: int) -> FloatArray:
    angles = 2 * math.pi * np.arange(count) / max(1, count)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def node_positions(adjacency: npt.NDArray[np.bool_]) -> FloatArray:
    """Positions in the unit square, one row per node: the largest connected part first, nodes without an edge last,
    packed side by side."""
    import networkx as nx

    graph = nx.from_numpy_array(np.asarray(adjacency, dtype=np.int8))
    if not adjacency.any():
        return np.array(list(nx.circular_layout(graph, scale=0.5, center=(0.5, 0.5)).values()))
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=lambda part: (-len(part), part[0]))
    drawings = [_drawn(graph.subgraph(part), part) for part in parts]
    sizes = [tuple(drawing.max(axis=0) + 2 * _MARGIN) for drawing in drawings]
    positions = np.zeros((len(graph), 2))
    for part, drawing, corner in zip(parts, drawings, _packed(sizes), strict=True):
        positions[part] = drawing + np.array(corner) + _MARGIN
    low, high = positions.min(axis=0), positions.max(axis=0)
    flat = (positions - low) / np.where(high > low, high - low, 1.0)
    flat[:, high <= low] = 0.5
    return np.column_stack([flat[:, 0], 1 - flat[:, 1]])


def _packed(sizes: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Left and top of boxes in decreasing size: in shelves, small ones stacked beside large ones."""
    width = max(sizes[0][0], math.sqrt(_WIDE * sum(w * h for w, h in sizes)))
    corners = []
    shelf_top, shelf_height, left, column_width, filled = 0.0, sizes[0][1], 0.0, sizes[0][0], 0.0
    for w, h in sizes:
        # no space below: another column, or another shelf
        if filled + h > shelf_height + 1e-9 or w > column_width + 1e-9:
            left, filled, column_width = left + column_width, 0.0, w
            if left + w > width + 1e-9 or h > shelf_height + 1e-9:
                shelf_top, shelf_height, left = shelf_top + shelf_height, h, 0.0
        corners.append((left, shelf_top + filled))
        filled += h
    return corners


def _drawn(graph: Any, nodes: list[int]) -> FloatArray:
    """One connected part, from (0, 0) to a size that grows with the root of its nodes.

    Places are as far apart as the shortest paths are long, as well as the plane allows: Kamada and Kawai's stress, or
    for many nodes scikit-learn's, whose larger distances are shortened in exchange for a weight of their own.
    """
    import networkx as nx

    if len(nodes) == 1:
        return np.zeros((1, 2))
    if len(nodes) <= _MOST_BY_STRESS:
        spots = nx.kamada_kawai_layout(graph, weight=None)
        points = np.array([spots[node] for node in nodes])
    else:
        points = _scaled(nx.to_scipy_sparse_array(graph, nodelist=nodes, weight=None))
    return _level(points) * 0.75 * math.sqrt(len(nodes))


def _scaled(links: Any) -> FloatArray:
    """Scaling of the distances, begun by the classical one; a circle keeps nodes with the same links apart."""
    from scipy.sparse.csgraph import shortest_path
    from sklearn.manifold import smacof

    apart = shortest_path(links, unweighted=True, directed=False) ** 0.6
    angles = 2 * math.pi * np.arange(len(apart)) / len(apart)
    squares = apart**2
    middle = squares.mean(axis=0)
    values, vectors = np.linalg.eigh((middle[:, None] + middle - squares - middle.mean()) / 2)
    start = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0))
    start += 0.1 * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.asarray(smacof(apart, init=start, n_init=1, eps=1e-6, normalized_stress=False)[0])


def _level(points: FloatArray) -> FloatArray:
    """Turn the long axis level and give it length 1; the short one is stretched, up to twice, towards a half."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ (axes * np.where(axes.sum(axis=1, keepdims=True) < 0, -1.0, 1.0)).T
    turned -= turned.min(axis=0)
    long, short = turned.max(axis=0)
    stretch = max(1.0, min(2.0, 0.5 * long / max(short, 1e-9))) if short > 1e-6 * long else 1.0
    return np.asarray(turned / (long or 1.0) * np.array([1.0, stretch]))
