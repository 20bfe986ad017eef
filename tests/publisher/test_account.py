"""A release is charged before anything is drawn, and given back only if nothing was."""

import json
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.errors import BudgetExceededError, DataError, PrivacyRefusal
from hazeglass.guarantee.sensitivity import Unit
from hazeglass.publisher.account import Account, AnnouncedBits, charged
from hazeglass.publisher.ledger_file import Ledger
from hazeglass.publisher.randomness import SecretBits


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
    [(False, False, ["release 5"]), (True, False, []), (True, True, ["confirm 5"])],
)
def test_a_charge_is_settled_by_what_was_drawn_and_finished(drawn, complete, settled):
    events = []
    account = Account(Book(events), 5)
    if drawn:
        account.announce()
        events.clear()
    account.close(complete=complete)
    assert events == settled


def test_a_release_that_does_not_fit_is_refused_with_status_3(make_plan, table, tmp_path, ledger):
    for k in range(3):
        hg.publish(table, make_plan(), tmp_path / str(k), ledger=ledger.path)
    with pytest.raises(BudgetExceededError, match="'meters'") as caught:
        hg.publish(table, make_plan(), tmp_path / "4", ledger=ledger.path)
    assert caught.value.exit_status == 3
    assert not (tmp_path / "4").exists()
    assert states(ledger) == ["confirmed"] * 3


def test_bad_data_found_before_drawing_gives_the_budget_back(make_plan, tmp_path, ledger):
    data = pa.table({"a": [1.0, 2.0], "b": pa.array([None, None], type=pa.float64()), "c": [1.0, 2.0]})
    with pytest.raises(DataError, match="no value"):
        hg.publish(data, make_plan(), tmp_path / "r", ledger=ledger.path)
    assert states(ledger) == ["released"]
    assert ledger.summary().mu_spent == 0


def test_a_failure_after_drawing_stays_charged(make_plan, table, tmp_path, ledger, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hazeglass.publisher.publish._finish", fail)
    with pytest.raises(OSError, match="No space left"):
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
        with charged(ledger.path, make_plan(), 3, SecretBits(), tmp_path / "out") as bits:
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
        charged(ledger.path, make_plan(), 3, SecretBits(), tmp_path / "out") as bits,
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


def test_a_promise_for_more_is_a_promise_for_less():
    entry, record, person, column = Unit("entry"), Unit("record"), Unit("person", max_rows=3), Unit("column")
    day, hour = Unit("readings", readings=96), Unit("readings", readings=4)
    assert all(unit.covers(entry) for unit in (entry, record, person, column, day))
    assert person.covers(record)
    assert not record.covers(person)
    assert person.covers(Unit("person", max_rows=2))
    assert not person.covers(Unit("person", max_rows=4))
    assert day.covers(hour)
    assert not hour.covers(day)
    assert column.covers(day)
    assert not record.covers(day)
    assert not day.covers(record)


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

    acknowledged = storm(work, kills=200, at_once=2, longest=0.15)
    entries = Ledger.open(tmp_path / "l.ledger").history()
    complete = [path for path in out.iterdir() if not path.name.startswith(".")]
    assert len(acknowledged) > 5  # dozens on a quiet machine; a busy one kills most before they finish
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
    assert "1 releases, 0 unfinished" in hazeglass("ledger", "show", "l", cwd=tmp_path).stdout
    assert "confirmed" in hazeglass("ledger", "history", "l", cwd=tmp_path).stdout
    assert hazeglass("ledger", "show", "nothing", cwd=tmp_path).returncode == 2
    assert hazeglass("ledger", "new", "l", "--dataset", "x", "--mu", "1", cwd=tmp_path).returncode == 2
    assert (
        hazeglass("ledger", "new", "m", "--dataset", "x", "--mu", "1", "--epsilon", "1", cwd=tmp_path).returncode == 2
    )
