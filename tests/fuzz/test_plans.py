"""Thousands of damaged plans: one clear sentence each, or a plan that can be previewed."""

import math

import pytest
from hypothesis import given
from tests.conftest import _PLAN, plan_document

from hazeglass.errors import HazeglassError
from hazeglass.publisher.plan import Plan

from .mutations import byte_edits, document_edits, edit_bytes, edit_document, many, one_sentence

CASES = [{}, {"form": "table", "protects": "entry"}, {"form": "synthetic"}, {"protects": "readings", "readings": 5}]


def sound(plan):
    assert math.isfinite(plan.guarantee.mu)
    assert plan.guarantee.mu > 0
    assert 0 < plan.delta < 1
    for column in plan.columns:
        assert -math.inf < column.lower < column.upper < math.inf
        assert 0 < column.half_width < math.inf
    try:
        plan.preview(1000)
    except HazeglassError as error:
        one_sentence(error)


@pytest.mark.parametrize("case", CASES, ids=["moments", "table", "synthetic", "readings"])
def test_a_damaged_plan_is_refused_in_one_sentence_or_sound(case):
    document = plan_document(**case)
    sound(Plan.from_dict(document))

    @many(250)
    @given(document_edits)
    def check(edits):
        try:
            plan = Plan.from_dict(edit_document(document, edits))
        except HazeglassError as error:
            one_sentence(error)
            return
        sound(plan)

    check()


def test_a_damaged_file_is_refused_in_one_sentence_or_sound(tmp_path):
    path = tmp_path / "plan.toml"

    @many(1000)
    @given(byte_edits)
    def check(edits):
        path.write_bytes(edit_bytes(_PLAN.encode(), edits))
        try:
            plan = Plan.load(path)
        except HazeglassError as error:
            one_sentence(error)
            return
        sound(plan)

    check()
