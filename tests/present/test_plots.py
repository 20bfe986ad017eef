"""Pictures are drawn, saved in every format, tell signs apart in grey, and name what is missing."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.errors import InputError, MissingExtraError
from hazeglass.present import plots

from .graphs import made_graph


@pytest.fixture
def graph():
    names, edges, fit = made_graph(14)
    return hg.Graph(names, np.eye(14), edges, fit)


def draw_all(graph, **options):
    rng = np.random.default_rng(0)
    truth = rng.random(91) < 0.3
    scores = {"moments": truth + rng.normal(size=91), "a $ table": rng.normal(size=91)}
    promises = {"mu = 0.2": hg.GaussianDP(0.2), "mu = 1": hg.GaussianDP(1.0)}
    utility = {"moments": [(0.5, 0.7), (1, 0.8), (1, 0.84)], "table": [(0.5, 0.5), (1, 0.52)]}
    yield "graph", graph.plot(**options)
    yield "adjacency", graph.plot_adjacency(**options)
    yield "path", graph.plot_path(**options)
    yield "roc", plots.plot_roc(truth, scores, **options)
    yield "tradeoff", plots.plot_tradeoff(promises, **options)
    yield "utility", plots.plot_privacy_utility(utility, **options)


def test_every_picture_saves_in_every_format(graph, tmp_path):
    starts = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}
    for suffix, start in starts.items():
        for _, _ in draw_all(graph, save=tmp_path / f"picture{suffix}"):
            assert (tmp_path / f"picture{suffix}").read_bytes().startswith(start)
    with pytest.raises(InputError, match=r"saved as \.svg"):
        graph.plot(save=tmp_path / "picture.doc")


@pytest.mark.parametrize("name", ["\ufeff=1+1", "\uffff\ufffe", "a\x9b2J\x1b[31m", "x\x00y", "\ud800", "\u202e", "$x$"])
def test_a_name_may_hold_anything_in_every_format(tmp_path, name):
    partial = np.array([[0.0, 0.5], [0.5, 0.0]])
    for draw in (plots.plot_graph, plots.plot_adjacency):
        for suffix in (".svg", ".pdf", ".png"):
            draw((name, "y"), partial, save=tmp_path / f"picture{suffix}")
        ElementTree.parse(tmp_path / "picture.svg")


def test_a_picture_draws_into_the_axes_it_is_given(graph):
    from matplotlib.figure import Figure

    for _, made in draw_all(graph):
        assert made.figure is not None
    ax = Figure().add_subplot()
    assert all(made is ax for _, made in draw_all(graph, ax=ax))


def test_every_edge_is_drawn_once_and_signs_differ_without_colour(graph):
    ax = graph.plot()
    lines = {(line.get_linestyle(), line.get_color()) for line in ax.get_lines()}
    assert len(ax.get_lines()) == graph.selected.num_rows
    assert {style for style, _ in lines} == {"-", "--"}
    grey = [0.299 * r + 0.587 * g + 0.114 * b for r, g, b in (plots._shade(0, 2), plots._shade(1, 2))]
    assert abs(grey[0] - grey[1]) > 0.25


def test_wrong_input_is_named(graph):
    with pytest.raises(InputError, match="14x14"):
        plots.plot_graph(graph.names, np.eye(3))
    with pytest.raises(InputError, match="both edges and non-edges"):
        plots.plot_roc([True, True], {"x": [1, 2]})
    with pytest.raises(InputError, match="must score each of the 2 pairs"):
        plots.plot_roc([True, False], {"x": [1]})
    with pytest.raises(InputError, match="at least one penalty"):
        plots.plot_path([])
    with pytest.raises(InputError, match="no \\(epsilon, utility\\)"):
        plots.plot_privacy_utility({"x": []})


def test_without_matplotlib_the_extra_is_named(graph, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (graph.plot, graph.plot_adjacency, graph.plot_path):
        with pytest.raises(MissingExtraError, match=r"hazeglass\[plot\]"):
            draw()


def test_drawing_opens_no_window_and_importing_is_light():
    code = "import hazeglass.present.plots, sys; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize("layout", ["paths", "spring", "community", "circle"])
@pytest.mark.parametrize("size", [14, 120])
def test_a_graph_is_drawn_in_every_layout_with_a_legend_and_names_apart(layout, size):
    names, edges, fit = made_graph(size)
    ax = hg.Graph(names, np.eye(size), edges, fit).plot(layout=layout)
    assert len(ax.get_legend().get_texts()) == 4
    figure = ax.get_figure()
    boxes = [text.get_window_extent(figure.canvas.get_renderer()).shrunk(0.9, 0.8) for text in ax.texts]
    assert len(boxes) >= min(size, 40)
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_an_unknown_layout_is_refused(graph):
    with pytest.raises(InputError, match="layout must be one of paths, spring, community, circle"):
        graph.plot(layout="star")


def test_a_notebook_shows_a_picture_and_not_its_name(graph):
    assert graph.plot(size=(3, 2))._repr_png_().startswith(b"\x89PNG")


def test_a_graph_shows_itself_as_a_page_in_a_frame(graph):
    shown = graph._repr_html_()
    assert shown.count("<iframe") == 1
    assert "&lt;!doctype html&gt;" in shown
    names, edges, fit = made_graph(301)
    assert "<iframe" not in hg.Graph(names, np.eye(301), edges, fit)._repr_html_()


def test_dependence_without_a_sign_is_dotted_and_called_a_strength():
    names, edges, fit = made_graph(6)
    shapes = ["levels" if k % 2 else "linear" for k in range(edges.num_rows)]
    partial = edges["partial_correlation"].to_numpy()
    edges = edges.append_column("strength", pa.array(np.abs(partial))).append_column("shape", pa.array(shapes))
    partial = pa.array([None if k % 2 else value for k, value in enumerate(partial)])
    edges = edges.set_column(edges.column_names.index("partial_correlation"), "partial_correlation", partial)
    edges = edges.set_column(edges.column_names.index("selected"), "selected", pa.array([True] * edges.num_rows))
    graph = hg.Graph(names, np.eye(6), edges, fit)
    ax = graph.plot()
    dotted = [line for line in ax.get_lines() if line.get_color() == plots.UNSIGNED]
    assert len(dotted) == sum(shape == "levels" for shape in shapes)
    assert ax.get_legend().get_title().get_text() == "strength (dotted: without a sign)"
    signed = graph.plot_adjacency()
    assert "strength" in signed.figure.axes[1].get_ylabel()
