"""Which nodes of a large graph a picture shows: the largest communities, as many as the eye can take in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass.present.communities import community_order
from hazeglass.present.layout import node_positions

__all__ = ["LARGE", "drawn_nodes", "place_nodes"]

LARGE = 1000  # nodes: up to here every one is drawn
_MOST_DRAWN = 600

Indices = npt.NDArray[np.int64]


def drawn_nodes(groups: Indices, links: Any) -> Indices:
    """All nodes of a graph that is not large; else those of the largest communities, in increasing order.

    A community too large for the picture is shown around its best-linked node, as far as there is room.
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


def place_nodes(drawn: Indices, links: Any) -> npt.NDArray[np.float64]:
    """Positions of the drawn nodes in the unit square."""
    inside = links[drawn][:, drawn]
    return node_positions(np.asarray(inside.toarray() > 0))
