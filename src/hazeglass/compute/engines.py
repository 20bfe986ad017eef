"""Who does the work on blocks: one caller, a few threads, or a dask cluster. Results arrive in the order of the blocks.

serial              the caller's own thread
threads             one thread per core (at most 8)
dask                the dask client of this session, or a cluster of local processes when there is none
dask:tcp://host:1   the cluster with this scheduler
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol, TypeVar, get_args

from hazeglass.errors import InputError

__all__ = ["ENGINES", "Engine", "EngineName", "Serial", "Threads", "get_engine", "open_engine"]

B = TypeVar("B")
R = TypeVar("R")
EngineName = Literal["serial", "threads", "dask"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)


class Engine(Protocol):
    """Apply a function to every block; the caller reduces the results, which come in order and exactly once each."""

    @property
    def remote(self) -> bool:
        """Whether the work is done in other processes: the function travels, and may run again if one is lost."""

    def map(self, function: Callable[[B], R], blocks: Iterable[B]) -> Iterator[R]:
        """Lazily, with a bounded number of blocks in flight."""

    def joblib(self) -> AbstractContextManager[Any]:
        """While it is open, joblib's jobs are run by the same workers."""


class Serial:
    """One block after the other, in the calling thread."""

    remote = False

    def map(self, function: Callable[[B], R], blocks: Iterable[B]) -> Iterator[R]:
        """Apply in order."""
        return map(function, blocks)

    def joblib(self) -> AbstractContextManager[Any]:
        """One job after the other."""
        from joblib import parallel_config

        config: AbstractContextManager[Any] = parallel_config("sequential")
        return config


class Threads:
    """A few threads; NumPy, Arrow and the samplers let go of the interpreter lock while they work."""

    remote = False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or min(8, os.cpu_count() or 1)

    def map(self, function: Callable[[B], R], blocks: Iterable[B]) -> Iterator[R]:
        """Apply in order, at most two blocks per worker waiting."""
        with ThreadPoolExecutor(self.workers) as pool, _one_blas_thread():
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

    def joblib(self) -> AbstractContextManager[Any]:
        """As many jobs at a time as there are threads."""
        from joblib import parallel_config

        config: AbstractContextManager[Any] = parallel_config("threading", n_jobs=self.workers)
        return config


def get_engine(name: str | Engine) -> Engine:
    """The engine called `name`; an engine is handed through."""
    if not isinstance(name, str):
        return name
    kind, _, address = name.partition(":")
    if kind == "dask":
        from hazeglass.compute.dask_engine import Dask

        return Dask(address or None)
    if name == "serial":
        return Serial()
    if name == "threads":
        return Threads()
    raise InputError(f"engine must be one of {', '.join(ENGINES)} or dask:ADDRESS, got {name!r}.")


@contextmanager
def open_engine(name: str | Engine) -> Iterator[Engine]:
    """The engine called `name`, with its cluster, if it is a cluster, running until the block ends."""
    engine = get_engine(name)
    if isinstance(name, str) and isinstance(engine, AbstractContextManager):
        with engine:
            yield engine
    else:
        yield engine


def _one_blas_thread() -> AbstractContextManager[Any]:
    """Threads that work on blocks already use every core; more of them below would wait for each other."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits
