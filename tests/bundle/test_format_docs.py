"""docs/format says of every field of release.json what the schema says."""

import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "format"


def test_the_page_is_the_one_generated_from_the_schema():
    made = runpy.run_path(str(FOLDER / "generate.py"))
    assert (FOLDER / "release.md").read_text(encoding="utf-8") == made["page"]()


def test_every_field_has_a_meaning():
    made = runpy.run_path(str(FOLDER / "generate.py"))
    from hazeglass.bundle.verify import release_schema

    fields = list(made["rows"](release_schema()))
    assert len(fields) > 50
    assert [name for name, *_, meaning in fields if not meaning] == []
