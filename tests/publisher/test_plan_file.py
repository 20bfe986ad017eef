"""A plan written as text reads back as the same plan."""

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import plan_document

from hazeglass.errors import PlanError
from hazeglass.publisher.plan_file import plan_text

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(words, words, st.floats(1e-9, 1e6), st.booleans())
def test_reading_what_was_written_gives_the_same_document(title, reason, epsilon, adaptive):
    document = plan_document(adaptive=adaptive)
    document["release"]["title"] = title
    document["budget"]["epsilon"] = epsilon
    document["columns"][0]["reason"] = reason
    assert tomllib.loads(plan_text(document)) == document


@pytest.mark.parametrize("bound", [math.inf, -math.inf])
def test_bounds_without_end_are_written_as_toml_has_them(bound):
    document = plan_document()
    document["columns"][0]["lower"] = bound
    assert tomllib.loads(plan_text(document)) == document


def test_a_bound_that_is_no_number_is_written_as_toml_has_it():
    document = plan_document()
    document["columns"][0]["lower"] = math.nan
    assert math.isnan(tomllib.loads(plan_text(document))["columns"][0]["lower"])


def test_what_is_no_plan_is_not_written():
    document = plan_document()
    del document["budget"]
    with pytest.raises(PlanError, match="must have 'budget'"):
        plan_text(document)
