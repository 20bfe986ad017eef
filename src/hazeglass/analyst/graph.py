"""The graph of conditional dependence: named nodes, one row per pair, and the ways out of Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.compare import GraphDiff, Scores, score_pairs, truth_labels
from hazeglass.analyst.export import write_csv, write_cytoscape, write_gexf, write_graphml
from hazeglass.bundle.writer import new_folder
from hazeglass.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Graph"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Graph:
    """What :func:`hazeglass.recover` returns.

    names      the nodes
    precision  the penalised precision matrix, on the scale named in `fit`; that of all features for curved dependence
    edges      an Arrow table, one row per pair: source, target, precision, partial_correlation, std_error, ci_low,
               ci_high, p_value, q_value, selected (and stability, when stars chose the penalty); above a thousand
               nodes the pairs that are edges, have a precision, or come next in likelihood: half a million. For curved
               dependence partial_correlation is that of the linear part, precision the signed norm of the pair's
               block, and two more columns follow: strength of the whole dependence, shape ('linear' or 'curved')
    fit        how the estimate came about: alpha, solver, duality gap, repairs, the release's unit and mu
    evidence   how strongly the release speaks for each pair: what scores rank by (None: their strength)
    features   names of the rows of `precision` where they are not the nodes (curved dependence)
    """

    names: tuple[str, ...]
    precision: FloatArray
    edges: pa.Table
    fit: Mapping[str, Any]
    evidence: FloatArray | None = None
    features: tuple[str, ...] = ()

    # ------------------------------------------------------------------------------------------------- looking

    @property
    def selected(self) -> pa.Table:
        """The pairs called an edge, strongest first."""
        import pyarrow.compute as pc

        chosen = self.edges.filter(self.edges["selected"])
        strength = pc.abs(chosen[self._strength_column])
        return chosen.take(pc.sort_indices(strength, sort_keys=[("", "descending")]))

    @property
    def pairs(self) -> frozenset[frozenset[str]]:
        """The selected edges as a set of unordered pairs of names."""
        return frozenset(_pairs(self.selected))

    @property
    def partial_correlations(self) -> FloatArray:
        """Partial correlations as a symmetric matrix with ones on the diagonal, 0 for a pair `edges` does not list."""
        matrix = np.eye(len(self.names))
        i, j = self._ends(self.edges)
        matrix[i, j] = matrix[j, i] = self.edges["partial_correlation"].to_numpy()
        return matrix

    @property
    def adjacency(self) -> npt.NDArray[np.bool_]:
        """Which pairs are selected, as a symmetric matrix."""
        matrix = np.zeros((len(self.names), len(self.names)), dtype=bool)
        i, j = self._ends(self.selected)
        matrix[i, j] = matrix[j, i] = True
        return matrix

    def _ends(self, edges: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The pairs of a table as numbers of nodes."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = pa.array(self.names)
        source, target = (pc.index_in(edges[key], known).to_numpy().astype(np.int64) for key in ("source", "target"))
        return source, target

    def strength(self) -> FloatArray:
        """Absolute partial correlations (curved: strengths) with a zero diagonal: the score behind an ROC curve."""
        matrix = np.zeros((len(self.names), len(self.names)))
        i, j = self._ends(self.edges)
        matrix[i, j] = matrix[j, i] = np.abs(self.edges[self._strength_column].to_numpy())
        return matrix

    @property
    def _strength_column(self) -> str:
        return "strength" if "strength" in self.edges.column_names else "partial_correlation"

    def components(self) -> list[tuple[str, ...]]:
        """Connected components of the selected edges, the largest first."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        i, j = self._ends(self.selected)
        links = coo_array((np.ones(i.size), (i, j)), shape=(len(self.names), len(self.names)))
        count, labels = connected_components(links, directed=False)
        groups = [tuple(self.names[k] for k in group) for group in _groups(labels, count)]
        return sorted(groups, key=lambda group: (-len(group), group))

    def hubs(self, most: int = 5) -> list[tuple[str, int]]:
        """The nodes with most selected edges."""
        degrees = np.bincount(np.concatenate(self._ends(self.selected)), minlength=len(self.names))
        order = np.argsort(-degrees, kind="stable")[:most]
        return [(self.names[k], int(degrees[k])) for k in order]

    # ----------------------------------------------------------------------------------------------- comparing

    def scores(self, truth: Iterable[Iterable[str]]) -> Scores:
        """AUC, average precision, F1, structural Hamming distance and ROC points against true edges given as pairs."""
        p = len(self.names)
        if self.edges.num_rows < p * (p - 1) // 2:
            raise InputError(
                f"scores need every pair, and this graph of {p:,} nodes lists only {self.edges.num_rows:,} of them. "
                "Compare graph.pairs with the truth instead."
            )
        labels = truth_labels(_pairs(self.edges), truth, self.names)
        selected = self.edges["selected"].to_numpy(zero_copy_only=False)
        sizes = np.abs(self.edges[self._strength_column].to_numpy())
        return score_pairs(labels, sizes if self.evidence is None else self.evidence, selected)

    def auc(self, truth: Iterable[Iterable[str]]) -> float:
        """Area under the ROC curve of the pairs, ranked by the evidence for them."""
        return self.scores(truth).auc

    def diff(self, other: Graph) -> GraphDiff:
        """Edges gained, lost and of changed sign, from this graph to the other."""
        if set(self.names) != set(other.names):
            raise InputError("graphs can be compared only over the same nodes, and these differ.")
        before, after = self._signs(), other._signs()
        changed = [pair for pair in before.keys() & after.keys() if before[pair] * after[pair] < 0]
        return GraphDiff(
            _ordered(after.keys() - before.keys()), _ordered(before.keys() - after.keys()), _ordered(changed)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        same_nodes = self.names == other.names and np.array_equal(self.precision, other.precision)
        return same_nodes and bool(self.edges.equals(other.edges))

    __hash__ = None  # type: ignore[assignment]

    def _signs(self) -> dict[frozenset[str], float]:
        chosen = self.selected
        signs = np.sign(chosen["partial_correlation"].to_numpy())
        if "shape" in chosen.column_names:  # a curved dependence rises and falls: it has no sign to change
            signs[np.array(chosen["shape"].to_pylist()) == "curved"] = 0
        return dict(zip(_pairs(chosen), signs.tolist(), strict=True))

    # ------------------------------------------------------------------------------------------------ ways out

    def _edge_matrix(self) -> FloatArray:
        """Signed strengths of the selected edges, zero elsewhere: what pictures show."""
        sign = np.where(self.partial_correlations < 0, -1.0, 1.0)
        return np.where(self.adjacency, sign * self.strength(), 0.0)

    def plot(self, *, ax: Any = None, save: str | Path | None = None) -> Any:
        """Draw the selected edges with matplotlib; `save` names an .svg, .pdf or .png. Returns the Axes."""
        from hazeglass.present.plots import plot_graph

        return plot_graph(self.names, self._edge_matrix(), ax=ax, save=save)

    def plot_adjacency(self, *, ax: Any = None, save: str | Path | None = None) -> Any:
        """Draw the matrix of the selected edges' partial correlations, ordered by community."""
        from hazeglass.present.plots import plot_adjacency

        return plot_adjacency(self.names, self._edge_matrix(), ax=ax, save=save)

    def plot_path(self, *, ax: Any = None, save: str | Path | None = None) -> Any:
        """Draw how edges and criterion changed along the penalties that were tried."""
        from hazeglass.present.plots import plot_path

        return plot_path(self.fit["path"], self.fit["alpha"], ax=ax, save=save)

    def to_networkx(self) -> Any:
        """The selected edges as a networkx.Graph with all columns as edge attributes."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(self.names)
        for row in self.selected.to_pylist():
            graph.add_edge(row.pop("source"), row.pop("target"), **row)
        return graph

    def to_pandas(self) -> Any:
        """The edge table as a pandas DataFrame."""
        return self.edges.to_pandas()

    def to_polars(self) -> Any:
        """The edge table as a polars DataFrame."""
        import polars

        return polars.from_arrow(self.edges)

    def write(self, path: str | Path) -> Path:
        """Write the selected edges in the format the name ends in: .graphml, .gexf, .cyjs (Cytoscape JSON) or .csv."""
        path = Path(path)
        chosen = self.selected
        match path.suffix.lower():
            case ".graphml":
                write_graphml(self.names, chosen.to_pylist(), path)
            case ".gexf":
                write_gexf(self.names, chosen.to_pylist(), path)
            case ".cyjs":
                write_cytoscape(self.names, chosen.to_pylist(), path)
            case ".csv":
                write_csv(chosen, path)
            case other:
                raise InputError(f"a graph can be written as .graphml, .gexf, .cyjs or .csv, got {other!r}.")
        return path

    def save(self, out: str | Path) -> Path:
        """Write edges.csv, precision.parquet, graph.graphml, fit.json and report.html into the new folder `out`."""
        from hazeglass.present.report import report

        with new_folder(out) as folder:
            write_csv(self.edges, folder / "edges.csv")
            _write_precision(self.features or self.names, self.precision, folder / "precision.parquet")
            self.write(folder / "graph.graphml")
            text = json.dumps(dict(self.fit), indent=2, ensure_ascii=False, allow_nan=False)
            (folder / "fit.json").write_text(text + "\n", encoding="utf-8")
            page = report(self.names, self.edges, self.fit)
            (folder / "report.html").write_text(page, encoding="utf-8")
        return Path(out)

    def __repr__(self) -> str:
        alpha = self.fit["alpha"]
        return f"<Graph: {len(self.names)} nodes, {self.selected.num_rows} edges, alpha={alpha:.4g}>"

    def _repr_html_(self) -> str:
        """A short table for notebooks."""
        from hazeglass.present.pages import render

        return render("graph_cell.html", title=repr(self), edges=self.selected.slice(0, 20).to_pylist())


def _groups(labels: npt.NDArray[np.int32], count: int) -> list[list[int]]:
    """The members of each label."""
    groups: list[list[int]] = [[] for _ in range(count)]
    for node, label in enumerate(labels.tolist()):
        groups[label].append(node)
    return groups


def _pairs(edges: pa.Table) -> list[frozenset[str]]:
    ends = zip(edges["source"].to_pylist(), edges["target"].to_pylist(), strict=True)
    return [frozenset(pair) for pair in ends]


def _ordered(pairs: Iterable[frozenset[str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((min(pair), max(pair)) for pair in pairs))


def _write_precision(names: tuple[str, ...], precision: FloatArray, path: Path) -> None:
    """One named column per node; rows are in the same order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table([np.ascontiguousarray(column) for column in precision.T], names=list(names)), path)
