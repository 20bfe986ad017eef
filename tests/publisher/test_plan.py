"""Plans are complete or refused with a sentence that says what to do."""

import pytest

from hazeglass.errors import BoundsMissingError, PlanError
from hazeglass.publisher.plan import Plan
from tests.conftest import plan_document


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
