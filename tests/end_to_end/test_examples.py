"""The quick examples run here, the others when the pages are built; each draws one picture or says why not."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))
QUICK = ("plot_5_table_or_moments.py", "plot_6_measurement_error.py")


@pytest.mark.parametrize("script", [path for path in EXAMPLES if path.name in QUICK], ids=lambda path: path.name)
def test_a_quick_example_draws_its_picture(script, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    runpy.run_path(str(script))
    assert len(plt.get_fignums()) == 1
    plt.close("all")


def test_data_that_is_not_there_is_said_and_skipped(monkeypatch, tmp_path, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setenv("HAZEGLASS_DATA", str(tmp_path))
    monkeypatch.setenv("HAZEGLASS_CACHE", str(tmp_path))
    for script in EXAMPLES:
        if "Needs the data set" in script.read_text(encoding="utf-8"):
            runpy.run_path(str(script))
            assert capsys.readouterr().out.startswith("skipped: ")


def test_there_are_ten_and_each_title_is_a_question():
    titles = [path.read_text(encoding="utf-8").splitlines()[1] for path in EXAMPLES]
    assert len(titles) == 10
    assert all(title.endswith("?") for title in titles)
