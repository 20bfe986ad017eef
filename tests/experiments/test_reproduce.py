"""The command: complete or nothing, and a clear sentence where something is missing."""

import re
import sys

import pytest
from hazeglass_experiments import everything
from hazeglass_experiments.cells import Cell, Kept, Setup, run_cells
from typer.testing import CliRunner

from hazeglass.cli import reproduce
from hazeglass.cli.app import app
from hazeglass.errors import InputError

runner = CliRunner()


def test_a_result_is_a_page_a_table_and_a_picture(tmp_path):
    out = tmp_path / "out"
    answer = runner.invoke(app, ["reproduce", "toy", "--quick", "--out", str(out)])
    assert answer.exit_code == 0, answer.output
    assert sorted(path.name for path in (out / "toy").iterdir()) == [
        "counterexample.csv",
        "results.md",
        "toy.csv",
        "toy.png",
    ]
    page = (out / "index.html").read_text()
    assert 'class="same"' in page
    assert "data:image/png;base64," in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert list(tmp_path.iterdir()) == [out]


def test_an_existing_folder_is_refused_before_anything_runs(tmp_path):
    answer = runner.invoke(app, ["reproduce", "toy", "--out", str(tmp_path)])
    assert answer.exit_code == 2
    assert "already exists" in answer.output


def test_missing_data_is_named_before_anything_runs(tmp_path):
    answer = runner.invoke(
        app, ["reproduce", "table2", "--data-dir", str(tmp_path / "empty"), "--out", str(tmp_path / "out")]
    )
    assert answer.exit_code == 2
    assert "cell-signalling" in answer.output
    assert "--data-dir" in answer.output
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_leaves_no_output_and_goes_on(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(reproduce, "work", _interrupted_after(1))
        answer = runner.invoke(app, ["reproduce", "table1a", "--quick", "--workers", "1", "--out", str(out)])
    assert answer.exit_code == 130
    assert "goes on where this one stopped" in answer.output
    assert not out.exists()
    kept = list(everything.unfinished_folder(out).rglob("*.json"))
    assert len(kept) == 1
    kept[0].write_text(kept[0].read_text().replace('"20 dB": ', '"20 dB": 0.5, "was": '))  # to see that it is used
    monkeypatch.setattr(reproduce, "work", lambda *_: dict.fromkeys(_LEVELS, 1.0))
    answer = runner.invoke(app, ["reproduce", "table1a", "--quick", "--workers", "1", "--out", str(out)])
    assert answer.exit_code == 0, answer.output
    assert "| 50 | 20 dB | 0.750 |" in (out / "table1a" / "results.md").read_text()
    assert list(tmp_path.iterdir()) == [out]


_LEVELS = ("no noise", "100 dB", "80 dB", "60 dB", "40 dB", "20 dB")


def _interrupted_after(calls):
    done = []

    def work(*_):
        if len(done) == calls:
            raise KeyboardInterrupt
        done.append(1)
        return dict.fromkeys(_LEVELS, 1.0)

    return work


def test_two_processes_give_what_one_gives(tmp_path):
    cells = [Cell(f"toy/{k}", "toy.run:measure") for k in range(2)]
    told = []
    results = [
        run_cells(cells, Setup(quick=True), Kept(tmp_path / str(workers), ""), reproduce.work, workers, told.append)
        for workers in (1, 2)
    ]
    assert sorted(told) == ["toy/0", "toy/0", "toy/1", "toy/1"]
    assert results[0] == results[1]


def test_an_installation_without_experiments_says_so(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "hazeglass_experiments")
    monkeypatch.setattr(reproduce.hazeglass, "__file__", str(tmp_path / "a" / "b" / "hazeglass" / "__init__.py"))
    with pytest.raises(InputError, match="needs the experiments"):
        reproduce.load_experiments()


def test_a_result_that_does_not_exist_is_answered_with_those_that_do(tmp_path):
    answer = runner.invoke(app, ["reproduce", "table3", "--out", str(tmp_path / "out")])
    assert answer.exit_code == 2
    assert ", ".join(everything.TARGETS) in answer.output
