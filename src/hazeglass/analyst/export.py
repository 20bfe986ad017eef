"""A graph in other people's formats: GraphML, GEXF, Cytoscape JSON, CSV. Names are data, never markup or formulas."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.bundle.writer import new_folder
from hazeglass.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from hazeglass.analyst.graph import Graph

_NOT_ATTRIBUTES = ("source", "target", "selected")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What a spreadsheet takes for the start of a formula, at the start of a cell or behind what it may take for a separator
# (OWASP, "CSV injection"); full-width signs count as well.
_FORMULA = re.compile(r"(^|[,;|\t\r\n])(?=[\s\x00\u00a0\ufeff]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")


def to_networkx(graph: Graph) -> Any:
    """The selected edges as a networkx.Graph with all columns as edge attributes."""
    import networkx as nx

    network = nx.Graph()
    network.add_nodes_from(graph.names)
    for row in graph.selected.to_pylist():
        network.add_edge(row.pop("source"), row.pop("target"), **row)
    return network


def write(graph: Graph, path: Path) -> Path:
    """Write the selected edges in the format the name ends in."""
    import networkx as nx

    match path.suffix.lower():
        case ".graphml":  # names as an attribute of nodes and every column as one of edges
            nx.write_graphml_xml(_numbered(graph, "name"), path, named_key_ids=True)
        case ".gexf":  # 1.2, which more programs read than 1.3; the strength of an edge as its weight
            network = _numbered(graph, "label")
            for _, _, data in network.edges(data=True):
                data["weight"] = abs(data[graph.strength_column])
            nx.write_gexf(network, path, version="1.2draft")
        case ".cyjs":  # the document that Cytoscape and Cytoscape.js read
            document = nx.cytoscape_data(_numbered(graph, "name"))
            path.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
        case ".csv":
            write_csv(graph.selected, path)
        case other:
            raise InputError(f"a graph can be written as .graphml, .gexf, .cyjs or .csv, got {other!r}.")
    return path


def save(graph: Graph, out: Path) -> Path:
    """Write edges.csv, precision.parquet, graph.graphml, fit.json and report.html into the new folder `out`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hazeglass.present.report import report

    with new_folder(out) as folder:
        write_csv(graph.edges, folder / "edges.csv")
        # one named column per node or feature; rows are in the same order
        columns = [np.ascontiguousarray(column) for column in graph.precision.T]
        pq.write_table(pa.table(columns, names=list(graph.features or graph.names)), folder / "precision.parquet")
        write(graph, folder / "graph.graphml")
        text = json.dumps(dict(graph.fit), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / "fit.json").write_text(text + "\n", encoding="utf-8")
        (folder / "report.html").write_text(report(graph.names, graph.edges, graph.fit), encoding="utf-8")
    return out


def never_a_formula(text: str) -> str:
    """The text with an apostrophe before whatever a spreadsheet would run; other text stays as it is.

    >>> never_a_formula("=1+1"), never_a_formula("a-b")
    ("'=1+1", 'a-b')
    """
    return _FORMULA.sub(r"\1'", text)


def write_csv(table: pa.Table, path: Path) -> None:
    """Every cell as it is, but for text that a spreadsheet would run as a formula; numbers keep their signs."""
    import pyarrow as pa
    from pyarrow import csv

    table = table.rename_columns([never_a_formula(name) for name in table.column_names])
    for k, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            coded = table.column(k).combine_chunks().dictionary_encode()
            words = pa.array([never_a_formula(word) for word in coded.dictionary.to_pylist()], field.type)
            table = table.set_column(k, field, words.take(coded.indices))
    csv.write_csv(table, path)


def _numbered(graph: Graph, label: str) -> Any:
    """Nodes n0, n1, ... with their names as an attribute: words stay words, every other column is a number."""
    import networkx as nx

    index = {name: f"n{k}" for k, name in enumerate(graph.names)}
    network = nx.Graph()
    network.add_nodes_from((identifier, {label: _xml_text(name)}) for name, identifier in index.items())
    for row in graph.selected.to_pylist():
        kept = {name: cell for name, cell in row.items() if name not in _NOT_ATTRIBUTES and cell is not None}
        values = {name: cell if isinstance(cell, str) else float(cell) for name, cell in kept.items()}
        network.add_edge(index[row["source"]], index[row["target"]], **values)
    return network


def _xml_text(name: str) -> str:
    """XML has no way to write most control characters, halves of characters and U+FFFE and U+FFFF; they become a
    visible replacement."""
    return _NOT_IN_XML.sub("\ufffd", name)
