"""Render the HTML templates: one self-contained file, every name escaped, nothing fetched."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

__all__ = ["raw_template", "render"]


def render(template: str, **values: Any) -> str:
    """Fill a template of this package."""
    return str(_environment().get_template(template).render(**values))


@functools.cache
def _environment() -> Any:
    """Made once: compiling a template takes longer than filling it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("hazeglass.present"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["probability"] = _probability
    environment.filters["percent"] = _percent
    return environment


def raw_template(name: str) -> str:
    """A script or style sheet of this package, as it is."""
    return files("hazeglass.present").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")


def _probability(value: float) -> str:
    return "< 1e-16" if value < 1e-16 else _number(value, 2)


def _number(value: float, digits: int = 4) -> str:
    return f"{value:.{digits}g}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"
