"""The graph of conditional dependence: named nodes, one row per pair, and the ways out of Python."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.writer import new_folder
from hazeglass.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Graph"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Graph:
    """What :func:`hazeglass.recover` returns.

    names      the nodes
    precision  the penalised precision matrix, on the scale named in `fit`
    edges      an Arrow table, one row per pair: source, target, precision, partial_correlation, std_error, ci_low,
               ci_high, p_value, q_value, selected
    fit        how the estimate came about: alpha, solver, duality gap, repairs, the release's unit and mu
    """

    names: tuple[str, ...]
    precision: FloatArray
    edges: pa.Table
    fit: Mapping[str, Any]

    @property
    def selected(self) -> pa.Table:
        """The pairs called an edge, strongest first."""
        import pyarrow.compute as pc

        chosen = self.edges.filter(self.edges["selected"])
        strength = pc.abs(chosen["partial_correlation"])
        return chosen.take(pc.sort_indices(strength, sort_keys=[("", "descending")]))

    @property
    def pairs(self) -> frozenset[frozenset[str]]:
        """The selected edges as a set of unordered pairs of names."""
        chosen = self.selected
        return frozenset(
            frozenset(pair) for pair in zip(chosen["source"].to_pylist(), chosen["target"].to_pylist(), strict=True)
        )

    def strength(self) -> FloatArray:
        """Absolute partial correlations as a symmetric matrix with a zero diagonal: the score behind an ROC curve."""
        p = len(self.names)
        matrix = np.zeros((p, p))
        matrix[np.triu_indices(p, 1)] = np.abs(self.edges["partial_correlation"].to_numpy())
        return matrix + matrix.T

    def auc(self, truth: Iterable[Iterable[str]]) -> float:
        """Area under the ROC curve of `strength` for the true edges given as pairs of names."""
        from sklearn.metrics import roc_auc_score

        wanted = {frozenset(pair) for pair in truth}
        unknown = {name for pair in wanted for name in pair} - set(self.names)
        if unknown:
            raise InputError(f"the truth names {sorted(unknown)[0]!r}, which is not a node of this graph.")
        labels = [
            frozenset(pair) in wanted
            for pair in zip(self.edges["source"].to_pylist(), self.edges["target"].to_pylist(), strict=True)
        ]
        if all(labels) or not any(labels):
            raise InputError("an ROC curve needs both edges and non-edges in the truth.")
        return float(roc_auc_score(labels, np.abs(self.edges["partial_correlation"].to_numpy())))

    def partial_correlations(self, *, selected_only: bool = False) -> FloatArray:
        """Partial correlations as a symmetric matrix with a zero diagonal; 0 where a pair is no edge, if asked."""
        p = len(self.names)
        values = self.edges["partial_correlation"].to_numpy()
        matrix = np.zeros((p, p))
        matrix[np.triu_indices(p, 1)] = (
            np.where(self.edges["selected"].to_numpy(), values, 0) if selected_only else values
        )
        return matrix + matrix.T

    def plot(self, *, ax: Any = None, save: str | Path | None = None) -> Any:
        """Draw the selected edges with matplotlib; `save` names an .svg, .pdf or .png. Returns the Axes."""
        from hazeglass.present.plots import plot_graph

        return plot_graph(self.names, self.partial_correlations(selected_only=True), ax=ax, save=save)

    def plot_adjacency(self, *, ax: Any = None, save: str | Path | None = None) -> Any:
        """Draw the matrix of the selected edges' partial correlations, ordered by community."""
        from hazeglass.present.plots import plot_adjacency

        return plot_adjacency(self.names, self.partial_correlations(selected_only=True), ax=ax, save=save)

    def plot_path(self, *, ax: Any = None, save: str | Path | None = None) -> Any:
        """Draw how edges and criterion changed along the penalties that were tried."""
        from hazeglass.present.plots import plot_path

        return plot_path(self.fit["path"], self.fit["alpha"], ax=ax, save=save)

    def to_networkx(self) -> Any:
        """The selected edges as a networkx.Graph with all columns as edge attributes."""
        try:
            import networkx as nx
        except ImportError:
            raise MissingExtraError(
                "to_networkx needs networkx. Install it with: pip install 'hazeglass[graph]'"
            ) from None
        graph = nx.Graph()
        graph.add_nodes_from(self.names)
        for row in self.selected.to_pylist():
            graph.add_edge(row.pop("source"), row.pop("target"), **row)
        return graph

    def save(self, out: str | Path) -> Path:
        """Write edges.csv, precision.parquet, graph.graphml, fit.json and report.html into the new folder `out`."""
        from hazeglass.present.report import report

        with new_folder(out) as folder:
            _write_edges(self.edges, folder / "edges.csv")
            _write_precision(self.names, self.precision, folder / "precision.parquet")
            _graphml(self).write(folder / "graph.graphml", encoding="utf-8", xml_declaration=True)
            text = json.dumps(dict(self.fit), indent=2, ensure_ascii=False, allow_nan=False)
            (folder / "fit.json").write_text(text + "\n", encoding="utf-8")
            page = report(self.names, self.edges, self.fit)
            (folder / "report.html").write_text(page, encoding="utf-8")
        return Path(out)

    def __repr__(self) -> str:
        alpha = self.fit["alpha"]
        return f"<Graph: {len(self.names)} nodes, {self.selected.num_rows} edges, alpha={alpha:.4g}>"


def _write_edges(edges: pa.Table, path: Path) -> None:
    from pyarrow import csv

    csv.write_csv(edges, path)


def _write_precision(names: tuple[str, ...], precision: FloatArray, path: Path) -> None:
    """One named column per node; rows are in the same order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table([np.ascontiguousarray(column) for column in precision.T], names=list(names)), path)


def _graphml(graph: Graph) -> ElementTree.ElementTree:
    """GraphML with names as node labels and every numeric column as an edge attribute."""
    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    kept = [name for name in graph.edges.column_names if name not in ("source", "target", "selected")]
    ElementTree.SubElement(root, "key", {"id": "name", "for": "node", "attr.name": "name", "attr.type": "string"})
    for name in kept:
        ElementTree.SubElement(root, "key", {"id": name, "for": "edge", "attr.name": name, "attr.type": "double"})
    body = ElementTree.SubElement(root, "graph", edgedefault="undirected")
    index = {name: f"n{k}" for k, name in enumerate(graph.names)}
    for name, identifier in index.items():
        node = ElementTree.SubElement(body, "node", id=identifier)
        ElementTree.SubElement(node, "data", key="name").text = _xml_text(name)
    for row in graph.selected.to_pylist():
        edge = ElementTree.SubElement(body, "edge", source=index[row["source"]], target=index[row["target"]])
        for name in kept:
            ElementTree.SubElement(edge, "data", key=name).text = repr(float(row[name]))
    ElementTree.indent(root)
    return ElementTree.ElementTree(root)


def _xml_text(name: str) -> str:
    """XML has no way to write most control characters; they become a visible replacement."""
    return "".join(c if c in "\t\n\r" or ord(c) >= 32 else "\ufffd" for c in name)
