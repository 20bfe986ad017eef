"""A cell: the smallest piece of an experiment that is worth keeping when a run is killed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Cell", "Results", "Setup", "read_recipe"]

Results = Mapping[str, Any]
"""Name of a cell to what its function returned: numbers, strings, lists and mappings of them."""


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
