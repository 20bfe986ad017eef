"""Long work, outside the requests: each job is a worker process whose state any page may watch.

The worker is told its work on standard input and reports line by line on standard output. It stops when its standard
input closes, so it never outlives the studio, however the studio ends. Both ends of that are here: :class:`Jobs` in the
studio, :func:`run` in the worker. What a side's worker can do is said by the OPERATIONS of the side's module.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from hazeglass.errors import HazeglassError, HazeglassWarning, InputError

ENDED = ("done", "failed", "cancelled")
_MOST_RUNNING = 4  # a browser keeps six connections to one place, and each watched job holds one
_MOST_REMEMBERED = 100
_GRACE = 6.0  # seconds a worker may take to clean up behind itself before it is killed
_HEARTBEAT = 15.0
_LONGEST_LINE = 256 << 20
_SECONDS_BETWEEN_REPORTS = 0.1
_cancelled = threading.Event()  # in a worker: its input has closed


@dataclass(frozen=True)
class Work:
    """Something to start: an operation of the side's worker and what it is told.

    `target` is what it will write: no two may write the same. `clean_up` is called with the job's folder when the
    worker was killed and could not do it itself.
    """

    operation: str
    request: dict[str, Any]
    label: str
    target: Path | None = None
    clean_up: Callable[[Path], None] = lambda folder: None


@dataclass(eq=False)
class Job:
    """One piece of work: `state` is running, cancelling, done, failed or cancelled."""

    side: str
    work: Work
    folder: Path
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    state: str = "running"
    step: str = "starting"
    share: float | None = None
    error: str = ""
    refused: bool = False
    result: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    ended: float | None = None
    process: asyncio.subprocess.Process | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def kind(self) -> str:
        """The operation."""
        return self.work.operation

    def snapshot(self) -> dict[str, Any]:
        """What a page may know."""
        kept = {key: getattr(self, key) for key in ("id", "kind", "state", "step", "share", "error", "refused")}
        shown = {key: value for key, value in self.result.items() if not key.startswith("_")}
        seconds = (self.ended or time.time()) - self.started
        return {**kept, "label": self.work.label, "result": shown, "seconds": round(seconds, 1)}

    def update(self, **facts: Any) -> None:
        """Change the state and wake whoever watches."""
        for key, value in facts.items():
            setattr(self, key, value)
        if self.state in ENDED and self.ended is None:
            self.ended = time.time()
        before, self.changed = self.changed, asyncio.Event()
        before.set()


class Jobs:
    """All work of one studio."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def start(self, side: str, work: Work) -> Job:
        """Start the side's worker."""
        running = [job for job in self._jobs.values() if job.state not in ENDED]
        if self._stopping:
            raise InputError("the studio is stopping; nothing new is started.")
        if len(running) >= _MOST_RUNNING:
            raise InputError(f"{_MOST_RUNNING} pieces of work are running already. Wait for one, or cancel it.")
        if work.target is not None and any(job.work.target == work.target for job in running):
            raise InputError(f"another page is writing {work.target.name!r} right now. Choose another name, or wait.")
        job = Job(side, work, self.new_folder())
        self._remember(job)
        self._keep(asyncio.create_task(self._follow(job)))
        return job

    def _keep(self, task: asyncio.Task[None]) -> None:
        """A task lives as long as somebody knows it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def new_folder(self) -> Path:
        """A folder of its own below the studio's temporary one."""
        folder = self._workspace / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        return folder

    def get(self, side: str, identifier: str) -> Job:
        """A job of this side; the other side's are as unknown as any."""
        job = self._jobs.get(identifier)
        if job is None or job.side != side:
            raise InputError("this work is not known here any more: the studio was restarted, or it was long ago.")
        return job

    def of_side(self, side: str) -> list[Job]:
        """Newest first."""
        return [job for job in reversed(self._jobs.values()) if job.side == side]

    async def watch(self, job: Job) -> AsyncIterator[dict[str, Any] | None]:
        """Snapshots as they change, to the last; None now and then, so that a vanished reader is noticed."""
        while True:
            changed = job.changed
            yield job.snapshot()
            if job.state in ENDED:
                return
            waiting = True
            while waiting:
                try:
                    await asyncio.wait_for(changed.wait(), _HEARTBEAT)
                    waiting = False
                except TimeoutError:
                    yield None

    async def cancel(self, job: Job) -> None:
        """Ask the worker to stop as Ctrl-C would; a worker that does not is killed."""
        if job.state != "running":
            return
        job.update(state="cancelling", step="cancelling")
        process = job.process
        if process is None:
            return  # not started yet; _follow sees the state
        if process.stdin is not None:
            process.stdin.close()
        self._keep(asyncio.create_task(_kill_late(process)))

    async def stop(self) -> None:
        """Cancel everything and wait for it."""
        self._stopping = True
        for job in self._jobs.values():
            await self.cancel(job)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GRACE + 2)

    def _remember(self, job: Job) -> None:
        self._jobs[job.id] = job
        ended = [one for one in self._jobs.values() if one.state in ENDED]
        for old in ended[: max(0, len(self._jobs) - _MOST_REMEMBERED)]:
            del self._jobs[old.id]
            shutil.rmtree(old.folder, ignore_errors=True)

    async def _follow(self, job: Job) -> None:
        """Run the worker to its end and keep the job's state."""
        last: dict[str, Any] = {}
        try:
            job.process = process = await _spawn(job.side)
            if job.state == "cancelling":
                process.kill()
            last = await _read_reports(job, process)
        except OSError as error:
            last = {"state": "failed", "error": f"the worker could not be started: {error.strerror}."}
        if last.get("state") not in ENDED:
            job.work.clean_up(job.folder)
        job.update(**_ending(job, last))


def _ending(job: Job, last: dict[str, Any]) -> dict[str, Any]:
    if last.get("state") in ENDED:
        return {"step": "", "share": None, **last}
    if job.state == "cancelling":
        return {"state": "cancelled", "step": "", "share": None}
    return {"state": "failed", "step": "", "error": "the worker stopped without a word; perhaps memory ran out."}


def worker_code(side: str) -> str:
    """The program of a side's worker."""
    return f"from hazeglass.studio import jobs, {side}; jobs.run({side}.OPERATIONS)"


async def _spawn(side: str) -> asyncio.subprocess.Process:
    """A Python of its own: -P keeps the folder it runs in, which may hold anything, off its path."""
    quiet_network = {"no_proxy": "*", "NO_PROXY": "*"}  # a loopback address must not be asked of a proxy
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-c",
        worker_code(side),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **quiet_network},
        limit=_LONGEST_LINE,
        start_new_session=True,
    )


async def _read_reports(job: Job, process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    request = {**job.work.request, "operation": job.kind, "workspace": str(job.folder)}
    with contextlib.suppress(ConnectionError):
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()
    last: dict[str, Any] = {}
    async for line in process.stdout:
        last = json.loads(line)
        if last["state"] == "running" and job.state == "running":
            job.update(step=last["step"], share=last["share"])
    await process.wait()
    return last


async def _kill_late(process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), _GRACE)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


class Report:
    """Tells the studio how far the work is."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._last, self._step = out, 0.0, ""

    def __call__(self, step: str, share: float | None = None) -> None:
        """A step in words, and how much of the work is done, from 0 to 1, where that is known."""
        now = time.monotonic()
        if step == self._step and now - self._last < _SECONDS_BETWEEN_REPORTS:
            return
        self._last, self._step = now, step
        self.tell(state="running", step=step, share=share)

    def tell(self, **facts: Any) -> None:
        """One line."""
        self._out.write(json.dumps(facts, allow_nan=False) + "\n")
        self._out.flush()


Operation = Callable[[dict[str, Any], Report], dict[str, Any]]


def run(operations: Mapping[str, Operation]) -> None:
    """Do the work named on the first line of standard input and say how it ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background would have it ignored
    report = Report(_own_output())
    try:
        line = sys.stdin.readline()
        if not line:
            raise KeyboardInterrupt  # cancelled before it was told what to do
        request = json.loads(line)
        threading.Thread(target=_stop_with_the_studio, daemon=True).start()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HazeglassWarning)
            result = operations[request["operation"]](request, report)
        notes = [str(one.message) for one in caught if issubclass(one.category, HazeglassWarning)]
        report.tell(state="done", result={**result, "warnings": notes})
    except KeyboardInterrupt:
        report.tell(state="cancelled")
    except Exception as error:
        if _cancelled.is_set():  # an interrupt inside a library may come out as an error of its own
            report.tell(state="cancelled")
            return
        if isinstance(error, HazeglassError):
            report.tell(state="failed", error=str(error), refused=error.exit_status == 3)
            return
        # Where it was, to the studio's terminal; neither it nor the browser gets its words, which may quote a cell.
        traceback.print_tb(error.__traceback__)
        report.tell(
            state="failed",
            error=f"something unexpected failed ({type(error).__name__}); the terminal of the studio says where.",
        )


def too_late_to_cancel() -> None:
    """The work has had its effect; a wish to cancel that comes now must not make it look undone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _own_output() -> TextIO:
    """Standard output for reports alone; whatever else is printed goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def _stop_with_the_studio() -> None:
    """Wait for the end of standard input, then interrupt the work as Ctrl-C would."""
    while sys.stdin.readline():
        pass
    _cancelled.set()
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
