"""What a notebook shows: few words, pages in frames, lines that say how far it is."""

import pytest

import hazeglass as hg


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


def test_a_missing_library_is_one_sentence(make_plan, table, tmp_path, monkeypatch):
    graph = hg.recover(hg.publish(table, make_plan(), tmp_path / "out"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for ask in (graph.to_pandas, graph.to_polars, graph.plot):
        with pytest.raises(hg.errors.MissingExtraError, match=r"Install it with: pip install"):
            ask()
