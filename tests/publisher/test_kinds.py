"""Columns of every kind in a plan, from the file to what the publisher alone is told."""

import re
import tomllib

import numpy as np
import pandas as pd
import pytest

import hazeglass as hg
from hazeglass.compute.tables import open_table
from hazeglass.compute.text import TextFormat
from hazeglass.errors import DataError, PlanError
from hazeglass.publisher.rows import Rows

PLAN = """
[release]
title = "Clinic"
form = "moments"
protects = "{unit}"
[text]
missing = ["", "?"]
[budget]
mu = 1.0
[[columns]]
name = "grade"
kind = "ordinal"
levels = ["low", "mid", "high"]
missing = "informative"
[[columns]]
name = "hour"
kind = "categorical"
source = "when"
part = "hour"
[[columns]]
name = "day"
kind = "integer"
source = "when"
since = 2024-01-01
lower = 0
upper = 366
[[columns]]
name = "ok"
kind = "binary"
"""


def plan(unit="record"):
    return hg.Plan.from_dict(tomllib.loads(PLAN.format(unit=unit)))


def test_a_plan_of_all_kinds_is_the_same_after_a_file(tmp_path):
    plan().save(tmp_path / "plan.toml")
    assert hg.Plan.load(tmp_path / "plan.toml") == plan()
    text = (tmp_path / "plan.toml").read_text()
    assert "(missing)" not in text  # it follows from missing = "informative"
    assert 'levels = ["low", "mid", "high"]' in text
    assert text.count("lower") == 1


def test_missing_cells_that_inform_are_a_column_of_their_own():
    made = plan()
    assert made.names == ("grade", "grade (missing)", "hour", "day", "ok")
    assert made.columns[1].levels == ("no", "yes")


def test_columns_of_one_cell_are_counted_where_cells_are_protected():
    assert plan().unit.together == 1
    assert plan("entry").unit.together == 2
    assert "with all columns that are made of it" in plan("entry").unit.in_words


def test_cells_become_numbers_as_the_plan_says(tmp_path):
    rows = pd.DataFrame(
        {
            "grade": ["mid", "?", "tall", "high"],
            "when": ["2024-01-02 13:30", "2024-01-01", "?", "yesterday"],
            "ok": [True, False, None, True],
        }
    )
    rows.to_csv(tmp_path / "d.csv", index=False)
    for data in (rows, str(tmp_path / "d.csv")):
        (block,) = Rows(plan(), open_table(data, plan().text)).blocks()
        nan = np.nan
        expected = [[1, nan, nan, 2], [0, 1, 1, 0], [13, nan, nan, nan], [1, 0, nan, nan], [1, 0, nan, 1]]
        np.testing.assert_array_equal(np.array(block), expected)


@pytest.mark.parametrize("form", ["moments", "synthetic", "table"])
def test_levels_that_miss_most_cells_are_hinted_at_to_the_publisher_only(form, tmp_path, capfd):
    columns = [hg.Column("x", "continuous", -3, 3), hg.Column("g", "ordinal", levels=["low", "high"])]
    made = hg.Plan(title="t", form=form, mu=1.0, columns=columns)
    rng = np.random.default_rng(1)
    seen = []
    for words in (["Low", "High"], ["low", "high"]):
        data = pd.DataFrame({"x": rng.normal(size=400), "g": rng.choice(words, 400)})
        release = hg.publish(data, made, tmp_path / f"{form} {words[0]}")
        seen.append(capfd.readouterr())
        assert release.n == 400
    told = seen[0].err.splitlines()
    assert told == [
        "publisher only: cells of column 'g' that are no levels and count as missing: 400. That is most of them: "
        "compare the plan's levels with how the data writes them.",
        "publisher only: column 'g' holds no level at all.",
    ]
    assert (seen[0].out, seen[1].out, seen[1].err) == ("", "", "")


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ([hg.Column("x", "categorical", levels=["NA", "EU"])], {}, "has the level 'NA', which text.missing names"),
        ([hg.Column("x", "binary"), hg.Column("x (missing)", "binary"), hg.Column("y", "binary")], None, ""),
        (
            [hg.Column("x", "binary", missing="informative"), hg.Column("x (missing)", "binary")],
            {},
            "names 'x (missing)' twice",
        ),
        (
            [hg.Column("h", "ordinal", source="who", part="hour"), hg.Column("y", "binary")],
            {"protects": "person", "id_column": "who", "max_rows": 2},
            "the id column 'who' must not be released",
        ),
        (
            [hg.Column("y", "binary", source="z")],
            {"text": TextFormat(header=False, names=("y",))},
            "names column 'z', which is not among text.names. Correct one of the two",
        ),
        (
            [hg.Column("incme", "binary")],
            {"text": TextFormat(header=False, names=("income",))},
            "which is not among text.names. Did you mean 'income'",
        ),
        (
            [hg.Column("y (missing)", "binary", source="y", part="missing"), hg.Column("y", "binary")],
            {},
            "belongs to no column with missing",
        ),
    ],
)
def test_plans_that_cannot_be_are_refused_in_a_sentence(columns, options, message):
    if options is None:
        hg.Plan(title="t", form="moments", mu=1.0, columns=columns)
        return
    with pytest.raises(PlanError, match=re.escape(message)):
        hg.Plan(title="t", form="moments", mu=1.0, columns=columns, **options)


def test_bounds_of_levels_are_refused_in_a_plan_even_where_they_would_be_right():
    document = tomllib.loads(PLAN.format(unit="record"))
    document["columns"][0]["lower"] = 0
    with pytest.raises(PlanError, match=r"is ordinal: its levels take the place of bounds\. Remove lower"):
        hg.Plan.from_dict(document)


def test_a_continuous_column_declared_categorical_is_all_missing_and_no_refusal(tmp_path, capfd):
    data = pd.DataFrame({"x": np.linspace(0, 1, 300), "y": np.linspace(0, 1, 300)})
    columns = [hg.Column("x", "categorical", levels=["low", "high"]), hg.Column("y", "continuous", 0, 1)]
    hg.publish(data, hg.Plan(title="t", form="table", mu=1.0, columns=columns), tmp_path / "r")
    assert "cells of column 'x' that are no levels and count as missing: 300." in capfd.readouterr().err


def test_a_misspelled_level_is_pointed_out_to_the_publisher_alone(tmp_path, capfd):
    data = pd.DataFrame({"sex": ["Male"] * 200 + ["Female"] * 100, "y": np.linspace(0, 1, 300)})
    columns = [hg.Column("sex", "binary", levels=["Femal", "Male"]), hg.Column("y", "continuous", 0, 1)]
    hg.publish(data, hg.Plan(title="t", form="table", mu=1.0, columns=columns), tmp_path / "r")
    assert "missing: 100. Is one misspelled? Compare the plan's levels with how" in capfd.readouterr().err


def test_a_source_that_is_not_in_the_data_is_named():
    with pytest.raises(DataError, match="the plan names column 'when'"):
        Rows(plan(), open_table(pd.DataFrame({"grade": ["low"], "ok": [True]})))
