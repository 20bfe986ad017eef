"""Plans are complete or refused with a sentence that says what to do."""

import pytest
from tests.conftest import plan_document

from hazeglass.errors import BoundsMissingError, PlanError
from hazeglass.guarantee.sensitivity import Unit
from hazeglass.publisher.plan import Plan


def changed(path, value):
    """A valid document with one key replaced (or removed when value is None)."""
    document = plan_document()
    *parents, last = path
    target = document
    for key in parents:
        target = target[key]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return document


def test_a_plan_file_loads(tmp_path, plan_text):
    path = tmp_path / "plan.toml"
    path.write_text(plan_text)
    plan = Plan.load(path)
    assert plan.names == ("a", "b", "c")
    assert plan.epsilon == pytest.approx(1.0)
    assert plan.adaptive


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("budget", "epsilon"), 0, r"budget\.epsilon must be above 0, got 0"),
        (("budget", "epsilon"), -1.0, r"budget\.epsilon must be above 0"),
        (("budget", "delta"), 1, r"budget\.delta must be below 1, got 1"),
        (("budget", "delta"), None, "delta is missing"),
        (("release", "form"), "tabel", "release.form must be one of 'table'"),
        (("release", "title"), None, "must have 'title'"),
        (("release", "fomr"), "table", "does not know 'fomr'"),
        (("release", "protects"), "row", "release.protects must be one of"),
        (("release", "adaptive"), "no", "must be of type boolean"),
        (("columns", 1, "kind"), "number", "column 'b': kind must be one of"),
        (("columns", 1, "lower"), "low", "column 'b': lower must be of type number"),
        (("columns", 1, "lower"), 5.0, "lower must be below upper"),
        (("columns", 1, "transform"), "log", "transform = 'log' needs lower"),
        (("columns", 1, "noise"), "discrete", 'needs kind = "integer"'),
        (("columns", 1, "name"), "a", "names 'a' twice"),
        (("columns",), [], "at least 1 entries"),
        (("release", "clip_radius"), 9.0, "clip_radius must be at most"),
        (("release", "readings"), 4, "readings has no meaning"),
        (("release", "clip_radius"), 0, 'above 0, or "private", got 0'),
        (("release", "round_integers"), True, 'round_integers needs form = "synthetic"'),
        (("columns", 1, "upper"), 1e101, "within 1e\\+100 of 0"),
    ],
)
def test_a_wrong_key_is_named(path, value, message):
    with pytest.raises(PlanError, match=message):
        Plan.from_dict(changed(path, value))


@pytest.mark.parametrize("missing", ["lower", "upper"])
def test_a_missing_bound_is_a_refusal_not_a_mistake(missing):
    with pytest.raises(BoundsMissingError, match=f"column 'b' has no {missing} bound") as caught:
        Plan.from_dict(changed(("columns", 1, missing), None))
    assert caught.value.exit_status == 3


def test_infinite_bounds_are_refused():
    with pytest.raises(PlanError, match="both finite"):
        Plan.from_dict(changed(("columns", 0, "upper"), float("inf")))


def test_integer_bounds_must_be_whole():
    document = plan_document()
    document["columns"][0] |= {"kind": "integer", "upper": 3.5}
    with pytest.raises(PlanError, match="must be whole"):
        Plan.from_dict(document)


def test_moments_cannot_protect_a_column():
    with pytest.raises(PlanError, match='needs form = "table"'):
        Plan.from_dict(plan_document(protects="column"))


def test_a_clip_radius_means_one_stage():
    assert not Plan.from_dict(plan_document(clip_radius=1.0)).adaptive
    with pytest.raises(PlanError, match="one-stage"):
        Plan.from_dict(plan_document(clip_radius=1.0, adaptive=True))


def test_entries_are_protected_in_one_stage():
    assert not Plan.from_dict(plan_document(protects="entry")).adaptive


def test_mu_may_stand_for_epsilon_and_delta():
    document = plan_document()
    document["budget"] = {"mu": 0.5}
    plan = Plan.from_dict(document)
    assert plan.guarantee.mu == 0.5
    document["budget"] = {"mu": 0.5, "epsilon": 1.0}
    with pytest.raises(PlanError, match="either mu"):
        Plan.from_dict(document)


def test_a_missing_or_broken_file_is_one_sentence(tmp_path):
    with pytest.raises(PlanError, match="there is no plan"):
        Plan.load(tmp_path / "nothing.toml")
    broken = tmp_path / "plan.toml"
    broken.write_text("[release\ntitle=")
    with pytest.raises(PlanError, match="must be valid TOML"):
        Plan.load(broken)
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="UTF-8"):
        Plan.load(broken)


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ({"form": "table", "protects": "entry", "clip_radius": 1.0}, 'clip_radius needs protects = "record"'),
        ({"protects": "entry", "clip_radius": 1.0}, 'clip_radius needs protects = "record"'),
        ({"form": "table", "clip_radius": "private"}, 'needs form = "moments" or "synthetic"'),
        ({"form": "table", "adaptive": True}, "adaptive = true needs form"),
        ({"protects": "entry", "adaptive": True}, "adaptive = true needs form"),
        ({"protects": "entry", "columns": ("a",)}, "need at least 2 columns, got 1"),
        ({"protects": "readings", "readings": 2, "columns": ("a",)}, "need at least 2 columns, got 1"),
        ({"protects": "entry", "dependence": "curved"}, "adaptive stages"),
        ({"form": "synthetic", "dependence": "curved"}, 'needs form = "moments"'),
        ({"adaptive": False, "dependence": "curved"}, "adaptive stages"),
        ({"protects": "readings"}, "needs readings in"),
        ({"protects": "person", "max_rows": 2}, "needs id_column in"),
        ({"protects": "person", "id_column": "who"}, "needs max_rows in"),
        ({"protects": "person", "id_column": "a", "max_rows": 2}, "must not be released"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(release, message):
    with pytest.raises(PlanError, match=message):
        Plan.from_dict(plan_document(**release))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"transform": "log", "lower": 0.0}, "needs lower > 0|lower >= 0"),
        ({"transform": "sqrt", "lower": -0.5}, "needs lower >= 0, got -0.5"),
        ({"lower": 0.0, "upper": 1e-100}, "leave no usable range"),
        ({"kind": "integer", "noise": "discrete", "transform": "asinh"}, "no transform"),
        ({"kind": "integer", "lower": -0.5}, "must be whole"),
    ],
)
def test_a_column_that_cannot_be_released_is_refused(column, message):
    with pytest.raises(PlanError, match=message):
        Plan.from_dict(changed(("columns", 1), {**plan_document()["columns"][1], **column}))


@pytest.mark.parametrize("release", [{}, {"form": "table", "clip_radius": 1.0}])
def test_discrete_noise_needs_a_table_whose_rows_are_not_clipped(release):
    document = plan_document(form="table")
    document["columns"][0] |= {"kind": "integer", "noise": "discrete"}
    assert Plan.from_dict(document).columns[0].noise == "discrete"
    document["release"] = plan_document(**release)["release"]
    with pytest.raises(PlanError, match='noise = "discrete" needs form = "table" without clip_radius'):
        Plan.from_dict(document)


def test_the_widest_bounds_and_the_largest_radius_are_allowed():
    document = changed(("columns", 1), {"name": "b", "kind": "continuous", "lower": -1e100, "upper": 1e100})
    document["release"]["clip_radius"] = 3**0.5
    assert Plan.from_dict(document).clip_radius == 3**0.5


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
def test_rows_of_a_person_may_be_clipped_like_records(form):
    person = plan_document(form=form, protects="person", id_column="who", max_rows=2, clip_radius=1.0)
    assert Plan.from_dict(person).clip_radius == 1.0


@pytest.mark.parametrize(
    ("place", "where"), [((), "the plan"), (("budget",), "budget"), (("release",), "release"), (("columns", 1), "'b'")]
)
def test_a_key_that_no_plan_has_is_refused_wherever_it_stands(place, where):
    """A misspelt key must never be taken for the absence of the right one."""
    with pytest.raises(PlanError, match=f"{where}.* does not know 'nosie'"):
        Plan.from_dict(changed((*place, "nosie"), "discrete"))


def test_the_smallest_plan_is_a_plan():
    document = plan_document(protects="person", id_column="i", max_rows=1, columns=("a",))
    document["release"]["title"] = "T"
    assert Plan.from_dict(document).unit == Unit("person", max_rows=1)
    readings = plan_document(form="table", protects="readings", readings=1)
    assert Plan.from_dict(readings).unit == Unit("readings", readings=1)


@pytest.mark.parametrize("code", [0xD800, 0xDFFF])
@pytest.mark.parametrize("place", [("release", "title"), ("columns", 1, "name")])
def test_half_a_character_is_no_text(place, code):
    with pytest.raises(PlanError, match="must be Unicode text"):
        Plan.from_dict(changed(place, f"a{chr(code)}"))
    assert Plan.from_dict(changed(place, "a\ue000"))


def test_a_budget_in_mu_quotes_epsilon_at_one_in_a_million_unless_it_says_otherwise():
    document = changed(("budget",), {"mu": 0.5})
    assert Plan.from_dict(document).delta == 1e-6
    document["budget"]["delta"] = 1e-9
    assert Plan.from_dict(document).delta == 1e-9
