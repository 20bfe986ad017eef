"""From names of results to a folder of them: check the data, run the cells, write tables, pictures and one page."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import hazeglass
from hazeglass.bundle.writer import check_new, new_folder

from .cells import Cell, Kept, Progress, Setup, Work, run_cells, source_digest
from .sections import Section, number, write_section

__all__ = ["TARGETS", "reproduce", "unfinished_folder"]

_ALL = ("table1a", "table1b", "table2", "solvers", "toy", "figures", "baselines", "attacks", "honest")
TARGETS: dict[str, tuple[str, ...]] = {name: (name,) for name in _ALL} | {
    "figures": ("toy", "figures"),
    "all": _ALL,
}
"""What a person may ask for, and the experiments it takes."""


def unfinished_folder(out: Path) -> Path:
    """Where finished cells wait until the whole run is done."""
    return out.with_name(f".{out.name}.unfinished")


def reproduce(
    target: str,
    setup: Setup,
    out: Path,
    work: Work,
    *,
    workers: int | None = None,
    watch: Callable[[int], Progress] = lambda total: lambda name: None,
) -> list[Section]:
    """Run `target` into the new folder `out`; a run that was killed goes on where it stopped.

    `work` calls a cell's function in whatever process it finds itself; `watch` is told how many cells there are and
    returns what is to be told each one's name.
    """
    check_new(out)
    modules = {name: import_module(f"{__package__}.{name}.run") for name in TARGETS[target]}
    _check_data(modules, setup)
    groups = {name: list(module.cells(setup)) for name, module in modules.items()}
    cells: Sequence[Cell] = [cell for group in groups.values() for cell in group]
    here, library = Path(__file__).parent, Path(hazeglass.__file__).parent
    kept = Kept(unfinished_folder(out), source_digest(here, library))
    results = run_cells(cells, setup, kept, work, workers or max(1, os.cpu_count() or 1), watch(len(cells)))
    with new_folder(out) as folder:
        sections = [_section(name, module, results, setup, folder) for name, module in modules.items()]
        _write_page(sections, setup, folder)
    shutil.rmtree(kept.folder, ignore_errors=True)
    return sections


def _section(name: str, module: ModuleType, results: dict[str, Any], setup: Setup, folder: Path) -> Section:
    place = folder / name
    place.mkdir()
    section: Section = module.report(results, setup, place)
    write_section(section, place)
    return section


def _check_data(modules: dict[str, ModuleType], setup: Setup) -> None:
    """Load each data set once before minutes are spent, so that a missing one is named at once."""
    wanted = {name for module in modules.values() for name in getattr(module, "data_needed", lambda _: ())(setup)}
    if wanted:
        from .subjects import SUBJECTS

        for name in SUBJECTS:
            if name in wanted:
                SUBJECTS[name].load(setup.data_dir)


def _write_page(sections: Sequence[Section], setup: Setup, folder: Path) -> None:
    """index.html in `folder`: one page that needs nothing else, pictures inside, differences coloured."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    pictures = {
        (section.name, picture.file): base64.b64encode((folder / section.name / picture.file).read_bytes()).decode()
        for section in sections
        for picture in section.pictures
    }
    page = environment.get_template("page.html").render(sections=sections, quick=setup.quick, pictures=pictures)
    (folder / "index.html").write_text(page, encoding="utf-8")
