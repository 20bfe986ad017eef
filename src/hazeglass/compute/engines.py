"""Who does the work on blocks: one caller, or a few threads. Results arrive in the order of the blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from hazeglass.errors import InputError

__all__ = ["ENGINES", "Engine", "get_engine"]

B = TypeVar("B")
R = TypeVar("R")


class Engine(Protocol):
    """Apply a function to every block and hand the results back in order."""

    def map(self, function: Callable[[B], R], blocks: Iterable[B]) -> Iterator[R]:
        """Lazily, with a bounded number of blocks in flight."""


class Serial:
    """One block after the other, in the calling thread."""

    def map(self, function: Callable[[B], R], blocks: Iterable[B]) -> Iterator[R]:
        """Apply in order."""
        return map(function, blocks)


class Threads:
    """A few threads; NumPy, Arrow and the samplers let go of the interpreter lock while they work."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or min(8, os.cpu_count() or 1)

    def map(self, function: Callable[[B], R], blocks: Iterable[B]) -> Iterator[R]:
        """Apply in order, at most two blocks per worker waiting."""
        with ThreadPoolExecutor(self.workers) as pool:
            waiting: deque[Future[R]] = deque()
            try:
                for block in blocks:
                    waiting.append(pool.submit(function, block))
                    if len(waiting) >= 2 * self.workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


ENGINES: dict[str, Callable[[], Engine]] = {"serial": Serial, "threads": Threads}


def get_engine(name: str) -> Engine:
    """The engine called `name`."""
    if name not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(ENGINES)}, got {name!r}.")
    return ENGINES[name]()
