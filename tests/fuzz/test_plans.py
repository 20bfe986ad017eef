"""Thousands of damaged plans: one clear sentence each, or a plan that can be previewed."""

import math
import warnings
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import _PLAN, plan_document

import hazeglass as hg
from hazeglass.bundle.columns import KINDS, NOISES, TRANSFORMS
from hazeglass.bundle.manifest import Form
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


BOUNDS = st.sampled_from([-1e308, -1e100, -(2**62), -1.0, 0, 5e-324, 3e-100, 1, 2**31, 2**63, 1e18, 1e99, 1e100, 1e308])
BUDGETS = st.one_of(
    st.builds(dict, mu=st.sampled_from([5e-324, 1e-300, 1e-20, 1e-12, 1e-6, 1.0, 1e3, math.nan])),
    st.builds(
        dict,
        epsilon=st.sampled_from([5e-324, 1e-300, 1e-20, 1e-6, 1.0, 1e3, 1e6, math.inf]),
        delta=st.sampled_from([5e-324, 1e-300, 1e-12, 1e-6, 0.5, 1 - 1e-16]),
    ),
)
UNITS_AND_SIZES = st.one_of(
    st.sampled_from([{}, {"protects": "entry"}, {"protects": "column"}]),
    st.builds(dict, protects=st.just("readings"), readings=st.sampled_from([1, 10**9])),
    st.builds(dict, protects=st.just("person"), id_column=st.just("i"), max_rows=st.sampled_from([1, 10**9])),
)
RADII = st.sampled_from([None, None, 5e-324, 1e-20, 1e-6, 1e-3, 1.0, "private"])


@st.composite
def extreme_columns(draw):
    kind, transform = draw(st.sampled_from(KINDS)), draw(st.sampled_from([None, None, *TRANSFORMS]))
    lower, upper = sorted(draw(st.tuples(BOUNDS, BOUNDS)))
    return {
        "kind": kind,
        "lower": lower,
        "upper": upper,
        "transform": transform,
        "noise": draw(st.sampled_from(NOISES)),
    }


@many(1000)
@given(
    st.sampled_from(get_args(Form)),
    UNITS_AND_SIZES,
    BUDGETS,
    RADII,
    st.lists(extreme_columns(), min_size=1, max_size=3),
)
def test_extreme_numbers_are_refused_in_one_sentence_or_can_be_previewed(form, unit, budget, radius, columns):
    counts = "public" if form == "table" and unit.get("protects") == "person" else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            made = [hg.Column(f"x{k}", **column) for k, column in enumerate(columns)]
            plan = hg.Plan(title="T", form=form, columns=made, clip_radius=radius, row_counts=counts, **unit, **budget)
            for rows in (2, 1000, 10**12):
                plan.preview(rows)
        except HazeglassError as error:
            one_sentence(error)
