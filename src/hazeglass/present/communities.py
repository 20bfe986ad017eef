"""Groups of nodes that are linked more among themselves than chance would have it: greedy modularity."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["communities", "community_order"]

FloatArray = npt.NDArray[np.float64]
Weights = Any  # a symmetric matrix, dense or of scipy.sparse
_LEAST_GAIN = 1e-12


def communities(weights: Weights) -> npt.NDArray[np.int64]:
    """A group number per node, largest group first; a node without links is a group of its own, at the end.

    Start with every node alone and join the two groups whose union raises the modularity
    sum over groups of (share of weight inside) - (share of weight at its nodes)^2 most, until none does
    (Clauset, Newman and Moore 2004). Deterministic: ties go to the lowest numbers. Ten thousand nodes take seconds,
    because only groups that share a link are ever compared.
    """
    degrees = _degrees(weights)
    labels = np.arange(len(degrees))
    if degrees.sum() > 0:
        groups = _Groups(weights, degrees)
        while (best := groups.best()) is not None:
            groups.join(*best)
        labels = groups.labels()
    return _by_size(labels, degrees > 0)


class _Groups:
    """Groups under way: the share of weight between each two that are linked, and at the nodes of each.

    `queue` holds unions by a gain that is never too small: as groups grow the gain of a union falls, unless the two get
    more links, and then it is entered anew.
    """

    def __init__(self, weights: Weights, degrees: FloatArray) -> None:
        from scipy.sparse import coo_array

        total = float(degrees.sum())
        links = coo_array(weights)
        self.between: list[dict[int, float]] = [{} for _ in degrees]
        for i, j, weight in zip(links.row.tolist(), links.col.tolist(), links.data.tolist(), strict=True):
            if weight > 0 and i != j:
                self.between[i][j] = weight / total
        self.ends = (degrees / total).tolist()
        self.parent = list(range(len(self.ends)))
        self.queue = [self._entry(i, j) for i, links in enumerate(self.between) for j in links if i < j]
        heapq.heapify(self.queue)

    def _entry(self, i: int, j: int) -> tuple[float, int, int]:
        i, j = min(i, j), max(i, j)
        return 2 * (self.ends[i] * self.ends[j] - self.between[i][j]), i, j

    def best(self) -> tuple[int, int] | None:
        """The union that gains most, or None when none gains."""
        while self.queue:
            loss, i, j = heapq.heappop(self.queue)
            if j not in self.between[i]:
                continue  # one of them is part of another group by now
            now = self._entry(i, j)
            if now[0] <= loss:
                return (i, j) if -loss > _LEAST_GAIN else None
            heapq.heappush(self.queue, now)
        return None

    def join(self, a: int, b: int) -> None:
        """Put the group with fewer links into the other."""
        if len(self.between[a]) < len(self.between[b]):
            a, b = b, a
        self.parent[b] = a
        self.ends[a] += self.ends[b]
        for other, share in self.between[b].items():
            del self.between[other][b]
            if other != a:
                self.between[a][other] = self.between[other][a] = self.between[a].get(other, 0.0) + share
                heapq.heappush(self.queue, self._entry(a, other))
        self.between[b] = {}

    def labels(self) -> npt.NDArray[np.int64]:
        """The group of each node."""
        found = list(range(len(self.parent)))
        for node in found:
            while self.parent[found[node]] != found[node]:
                found[node] = self.parent[found[node]]
        return np.array(found, dtype=np.int64)


def _degrees(weights: Weights) -> FloatArray:
    return np.asarray(weights.sum(axis=1), dtype=np.float64).ravel()


def _by_size(labels: npt.NDArray[np.int64], linked: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Renumber so that larger groups come first and lone nodes last."""
    names, first, sizes = np.unique(labels, return_index=True, return_counts=True)
    rank = np.empty(len(names), dtype=np.int64)
    rank[np.lexsort((first, -sizes, ~linked[first]))] = np.arange(len(names))
    return np.asarray(rank[np.searchsorted(names, labels)])


def community_order(groups: npt.NDArray[np.int64], weights: Weights) -> npt.NDArray[np.int64]:
    """Nodes group by group, the best linked first."""
    return np.lexsort((np.arange(len(groups)), -_degrees(weights), groups))
