"""What a ledger file holds: a chain of events, each with a digest over itself and the one before; and what follows from
them: the budget, the state of each charge, whether one more fits, and whether a release was paid for."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import stat
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hazeglass.errors import InputError, OutputError, PrivacyRefusal
from hazeglass.guarantee.budget import RECORD, Charge, check_fits
from hazeglass.guarantee.units import Period, Unit

if TYPE_CHECKING:
    from hazeglass.bundle.manifest import Manifest

APPLICATION_ID = 0x687A676C  # "hzgl": how `file` and SQLite tell a ledger from other databases
VERSION = 2
SCHEMA = """
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    charge INTEGER NOT NULL,
    at TEXT NOT NULL,
    text TEXT NOT NULL,
    mu REAL NOT NULL,
    total_variation REAL NOT NULL,
    digest TEXT NOT NULL
)
"""
_TYPES = [str, int, str, str, float, float, int, str]
_OF_A_PERIOD, _OF_A_LIFETIME = ("period", "cells", "reading"), ("lifetime", "step", "follows")
_KINDS = ("budget", "charge", "draw", "confirm", "refund")
_NEIGHBOURS = ("-journal", "-wal", "-shm")  # what SQLite keeps beside a file; a ledger has the first alone
_JOURNAL = bytes.fromhex("d9d505f920a163d7")
_TRIES, _WAIT = 30, 0.1  # seconds


@dataclass(frozen=True)
class Event:
    """One line of the ledger. `digest` and `sequence` are empty until it has been appended."""

    kind: str
    charge: int
    at: str
    text: str = ""
    mu: float = 0.0
    total_variation: float = 0.0
    sequence: int = 0
    digest: str = ""

    def chained(self, previous: Event | None) -> Event:
        """This event as the successor of `previous`."""
        sequence = previous.sequence + 1 if previous else 1
        fields = [sequence, self.kind, self.charge, self.at, self.text, self.mu.hex(), self.total_variation.hex()]
        before = previous.digest if previous else ""
        digest = hashlib.sha256(json.dumps([before, *fields]).encode()).hexdigest()
        return replace(self, sequence=sequence, digest=digest)


@dataclass(frozen=True)
class Budget:
    """The first event: whose budget it is and how much. epsilon and delta only if it was stated so; `id_column` says
    who is one person, where persons are protected."""

    dataset: str
    mu_total: float
    epsilon: float | None = None
    delta: float | None = None
    unit: Unit = RECORD
    id_column: str | None = None

    def __post_init__(self) -> None:
        if not (0 < len(self.dataset) <= 200 and self.dataset.isprintable()):  # every release will name it
            raise InputError(
                "A dataset's name must be 1 to 200 printable characters, and this one is not. Choose another."
            )
        Charge(self.mu_total)  # a budget must be what a charge must be: positive and finite
        if self.unit.name == "person" and not self.id_column:
            raise InputError(
                "A budget that protects persons needs the column whose ids say who is one person, and none was given. "
                "Name it with id_column (--id-column)."
            )
        if self.unit.name != "person" and self.id_column is not None:
            raise InputError(
                f"An id column belongs to a budget that protects persons, and this one protects {self.unit.in_words}. "
                "Leave it out, or protect persons."
            )

    def event(self, at: str) -> Event:
        facts = {key: value for key, value in asdict(self).items() if key != "mu_total"}
        return Event("budget", 0, at, json.dumps(facts), self.mu_total)

    @classmethod
    def from_event(cls, event: Event) -> Budget:
        facts = json.loads(event.text)
        return cls(mu_total=event.mu, **{**facts, "unit": Unit(**facts["unit"])})


@dataclass(frozen=True)
class Entry:
    """One charge, made by the event number `event` with this `digest`, and what became of it: `state` is charged,
    drawn, confirmed or refunded."""

    id: int
    charge: Charge
    event: int
    digest: str
    charged_at: str
    state: str = "charged"
    settled_at: str = ""

    @property
    def counts(self) -> bool:
        return self.state != "refunded"


def charge_event(charge: Charge, identifier: int, at: str) -> Event:
    """The event that takes the charge's mu.

    A release shows this event's digest. The nonce keeps anyone from guessing the events behind it, and makes the
    digests of two charges differ even where a ledger was copied and both copies were charged alike.
    """
    facts = asdict(charge)
    mu, total_variation = facts.pop("mu"), facts.pop("total_variation")
    if charge.period is None:
        facts = {key: value for key, value in facts.items() if key not in _OF_A_PERIOD}
    if not charge.lifetime:
        facts = {key: value for key, value in facts.items() if key not in _OF_A_LIFETIME}
    text = json.dumps({**facts, "nonce": secrets.token_hex(16)})
    return Event("charge", identifier, at, text, mu, total_variation)


def _charge(event: Event) -> Charge:
    """The charge; refused where it says more than this hazeglass knows, because that may be about what it costs."""
    facts = json.loads(event.text)
    del facts["nonce"]
    if "period" in facts:
        facts["period"] = Period(**facts["period"])
    try:
        return Charge(mu=event.mu, total_variation=event.total_variation, **{**facts, "unit": Unit(**facts["unit"])})
    except TypeError:
        raise InputError(
            f"Charge {event.charge} of this ledger was written by a hazeglass that charged otherwise. Start a new one "
            "whose --mu is what is left in this one, as the hazeglass that wrote it says (`hazeglass ledger show`)."
        ) from None


def check_charge(budget: Budget, entries: list[Entry], charge: Charge) -> None:
    """Refuse a release whose mu says nothing about this budget, or does not fit."""
    if charge.unit.name == "person" and budget.unit.name != "person":
        raise PrivacyRefusal(
            f"The budget of {budget.dataset!r} protects {budget.unit.in_words}, where an id may change, and a release "
            "that protects persons does not hide that: make a ledger that protects persons for it (`hazeglass ledger "
            "new` with --protects person --id-column)."
        )
    if not charge.unit.covers(budget.unit):
        raise PrivacyRefusal(
            f"The budget of {budget.dataset!r} protects {budget.unit.in_words}, and this release protects only "
            f"{charge.unit.in_words}: its mu says nothing about that budget. Change the plan, or use another ledger."
        )
    if budget.id_column is not None and charge.id_column != budget.id_column:
        raise PrivacyRefusal(
            f"The budget of {budget.dataset!r} tells persons apart by the column {budget.id_column!r}, and this "
            f"release by {charge.id_column!r}: they may be other persons. Change the plan, or use another ledger."
        )
    if charge.lifetime:
        _check_step(entries, charge)
    check_fits(budget.dataset, budget.mu_total, [entry.charge for entry in entries if entry.counts], charge)


def _check_step(entries: list[Entry], charge: Charge) -> None:
    """Refuse a draw of a lifetime that was made before, or that does not go on from the one before it: the promise is
    that of one draw for each period."""
    own = {one.charge.step: one for one in entries if one.counts and one.charge.lifetime == charge.lifetime}
    if charge.step in own:
        raise PrivacyRefusal(
            f"Period number {charge.step} of this lifetime was drawn before, for charge {own[charge.step].id} "
            f"({own[charge.step].charge.label!r}), and a second draw would say more than the lifetime promises. Use "
            "the release that was made then, or start another lifetime, which costs its own mu."
        )
    before = own.get(charge.step - 1)
    if charge.step > 1 and (before is None or before.state == "charged" or before.digest != charge.follows):
        raise PrivacyRefusal(
            f"Period number {charge.step} of this lifetime must follow the release of number {charge.step - 1} that "
            "was charged here by the same plan, and it does not. Change nothing in the plan but title and period, and "
            "name that release with --after."
        )


def fault(name: str, manifest: Manifest, budget: Budget, entries: list[Entry], last: int) -> str | None:
    paid = manifest.ledger
    if paid is None:
        return f"{name} names no ledger, so no budget counts it."
    if paid.dataset != budget.dataset:
        return f"{name} was charged to the ledger of {paid.dataset!r}, and this is the ledger of {budget.dataset!r}."
    entry = next((entry for entry in entries if entry.digest == paid.digest and entry.event == paid.event), None)
    if entry is None:
        found = f"which ends at event {last}" if paid.event > last else f"whose event {paid.event} is another"
        return (
            f"{name} was charged by event {paid.event} of this ledger, {found}: its end was cut off, or another copy "
            "was put in its place."
        )
    if entry.state not in ("drawn", "confirmed"):
        return (
            f"{name} is published, and the ledger says of its charge {entry.id} only that it is {entry.state}: its end "
            "was cut off, or an older copy was put back."
        )
    charge = entry.charge
    step = 0 if manifest.lifetime is None else manifest.lifetime.step
    stated = manifest.mu, manifest.unit, manifest.title, manifest.period, step
    if (charge.mu, charge.unit, charge.label, charge.period, charge.step) != stated:
        return (
            f"{name} promises mu = {manifest.mu:.6g} for {manifest.unit.in_words}{_where(manifest.period)}, and charge "
            f"{entry.id}, which it names, is {charge.label!r} with mu = {charge.mu:.6g} for {charge.unit.in_words}"
            f"{_where(charge.period)}."
        )
    return None


def _where(period: Period | None) -> str:
    return "" if period is None else f" in {period.column} {period.value!r}"


def fold(events: list[Event]) -> tuple[Budget, list[Entry]]:
    """From the events to the budget and to the state of each charge."""
    entries: dict[int, Entry] = {}
    states = {"draw": "drawn", "confirm": "confirmed", "refund": "refunded"}
    for event in events[1:]:
        if event.kind == "charge":
            entries[event.charge] = entry_of(event)
        else:
            entries[event.charge] = replace(entries[event.charge], state=states[event.kind], settled_at=event.at)
    return Budget.from_event(events[0]), list(entries.values())


def entry_of(event: Event) -> Entry:
    return Entry(event.charge, _charge(event), event.sequence, event.digest, event.at)


def append(connection: sqlite3.Connection, event: Event, previous: Event | None) -> Event:
    """Add an event to the end of the chain, inside the caller's transaction; returned as it is there."""
    new = event.chained(previous)
    connection.execute(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (new.sequence, new.kind, new.charge, new.at, new.text, new.mu, new.total_variation, new.digest),
    )
    return new


def read_events(connection: sqlite3.Connection, path: Path) -> list[Event]:
    """The whole chain, verified; another program's file or a damaged one is refused."""
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise InputError(f"{path} is not a hazeglass ledger. Give the file that `hazeglass ledger new` made.")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise InputError(
            f"{path} is a ledger of version {version}; this hazeglass reads version {VERSION}. Start a new one whose "
            "--mu is what is left in this one, as the hazeglass that wrote it says (`hazeglass ledger show`)."
        )
    if connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'events'").fetchone() != (1,):
        raise _damaged(path, "it has no events")
    rows = connection.execute(
        "SELECT kind, charge, at, text, mu, total_variation, sequence, digest FROM events ORDER BY sequence"
    ).fetchall()
    events: list[Event] = []
    for row in rows:
        event = Event(*row)
        previous = events[-1] if events else None
        sound = [type(value) for value in row] == _TYPES and event.kind in _KINDS
        if not sound or event != event.chained(previous):
            raise _damaged(path, f"event {len(events) + 1} does not follow from the one before")
        events.append(event)
    if not events or events[0].kind != "budget":
        raise _damaged(path, "it does not begin with a budget")
    return events


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"The ledger {path} is damaged: {why}. Restore it from a copy; nothing may be charged to it.")


def check_neighbours(path: Path, *, new: bool = False) -> None:
    """Refuse what SQLite would take for the journal of a broken transaction, and roll the ledger back by.

    Whoever may make files in a ledger's folder may make a journal, whatever the rights of the ledger itself.
    """
    real = Path(os.path.realpath(path))
    if real.name.endswith(_NEIGHBOURS):
        raise InputError(f"A ledger's name must not end in {', '.join(_NEIGHBOURS)}, got {path.name}. Choose another.")
    if os.name == "posix" and real.parent.is_dir() and _is_shared(real.parent.stat()):
        raise PrivacyRefusal(
            f"The ledger's folder {real.parent} can be written by others, who could take charges back by a file beside "
            "the ledger. Keep the ledger in a folder that its owner alone may write (chmod go-w)."
        )
    for ending in _NEIGHBOURS:
        beside = real.with_name(real.name + ending)
        if not os.path.lexists(beside):
            continue
        if new:
            raise OutputError(
                f"A new ledger must not have a file {beside.name} beside it, which would be taken for its own journal. "
                "Choose another name, or bring back the ledger that the file belongs to."
            )
        if ending != _NEIGHBOURS[0]:
            raise PrivacyRefusal(
                f"A ledger must have no file {beside.name} beside it: another program holds it open, or held it. Close "
                "that program, and run `PRAGMA journal_mode = DELETE` in it, which keeps what was charged."
            )
        for _ in range(_TRIES):  # another publisher's own journal is gone when its transaction has ended
            if trusted := _is_journal(beside, real):
                break
            time.sleep(_WAIT)
        if not trusted:
            raise PrivacyRefusal(
                f"The file {beside.name} beside the ledger {path} is not a journal that its owner or you made, and "
                "reading the ledger would use it up. Let the one who made it look, and keep a copy of both files."
            )


def _is_shared(folder: os.stat_result) -> bool:
    """Whether others than its owner may add files: everybody, or a group that is not the owner's own."""
    of_group = bool(folder.st_mode & stat.S_IWGRP) and folder.st_gid != folder.st_uid
    return of_group or bool(folder.st_mode & stat.S_IWOTH)


def _is_journal(path: Path, ledger: Path) -> bool:
    """Whether SQLite made it, or is making it, for the ledger's owner or for us: whoever may add a file to the folder
    could roll the ledger back by one. It begins with zeros until all of it is on disk."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return True  # its transaction has ended since
    except OSError:
        return False
    with open(handle, "rb") as file:
        info = os.fstat(handle)
        begin = file.read(len(_JOURNAL)) if stat.S_ISREG(info.st_mode) else b"no file"
    owners = {ledger.stat().st_uid, os.geteuid()} if os.name == "posix" else {info.st_uid}
    return info.st_uid in owners and info.st_nlink <= 1 and (_JOURNAL.startswith(begin) or not any(begin))
