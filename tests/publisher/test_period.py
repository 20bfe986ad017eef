"""The rows of one public period: which they are, what the release says, and what the ledger charges."""

import multiprocessing
import os
import warnings
from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.errors import BudgetExceededError, BundleError, DataError, InputError, PlanError
from hazeglass.guarantee.budget import Charge, spent
from hazeglass.guarantee.units import Period, Unit
from hazeglass.publisher.account import charge_of
from hazeglass.publisher.ledger import Ledger

MONTHS = [f"2025-{month:02}" for month in range(1, 13)]


@pytest.fixture
def year():
    """60 rows in each of twelve months, and some without one."""
    rng = np.random.default_rng(3)
    months = [*np.repeat(MONTHS, 60), None, "", "none"]
    order = rng.permutation(len(months))
    cells = rng.standard_normal((len(months), 2))
    return pa.table({"a": cells[:, 0], "b": cells[:, 1], "month": [months[k] for k in order]})


def in_march(make_plan, **more):
    return make_plan(columns=("a", "b"), **{"period_column": "month", "period": "2025-03", **more})


@pytest.mark.parametrize("cell", [pd.Timestamp("2025-04-01"), None, "unknown"], ids=str)
def test_of_what_type_categories_are_follows_from_cells_and_refuses_nothing(make_plan, tmp_path, cell):
    """One word among dates makes objects of pandas' categories; without it they are declared as dates."""
    dates = [pd.Timestamp("2025-03-01")] * 60 + [cell]
    frame = pd.DataFrame({"a": 1.0, "b": 2.0, "month": pd.Series(dates, dtype=object)})
    plan = in_march(make_plan, period="2025-03-01")
    for k, months in enumerate((frame["month"], frame["month"].astype("category"))):
        release = hg.publish(frame.assign(month=months), plan, tmp_path / str(k), simulate_seed=1, engine="serial")
        assert release.n == 60


@pytest.mark.parametrize("form", ["moments", "synthetic", "table"])
def test_a_release_holds_the_rows_of_its_period_alone_and_says_so(make_plan, year, tmp_path, form):
    plan = in_march(make_plan, form=form)
    usual = {"simulate_seed": 1, "engine": "serial"}
    made = hg.publish(year, plan, tmp_path / "r", **usual)
    of_march = year.filter(pc.equal(year["month"], "2025-03"))
    alone = hg.publish(of_march, make_plan(columns=("a", "b"), form=form), tmp_path / "s", **usual)
    assert made.n == alone.n == 60
    assert made.manifest.period == Period("month", "2025-03")
    assert [part.sha256 for part in made.manifest.files] == [part.sha256 for part in alone.manifest.files]
    assert "month = 2025-03" in (tmp_path / "r" / "statement.html").read_text()
    assert hg.Plan.from_dict(plan.to_dict()) == plan


def test_no_object_in_a_released_column_keeps_a_period_from_being_released(make_plan, year, tmp_path):
    """Some cannot be compared with themselves; the period's own column alone is asked what it is declared as."""
    frame = year.to_pandas().astype({"a": object})
    row = int(np.flatnonzero(frame["month"] == "2025-03")[0])
    for k, cell in enumerate((None, pd.NA, Decimal("sNaN"), np.array([1, 2]))):
        frame.at[row, "a"] = cell
        hg.publish(frame, in_march(make_plan), tmp_path / str(k), simulate_seed=1, engine="serial")
    moments = {(tmp_path / str(k) / "moments.parquet").read_bytes() for k in range(4)}
    assert len(moments) == 1  # each is a missing cell


def test_rows_of_other_periods_change_nothing_however_the_data_come(make_plan, year, tmp_path):
    """The same files from every way in and engine, whatever stands in the rows of other months."""
    frame, plan = year.to_pandas(), in_march(make_plan)
    others = frame.assign(a=frame["a"].where(frame["month"] == "2025-03", 99.0))
    others = others[others["month"].isin(["2025-03", "2025-04"])]
    frame.to_csv(tmp_path / "x.csv", index=False)
    pq.write_table(year, tmp_path / "x.parquet", row_group_size=50)
    ways = [year, frame, others, tmp_path / "x.csv", tmp_path / "x.parquet"]
    found = set()
    for k, data in enumerate(ways):
        for engine in ("serial",) if k else ("serial", "threads"):
            made = hg.publish(data, plan, tmp_path / f"{k}-{engine}", simulate_seed=1, engine=engine)
            found.add(tuple(part.sha256 for part in made.manifest.files))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("cells", "period"),
    [
        ([3, 4, 3, 3], 3),
        (["03", "4", " 3 ", "3.0"], "3"),
        (["March", "april", "March", "March"], "March"),
    ],
)
def test_a_period_is_the_same_in_text_and_whole_numbers(make_plan, cells, period, tmp_path):
    rows = pa.table({"a": np.arange(4.0), "b": np.arange(4.0), "month": cells})
    plan = in_march(make_plan, form="table", period=period)
    assert hg.publish(rows, plan, tmp_path / "r", simulate_seed=1, engine="serial").n == 3


def test_periods_may_be_categories_that_pandas_keeps_in_order(make_plan, year, tmp_path):
    frame = year.filter(pc.is_in(year["month"], pa.array(MONTHS))).to_pandas()
    frame["month"] = pd.Categorical(frame["month"], MONTHS, ordered=True)
    assert hg.publish(frame, in_march(make_plan), tmp_path / "r", simulate_seed=1).n == 60


def test_a_period_with_no_rows_is_refused_and_rows_without_one_are_told_to_the_publisher(
    make_plan, year, tmp_path, capsys
):
    with pytest.raises(DataError, match="at least 2 rows, got 0"):
        hg.publish(year, in_march(make_plan, period="2026-03"), tmp_path / "r")
    hg.publish(year, in_march(make_plan), tmp_path / "r", simulate_seed=1)
    assert "rows without a readable period in 'month', which are left out: 2." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"period_column": None}, "period_column is missing"),
        ({"period": None}, "period is missing"),
        ({"period": " "}, "period must be a value that a cell can have"),
        ({"period": True}, "release.period must be"),
        ({"period_column": "a"}, "remove its"),
        ({"protects": "person", "id_column": "id", "max_rows": 2}, "releases of them add up"),
        ({"protects": "column", "form": "table"}, "releases of them add up"),
    ],
)
def test_a_plan_that_no_period_fits_is_refused_in_one_sentence(make_plan, more, message):
    given = {"period_column": "month", "period": "2025-03", **more}
    with pytest.raises(PlanError, match=message):
        make_plan(columns=("a", "b"), **{key: value for key, value in given.items() if value is not None})


def test_a_release_of_persons_cannot_claim_to_be_about_one_period(make_plan, year, tmp_path):
    from hazeglass.bundle.promise import check_manifest

    made = hg.publish(year, in_march(make_plan), tmp_path / "r", engine="serial").manifest
    sums = {part.path: part.sha256 for part in made.files} | dict.fromkeys(
        ("release.json", "statement.html", "datapackage.json", "croissant.json"), ""
    )
    forged = replace(made, unit=Unit("person", max_rows=1), persons=made.n)
    with pytest.raises(BundleError):
        check_manifest(forged, sums)


def test_the_ledger_charges_a_record_for_its_own_period_alone(make_plan, year, tmp_path):
    path = tmp_path / "year.ledger"
    mu = in_march(make_plan).guarantee.mu
    ledger = Ledger.create(path, "year", mu_total=mu * 1.0001)
    for month in MONTHS[:3]:
        made = hg.publish(year, in_march(make_plan, period=month), tmp_path / month, ledger=path, engine="serial")
        assert ledger.faults({month: made.manifest}) == []
    assert ledger.summary().mu_spent == pytest.approx(mu)
    assert ledger.summary().releases == 3
    assert ledger.history()[0].charge.period == Period("month", MONTHS[0])
    with pytest.raises(BudgetExceededError, match="for the rows of month '2025-03'"):
        hg.publish(year, in_march(make_plan), tmp_path / "again", ledger=path)
    with pytest.raises(BudgetExceededError, match="at most"):
        hg.publish(year, make_plan(columns=("a", "b")), tmp_path / "all", ledger=path)  # all rows are in March as well
    assert not (tmp_path / "again").exists()
    assert ledger.check(charge_of(in_march(make_plan, period="2025-04"))) == pytest.approx(mu * 1.0001)


def test_spellings_of_one_period_are_one_and_columns_and_ways_of_reading_are_not_disjoint(make_plan):
    def charge(**more):
        return charge_of(in_march(make_plan, **more))

    plain, dashed = charge(period="20250301"), charge(period="2025-03")
    assert (plain.cells, plain.reading) == (dashed.cells, dashed.reading)
    mu = plain.mu
    assert spent([plain, dashed]) == pytest.approx(mu * 2**0.5)
    assert spent([plain, charge(period="2025-04")]) == mu
    assert spent([plain, charge(period_column="ward", period="4")]) == pytest.approx(mu * 2**0.5)
    comma = hg.Plan.from_dict({**in_march(make_plan, period="1").to_dict(), "text": {"separator": ";", "decimal": ","}})
    assert spent([charge(period="1000"), charge_of(comma)]) == pytest.approx(mu * 2**0.5)


def test_the_same_rows_under_two_names_of_their_period_are_charged_twice(make_plan, tmp_path):
    """What a frame holds as a day, or as a number with a fraction, a CSV may say in a word of its own."""
    days = pd.Series([date(2025, 3, 1)] * 60 + [date(2025, 4, 1)] * 60, dtype=object)
    frame = pd.DataFrame({"a": 1.0, "b": 2.0, "month": days})
    frame.assign(month=["3/1/2025"] * 60 + ["4/1/2025"] * 60).to_csv(tmp_path / "d.csv", index=False)
    plan = in_march(make_plan, period="2025-03-01")
    ledger = Ledger.create(tmp_path / "l", "year", mu_total=10.0)
    hg.publish(frame, plan, tmp_path / "r", ledger=ledger.path, engine="serial")
    text = replace(plan, period="3/1/2025", text=hg.TextFormat(quoted_newlines=True))
    hg.publish(tmp_path / "d.csv", text, tmp_path / "s", ledger=ledger.path, engine="serial")
    assert ledger.summary().mu_spent == pytest.approx(plan.guarantee.mu * 2**0.5)


def test_a_ledger_entry_of_a_period_is_read_back_as_it_was(tmp_path):
    ledger = Ledger.create(tmp_path / "x.ledger", "x", mu_total=1.0)
    charge = Charge(0.5, "t", period=Period("month", "march"), cells="march", reading="r")
    ledger.charge(charge)
    ledger.charge(Charge(0.5, "u"))
    assert [entry.charge for entry in Ledger.open(ledger.path).history()] == [charge, Charge(0.5, "u")]


def publish_one(folder, plan, month, which):
    """In a process of its own: 0 where it was published, 3 where the ledger refused it."""
    own = replace(plan, period=month, title=month)
    try:
        hg.publish(
            folder / "year.parquet", own, folder / f"{month}-{which}", ledger=folder / "x.ledger", engine="serial"
        )
    except BudgetExceededError:
        os._exit(3)
    os._exit(0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # the children read and publish serially
def test_twelve_months_publish_at_once_and_the_ledger_lets_each_month_in_once(make_plan, year, tmp_path):
    """Twelve processes, and two more that publish a month again: whoever comes first, one of the two is refused."""
    pq.write_table(year, tmp_path / "year.parquet")
    plan = in_march(make_plan)
    Ledger.create(tmp_path / "x.ledger", "year", mu_total=plan.guarantee.mu * 1.2)
    hg.publish(tmp_path / "year.parquet", plan, tmp_path / "warm", engine="serial", simulate_seed=1)
    fork = multiprocessing.get_context("fork")
    jobs = [(month, 1) for month in MONTHS] + [(MONTHS[0], 2), (MONTHS[5], 2)]
    running = [fork.Process(target=publish_one, args=(tmp_path, plan, *job)) for job in jobs]
    for process in running:
        process.start()
    for process in running:
        process.join(300)
    ended = [(month, process.exitcode) for (month, _), process in zip(jobs, running, strict=True)]
    assert sorted(status for _, status in ended) == [0] * 12 + [3] * 2
    assert {month for month, status in ended if status == 0} == set(MONTHS)
    ledger = Ledger.open(tmp_path / "x.ledger")
    assert ledger.summary().mu_spent == pytest.approx(plan.guarantee.mu)
    releases = {path.name: hg.load(path).manifest for path in tmp_path.glob("2025-*")}
    assert len(releases) == 12
    assert ledger.faults(releases) == []
    with warnings.catch_warnings():  # sixty rows are few
        warnings.simplefilter("ignore", hg.errors.HazeglassWarning)
        graph = hg.recover([str(tmp_path / name) for name in sorted(releases)])
    assert graph.fit["n"] == 720
    assert len(graph.fit["releases"]) == 12


def test_a_charge_of_a_period_needs_a_unit_that_is_in_one():
    with pytest.raises(InputError, match="may be in all"):
        Charge(1.0, unit=Unit("column"), period=Period("month", "march"))
