"""Two graphs side by side, and a graph against a known truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hazeglass.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from hazeglass.analyst.graph import Graph

Pair = frozenset[str]


@dataclass(frozen=True)
class GraphDiff:
    """What changed from one graph to another: pairs of names, in alphabetical order."""

    gained: tuple[tuple[str, str], ...]
    lost: tuple[tuple[str, str], ...]
    changed_sign: tuple[tuple[str, str], ...]

    def __bool__(self) -> bool:
        return bool(self.gained or self.lost or self.changed_sign)


@dataclass(frozen=True, eq=False)
class Scores:
    """A graph against a truth: ranking by strength (auc, average_precision, roc), and the selected edges themselves."""

    auc: float
    average_precision: float
    f1: float
    precision: float
    recall: float
    hamming_distance: int
    roc: tuple[tuple[float, float], ...] = field(repr=False)


def pairs_of(edges: pa.Table) -> list[Pair]:
    """The pairs of a table of edges, in its order."""
    ends = zip(edges["source"].to_pylist(), edges["target"].to_pylist(), strict=True)
    return [frozenset(pair) for pair in ends]


def scores(graph: Graph, truth: Iterable[Iterable[str]]) -> Scores:
    """All scores of a graph; a truth that names an unknown node, or all or no pair, is refused."""
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    names, edges = graph.names, graph.edges
    if edges.num_rows < len(names) * (len(names) - 1) // 2:
        raise InputError(
            f"scores need every pair, and this graph of {len(names):,} nodes lists only {edges.num_rows:,} of them. "
            "Compare graph.pairs with the truth instead."
        )
    wanted = {frozenset(pair) for pair in truth}
    unknown = {name for pair in wanted for name in pair} - set(names)
    if unknown:
        some = ", ".join(names[:3])
        raise InputError(
            f"the truth names {sorted(unknown)[0]!r}, which is not a node of this graph: its nodes are {some}, ... "
            "Rows keep their names when they come as a data frame."
        )
    labels = np.array([pair in wanted for pair in pairs_of(edges)], dtype=bool)
    if labels.all() or not labels.any():
        raise InputError("scores need both edges and non-edges in the truth.")
    selected = edges["selected"].to_numpy(zero_copy_only=False)
    ranking = graph.evidence if graph.evidence is not None else np.abs(edges[graph.strength_column].to_numpy())
    right, called, true = (int(np.sum(kind)) for kind in (selected & labels, selected, labels))
    false_rate, true_rate, _ = roc_curve(labels, ranking)
    return Scores(
        auc=float(roc_auc_score(labels, ranking)),
        average_precision=float(average_precision_score(labels, ranking)),
        f1=2 * right / max(1, called + true),
        precision=right / max(1, called),
        recall=right / true,
        hamming_distance=int(np.sum(selected != labels)),
        roc=tuple(zip(map(float, false_rate), map(float, true_rate), strict=True)),
    )


def diff(graph: Graph, other: Graph) -> GraphDiff:
    """Edges gained, lost and of changed sign, from the one graph to the other."""
    if set(graph.names) != set(other.names):
        raise InputError("graphs can be compared only over the same nodes, and these differ.")
    before, after = _signs(graph), _signs(other)
    changed = [pair for pair in before.keys() & after.keys() if before[pair] * after[pair] < 0]
    return GraphDiff(_ordered(after.keys() - before.keys()), _ordered(before.keys() - after.keys()), _ordered(changed))


def _signs(graph: Graph) -> dict[Pair, float]:
    chosen = graph.selected
    signs = np.sign(chosen["partial_correlation"].to_numpy())
    if "shape" in chosen.column_names:  # a curved dependence rises and falls: it has no sign to change
        signs[np.array(chosen["shape"].to_pylist()) == "curved"] = 0
    return dict(zip(pairs_of(chosen), signs.tolist(), strict=True))


def _ordered(pairs: Iterable[Pair]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((min(pair), max(pair)) for pair in pairs))
