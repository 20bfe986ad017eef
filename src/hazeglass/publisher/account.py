"""One release's dealings with the ledger: charge first, announce the first draw, confirm the complete release."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hazeglass.bundle.manifest import LedgerReference
from hazeglass.errors import HazeglassError, PrivacyRefusal
from hazeglass.guarantee.ledger import Charge
from hazeglass.publisher.ledger_file import Ledger
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.randomness import BitSource

__all__ = ["Account", "AnnouncedBits", "charge_of", "charged"]

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

    def uint64(self, count: int) -> NDArray[np.uint64]:
        """Words, after the announcement is on disk."""
        self._account.announce()
        return self._bits.uint64(count)

    def fill(self, words: NDArray[np.uint64]) -> None:
        """Overwrite with words, after the announcement is on disk."""
        self._account.announce()
        self._bits.fill(words)


class Account:
    """The charge of one release."""

    def __init__(self, ledger: Ledger, identifier: int) -> None:
        self._ledger, self._identifier = ledger, identifier
        self._lock = threading.Lock()
        self.drawn = False

    def announce(self) -> None:
        """Say once, whoever draws first, that noise is about to be drawn."""
        if self.drawn:
            return
        with self._lock:
            if not self.drawn:
                self._ledger.begin_drawing(self._identifier)
                self.drawn = True

    def close(self, *, complete: bool) -> None:
        """Confirm a complete release; give the budget back only where nothing was drawn."""
        if complete:
            self._ledger.confirm(self._identifier)
        elif not self.drawn:
            self._ledger.refund(self._identifier)


def charge_of(plan: Plan, draws: int = 0) -> Charge:
    """What a ledger is asked for when this plan is published with at most so many draws."""
    return Charge(plan.guarantee.mu, plan.title, draws * _TOTAL_VARIATION_PER_DRAW, plan.unit, plan.id_column)


@contextmanager
def charged(
    path: str | Path | None, plan: Plan, draws: int, bits: BitSource, out: Path
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
    ledger = Ledger.open(path)
    dataset = ledger.summary().dataset
    entry = ledger.charge(charge_of(plan, draws))
    account = Account(ledger, entry.id)
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
