"""The ledger as a file: every release of a dataset is charged here before a single bit of noise is drawn.

The file is an SQLite database that only grows: a list of events, each carrying a digest of itself and of the one
before. What was spent is what the events say, so nothing is overwritten and damage shows.

    charge   the budget is taken                        always first
    draw     noise is about to be drawn                 from here on the charge stays, whatever happens
    confirm  the release is complete on disk
    release  the budget is given back                   only where no draw was announced

A process that dies leaves its charge behind: the ledger may count too much, never too little. No connection outlives
a call, so that a Ledger can be used from threads and forked children alike.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hazeglass.errors import InputError, OutputError, PrivacyRefusal
from hazeglass.guarantee.ledger import Charge, check_fits, compose, remaining
from hazeglass.guarantee.sensitivity import Unit
from hazeglass.publisher.ledger_events import (
    APPLICATION_ID,
    RECORD,
    SCHEMA,
    VERSION,
    Budget,
    Event,
    append,
    read_events,
)

__all__ = ["Entry", "Ledger", "Summary"]

_PATIENCE = 60.0  # seconds to wait for another publisher's transaction, which takes milliseconds


@dataclass(frozen=True)
class Entry:
    """One charge and what became of it: `state` is charged, drawn, confirmed or released."""

    id: int
    charge: Charge
    state: str
    charged_at: str
    settled_at: str

    @property
    def counts(self) -> bool:
        return self.state != "released"


@dataclass(frozen=True)
class Summary:
    """The state of a budget."""

    dataset: str
    unit: Unit
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
    ) -> Ledger:
        """A new ledger: the budget as mu, or as epsilon and delta, for the unit it protects. It appears complete or not
        at all."""
        path = Path(path)
        budget = Budget(dataset, _total(mu_total, epsilon, delta), epsilon, delta, unit)
        Charge(budget.mu_total)  # a budget must be what a charge must be: positive and finite
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

    def charge(self, charge: Charge, unit: Unit = RECORD) -> int:
        """Take the budget for a release that protects `unit`, on disk when this returns; the identifier is for what
        follows."""
        with self._transaction(write=True) as (connection, events):
            budget, entries = _fold(events)
            _check_room(budget, entries, charge, unit)
            identifier = len(entries) + 1
            event = Event("charge", identifier, _now(), charge.label, charge.mu, charge.total_variation)
            append(connection, event, previous=events[-1])
        return identifier

    def check(self, charge: Charge, unit: Unit = RECORD) -> None:
        """Refuse what `charge` would refuse, and write nothing."""
        with self._transaction(write=False) as (_, events):
            _check_room(*_fold(events), charge, unit)

    def begin_drawing(self, identifier: int) -> None:
        """Say that noise is about to be drawn for this charge. From here on it cannot be given back."""
        self._settle(identifier, "draw", allowed=("charged", "drawn"))

    def confirm(self, identifier: int) -> None:
        """Say that the release is complete. It must have announced its draws: a release without noise is none."""
        self._settle(identifier, "confirm", allowed=("drawn",))

    def release(self, identifier: int) -> None:
        """Give the budget back because nothing was drawn."""
        self._settle(identifier, "release", allowed=("charged",))

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
            mu_total=budget.mu_total,
            mu_spent=compose(mus),
            mu_remaining=remaining(budget.mu_total, mus),
            epsilon=budget.epsilon,
            delta=budget.delta,
            total_variation=sum(entry.charge.total_variation for entry in counted),
            releases=sum(entry.state == "confirmed" for entry in counted),
            unfinished=sum(entry.state != "confirmed" for entry in counted),
        )

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


def _check_room(budget: Budget, entries: list[Entry], charge: Charge, unit: Unit) -> None:
    if not unit.covers(budget.unit):
        raise PrivacyRefusal(
            f"The budget of {budget.dataset!r} protects {budget.unit.in_words}, and this release protects only "
            f"{unit.in_words}: its mu says nothing about that budget. Change the plan, or use another ledger."
        )
    check_fits(budget.dataset, budget.mu_total, [entry.charge.mu for entry in entries if entry.counts], charge.mu)


def _fold(events: list[Event]) -> tuple[Budget, list[Entry]]:
    """From the events to the budget and to the state of each charge."""
    entries: dict[int, Entry] = {}
    states = {"draw": "drawn", "confirm": "confirmed", "release": "released"}
    for event in events[1:]:
        if event.kind == "charge":
            charge = Charge(event.mu, event.text, event.total_variation)
            entries[event.charge] = Entry(event.charge, charge, "charged", event.at, "")
        else:
            old = entries[event.charge]
            entries[event.charge] = Entry(old.id, old.charge, states[event.kind], old.charged_at, event.at)
    return Budget.from_event(events[0]), list(entries.values())


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
