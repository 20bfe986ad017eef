"""A real file, as it was published, with a plan from the guide: no step by hand."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hazeglass as hg
from hazeglass.cli.app import app
from hazeglass.datasets import load_adult

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("HAZEGLASS_DATA", ROOT.parent / "shared" / "data"))
PLAN = ROOT / "docs" / "guide" / "adult.toml"


@pytest.fixture
def raw():
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is not there: set HAZEGLASS_DATA to the folder with the data sets")
    return DATA / "adult" / "adult.data.gz"


def test_the_plan_of_the_guide_names_every_column_and_kind():
    plan = hg.Plan.load(PLAN)
    assert len(plan.columns) == 16
    assert plan.names[plan.names.index("occupation") + 1] == "occupation (missing)"
    assert {column.kind for column in plan.columns} == {"continuous", "integer", "ordinal", "categorical", "binary"}


def test_every_cell_of_the_file_is_a_number_a_level_or_a_question_mark(raw, tmp_path):
    """A dry run reads every cell and tells the publisher what could not be read: nothing."""
    (tmp_path / "plan.toml").write_bytes(PLAN.read_bytes())
    arguments = [
        "publish",
        str(raw),
        "--plan",
        str(tmp_path / "plan.toml"),
        "--out",
        str(tmp_path / "out"),
        "--dry-run",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert [line for line in done.stderr.splitlines() if line.startswith("publisher only:")] == []


def test_the_plan_of_the_guide_has_the_levels_that_the_file_uses(raw):
    found = load_adult(DATA).levels
    for column in hg.Plan.load(PLAN).columns:
        if column.levels and column.part is None:
            assert set(column.levels) == set(found[column.name]), column.name
