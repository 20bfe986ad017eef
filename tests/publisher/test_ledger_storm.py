"""kill -9 at any moment, several publishers, one ledger: no acknowledged charge is ever lost."""

import functools
import os
import random

import pytest

from hazeglass.errors import BudgetExceededError
from hazeglass.guarantee.budget import Charge, compose
from hazeglass.publisher.ledger import Ledger


def publish_for_ever(path, say):
    """Charge, say so, announce the draw, confirm; over and over. What is said is said after the call returned."""
    ledger = Ledger(path)
    chance = random.SystemRandom()
    while True:
        mu = chance.choice([0.25, 0.5, 0.75])
        try:
            charge = ledger.charge(Charge(mu, f"process {os.getpid()}"))
        except BudgetExceededError:
            say("refused")
            os._exit(0)
        say(f"{charge.id} {mu}")
        if chance.random() < 0.3:
            ledger.refund(charge.digest)
        else:
            ledger.begin_drawing(charge.digest)
            say(f"{charge.id} {mu} drawing")
            ledger.confirm(charge.digest)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # the children use a file alone
@pytest.mark.parametrize("total", [1000.0, 1.5], ids=["endless budget", "budget runs out"])
def test_no_acknowledged_charge_is_lost_and_the_total_is_never_exceeded(tmp_path, storm, total):
    path = tmp_path / "budget.ledger"
    Ledger.create(path, "storm", mu_total=total)
    lines = storm(functools.partial(publish_for_ever, path), kills=60)
    assert ("refused" in lines) == (total == 1.5)
    said = [line.split() for line in lines if line != "refused"]
    ledger = Ledger.open(path)  # the chain of digests is whole
    history = {entry.id: entry for entry in ledger.history()}
    assert said
    for identifier, mu, *drawing in said:
        entry = history[int(identifier)]
        assert entry.charge.mu == float(mu)
        if drawing:
            assert entry.state in ("drawn", "confirmed")
    # Only a charge that was given back before anything was drawn may be missing from what is spent.
    owed = {int(identifier): float(mu) for identifier, mu, *_ in said if history[int(identifier)].counts}
    assert ledger.summary().mu_spent >= compose(owed.values())
    assert ledger.summary().mu_spent <= total * (1 + 1e-12)
