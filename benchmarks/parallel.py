"""Many small measurements on many cores: one process each, one thread in each, every line written when it is known.

A file that has a line already is not measured again there, so a run can be stopped at any time and taken up again.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "ARROW_NUM_THREADS")

Key = tuple[str, ...]


def measure(
    work: Callable[..., dict[str, float]], items: Iterable[tuple[Any, ...]], out: Path, jobs: int, minutes: float
) -> None:
    """Call work(*item) for every item that the file does not have, in their order, and write what it says.

    A line of the file holds the item, the name of a measure and its value; one more measure is the processor time. What
    fails is written as such, and tried again by the next run. Nothing new begins after so many minutes.
    """
    known = {tuple(row[:-2]) for row in read(out) if row[-2] != "failed"}
    waiting = deque(item for item in items if tuple(map(_text, item)) not in known)
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # for the processes that are started here
    end, total, running = time.monotonic() + 60 * minutes, len(waiting), {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool, out.open("a", newline="") as file:
        writer = csv.writer(file)
        done = 0
        while running or (waiting and time.monotonic() < end):
            while waiting and len(running) < 2 * jobs and time.monotonic() < end:
                item = waiting.popleft()
                running[pool.submit(_timed, work, item)] = item
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for one in finished:
                item = running.pop(one)
                for name, value in _found(one, item).items():
                    writer.writerow([*map(_text, item), name, repr(float(value))])
                done += 1
            file.flush()
            if done % 50 == 0:
                print(f"{done} of {total}", file=sys.stderr, flush=True)


def read(path: Path) -> list[Key]:
    """The lines of a file, the value last."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [tuple(row) for row in csv.reader(file) if row]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _timed(work: Callable[..., dict[str, float]], item: tuple[Any, ...]) -> dict[str, float]:
    begin = time.process_time()
    found = work(*item)
    return {**found, "processor seconds": time.process_time() - begin}


def _found(one: Future[dict[str, float]], item: tuple[Any, ...]) -> dict[str, float]:
    error = one.exception()
    if error is None:
        return one.result()
    print(f"\n{item}: {type(error).__name__}: {error}", file=sys.stderr)
    return {"failed": 1.0}
