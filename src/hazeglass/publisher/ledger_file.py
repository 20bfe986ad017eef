"""The ledger as a file: every release of a dataset is charged here before a single bit of noise is drawn.

The file is an SQLite database that only grows: a list of events, each carrying a digest of itself and of the one
before. What was spent is what the events say, so nothing is overwritten and damage shows.

    charge   the budget is taken                        always first
    draw     noise is about to be drawn                 from here on the charge stays, whatever happens
    confirm  the release is complete on disk
    refund   the budget is given back                   only where no draw was announced

A process that dies leaves its charge behind: the ledger may count too much, never too little. No connection outlives
a call, so that a Ledger can be used from threads and forked children alike. What the chain cannot show is its own end
being cut off; the releases can, because each names the event that charged it (`Ledger.faults`).
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hazeglass.errors import InputError, OutputError, PrivacyRefusal
from hazeglass.guarantee.ledger import RECORD, Charge, check_fits, compose, remaining
from hazeglass.guarantee.sensitivity import Unit
from hazeglass.publisher.ledger_events import (
    APPLICATION_ID,
    SCHEMA,
    VERSION,
    Budget,
    Event,
    append,
    charge_event,
    charge_from_event,
    read_events,
)

if TYPE_CHECKING:
    from hazeglass.bundle.manifest import Manifest

__all__ = ["Entry", "Ledger", "Summary"]

_PATIENCE = 60.0  # seconds to wait for another publisher's transaction, which takes milliseconds


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


@dataclass(frozen=True)
class Summary:
    """The state of a budget."""

    dataset: str
    unit: Unit
    id_column: str | None
    mu_total: float
    mu_spent: float
    mu_remaining: float
    epsilon: float | None
    delta: float | None
    total_variation: float
    releases: int
    unfinished: int


class Ledger:
    """A dataset's budget in a file. Use `create` or `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        dataset: str,
        *,
        mu_total: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: Unit = RECORD,
        id_column: str | None = None,
    ) -> Ledger:
        """A new ledger: the budget as mu, or as epsilon and delta, for the unit it protects (persons are told apart by
        `id_column`). It appears complete or not at all."""
        path = Path(path)
        budget = Budget(dataset, _total(mu_total, epsilon, delta), epsilon, delta, unit, id_column)
        try:
            with tempfile.TemporaryDirectory(prefix=".ledger-", dir=path.parent) as folder:
                draft = Path(folder) / "ledger"
                with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {VERSION}")
                    connection.execute("PRAGMA synchronous = EXTRA")
                    connection.execute(SCHEMA)
                    append(connection, budget.event(_now()), previous=None)
                os.link(draft, path)  # unlike a rename, a link never replaces what is there
            _sync_folder(path.parent)
        except FileExistsError:
            raise OutputError(
                f"A ledger must not replace a file: {path} exists. Open it, or choose another name."
            ) from None
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"The ledger {path} cannot be created: {error}.") from None
        return cls(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """An existing ledger, read through once to see that it is whole."""
        ledger = cls(Path(path))
        ledger.summary()
        return ledger

    def charge(self, charge: Charge) -> Entry:
        """Take the budget for a release, on disk when this returns; the entry's id is for what follows."""
        with self._transaction(write=True) as (connection, events):
            budget, entries = _fold(events)
            _check_room(budget, entries, charge)
            event = charge_event(charge, len(entries) + 1, _now())
            return _entry(append(connection, event, previous=events[-1]))

    def check(self, charge: Charge) -> None:
        """Refuse what `charge` would refuse, and write nothing."""
        with self._transaction(write=False) as (_, events):
            _check_room(*_fold(events), charge)

    def begin_drawing(self, identifier: int) -> None:
        """Say that noise is about to be drawn for this charge. From here on it cannot be given back."""
        self._settle(identifier, "draw", allowed=("charged", "drawn"))

    def confirm(self, identifier: int) -> None:
        """Say that the release is complete. It must have announced its draws: a release without noise is none."""
        self._settle(identifier, "confirm", allowed=("drawn",))

    def refund(self, identifier: int) -> None:
        """Give the budget back because nothing was drawn."""
        self._settle(identifier, "refund", allowed=("charged",))

    def history(self) -> list[Entry]:
        """Every charge ever made, in order."""
        with self._transaction(write=False) as (_, events):
            return _fold(events)[1]

    def summary(self) -> Summary:
        """Total, spent, left."""
        with self._transaction(write=False) as (_, events):
            budget, entries = _fold(events)
        counted = [entry for entry in entries if entry.counts]
        mus = [entry.charge.mu for entry in counted]
        return Summary(
            dataset=budget.dataset,
            unit=budget.unit,
            id_column=budget.id_column,
            mu_total=budget.mu_total,
            mu_spent=compose(mus),
            mu_remaining=remaining(budget.mu_total, mus),
            epsilon=budget.epsilon,
            delta=budget.delta,
            total_variation=sum(entry.charge.total_variation for entry in counted),
            releases=sum(entry.state == "confirmed" for entry in counted),
            unfinished=sum(entry.state != "confirmed" for entry in counted),
        )

    def faults(self, releases: Mapping[str, Manifest]) -> list[str]:
        """One sentence for each of the releases, given by name, that is not charged here as it says it is.

        A ledger that lost its end, or that an older copy has replaced, is found by the releases it no longer knows.
        """
        with self._transaction(write=False) as (_, events):
            budget, entries = _fold(events)
        faults = [_fault(name, manifest, budget, entries, len(events)) for name, manifest in releases.items()]
        seen: dict[str, tuple[str, Manifest]] = {}
        for name, manifest in releases.items():
            if manifest.ledger is not None:
                other, theirs = seen.setdefault(manifest.ledger.digest, (name, manifest))
                if theirs != manifest:
                    faults.append(
                        f"{other} and {name} are two releases and name one charge: only one of them was paid."
                    )
        return [fault for fault in faults if fault]

    def _settle(self, identifier: int, kind: str, allowed: tuple[str, ...]) -> None:
        with self._transaction(write=True) as (connection, events):
            states = {entry.id: entry.state for entry in _fold(events)[1]}
            if identifier not in states:
                raise InputError(f"The ledger {self.path} has no charge {identifier}; it holds {len(states)}.")
            if states[identifier] not in allowed:
                raise InputError(
                    f"Charge {identifier} of {self.path} is {states[identifier]}; '{kind}' needs it to be "
                    f"{' or '.join(allowed)}. What noise was drawn for stays spent."
                )
            append(connection, Event(kind, identifier, _now()), previous=events[-1])

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[tuple[sqlite3.Connection, list[Event]]]:
        """The events under a lock; what the block appends is on disk when it ends, or not at all."""
        if not self.path.is_file():
            raise InputError(f"There is no ledger at {self.path}. Make one with `hazeglass ledger new`.")
        try:
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)) as connection:
                # EXTRA is FULL and also syncs the folder, so that a power cut cannot bring a journal back.
                connection.execute("PRAGMA synchronous = EXTRA")
                try:
                    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    yield connection, read_events(connection, self.path)
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:  # locked, read-only, disk full: not the file's contents
            raise OutputError(f"The ledger {self.path} cannot be used now: {error}.") from None
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{self.path} is not a ledger, or it is damaged ({error}). Restore it from a copy."
            ) from None


def _check_room(budget: Budget, entries: list[Entry], charge: Charge) -> None:
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
    check_fits(budget.dataset, budget.mu_total, [entry.charge.mu for entry in entries if entry.counts], charge.mu)


def _fault(name: str, manifest: Manifest, budget: Budget, entries: list[Entry], last: int) -> str | None:
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
    if (charge.mu, charge.unit, charge.label) != (manifest.mu, manifest.unit, manifest.title):
        return (
            f"{name} promises mu = {manifest.mu:.6g} for {manifest.unit.in_words}, and charge {entry.id}, which it "
            f"names, is {charge.label!r} with mu = {charge.mu:.6g} for {charge.unit.in_words}."
        )
    return None


def _fold(events: list[Event]) -> tuple[Budget, list[Entry]]:
    """From the events to the budget and to the state of each charge."""
    entries: dict[int, Entry] = {}
    states = {"draw": "drawn", "confirm": "confirmed", "refund": "refunded"}
    for event in events[1:]:
        if event.kind == "charge":
            entries[event.charge] = _entry(event)
        else:
            entries[event.charge] = replace(entries[event.charge], state=states[event.kind], settled_at=event.at)
    return Budget.from_event(events[0]), list(entries.values())


def _entry(event: Event) -> Entry:
    return Entry(event.charge, charge_from_event(event), event.sequence, event.digest, event.at)


def _total(mu_total: float | None, epsilon: float | None, delta: float | None) -> float:
    if mu_total is not None and epsilon is None and delta is None:
        return float(mu_total)
    if mu_total is None and epsilon is not None and delta is not None:
        from hazeglass.guarantee.gdp import GaussianDP

        return GaussianDP.from_budget(epsilon, delta).mu
    raise InputError("A budget is either mu_total, or epsilon and delta together. Give one of the two.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sync_folder(folder: Path) -> None:
    """Make the new name durable; a system that cannot open folders syncs them by itself."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
