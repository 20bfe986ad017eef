"""All sections on one page that needs nothing else: pictures inside, differences coloured."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from .cells import Setup
from .sections import Section, number

__all__ = ["write_page"]


def write_page(sections: Sequence[Section], setup: Setup, folder: Path) -> None:
    """index.html in `folder`, where each section's pictures lie in a folder of its name."""
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
