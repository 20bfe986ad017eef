import json
import multiprocessing
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hazeglass.errors import BudgetExceededError, InputError, OutputError, PrivacyRefusal
from hazeglass.guarantee.budget import Charge, compose
from hazeglass.guarantee.units import Unit
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.ledger_events import _is_journal, _is_shared, append, read_events


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.ledger", "feeder 12", mu_total=1.0)


def test_a_release_is_charged_drawn_and_confirmed(ledger):
    charge = ledger.charge(Charge(0.6, "january", total_variation=1e-30))
    ledger.begin_drawing(charge.digest)
    ledger.confirm(charge.digest)
    summary = Ledger.open(ledger.path).summary()
    assert (summary.dataset, summary.mu_total, summary.mu_spent) == ("feeder 12", 1.0, 0.6)
    assert summary.mu_remaining == pytest.approx(0.8, rel=1e-15)
    assert (summary.releases, summary.unfinished, summary.total_variation) == (1, 0, 1e-30)
    (entry,) = ledger.history()
    assert (entry.id, entry.charge.label, entry.state) == (charge.id, "january", "confirmed")
    assert entry.charged_at <= entry.settled_at


def test_a_release_that_does_not_fit_is_refused_and_leaves_no_trace(ledger):
    ledger.charge(Charge(0.6))
    with pytest.raises(BudgetExceededError, match=r"mu = 1 in total, 0.6 of it is spent.*asks for 0.9"):
        ledger.charge(Charge(0.9))
    assert len(ledger.history()) == 1
    ledger.charge(Charge(0.8))  # 0.36 + 0.64 = 1, to the last bit of the budget
    with pytest.raises(BudgetExceededError):
        ledger.charge(Charge(1e-3))


def test_a_charge_is_given_back_only_while_nothing_was_drawn(ledger):
    first = ledger.charge(Charge(0.9)).digest
    ledger.refund(first)
    assert ledger.summary().mu_spent == 0
    second = ledger.charge(Charge(0.9)).digest
    ledger.begin_drawing(second)
    with pytest.raises(InputError, match="is drawn; 'refund' needs it to be charged"):
        ledger.refund(second)
    assert ledger.summary().mu_spent == 0.9
    assert [entry.state for entry in ledger.history()] == ["refunded", "drawn"]


def test_a_ledger_with_a_second_name_is_refused(ledger, tmp_path):
    """Of two names, one may have a journal that takes back what was charged under the other."""
    os.link(ledger.path, tmp_path / "other")
    for path in (ledger.path, tmp_path / "other"):
        for use in (Ledger.open, lambda path: Ledger(path).charge(Charge(0.1)), lambda path: Ledger(path).history()):
            with pytest.raises(PrivacyRefusal, match="has 2 names"):
                use(path)
    (tmp_path / "other").unlink()
    (tmp_path / "short").symlink_to(ledger.path)  # a symbolic link leads to the one name there is
    Ledger.open(tmp_path / "short").charge(Charge(0.1))
    assert len(ledger.history()) == 1


def test_confirming_needs_an_announced_draw_and_happens_once(ledger):
    digest = ledger.charge(Charge(0.1)).digest
    with pytest.raises(InputError, match="'confirm' needs it to be drawn"):
        ledger.confirm(digest)
    ledger.begin_drawing(digest)
    ledger.begin_drawing(digest)  # a second stage draws again
    ledger.confirm(digest)
    with pytest.raises(InputError, match="is confirmed"):
        ledger.confirm(digest)
    with pytest.raises(PrivacyRefusal, match="does not hold the charge"):
        ledger.begin_drawing("0" * 64)


def test_one_budget_is_not_drawn_twice_where_an_older_copy_is_put_back_during_a_release(ledger, tmp_path):
    """Both charges have the number 1 in their ledger, and each takes all of it."""
    older = shutil.copy(ledger.path, tmp_path / "older")
    first = ledger.charge(Charge(1.0, "a"))
    shutil.copy(older, ledger.path)
    second = ledger.charge(Charge(1.0, "b"))
    assert first.id == second.id
    for settle in (ledger.begin_drawing, ledger.confirm, ledger.refund):
        with pytest.raises(PrivacyRefusal, match="another copy was put in its place"):
            settle(first.digest)
    ledger.begin_drawing(second.digest)
    ledger.confirm(second.digest)
    assert [(entry.charge.label, entry.state) for entry in ledger.history()] == [("b", "confirmed")]


def test_a_budget_may_be_stated_as_epsilon_and_delta(tmp_path):
    gdp = pytest.importorskip("hazeglass.guarantee.gdp")
    summary = Ledger.create(tmp_path / "l", "d", epsilon=1.0, delta=1e-6).summary()
    assert summary.mu_total == gdp.GaussianDP.from_budget(1.0, 1e-6).mu
    assert (summary.epsilon, summary.delta) == (1.0, 1e-6)


@pytest.mark.parametrize("budget", [{}, {"epsilon": 1.0}, {"mu_total": 1.0, "delta": 1e-6}, {"mu_total": -1.0}])
def test_a_budget_that_is_not_one_is_refused_and_no_file_appears(tmp_path, budget):
    with pytest.raises(InputError, match=r"budget is either|positive finite"):
        Ledger.create(tmp_path / "l", "d", **budget)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("unit", "id_column"), [(Unit("person", max_rows=2), None), (Unit("record"), "customer")])
def test_a_budget_has_an_id_column_exactly_where_it_protects_persons(tmp_path, unit, id_column):
    with pytest.raises(InputError, match=r"id column|column whose ids"):
        Ledger.create(tmp_path / "l", "d", mu_total=1.0, unit=unit, id_column=id_column)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines", "half \ud800"])
def test_a_name_that_a_release_could_not_repeat_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="1 to 200 printable characters"):
        Ledger.create(tmp_path / "l", name, mu_total=1.0)


def test_a_ledger_of_version_1_is_refused_with_the_way_out(ledger):
    damage(ledger.path, "PRAGMA user_version = 1")
    with pytest.raises(InputError, match=r"of version 1; this hazeglass reads version 2\. Start a new one whose --mu"):
        Ledger.open(ledger.path)


def test_a_charge_that_says_more_than_its_mu_is_refused_and_not_undercounted(ledger):
    """Before version 2 was released, a charge could say that its mu was taken several times."""
    ledger.charge(Charge(0.3))
    with sqlite3.connect(ledger.path) as connection:
        first, event = read_events(connection, ledger.path)
        connection.execute("DELETE FROM events WHERE sequence = 2")
        text = json.dumps({**json.loads(event.text), "times": 2})
        append(connection, replace(event, text=text), first)
    connection.close()
    with pytest.raises(InputError, match=r"Charge 1 of this ledger .* Start a new one whose --mu is what is left"):
        Ledger.open(ledger.path)


def test_creating_never_replaces_a_file(ledger):
    before = ledger.path.read_bytes()
    with pytest.raises(OutputError, match="must not replace"):
        Ledger.create(ledger.path, "other", mu_total=99.0)
    assert ledger.path.read_bytes() == before
    assert [path.name for path in ledger.path.parent.iterdir()] == [ledger.path.name]


def test_creating_where_nothing_can_be_written_is_refused(tmp_path):
    with pytest.raises(OutputError, match="cannot be created"):
        Ledger.create(tmp_path / "no such folder" / "l", "d", mu_total=1.0)


def test_a_ledger_of_today_is_a_ledger_of_tomorrow(ledger):
    """What the file says of itself: SQLite's application id and version, and a chain that starts at 1."""
    header = ledger.path.read_bytes()[:100]
    assert header[68:72] == b"hzgl"
    assert int.from_bytes(header[60:64], "big") == 2
    ledger.begin_drawing(ledger.charge(Charge(0.5)).digest)
    with sqlite3.connect(ledger.path) as connection:
        rows = connection.execute("SELECT sequence, kind, charge, mu FROM events ORDER BY sequence").fetchall()
    connection.close()
    assert rows == [(1, "budget", 0, 1.0), (2, "charge", 1, 0.5), (3, "draw", 1, 0.0)]


def test_a_database_of_somebody_elses_is_not_taken_for_an_old_ledger(ledger):
    damage(ledger.path, "PRAGMA application_id = 7")
    with pytest.raises(InputError, match="is not a hazeglass ledger"):
        Ledger.open(ledger.path)


# ---- damage


def damage(path, how):
    if how == "foreign text":
        path.write_text("hello, I am a diary\n" * 500)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    elif how == "scribbled":
        content = bytearray(path.read_bytes())
        content[4096:4400] = os.urandom(304)
        path.write_bytes(content)
    elif how == "another database":
        path.unlink()
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE events (a)")
        connection.close()
    else:
        with sqlite3.connect(path) as connection:
            connection.execute(how)
        connection.close()


@pytest.mark.parametrize(
    "how",
    [
        "foreign text",
        "empty",
        "truncated",
        "scribbled",
        "another database",
        "UPDATE events SET mu = 0.01 WHERE kind = 'charge'",
        "UPDATE events SET mu = 'cheap' WHERE kind = 'charge'",
        "UPDATE events SET mu = 9 WHERE kind = 'budget'",
        "DELETE FROM events WHERE sequence = 2",
        "DELETE FROM events",
        "DROP TABLE events",
        "PRAGMA user_version = 3",
    ],
)
def test_a_damaged_or_foreign_file_is_refused_in_one_sentence(ledger, how):
    ledger.charge(Charge(0.3))
    ledger.charge(Charge(0.3))
    damage(ledger.path, how)
    for attempt in (lambda: Ledger.open(ledger.path), lambda: ledger.charge(Charge(0.1))):
        with pytest.raises(InputError, match=r"damaged|not a hazeglass ledger|version 3") as caught:
            attempt()
        assert str(ledger.path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="There is no ledger at"):
        Ledger.open(tmp_path / "none")


def test_a_ledger_that_is_locked_too_long_is_refused(ledger, monkeypatch):
    monkeypatch.setattr("hazeglass.publisher.ledger._PATIENCE", 0.05)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OutputError, match="cannot be used now: database is locked"):
        ledger.charge(Charge(0.1))
    other.execute("ROLLBACK")
    other.close()
    ledger.charge(Charge(0.1))


# ---- several at once


def _spend_all(path, mu, results):
    ledger, taken = Ledger.open(path), 0
    try:
        while True:
            ledger.charge(Charge(mu))
            taken += 1
    except BudgetExceededError:
        results.put(taken)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_publishers_at_once_never_spend_more_than_the_total(ledger):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_spend_all, args=(ledger.path, 0.1, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(results.get() for _ in workers) == 100 == len(ledger.history())
    assert compose([0.1] * 100) == pytest.approx(ledger.summary().mu_spent, rel=1e-15)


def test_a_ledger_opens_without_numpy():
    code = "import sys, hazeglass.publisher.ledger; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_copied_ledger_is_whole(ledger, tmp_path):
    ledger.charge(Charge(0.5, "naïve – 雪"))
    copy = shutil.copy(ledger.path, tmp_path / "copy")
    assert Ledger.open(copy).history() == ledger.history()


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_what_sqlite_would_take_for_a_journal_is_never_used_up(tmp_path, monkeypatch, ending):
    monkeypatch.setattr("hazeglass.publisher.ledger_events._TRIES", 2)
    path, beside = tmp_path / "b", tmp_path / f"b{ending}"
    with pytest.raises(InputError, match="must not end in"):
        Ledger.create(beside, "another", mu_total=50.0)
    ledger = Ledger.create(path, "one", mu_total=1.0)
    shutil.copy(path, beside)  # as a ledger of an older hazeglass, which had any name
    held = beside.read_bytes()
    with pytest.raises(PrivacyRefusal, match=r"is not a journal|holds it open"):
        ledger.summary()
    with pytest.raises(PrivacyRefusal, match=r"is not a journal|holds it open"):
        ledger.charge(Charge(0.5))
    assert beside.read_bytes() == held
    with pytest.raises(OutputError, match="must not have a file"):
        Ledger.create(tmp_path / "c" if beside.rename(tmp_path / f"c{ending}") else path, "new", mu_total=1.0)
    assert Ledger.open(path).summary().releases == 0


@pytest.mark.skipif(os.name != "posix", reason="rights of folders are POSIX's")
def test_a_ledger_where_everybody_may_write_a_journal_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hazeglass.publisher.ledger_events._TRIES", 2)
    ledger = Ledger.create(tmp_path / "b", "one", mu_total=1.0)
    beside = tmp_path / "b-journal"
    beside.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PrivacyRefusal, match="is not a journal"):
        ledger.summary()
    beside.unlink()
    tmp_path.chmod(0o1777)
    for use in (ledger.summary, lambda: Ledger.create(tmp_path / "c", "two", mu_total=1.0)):
        with pytest.raises(PrivacyRefusal, match="can be written by others"):
            use()
    tmp_path.chmod(0o755)
    assert ledger.summary().mu_total == 1.0


@pytest.mark.parametrize(
    ("mode", "group", "shared"),
    [(0o755, 50, False), (0o775, 50, True), (0o1775, 50, True), (0o775, 1000, False), (0o777, 1000, True)],
)
def test_a_folder_is_shared_where_others_than_its_owner_may_add_files(mode, group, shared):
    assert _is_shared(SimpleNamespace(st_mode=stat.S_IFDIR | mode, st_uid=1000, st_gid=group)) is shared


@pytest.mark.skipif(os.name != "posix", reason="owners of files are POSIX's")
def test_a_journal_of_somebody_else_rolls_nothing_back(tmp_path, monkeypatch):
    ledger, journal = Ledger.create(tmp_path / "b", "one", mu_total=1.0), tmp_path / "b-journal"
    journal.write_bytes(bytes.fromhex("d9d505f920a163d7"))
    theirs = SimpleNamespace(stat=lambda: SimpleNamespace(st_uid=os.getuid() + 1))  # a ledger of another account
    assert _is_journal(journal, ledger.path)
    assert _is_journal(journal, theirs)  # which we may write, and were interrupted at
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not _is_journal(journal, theirs)


def test_a_ledger_called_like_an_address_is_the_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger.create("b", "another", mu_total=9.0)
    assert Ledger.create("file:b", "one", mu_total=1.0).summary().dataset == "one"
