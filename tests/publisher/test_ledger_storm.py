"""kill -9 at any moment, several publishers, one ledger: no acknowledged charge is ever lost."""

import multiprocessing
import os
import random
import time

import pytest

from hazeglass.errors import BudgetExceededError
from hazeglass.guarantee.ledger import Charge, compose
from hazeglass.publisher.ledger_file import Ledger


def publish_for_ever(path, acknowledgements):
    """Charge, say so, announce the draw, confirm; over and over. What is said is said after the call returned."""
    ledger = Ledger(path)
    chance = random.SystemRandom()
    while True:
        mu = chance.choice([0.25, 0.5, 0.75])
        try:
            identifier = ledger.charge(Charge(mu, f"process {os.getpid()}"))
        except BudgetExceededError:
            os._exit(0)
        os.write(acknowledgements, f"{identifier} {mu}\n".encode())  # short enough to be atomic
        if chance.random() < 0.3:
            ledger.release(identifier)
            os.write(acknowledgements, f"{identifier} 0\n".encode())
        else:
            ledger.begin_drawing(identifier)
            ledger.confirm(identifier)


def storm(path, kills, publishers=3):
    """Keep some publishers at work and kill them one by one at random moments; return what they acknowledged."""
    context = multiprocessing.get_context("fork")
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    said = b""
    workers = []
    for _ in range(kills):
        while len(workers) < publishers:
            worker = context.Process(target=publish_for_ever, args=(path, writer))
            worker.start()
            workers.append(worker)
        time.sleep(random.uniform(0, 0.05))
        victim = workers.pop(random.randrange(len(workers)))
        victim.kill()  # SIGKILL
        victim.join()
        said += drain(reader)
    for worker in workers:
        worker.kill()
        worker.join()
    said += drain(reader)
    os.close(reader)
    os.close(writer)
    acknowledged = {}
    for line in said.decode().splitlines():
        identifier, mu = line.split()
        acknowledged[int(identifier)] = float(mu)
    return acknowledged


def drain(reader):
    said = b""
    while True:
        try:
            said += os.read(reader, 1 << 16)
        except BlockingIOError:
            return said


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("total", [1000.0, 4.0], ids=["endless budget", "budget runs out"])
def test_no_acknowledged_charge_is_lost_and_the_total_is_never_exceeded(tmp_path, total):
    path = tmp_path / "budget.ledger"
    Ledger.create(path, "storm", mu_total=total)
    acknowledged = storm(path, kills=100)
    ledger = Ledger.open(path)
    history = {entry.id: entry for entry in ledger.history()}
    assert acknowledged
    for identifier, mu in acknowledged.items():
        if mu:
            assert history[identifier].charge.mu == mu
    # A charge may have been given back by a publisher that was killed before it could say so.
    returned = {entry.id for entry in history.values() if entry.state == "released"}
    owed = [mu for identifier, mu in acknowledged.items() if identifier not in returned]
    assert ledger.summary().mu_spent >= compose(owed)
    assert ledger.summary().mu_spent <= total * (1 + 1e-12)
    if total == 4.0:
        assert ledger.summary().mu_remaining < 0.75
