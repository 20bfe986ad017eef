"""The ledger as a file: every release of a dataset is charged here before a single bit of noise is drawn.

The file is text that only grows: one line for each event, with a digest of itself and of the one before. What was spent
is what the lines say, so nothing is overwritten and damage shows.

    charge   the budget is taken                        always first
    draw     noise is about to be drawn                 from here on the charge stays, whatever happens
    confirm  the release is complete on disk
    refund   the budget is given back                   only where no draw was announced

A process that dies leaves its charge behind: the ledger may count too much, never too little. Whoever writes locks the
file, reads all of it, adds one line, and returns when that is on disk. Nothing was drawn for a last line that was never
finished: readers pass over it, and the next who writes cuts it off. No other file is read or written. What the chain
cannot show is its own end being cut off; the releases can, because each names the event that charged it
(`Ledger.faults`).
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hazeglass._files import new_file
from hazeglass.errors import InputError, OutputError, PrivacyRefusal
from hazeglass.guarantee.budget import RECORD, Charge, remaining, spent
from hazeglass.guarantee.units import Unit
from hazeglass.publisher.ledger_events import (
    LARGEST,
    STEPS,
    Budget,
    Chain,
    Entry,
    Event,
    check_charge,
    fault,
    read_chain,
    read_event,
)

if TYPE_CHECKING:  # a ledger opens at once, without numpy
    from hazeglass.bundle.manifest import Manifest

__all__ = ["Entry", "Ledger", "Summary"]

_PATIENCE = 60.0  # seconds to wait for the lock, which other publishers hold for milliseconds
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # also where a pipe has taken the ledger's name
_LOCK_AT = (1 << 31) - 2  # on Windows a locked byte cannot be read, so this one stands behind every ledger's end


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
        total = _total(mu_total, epsilon, delta)
        if epsilon is not None and delta is not None:
            epsilon, delta = float(epsilon), float(delta)
        line = Event(1, "budget", 0, _now(), Budget(dataset, total, epsilon, delta, unit, id_column)).line()
        read_event(line, None, path)
        try:
            with new_file(path) as draft:
                draft.touch(0o664)
                draft.write_bytes(line + b"\n")
        except OutputError:
            if os.path.lexists(path):
                raise OutputError(
                    f"A ledger must not replace a file: {path} exists. Open it, or choose another name."
                ) from None
            raise
        return cls(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """An existing ledger, read through once to see that it is whole."""
        ledger = cls(Path(path))
        ledger.summary()
        return ledger

    def charge(self, charge: Charge) -> Entry:
        """Take the budget for a release, on disk when this returns; the entry's digest is for what follows."""
        charge = replace(charge, mu=float(charge.mu), total_variation=float(charge.total_variation))
        with self._locked() as (handle, chain):
            check_charge(chain, charge)
            if len(chain.kept) > LARGEST // 2:  # the rest is for what becomes of the charges that are there
                raise OutputError(f"The ledger {self.path} is full. Start a new one whose --mu is what is left in it.")
            number, at, nonce = len(chain.entries) + 1, _now(), secrets.token_hex(16)
            event = Event(chain.last.event + 1, "charge", number, at, charge=charge, nonce=nonce)
            return Entry(number, charge, event.event, self._append(handle, chain, event), at)

    def check(self, charge: Charge) -> float:
        """Refuse what `charge` would refuse, and write nothing; how much is left for such a release."""
        chain = self._read()
        check_charge(chain, charge)
        return remaining(chain.budget.mu_total, [entry.charge for entry in chain.entries if entry.counts], charge)

    def begin_drawing(self, digest: str) -> None:
        """Say that noise is about to be drawn for this charge. From here on it cannot be given back."""
        self._settle(digest, "draw")

    def confirm(self, digest: str) -> None:
        """Say that the release is complete. It must have announced its draws: a release without noise is none."""
        self._settle(digest, "confirm")

    def refund(self, digest: str) -> None:
        """Give the budget back because nothing was drawn."""
        self._settle(digest, "refund")

    def history(self) -> list[Entry]:
        """Every charge ever made, in order."""
        return self._read().entries

    def summary(self) -> Summary:
        """Total, spent, left."""
        chain = self._read()
        budget, counted = chain.budget, [entry for entry in chain.entries if entry.counts]
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
        chain = self._read()
        faults = [fault(name, manifest, chain) for name, manifest in releases.items()]
        seen: dict[str, tuple[str, Manifest]] = {}
        for name, manifest in releases.items():
            if manifest.ledger is not None:
                other, theirs = seen.setdefault(manifest.ledger.digest, (name, manifest))
                if theirs != manifest:
                    faults.append(
                        f"{other} and {name} are two releases and name one charge: only one of them was paid."
                    )
        return [fault for fault in faults if fault]

    def _settle(self, digest: str, kind: Literal["draw", "confirm", "refund"]) -> None:
        """A charge is known by its digest: under its number stands another where an older copy was put back."""
        with self._locked() as (handle, chain):
            entry = next((entry for entry in chain.entries if entry.digest == digest), None)
            if entry is None:
                raise PrivacyRefusal(
                    f"The ledger {self.path} does not hold the charge that this is about: another copy was put in its "
                    "place while a release was made. Find out which copy is the newest, and publish again with that."
                )
            allowed, _ = STEPS[kind]
            if entry.state not in allowed:
                raise InputError(
                    f"Charge {entry.id} of {self.path} is {entry.state}; '{kind}' needs it to be "
                    f"{' or '.join(allowed)}. What noise was drawn for stays spent."
                )
            self._append(handle, chain, Event(chain.last.event + 1, kind, entry.id, _now()))

    # ------------------------------------------------------------------------------------------------- the file

    def _read(self, again: bool = True) -> Chain:
        """What the file says; no lock is needed."""
        try:
            with self._opened(os.O_RDONLY) as handle:
                return read_chain(_content(handle), self.path)
        except InputError:  # perhaps read while a writer was cutting off an unfinished line and adding its own
            if not again:
                raise
        time.sleep(0.1)
        return self._read(again=False)

    @contextmanager
    def _locked(self) -> Iterator[tuple[int, Chain]]:
        """The open file, which no other publisher writes to meanwhile, and what it says now."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with self._opened(os.O_RDWR | os.O_APPEND) as handle:
                if _lock(handle):
                    try:
                        # Another file may have got the name since; not on Windows, where an open file keeps its name.
                        if sys.platform == "win32" or os.path.samestat(os.fstat(handle), os.stat(self.path)):
                            yield handle, read_chain(_content(handle), self.path)
                            return
                    finally:  # closing is not enough: a process that was forked meanwhile has the file open as well
                        _lock(handle, free=True)
            time.sleep(0.005)
        raise OutputError(
            f"The ledger {self.path} cannot be used now: others have kept it locked for {_PATIENCE:g} seconds. Wait "
            "until they have ended, and try again."
        )

    def _append(self, handle: int, chain: Chain, event: Event) -> str:
        """Add a line to the locked file, on disk when this returns; its digest."""
        line, old = event.line(chain.last.digest), len(chain.kept)
        digest = read_event(line, chain.last, self.path).digest
        rest = line + b"\n" if chain.kept.endswith(b"\n") else b"\n" + line + b"\n"
        try:
            if os.fstat(handle).st_size != old:
                os.ftruncate(handle, old)
                os.fsync(handle)  # lest a power cut mixes the old line with the new
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        except OSError as error:
            with suppress(OSError):  # a line that stays is unfinished, or counts without need
                os.ftruncate(handle, old)
            left = "it stays as it was" if rest else "its last line may be lost or stay"
            raise OutputError(
                f"The ledger {self.path} cannot be written ({error.strerror}): {left}, and no noise is drawn before a "
                "line is on disk. Look after the disk, and try again."
            ) from None
        return digest

    @contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        """The open file; what the system refuses meanwhile is told in one sentence."""
        handle = -1
        try:
            if not self.path.is_file():
                raise InputError(f"There is no ledger at {self.path}. Make one with `hazeglass ledger new`.")
            handle = os.open(self.path, flags | _AT_ONCE)
            if os.name == "posix" and os.fstat(handle).st_mode & stat.S_IWOTH:
                raise PrivacyRefusal(
                    f"The ledger {self.path} can be written by everybody, who could take charges back. Keep it where "
                    "files have rights, and take this one away (chmod o-w)."
                )
            yield handle
        except OSError as error:
            raise OutputError(f"The ledger {self.path} cannot be used now: {error.strerror}.") from None
        finally:
            if handle != -1:
                os.close(handle)


def _content(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    with open(handle, "rb", closefd=False) as file:
        return file.read(min(os.fstat(handle).st_size, LARGEST) + 1)


def _lock(handle: int, *, free: bool = False) -> bool:
    """Lock the file, or free it; False where another process or thread has locked it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, _LOCK_AT, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_UNLCK if free else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_UN if free else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            raise
        return False
    return True


def _total(mu_total: float | None, epsilon: float | None, delta: float | None) -> float:
    if mu_total is not None and epsilon is None and delta is None:
        return float(mu_total)
    if mu_total is None and epsilon is not None and delta is not None:
        from hazeglass.guarantee.gdp import GaussianDP

        return GaussianDP.from_budget(epsilon, delta).mu
    raise InputError("A budget is either mu_total, or epsilon and delta together. Give one of the two.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
