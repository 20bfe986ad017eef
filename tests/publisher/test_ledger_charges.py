"""A release is charged before anything is drawn, and given back only if nothing was."""

import json
import os
import shutil
from contextlib import nullcontext
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import hazeglass as hg
from hazeglass.errors import BudgetExceededError, BundleError, DataError, OutputError, PlanError, PrivacyRefusal
from hazeglass.guarantee.budget import Charge
from hazeglass.guarantee.units import UNITS, Unit
from hazeglass.publisher.account import Account, AnnouncedBits, charged
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.noise import SecretBits
from hazeglass.publisher.publish import rehearse


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "l.ledger", "meters", epsilon=2.0, delta=1e-6)


def states(ledger):
    return [entry.state for entry in ledger.history()]


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
def test_a_release_is_charged_and_confirmed(make_plan, table, tmp_path, ledger, form):
    release = hg.publish(table, make_plan(form=form), tmp_path / "r", ledger=ledger.path)
    (entry,) = ledger.history()
    assert entry.state == "confirmed"
    assert entry.charge.mu == release.guarantee.mu
    assert entry.charge.total_variation < 1e-20


class Source:
    """Words that can be told apart, and what happened in which order."""

    simulation = False

    def __init__(self, events):
        self.events = events

    def stream(self, number):
        self.events.append(f"stream {number}")
        return self

    def elsewhere(self):
        self.events.append("elsewhere")
        return self

    def uint64(self, count):
        self.events.append("bits")
        return np.full(count, 7, dtype=np.uint64)

    def fill(self, words):
        self.events.append("bits")
        words[:] = 7


class Book:
    def __init__(self, events):
        self.events = events

    def __getattr__(self, name):
        return lambda identifier: self.events.append(f"{name} {identifier}")


@pytest.mark.parametrize("take", ["uint64", "fill", "elsewhere"])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_ledger_hears_of_a_draw_before_the_first_bit_and_once(take, streamed):
    events = []
    account = Account(Book(events), 5)
    bits = AnnouncedBits(Source(events), account)
    assert not bits.simulation
    if streamed:
        bits = bits.stream(3)
        assert events.pop() == "stream 3"
    words = np.zeros(4, dtype=np.uint64)
    for _ in range(2):
        if take == "uint64":
            words = bits.uint64(4)
        elif take == "fill":
            bits.fill(words)
        else:
            assert isinstance(bits.elsewhere(), Source)
    drawn = "elsewhere" if take == "elsewhere" else "bits"
    assert events == ["begin_drawing 5", drawn, drawn]
    assert account.drawn
    assert take == "elsewhere" or words.tolist() == [7] * 4


@pytest.mark.parametrize(
    ("drawn", "complete", "settled"),
    [(False, False, ["refund 5"]), (True, False, []), (True, True, ["confirm 5"])],
)
def test_a_charge_is_settled_by_what_was_drawn_and_finished(drawn, complete, settled):
    events = []
    account = Account(Book(events), 5)
    if drawn:
        account.announce()
        events.clear()
    account.close(complete=complete)
    assert events == settled


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("drawn", [False, True])
def test_a_forked_process_does_not_draw_on_the_same_charge(ledger, drawn):
    account = Account(ledger, ledger.charge(Charge(0.2)).digest)
    bits = AnnouncedBits(SecretBits(), account)
    if drawn:
        bits.uint64(1)
    if (child := os.fork()) == 0:
        try:
            bits.uint64(1)
        except PrivacyRefusal:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    bits.uint64(1)
    account.close(complete=True)
    assert [entry.state for entry in ledger.history()] == ["confirmed"]


def test_a_release_that_does_not_fit_is_refused_with_status_3(make_plan, table, tmp_path, ledger):
    for k in range(3):
        hg.publish(table, make_plan(), tmp_path / str(k), ledger=ledger.path)
    with pytest.raises(BudgetExceededError, match="'meters'") as caught:
        hg.publish(table, make_plan(), tmp_path / "4", ledger=ledger.path)
    assert caught.value.exit_status == 3
    assert not (tmp_path / "4").exists()
    assert states(ledger) == ["confirmed"] * 3


def test_data_that_change_before_anything_is_drawn_give_the_budget_back(
    make_plan, table, tmp_path, ledger, monkeypatch
):
    def changed(*_):
        raise DataError("the number of rows changed")

    monkeypatch.setattr("hazeglass.publisher.marginals.exact_counts", changed)
    with pytest.raises(DataError, match="changed"):
        hg.publish(table, make_plan(), tmp_path / "r", ledger=ledger.path)
    assert states(ledger) == ["refunded"]
    assert ledger.summary().mu_spent == 0


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
def test_a_cell_cannot_make_a_publish_fail(make_plan, tmp_path, ledger, form):
    """A refusal that others can see is an output: a column without numbers is released like any other."""
    data = pa.table({"a": [1.0, 2.0] * 5, "b": ["x"] * 10, "c": pa.nulls(10)})
    release = hg.publish(data, make_plan(form=form), tmp_path / "r", ledger=ledger.path)
    assert release.n == 10
    assert states(ledger) == ["confirmed"]


def test_a_release_that_does_not_verify_gets_no_name_and_is_not_confirmed(
    make_plan, table, tmp_path, ledger, monkeypatch
):
    def refuse(*_):
        raise BundleError("not as it should be")

    monkeypatch.setattr("hazeglass.publisher.publish.load", refuse)
    with pytest.raises(BundleError, match="not as it should be"):
        hg.publish(table, make_plan(), tmp_path / "r", ledger=ledger.path)
    assert not (tmp_path / "r").exists()
    assert states(ledger) == ["drawn"]


def test_a_failure_after_drawing_stays_charged(make_plan, table, tmp_path, ledger, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hazeglass.bundle.writer.BundleWriter.seal", fail)
    with pytest.raises(OutputError, match=r"No space left on device\. Make room, .* the charge stays"):
        hg.publish(table, make_plan(), tmp_path / "r", ledger=ledger.path)
    assert states(ledger) == ["drawn"]
    assert ledger.summary().mu_spent > 0
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("error", "complete", "state"),
    [
        (KeyboardInterrupt, True, "confirmed"),  # it came after the release got its name
        (KeyboardInterrupt, False, "drawn"),
        (RuntimeError, True, "drawn"),  # somebody else's folder
        (None, True, "confirmed"),
    ],
)
def test_what_is_drawn_is_confirmed_where_the_release_is_complete(make_plan, tmp_path, ledger, error, complete, state):
    def publish():
        with charged(ledger.path, make_plan(), 3, SecretBits(), tmp_path / "out") as (bits, _):
            bits.uint64(1)
            if complete:
                (tmp_path / "out").mkdir()
            if error is not None:
                raise error

    with pytest.raises(error) if error else nullcontext():
        publish()
    assert states(ledger) == [state]


def test_an_interrupt_while_a_draw_is_announced_comes_out_as_itself(make_plan, tmp_path, ledger, monkeypatch):
    announce = Ledger.begin_drawing

    def interrupted(self, identifier):
        announce(self, identifier)
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "begin_drawing", interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        charged(ledger.path, make_plan(), 3, SecretBits(), tmp_path / "out") as (bits, _),
    ):
        bits.uint64(1)
    assert states(ledger) == ["drawn"]  # the ledger heard of it, so it is not given back


def test_a_taken_output_costs_nothing(make_plan, table, tmp_path, ledger):
    (tmp_path / "r").mkdir()
    with pytest.raises(hg.errors.OutputError):
        hg.publish(table, make_plan(), tmp_path / "r", ledger=ledger.path)
    assert ledger.history() == []


def test_a_simulation_is_never_charged(make_plan, table, tmp_path, ledger):
    with pytest.raises(PrivacyRefusal, match="simulation"):
        hg.publish(table, make_plan(), tmp_path / "r", ledger=ledger.path, simulate_seed=1)


def test_a_budget_for_records_refuses_a_release_that_protects_only_entries(make_plan, table, tmp_path, ledger):
    with pytest.raises(PrivacyRefusal, match="protects only each single cell"):
        hg.publish(table, make_plan(protects="entry"), tmp_path / "r", ledger=ledger.path)
    assert ledger.history() == []


# ---- persons


@pytest.fixture
def persons(tmp_path):
    unit = Unit("person", max_rows=3)
    return Ledger.create(tmp_path / "p.ledger", "meters", mu_total=5.0, unit=unit, id_column="customer")


@pytest.fixture
def people(table):
    ids = pa.array([f"p{k // 2}" for k in range(table.num_rows)])
    return table.append_column("customer", ids).append_column("household", ids)


def by_person(make_plan, id_column="customer", **more):
    return make_plan(protects="person", id_column=id_column, max_rows=2, **more)


def test_a_budget_for_persons_refuses_a_release_by_another_id_column(make_plan, people, tmp_path, persons):
    with pytest.raises(PrivacyRefusal, match=r"by the column 'customer', and this release by 'household'") as caught:
        hg.publish(people, by_person(make_plan, "household"), tmp_path / "r", ledger=persons.path)
    assert caught.value.exit_status == 3
    with pytest.raises(PrivacyRefusal, match="protects only each record"):
        hg.publish(people, make_plan(), tmp_path / "r", ledger=persons.path)
    assert persons.history() == []
    release = hg.publish(people, by_person(make_plan), tmp_path / "r", ledger=persons.path)
    assert [entry.charge.mu for entry in persons.history()] == [release.guarantee.mu]


@pytest.mark.parametrize("way", [rehearse, hg.publish])
def test_a_budget_for_persons_refuses_names_that_the_plan_gives(make_plan, people, tmp_path, persons, way):
    """By a second plan the column of households would be called customer."""
    csv.write_csv(people, tmp_path / "x.csv", csv.WriteOptions(include_header=False))
    for names in (("a", "b", "c", "customer", "household"), ("a", "b", "c", "household", "customer")):
        plan = replace(by_person(make_plan), text=hg.TextFormat(header=False, names=names))
        assert rehearse(tmp_path / "x.csv", plan, tmp_path / "r").persons == 300
        with pytest.raises(PrivacyRefusal, match=r"gives the name 'customer' .* Add a line of names"):
            way(tmp_path / "x.csv", plan, tmp_path / "r", ledger=persons.path)
    assert persons.history() == []
    csv.write_csv(people, tmp_path / "y.csv")
    way(tmp_path / "y.csv", by_person(make_plan), tmp_path / "r", ledger=persons.path)


@pytest.mark.parametrize("way", [rehearse, hg.publish])
@pytest.mark.parametrize("text", [{"decimal": ",", "separator": ";"}, {"thousands": " "}, {"encoding": "latin-1"}])
def test_a_budget_for_persons_refuses_ids_that_are_read_in_another_way(make_plan, people, tmp_path, persons, way, text):
    """7 and 7,0 are one person where the comma is the decimal mark, and two where it is not."""
    hg.publish(people, by_person(make_plan), tmp_path / "r", ledger=persons.path)
    other = replace(by_person(make_plan), text=hg.TextFormat(**text))
    with pytest.raises(PrivacyRefusal, match=r"Charge 1 .* ids are read in another way .* one person there may be"):
        way(people, other, tmp_path / "s", ledger=persons.path)
    assert len(persons.history()) == 1
    way(people, by_person(make_plan, title="Again"), tmp_path / "s", ledger=persons.path)


def test_a_budget_for_persons_refuses_a_database_beside_files(make_plan, people, tmp_path, persons):
    """A database compares ids as they stand: 7 and 07 are two persons there, and one in a file."""
    ibis = pytest.importorskip("ibis")
    hg.publish(people, by_person(make_plan), tmp_path / "r", ledger=persons.path)
    keyed = people.append_column("key", pa.array(range(people.num_rows)))
    stored = ibis.duckdb.connect().create_table("people", ibis.memtable(keyed))
    with pytest.raises(PrivacyRefusal, match=r"ids are read in another way \(rows; here duckdb: string\)"):
        rehearse(stored, by_person(make_plan, order_column="key"), tmp_path / "s", ledger=persons.path)


@pytest.mark.parametrize("way", [rehearse, hg.publish])
@pytest.mark.parametrize("text", [{"quoted_newlines": True}, {"encoding": "utf-16"}, None], ids=str)
def test_a_budget_refuses_a_release_whose_rows_are_others(make_plan, table, tmp_path, ledger, text, way):
    """A row that goes over three lines is three rows for whoever takes each line for one."""
    plan, lines = make_plan(), tmp_path / "d.csv"
    csv.write_csv(table, lines)
    hg.publish(lines, plan, tmp_path / "r", ledger=ledger.path)
    data = lines if text else table
    if text and "encoding" in text:
        lines.write_text(lines.read_text(), encoding="utf-16")
    with pytest.raises(
        PrivacyRefusal, match=r"a row is told in another way \(lines of a CSV; here .* one record there"
    ):
        way(data, replace(plan, text=hg.TextFormat(**text or {})), tmp_path / "s", ledger=ledger.path)
    assert len(ledger.history()) == 1


def test_a_budget_takes_releases_whose_rows_are_the_same(make_plan, table, tmp_path, ledger):
    plan, path = make_plan(), tmp_path / "d.csv"
    csv.write_csv(table, path)
    hg.publish(table, plan, tmp_path / "r", ledger=ledger.path)
    whole = replace(plan, text=hg.TextFormat(quoted_newlines=True, missing=("", "gone"), encoding="latin-1"))
    rehearse(path, whole, tmp_path / "s", ledger=ledger.path)  # its rows are those of any table
    rehearse(table.to_pandas(), plan, tmp_path / "s", ledger=ledger.path)


def test_a_release_that_readers_would_refuse_is_not_charged(make_plan, table, tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "l", "meters", mu_total=5.0)
    monkeypatch.setattr("hazeglass.bundle.writer._MOST_PART_ROWS", 64)
    monkeypatch.setattr("hazeglass.publisher.plan_columns.MOST_FILES", 19)
    for way in (rehearse, hg.publish):
        with pytest.raises(PlanError, match=r"at most 19 files .* would have 10 parts"):
            way(table, make_plan(form="table"), tmp_path / "r", ledger=ledger.path)
    monkeypatch.setattr("hazeglass.publisher.plan_columns.MOST_FILES", 20)
    hg.publish(table, make_plan(form="table"), tmp_path / "r")
    assert ledger.history() == []


@pytest.mark.parametrize("unit", [Unit(name, readings=96 if name == "readings" else 1) for name in UNITS], ids=str)
@pytest.mark.parametrize("form", [{}, {"persons": 1000}, {"form": "table", "row_counts": "public"}], ids=str)
def test_only_a_budget_for_persons_takes_a_release_by_person(make_plan, people, tmp_path, unit, form):
    """A record, a cell or a column may change an id, which shows in the number of ids or touches two persons."""
    id_column = "customer" if unit.name == "person" else None
    ledger = Ledger.create(tmp_path / "l", "meters", mu_total=5.0, unit=unit, id_column=id_column)
    plan = by_person(make_plan, **form)
    if unit.name == "person":
        rehearse(people, plan, tmp_path / "r", ledger=ledger.path)
        assert hg.publish(people, plan, tmp_path / "r", ledger=ledger.path).manifest.ledger.dataset == "meters"
        assert ledger.summary().mu_spent == plan.guarantee.mu
        return
    for way in (rehearse, hg.publish):
        with pytest.raises(PrivacyRefusal, match=r"make a ledger that protects persons .*--id-column\)\.$") as caught:
            way(people, plan, tmp_path / "r", ledger=ledger.path)
        assert (caught.value.exit_status, str(caught.value).count(". ")) == (3, 0)
    assert ledger.history() == []
    assert not (tmp_path / "r").exists()


# ---- a release names its charge


def test_a_release_names_the_event_that_charged_it(make_plan, table, tmp_path, ledger):
    names = [hg.publish(table, make_plan(), tmp_path / n, ledger=ledger.path).manifest.ledger for n in ("r1", "r2")]
    assert [(name.dataset, name.event) for name in names] == [("meters", 2), ("meters", 5)]
    assert [name.digest for name in names] == [entry.digest for entry in ledger.history()]
    assert json.loads((tmp_path / "r2" / "release.json").read_text())["ledger"] == asdict(names[1])
    assert hg.publish(table, make_plan(), tmp_path / "free").manifest.ledger is None


def test_copies_of_a_ledger_charged_alike_in_the_same_second_differ(tmp_path, ledger):
    copy = Ledger(shutil.copy(ledger.path, tmp_path / "copy"))
    assert ledger.charge(Charge(0.1)).digest != copy.charge(Charge(0.1)).digest


def cut_after(path, event):
    """Cut the end off, so that what is left is a whole chain."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:event]))


def test_a_ledger_that_lost_its_end_is_found_by_its_releases(make_plan, table, tmp_path, ledger):
    plan = make_plan(budget={"mu": 0.1})
    older = shutil.copy(ledger.path, tmp_path / "older")
    given = {n: hg.publish(table, plan, tmp_path / n, ledger=ledger.path).manifest for n in ("r1", "r2")}
    assert ledger.faults(given) == []
    for last, words in ((6, "only that it is drawn"), (5, "only that it is charged"), (4, "which ends at event 4")):
        cut_after(ledger.path, last)  # 5 is the second charge, 6 its draw, 7 that it is complete
        faults = Ledger.open(ledger.path).faults(given)
        assert faults == [] if last == 6 else (len(faults) == 1 and faults[0].startswith("r2 ") and words in faults[0])
    refunded = ledger.charge(Charge(0.1))
    ledger.refund(refunded.digest)
    assert "whose event 5 is another" in ledger.faults(given)[0]
    shutil.copy(older, ledger.path)
    assert len(ledger.faults(given)) == 2
    hg.publish(table, plan, tmp_path / "r3", ledger=ledger.path)  # another release in the first one's place
    first, second = ledger.faults(given)
    assert "whose event 2 is another: its end was cut off, or another copy was put in its place." in first
    assert "which ends at event 4" in second


def test_what_a_release_says_of_its_charge_must_be_what_the_ledger_says(make_plan, table, tmp_path, ledger, persons):
    manifest = hg.publish(table, make_plan(), tmp_path / "r", ledger=ledger.path).manifest
    for change, words in (
        ({"mu": manifest.mu / 2}, f"promises mu = {manifest.mu / 2:.6g} for each record"),
        ({"unit": Unit("person", max_rows=2)}, "for each person"),
        ({"title": "Another"}, "is 'Test' with mu"),
        ({"ledger": None}, "names no ledger"),
        ({"ledger": replace(manifest.ledger, dataset="other")}, "the ledger of 'other', and this is the ledger of"),
        ({"ledger": replace(manifest.ledger, event=3)}, "whose event 3 is another"),
    ):
        (fault,) = ledger.faults({"r": replace(manifest, **change)})
        assert fault.startswith("r ")
        assert words in fault
        assert fault.count(". ") == 0
    (fault,) = ledger.faults({"r": manifest, "copy": manifest, "s": replace(manifest, created="later")})
    assert fault == "r and s are two releases and name one charge: only one of them was paid."
    assert ledger.faults({"r": manifest, "copy": manifest}) == []
    assert "which ends at event 1" in persons.faults({"r": manifest})[0]  # another ledger, of the same name


@pytest.mark.slow
def test_a_storm_of_kills_loses_no_charge_and_leaves_no_half_release(make_plan, tmp_path, storm):
    """Two publishers, one ledger, killed at random moments: complete releases never outnumber charges."""
    Ledger.create(tmp_path / "l.ledger", "storm", mu_total=1000.0)
    data = pa.table({name: np.linspace(-1, 1, 300) for name in "abc"})
    plan = make_plan(budget={"mu": 0.01})
    out = tmp_path / "releases"
    out.mkdir()
    hg.publish(data, plan, tmp_path / "warm", engine="serial")  # compile before the fork

    def work(say):
        import uuid

        while True:
            name = uuid.uuid4().hex
            hg.publish(data, plan, out / name, ledger=tmp_path / "l.ledger", engine="serial")
            say(name)

    acknowledged = storm(work, kills=40, at_once=2, longest=0.6)
    entries = Ledger.open(tmp_path / "l.ledger").history()
    complete = [path for path in out.iterdir() if not path.name.startswith(".")]
    assert acknowledged  # dozens on a quiet machine; a busy one kills most before they finish
    assert set(acknowledged) <= {path.name for path in complete}
    assert len(complete) <= sum(entry.state in ("drawn", "confirmed") for entry in entries)
    assert len(acknowledged) <= sum(entry.state == "confirmed" for entry in entries)
    for path in complete:
        hg.load(path)


def test_the_ledger_on_the_command_line(tmp_path, plan_text):
    from tests.cli.test_cli import ROWS, hazeglass

    (tmp_path / "data.csv").write_text(ROWS)
    (tmp_path / "plan.toml").write_text(plan_text)
    made = hazeglass("ledger", "new", "l", "--dataset", "meters", "--epsilon", "1.2", "--delta", "1e-6", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    publish = ("publish", "data.csv", "--plan", "plan.toml", "--ledger", "l", "--out")
    assert hazeglass(*publish, "r1", cwd=tmp_path).returncode == 0
    refused = hazeglass(*publish, "r2", cwd=tmp_path)
    assert refused.returncode == 3
    assert "is left" in refused.stderr
    assert not (tmp_path / "r2").exists()
    shown = json.loads(hazeglass("ledger", "show", "l", "--json", cwd=tmp_path).stdout)
    assert shown["releases"] == 1
    assert "1 release, 0 unfinished" in hazeglass("ledger", "show", "l", cwd=tmp_path).stdout
    assert "confirmed" in hazeglass("ledger", "history", "l", cwd=tmp_path).stdout
    assert hazeglass("ledger", "show", "nothing", cwd=tmp_path).returncode == 2
    assert hazeglass("ledger", "new", "l", "--dataset", "x", "--mu", "1", cwd=tmp_path).returncode == 2
    assert (
        hazeglass("ledger", "new", "m", "--dataset", "x", "--mu", "1", "--epsilon", "1", cwd=tmp_path).returncode == 2
    )


def test_checking_a_ledger_against_releases_on_the_command_line(tmp_path, plan_text):
    from tests.cli.test_cli import ROWS, hazeglass

    (tmp_path / "data.csv").write_text(ROWS)
    (tmp_path / "plan.toml").write_text(plan_text)
    assert hazeglass("ledger", "new", "l", "--dataset", "meters", "--mu", "1", cwd=tmp_path).returncode == 0
    publish = ("publish", "data.csv", "--plan", "plan.toml", "--out")
    for name in ("r1", "r2"):
        assert hazeglass(*publish, name, "--ledger", "l", cwd=tmp_path).returncode == 0
    shutil.make_archive(str(tmp_path / "r2"), "zip", tmp_path / "r2")
    done = hazeglass("ledger", "check", "l", "r1", "r2.zip", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "l is not behind: it holds the charge of every release given, 2 in all.\n"
    assert hazeglass("ledger", "check", "l", "r1", "--quiet", cwd=tmp_path).stdout == ""
    cut_after(tmp_path / "l", 4)
    done = hazeglass("ledger", "check", "l", "r1", "r2.zip", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("hazeglass: r2.zip was charged by event 5 of this ledger, which ends at event 4")
    answer = json.loads(hazeglass("ledger", "check", "l", "r1", "r2", "--json", cwd=tmp_path).stdout)
    assert (answer["ok"], answer["releases"], len(answer["faults"])) == (False, 2, 1)
    assert hazeglass(*publish, "free", cwd=tmp_path).returncode == 0
    done = hazeglass("ledger", "check", "l", "free", cwd=tmp_path)
    assert (done.returncode, "free names no ledger" in done.stderr) == (3, True)
    assert hazeglass("ledger", "check", "l", "nothing", cwd=tmp_path).returncode == 2


def test_a_ledger_for_persons_on_the_command_line(tmp_path, plan_text):
    from tests.cli.test_cli import ROWS, hazeglass

    header, *lines = ROWS.splitlines()
    rows = [f"{header},customer,household", *(f"{line},{k},{k}" for k, line in enumerate(lines))]
    (tmp_path / "data.csv").write_text("\n".join(rows) + "\n")
    person = 'protects = "person"\nid_column = "customer"\nmax_rows = 2\npersons = 1000'
    (tmp_path / "plan.toml").write_text(plan_text.replace('protects = "record"', person))
    new = ("ledger", "new", "l", "--dataset", "meters", "--mu", "1", "--protects", "person", "--max-rows", "8")
    refused = hazeglass(*new, cwd=tmp_path)
    assert (refused.returncode, "--id-column" in refused.stderr) == (2, True)
    made = hazeglass(*new, "--id-column", "household", cwd=tmp_path)
    assert (made.returncode, "at most 8), told apart by 'household'." in made.stdout) == (0, True)
    assert json.loads(hazeglass("ledger", "show", "l", "--json", cwd=tmp_path).stdout)["id_column"] == "household"
    publish = ("publish", "data.csv", "--plan", "plan.toml", "--out", "r", "--ledger")
    done = hazeglass(*publish, "l", cwd=tmp_path)
    assert (done.returncode, "this release by 'customer'" in done.stderr) == (3, True)
    refused = hazeglass("ledger", "new", "m", "--dataset", "x", "--mu", "1", "--id-column", "customer", cwd=tmp_path)
    assert (refused.returncode, "protects each record" in refused.stderr) == (2, True)
    hazeglass("ledger", "new", "m", "--dataset", "x", "--mu", "1", cwd=tmp_path)
    done = hazeglass(*publish, "m", cwd=tmp_path)
    assert (done.returncode, "make a ledger that protects persons" in done.stderr) == (3, True)
    assert json.loads(hazeglass("ledger", "history", "m", "--json", cwd=tmp_path).stdout) == []
    hazeglass(*new[:2], "n", *new[3:], "--id-column", "customer", cwd=tmp_path)
    assert hazeglass(*publish, "n", cwd=tmp_path).returncode == 0
    (charge,) = json.loads(hazeglass("ledger", "history", "n", "--json", cwd=tmp_path).stdout)
    assert (charge["charge"]["id_column"], charge["state"]) == ("customer", "confirmed")
