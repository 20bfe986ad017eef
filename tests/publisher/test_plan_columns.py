"""Many columns in a few lines, every gap at once, and filling in by pattern."""

import tomllib

import pandas as pd
import pytest

import hazeglass as hg
from hazeglass.errors import BoundsMissingError, PlanError
from hazeglass.publisher.plan_columns import filled, names_an_id
from hazeglass.publisher.plan_file import fill_plan_file

HEAD = '[release]\ntitle = "Test"\nform = "moments"\n[budget]\nepsilon = 1.0\ndelta = 1e-6\n'
DEFAULTS = '[defaults]\nkind = "continuous"\nlower = 0.0\nupper = 1.0\nreason = "a share"\n'
FRAME = pd.DataFrame({name: [0.5, 0.25] for name in ("s_1", "s_2", "t_in", "id", "other")})


def plan(text, data=FRAME):
    return hg.Plan.from_dict(tomllib.loads(HEAD + text), data)


def test_patterns_and_defaults_describe_many_columns():
    made = plan(DEFAULTS + '[[columns]]\nmatch = "s_*"\n[[columns]]\nname = "t_in"\nlower = -40\nupper = 60\n')
    assert made.names == ("s_1", "s_2", "t_in")
    assert [(c.lower, c.upper, c.reason) for c in made.columns] == [
        (0, 1, "a share"),
        (0, 1, "a share"),
        (-40, 60, "a share"),
    ]
    assert plan(DEFAULTS + '[[columns]]\nnames = ["s_1", "s_2"]\n', None).names == ("s_1", "s_2")


def test_a_column_that_is_named_takes_no_pattern_and_an_id_is_never_matched():
    person = HEAD.replace('"moments"\n', '"moments"\nprotects = "person"\nid_column = "id"\nmax_rows = 2\n')
    text = DEFAULTS + '[[columns]]\nmatch = "*"\n[[columns]]\nname = "t_in"\nlower = -40\nupper = 60\n'
    made = hg.Plan.from_dict(tomllib.loads(person + text), FRAME)
    assert made.names == ("s_1", "s_2", "other", "t_in")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[columns]]\nmatch = "x*"\n', "fits no column"),
        ('[[columns]]\nmatch = "s*"\nname = "s_1"\n', "one of name, names and match"),
        ("[[columns]]\nnames = []\n", "at least one column's name"),
        ('[defaults]\nname = "a"\n[[columns]]\nname = "s_1"\n', r"\[defaults\] must be"),
        (
            '[defaults]\nknd = "a"\n[[columns]]\nname = "s_1"\nlower = 0\nupper = 1\nkind = "integer"\n',
            "does not know 'knd'",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(text, message):
    with pytest.raises(PlanError, match=message):
        plan((DEFAULTS if "[defaults]" not in text else "") + text)


def test_a_pattern_without_data_says_what_it_needs():
    with pytest.raises(PlanError, match="--data FILE"):
        plan(DEFAULTS + '[[columns]]\nmatch = "s_*"\n', None)


def test_publishing_matches_patterns_against_the_data(tmp_path):
    (tmp_path / "plan.toml").write_text(HEAD + DEFAULTS + '[[columns]]\nmatch = "s_*"\n')
    assert hg.publish(FRAME, tmp_path / "plan.toml", tmp_path / "out").manifest.names == ("s_1", "s_2")


def test_every_gap_is_told_at_once():
    with pytest.raises(BoundsMissingError) as caught:
        plan('[defaults]\nkind = "continuous"\n[[columns]]\nmatch = "*"\n')
    text = str(caught.value)
    assert all(f"column {name!r} has no lower and no upper bound" in text for name in FRAME)
    assert text.count("Bounds must come from") == 1
    with pytest.raises(PlanError, match=r"(?s)2 things.*'x' must have 'kind'.*title") as caught:
        hg.Plan.from_dict({"release": {"title": "", "form": "moments"}, "budget": {}, "columns": [{"name": "x"}]})
    assert len(caught.value.gaps) == 3
    with pytest.raises(BoundsMissingError, match=r"'k39'.*|and 15 more"):
        hg.Plan.from_frame(pd.DataFrame({f"k{n}": [1.0] for n in range(40)}), {}, epsilon=1, delta=1e-6)


def test_gaps_with_one_remedy_stand_together_and_say_it_once():
    bounded = '[[columns]]\nnames = ["a", "b"]\nkind = "continuous"\n'
    worded = '[[columns]]\nnames = ["c", "d"]\nkind = "categorical"\n'
    with pytest.raises(BoundsMissingError) as caught:
        plan(bounded + worded)
    count, *gaps = caught.value.gaps
    assert count == "4 things are missing or wrong:"
    assert [gap.split(" has ")[0] for gap in gaps if gap.startswith("column")] == [f"column {n!r}" for n in "abcd"]
    assert [gap.split()[0] for gap in gaps if not gap.startswith("column")] == ["Bounds", "List"]


def test_from_frame_without_bounds_lists_what_needs_them():
    with pytest.raises(BoundsMissingError, match="2 things are missing"):
        hg.Plan.from_frame(pd.DataFrame({"a": [1.0], "b": [2.0]}), epsilon=1.0, delta=1e-6)


def test_a_plan_of_many_columns_is_saved_in_a_few_lines(tmp_path):
    frame = pd.DataFrame({f"sensor_{k}": [1.0] for k in range(452)} | {"count": [1]})
    bounds = {"sensor_*": (-40, 60), "count": (0, 9)}
    made = hg.Plan.from_frame(frame, bounds, title="Sensors", epsilon=1.0, delta=1e-6)
    made.save(tmp_path / "plan.toml")
    assert len((tmp_path / "plan.toml").read_text().splitlines()) < 25
    assert hg.Plan.load(tmp_path / "plan.toml") == made
    assert (made.columns[0].lower, made.columns[-1].kind, made.columns[-1].upper) == (-40, "integer", 9)


TEXT = (
    HEAD
    + """
# my own note
[[columns]]
names = ["temp_a", "wind",
         "temp_b"]   # three of them
kind = "continuous"
# lower =                   # to fill in

[[columns]]
name = "temp_c"   # the last
kind = "continuous"
lower = 3
"""
)


def test_filling_in_by_pattern_changes_those_columns_and_nothing_else():
    text, count = filled(TEXT, "temp*", {"lower": "-40", "upper": "60", "reason": '"range"'})
    assert count == 3
    columns = tomllib.loads(text)["columns"]
    fill = {"lower": -40, "upper": 60, "reason": "range"}
    assert columns == [
        {"names": ["wind"], "kind": "continuous"},
        {"names": ["temp_a", "temp_b"], "kind": "continuous", **fill},
        {"name": "temp_c", "kind": "continuous", **fill},
    ]
    assert "# my own note" in text
    assert "# the last" in text


def test_a_plan_file_is_filled_in_place_or_left_alone(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(TEXT)
    assert fill_plan_file(path, "*", {"lower": 0.0, "upper": 1.0}) == 4
    assert len(hg.Plan.load(path).columns) == 4
    before = path.read_text()
    with pytest.raises(PlanError, match=r"no column of plan\.toml fits 'x'"):
        fill_plan_file(path, "x", {"lower": 0.0})
    assert (path.read_text(), [p.name for p in tmp_path.iterdir()]) == (before, ["plan.toml"])


@pytest.mark.parametrize("name", ["id", "ID", "patient", "patient_id", "customer no", "userId", "Household"])
def test_names_of_ids_are_known(name):
    assert names_an_id(name)


@pytest.mark.parametrize("name", ["humid", "valid", "idle", "width", "patients_seen", "acid", "covid"])
def test_other_names_are_not_taken_for_ids(name):
    assert not names_an_id(name)
