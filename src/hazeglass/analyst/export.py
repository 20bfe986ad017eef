"""A graph in other people's formats: GraphML, GEXF, Cytoscape JSON, CSV. Names are data, never markup or formulas."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["cytoscape", "gexf", "graphml", "never_a_formula", "write_csv"]

Edge = Mapping[str, Any]
_NOT_ATTRIBUTES = ("source", "target", "selected")
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


def graphml(names: Sequence[str], edges: Sequence[Edge]) -> ElementTree.ElementTree:
    """GraphML with names as node labels and every column as an edge attribute."""
    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    kept = _attributes(edges)
    ElementTree.SubElement(root, "key", {"id": "name", "for": "node", "attr.name": "name", "attr.type": "string"})
    for name in kept:
        kind = "string" if isinstance(edges[0][name], str) else "double"
        ElementTree.SubElement(root, "key", {"id": name, "for": "edge", "attr.name": name, "attr.type": kind})
    body = ElementTree.SubElement(root, "graph", edgedefault="undirected")
    index = _identifiers(names)
    for name, identifier in index.items():
        node = ElementTree.SubElement(body, "node", id=identifier)
        ElementTree.SubElement(node, "data", key="name").text = _xml_text(name)
    for row in edges:
        edge = ElementTree.SubElement(body, "edge", source=index[row["source"]], target=index[row["target"]])
        for name in kept:
            ElementTree.SubElement(edge, "data", key=name).text = str(_value(row[name]))
    ElementTree.indent(root)
    return ElementTree.ElementTree(root)


def gexf(names: Sequence[str], edges: Sequence[Edge]) -> ElementTree.ElementTree:
    """GEXF 1.2, which more programs read than 1.3; the strength of an edge as its weight."""
    root = ElementTree.Element("gexf", xmlns="http://www.gexf.net/1.2draft", version="1.2")
    body = ElementTree.SubElement(root, "graph", defaultedgetype="undirected")
    kept = _attributes(edges)
    declared = ElementTree.SubElement(body, "attributes", {"class": "edge"})
    for name in kept:
        kind = "string" if isinstance(edges[0][name], str) else "double"
        ElementTree.SubElement(declared, "attribute", id=name, title=name, type=kind)
    nodes, links = ElementTree.SubElement(body, "nodes"), ElementTree.SubElement(body, "edges")
    index = _identifiers(names)
    for name, identifier in index.items():
        ElementTree.SubElement(nodes, "node", id=identifier, label=_xml_text(name))
    for number, row in enumerate(edges):
        weight = repr(abs(float(row.get("strength", row["partial_correlation"]))))
        ends = {"source": index[row["source"]], "target": index[row["target"]]}
        link = ElementTree.SubElement(links, "edge", {"id": f"e{number}", **ends, "weight": weight})
        values = ElementTree.SubElement(link, "attvalues")
        for name in kept:
            ElementTree.SubElement(values, "attvalue", {"for": name, "value": str(_value(row[name]))})
    ElementTree.indent(root)
    return ElementTree.ElementTree(root)


def cytoscape(names: Sequence[str], edges: Sequence[Edge]) -> dict[str, Any]:
    """The `elements` document Cytoscape and Cytoscape.js read."""
    index = _identifiers(names)
    return {
        "elements": {
            "nodes": [{"data": {"id": identifier, "name": name}} for name, identifier in index.items()],
            "edges": [
                {
                    "data": {
                        "id": f"e{number}",
                        "source": index[row["source"]],
                        "target": index[row["target"]],
                        **{name: _value(row[name]) for name in _attributes(edges)},
                    }
                }
                for number, row in enumerate(edges)
            ],
        }
    }


def _attributes(edges: Sequence[Edge]) -> list[str]:
    return [name for name in edges[0] if name not in _NOT_ATTRIBUTES] if edges else []


def _value(cell: Any) -> str | float:
    """Words stay words, everything else is a number."""
    return cell if isinstance(cell, str) else float(cell)


def _identifiers(names: Sequence[str]) -> dict[str, str]:
    return {name: f"n{k}" for k, name in enumerate(names)}


def _xml_text(name: str) -> str:
    """XML has no way to write most control characters; they become a visible replacement."""
    return "".join(c if c in "\t\n\r" or ord(c) >= 32 else "\ufffd" for c in name)
