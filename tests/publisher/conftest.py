"""kill -9 at random moments, for whatever must survive it."""

import multiprocessing
import os
import random
import time
from collections.abc import Callable

import pytest


@pytest.fixture
def storm() -> Callable[..., list[str]]:
    return _storm


def _storm(
    work: Callable[[Callable[[str], None]], None], kills: int, at_once: int = 3, longest: float = 0.05
) -> list[str]:
    """Keep some processes running `work(say)` and kill them one by one, each up to `longest` seconds after the last.

    Returns the lines they said before they died. A line is one short write to a pipe: it is there whole or not at all.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    def say(line: str) -> None:
        os.write(writer, f"{line}\n".encode())

    said, workers = b"", []
    for _ in range(kills):
        while len(workers) < at_once:
            worker = context.Process(target=work, args=(say,))
            worker.start()
            workers.append(worker)
        time.sleep(random.uniform(0, longest))
        victim = workers.pop(random.randrange(len(workers)))
        victim.kill()  # SIGKILL: nothing in the process can catch it
        victim.join()
        said += _drain(reader)
    for worker in workers:
        worker.kill()
        worker.join()
    said += _drain(reader)
    os.close(reader)
    os.close(writer)
    return said.decode().splitlines()


def _drain(reader: int) -> bytes:
    said = b""
    while True:
        try:
            said += os.read(reader, 1 << 16)
        except BlockingIOError:
            return said
