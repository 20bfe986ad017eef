"""A killed run goes on where it was; changed code or questions start again."""

import os

import pytest
from hazeglass_experiments.cells import Cell, Kept, Setup, run_cells, source_digest

CELLS = [Cell(f"group/cell{k}", "nowhere:nothing", {"k": k}) for k in range(4)]


class Worker:
    """Doubles k, remembers what it was asked, and may stop after some calls."""

    def __init__(self, stop_after=None):
        self.asked, self.stop_after = [], stop_after

    def __call__(self, function, setup, arguments):
        if self.stop_after is not None and len(self.asked) == self.stop_after:
            raise KeyboardInterrupt
        self.asked.append(arguments["k"])
        return {"twice": 2 * arguments["k"]}


def run(kept, worker, cells=CELLS, setup=None):
    told = []
    return run_cells(cells, setup or Setup(), kept, worker, 1, told.append), told


def test_every_cell_is_computed_once_and_reported(tmp_path):
    worker = Worker()
    results, told = run(Kept(tmp_path, "digest"), worker)
    assert results == {f"group/cell{k}": {"twice": 2 * k} for k in range(4)}
    assert worker.asked == [0, 1, 2, 3]
    assert told == list(results)


def test_processes_import_nothing_from_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (tmp_path / "multiprocessing.py").write_text("raise SystemExit('imported from where anyone may write')")
    cells = CELLS[:2]
    results = run_cells(cells, Setup(), Kept(tmp_path, "digest"), Worker(), 2, lambda name: None)
    assert results == {cell.name: {"twice": 2 * cell.arguments["k"]} for cell in cells}
    assert "PYTHONSAFEPATH" not in os.environ


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    kept = Kept(tmp_path, "digest")
    with pytest.raises(KeyboardInterrupt):
        run(kept, Worker(stop_after=2))
    second = Worker()
    results, _ = run(kept, second)
    assert second.asked == [2, 3]
    assert len(results) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda kept, cell, setup: (Kept(kept.folder, "other code"), cell, setup),
        lambda kept, cell, setup: (kept, Cell(cell.name, cell.function, {"k": 7}), setup),
        lambda kept, cell, setup: (kept, cell, Setup(quick=True)),
    ],
)
def test_what_was_asked_differently_is_computed_again(tmp_path, change):
    kept, cell, setup = Kept(tmp_path, "digest"), CELLS[1], Setup()
    kept.keep(cell, setup, "old")
    assert kept.find(cell, setup) == "old"
    other, asked, under = change(kept, cell, setup)
    assert other.find(asked, under) is None


def test_another_folder_of_the_same_data_keeps_the_results(tmp_path):
    kept = Kept(tmp_path, "digest")
    kept.keep(CELLS[1], Setup(data_dir="here"), "old")
    assert kept.find(CELLS[1], Setup(data_dir="there")) == "old"


def test_a_damaged_file_is_computed_again(tmp_path):
    kept = Kept(tmp_path, "digest")
    kept.keep(CELLS[0], Setup(), "old")
    (tmp_path / "group" / "cell0.json").write_text('{"key": "')
    assert kept.find(CELLS[0], Setup()) is None


def test_the_digest_sees_code_and_recipes_but_not_caches(tmp_path):
    (tmp_path / "run.py").write_text("a = 1")
    before = source_digest(tmp_path)
    (tmp_path / "run.pyc").write_text("compiled")
    assert source_digest(tmp_path) == before
    (tmp_path / "recipe.toml").write_text("runs = 3")
    assert source_digest(tmp_path) != before
