"""A graph in other people's formats: GraphML, GEXF, Cytoscape JSON, CSV. Names are data, never markup or formulas."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["never_a_formula", "write_csv", "write_cytoscape", "write_gexf", "write_graphml"]

Edge = Mapping[str, Any]
_NOT_ATTRIBUTES = ("source", "target", "selected")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What a spreadsheet takes for the start of a formula, at the start of a cell or behind what it may take for a separator
# (OWASP, "CSV injection"); full-width signs count as well.
_FORMULA = re.compile(r"(^|[,;|\t\r\n])(?=[\s\x00\u00a0\ufeff]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")


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


def write_graphml(names: Sequence[str], edges: Sequence[Edge], path: Path) -> None:
    """GraphML with names as an attribute of nodes and every column as one of edges."""
    import networkx as nx

    nx.write_graphml_xml(_numbered(names, edges, "name"), path, named_key_ids=True)


def write_gexf(names: Sequence[str], edges: Sequence[Edge], path: Path) -> None:
    """GEXF 1.2, which more programs read than 1.3; the strength of an edge as its weight."""
    import networkx as nx

    graph = _numbered(names, edges, "label")
    for _, _, data in graph.edges(data=True):
        data["weight"] = abs(data.get("strength", data["partial_correlation"]))
    nx.write_gexf(graph, path, version="1.2draft")


def write_cytoscape(names: Sequence[str], edges: Sequence[Edge], path: Path) -> None:
    """The document that Cytoscape and Cytoscape.js read."""
    import networkx as nx

    document = nx.cytoscape_data(_numbered(names, edges, "name"))
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")


def _numbered(names: Sequence[str], edges: Sequence[Edge], label: str) -> Any:
    """Nodes n0, n1, ... with their names as an attribute: words stay words, every other column is a number."""
    import networkx as nx

    index = {name: f"n{k}" for k, name in enumerate(names)}
    graph = nx.Graph()
    graph.add_nodes_from((identifier, {label: _xml_text(name)}) for name, identifier in index.items())
    for row in edges:
        kept = {name: cell for name, cell in row.items() if name not in _NOT_ATTRIBUTES}
        values = {name: cell if isinstance(cell, str) else float(cell) for name, cell in kept.items()}
        graph.add_edge(index[row["source"]], index[row["target"]], **values)
    return graph


def _xml_text(name: str) -> str:
    """XML has no way to write most control characters, halves of characters and U+FFFE and U+FFFF; they become a
    visible replacement."""
    return _NOT_IN_XML.sub("\ufffd", name)
