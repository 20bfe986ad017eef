"""One release's charge: the ledger is charged first, hears of the first draw before it is made, and of the end."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hazeglass.compute.tables import CsvFiles
from hazeglass.compute.warehouse import Warehouse
from hazeglass.errors import HazeglassError, PrivacyRefusal
from hazeglass.guarantee.budget import Charge
from hazeglass.publisher.choice import canonical_period
from hazeglass.publisher.ledger import Ledger

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hazeglass.bundle.manifest import LedgerReference
    from hazeglass.bundle.reader import Release
    from hazeglass.compute.tables import TableSource
    from hazeglass.publisher.noise import BitSource
    from hazeglass.publisher.plan import Plan

_TOTAL_VARIATION_PER_DRAW = 2.0**-100


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
        self._lock, self._process = threading.Lock(), os.getpid()
        self.drawn = False

    def announce(self) -> None:
        """Say once, whoever draws first, that noise is about to be drawn."""
        if os.getpid() != self._process:  # forked meanwhile: what both draw would be two releases, and one is paid
            raise PrivacyRefusal(
                "a release is drawn by the process that was charged for it, and this one was forked from it meanwhile. "
                "Publish again from here, which is a release of its own."
            )
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


def charge_of(plan: Plan, draws: int = 0, before: Release | None = None, source: TableSource | None = None) -> Charge:
    """What a ledger is asked for when this plan is published from `source` with at most so many draws, `before` being
    the release of a lifetime that it goes on from."""
    if plan.id_column is not None and not plan.text.header:
        raise PrivacyRefusal(
            f"a ledger tells persons apart by the name of a column, and this plan gives the name {plan.id_column!r} to "
            "a column of a file without names: another plan could give it to another. Add a line of names to the file, "
            "and remove header and names from the plan's [text]."
        )
    loss = draws * _TOTAL_VARIATION_PER_DRAW
    units = "" if source is None else _units(plan, source)
    charge = Charge(plan.guarantee.mu, plan.title, loss, plan.unit, plan.id_column, units=units)
    if plan.lifetime is not None:
        paid = None if before is None else before.manifest.ledger
        follows, step = "" if paid is None else paid.digest, plan.lifetime.step
        return replace(charge, lifetime=_lifetime_digest(plan), step=step, follows=follows)
    if plan.rows_of is None:
        return charge
    # A moment or a number with a fraction may have one name in a file of text, and another where it has a type.
    kind = "text" if isinstance(source, CsvFiles) else "database" if isinstance(source, Warehouse) else "values"
    reading = _digest({"text": plan.text.to_dict(), "source": kind})[:16]
    return replace(charge, period=plan.rows_of, cells=canonical_period(plan.rows_of.value, plan.text), reading=reading)


def _units(plan: Plan, source: TableSource) -> str:
    """How ids are read, or what one row is, where that can be in several ways.

    Of a CSV every line is a row, unless quoted cells may go over several: a cell with line ends is a part of one row
    in other tables, and several rows there. Whose row it is depends on the whole text format as well, and a database
    compares ids in its own way, which the type of the column decides.
    """
    text, said = plan.text, "rows"
    if isinstance(source, CsvFiles):
        said = "rows of a CSV" if text.quoted_newlines else "lines of a CSV"
        if not "\n\n".encode(text.encoding).endswith(b"\n\n"):
            said += f" in {text.encoding}"
        said = "rows" if said == "rows of a CSV" else said
    if plan.id_column is None:
        return said
    if isinstance(source, Warehouse):
        said = f"{source.engine}: {source.schema[plan.id_column]}"
    own = text.to_dict()
    return f"{said}, [text] {_digest(own)[:16]}" if own else said


def _lifetime_digest(plan: Plan) -> str:
    """Of all that the releases of a lifetime have in common."""
    document = plan.to_dict()
    own = {key: value for key, value in document["release"].items() if key not in ("title", "period")}
    return _digest({**document, "release": own, "publication": None})


def _digest(said: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


@contextmanager
def charged(
    path: str | Path | None,
    plan: Plan,
    draws: int,
    bits: BitSource,
    out: Path,
    before: Release | None = None,
    source: TableSource | None = None,
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
    entry = ledger.charge(charge_of(plan, draws, before, source))
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
