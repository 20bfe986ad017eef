"""Who does the work on blocks: one caller, a few threads, or a dask cluster. Results arrive in the order of the blocks.

serial              the caller's own thread
threads             one thread per core (at most 8)
dask                the dask client of this session, or a cluster of local processes when there is none
dask:tcp://host:1   the cluster with this scheduler

On a cluster, what may be secret takes the direct way between this process and the worker: blocks in memory are handed
to a worker before the task that reads them, and results are fetched from the worker that made them. The scheduler sees
a function, names of files and numbers of row groups. Failures come back as values, because dask would write an
exception, and the arguments that led to it, into its logs. A task whose worker is lost runs again elsewhere; the caller
gets one result per block, whichever run it came from.

A port of 127.0.0.1 is open to everybody on the host, and whoever may speak to a scheduler or a worker may run code in
it. Local processes therefore speak TLS, with a certificate that is made for the cluster, lives as long as it does and
is asked of both ends.

dask imports from its scratch folder first, in this process and in its workers, and Python looks for a worker's first
modules in the current folder. Whoever may write there would run code among the rows: local processes have a scratch
folder that no one else may write, and start without the current folder on their path.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, get_args

from hazeglass.errors import HazeglassError, InputError, MissingExtraError

B = TypeVar("B")
R = TypeVar("R")
EngineName = Literal["serial", "threads", "dask"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
FEW_COLUMNS = 300  # below, an eigendecomposition takes milliseconds and gains nothing from threads
_TRIES = 4
_PATIENCE = "30s"
_SHOWN_EVERY = 0.25  # seconds between two numbers of progress
# Blocks and sums are secret: they must not be spilled to a worker's disk, nor be looked at or counted on a page.
_SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


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

        return parallel_config("sequential")  # type: ignore[no-any-return]


class Threads:
    """A few threads; NumPy, Arrow and the samplers let go of the interpreter lock while they work."""

    remote = False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or min(8, os.cpu_count() or 1)

    def map(self, function: Callable[[B], R], blocks: Iterable[B]) -> Iterator[R]:
        """Apply in order, at most two blocks per worker waiting."""
        with ThreadPoolExecutor(self.workers) as pool, one_blas_thread():  # every core works on a block already
            yield from _in_order(pool.submit, function, blocks, 2 * self.workers)

    def joblib(self) -> AbstractContextManager[Any]:
        """As many jobs at a time as there are threads."""
        from joblib import parallel_config

        return parallel_config("threading", n_jobs=self.workers)  # type: ignore[no-any-return]


class Dask:
    """The cluster behind an address, this session's client, or local processes, one per core."""

    remote = True

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self.address, self.workers = address, workers
        self._client: Any = None
        self._users = 0
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        if self._users == 0:
            try:
                self._client = self._connect()
            except BaseException:
                self._opened.close()  # a cluster that does not start leaves nothing behind
                raise
        self._users += 1
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._users -= 1
        if self._users == 0:
            self._client = None
            self._opened.close()

    def _connect(self) -> Any:
        try:
            import dask
            import distributed
        except ImportError:
            raise MissingExtraError("engine dask needs dask. Install it with: pip install 'hazeglass[dask]'") from None
        if self.address is None and self.workers is None:
            try:
                return distributed.get_client()
            except ValueError:
                pass  # no client in this session
        self._opened.enter_context(dask.config.set(_SETTINGS))
        if self.address is None:
            scratch = self._opened.enter_context(_own_modules_only())
            self._opened.enter_context(dask.config.set({"temporary-directory": scratch}))
        try:
            target = self.address or self._opened.enter_context(
                distributed.LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    protocol="tls://",
                    security=distributed.Security.temporary(),
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                    silence_logs=logging.CRITICAL,
                )
            )
            client = distributed.Client(target, direct_to_workers=True, timeout=_PATIENCE)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(
                f"the dask scheduler {self.address!r} does not answer ({type(error).__name__}). Check its address, "
                "which reads like tcp://host:8786."
            ) from None
        return self._opened.enter_context(client)

    def map(self, function: Callable[[B], R], blocks: Iterable[B]) -> Iterator[R]:
        """Apply in order, at most two blocks per worker thread waiting."""
        with self:
            at_once = 2 * max(2, sum(self._client.nthreads().values()))
            yield from _in_order(partial(_Task, self._client), function, blocks, at_once)

    @contextmanager
    def joblib(self) -> Iterator[None]:
        """joblib's own dask backend."""
        from joblib import parallel_config

        with self, parallel_config("dask"):
            yield


@contextmanager
def _own_modules_only() -> Iterator[str]:
    """A scratch folder for local processes started meanwhile, also in the place of lost ones; nothing else is theirs.

    What dask has put on the path goes before the folder does: its name would be free for others then.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:  # they get our flags, and hear of no safe path
        raise InputError(
            "local dask processes of a Python that was started with -E would import modules from the current folder. "
            "Start Python with -I, or with -P as well, or use another engine."
        )
    before = os.environ.get("PYTHONSAFEPATH")
    with tempfile.TemporaryDirectory(prefix="hazeglass-", ignore_cleanup_errors=True) as folder:
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            yield folder
        finally:
            sys.path[:] = [entry for entry in sys.path if not str(entry).startswith(folder)]
            if before is None:
                os.environ.pop("PYTHONSAFEPATH", None)
            else:
                os.environ["PYTHONSAFEPATH"] = before


@dataclass(frozen=True)
class _Failure:
    """An error as a value."""

    error: Exception


class _Guarded(Generic[B, R]):
    """The function as a worker runs it."""

    def __init__(self, function: Callable[[B], R]) -> None:
        self.function = function

    def __call__(self, block: B) -> R | _Failure:
        try:
            return self.function(block)
        except HazeglassError as error:
            return _Failure(error)  # our own messages never quote a cell
        except Exception as error:  # somebody else's may
            return _Failure(RuntimeError(f"a worker failed on block {block!r}: {type(error).__name__}"))

    def with_rows(self, block: Any, frame: Any) -> R | _Failure:
        """The same for a partition whose rows have been computed."""
        return self(block.loaded(frame))


def _call_handed(handed: tuple[Callable[..., R], Any], *rows: Any) -> R:
    """A function that travelled with its block, past the scheduler."""
    function, block = handed
    return function(block, *rows)


class _Task(Generic[B, R]):
    """One block's work, submitted again when the block itself was lost with its worker."""

    def __init__(self, client: Any, function: Callable[[B], R], block: B) -> None:
        self.client, self.function = client, _Guarded(function)
        self.block: Any = block.portable() if hasattr(block, "portable") else block
        self._submit()

    def _submit(self) -> None:
        lazy = getattr(self.block, "lazy_rows", None)  # rows that the cluster itself computes, or holds already
        carried: Any = self.block if lazy is None else self.block.without_rows()
        function = self.function if lazy is None else self.function.with_rows
        work: tuple[Any, ...] = (function, carried)
        if getattr(self.function.function, "secret", False):  # it goes the same way as secret rows
            work = (_call_handed, self._handed_over((function, carried)))
        elif not getattr(self.block, "public", True):
            work = (function, self._handed_over(carried))
        rows = () if lazy is None else (self.client.compute(lazy),)
        self.future = self.client.submit(*work, *rows, key=f"hazeglass-{uuid.uuid4().hex}", pure=False)

    def _handed_over(self, carried: Any) -> Any:
        """The block on some worker; one that dies while it is being handed its block is passed over."""
        for attempt in range(1, _TRIES + 1):
            try:
                return self.client.scatter([carried], direct=True, hash=False)[0]
            except (OSError, TimeoutError):
                time.sleep(0.5 * attempt)  # until the scheduler has noticed, or the worker is back
        raise self._lost()

    def _lost(self) -> InputError:
        return InputError(
            f"dask lost one worker after the other on {self.block!r}. Give the workers more memory, or use fewer."
        )

    def result(self) -> R:
        """Wait for it; a cluster that keeps losing workers is an error."""
        from distributed import KilledWorker

        for _ in range(_TRIES):
            try:
                (found,) = self.client.gather([self.future], direct=True)
            except CancelledError:  # the block was lost with the worker that held it
                self._submit()
                continue
            except KilledWorker:  # dask has tried this one several times
                break
            self.cancel()
            if isinstance(found, _Failure):
                raise found.error
            return found  # type: ignore[no-any-return]
        raise self._lost()

    def cancel(self) -> None:
        """Let the cluster forget it."""
        self.future.release()


Submit = Callable[[Callable[[B], R], B], Future[R] | _Task[B, R]]


def _in_order(submit: Submit[B, R], function: Callable[[B], R], blocks: Iterable[B], at_once: int) -> Iterator[R]:
    """The results in the order of the blocks, with at most `at_once` of them begun."""
    waiting: deque[Future[R] | _Task[B, R]] = deque()
    try:
        for block in blocks:
            waiting.append(submit(function, block))
            if len(waiting) >= at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for running in waiting:
            running.cancel()


def get_engine(name: str | Engine) -> Engine:
    """The engine called `name`; an engine is handed through."""
    if not isinstance(name, str):
        return name
    kind, _, address = name.partition(":")
    if kind == "dask":
        return Dask(address or None)
    if name == "serial":
        return Serial()
    if name == "threads":
        return Threads()
    raise InputError(f"engine must be one of {', '.join(ENGINES)} or dask:ADDRESS, got {name!r}.")


def spoken(progress: Callable[[Any], None] | bool | None, what: str) -> Callable[[Any], None] | None:
    """True becomes a line on standard error that says how far the work is: a notebook shows it below the cell.

    Numbers come by the hundred, and a notebook keeps every one it is told: four in a second are shown.
    """
    if not isinstance(progress, bool):
        return progress
    shown = -math.inf

    def say(done: Any) -> None:
        nonlocal shown
        if isinstance(done, int) and time.monotonic() - shown < _SHOWN_EVERY:
            return
        shown = time.monotonic()
        sys.stderr.write(f"\r{what}: {f'{done:,} done' if isinstance(done, int) else done}".ljust(70))
        sys.stderr.flush()

    return say if progress else None


@contextmanager
def open_engine(name: str | Engine) -> Iterator[Engine]:
    """The engine called `name`, with its cluster, if it is a cluster, running until the block ends."""
    engine = get_engine(name)
    if isinstance(name, str) and isinstance(engine, AbstractContextManager):
        with engine:
            yield engine
    else:
        yield engine


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit the linear algebra to one thread: small problems, and those side by side, mostly wait for each other."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")  # type: ignore[no-any-return]


def single_threaded_if_small(columns: int) -> AbstractContextManager[Any]:
    """The same, unless the matrices are large."""
    return nullcontext() if columns > FEW_COLUMNS else one_blas_thread()
