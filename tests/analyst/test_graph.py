"""A graph can be looked at, compared, scored and written in other people's formats."""

import csv
import json
import xml.etree.ElementTree as ElementTree
from importlib.resources import files

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.analyst import export
from hazeglass.analyst.export import likeliest, never_a_formula, precision_table
from hazeglass.analyst.graph import Graph
from hazeglass.errors import InputError

NAMES = ("a", "b", "c", "d")


def make(values, selected, names=NAMES):
    """A graph over four nodes from partial correlations of its six pairs and which of them are selected."""
    rows, columns = np.triu_indices(4, 1)
    values = np.array(values, dtype=float)
    table = pa.table(
        {
            "source": [names[i] for i in rows],
            "target": [names[j] for j in columns],
            "precision": -values,
            "partial_correlation": values,
            "std_error": np.full(6, 0.1),
            "ci_low": values - 0.2,
            "ci_high": values + 0.2,
            "p_value": np.where(selected, 1e-9, 0.5),
            "q_value": np.where(selected, 1e-9, 0.5),
            "selected": np.array(selected, dtype=bool),
        }
    )
    return Graph(names, np.eye(4), table, {"alpha": 0.1})


@pytest.fixture
def graph():
    return make([0.5, 0.0, 0.1, -0.4, 0.0, 0.0], [1, 0, 0, 1, 0, 0])  # a-b, b-c


def test_views(graph):
    assert graph.pairs == {frozenset("ab"), frozenset("bc")}
    assert graph.adjacency.sum() == 4
    assert graph.partial_correlations[1, 2] == -0.4
    assert graph.components() == [("a", "b", "c"), ("d",)]
    assert graph.hubs(2) == [("b", 2), ("a", 1)]
    assert list(graph.to_pandas().columns) == graph.to_polars().columns == graph.edges.column_names
    assert "2 edges" in repr(graph)
    assert "<td>a</td><td>b</td>" in graph._repr_html_()


def test_scores_against_a_truth(graph):
    scores = graph.scores([("a", "b"), ("c", "d")])
    assert (scores.precision, scores.recall, scores.f1, scores.hamming_distance) == (0.5, 0.5, 0.5, 2)
    assert scores.roc[0] == (0.0, 0.0)
    assert scores.roc[-1] == (1.0, 1.0)
    assert 0.4 < scores.auc < 0.8
    assert "roc" not in repr(scores)  # it fills a screen
    with pytest.raises(InputError, match="'zz', which is not a node of this graph: its nodes are a, b, c"):
        graph.scores([("a", "zz")])
    with pytest.raises(InputError, match="both edges and non-edges"):
        graph.scores([])


def test_differences(graph):
    other = make([-0.5, 0.0, 0.6, 0.0, 0.0, 0.0], [1, 0, 1, 0, 0, 0])
    diff = graph.diff(other)
    found = tuple(diff.pairs(change) for change in ("gained", "lost", "turned"))
    assert found == ((("a", "d"),), (("b", "c"),), (("a", "b"),))
    assert not graph.diff(graph)
    assert graph == make([0.5, 0.0, 0.1, -0.4, 0.0, 0.0], [1, 0, 0, 1, 0, 0])
    assert graph != other
    assert graph != 3
    with pytest.raises(InputError, match="same nodes"):
        graph.diff(Graph(("x", "y", "z", "w"), np.eye(4), graph.edges, graph.fit))


def test_formats_read_back(graph, tmp_path):
    for suffix, read in ((".graphml", networkx.read_graphml), (".gexf", networkx.read_gexf)):
        found = read(graph.write(tmp_path / f"g{suffix}"))
        assert (found.number_of_nodes(), found.number_of_edges()) == (4, 2)
    document = json.loads(graph.write(tmp_path / "g.cyjs").read_text())
    assert len(document["elements"]["edges"]) == 2
    assert graph.write(tmp_path / "g.csv").read_text().count("\n") == 3
    with pytest.raises(InputError, match="can be written as"):
        graph.write(tmp_path / "g.xyz")


def test_names_that_xml_cannot_hold_are_replaced(tmp_path):
    odd = ("\ufffe\uffff", "x\x00y\x1b", "z", "a\x9b\U0001f600\U0010ffff\ufdd0")
    graph = make([0.5, 0.0, 0.1, -0.4, 0.0, 0.0], [1, 0, 0, 1, 0, 0], names=odd)
    for suffix in (".graphml", ".gexf"):
        path = graph.write(tmp_path / f"g{suffix}")
        ElementTree.parse(path)
        text = path.read_text(encoding="utf-8")
        assert "\ufffd\ufffd" in text
        assert "x\ufffdy\ufffd" in text


def test_an_empty_graph_can_be_written(tmp_path):
    empty = make([0.0] * 6, [0] * 6)
    for suffix in (".graphml", ".gexf"):
        ElementTree.parse(empty.write(tmp_path / f"g{suffix}"))
    assert empty.components() == [("a",), ("b",), ("c",), ("d",)]


def test_a_table_that_lists_only_some_pairs_is_enough_for_the_graph(graph):
    listed = Graph(NAMES, graph.precision, graph.edges.take([3, 0, 2]), graph.fit)
    assert np.array_equal(listed.adjacency, graph.adjacency)
    assert listed.components() == graph.components() == [("a", "b", "c"), ("d",)]
    assert listed.hubs(2) == graph.hubs(2) == [("b", 2), ("a", 1)]
    assert listed.partial_correlations[0, 3] == 0.1
    assert listed.partial_correlations[0, 2] == 0.0
    assert np.array_equal(np.diag(listed.partial_correlations), np.ones(4))
    with pytest.raises(InputError, match="scores need every pair"):
        listed.scores([("a", "b")])


def test_a_curved_graph_is_written_with_its_words_and_has_no_sign_to_change(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.standard_normal(3000)
    rows = np.column_stack([a, a**2 + rng.standard_normal(3000), a + rng.standard_normal(3000)])
    graph = hg.recover(rows, dependence="curved", fdr=0.01)
    assert graph.write(tmp_path / "g.graphml").read_text(encoding="utf-8").count("curved") == 1
    assert "linear" in graph.write(tmp_path / "g.gexf").read_text(encoding="utf-8")
    edges = json.loads(graph.write(tmp_path / "g.cyjs").read_text(encoding="utf-8"))["elements"]["edges"]
    assert {edge["data"]["shape"] for edge in edges} == {"linear", "curved"}
    assert "shape" in graph._repr_html_()
    turned = hg.recover(rows * [-1, 1, 1], dependence="curved", fdr=0.01)
    diff = graph.diff(turned)
    assert ("x1", "x3") in diff.pairs("turned")
    assert any("only the linear part" in note for note in diff.fit["notes"])
    assert graph.strength()[0, 1] == graph.edges["strength"][0].as_py()
    assert graph.scores([("x1", "x2"), ("x1", "x3")]).auc == 1.0


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]


@pytest.mark.parametrize("name", FORMULAS)
def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(name):
    assert never_a_formula(name)[:2] == f"'{name[0]}"
    assert f";'{name[0]}" in never_a_formula(f"a;{name}")  # where a semicolon separates cells
    assert never_a_formula("a" + name[0].strip() + "b") == "a" + name[0].strip() + "b"


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
def test_whatever_separates_cells_no_cell_of_a_csv_is_a_formula(tmp_path, separator):
    names = ['x;"=1+1;y', 'x;"=HYPERLINK(""http://e/"")";b', 'a"=1', '"=1', 'a,"\xa0"=1', 'a\n"+1', "a\x0b=1", 'b|""-1']
    export.write_csv(pa.table({name: [1.5] for name in names}), tmp_path / "header.csv")
    export.write_csv(pa.table({"name": names}), tmp_path / "cells.csv")
    for path in tmp_path.iterdir():
        with path.open(newline="") as file:
            found = [cell.strip() for row in csv.reader(file, delimiter=separator) for cell in row]
        assert found
        assert not [cell for cell in found if cell.startswith(("=", "+", "-", "@"))]


def test_the_report_writes_names_by_the_same_rule():
    script = files("hazeglass.present").joinpath("templates/report/export.js").read_text(encoding="utf-8")
    assert f"/{export.FORMULA.pattern}/g" in script


def test_column_names_are_no_formulas_in_edges_csv_and_numbers_keep_their_sign(tmp_path):
    rng = np.random.default_rng(0)
    names = ["=cmd|'/c calc'!A1", "-b", "c,d", "plain"]
    rows = rng.standard_normal((500, 4))
    rows[:, 1] -= rows[:, 0]
    graph = hg.recover(pa.table(dict(zip(names, rows.T, strict=True))))
    graph.save(tmp_path / "graph")
    graph.write(tmp_path / "chosen.csv")
    for path in (tmp_path / "graph" / "edges.csv", tmp_path / "chosen.csv"):
        with path.open(newline="") as file:
            edges = list(csv.DictReader(file))
        assert edges[0]["source"] == "'=cmd|'/c calc'!A1"
        assert edges[0]["target"] == "'-b"
        assert float(edges[0]["partial_correlation"]) == graph.edges["partial_correlation"][0].as_py() < 0
    assert graph.edges["source"][0].as_py() == "=cmd|'/c calc'!A1"  # in Python names stay as they are
    assert {edge["source"] for edge in graph.edges.to_pylist()} | {"plain"} == set(names)


def many_pairs(selected=0):
    """Twenty thousand pairs whose p-values grow with their number."""
    number = np.arange(20_000)
    return pa.table(
        {
            "partial_correlation": np.linspace(0.5, 0.0, number.size),
            "p_value": np.linspace(1e-9, 1.0, number.size),
            "selected": number < selected,
        }
    )


def test_edges_csv_holds_the_selected_pairs_and_the_likeliest_others():
    assert likeliest(many_pairs(), 10_000)["p_value"].to_pylist() == many_pairs()["p_value"].to_pylist()[:10_000]
    assert likeliest(many_pairs(15_000), 10_000).num_rows == 15_000
    unknown = many_pairs().set_column(1, "p_value", pa.nulls(20_000, pa.float64()))
    assert likeliest(unknown, 100)["partial_correlation"].to_numpy().min() > 0.49


def test_a_precision_of_more_than_a_thousand_rows_is_written_entry_by_entry():
    names = [f"x{k}" for k in range(1001)]
    matrix = np.eye(1001)
    matrix[3, 5] = matrix[5, 3] = -0.25
    table = precision_table(matrix, names)
    assert table.column_names == ["row", "column", "precision"]
    assert table.num_rows == 1002
    assert {"row": "x3", "column": "x5", "precision": -0.25} in table.to_pylist()
    assert precision_table(np.eye(2), ["a", "b"]).column_names == ["a", "b"]


def test_all_pairs_go_into_a_parquet_file_when_asked_for(tmp_path):
    rows = np.random.default_rng(0).standard_normal((300, 4))
    hg.recover(rows, alpha=0.2, all_pairs=True).save(tmp_path / "graph", all_pairs=True)
    assert pq.read_table(tmp_path / "graph" / "edges.parquet").num_rows == 6
    hg.recover(rows, alpha=0.2).save(tmp_path / "other")
    assert not (tmp_path / "other" / "edges.parquet").exists()


def test_one_edge_is_not_counted_as_edges():
    assert repr(make([0.5, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0])) == "<Graph: 4 nodes, 1 edge, alpha=0.1>"


def test_a_notebook_calls_a_partial_correlation_by_its_name_where_nothing_is_curved(graph):
    shapes = pa.array(["linear", "levels", "linear", "linear", "linear", "linear"])
    for drawn, heading in ((shapes, "partial correlation"), (pa.array(["curved"] * 6), "linear part")):
        edges = graph.edges.append_column("strength", pa.array(np.full(6, 0.5))).append_column("shape", drawn)
        assert f"<th>{heading}</th>" in Graph(NAMES, np.eye(4), edges, {"alpha": 0.1})._repr_html_()
