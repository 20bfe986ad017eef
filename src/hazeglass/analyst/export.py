"""A graph in other people's formats: GraphML, GEXF, Cytoscape JSON. Names are data, never markup."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["cytoscape", "gexf", "graphml"]

Edge = Mapping[str, Any]
_NOT_ATTRIBUTES = ("source", "target", "selected")


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
