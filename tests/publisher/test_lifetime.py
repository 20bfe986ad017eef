"""Running releases of persons: whose rows are used, what is drawn, what the ledger lets in, and what readers check."""

import datetime as dt
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import hazeglass as hg
from hazeglass.analyst.several import Several
from hazeglass.bundle.moments import running_rows
from hazeglass.bundle.promise import check_manifest
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.errors import BundleError, DataError, InputError, PlanError, PrivacyRefusal
from hazeglass.guarantee.budget import running_count_weight
from hazeglass.publisher.account import charge_of
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.moments import add_noise, draw_sums, plain_stage, running_stage
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.sums import exact_sums

TRUST = os.environ.get("HAZEGLASS_TRUST") == "all"
SERIAL = get_engine("serial")
PERSONS, MOST = 60, 4


def plan_of(periods=3, period="1", mu=1.0, **release):
    """Three columns within 4 of 0, about persons of at most four rows."""
    usual = {"form": "moments", "protects": "person", "id_column": "id", "max_rows": MOST, "persons": PERSONS}
    return hg.Plan.from_dict(
        {
            "release": {"title": "Test", **usual, "period_column": "month", "period": period, **release},
            "lifetime": {"periods": periods},
            "budget": {"mu": mu},
            "columns": [{"name": name, "kind": "continuous", "lower": -4.0, "upper": 4.0} for name in "abc"],
        }
    )


def people(persons=PERSONS, rows=400, periods=3, seed=0):
    """A chain a - b - c, every row of some person in some month."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(rows)
    b = 0.8 * a + 0.6 * rng.standard_normal(rows)
    c = 0.8 * b + 0.6 * rng.standard_normal(rows)
    months = rng.integers(1, periods + 1, rows)
    return pa.table({"a": a, "b": b, "c": c, "id": rng.integers(0, persons, rows), "month": months})


def used(table, step, most=MOST):
    """Row numbers by the rule, one row at a time."""
    found, counts = [], {}
    months, ids = table["month"].to_pylist(), table["id"].to_pylist()
    for row in sorted(range(len(ids)), key=lambda k: (months[k], k)):
        if months[row] <= step and counts.get(ids[row], 0) < most:
            counts[ids[row]] = counts.get(ids[row], 0) + 1
            found.append(row)
    return sorted(found)


def rows_of(table, plan):
    return Rows(plan, open_table(table))


def drawn(table, plan):
    """What this period's draw is about, without noise."""
    stage = running_stage(plan, plan.persons, plan.lifetime)
    return stage, draw_sums(rows_of(table, plan), stage, plan.lifetime, SERIAL)


@pytest.fixture
def ledger(tmp_path):
    plan = plan_of()
    return Ledger.create(tmp_path / "x.ledger", "people", mu_total=1.0, unit=plan.unit, id_column="id").path


# ------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_each_person_the_first_rows_by_period_are_used_and_stay_used(seed):
    table, before = people(seed=seed), set()
    for step in (1, 2, 3):
        now = used(table, step)
        rows = rows_of(table, plan_of(period=step))
        cells = np.concatenate([np.column_stack(block) for block in rows.blocks()])
        assert np.array_equal(cells[:, 0], table["a"].to_numpy()[now])
        assert rows.n == len(now)
        of_each = [own.n for own in rows.of_periods()]
        assert of_each == np.bincount(table["month"].to_numpy()[now], minlength=step + 1)[1:].tolist()
        assert before <= set(now)
        before = set(now)


def test_rows_without_a_person_or_a_listed_period_are_left_out_and_the_publisher_is_told(tmp_path, capsys):
    table = people()
    more = pa.table({"a": [1.0] * 3, "b": [1.0] * 3, "c": [1.0] * 3, "id": [None, 1, 2], "month": [1, 9, None]})
    both = pa.concat_tables([table, more.cast(table.schema)])
    assert rows_of(both, plan_of(period=3)).n == rows_of(table, plan_of(period=3)).n
    hg.publish(both, plan_of(), tmp_path / "r", simulate_seed=1, engine="serial")
    assert "or of no period that [lifetime] lists, which are left out: 3." in capsys.readouterr().err


def test_more_ids_than_the_public_number_of_persons_are_refused():
    with pytest.raises(DataError, match="more ids"):
        rows_of(people(), plan_of(period=3, persons=10))


# ------------------------------------------------------------------------------------------------------ draws


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_draw_is_about_the_sums_of_every_period_times_their_coefficients(step):
    table, plan = people(), plan_of(period=step)
    stage, (first, second, count) = drawn(table, plan)
    kept = table.take(used(table, step))
    expected = [np.zeros_like(first), np.zeros_like(second), 0]
    for period in range(1, step + 1):
        alone = kept.filter(pc.equal(kept["month"], period)).drop(["month"])
        whole = replace(plan, periods=None, period_column=None, period=None)  # the same rows, all of them used
        sums = exact_sums(rows_of(alone, whole), stage, Encoder("public", "columns"), SERIAL)
        for k, one in enumerate(sums):
            expected[k] = expected[k] + plan.lifetime.coefficients[step - period] * one
    assert np.array_equal(first, expected[0])
    assert np.array_equal(second, expected[1])
    assert count == expected[2]


def test_rows_of_later_periods_change_no_byte_of_a_release_nor_does_the_way_in(tmp_path):
    table, plan = people(), plan_of(period=1)
    others = table.set_column(1, "b", pc.if_else(pc.equal(table["month"], 1), table["b"], -3.0))
    pa.csv.write_csv(table, tmp_path / "x.csv")
    found = set()
    for k, data in enumerate((table, others, table.to_pandas(), tmp_path / "x.csv")):
        made = hg.publish(data, plan, tmp_path / str(k), simulate_seed=5, engine="serial" if k else "threads")
        found.add(made.manifest.files)
    assert len(found) == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_person_replaced_moves_all_draws_together_by_no_more_than_mu(seed):
    """On the publisher's own integers: any rows, any periods, and the pair that is farthest."""
    rng = np.random.default_rng(seed)
    table = people(rows=200, seed=seed)
    others = table.filter(pc.not_equal(table["id"], 0))

    def person(cells, months):
        named = {name: np.asarray(cells, dtype=float)[:, k] for k, name in enumerate("abc")}
        return pa.table({**named, "id": [0] * len(months), "month": months}).cast(table.schema)

    def any_person():
        count = rng.integers(1, 7)
        return person(rng.choice([-9.0, 1.0, 9.0], (count, 3)), rng.integers(1, 4, count))

    most, mu = 0.0, 0.7
    far = [np.tile(cells, (MOST, 1)) for cells in ([9.0, 9.0, 9.0], [9.0, -9.0, 0.0])]
    pairs = [(any_person(), any_person()) for _ in range(3)] + [(any_person(), table.slice(0, 0))]
    pairs += [(person(far[0], [1] * MOST), person(far[1], [late] * MOST)) for late in (1, 2, 3)]
    for pair in pairs:
        squares = 0.0
        for step in (1, 2, 3):
            (stage, here), (_, there) = (
                drawn(pa.concat_tables([one, others]), plan_of(period=step, mu=mu)) for one in pair
            )
            first, second, count = (np.asarray(a - b, dtype=float) for a, b in zip(here, there, strict=True))
            scale, upper = 64 * stage.tau * stage.steps, np.triu_indices(3, 1)
            moved = [
                stage.mean_weight * first / scale,
                second[upper] / (scale * stage.steps),
                np.diag(second) / (scale * stage.steps * 2**0.5),
                np.atleast_1d(stage.count_weight * count / (64 * stage.tau)),
            ]
            squares += float(sum(one @ one for one in moved))
        assert squares**0.5 <= mu
        most = max(most, squares**0.5)
    assert most > 0.9 * mu


def test_the_noise_of_the_twelfth_running_sum_is_less_than_twice_that_of_one_release():
    """Drawn as the publisher draws, at a thousand lifetimes; and what a release states of it."""
    plan, runs = plan_of(12, period=12), 1000
    lifetime = plan.lifetime
    draw, one = running_stage(plan, PERSONS, lifetime), plain_stage(plan, PERSONS, 1.0)
    zeros = np.zeros((12 * runs, 3), dtype=np.int64), np.zeros((12 * runs, 3, 3), dtype=np.int64)
    noisy = add_noise(*zeros, 0, draw, SeededBits(11), lifetime.fine)
    weights = np.array(lifetime.weights)
    running = np.tensordot(weights, noisy.second.reshape(12, runs, 3, 3), 1)
    off, on = running[:, *np.triu_indices(3, 1)], running[:, range(3), range(3)]
    ratio = off.std() / one.tau
    assert ratio == pytest.approx(1.88, rel=0.05)
    assert ratio < 2
    assert on.std() == pytest.approx(2**0.5 * off.std(), rel=0.06)
    counts = np.tensordot(weights, noisy.rows.reshape(12, runs), 1) / lifetime.fine
    assert counts.std() == pytest.approx(draw.tau * lifetime.error / running_count_weight(draw.radius), rel=0.08)


# ----------------------------------------------------------------------------------------------------- releases


def publish_all(table, folder, steps, mu=1.0, ledger=None, **more):
    """One release after the other."""
    made, usual = [], {"engine": "serial", "ledger": ledger, **more}
    for step in steps:
        after = None if step == 1 else folder / str(step - 1)
        plan = plan_of(period=step, mu=mu)
        made.append(hg.publish(table, plan, folder / str(step), after=after, **usual))
    return made


def test_with_next_to_no_noise_running_moments_are_those_of_all_rows_so_far(tmp_path):
    table = people(rows=1000)
    for step, release in enumerate(publish_all(table, tmp_path, (1, 2, 3), mu=900.0, simulate_seed=3), start=1):
        kept = np.column_stack([table[name].to_numpy()[used(table, step)] / 4 for name in "abc"])
        kept *= np.minimum(1, 1 / np.linalg.norm(kept, axis=1, keepdims=True))
        (found,) = release.moments()
        assert release.n == pytest.approx(len(kept), abs=3)
        assert found.second * release.n == pytest.approx(kept.T @ kept, abs=0.5)
        assert found.mean * release.n == pytest.approx(kept.sum(axis=0), abs=1.5)
        assert len(release.draws()) == step


def test_later_releases_repeat_the_draws_of_those_before_and_state_the_same_promise(tmp_path, ledger):
    first, second, third = publish_all(people(), tmp_path, (1, 2, 3), ledger=ledger)
    for earlier, later in ((first, second), (second, third)):
        assert later.manifest.lifetime.counts[:-1] == earlier.manifest.lifetime.counts
        for one, other in zip(earlier.draws(), later.draws(), strict=False):
            assert np.array_equal(one.second, other.second)
            assert np.array_equal(one.mean, other.mean)
        assert later.manifest.mu == earlier.manifest.mu == 1.0
    summary = Ledger.open(ledger).summary()
    assert (summary.mu_spent, summary.mu_remaining, summary.releases) == (1.0, 0.0, 3)
    assert Ledger.open(ledger).faults({name: hg.load(tmp_path / name).manifest for name in "123"}) == []
    page = (tmp_path / "2" / "statement.html").read_text()
    assert "running release 2 of 3" in page
    assert "no more than 4 in all periods together" in page


def test_running_releases_of_the_same_persons_are_not_pooled(tmp_path):
    publish_all(people(), tmp_path, (1, 2), simulate_seed=1)
    hg.publish(people(seed=9), plan_of(), tmp_path / "others", simulate_seed=2, engine="serial")
    for pair in (("1", "2"), ("2", "1")):
        with pytest.raises(InputError, match="holds the rows of both"):
            Several.of([str(tmp_path / name) for name in pair])
    Several.of([str(tmp_path / name) for name in ("1", "others")])


def test_the_ledger_lets_every_period_in_once_and_in_order(tmp_path, ledger):
    table = people()
    publish_all(table, tmp_path, (1, 2), ledger=ledger)

    def again(plan, after, message, error=PrivacyRefusal):
        before = None if after is None else tmp_path / after
        with pytest.raises(error, match=message):
            hg.publish(table, plan, tmp_path / "again", ledger=ledger, after=before, engine="serial")
        assert not (tmp_path / "again").exists()

    again(plan_of(period=1), None, "drawn before")
    again(plan_of(period=2), "1", "drawn before")
    again(replace(plan_of(period=2), title="Another"), "1", "drawn before")
    again(plan_of(period=3), None, "name that release with after", InputError)
    again(plan_of(period=3), "1", "must be the running release of period '2'", InputError)
    again(plan_of(period=3, persons=61), "2", "made as the one before it", InputError)
    other = hg.Plan.from_dict({**plan_of(period=3).to_dict(), "text": {"decimal": ",", "separator": ";"}})
    again(other, "2", "ids are read in another way")
    hg.publish(table, plan_of(mu=0.5), tmp_path / "s1", simulate_seed=1, engine="serial")
    again(plan_of(period=2, mu=0.5), "s1", "made as the one before it", InputError)
    with pytest.raises(PrivacyRefusal, match="a ledger sees to"):
        hg.publish(table, plan_of(), tmp_path / "again")
    with pytest.raises(InputError, match="Leave it out"):
        hg.publish(
            table, replace(plan_of(), periods=None, period_column=None, period=None), tmp_path / "again", after="x"
        )


def test_a_draw_that_was_given_back_may_be_made_and_one_that_broke_off_may_not(tmp_path, ledger):
    book, plan = Ledger.open(ledger), plan_of()
    first = book.charge(charge_of(plan))
    book.refund(first.digest)
    second = book.charge(charge_of(plan))
    book.begin_drawing(second.digest)
    with pytest.raises(PrivacyRefusal, match="drawn before"):
        book.charge(charge_of(plan))
    assert [entry.charge for entry in Ledger.open(ledger).history()] == [charge_of(plan)] * 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"protects": "record", "id_column": None, "max_rows": None, "persons": None}, "is for releases that protect"),
        ({"period": None}, "period is missing"),
        ({"period_column": "a"}, "must not be released"),
        ({"period_column": "id"}, "must not be released"),
        ({"period": 4}, "not among the periods"),
        ({"periods": ["a", "a"]}, "each once"),
        ({"periods": ["1", "01"]}, "each once"),
        ({"periods": 1}, "at least 2"),
        ({"periods": "12"}, "lifetime.periods must be"),
        ({"persons": None}, "needs persons"),
        ({"adaptive": True}, "one stage on the public scale"),
        ({"clip_radius": "private"}, "one stage on the public scale"),
        ({"form": "synthetic"}, 'needs form = "moments"'),
    ],
)
def test_a_plan_that_is_none_of_a_lifetime_is_refused_in_one_sentence(more, message):
    document = plan_of().to_dict()
    given = {key: value for key, value in {**document["release"], **more}.items() if value is not None}
    periods = given.pop("periods", 3)
    with pytest.raises(PlanError, match=message):
        hg.Plan.from_dict({**document, "release": given, "lifetime": {"periods": periods}})


def test_a_plan_of_a_lifetime_is_written_and_read_back(tmp_path):
    plan = plan_of(periods=["2025-01", "2025-02"], period="2025-02")
    assert plan.lifetime.step == 2
    assert not plan.adaptive
    plan.save(tmp_path / "plan.toml")
    assert hg.Plan.load(tmp_path / "plan.toml") == plan


def test_a_preview_shows_the_noise_of_the_period_it_is_for():
    first, last = (plan_of(12, period=period).preview(5000) for period in (1, 12))
    ratio = last.chosen.privacy_error / first.chosen.privacy_error
    assert ratio == pytest.approx(plan_of(12, period=12).lifetime.error)
    assert (first.passes, last.passes) == ((1, 1), (12, 12))
    assert [one.form for one in last.forms] == ["moments", "table", "synthetic"]
    assert last.forms[0] == last.chosen


def test_a_forged_lifetime_is_refused(tmp_path):
    made = publish_all(people(), tmp_path, (1, 2), simulate_seed=1)[-1].manifest
    sums = {part.path: part.sha256 for part in made.files} | dict.fromkeys(
        ("release.json", "statement.html", "datapackage.json", "croissant.json"), ""
    )
    check_manifest(made, sums)
    stage = made.stages[0]
    quieter = replace(stage, tau=stage.tau * 0.9)
    forgeries = [
        replace(made, stages=(quieter,)),
        replace(made, stages=(replace(quieter, mu=stage.mu / 0.9),)),
        replace(made, lifetime=None),
        replace(made, stages=(replace(stage, rows=stage.rows + 1),), n=made.n + 1),
        replace(made, lifetime=replace(made.lifetime, counts=())),
        replace(made, lifetime=replace(made.lifetime, column="a")),
        replace(made, lifetime=replace(made.lifetime, periods=tuple("1234"), coefficients=())),
        replace(made, stages=(replace(stage, count_weight=0.3 * stage.count_weight),)),
        replace(made, stages=(replace(stage, count_weight=0.0),)),
    ]
    for forged in forgeries:
        with pytest.raises(BundleError):
            check_manifest(forged, sums)
    for count in (10**15, -(10**15)):
        lifetime = replace(made.lifetime, counts=(count, made.lifetime.counts[1]))
        rows = running_rows(lifetime, PERSONS * MOST)
        with pytest.raises(BundleError, match="no noise reaches"):
            check_manifest(replace(made, lifetime=lifetime, stages=(replace(stage, rows=rows),), n=rows), sums)
    document = made.to_json()
    document["lifetime"]["coefficients"][1] = 1
    with pytest.raises(BundleError, match="follow from its number of periods"):
        type(made).from_json(document)


# ------------------------------------------------------------------------------------------- month by month, in earnest


def command(folder, *arguments):
    """One process of hazeglass: its exit status, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "hazeglass", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_month_by_month_in_processes_of_their_own_the_ledger_lets_each_in_once_and_every_month_has_a_graph(tmp_path):
    """Three months, or in `make trust` twelve: one budget of epsilon 2, one graph a month."""
    months = 12 if TRUST else 3
    names = [f"2025-{month:02}" for month in range(1, months + 1)]
    table = people(persons=6000, rows=20_000, periods=months, seed=4)
    table = table.set_column(4, "month", pa.array([names[k - 1] for k in table["month"].to_pylist()]))
    pa.csv.write_csv(table, tmp_path / "visits.csv")
    plan = plan_of(names, names[0], persons=6000, clip_radius=1.4)
    document = {**plan.to_dict(), "budget": {"epsilon": 2.0, "delta": 1e-6}}
    for name in names:
        document["release"] |= {"title": name, "period": name}
        hg.Plan.from_dict(document).save(tmp_path / f"{name}.toml")
    Ledger.create(tmp_path / "l", "visits", epsilon=2.0, delta=1e-6, unit=plan.unit, id_column="id")

    def publish(name, out, before):
        after = ("--after", before) if before else ()
        return command(
            tmp_path, "publish", "visits.csv", "--plan", f"{name}.toml", "--out", out, "--ledger", "l", *after
        )

    for before, name in zip([None, *names], names, strict=False):
        assert publish(name, name, before)[0] == 0
    status, said = publish(names[-1], "again", names[-2])
    assert status == 3
    assert "drawn before" in said
    mu = hg.Plan.from_dict(document).guarantee.mu
    assert Ledger.open(tmp_path / "l").summary().mu_spent == pytest.approx(mu)
    one = plain_stage(plan, 6000, mu)
    for name in names:
        release = hg.load(tmp_path / name)
        assert release.manifest.stages[0].tau < 2 * one.tau
        graph = hg.recover(release)
        assert graph.fit["n"] == release.n
        if name == names[-1]:
            found = {(row["source"], row["target"]) for row in graph.edges.to_pylist() if row["selected"]}
            assert found >= {("a", "b"), ("b", "c")}


@pytest.mark.parametrize("cell", [None, 7, 1.5, dt.date(2024, 1, 1), True, ["1"], "nine"], ids=str)
def test_no_cell_decides_whether_periods_can_be_read(tmp_path, cell):
    months = [str(month) for month in people()["month"].to_pylist()]
    frame = people().to_pandas().assign(month=pd.Series([cell, *months[1:]], dtype=object))
    assert hg.publish(frame, plan_of(), tmp_path / "out", simulate_seed=1).manifest.form == "moments"


def test_whole_periods_are_read_where_a_missing_one_made_floats_of_them(tmp_path):
    table, plan = people(), plan_of()
    gap = pc.if_else(pa.array([True] + [False] * (len(table) - 1)), None, table["month"])
    frame = table.set_column(table.column_names.index("month"), "month", gap).to_pandas()
    assert frame["month"].dtype == float
    assert rows_of(frame, plan).n == rows_of(table.slice(1), plan).n > 0
    with pytest.raises(DataError, match="is declared as date"):
        rows_of(frame.assign(month=pd.to_datetime("2024-01-01")), plan)


def test_a_period_column_that_holds_nothing_is_read_as_one_with_a_period(tmp_path):
    nothing = people().drop_columns("month").append_column("month", pa.nulls(400))
    assert hg.publish(nothing, plan_of(), tmp_path / "none", simulate_seed=1).manifest.form == "moments"
