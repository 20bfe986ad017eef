"""Levels in a release: what a reader is told of them, and what a forger cannot make of them."""

import json
import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.errors import BundleError, InputError

from .forgery import reseal, write_part

COLUMNS = [
    {"name": "colour", "kind": "categorical", "levels": ["red", "green", "blue"]},
    {"name": "grade", "kind": "ordinal", "levels": ["low", "mid", "high"], "missing": "informative"},
    {"name": "ok", "kind": "binary"},
    {"name": "x", "kind": "continuous", "lower": -1.0, "upper": 1.0},
]
N = 3000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "colour": rng.choice(["red", "green", "blue", "?"], N),
            "grade": rng.choice(["low", "mid", "high", None], N),
            "ok": rng.random(N) < 0.3,
            "x": rng.uniform(-1, 1, N),
        }
    )


@pytest.fixture(scope="module")
def released(rows, tmp_path_factory):
    """One release of each form."""
    made = {}
    for form in ("table", "synthetic"):
        columns = COLUMNS if form == "table" else COLUMNS[1:]
        plan = hg.Plan.from_dict(
            {"release": {"title": "t", "form": form, "protects": "record"}, "budget": {"mu": 4.0}, "columns": columns}
        )
        made[form] = hg.publish(rows, plan, tmp_path_factory.mktemp(form) / "r", weak_on_purpose=True)
    return made


@pytest.fixture
def table(released, tmp_path):
    return shutil.copytree(released["table"].path, tmp_path / "r")


def test_an_honest_table_with_levels_is_read_as_it_was_written(released):
    release = hg.load(released["table"].path)
    release.check_values()
    assert [column.kind for column in release.columns] == ["categorical", "ordinal", "binary", "binary", "continuous"]
    assert release.columns[2].name == "grade (missing)"
    counts = Counter(release.table()["colour"].to_pylist())
    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > N * release.columns[0].response


def test_synthetic_rows_hold_numbers_of_levels(released):
    made = released["synthetic"].table()
    assert set(made["grade"].to_pylist()) == {0, 1, 2}
    assert set(made["ok"].to_pylist()) == {0, 1}
    assert set(made["grade (missing)"].to_pylist()) == {0, 1}


def test_other_tools_are_told_what_the_numbers_mean(released):
    package = json.loads((released["table"].path / "datapackage.json").read_text())
    fields = {field["name"]: field for field in package["resources"][0]["schema"]["fields"]}
    assert fields["colour"]["categories"] == [
        {"value": 0, "label": "red"},
        {"value": 1, "label": "green"},
        {"value": 2, "label": "blue"},
        {"value": 3, "label": "(missing)"},
    ]
    assert fields["colour"]["categoriesOrdered"] is False
    assert "categories" not in fields["grade"]  # noise leaves numbers that are no level's
    assert "1 mid" in fields["grade"]["description"]
    package = json.loads((released["synthetic"].path / "datapackage.json").read_text())
    rows = next(one for one in package["resources"] if one["path"].startswith("data/"))
    fields = {field["name"]: field for field in rows["schema"]["fields"]}
    assert [one["label"] for one in fields["grade"]["categories"]] == ["low", "mid", "high"]
    assert fields["grade"]["categoriesOrdered"] is True
    croissant = json.loads((released["table"].path / "croissant.json").read_text())
    assert "0 red, 1 green, 2 blue, 3 missing" in croissant["recordSet"][0]["field"][0]["description"]


def test_the_statement_lists_levels_and_says_how_they_were_answered(released):
    text = (released["table"].path / "statement.html").read_text()
    assert "red · green · blue" in text
    assert "answered at random" in text
    assert "whether grade is missing" in text
    assert "Levels are a public list" in text


def test_a_graph_of_levels_without_order_is_asked_of_moments(released):
    with pytest.raises(InputError, match=r'levels that have no order \(colour\).*form = "moments"'):
        hg.recover(released["table"])


def _set(number, **values):
    return lambda document: document["columns"][number].update(values)


def _unit(**values):
    return lambda document: document["unit"].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set(0, response=2.0**-10), "only gives mu"),
        (_set(0, response=0.3), "no release can have"),
        (_set(0, response=0.1 + 2.0**-60), "only gives mu|no release can have|as hazeglass writes"),
        (_set(0, response=None), "noise per cell"),
        (_set(1, response=0.1), "noise per cell"),
        (_set(0, levels=["red", "red", "blue"]), "a column that no plan can have"),
        (_set(0, kind="ordinal"), "noise per cell"),
        (_set(1, missing="random"), "made of one cell"),
        (_set(3, missing="informative"), "made of one cell"),
        (_unit(together=2), "made of one cell"),
    ],
)
def test_a_claim_about_levels_that_does_not_hold_is_refused(table, change, message):
    reseal(table, change)
    with pytest.raises(BundleError, match=message):
        hg.load(table)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (lambda cells: np.where(cells == 0, 4, cells), "none of its levels"),
        (lambda cells: np.where(cells == 0, -1, cells), "none of its levels"),
        (lambda cells: np.where(cells == 3, 1, cells), "varies less than its noise"),
    ],
)
def test_cells_that_no_response_gives_are_refused(table, cells, message):
    path = table / "data" / "part-00000.parquet"
    held = pq.read_table(path)
    forged = held.set_column(0, "colour", pa.array(cells(held["colour"].to_numpy())))
    dictionaries = [column["name"] for column in json.loads((table / "release.json").read_text())["columns"][1:]]
    write_part(forged, path, use_dictionary=dictionaries)
    release = hg.load(reseal(table))
    with pytest.raises(BundleError, match=message):
        release.check_values()


def test_a_cell_is_protected_with_all_columns_that_are_made_of_it(rows, tmp_path):
    plan = hg.Plan.from_dict(
        {
            "release": {"title": "t", "form": "moments", "protects": "entry"},
            "budget": {"mu": 4.0},
            "columns": COLUMNS[1:],
        }
    )
    release = hg.publish(rows, plan, tmp_path / "r", weak_on_purpose=True)
    assert release.manifest.unit.together == 2
    assert "Up to 2 columns are made of one cell" in (tmp_path / "r" / "statement.html").read_text()
    reseal(tmp_path / "r", _unit(together=1))
    with pytest.raises(BundleError, match="made of one cell"):
        hg.load(tmp_path / "r")
