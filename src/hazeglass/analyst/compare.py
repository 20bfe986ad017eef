"""Two graphs side by side, and a graph against a known truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hazeglass.errors import InputError

__all__ = ["GraphDiff", "Scores", "score_pairs", "truth_labels"]

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


def truth_labels(pairs: list[Pair], truth: Iterable[Iterable[str]], names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which of the pairs are true edges; a truth that names an unknown node, or all or no pair, is refused."""
    wanted = {frozenset(pair) for pair in truth}
    unknown = {name for pair in wanted for name in pair} - set(names)
    if unknown:
        some = ", ".join(names[:3])
        raise InputError(
            f"the truth names {sorted(unknown)[0]!r}, which is not a node of this graph: its nodes are {some}, ... "
            "Rows keep their names when they come as a data frame."
        )
    labels = np.array([pair in wanted for pair in pairs], dtype=bool)
    if labels.all() or not labels.any():
        raise InputError("scores need both edges and non-edges in the truth.")
    return labels


def score_pairs(
    labels: npt.NDArray[np.bool_], strength: npt.NDArray[np.float64], selected: npt.NDArray[np.bool_]
) -> Scores:
    """All scores of a ranking and a selection."""
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    right = int(np.sum(selected & labels))
    precision = right / max(1, int(selected.sum()))
    recall = right / int(labels.sum())
    false_rate, true_rate, _ = roc_curve(labels, strength)
    return Scores(
        auc=float(roc_auc_score(labels, strength)),
        average_precision=float(average_precision_score(labels, strength)),
        f1=2 * right / max(1, int(selected.sum()) + int(labels.sum())),
        precision=precision,
        recall=recall,
        hamming_distance=int(np.sum(selected != labels)),
        roc=tuple(zip(map(float, false_rate), map(float, true_rate), strict=True)),
    )
