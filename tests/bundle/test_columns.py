"""A column of any kind is what the plan says, or is refused in one sentence."""

import re
from dataclasses import replace

import pytest

import hazeglass as hg
from hazeglass.bundle.columns import MOST_LEVELS, absence_of, origins, unit_step
from hazeglass.errors import BoundsMissingError, PlanError

GRADES = ("low", "mid", "high")


def test_an_ordinal_column_counts_its_levels_from_0():
    column = hg.Column("grade", "ordinal", levels=list(GRADES))
    assert (column.levels, column.lower, column.upper) == (GRADES, 0.0, 2.0)
    assert column.whole
    assert column.ordered
    assert unit_step(column, "scores") == 1.0


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (hg.Column("age", "integer", lower=0, upper=120), "Column('age', 'integer', lower=0.0, upper=120.0)"),
        (hg.Column("grade", "ordinal", levels=GRADES), f"Column('grade', 'ordinal', levels={GRADES!r})"),
    ],
)
def test_a_column_prints_as_what_was_said_of_it_and_can_be_typed_again(column, text):
    assert repr(column) == text
    assert eval(text, {"Column": hg.Column}) == column


def test_a_categorical_column_has_no_order():
    assert not hg.Column("grade", "categorical", levels=GRADES).ordered


def test_a_binary_column_is_false_or_true_unless_it_says_otherwise():
    assert hg.Column("ok", "binary").levels == ("false", "true")
    assert hg.Column("sex", "binary", levels=["Female", "Male"]).levels == ("Female", "Male")


def test_a_part_of_a_date_brings_its_levels():
    assert hg.Column("day", "categorical", source="when", part="weekday").levels[0] == "Monday"
    assert hg.Column("hour", "ordinal", part="hour").upper == 23


@pytest.mark.parametrize(
    "column",
    [
        hg.Column("grade", "ordinal", levels=GRADES),
        hg.Column("ok", "binary"),
        hg.Column("hour", "ordinal", part="hour"),
        hg.Column("x", "continuous", 0, 1, since="2020-01-31"),
    ],
)
def test_a_column_can_be_made_again_from_what_it_says(column):
    assert replace(column) == column


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "ordinal", "levels": ["a", "b", "a"]}, "column 'x' has the level 'a' twice. Remove one."),
        ({"kind": "categorical"}, "column 'x' has no levels. List them in the plan"),
        ({"kind": "categorical", "levels": []}, "column 'x' has no levels"),
        ({"kind": "categorical", "levels": ["a"]}, "has one level"),
        ({"kind": "categorical", "levels": "ab"}, "levels must be a list of text, got 'ab'"),
        ({"kind": "categorical", "levels": [1, 2]}, 'every level must be text, got 1. Write it in quotes: "1".'),
        ({"kind": "categorical", "levels": ["a", " b"]}, "without spaces around it, got ' b'"),
        ({"kind": "categorical", "levels": ["a", ""]}, "a level must be text of 1 to 200 characters"),
        ({"kind": "categorical", "levels": ["a", "\udfff"]}, "a level must be text"),
        (
            {"kind": "categorical", "levels": [str(k) for k in range(10_000)]},
            f"column 'x' has 10,000 levels, and {MOST_LEVELS} is the most. Merge them.",
        ),
        ({"kind": "binary", "levels": ["a", "b", "c"]}, "is binary and needs two levels, got 3"),
        ({"kind": "continuous", "lower": 0, "upper": 1, "levels": ["a", "b"]}, "is continuous and has no levels"),
        ({"kind": "categorical", "levels": ["a", "b"], "lower": 0.5}, "its levels take the place of bounds"),
        ({"kind": "ordinal", "levels": ["a", "b"], "transform": "log1p"}, "is ordinal and cannot have a transform"),
        ({"kind": "ordinal", "levels": ["a", "b"], "noise": "discrete"}, 'needs kind = "integer"'),
        ({"kind": "ordinal", "levels": ["a", "b"], "missing": "never"}, "missing must be one of 'random', 'inf"),
        ({"kind": "ordinal", "part": "hour", "levels": ["a", "b"]}, "the levels of part = 'hour' are fixed"),
        ({"kind": "integer", "part": "hour", "lower": 0, "upper": 23}, "part = 'hour' needs kind = \"ordinal\""),
        ({"kind": "ordinal", "part": "year"}, "part must be one of 'hour', 'weekday', 'month'"),
        ({"kind": "binary", "part": "missing"}, 'say missing = "informative" at the column itself'),
        ({"kind": "continuous", "lower": 0, "upper": 1, "since": "today"}, "since must be a date such as 2000-01-31"),
        ({"kind": "continuous", "lower": 0, "upper": 1, "since": "20200131"}, "since must be a date"),
        ({"kind": "binary", "since": "2020-01-31"}, "since counts days and needs kind"),
        ({"kind": "binary", "source": 5}, "source must be text"),
    ],
)
def test_a_column_that_cannot_be_is_refused_in_a_sentence(arguments, message):
    with pytest.raises(PlanError, match=re.escape(message)):
        hg.Column("x", **arguments)


def test_days_since_a_date_need_bounds_like_any_number():
    with pytest.raises(BoundsMissingError):
        hg.Column("x", "continuous", since="2020-01-31")


def test_where_cells_are_missing_is_a_column_made_of_the_same_cell():
    age = hg.Column("age", "continuous", 0, 120, source="years")
    missing = absence_of(age)
    assert (missing.name, missing.kind, missing.levels) == ("age (missing)", "binary", ("no", "yes"))
    assert origins([age, missing, hg.Column("x", "binary")]) == ["years", "years", "x"]
