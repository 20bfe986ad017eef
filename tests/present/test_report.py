"""report.html is one file that fetches nothing, says what the table says, and treats every name as text."""

import json
import re
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.sparse import csr_array

from hazeglass.present import report as report_module
from hazeglass.present.charts import Axis
from hazeglass.present.layout import Drawing
from hazeglass.present.pages import drawing_library
from hazeglass.present.report import embedded_json, graph_picture, report

from .graphs import HOSTILE, empty_graph, made_graph, many_columns

LIBRARY = "/* stands in for the drawing library */ var d3 = {};"


@pytest.fixture(params=["interactive", "static"])
def page_of(request, monkeypatch):
    """The report with and without a drawing library, whatever is installed here."""
    library = LIBRARY if request.param == "interactive" else None
    monkeypatch.setattr(report_module, "drawing_library", lambda: library)
    return lambda *graph: report(*graph)


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL).group(1))


def test_a_hostile_name_is_text_everywhere(page_of):
    page = page_of(*made_graph(11, hostile=True))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "<b>\u2028" not in page
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", page))


def test_nothing_points_outside(page_of):
    page = page_of(*made_graph(11))
    assert not re.search(r"\b(src|href|srcset|action)\s*=|\burl\(", page.replace(LIBRARY, ""))
    assert "@import" not in page


def test_embedded_json_cannot_leave_its_element():
    text = embedded_json(["</script>", "<!--", "&", "\u2028\u2029", *HOSTILE])
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == ["</script>", "<!--", "&", "\u2028\u2029", *HOSTILE]


@pytest.mark.parametrize("p", [2, 11, 50, 200])
def test_the_page_carries_every_pair_and_counts_edges_as_the_table_does(monkeypatch, p):
    monkeypatch.setattr(report_module, "drawing_library", lambda: LIBRARY)
    names, edges, fit = made_graph(max(p, 3)) if p > 2 else tuple_of_two()
    data = data_of(report(names, edges, fit))
    assert data["names"] == list(names)
    assert len(data["edges"]["i"]) == edges.num_rows == data["pairs"]
    selected = {
        (s, t) for s, t, y in zip(*(edges[c].to_pylist() for c in ("source", "target", "selected")), strict=True) if y
    }
    kept = data["edges"]
    shown = {(names[i], names[j]) for i, j, q in zip(kept["i"], kept["j"], kept["q"], strict=True) if q <= fit["fdr"]}
    assert shown == selected
    assert fit["fdr"] in data["rates"]


def tuple_of_two():
    names, edges, fit = made_graph(3)
    return names[:2], edges.slice(0, 1), fit


def test_a_large_graph_stays_small_and_says_what_is_left_out(monkeypatch):
    monkeypatch.setattr(report_module, "drawing_library", lambda: LIBRARY)
    names, edges, fit = made_graph(400)
    started = time.perf_counter()
    page = report(names, edges, fit)
    assert time.perf_counter() - started < 30
    data = data_of(page)
    assert len(page) < 2_000_000
    assert len(data["edges"]["i"]) == 20_000 < data["pairs"]
    left_out = np.sort(edges["q_value"].to_numpy())[20_000:]
    assert all(rate < left_out.min() for rate in data["rates"])


def test_ten_thousand_columns_make_a_page_that_opens(page_of):
    names, edges, fit = many_columns(10_000, 25_000, 120_000)
    started = time.process_time()
    page = page_of(names, edges, fit)
    assert time.process_time() - started < 20
    assert len(page) < 4_000_000
    assert "25,000" in page
    assert "49,995,000" in page
    if 'id="data"' not in page:
        return
    data = data_of(page)
    assert (data["pairs"], data["listed"], data["selected"]) == (49_995_000, 120_000, 25_000)
    assert len(data["edges"]["i"]) == 25_000
    assert sum(q <= fit["fdr"] for q in data["edges"]["q"]) == 25_000
    drawn = [k for k, x in enumerate(data["x"]) if x is not None]
    assert 100 <= len(drawn) <= 600
    assert len(data["names"]) == 10_000


def test_positions_are_stable_and_inside(monkeypatch):
    monkeypatch.setattr(report_module, "drawing_library", lambda: LIBRARY)
    first, second = (data_of(report(*made_graph(50))) for _ in range(2))
    assert (first["x"], first["y"], first["order"]) == (second["x"], second["y"], second["order"])
    assert min(first["x"] + first["y"]) >= 0
    assert max(first["x"] + first["y"]) <= 1000
    assert len(set(zip(first["x"], first["y"], strict=True))) > 45


def test_the_fit_is_told_in_plain_words(page_of):
    names, edges, fit = made_graph(11)
    page = page_of(names, edges, {**fit, "smallest_eigenvalue": -0.1, "duality_gap": 0.5, "notes": ["One note."]})
    for words in ("chosen among 20 candidates", "indefinite", "it stopped early", "One note.", "0.2367-GDP"):
        assert words in page
    page = page_of(names, edges, {**fit, "alpha_chosen_by": "given", "path": []})
    assert "was given, not chosen from the data" in page
    assert "Along the penalty" not in page


def test_a_report_without_the_library_says_so(monkeypatch):
    monkeypatch.setattr(report_module, "drawing_library", lambda: None)
    page = report(*made_graph(11))
    assert "pip install gravis" in page
    assert "<script" not in page


def test_only_the_library_we_know_is_used(tmp_path, monkeypatch):
    import sys

    fake = tmp_path / "gravis"
    folder = fake / "_internal" / "plotting" / "third_party" / "d3"
    folder.mkdir(parents=True)
    (fake / "__init__.py").write_text("raise RuntimeError('never imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "gravis", raising=False)
    assert drawing_library() is None
    (folder / "d3.v7.min.def.js").write_text("alert(1)")
    (folder / "ORIGINAL_LICENSE").write_text("mine")
    assert drawing_library() is None


def test_the_installed_library_comes_with_its_licence():
    text = drawing_library()
    if text is None:
        pytest.skip("gravis is not installed here")
    assert "Copyright 2010-2021 Mike Bostock" in text
    assert "</script" not in text.lower()


def curved_graph():
    """A made-up graph whose first edges are curved, with hostile names, as `recover` hands it over."""
    names, edges, fit = made_graph(11, hostile=True)
    strength = np.abs(edges["partial_correlation"].to_numpy()) + 0.1
    shapes = np.where(np.arange(edges.num_rows) % 2 == 0, "curved", "linear")
    edges = edges.append_column("strength", [strength]).append_column("shape", [shapes])
    x = np.linspace(-2, 2, 21)
    curve = {"x_name": names[0], "y_name": names[1], "x": x.tolist(), "y": (x**2 - 1).tolist(), "shape": "curved"}
    bands = {"low": (x**2 - 1.2).tolist(), "high": (x**2 - 0.8).tolist()}
    return names, edges, {**fit, "dependence": "curved", "ridge": 0.2, "shapes": [{**curve, **bands}]}


def test_a_curved_graph_shows_shapes_and_keeps_names_as_text(page_of):
    page = page_of(*curved_graph())
    assert "<h2>Shapes</h2>" in page
    assert page.count('class="curve bent"') == 1
    assert "linear part" in page
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "Shapes" not in page_of(*made_graph(11))


def test_a_curved_graph_hands_strengths_and_shapes_to_the_script(monkeypatch):
    monkeypatch.setattr(report_module, "drawing_library", lambda: LIBRARY)
    names, edges, fit = curved_graph()
    data = data_of(report(names, edges, fit))
    index = {name: k for k, name in enumerate(names)}
    told = {(i, j): (s, c) for i, j, s, c in zip(*(data["edges"][key] for key in ("i", "j", "s", "c")), strict=True)}
    for row in edges.to_pylist():
        strength, curved = told[index[row["source"]], index[row["target"]]]
        assert strength == round(row["strength"] * data["unit"])
        assert curved == (row["shape"] == "curved")
    assert "s" not in data_of(report(*made_graph(11)))["edges"]


def test_what_hides_or_is_not_found_is_said_first():
    page = report_module.report(*empty_graph(11))
    assert "<strong>Noise hides columns.</strong> The release says too little about bus 2, bus 3:" in page
    assert "<strong>No edge was found.</strong>" in page
    assert page.index("No edge was found") < page.index('id="graph"')
    assert "No edge was found" not in report_module.report(*made_graph(11))


def test_a_chart_of_the_criterion_shows_where_its_lowest_is():
    steps = [{"alpha": 0.5 / 1.3**k, "score": 1e6 + (k - 6) ** 2 if k < 14 else 9e7, "edges": k} for k in range(18)]
    _, _, fit = made_graph(11)
    criterion = report_module._paths({**fit, "path": steps})[1]["picture"]
    assert criterion.count("<circle") == 14  # those far off are left out
    assert ">90 M<" not in criterion


def test_ticks_are_short_enough_to_stand_beside_an_axis():
    labels = [label for _, label in Axis("x", -3e7, 2.5e9).ticks()] + [label for _, label in Axis("x", 0, 4e6).ticks()]
    assert max(map(len, labels)) <= 8
    assert "2 M" in labels


def graph_with_levels(hostile=False):
    """Pairs of one column have levels without an order: no partial correlation, a strength, and a table of odds."""
    names, edges, fit = made_graph(6, hostile=hostile)
    unordered = pc.or_(pc.equal(edges["source"], names[0]), pc.equal(edges["target"], names[0]))
    for key in ("partial_correlation", "std_error", "ci_low", "ci_high"):
        edges = edges.set_column(edges.column_names.index(key), key, pc.if_else(unordered, None, edges[key]))
    edges = edges.append_column("strength", pa.array(np.linspace(0, 1, edges.num_rows)))
    edges = edges.append_column("shape", pc.if_else(unordered, "levels", "linear"))
    rows, columns = ["<b>low</b>", "high"], ["<i>red</i>", "blue"]
    table = {"given": names[1], "of": names[0], "rows": rows, "columns": columns, "odds": [[2.5, 0.4], [96.0, 0.0042]]}
    return names, edges, {**fit, "categorical": [names[0]], "reading": "latent", "odds": [table] * 20}


def test_pairs_without_an_order_have_a_strength_and_no_sign(page_of, request):
    page = page_of(*graph_with_levels())
    assert "nan" not in page.replace("nan_", "").lower().split('id="data"')[0]
    assert "1 of the columns has levels" in page
    assert "linear part</" not in page
    if "interactive" in request.node.name:
        data = data_of(page)
        assert set(data["edges"]["c"]) == {0, 2}


def test_odds_are_tables_of_text_of_the_strongest_edges_alone(page_of):
    page = page_of(*graph_with_levels(hostile=True))
    assert "Which levels go together" in page
    assert page.count("<caption>") == 12
    assert "<b>low" not in page
    assert "<i>red" not in page
    assert '<td class="more">2.5</td><td class="less">0.4</td>' in page
    assert '<td class="more">&gt; 10</td><td class="less">&lt; 0.1</td>' in page, "too rough for a number"
    assert "Which levels go together" not in page_of(*made_graph(5))


def test_no_two_headings_of_the_edge_table_sort_by_the_same(page_of, request):
    if "interactive" not in request.node.name:
        pytest.skip("the still page does not sort")
    for graph in (graph_with_levels(), made_graph(5)):
        keys = re.findall(r'data-key="(.)"', page_of(*graph))
        assert keys == sorted(set(keys), key=keys.index)


def test_levels_in_front_of_odds_are_never_broken_into_letters(page_of):
    """In a narrow window the numbers scroll; the level that a row belongs to stays whole and in sight."""
    page = page_of(*graph_with_levels())
    rule = re.search(r"\.odds th\.name \{([^}]*)\}", page)
    assert rule is not None
    assert "white-space: nowrap" in rule[1]
    assert "position: sticky" in rule[1]


def test_edges_of_no_strength_at_all_are_drawn_thin():
    """As where a release says of every pair that differs exactly nothing."""
    drawing = Drawing.of(csr_array(1 - np.eye(3)))
    edges = [{"source": a, "target": b, "partial_correlation": 0.0} for a, b in (("x", "y"), ("x", "z"))]
    assert [line["width"] for line in graph_picture(["x", "y", "z"], edges, drawing)["lines"]] == [0.8, 0.8]
