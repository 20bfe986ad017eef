"""docs/format says of every field of release.json what the schema says."""

import runpy
from pathlib import Path

from hazeglass.bundle.manifest import FORMAT_VERSION
from hazeglass.bundle.moments import MARGINAL_COLUMNS, MOMENT_COLUMNS
from hazeglass.bundle.verify import release_schema

FOLDER = Path(__file__).parents[2] / "docs" / "format"


def test_the_page_is_the_one_generated_from_the_schema():
    made = runpy.run_path(str(FOLDER / "generate.py"))
    assert (FOLDER / "release.md").read_text(encoding="utf-8") == made["page"]()


def test_the_format_names_every_column_of_counts_and_moments_and_every_scale():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    fields = release_schema()["properties"]
    words = [*MARGINAL_COLUMNS, *MOMENT_COLUMNS, *filter(None, fields["scale"]["enum"])]
    assert [word for word in words if f"`{word}`" not in text] == []
    assert f"This is format {FORMAT_VERSION}." in text


def test_every_field_has_a_meaning():
    made = runpy.run_path(str(FOLDER / "generate.py"))
    fields = list(made["rows"](release_schema()))
    assert len(fields) > 50
    assert [name for name, *_, meaning in fields if not meaning] == []
