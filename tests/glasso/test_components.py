"""Columns are split exactly as the graph of large entries splits."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from hazeglass.glasso.components import DOMINANT, split
from hazeglass.glasso.penalty import make_penalty


@given(st.integers(2, 40), st.floats(0.0, 0.15), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_components_are_those_of_the_graph_of_large_entries(p: int, density: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    S = np.triu(rng.random((p, p)) < density, 1) * rng.choice([-1.0, 1.0], (p, p))
    S = S + S.T + np.eye(p)
    parts = split(S, make_penalty(p, 0.5))
    count, labels = connected_components(np.abs(S) > 0.5)
    sizes = np.bincount(labels)
    if parts is None:
        assert count == 1 or sizes.max() >= DOMINANT * p
        return
    groups = [*parts.large, *parts.pairs, *([column] for column in parts.single)]
    assert sorted(tuple(map(int, group)) for group in groups) == sorted(
        tuple(map(int, np.flatnonzero(labels == k))) for k in range(count)
    )
