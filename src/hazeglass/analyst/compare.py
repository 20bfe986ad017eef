"""Two graphs side by side, with a test of every difference; and a graph against a known truth.

The rows of two releases are independent, and so is their noise. With r_a and r_b the de-biased partial correlations of
a pair and s_a, s_b their standard errors, each by the error model of its own release, r_b - r_a has the standard error
sqrt(s_a^2 + s_b^2), and q-values are those of Benjamini and Hochberg over all pairs (docs/maths/many.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.errors import DistrustWarning, InputError, warn

if TYPE_CHECKING:
    import pyarrow as pa

    from hazeglass.analyst.graph import Graph

FloatArray = npt.NDArray[np.float64]
Pair = frozenset[str]
_ESTIMATES = ("partial_correlation", "std_error", "selected")
_TESTED = ("std_error", "ci_low", "ci_high", "p_value", "q_value")
_QUANTILE = 1.959963984540054


@dataclass(frozen=True, eq=False)
class GraphDiff:
    """What :func:`hazeglass.compare` returns: which pairs differ from one graph to another.

    before, after  the two graphs
    edges          an Arrow table, one row per pair: source, target, partial_correlation_a, std_error_a, selected_a, the
                   same of b, difference (b less a) with std_error, ci_low, ci_high, p_value and q_value, selected, and
                   of selected ones change: 'gained' or 'lost' where a pair is an edge in one graph only, 'stronger',
                   'weaker' or 'turned' (its sign) where in both, 'differs' where in neither. What is not compared is
                   empty
    fit            how it came about: the false-discovery rate, both releases, notes, and under `distrusted` why nothing
                   is selected, where one of the releases contradicts the model of its error bars
    """

    before: Graph
    after: Graph
    edges: pa.Table
    fit: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes, in the order of the first graph."""
        return self.before.names

    @property
    def selected(self) -> pa.Table:
        """The pairs that differ, the largest difference first."""
        import pyarrow.compute as pc

        chosen = self.edges.filter(self.edges["selected"])
        return chosen.take(pc.sort_indices(pc.abs(chosen["difference"]), sort_keys=[("", "descending")]))

    def pairs(self, change: str | None = None) -> tuple[tuple[str, str], ...]:
        """The pairs that differ, or those with this change, in alphabetical order."""
        rows = self.selected.to_pylist()
        kept = [frozenset((row["source"], row["target"])) for row in rows if change in (None, row["change"])]
        return tuple(sorted((min(pair), max(pair)) for pair in kept))

    def __bool__(self) -> bool:
        return bool(self.selected.num_rows)

    def __repr__(self) -> str:
        count = self.selected.num_rows
        return f"<GraphDiff: {len(self.names)} nodes, {count} {'pair differs' if count == 1 else 'pairs differ'}>"

    def plot(self, *, size: tuple[float, float] | None = None, save: str | Path | None = None) -> Any:
        """Draw both graphs with the same places for their nodes, and what changed; returns a matplotlib Figure."""
        from hazeglass.present.beside import plot_diff

        return plot_diff(self.names, self.edges, self.fit, size=size, save=save)

    def save(self, out: str | Path) -> Path:
        """Write diff.csv, diff.json and diff.html into the new folder `out`."""
        from hazeglass.analyst.export import save_diff

        return save_diff(self, Path(out))

    def _repr_html_(self) -> str:
        from hazeglass.present.beside import diff_page
        from hazeglass.present.pages import Page

        return Page(diff_page(self.names, self.edges, self.fit))._repr_html_()


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


# ------------------------------------------------------------------------------------------------ what differs


def compare(
    release_a: Any, release_b: Any, *, fdr: float = 0.1, key: str | Path | None = None, progress: Any = None
) -> GraphDiff:
    """Which pairs depend on each other otherwise in one release than in another, of the same columns and of other rows.

    Parameters
    ----------
    release_a, release_b : what :func:`hazeglass.recover` takes: a release, the place of one, or a list that is pooled
    fdr : the false-discovery rate of the differences, and of the edges on both sides
    key : the publisher's public key: refuse what it did not sign
    progress : as in :func:`hazeglass.recover`

    Returns
    -------
    GraphDiff
    """
    from hazeglass.analyst.recover import recover
    from hazeglass.analyst.several import check_alike, check_apart, is_several
    from hazeglass.analyst.source import is_rows
    from hazeglass.bundle.reader import Release, load

    def opened(side: Any) -> list[Any]:
        places = list(side) if is_several(side) else [side]
        return [load(one, key=key) if isinstance(one, str | Path) and not is_rows(one) else one for one in places]

    sides = [opened(side) for side in (release_a, release_b)]
    first, other = (side[0] for side in sides)
    if isinstance(first, Release) and isinstance(other, Release):
        check_alike(first, other, "release b")
        both = ((a, b) for a in sides[0] for b in sides[1])
        check_apart(pair for pair in both if all(isinstance(one, Release) for one in pair))
    ranked = any(isinstance(one, Release) and one.manifest.scale == "scores" for one in (first, other))
    scales = ["normal-scores" if ranked and not isinstance(side[0], Release) else "as-is" for side in sides]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DistrustWarning)  # what is wrong with a side is said once, of the differences
        graphs = [
            recover(side if len(side) > 1 else side[0], fdr=fdr, marginals=scale, all_pairs=True, progress=progress)
            for side, scale in zip(sides, scales, strict=True)
        ]
    return diff(*graphs, fdr=fdr)


def diff(before: Graph, after: Graph, *, fdr: float = 0.1) -> GraphDiff:
    """A test of every pair's difference between two graphs of the same nodes and of other rows."""
    if not 0 < fdr < 1:
        raise InputError(f"fdr must lie strictly between 0 and 1, got {fdr!r}; 0.1 is a common choice.")
    if set(before.names) != set(after.names):
        odd = sorted(set(before.names) ^ set(after.names))
        raise InputError(
            f"graphs can be compared only over the same nodes, and {odd[0]!r} is in one of them alone. Leave out of "
            "both plans what one of them lacks."
        )
    one, other = _estimates(before), _estimates(after)
    pairs = [pair for pair in one if pair in other]
    notes, distrusted = _notes(before, after, len(pairs)), _distrusted(before, after)
    table = _tested(before.names, pairs, one, other, fdr, trusted=not distrusted)
    unknown = int(np.isnan(table["difference"].to_numpy()).sum())
    if unknown:
        notes.append(
            f"{unknown:,} of {len(pairs):,} pairs have a column of levels without an order and no partial correlation: "
            "they are not compared."
        )
    if distrusted:
        warn(f"nothing is selected, because error bars would be wrong: {distrusted}.", DistrustWarning)
    facts = {
        "fdr": fdr,
        "pairs": len(pairs),
        "compared": len(pairs) - unknown,
        "notes": notes,
        "distrusted": distrusted or None,
        "releases": {"a": _facts(before), "b": _facts(after)},
    }
    return GraphDiff(before, after, table, facts)


def _estimates(graph: Graph) -> dict[Pair, tuple[float, float, bool]]:
    columns = [graph.edges[key].to_numpy(zero_copy_only=False) for key in _ESTIMATES]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return dict(zip(pairs_of(graph.edges), rows, strict=True))


def _distrusted(before: Graph, after: Graph) -> str:
    """Why error bars of differences would be wrong: those of a side are, or pairs are given other columns there."""
    said = [(side, graph.fit.get("distrusted")) for side, graph in (("a", before), ("b", after))]
    if any(why for _, why in said):
        return "; ".join(f"release {side}: {why}" for side, why in said if why)
    a, b = (set(graph.fit.get("left_out") or ()) for graph in (before, after))
    if a == b:
        return ""
    return (
        f"pairs are not given {', '.join(sorted(a ^ b)[:5])} in one release and are in the other, because other "
        "columns determine it or nothing says how it depends on one of them. Leave it out of both plans"
    )


def _notes(before: Graph, after: Graph, pairs: int) -> list[str]:
    """What a reader must know of what was compared."""
    notes = []
    if pairs < max(before.edges.num_rows, after.edges.num_rows):
        notes.append(f"Only the {pairs:,} pairs that both graphs list are compared. Recover both with all_pairs.")
    scales, forms = ([graph.fit.get(key) for graph in (before, after)] for key in ("marginals", "form"))
    if scales[0] != scales[1]:
        notes.append("One side is of ranks, the other of values: recover rows with marginals = 'normal-scores'.")
    elif scales[0] == "normal-scores" and forms.count("rows") == 1:
        notes.append("Rows were turned into normal numbers by their ranks, because the release is of such numbers.")
    if "curved" in {before.fit.get("dependence"), after.fit.get("dependence")}:
        notes.append("Of curved dependence only the linear part is compared.")
    hidden = sorted({*before.fit.get("hidden_columns", ()), *after.fit.get("hidden_columns", ())})
    if hidden:
        notes.append(f"Noise hides {', '.join(hidden[:5])} in one of the releases: no difference can be found there.")
    return notes


def _facts(graph: Graph) -> dict[str, Any]:
    """What a comparison says of each side: the release, or the releases, and what they promise."""
    keys = ("title", "form", "n", "unit", "unit_readings", "unit_max_rows", "mu", "epsilon", "delta", "simulation")
    kept = {key: graph.fit.get(key) for key in (*keys, "effective_rows", "distrusted", "releases")}
    return {**kept, "edges": graph.selected.num_rows}


def _tested(
    names: tuple[str, ...],
    pairs: list[Pair],
    one: Mapping[Pair, tuple[float, float, bool]],
    other: Mapping[Pair, tuple[float, float, bool]],
    fdr: float,
    *,
    trusted: bool,
) -> pa.Table:
    import pyarrow as pa
    from scipy.special import ndtr
    from scipy.stats import false_discovery_control

    place = {name: k for k, name in enumerate(names)}
    ends = [sorted(pair, key=place.__getitem__) for pair in pairs]
    a, b = (np.array([side[pair] for pair in pairs], dtype=np.float64).reshape(-1, 3) for side in (one, other))
    difference, error = b[:, 0] - a[:, 0], np.hypot(a[:, 1], b[:, 1])
    known = np.isfinite(difference) & np.isfinite(error) & (error > 0)
    p_value, q_value = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    if trusted and known.any():
        p_value[known] = 2 * ndtr(-np.abs(difference[known]) / error[known])
        q_value[known] = false_discovery_control(p_value[known])
    selected = np.nan_to_num(q_value, nan=1.0) <= fdr
    numbers = {
        "difference": difference,
        "std_error": error,
        "ci_low": np.clip(difference - _QUANTILE * error, -2.0, 2.0),
        "ci_high": np.clip(difference + _QUANTILE * error, -2.0, 2.0),
        "p_value": p_value,
        "q_value": q_value,
    }
    if not trusted:
        numbers |= dict.fromkeys(_TESTED, np.full(len(pairs), np.nan))
    table: dict[str, Any] = {"source": [pair[0] for pair in ends], "target": [pair[1] for pair in ends]}
    for side, values in (("a", a), ("b", b)):
        table[f"partial_correlation_{side}"], table[f"std_error_{side}"] = values[:, 0], values[:, 1]
        table[f"selected_{side}"] = values[:, 2] > 0
    table |= numbers
    table["selected"] = selected
    table["change"] = pa.array(_changes(a, b, selected), pa.string())
    made = {key: pa.array(value, from_pandas=True) if key in numbers else value for key, value in table.items()}
    return pa.table(made)


def _changes(a: FloatArray, b: FloatArray, selected: npt.NDArray[np.bool_]) -> list[str | None]:
    """In a word what happened to each pair that differs."""
    found: list[str | None] = []
    for before, after, differs in zip(a.tolist(), b.tolist(), selected.tolist(), strict=True):
        match (bool(before[2]), bool(after[2])):
            case _ if not differs:
                found.append(None)
            case (False, False):
                found.append("differs")
            case (False, True):
                found.append("gained")
            case (True, False):
                found.append("lost")
            case _ if before[0] * after[0] < 0:
                found.append("turned")
            case _:
                found.append("stronger" if abs(after[0]) > abs(before[0]) else "weaker")
    return found
