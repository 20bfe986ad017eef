"""Rows on graphs with curved links, for the benchmarks: every node is a function of its parent, plus noise.

The graphs are forests, so that the pairs that depend on each other given the rest are exactly the links.
"""

from __future__ import annotations

import math

import numpy as np

LINKS = {
    "linear": lambda x: x,
    "parabola": lambda x: x * x,
    "saturating": lambda x: np.tanh(1.5 * x),
    "hinge": lambda x: np.log1p(np.exp(2 * x)),
    "bent": lambda x: x + 0.5 * x * x,
    "wave": lambda x: np.sin(2 * x),
    "vee": np.abs,
}
FAMILIES = ("chain", "tree", "hubs")


def parents_of(family: str, p: int, rng: np.random.Generator) -> list[int | None]:
    if family == "chain":
        return [None, *range(p - 1)]
    if family == "tree":
        return [None, *(int(rng.integers(0, k)) for k in range(1, p))]
    return [None if k % 5 == 0 else k - k % 5 for k in range(p)]


def curved_rows(
    family: str, p: int, n: int, share: float, rng: np.random.Generator, links: tuple[str, ...] = tuple(LINKS)
) -> tuple[np.ndarray, np.ndarray]:
    """n rows whose links explain `share` of a node's variance, and the graph as a boolean matrix."""
    rows, truth = np.empty((n, p)), np.zeros((p, p), dtype=bool)
    for k, parent in enumerate(parents_of(family, p, rng)):
        rows[:, k] = rng.standard_normal(n)
        if parent is not None:
            signal = LINKS[str(rng.choice(links))](rows[:, parent])
            signal = (signal - signal.mean()) / signal.std()
            rows[:, k] = math.sqrt(share) * signal + math.sqrt(1 - share) * rows[:, k]
            truth[k, parent] = truth[parent, k] = True
    return rows, truth
