"""What a notebook shows: few words, pages in frames, lines that say how far it is."""

import pytest

import hazeglass as hg
from hazeglass.compute.engines import spoken


def test_plans_previews_and_releases_show_themselves_in_a_few_words(make_plan, table, tmp_path, capsys):
    plan = make_plan()
    release = hg.publish(table, plan, tmp_path / "out", progress=True)
    assert "publishing: " in capsys.readouterr().err
    for value, words in (
        (plan, "<Plan: 'Test', moments, 3"),
        (plan.preview(500), "<Preview: "),
        (release, "<Release: 'Test'"),
    ):
        assert repr(value).startswith(words)
        assert len(repr(value)) < 300
        assert value._repr_html_().startswith("<div><strong>")
    assert release.statement() == (tmp_path / "out" / "statement.html").read_text(encoding="utf-8")
    assert release.statement()._repr_html_().startswith('<iframe srcdoc="')
    hg.recover(release, progress=True)
    assert "recovering: " in capsys.readouterr().err


def test_progress_in_a_notebook_is_a_few_lines_and_not_one_per_hundredth(capsys):
    tell = spoken(True, "publishing")
    for done in range(1000):
        tell(done)
    tell("charging the ledger")
    told = capsys.readouterr().err.split("\r")[1:]
    assert told[0].split() == ["publishing:", "0", "done"]
    assert told[-1].split() == ["publishing:", "charging", "the", "ledger"]
    assert len(told) < 50


def test_a_missing_library_is_one_sentence(make_plan, table, tmp_path, monkeypatch):
    graph = hg.recover(hg.publish(table, make_plan(), tmp_path / "out"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for ask in (graph.to_pandas, graph.to_polars, graph.plot):
        with pytest.raises(hg.errors.MissingExtraError, match=r"Install it with: pip install"):
            ask()
