import json
import multiprocessing
import os
import shutil
import struct
import subprocess
import sys
import threading

import pytest

from hazeglass.errors import BudgetExceededError, InputError, OutputError, PrivacyRefusal
from hazeglass.guarantee.budget import Charge, compose
from hazeglass.guarantee.units import Period, Unit
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.ledger_events import MARK, _digest, read_chain


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


def test_rounding_lets_the_last_release_in_and_no_other_after_it(tmp_path):
    whole = Ledger.create(tmp_path / "whole", "meters", mu_total=1.0)
    for _ in range(2):  # two halves, whose squares add up to a little more than 1
        whole.charge(Charge(0.5**0.5))
    for mu in (1e-6, 1e-12, 1e-300):
        with pytest.raises(BudgetExceededError, match="at most 0 is left"):
            whole.charge(Charge(mu))


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


def test_a_ledger_under_two_names_is_one_ledger(ledger, tmp_path):
    os.link(ledger.path, tmp_path / "other")
    (tmp_path / "short").symlink_to("other")
    for name in ("budget.ledger", "other", "short"):
        Ledger(tmp_path / name).charge(Charge(0.5))
    for name in ("budget.ledger", "other", "short"):
        assert len(Ledger.open(tmp_path / name).history()) == 3
        with pytest.raises(BudgetExceededError):
            Ledger(tmp_path / name).charge(Charge(0.6))


def test_confirming_needs_an_announced_draw_and_happens_once(ledger):
    digest = ledger.charge(Charge(0.1)).digest
    with pytest.raises(InputError, match="'confirm' needs it to be drawn"):
        ledger.confirm(digest)
    ledger.begin_drawing(digest)
    with pytest.raises(InputError, match="is drawn; 'draw' needs it to be charged"):
        ledger.begin_drawing(digest)  # as by a process that was forked meanwhile
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


def an_older_ledger(version):
    """How a ledger of version 1 or 2 begins."""
    header = bytearray(b"SQLite format 3\0".ljust(8192, b"\0"))
    header[60:64], header[68:72] = version.to_bytes(4, "big"), b"hzgl"
    return bytes(header)


@pytest.mark.parametrize(
    ("content", "version"),
    [(an_older_ledger(1), 1), (an_older_ledger(2), 2), (b'{"hazeglass ledger": 4, "a": 1}\n', 4), (MARK + b"99}", 99)],
)
def test_a_ledger_of_another_version_is_refused_with_the_way_out(ledger, content, version):
    ledger.path.write_bytes(content)
    way_out = rf"of version {version}; this hazeglass reads version 3\. Start a new one whose --mu"
    for attempt in (ledger.summary, lambda: ledger.charge(Charge(0.1))):
        with pytest.raises(InputError, match=way_out):
            attempt()
    assert ledger.path.read_bytes() == content


def forged(path, line, raw=None, **changes):
    """Write a line anew, its digest and those of all behind it made to fit."""
    before, lines = "", path.read_bytes().splitlines()
    for k, old in enumerate(lines):
        said = json.loads(old)
        del said["digest"]
        here = k + 1 == line
        body = raw if here and raw is not None else json.dumps(said | changes if here else said).encode()
        digest = _digest(body, before)
        lines[k], before = body[:-1] + b', "digest": "' + digest + b'"}', digest.decode()
    path.write_bytes(b"\n".join(lines) + b"\n")


def test_a_charge_that_says_more_than_its_mu_is_refused_and_not_undercounted(ledger):
    ledger.charge(Charge(0.3))
    forged(ledger.path, 2)  # with no change, it is the same ledger
    assert ledger.summary().mu_spent == 0.3
    forged(ledger.path, 2, charge={"mu": 0.3, "times": 2})
    with pytest.raises(InputError, match=r"Line 2 of the ledger .* Start a new one whose --mu is what is left"):
        Ledger.open(ledger.path)


CHARGE = b'{"event": 2, "kind": "charge", "id": 1, "at": "2026-01-01T00:00:00+00:00", "charge": %b, "nonce": "a"}'


@pytest.mark.parametrize(
    "raw",
    [
        CHARGE % b'{"mu": "cheap"}',
        CHARGE % b'{"mu": NaN}',
        CHARGE % b'{"mu": Infinity}',
        CHARGE % b'{"mu": 1e999}',
        CHARGE % b'{"mu": -0.3}',
        CHARGE % b'{"mu": 1}',
        CHARGE % b'{"mu": true}',
        CHARGE % b'{"mu": 0.30}',
        CHARGE % b'{"mu": 0.9, "mu": 0.3}',
        CHARGE % b'{"mu": 0.3, "label": 5}',
        CHARGE % b'{"mu": 0.3, "label": "\xc3\xa4"}',
        CHARGE % b'{"mu": 0.3, "label": "\xff"}',
        CHARGE % b'{"mu": 0.3, "unit": "record"}',
        CHARGE % b'{"mu": 0.3, "unit": {"name": "all"}}',
        CHARGE % b'{"mu": 0.3, "unit": {"name": "entry", "together": 1.5}}',
        CHARGE % b'{"mu": 0.3, "step": 99999999999999999999, "lifetime": "a"}',
        CHARGE % b"null",
        CHARGE % b"[]",
        CHARGE % (b"[" * 30000 + b"]" * 30000),
        CHARGE % b"{}",
        CHARGE % b'{"mu": %b}' % (b"1" * 5000),
        (CHARGE % b'{"mu": 0.3}').replace(b', "nonce": "a"', b""),
        (CHARGE % b'{"mu": 0.3}').replace(b'"id": 1', b'"id": "1"'),
        (CHARGE % b'{"mu": 0.3}').replace(b'"id": 1', b'"id": true'),
        (CHARGE % b'{"mu": 0.3}').replace(b'"id": 1', b'"id": 2'),
        (CHARGE % b'{"mu": 0.3}').replace(b'"id": 1', b'"id": 0'),
        (CHARGE % b'{"mu": 0.3}').replace(b'"event": 2', b'"event": 3'),
        (CHARGE % b'{"mu": 0.3}').replace(b'"charge", "id"', b'"gift", "id"'),
        (CHARGE % b'{"mu": 0.3}').replace(b'"charge", "id"', b'"draw", "id"'),
        (CHARGE % b'{"mu": 0.3}').replace(b"2026-01-01", b"\\u001b[2J"),
        (CHARGE % b'{"mu": 0.3}').replace(b'"event"', b' "event"'),
        (CHARGE % b'{"mu": 0.3}').replace(b'{"event": 2', b'{"event": 2, "digest": "a"'),
        b'{"event": 2, "kind": "draw", "id": 1, "at": "2026-01-01T00:00:00+00:00"}',
        b'{"event": 2, "kind": "refund", "id": -1, "at": "2026-01-01T00:00:00+00:00"}',
        b"{}",
        b"{",
        b"[1}",
    ],
)
def test_a_line_is_read_only_if_it_is_what_hazeglass_writes(ledger, raw):
    """Also where somebody made its digest fit."""
    ledger.charge(Charge(0.3))
    forged(ledger.path, 2, raw=CHARGE % b'{"mu": 0.3}')
    assert ledger.summary().mu_spent == 0.3
    forged(ledger.path, 2, raw=raw)
    with pytest.raises(InputError, match=r"damaged|charged otherwise") as caught:
        ledger.summary()
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(". ") == 1  # what is the matter, and what to do


BUDGET = b'{"hazeglass ledger": 3, "event": 1, "kind": "budget", "id": 0, "at": "2026-01-01", "budget": %b}'


@pytest.mark.parametrize(
    "raw",
    [
        BUDGET % b'{"dataset": "d", "mu_total": 1.0, "epsilon": NaN}',
        BUDGET % b'{"dataset": "d", "mu_total": 1.0, "epsilon": 1e999}',
        BUDGET % b'{"dataset": "d", "mu_total": 1.0, "delta": "small"}',
        BUDGET % b'{"dataset": "d", "mu_total": 1.0, "epsilon": null}',
        BUDGET % b'{"dataset": "d", "mu_total": -1.0}',
        BUDGET % b'{"dataset": "d"}',
        BUDGET % b'{"dataset": "two\\nlines", "mu_total": 1.0}',
        BUDGET % b'{"dataset": 7, "mu_total": 1.0}',
        BUDGET % b'{"dataset": "d", "mu_total": 1.0, "id_column": "a"}',
        BUDGET % b'{"dataset": "d", "mu_total": 1.0, "owner": "me"}',
        (BUDGET % b'{"dataset": "d", "mu_total": 1.0}').replace(b'"id": 0', b'"id": 1'),
        (BUDGET % b'{"dataset": "d", "mu_total": 1.0}').replace(b'"kind": "budget"', b'"kind": "charge"'),
        (BUDGET % b'{"dataset": "d", "mu_total": 1.0}').replace(b'"event": 1', b'"event": 1.0'),
    ],
)
def test_a_budget_is_read_only_if_it_is_what_hazeglass_writes(ledger, raw):
    forged(ledger.path, 1, raw=BUDGET % b'{"dataset": "d", "mu_total": 1.0}')
    assert ledger.summary().mu_total == 1.0
    forged(ledger.path, 1, raw=raw)
    with pytest.raises(InputError, match=r"damaged|charged otherwise"):
        ledger.summary()


def test_a_second_budget_is_no_budget(ledger):
    ledger.charge(Charge(0.3))
    raw = BUDGET % b'{"dataset": "d", "mu_total": 9.0}'
    forged(ledger.path, 2, raw=raw.replace(b'"hazeglass ledger": 3, "event": 1', b'"event": 2'))
    with pytest.raises(InputError, match="Line 2"):
        ledger.summary()


@pytest.mark.parametrize("kind", ["draw", "confirm", "refund"])
def test_what_cannot_have_happened_to_a_charge_is_damage(ledger, kind):
    ledger.refund(ledger.charge(Charge(0.3)).digest)
    ledger.refund(ledger.charge(Charge(0.3)).digest)
    assert ledger.summary().mu_spent == 0
    forged(ledger.path, 5, kind=kind, id=1)
    with pytest.raises(InputError, match="line 5 says what cannot have happened"):
        ledger.summary()


def test_charges_beyond_all_numbers_are_damage(tmp_path):
    ledger = Ledger.create(tmp_path / "l", "d", mu_total=1.7e308)
    for _ in range(9):
        ledger.charge(Charge(1.0))
    for line in range(2, 11):
        forged(ledger.path, line, charge={"mu": 1.7e308})
    with pytest.raises(InputError, match="no number is as large"):
        ledger.summary()


def test_what_is_charged_is_read_back_to_the_last_bit(tmp_path):
    unit = Unit("readings", readings=96, together=3)
    ledger = Ledger.create(tmp_path / "l", 'a "naïve" \\ 雪 🎿', mu_total=2, unit=Unit("entry"))
    charges = [
        Charge(0.1 + 0.2, "naïve – 雪 🎿\t\x00\ud800", 2.0**-100, unit, None, Period("month", "1"), "1", "int"),
        Charge(5e-324, unit=Unit("record")),
        Charge(1, "whole"),
    ]
    for charge in charges:
        assert ledger.charge(charge) == ledger.history()[-1]
    assert [entry.charge for entry in ledger.history()] == charges
    assert ledger.path.read_bytes().isascii()


def test_a_name_that_is_too_long_for_a_line_is_refused_and_leaves_the_ledger_as_it_was(ledger):
    before = ledger.path.read_bytes()
    with pytest.raises(InputError, match=r"at most 65,536 bytes, and this one would have 70,\d\d\d\. Shorten"):
        ledger.charge(Charge(0.1, "x" * 70000))
    assert ledger.path.read_bytes() == before


def test_creating_never_replaces_a_file(ledger):
    before = ledger.path.read_bytes()
    with pytest.raises(OutputError, match="must not replace"):
        Ledger.create(ledger.path, "other", mu_total=99.0)
    assert ledger.path.read_bytes() == before
    assert [path.name for path in ledger.path.parent.iterdir()] == [ledger.path.name]


def test_creating_where_nothing_can_be_written_is_refused(tmp_path):
    with pytest.raises(OutputError, match=r"folder of .* does not exist"):
        Ledger.create(tmp_path / "no such folder" / "l", "d", mu_total=1.0)


def test_a_ledger_of_today_is_a_ledger_of_tomorrow():
    """A file that was written in 2026, with every kind of line."""
    said = read_chain(WRITTEN, "written").entries
    assert [(entry.charge, entry.state, entry.event) for entry in said] == [
        (Charge(0.5, "a", 2.0**-100), "refunded", 2),
        (Charge(0.25, "b", period=Period("month", "3"), cells="3", reading="int"), "confirmed", 4),
        (Charge(0.125, unit=Unit("person", max_rows=2), id_column="id", lifetime="c", step=1), "charged", 7),
    ]


WRITTEN = b"""\
{"hazeglass ledger": 3, "event": 1, "kind": "budget", "id": 0, "at": "2026-11-19T20:55:30+00:00", "budget": \
{"dataset": "meters", "mu_total": 1.0}, "digest": "91de5e8ff38e82b79dcc5f95416db8cdfa240244ef2d22ef7cec01c68f9542ff"}
{"event": 2, "kind": "charge", "id": 1, "at": "2026-11-19T20:55:30+00:00", "charge": {"mu": 0.5, "label": "a", \
"total_variation": 7.888609052210118e-31}, "nonce": "ae7a3153f6b6362b403f0bc7ec17dd58", "digest": \
"87c8e2ee28cfa38b5eb605262c95d20e21fc180d84d7010a0a00213035bc712b"}
{"event": 3, "kind": "refund", "id": 1, "at": "2026-11-19T20:55:30+00:00", "digest": \
"9724adfb077a822a18ce130ca972cd732a8a263603e18af98ad0f6b4b1a07984"}
{"event": 4, "kind": "charge", "id": 2, "at": "2026-11-19T20:55:30+00:00", "charge": {"mu": 0.25, "label": "b", \
"period": {"column": "month", "value": "3"}, "cells": "3", "reading": "int"}, "nonce": \
"d2469b771ecd64ca1564921497b67538", "digest": "7106d1ea56fe6e30b3b94a4892ab412e2847d34c713ef793021412a16cf431ec"}
{"event": 5, "kind": "draw", "id": 2, "at": "2026-11-19T20:55:30+00:00", "digest": \
"ddeeb2ffd6d04e650ce2833f12a0e09a65ac7e0f43541ad937781d42fa9c900d"}
{"event": 6, "kind": "confirm", "id": 2, "at": "2026-11-19T20:55:30+00:00", "digest": \
"8727f6cfcf6bfcd622257cfb6b3051c72dbcbe39ae9481a5e1f9e53405ff8f32"}
{"event": 7, "kind": "charge", "id": 3, "at": "2026-11-19T20:55:30+00:00", "charge": {"mu": 0.125, "unit": {"name": \
"person", "max_rows": 2}, "id_column": "id", "lifetime": "c", "step": 1}, "nonce": \
"c20b4886a32add5786e6b9296691c208", "digest": "3991f2488b5cfef005456f4aa1e5f22265c3742f6caf4fd7f3ad9b28919ca55c"}
"""


# ---- damage


DAMAGE = {
    "a diary": lambda content: b"hello, I am a diary\n" * 500,
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(5000),
    "another database": lambda content: b"SQLite format 3\0".ljust(4096, b"\0"),
    "a byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "wide letters": lambda content: content.decode().encode("utf-16"),
    "line ends of Windows": lambda content: content.replace(b"\n", b"\r\n"),
    "line ends of old Macs": lambda content: content.replace(b"\n", b"\r"),
    "no line ends": lambda content: content.replace(b"\n", b""),
    "a first line cut": lambda content: content[:100],
    "another budget": lambda content: content.replace(b'"mu_total": 1.0', b'"mu_total": 9.0'),
    "a cheap charge": lambda content: content.replace(b"0.3", b"0.1", 1),
    "a charge taken out": lambda content: b"".join(content.splitlines(keepends=True)[k] for k in (0, 2)),
    "two lines swapped": lambda content: b"".join(content.splitlines(keepends=True)[k] for k in (0, 2, 1)),
    "a line twice": lambda content: content + content.splitlines(keepends=True)[-1],
    "no budget": lambda content: b"".join(content.splitlines(keepends=True)[1:]),
    "a blank line at the end": lambda content: content + b"\n",
    "a blank line inside": lambda content: content.replace(b"\n", b"\n\n", 1),
    "a line of one letter": lambda content: content.replace(b"\n", b"\n}\n", 1),
    "a blank line first": lambda content: b"\n" + content,
    "a note at the end": lambda content: content + b"refund all\n",
    "zeros with an end": lambda content: content + bytes(50) + b"\n",
    "a huge line": lambda content: content + b"a" * (1 << 17),
    "a digest of capitals": lambda content: content[:-30] + content[-30:].upper(),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_or_foreign_file_is_refused_in_one_sentence(ledger, how):
    for label in "ab":
        ledger.charge(Charge(0.3, label))
    damaged = DAMAGE[how](ledger.path.read_bytes())
    ledger.path.write_bytes(damaged)
    for attempt in (lambda: Ledger.open(ledger.path), lambda: ledger.charge(Charge(0.1))):
        with pytest.raises(InputError, match=r"damaged|not a hazeglass ledger") as caught:
            attempt()
        assert caught.value.exit_status == 2
        assert str(ledger.path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert ledger.path.read_bytes() == damaged
    if how == "line ends of Windows":
        assert "converted the ends of its lines" in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a file with a hole takes its whole size")
def test_a_file_of_any_size_is_refused(ledger):
    os.truncate(ledger.path, 1 << 40)  # a file with a hole
    with pytest.raises(InputError, match="larger than 67,108,864 bytes"):
        ledger.summary()
    ledger.path.write_bytes(b"x")
    os.truncate(ledger.path, 1 << 40)
    with pytest.raises(InputError, match="not a hazeglass ledger"):
        ledger.summary()


def test_a_full_ledger_takes_no_charge_and_settles_those_it_has(ledger, monkeypatch):
    digest = ledger.charge(Charge(0.3)).digest
    monkeypatch.setattr("hazeglass.publisher.ledger.LARGEST", 300)
    with pytest.raises(OutputError, match="is full"):
        ledger.charge(Charge(0.1))
    monkeypatch.setattr("hazeglass.publisher.ledger.LARGEST", 3000)
    ledger.begin_drawing(digest)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="There is no ledger at"):
        Ledger.open(tmp_path / "none")


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


def test_threads_at_once_never_spend_more_than_the_total(ledger):
    taken = []

    def spend():
        try:
            while True:
                taken.append(Ledger(ledger.path).charge(Charge(0.1)).id)
        except BudgetExceededError:
            pass

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 101))


def test_a_ledger_opens_without_numpy():
    code = "import sys, hazeglass.publisher.ledger; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_copied_ledger_is_whole(ledger, tmp_path):
    ledger.charge(Charge(0.5, "naïve – 雪"))
    copy = shutil.copy(ledger.path, tmp_path / "copy")
    assert Ledger.open(copy).history() == ledger.history()


@pytest.mark.parametrize("content", ["empty", "a copy", "the mark of a journal"])
def test_files_beside_a_ledger_change_nothing(ledger, content):
    """Neither those that a database would take for its own, nor any other: they are not even opened."""
    endings = ("-journal", "-wal", "-shm", ".lock", ".bak", ".tmp", "~", ".partial")
    held = {
        "empty": b"",
        "a copy": ledger.path.read_bytes(),
        "the mark of a journal": bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 1, 7, 1, 512, 512),
    }[content]
    first = ledger.charge(Charge(0.5))
    beside = [ledger.path.with_name(ledger.path.name + ending) for ending in endings]
    for path in beside:
        path.write_bytes(held)
    ledger.begin_drawing(first.digest)
    ledger.charge(Charge(0.5))
    ledger.confirm(first.digest)
    assert [entry.state for entry in Ledger.open(ledger.path).history()] == ["confirmed", "charged"]
    assert {path.read_bytes() for path in beside} == {held}
    assert set(ledger.path.parent.iterdir()) == {ledger.path, *beside}


def test_a_ledger_may_be_called_as_anything_else(tmp_path):
    for name in ("b-journal", "b-wal", "b.lock", "b"):
        Ledger.create(tmp_path / name, name, mu_total=1.0).charge(Charge(0.5))
    assert [Ledger.open(tmp_path / name).summary().releases for name in ("b-journal", "b")] == [0, 0]


def test_a_ledger_called_like_an_address_is_the_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger.create("b", "another", mu_total=9.0)
    assert Ledger.create("file:b", "one", mu_total=1.0).summary().dataset == "one"
