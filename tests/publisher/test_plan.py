"""Plans are complete or refused with a sentence that says what to do."""

import math
import pickle
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from tests.conftest import plan_document

import hazeglass as hg
from hazeglass.bundle.catalogue import json_pieces
from hazeglass.bundle.columns import CellNoise, Column
from hazeglass.bundle.manifest import Manifest, Part, Stage
from hazeglass.errors import BoundsMissingError, OutputError, PlanError, PrivacyRefusal
from hazeglass.guarantee.units import Unit
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.plan_columns import check_describable


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
        (("budget", "delta"), 0.99, r"budget\.delta must be at most 0\.001, got 0\.99"),
        (("budget", "delta"), None, "delta is missing"),
        (("release", "form"), "tabel", "release.form must be one of 'table'.*Did you mean 'table'"),
        (("release", "title"), None, "must have 'title'"),
        (("release", "fomr"), "table", "does not know 'fomr'. Did you mean 'form'"),
        (("release", "protects"), "row", "release.protects must be one of"),
        (("release", "adaptive"), "no", "must be of type boolean"),
        (("columns", 1, "kind"), "number", "column 'b': kind must be one of"),
        (("columns", 1, "kind"), "Intger", "got 'Intger'. Did you mean 'integer'"),
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
def test_a_missing_bound_is_a_refusal_with_the_status_of_missing_levels(missing):
    with pytest.raises(BoundsMissingError, match=f"column 'b' has no {missing} bound") as caught:
        Plan.from_dict(changed(("columns", 1, missing), None))
    assert caught.value.exit_status == 2


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


@pytest.mark.parametrize(
    "release", [{}, {"protects": "entry"}, {"protects": "readings", "readings": 4}, {"form": "synthetic"}]
)
def test_moments_fit_the_data_unless_something_speaks_for_one_stage(release):
    assert Plan.from_dict(plan_document(**release)).adaptive
    assert not Plan.from_dict(plan_document(**release, adaptive=False)).adaptive


@pytest.mark.parametrize("release", [{"form": "table"}, {"clip_radius": 0.5}, {"clip_radius": "private"}])
def test_a_table_and_a_radius_speak_for_one_stage(release):
    assert not Plan.from_dict(plan_document(**release)).adaptive


@pytest.mark.parametrize("scale", ["scores", "linear"])
def test_a_scale_survives_the_file_and_is_written_only_where_it_is_not_the_usual_one(tmp_path, scale):
    plan = Plan.from_dict(plan_document(scale=scale))
    plan.save(tmp_path / "plan.toml")
    assert Plan.load(tmp_path / "plan.toml") == plan
    assert ("scale" in plan.to_dict()["release"]) == (scale == "linear")
    assert Plan.from_dict(plan_document()).scale == "scores"


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
        ({"form": "table", "scale": "linear"}, 'scale = "linear" needs adaptive'),
        ({"adaptive": False, "scale": "linear"}, 'scale = "linear" needs adaptive'),
        ({"clip_radius": 0.5, "scale": "linear"}, 'scale = "linear" needs adaptive'),
        ({"scale": "public"}, "scale"),
        ({"adaptive": True, "clip_radius": 0.5}, "belongs to one-stage releases"),
        ({"dependence": "curved", "scale": "linear"}, 'scale = "scores"'),
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
    if form == "table":
        person["release"]["row_counts"] = "public"
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


ONE = hg.Column("a", "continuous", lower=-1, upper=1)
PERSON = {"protects": "person", "id_column": "who", "max_rows": 2}


def written(**changes):
    """A plan from plain arguments."""
    return hg.Plan(**{"title": "T", "form": "moments", "columns": [ONE], "epsilon": 1.0, "delta": 1e-6, **changes})


def test_plain_arguments_and_a_file_make_the_same_plan(tmp_path, plan_text):
    (tmp_path / "plan.toml").write_text(plan_text)
    columns = [hg.Column(name, "continuous", lower=-4, upper=4) for name in "abc"]
    plan = hg.Plan(title="Test", form="moments", protects="record", epsilon=1.0, delta=1e-6, columns=columns)
    assert plan == Plan.load(tmp_path / "plan.toml")
    assert hash(plan) == hash(Plan.load(tmp_path / "plan.toml"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protects": "person"}, "needs id_column in"),
        ({"protects": "column"}, 'needs form = "table"'),
        ({"columns": ()}, "columns must be 1 to 100000 entries long, got 0"),
        ({"columns": [{"name": "a"}]}, "list of hazeglass.Column, got an entry of type dict"),
        ({"columns": None}, "list of hazeglass.Column"),
        ({"columns": "abc"}, "list of hazeglass.Column"),
        ({"columns": [ONE, ONE]}, "names 'a' twice"),
        ({"title": ""}, "release.title must be at least 1 characters"),
        ({"title": "\ud800"}, "must be Unicode text"),
        ({"epsilon": 0}, "budget.epsilon must be above 0"),
        ({"epsilon": True}, "budget.epsilon must be of type number"),
        ({"mu": 0.3}, "either mu"),
        ({"delta": None}, "delta is missing"),
        ({"text": {"separator": ";"}}, "must be a hazeglass.TextFormat"),
        ({"adaptive": 1}, "adaptive must be of type boolean"),
        ({"form": "table", "adaptive": True}, "adaptive = true needs form"),
        ({"round_integers": 0}, "must be of type boolean"),
        ({"dependence": ["linear"]}, "release.dependence must be one of"),
    ],
)
def test_no_way_to_a_plan_goes_around_the_checks(change, message):
    with pytest.raises(PlanError, match=message):
        written(**change)
    with pytest.raises(PlanError, match=message):
        replace(written(), **change)
    with pytest.raises(PlanError, match=message):
        replace(pickle.loads(pickle.dumps(written())), **change)


def test_a_plan_of_records_cannot_be_turned_into_one_of_persons_without_ids():
    with pytest.raises(PlanError, match="needs id_column"):
        replace(written(), protects="person")
    with pytest.raises(TypeError, match="unit"):
        replace(written(), unit=Unit("person", max_rows=3))
    with pytest.raises(TypeError, match="guarantee"):
        replace(written(), guarantee=hg.GaussianDP(9.0))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"epsilon": None, "delta": None, "mu": 0.5},
        {"adaptive": False},
        {"clip_radius": 0.5},
        {"clip_radius": "private"},
        {"form": "synthetic", "round_integers": True},
        {"dependence": "curved"},
        {"form": "table", "order": "kept"},
        {"form": "table", "order": "shuffled", "protects": "readings", "readings": 7},
        {**PERSON, "persons": 12},
        {**PERSON, "form": "table", "row_counts": "public"},
        {"text": hg.TextFormat(";", ",", "latin-1", missing=["", "?"], header=False, names=["x", "a"], trim=False)},
        {"columns": [hg.Column("k", "integer", 0, 9, noise="discrete", reason="a\ndie")], "form": "table"},
        {"columns": [hg.Column("raf", "continuous", 1, 1e4, "log")]},
    ],
)
def test_a_plan_written_to_a_file_is_the_same_when_it_is_read(tmp_path, change):
    plan = written(**change)
    plan.save(tmp_path / "plan.toml")
    assert Plan.load(tmp_path / "plan.toml") == plan == Plan.from_dict(plan.to_dict())
    assert replace(plan) == plan == pickle.loads(pickle.dumps(plan))
    with pytest.raises(OutputError, match="already exists"):
        plan.save(tmp_path / "plan.toml")


def test_what_a_plan_leaves_out_is_filled_in():
    assert written().adaptive is True
    assert written(clip_radius=0.5).adaptive is False
    assert written(protects="record", form="table").adaptive is False
    in_mu = written(epsilon=None, delta=None, mu=0.5)
    assert (in_mu.delta, in_mu.epsilon) == (1e-6, hg.GaussianDP(0.5).epsilon(1e-6))
    assert (written().epsilon, written().mu) == (1.0, None)
    assert written().guarantee == hg.GaussianDP.from_budget(1.0, 1e-6)


def test_numbers_of_other_libraries_become_plain_ones():
    plan = written(**{**PERSON, "max_rows": np.int64(2)}, epsilon=np.float32(1), persons=np.int32(50), clip_radius=1)
    assert [type(value) for value in (plan.max_rows, plan.persons, plan.epsilon, plan.clip_radius)] == [
        int,
        int,
        float,
        float,
    ]


@pytest.mark.parametrize("kind", [Decimal, Fraction, np.float64, np.longdouble])
def test_a_number_of_any_kind_is_the_float_it_means(kind, table, tmp_path):
    """A radius that is compared and then ignored would clip nothing, under a promise that says it does."""
    named = {"columns": [hg.Column(name, "continuous", -4, 4) for name in "abc"], "form": "table"}
    floats = {"epsilon": 1.5, "delta": 2.0**-20, "clip_radius": 0.5}
    plan = written(**named, **{key: kind(value) for key, value in floats.items()})
    assert plan == written(**named, **floats)
    assert {type(getattr(plan, key)) for key in floats} == {float}
    document = plan.to_dict()
    for section in (document["budget"], document["release"], *document["columns"]):
        section.update({key: kind(value) for key, value in section.items() if type(value) is float})
    assert Plan.from_dict(document) == plan
    assert hg.publish(table, plan, tmp_path / "r").manifest.clip_radius == 0.5
    in_mu = {"epsilon": None, "delta": kind(2.0**-20), "mu": kind(0.5)}
    assert written(**in_mu) == written(epsilon=None, delta=2.0**-20, mu=0.5)
    assert written(**{**PERSON, "max_rows": kind(2)}).max_rows == 2


@pytest.mark.parametrize("key", ["epsilon", "delta", "mu", "clip_radius", "readings", "max_rows", "persons"])
@pytest.mark.parametrize("value", [Decimal("nan"), Decimal("snan"), math.nan, np.float32("nan"), 1j, np.complex64(1)])
def test_what_is_no_number_is_refused_in_one_sentence(key, value):
    with pytest.raises(PlanError, match=f"{key} must be a number, got"):
        written(**{key: value})
    if type(value) is not float:
        section = "budget" if key in ("epsilon", "delta", "mu") else "release"
        with pytest.raises(PlanError, match=f"{key} must be a number, got"):
            Plan.from_dict(changed((section, key), value))


@pytest.mark.parametrize("huge", [Decimal("1e400"), Fraction(10**400), 10**400])
def test_a_number_beyond_floats_is_refused_as_infinity_is(huge):
    with pytest.raises(PlanError, match="epsilon must be at most 1000000"):
        written(epsilon=huge)


def test_a_table_of_persons_is_refused_unless_the_number_of_their_rows_is_public():
    with pytest.raises(PrivacyRefusal, match="how many rows each person has") as caught:
        written(**PERSON, form="table")
    assert caught.value.exit_status == 3
    assert written(**PERSON, form="table", row_counts="public").unit == Unit("person", max_rows=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({**PERSON, "row_counts": "public"}, "row_counts has no meaning with form = 'moments'"),
        ({"form": "table", "row_counts": "public"}, "row_counts has no meaning with protects = 'record'"),
        ({**PERSON, "form": "table", "row_counts": "secret"}, "release.row_counts must be one of 'public'"),
        ({"persons": 5}, "persons has no meaning with protects = 'record'"),
        ({**PERSON, "persons": 1}, "release.persons must be at least 2, got 1"),
        ({"order": "kept"}, "order has no meaning with form = 'moments'"),
        ({"form": "table", "order": "sorted"}, "release.order must be one of 'shuffled', 'kept'"),
    ],
)
def test_keys_about_persons_and_order_stand_only_where_they_mean_something(change, message):
    with pytest.raises(PlanError, match=message):
        written(**change)


def test_only_tables_are_shuffled_and_not_those_that_keep_their_order():
    assert written(form="table").shuffled
    assert not written(form="table", order="kept").shuffled
    assert not written().shuffled


def test_columns_of_a_release_make_a_new_plan():
    noisy = replace(ONE, cell_noise=CellNoise("rounded-gaussian", 1.0, 1.0, 0.0, 1.0))
    assert written(columns=[noisy]) == written()


def test_columns_of_a_file_without_a_header_are_among_its_names():
    unnamed = hg.TextFormat(header=False, names=["x", "who"])
    with pytest.raises(PlanError, match="column 'a', which is not among text"):
        written(text=unnamed)
    with pytest.raises(PlanError, match="column 'who', which is not among text"):
        written(**PERSON, text=hg.TextFormat(header=False, names=["a"]))


@pytest.mark.parametrize("budget", [{"mu": 1e-21}, {"epsilon": 1e-30, "delta": 1e-30}, {"mu": 5e-324}])
def test_a_budget_that_leaves_nothing_but_noise_is_refused(budget):
    with pytest.raises(PlanError, match="noise and nothing else"):
        written(**{"epsilon": None, "delta": None, **budget})


@pytest.mark.parametrize("radius", [1e-20, 1e-7, 1.1])
def test_a_radius_that_keeps_nothing_or_clips_nothing_is_refused(radius):
    with pytest.raises(PlanError, match="clip_radius must be at"):
        written(clip_radius=radius)
    assert written(clip_radius=1e-6).clip_radius == 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", "continuous", 0, 1), "name must be text of 1 to 1000 characters"),
        ((5, "continuous", 0, 1), "name must be text"),
        (("a\udfff", "continuous", 0, 1), "must be Unicode text"),
        (
            ("a", "number", 0, 1),
            "column 'a': kind must be one of 'continuous', 'integer', 'ordinal', 'categorical', 'binary', got",
        ),
        (("a", "continuous", "0", 1), "column 'a': lower must be of type number, got '0'"),
        (("a", "continuous", False, 1), "column 'a': lower must be of type number, got False"),
        (("a", "continuous", 1, 0), "lower must be below upper"),
        (("a", "continuous", 0, float("nan")), "both finite"),
        (("a", "continuous", 0, 1e308), "within 1e\\+100 of 0"),
        (("a", "continuous", 0, 10**400), "within 1e\\+100 of 0"),
        (("a", "continuous", 0, 1, "cube"), "transform must be one of 'log', 'log1p', 'sqrt', 'asinh'"),
        (("a", "continuous", 0, 1, ["log"]), "transform must be one of"),
        (("a", "continuous", 0, 1, "log"), "needs lower > 0"),
        (("a", "integer", 0, 1.5), "must be whole"),
        (("a", "continuous", 0, 1, None, "loud"), "noise must be one of 'rounded', 'discrete'"),
        (("a", "continuous", 0, 1, None, "discrete"), 'needs kind = "integer"'),
        (("a", "continuous", 0, 1, None, "rounded", None), "reason must be text"),
    ],
)
def test_a_column_that_cannot_be_is_refused_where_it_is_made(arguments, message):
    with pytest.raises(PlanError, match=message):
        hg.Column(*arguments)


def test_a_column_cannot_be_replaced_by_an_impossible_one():
    with pytest.raises(PlanError, match="lower must be below upper"):
        replace(ONE, lower=5)
    with pytest.raises(BoundsMissingError, match="column 'a' has no lower and no upper bound"):
        hg.Column("a", "continuous")
    assert type(hg.Column("a", "integer", np.int8(0), 5).lower) is float


def test_integers_to_be_rounded_must_fit_64_bits(make_plan):
    column = {"name": "k", "kind": "integer", "lower": 0, "upper": 2**60}
    with pytest.raises(PlanError, match=r"within 2\^50"):
        make_plan(form="synthetic", round_integers=True, columns_as=[column])


def test_a_plan_whose_release_no_reader_would_take_is_refused():
    """8,500 reasons of 2,000 letters of four bytes are more than the 64 MiB that a reader looks at."""
    columns = tuple(Column(f"c{k}", "continuous", 0.0, 1.0, reason="\U0001f512" * 2000) for k in range(8500))
    with pytest.raises(PlanError, match=r"at most 67,108,864 bytes .* Shorten the reasons"):
        Plan(title="t", form="moments", columns=columns, epsilon=1.0, delta=1e-6)
    Plan(title="t", form="moments", columns=columns[:7800], epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
def test_no_release_is_larger_than_its_plan_was_taken_for(monkeypatch, form):
    """Of numbers that take the most digits."""
    long = 1.2345678901234567e-100
    column = Column("\x01\U0001f512", "continuous", -2 * long, 10 * long, "asinh", reason='"\\\n')
    plan = Plan(
        title="t" * 500, form=form, columns=[replace(column, name=f"{column.name}{k}") for k in range(1000)], mu=1
    )
    noise = CellNoise("discrete-gaussian", long, long, -long, long) if form == "table" else None
    stage = Stage(1.0, 1.0, True, 1.0, 1.0, 1, "rounded-gaussian", (-long,) * 1000, (-long,) * 1000)
    manifest = Manifest(
        title=plan.title,
        form=form,
        unit=plan.unit,
        n=10,
        columns=tuple(replace(column, cell_noise=noise) for column in plan.columns),
        mu=1.0,
        epsilon=long,
        delta=long,
        delta_slack=long,
        epsilon_delta_curve=((long, long),) * 1000,
        simulation=False,
        stages=() if form == "table" else (stage, stage),
        created="2026-01-01T00:00:00Z",
        versions={},
        files=(Part("data/part-100000.parquet", "0" * 64, 10**9),) * 1000,
    )
    size = len("".join(json_pieces(manifest.to_json())).encode())
    monkeypatch.setattr("hazeglass.publisher.plan_columns.LARGEST_JSON", size - 1)
    with pytest.raises(PlanError, match=r"release\.json"):
        check_describable(plan, 1000)
    monkeypatch.setattr("hazeglass.publisher.plan_columns.LARGEST_JSON", int(1.3 * size) + (1 << 17))
    check_describable(plan, 1000)


def test_a_column_made_of_another_cannot_bear_the_name_of_the_id_column():
    columns = [hg.Column("a", "continuous", 0, 1, source="z"), hg.Column("b", "continuous", 0, 1)]
    with pytest.raises(PlanError, match="id column 'a' must not be released"):
        hg.Plan(title="t", form="moments", columns=columns, protects="person", id_column="a", max_rows=2, mu=1.0)


def test_a_table_of_persons_never_keeps_its_order():
    with pytest.raises(PrivacyRefusal, match="must not show where rows stand"):
        written(**PERSON, form="table", row_counts="public", order="kept")
