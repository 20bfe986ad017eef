"""What a ledger's lines say: events, each with a digest over itself and the one before; and what follows from them: the
budget, the state of each charge, whether one more fits, and whether a release was paid for.

A line is read only if it is, byte for byte, what would be written for the event in it, so that it cannot be read in two
ways.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from functools import cache
from math import hypot, isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from hazeglass.errors import InputError, PrivacyRefusal
from hazeglass.guarantee.budget import RECORD, Charge, check_fits
from hazeglass.guarantee.units import Period, Unit

if TYPE_CHECKING:
    from hazeglass.bundle.manifest import Manifest

VERSION, MARK = 3, b'{"hazeglass ledger": '  # how every ledger begins
LARGEST = 64 << 20  # bytes of a ledger
_LONGEST = 64 << 10  # bytes of a line
_LINE = re.compile(rb'(\{.*), "digest": "([0-9a-f]{64})"\}')
STEPS = {  # what may happen to a charge, in which states, and the state it leads to
    "draw": (("charged",), "drawn"),  # once: a process that was forked meanwhile must not draw on the same charge
    "confirm": (("drawn",), "confirmed"),
    "refund": (("charged",), "refunded"),
}


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


@dataclass(frozen=True)
class Event:
    """One line: its number, what happened when, and to which charge (0: to none).

    A release shows the digest of the event that charged it. The nonce keeps anyone from guessing the events behind it,
    and makes the digests of two charges differ even where a ledger was copied and both copies were charged alike.
    """

    event: int
    kind: Literal["budget", "charge", "draw", "confirm", "refund"]
    id: int
    at: str
    budget: Budget | None = None
    charge: Charge | None = None
    nonce: str | None = None
    digest: str = ""

    def line(self, before: str = "") -> bytes:
        """As it stands behind the event with the digest `before`."""
        mark = {"hazeglass ledger": VERSION} if self.event == 1 else {}
        body = json.dumps(mark | _said(replace(self, digest="")), allow_nan=False).encode()
        line = body[:-1] + b', "digest": "' + _digest(body, before) + b'"}'
        if len(line) > _LONGEST:
            raise InputError(
                f"A line of a ledger must have at most {_LONGEST:,} bytes, and this one would have {len(line):,}. "
                "Shorten the names in it."
            )
        return line


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
class Chain:
    """What a ledger says. Its bytes are `kept`; what stands behind them was never finished, nor acknowledged."""

    budget: Budget
    entries: list[Entry]
    last: Event
    kept: bytes


def _digest(body: bytes, before: str) -> bytes:
    return hashlib.sha256(before.encode() + body).hexdigest().encode()


_types: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def _said(value: Any) -> Any:
    """What JSON is to hold: of a record all but its defaults, so that a field of tomorrow changes no line of today."""
    if not is_dataclass(value):
        return value
    own = ((field, getattr(value, field.name)) for field in fields(value))
    return {field.name: _said(one) for field, one in own if one != field.default}


def _typed(kind: Any, value: Any) -> Any:
    """What JSON held, as a value of exactly this type."""
    options = get_args(kind)
    if type(None) in options:
        return None if value is None else _typed(options[0], value)
    if hasattr(kind, "__dataclass_fields__"):
        return kind(**{name: _typed(_types(kind)[name], one) for name, one in value.items()})
    if value not in options if get_origin(kind) is Literal else type(value) is not kind:
        raise TypeError
    return value


def read_event(line: bytes, previous: Event | None, path: Path) -> Event:
    """The event in a line; refused where it does not follow from the one before."""
    number, before = (1, "") if previous is None else (previous.event + 1, previous.digest)
    found = _LINE.fullmatch(line)
    body = found[1] + b"}" if found else b""
    if not found or found[2] != _digest(body, before):
        raise _damaged(path, f"line {number} does not follow from those before")
    try:
        said = json.loads(body)
        said.pop("hazeglass ledger", None)
        event: Event = _typed(Event, {**said, "digest": found[2].decode()})
        datetime.fromisoformat(event.at)
        holds = event.budget is not None, event.charge is not None, event.nonce is not None
        known = event.event == number and (event.kind == "budget") == (number == 1) and event.line(before) == line
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        known = False
    if not known or holds != (event.kind == "budget", event.kind == "charge", event.kind == "charge"):
        raise InputError(  # what it says may be about what a charge costs
            f"Line {number} of the ledger {path} was written by a hazeglass that charged otherwise. Start a new one "
            "whose --mu is what is left in this one, as the hazeglass that wrote it says (`hazeglass ledger show`)."
        )
    return event


def read_chain(content: bytes, path: Path) -> Chain:
    """The whole chain, verified; another program's file or a damaged one is refused."""
    found = re.match(re.escape(MARK) + rb"([0-9]{1,9})[,}]", content)
    version = int(found[1]) if found else 0
    if content.startswith(b"SQLite format 3\0") and content[68:72] == b"hzgl":  # as versions 1 and 2 were kept
        version = int.from_bytes(content[60:64], "big")
    if version == 0:
        raise InputError(f"{path} is not a hazeglass ledger. Give the file that `hazeglass ledger new` made.")
    if version != VERSION:
        raise InputError(
            f"{path} is a ledger of version {version}; this hazeglass reads version {VERSION}. Start a new one whose "
            "--mu is what is left in this one, as the hazeglass that wrote it says (`hazeglass ledger show`)."
        )
    *lines, rest = content.split(b"\n")
    if len(content) > LARGEST or max(map(len, [*lines, rest])) > _LONGEST:
        raise _damaged(path, f"it is larger than {LARGEST:,} bytes, or a line of it than {_LONGEST:,}")
    kept, unended = content[: len(content) - len(rest)], rest.rstrip(b"\0")
    if _LINE.match(unended):  # no write breaks off so: all of a line is there, and an editor took its end away
        lines, kept = [*lines, unended], kept + unended
    if b"\r" in kept:
        raise _damaged(path, "another program converted the ends of its lines")
    entries: list[Entry] = []
    event, budget = None, None
    for line in lines:
        event = read_event(line, event, path)
        budget = budget or event.budget
        _enter(event, entries, path)
    if event is None or budget is None:
        raise _damaged(path, "it does not begin with a budget")
    if isinf(hypot(*(entry.charge.mu for entry in entries))):
        raise _damaged(path, "no number is as large as what was charged")
    return Chain(budget, entries, event, kept)


def _enter(event: Event, entries: list[Entry], path: Path) -> None:
    """Note in the state of its charge what an event says."""
    place = event.id - 1
    if event.charge is not None and place == len(entries):
        entries.append(Entry(event.id, event.charge, event.event, event.digest, event.at))
    elif event.kind in STEPS and 0 <= place < len(entries) and entries[place].state in STEPS[event.kind][0]:
        entries[place] = replace(entries[place], state=STEPS[event.kind][1], settled_at=event.at)
    elif event.kind != "budget" or event.id != 0:
        raise _damaged(path, f"line {event.event} says what cannot have happened to a charge")


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"The ledger {path} is damaged: {why}. Restore it from a copy that knows every release (`hazeglass ledger "
        "check`); nothing may be charged to it."
    )


def check_charge(chain: Chain, charge: Charge) -> None:
    """Refuse a release whose mu says nothing about this budget, or does not fit."""
    budget, entries = chain.budget, chain.entries
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
    known = (one for one in entries if one.counts and one.charge.units and charge.units)
    other = next((one for one in known if one.charge.units != charge.units), None)
    if other is not None:
        what = "ids are read" if charge.unit.name == "person" else "a row is told"
        raise PrivacyRefusal(
            f"Charge {other.id} of the budget of {budget.dataset!r} ({other.charge.label!r}) is of a release for which "
            f"{what} in another way ({other.charge.units}; here {charge.units}): what is one {charge.unit.name} there "
            "may be several here, so the two do not add up. Publish from the same kind of table with the same [text], "
            "or use another ledger."
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


def fault(name: str, manifest: Manifest, chain: Chain) -> str | None:
    """Why a release is not charged as it says, if it is not."""
    budget, last, paid = chain.budget, chain.last.event, manifest.ledger
    if paid is None:
        return f"{name} names no ledger, so no budget counts it."
    if paid.dataset != budget.dataset:
        return f"{name} was charged to the ledger of {paid.dataset!r}, and this is the ledger of {budget.dataset!r}."
    entry = next((entry for entry in chain.entries if entry.digest == paid.digest and entry.event == paid.event), None)
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
