"""A cell, the smallest piece of an experiment that is worth keeping when a run is killed, and how cells are run.

Each result is kept as it comes, and a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

__all__ = ["Cell", "Kept", "Results", "Setup", "Work", "call", "read_recipe", "run_cells", "source_digest"]

Results = Mapping[str, Any]
"""Name of a cell to what its function returned: numbers, strings, lists and mappings of them."""
Work = Callable[[str, dict[str, Any], dict[str, Any]], Any]
Progress = Callable[[str], None]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_SAFE_PATH = "PYTHONSAFEPATH"  # modules in the current folder, which anyone may have put there, are not imported


@dataclass(frozen=True)
class Setup:
    """What the person who runs the experiments decides."""

    quick: bool = False
    data_dir: str | None = None


@dataclass(frozen=True)
class Cell:
    """One call: `function` is 'module:name' inside this package, and its result must survive JSON."""

    name: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def read_recipe(here: str, setup: Setup) -> dict[str, Any]:
    """The recipe.toml beside a module; with quick, its [quick] table replaces what it names."""
    recipe = tomllib.loads((Path(here).parent / "recipe.toml").read_text(encoding="utf-8"))
    changes = recipe.pop("quick", {})
    return recipe | changes if setup.quick else recipe


class Kept:
    """Finished cells in a folder, one file each, valid for one state of the code, one recipe and one call."""

    def __init__(self, folder: Path, digest: str) -> None:
        self.folder, self.digest = folder, digest

    def find(self, cell: Cell, setup: Setup) -> Any | None:
        """What the cell returned before, if it was asked the same."""
        try:
            record = json.loads(self._path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return record["result"] if record.get("key") == self._key(cell, setup) else None

    def keep(self, cell: Cell, setup: Setup, result: Any) -> None:
        """Store a result; the file appears whole or not at all."""
        path = self._path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps({"key": self._key(cell, setup), "result": result}), encoding="utf-8")
        partial.replace(path)

    def _path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.json"

    def _key(self, cell: Cell, setup: Setup) -> str:
        # Not the data folder: loaders compare the hashes of what they read, so it cannot change a result.
        asked = json.dumps([cell.function, dict(cell.arguments), setup.quick, self.digest], sort_keys=True)
        return hashlib.sha256(asked.encode()).hexdigest()


def source_digest(*folders: Path) -> str:
    """One hash over the code and recipes that results depend on."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".toml")):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def call(function: str, setup: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """Call 'module:name' of this package."""
    module, name = function.split(":")
    return getattr(import_module(f"{__package__}.{module}"), name)(Setup(**setup), **arguments)


def run_cells(
    cells: Sequence[Cell], setup: Setup, kept: Kept, work: Work, workers: int, progress: Progress
) -> dict[str, Any]:
    """Results of all cells by name; `progress` is told each name as it is done."""
    done: dict[str, Any] = {}
    for cell in cells:
        if (result := kept.find(cell, setup)) is not None:
            done[cell.name] = result
            progress(cell.name)
    missing = [cell for cell in cells if cell.name not in done]
    for cell, result in _computed(missing, setup, work, workers):
        kept.keep(cell, setup, result)
        done[cell.name] = result
        progress(cell.name)
    return {cell.name: done[cell.name] for cell in cells}


def _computed(cells: Sequence[Cell], setup: Setup, work: Work, workers: int) -> Iterator[tuple[Cell, Any]]:
    if workers == 1 or len(cells) < 2:
        for cell in cells:
            yield cell, work(cell.function, asdict(setup), dict(cell.arguments))
        return
    with _one_thread_each(), ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs: dict[Future[Any], Cell] = {
            pool.submit(work, cell.function, asdict(setup), dict(cell.arguments)): cell for cell in cells
        }
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes already fill the cores: matrix products inside them must not start threads of their own."""
    before = {name: os.environ.get(name) for name in (*_THREADS, _SAFE_PATH)}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
