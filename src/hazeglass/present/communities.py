"""Groups of nodes that are linked more among themselves than chance would have it: greedy modularity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["communities", "community_order"]

FloatArray = npt.NDArray[np.float64]


def communities(weights: FloatArray) -> npt.NDArray[np.int64]:
    """A group number per node, largest group first; a node without links is a group of its own, at the end.

    Start with every node alone and join the two groups whose union raises the modularity
    sum over groups of (share of weight inside) - (share of weight at its nodes)^2 most, until none does
    (Clauset, Newman and Moore 2004). Deterministic: ties go to the lowest numbers.
    """
    p = len(weights)
    labels = np.arange(p)
    total = float(weights.sum())
    if total > 0:
        inside = weights / total
        ends = inside.sum(axis=1)
        gain = np.where(inside > 0, 2 * (inside - np.outer(ends, ends)), -np.inf)
        np.fill_diagonal(gain, -np.inf)
        best = gain.argmax(axis=1)
        value = gain[np.arange(p), best]
        while True:
            a = int(np.argmax(value))
            b = int(best[a])
            if not value[a] > 1e-12:
                break
            labels[labels == labels[b]] = labels[a]
            inside[a] += inside[b]
            inside[:, a] += inside[:, b]
            ends[a] += ends[b]
            inside[b], inside[:, b], ends[b] = 0.0, 0.0, 0.0
            gain[b], gain[:, b] = -np.inf, -np.inf
            gain[a] = np.where(inside[a] > 0, 2 * (inside[a] - ends[a] * ends), -np.inf)
            gain[a, a] = -np.inf
            gain[:, a] = gain[a]
            # Only rows that pointed at a changed group, or now should, need another look.
            stale = np.flatnonzero((best == a) | (best == b) | (gain[a] >= value))
            stale = np.union1d(stale, [a, b])
            best[stale] = gain[stale].argmax(axis=1)
            value[stale] = gain[stale, best[stale]]
    return _by_size(labels, weights.sum(axis=1) > 0)


def _by_size(labels: npt.NDArray[np.int64], linked: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Renumber so that larger groups come first and lone nodes last."""
    names, first, sizes = np.unique(labels, return_index=True, return_counts=True)
    rank = np.empty(len(names), dtype=np.int64)
    rank[np.lexsort((first, -sizes, ~linked[first]))] = np.arange(len(names))
    return np.asarray(rank[np.searchsorted(names, labels)])


def community_order(groups: npt.NDArray[np.int64], weights: FloatArray) -> npt.NDArray[np.int64]:
    """Nodes group by group, the best linked first."""
    return np.lexsort((np.arange(len(groups)), -weights.sum(axis=1), groups))
