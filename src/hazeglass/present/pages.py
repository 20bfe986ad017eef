"""Render the HTML templates: one self-contained file, every name escaped, nothing fetched.

The drawing library of the interactive report comes from an installed package: d3, as the wheel of gravis ships it.
Nothing of gravis is imported or run. The file is used only when it is, byte for byte, the one that was looked at.
"""

from __future__ import annotations

import functools
import hashlib
import html
from collections.abc import Iterable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_D3 = Path("_internal/plotting/third_party/d3")
_D3_SHA256 = {
    "d3.v7.min.def.js": "3659989c4e97794f43ea723057f5f96702bdbeffd6b244dbbd436b286431d149",
    "ORIGINAL_LICENSE": "e008c5e25a6be382593089c29bfabbc553c6378eee02895aec46ce396cc404ee",
}
# The file calls define(name, dependencies, factory) of a module loader; this is all of one that it needs.
_BEFORE = "var d3={};(function(){const require={defined:()=>false},define=(name,needs,factory)=>factory(d3);\n"
_AFTER = "\n})();\n"


def render(template: str, *, package: str = "hazeglass.present", folder: str = "templates", **values: Any) -> str:
    """Fill a template of this package, or of another."""
    return str(_environment(package, folder).get_template(template).render(**values))


class Page(str):
    """The text of a page, which a notebook shows as one: in a frame of its own, where its styles reach nothing else."""

    def _repr_html_(self) -> str:
        frame = '<iframe srcdoc="{}" title="hazeglass" style="width:100%;height:46rem;border:0" sandbox="{}"></iframe>'
        return frame.format(html.escape(self), "allow-scripts allow-downloads")


def notes_html(title: str, sentences: Iterable[str]) -> str:
    """A few sentences under a title, for notebooks."""
    return render("notes.html", title=title, sentences=list(sentences))


@functools.cache
def _environment(package: str, folder: str) -> Any:
    """Made once: compiling a template takes longer than filling it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "probability": _probability, "percent": _percent}
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


def drawing_library() -> str | None:
    """d3 7.1.1 with its licence, as a script that defines `d3`; None when the package is missing or another version."""
    spec = find_spec("gravis")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / _D3
    texts = []
    for name, expected in _D3_SHA256.items():
        try:
            raw = (folder / name).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(raw).hexdigest() != expected:
            return None
        texts.append(raw.decode("utf-8"))
    code, licence = texts
    return f"/*\nd3 7.1.1\n{licence.strip()}\n*/\n{_BEFORE}{code}{_AFTER}"
