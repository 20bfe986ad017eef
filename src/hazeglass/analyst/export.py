"""A graph in other people's formats: GraphML, GEXF, Cytoscape JSON, CSV. Names are data, never markup or formulas."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass._files import new_file
from hazeglass._version import __version__
from hazeglass.bundle.contents import as_words, level_words
from hazeglass.bundle.writer import new_folder
from hazeglass.errors import InputError, OutputError
from hazeglass.glasso.linalg import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

    from hazeglass.analyst.compare import GraphDiff
    from hazeglass.analyst.graph import Graph
    from hazeglass.bundle.reader import Release

MOST_LINES = 10_000  # of edges.csv, unless more pairs are selected
_LARGE = 1000  # rows of a matrix that is written as such
_NOT_ATTRIBUTES = ("source", "target", "selected")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What a spreadsheet takes for the start of a formula, wherever it may take a cell to start (OWASP, "CSV injection"):
# first, behind what may separate cells or quote one, and behind spaces; full-width signs count as well. The report's
# own export (present/templates/report/export.js) has the same rule.
FORMULA = re.compile(r"""(^|[,;|\t\r\n"])(?=[\s\x00-\x1f\x85\xa0\ufeff"]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])""")


def to_networkx(graph: Graph) -> Any:
    """The selected edges as a networkx.Graph with all columns as edge attributes."""
    import networkx as nx

    network = nx.Graph()
    network.add_nodes_from(graph.names)
    for row in graph.selected.to_pylist():
        network.add_edge(row.pop("source"), row.pop("target"), **row)
    return network


def to_digraph(graph: Graph) -> Any:
    """Who leads whom as a networkx.DiGraph; of several lags the strongest one."""
    import networkx as nx

    network = nx.DiGraph()
    network.add_nodes_from(graph.names)
    for row in reversed(graph.arrows.to_pylist()):  # the strongest last, which takes the place of others
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
                if data.get("lag") == 0:  # of a series; other edges have the direction in which they lead
                    data["type"] = "undirected"
            nx.write_gexf(network, path, version="1.2draft")
        case ".cyjs":  # the document that Cytoscape and Cytoscape.js read
            document = nx.cytoscape_data(_numbered(graph, "name"))
            path.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
        case ".csv":
            write_csv(graph.selected if graph.lagged is None else with_lagged(graph, graph.selected, 0), path)
        case other:
            raise InputError(f"a graph can be written as .graphml, .gexf, .cyjs or .csv, got {other!r}.")
    return path


def save(graph: Graph, out: Path, *, all_pairs: bool = False) -> Path:
    """Write edges.csv, precision.parquet, graph.graphml, fit.json and report.html into the new folder `out`.

    edges.csv holds the selected pairs and the likeliest others, ten thousand in all; with `all_pairs`, edges.parquet
    holds every pair that the graph lists.
    """
    import pyarrow.parquet as pq

    from hazeglass.present.report import report

    with new_folder(out) as folder:
        edges = with_strength(graph.edges)
        write_csv(with_lagged(graph, likeliest(edges, MOST_LINES), MOST_LINES), folder / "edges.csv")
        if all_pairs:
            pq.write_table(with_lagged(graph, edges), folder / "edges.parquet")
        pq.write_table(precision_table(graph.precision, graph.features or graph.names), folder / "precision.parquet")
        write(graph, folder / "graph.graphml")
        text = json.dumps(dict(graph.fit), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / "fit.json").write_text(text + "\n", encoding="utf-8")
        (folder / "report.html").write_text(report(graph.names, graph.edges, graph.fit, graph.lagged), encoding="utf-8")
    return out


def save_diff(diff: GraphDiff, out: Path) -> Path:
    """Write diff.csv, diff.json and diff.html into the new folder `out`."""
    from hazeglass.present.beside import diff_page

    with new_folder(out) as folder:
        write_csv(diff.edges, folder / "diff.csv")
        facts = {"hazeglass": __version__, **diff.fit, "differing": diff.selected.to_pylist()}
        text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / "diff.json").write_text(text + "\n", encoding="utf-8")
        (folder / "diff.html").write_text(diff_page(diff.names, diff.edges, diff.fit), encoding="utf-8")
    return out


def with_strength(edges: pa.Table) -> pa.Table:
    """The same columns for every graph: of straight lines alone the strength is the absolute partial correlation."""
    import pyarrow.compute as pc

    if "strength" in edges.column_names:
        return edges
    place = edges.column_names.index("selected") + 1
    return edges.add_column(place, "strength", pc.abs(edges["partial_correlation"]))


def with_lagged(graph: Graph, edges: pa.Table, most: int | None = None) -> pa.Table:
    """Both layers of rows in time, lag 0 first; other graphs as they are. At most so many arrows, and all selected."""
    import pyarrow as pa

    if graph.lagged is None:
        return edges
    lagged = graph.lagged if most is None else likeliest(graph.lagged, most)
    now = edges.append_column("lag", pa.array(np.zeros(edges.num_rows, dtype=np.int64)))
    whole = pa.concat_tables([now, with_strength(lagged)], promote_options="default")
    first = ["source", "target", "lag"]
    return whole.select([*first, *(name for name in whole.column_names if name not in first)])


def likeliest(edges: pa.Table, most: int) -> pa.Table:
    """The selected pairs, and of the others those with the smallest p-values, as many as there is space for."""
    if edges.num_rows <= most:
        return edges
    selected = edges["selected"].to_numpy()
    # Where error bars cannot be trusted there are no p-values: then by the size of the estimate.
    unlikely = np.nan_to_num(edges["p_value"].to_numpy().astype(np.float64), nan=1.0)
    size = np.abs(edges["partial_correlation"].to_numpy())
    order = np.lexsort((-size, unlikely, ~selected))
    return edges.take(np.sort(order[: max(most, int(selected.sum()))]))


def precision_table(precision: FloatArray, names: Sequence[str]) -> pa.Table:
    """One named column per row of the matrix, rows in the same order.

    Of a matrix with more than a thousand rows, its entries that are not zero, one by one: `row` and `column` are names,
    and each pair is there once.
    """
    import pyarrow as pa

    if len(names) <= _LARGE:
        return pa.table([np.ascontiguousarray(column) for column in precision.T], names=list(names))
    rows, columns = np.nonzero(np.triu(precision))
    known = pa.array(names)
    ends = (pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), known) for place in (rows, columns))
    return pa.table([*ends, precision[rows, columns]], names=["row", "column", "precision"])


def never_a_formula(text: str) -> str:
    """The text with an apostrophe before whatever a spreadsheet would run; other text stays as it is.

    >>> never_a_formula("=1+1"), never_a_formula("a-b")
    ("'=1+1", 'a-b')
    """
    return FORMULA.sub(r"\1'", text)


def without_formulas(table: pa.Table) -> pa.Table:
    """Every cell as it is, but for text that a spreadsheet would run as a formula; numbers keep their signs."""
    import pyarrow as pa

    table = table.rename_columns([never_a_formula(name) for name in table.column_names])
    for k, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            coded = table.column(k).combine_chunks().dictionary_encode()
            words = pa.array([never_a_formula(word) for word in coded.dictionary.to_pylist()], field.type)
            table = table.set_column(k, field, words.take(coded.indices))
    return table


def write_csv(table: pa.Table, path: Path) -> None:
    """A table without formulas."""
    from pyarrow import csv

    csv.write_csv(without_formulas(table), path)


def write_rows(release: Release, path: Path, *, words: bool = False) -> None:
    """The rows of a table or synthetic release in one .csv or .parquet, part by part, complete or not at all.

    With `words` levels are written as words where they have no noise, else as their numbers.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    if release.form == "moments":
        raise InputError(
            "a moments release holds no rows. `hazeglass synthesize` draws rows from it, `hazeglass recover` the graph."
        )
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise OutputError(f"rows are written as .csv or .parquet, got {path.name!r}.")
    plain, names = path.suffix.lower() == ".csv", [one.label if words else one.name for one in release.columns]
    levels = [level_words(column) if words else () for column in release.columns]
    if plain:
        levels = [tuple(map(never_a_formula, some)) for some in levels]
    numbers = [pa.int64() if whole else pa.float64() for whole in release.manifest.whole_columns]
    kinds = [pa.string() if some else number for some, number in zip(levels, numbers, strict=True)]
    schema = pa.schema(zip(map(never_a_formula, names) if plain else names, kinds, strict=True))
    with new_file(path) as draft, (csv.CSVWriter if plain else pq.ParquetWriter)(str(draft), schema) as writer:
        for block in (block for name in release.parts for block in release.blocks(name)):
            cells = [
                as_words(column, some) if some else pa.array(column + 0.0).cast(kind)  # -0 becomes 0
                for column, some, kind in zip(block.T, levels, kinds, strict=True)
            ]
            writer.write_table(pa.table(cells, schema=schema))


def _numbered(graph: Graph, label: str) -> Any:
    """Nodes n0, n1, ... with their names as an attribute: words stay words, every other column is a number."""
    import networkx as nx

    index = {name: f"n{k}" for k, name in enumerate(graph.names)}
    network = nx.Graph() if graph.lagged is None else nx.MultiDiGraph()
    network.add_nodes_from((identifier, {label: _xml_text(name)}) for name, identifier in index.items())
    for row in with_lagged(graph, graph.selected, 0).to_pylist():
        kept = {name: cell for name, cell in row.items() if name not in _NOT_ATTRIBUTES and cell is not None}
        values = {name: cell if isinstance(cell, str) else float(cell) for name, cell in kept.items()}
        network.add_edge(index[row["source"]], index[row["target"]], **values)
    return network


def _xml_text(name: str) -> str:
    """XML has no way to write most control characters, halves of characters and U+FFFE and U+FFFF; they become a
    visible replacement."""
    return _NOT_IN_XML.sub("\ufffd", name)
