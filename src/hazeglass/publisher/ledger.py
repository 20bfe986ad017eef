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

import hashlib
import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hazeglass._files import flush, take_name
from hazeglass.errors import HazeglassError, InputError, OutputError, PrivacyRefusal
from hazeglass.guarantee.budget import RECORD, Charge, remaining, spent
from hazeglass.guarantee.units import Unit
from hazeglass.publisher.choice import canonical_period
from hazeglass.publisher.ledger_events import (
    APPLICATION_ID,
    SCHEMA,
    VERSION,
    Budget,
    Entry,
    Event,
    append,
    charge_event,
    check_charge,
    check_neighbours,
    entry_of,
    fault,
    fold,
    read_events,
)

if TYPE_CHECKING:  # a ledger opens at once, without numpy
    import numpy as np
    from numpy.typing import NDArray

    from hazeglass.bundle.manifest import LedgerReference, Manifest
    from hazeglass.bundle.reader import Release
    from hazeglass.publisher.noise import BitSource
    from hazeglass.publisher.plan import Plan

__all__ = ["Account", "AnnouncedBits", "Entry", "Ledger", "Summary", "charge_of", "charged"]

_TOTAL_VARIATION_PER_DRAW = 2.0**-100
_PATIENCE = 60.0  # seconds to wait for another publisher's transaction, which takes milliseconds


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
        check_neighbours(path, new=True)
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
                take_name(draft, path)
                draft.unlink(missing_ok=True)
            flush(path.parent)
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
        """Take the budget for a release, on disk when this returns; the entry's digest is for what follows."""
        with self._transaction(write=True) as (connection, events):
            budget, entries = fold(events)
            check_charge(budget, entries, charge)
            event = charge_event(charge, len(entries) + 1, _now())
            return entry_of(append(connection, event, previous=events[-1]))

    def check(self, charge: Charge) -> float:
        """Refuse what `charge` would refuse, and write nothing; how much is left for such a release."""
        with self._transaction(write=False) as (_, events):
            budget, entries = fold(events)
            check_charge(budget, entries, charge)
        return remaining(budget.mu_total, [entry.charge for entry in entries if entry.counts], charge)

    def begin_drawing(self, digest: str) -> None:
        """Say that noise is about to be drawn for this charge. From here on it cannot be given back."""
        self._settle(digest, "draw", allowed=("charged", "drawn"))

    def confirm(self, digest: str) -> None:
        """Say that the release is complete. It must have announced its draws: a release without noise is none."""
        self._settle(digest, "confirm", allowed=("drawn",))

    def refund(self, digest: str) -> None:
        """Give the budget back because nothing was drawn."""
        self._settle(digest, "refund", allowed=("charged",))

    def history(self) -> list[Entry]:
        """Every charge ever made, in order."""
        with self._transaction(write=False) as (_, events):
            return fold(events)[1]

    def summary(self) -> Summary:
        """Total, spent, left."""
        with self._transaction(write=False) as (_, events):
            budget, entries = fold(events)
        counted = [entry for entry in entries if entry.counts]
        charges = [entry.charge for entry in counted]
        return Summary(
            dataset=budget.dataset,
            unit=budget.unit,
            id_column=budget.id_column,
            mu_total=budget.mu_total,
            mu_spent=spent(charges),
            mu_remaining=remaining(budget.mu_total, charges),
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
            budget, entries = fold(events)
        faults = [fault(name, manifest, budget, entries, len(events)) for name, manifest in releases.items()]
        seen: dict[str, tuple[str, Manifest]] = {}
        for name, manifest in releases.items():
            if manifest.ledger is not None:
                other, theirs = seen.setdefault(manifest.ledger.digest, (name, manifest))
                if theirs != manifest:
                    faults.append(
                        f"{other} and {name} are two releases and name one charge: only one of them was paid."
                    )
        return [fault for fault in faults if fault]

    def _settle(self, digest: str, kind: str, allowed: tuple[str, ...]) -> None:
        """A charge is known by its digest: under its number stands another where an older copy was put back."""
        with self._transaction(write=True) as (connection, events):
            entry = next((entry for entry in fold(events)[1] if entry.digest == digest), None)
            if entry is None:
                raise PrivacyRefusal(
                    f"The ledger {self.path} does not hold the charge that this is about: another copy was put in its "
                    "place while a release was made. Find out which copy is the newest, and publish again with that."
                )
            if entry.state not in allowed:
                raise InputError(
                    f"Charge {entry.id} of {self.path} is {entry.state}; '{kind}' needs it to be "
                    f"{' or '.join(allowed)}. What noise was drawn for stays spent."
                )
            append(connection, Event(kind, entry.id, _now()), previous=events[-1])

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[tuple[sqlite3.Connection, list[Event]]]:
        """The events under a lock; what the block appends is on disk when it ends, or not at all."""
        if not self.path.is_file():
            raise InputError(f"There is no ledger at {self.path}. Make one with `hazeglass ledger new`.")
        check_neighbours(self.path)
        # SQLite keeps the journal of a broken transaction beside the name it was opened by. Under another name the file
        # would be read without it, and rolled back later, with what was charged in between.
        if (names := self.path.stat().st_nlink) != 1:
            raise PrivacyRefusal(
                f"The ledger {self.path} has {names} names (hard links), and a charge made under one may be lost under "
                "another. Remove all names but one; `find -samefile` shows them."
            )
        try:
            name = os.path.realpath(self.path)  # what was looked at, and never a URI
            with closing(sqlite3.connect(name, timeout=_PATIENCE, isolation_level=None)) as connection:
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


def _total(mu_total: float | None, epsilon: float | None, delta: float | None) -> float:
    if mu_total is not None and epsilon is None and delta is None:
        return float(mu_total)
    if mu_total is None and epsilon is not None and delta is not None:
        from hazeglass.guarantee.gdp import GaussianDP

        return GaussianDP.from_budget(epsilon, delta).mu
    raise InputError("A budget is either mu_total, or epsilon and delta together. Give one of the two.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# ------------------------------------------- one release: charge first, announce the first draw, confirm at the end


class AnnouncedBits:
    """A bit source that tells the ledger before it hands out its first bit; from then on the charge stays."""

    def __init__(self, bits: BitSource, account: Account) -> None:
        self._bits, self._account = bits, account

    @property
    def simulation(self) -> bool:
        """As the source behind it."""
        return self._bits.simulation

    def stream(self, number: int) -> BitSource:
        """A block's own source, announced all the same."""
        return AnnouncedBits(self._bits.stream(number), self._account)

    def elsewhere(self) -> BitSource:
        """The source behind it, after the announcement is on disk: other processes do not reach the ledger."""
        self._account.announce()
        return self._bits.elsewhere()

    def key(self) -> bytes:
        """A key, after the announcement is on disk."""
        self._account.announce()
        return self._bits.key()

    def uint64(self, count: int) -> NDArray[np.uint64]:
        """Words, after the announcement is on disk."""
        self._account.announce()
        return self._bits.uint64(count)

    def fill(self, words: NDArray[np.uint64]) -> None:
        """Overwrite with words, after the announcement is on disk."""
        self._account.announce()
        self._bits.fill(words)


class Account:
    """The charge of one release, by its digest."""

    def __init__(self, ledger: Ledger, digest: str) -> None:
        self._ledger, self._digest = ledger, digest
        self._lock = threading.Lock()
        self.drawn = False

    def announce(self) -> None:
        """Say once, whoever draws first, that noise is about to be drawn."""
        if self.drawn:
            return
        with self._lock:
            if not self.drawn:
                self._ledger.begin_drawing(self._digest)
                self.drawn = True

    def close(self, *, complete: bool) -> None:
        """Confirm a complete release; give the budget back only where nothing was drawn."""
        if complete:
            self._ledger.confirm(self._digest)
        elif not self.drawn:
            self._ledger.refund(self._digest)


def charge_of(plan: Plan, draws: int = 0, before: Release | None = None) -> Charge:
    """What a ledger is asked for when this plan is published with at most so many draws, `before` being the release of
    a lifetime that it goes on from."""
    if plan.id_column is not None and not plan.text.header:
        raise PrivacyRefusal(
            f"a ledger tells persons apart by the name of a column, and this plan gives the name {plan.id_column!r} to "
            "a column of a file without names: another plan could give it to another. Add a line of names to the file, "
            "and remove header and names from the plan's [text]."
        )
    loss = draws * _TOTAL_VARIATION_PER_DRAW
    if plan.lifetime is not None:
        paid = None if before is None else before.manifest.ledger
        charge = Charge(plan.guarantee.mu, plan.title, loss, plan.unit, plan.id_column)
        follows, step = "" if paid is None else paid.digest, plan.lifetime.step
        return replace(charge, lifetime=_lifetime_digest(plan), step=step, follows=follows)
    if plan.rows_of is None:
        return Charge(plan.guarantee.mu, plan.title, loss, plan.unit, plan.id_column)
    cells, reading = canonical_period(plan.rows_of.value, plan.text)
    return Charge(plan.guarantee.mu, plan.title, loss, plan.unit, None, plan.rows_of, cells, reading)


def _lifetime_digest(plan: Plan) -> str:
    """Of all that the releases of a lifetime have in common."""
    document = plan.to_dict()
    own = {key: value for key, value in document["release"].items() if key not in ("title", "period")}
    said = {**document, "release": own, "publication": None}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


@contextmanager
def charged(
    path: str | Path | None, plan: Plan, draws: int, bits: BitSource, out: Path, before: Release | None = None
) -> Iterator[tuple[BitSource, LedgerReference | None]]:
    """Charge the plan to the ledger around the block that makes `out`: bits that announce themselves, and the event the
    release must name. Without a ledger, just hand the bits through."""
    if path is None:
        yield bits, None
        return
    if bits.simulation:
        raise PrivacyRefusal(
            "a simulation promises nothing, so it cannot be charged to a ledger. Leave the ledger out."
        )
    from hazeglass.bundle.manifest import LedgerReference

    ledger = Ledger.open(path)
    dataset = ledger.summary().dataset
    entry = ledger.charge(charge_of(plan, draws, before))
    account = Account(ledger, entry.digest)
    try:
        yield AnnouncedBits(bits, account), LedgerReference(dataset, entry.event, entry.digest)
        account.close(complete=True)
    except BaseException as error:
        # An interrupt may come between a step and the note of it: after the folder got its name, or after the ledger
        # heard of a draw. What the ledger refuses to give back stays charged, and the caller learns what broke off.
        interrupted = not isinstance(error, Exception)
        with suppress(HazeglassError):
            account.close(complete=interrupted and out.exists())
        raise
