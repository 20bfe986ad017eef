"""Long work: watched, cancelled, never half done, never left behind."""

import asyncio
import json
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from hazeglass.errors import InputError
from hazeglass.publisher.ledger import Ledger
from hazeglass.studio.jobs import Jobs, Work, worker_code
from hazeglass.studio.publisher import remove_partial


@pytest.fixture
def big(home, wish):
    """Rows enough to be interrupted, and a ledger."""
    rows = np.random.default_rng(1).uniform(-4, 4, (150_000, 3))
    csv.write_csv(pa.table(list(rows.T), names=["Größe", "âge", "c"]), home / "inner" / "rows.csv")
    Ledger.create(home / "inner" / "b.ledger", "meters", mu_total=5.0)
    return {
        "operation": "publish",
        "document": wish["document"],
        "data": str(home / "inner" / "rows.csv"),
        "out": str(home / "inner" / "release"),
        "ledger": str(home / "inner" / "b.ledger"),
        "rows": 150_000,
    }


def run(tmp_path, body):
    async def main():
        workspace = tmp_path / "space"
        workspace.mkdir(exist_ok=True)
        jobs = Jobs(workspace)
        try:
            return await body(jobs)
        finally:
            await jobs.stop()

    return asyncio.run(main())


async def until(jobs, job, wanted):
    async for snapshot in jobs.watch(job):
        if snapshot is not None and wanted(snapshot):
            return snapshot
    return job.snapshot()


@pytest.mark.parametrize("moment", ["starting", "counting the rows", "adding noise"])
def test_a_cancelled_publication_leaves_nothing_but_its_charge(tmp_path, home, big, moment):
    async def body(jobs):
        job = await jobs.start("publisher", Work("publish", big, "x"))
        await until(jobs, job, lambda s: s["step"].startswith(moment) or s["state"] != "running")
        await jobs.cancel(job)
        return await until(jobs, job, lambda s: s["state"] in ("done", "failed", "cancelled"))

    last = run(tmp_path, body)
    left = sorted(path.name for path in (home / "inner").iterdir())
    summary = Ledger.open(big["ledger"]).summary()  # reads and verifies the whole chain
    if last["state"] == "done":  # it was quicker than the wish
        assert summary.releases == 1
    else:
        assert last["state"] == "cancelled", last["error"]
        assert left == ["b.ledger", "rows.csv"]
        assert summary.releases == 0
        assert (summary.mu_spent > 0) == (summary.unfinished == 1)


def test_stopping_the_studio_cancels_the_work(tmp_path, home, big):
    async def body(jobs):
        job = await jobs.start("publisher", Work("publish", big, "x"))
        await until(jobs, job, lambda s: s["step"].startswith("counting"))
        await jobs.stop()
        with pytest.raises(InputError, match="stopping"):
            await jobs.start("publisher", Work("publish", big, "x"))
        return job.snapshot()

    assert run(tmp_path, body)["state"] == "cancelled"
    assert not (home / "inner" / "release").exists()


def test_a_worker_does_not_outlive_a_studio_that_was_killed(home, big, tmp_path):
    worker = subprocess.Popen(
        [sys.executable, "-P", "-c", worker_code("publisher")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    worker.stdin.write(json.dumps({**big, "workspace": str(tmp_path)}) + "\n")
    worker.stdin.flush()
    assert json.loads(worker.stdout.readline())["step"] == "counting the rows"
    worker.stdin.close()  # what the kernel does when the studio dies
    assert worker.wait(20) == 0
    assert json.loads(worker.stdout.read().splitlines()[-1])["state"] in ("cancelled", "done")
    worker.stdout.close()


def test_two_may_not_write_the_same_release(tmp_path, big):
    async def body(jobs):
        from pathlib import Path

        target = Path(big["out"])
        await jobs.start("publisher", Work("publish", big, "x", target=target))
        with pytest.raises(InputError, match="another page"):
            await jobs.start("publisher", Work("publish", big, "x", target=target))

    run(tmp_path, body)


def test_a_worker_that_dies_is_reported_and_cleaned_up_behind(tmp_path, home, big):
    cleaned = []

    async def body(jobs):
        job = await jobs.start("publisher", Work("publish", big, "x", clean_up=cleaned.append))
        await until(jobs, job, lambda s: s["step"] == "counting the rows")
        job.process.kill()
        await until(jobs, job, lambda s: s["state"] != "running")
        return job

    job = run(tmp_path, body)
    assert job.state == "failed"
    assert cleaned == [job.folder]


def test_what_a_killed_worker_left_is_removed_and_what_others_are_making_is_not(tmp_path, home, big):
    """The command line may be publishing to the same name: its charge would be lost with its folder."""
    big["document"]["release"]["form"] = "table"  # which writes for longer
    others = home / "inner" / ".release.partial-0123456789abcdef"
    others.mkdir()

    def begun():
        return [path for path in (home / "inner").glob(".release.partial-*") if path != others]

    async def body(jobs):
        job = await jobs.start("publisher", Work("publish", big, "x", clean_up=remove_partial))
        while not begun() and job.ended is None:
            await asyncio.sleep(0.001)
        job.process.kill()
        assert begun()
        return await until(jobs, job, lambda s: s["state"] != "running")

    assert run(tmp_path, body)["state"] == "failed"
    assert sorted(os.listdir(home / "inner")) == [others.name, "b.ledger", "rows.csv"]


def test_any_number_of_pages_may_watch_and_all_see_the_end(tmp_path, wish, home):
    request = {"data": str(home / "inner" / "rows.csv")}

    async def body(jobs):
        job = await jobs.start("publisher", Work("look", request, "x"))
        ends = await asyncio.gather(*(until(jobs, job, lambda s: s["state"] == "done") for _ in range(5)))
        late = await until(jobs, job, lambda s: True)
        return [*ends, late]

    assert {snapshot["state"] for snapshot in run(tmp_path, body)} == {"done"}


def test_at_most_a_few_pieces_of_work_run_at_once(tmp_path, big):
    async def body(jobs):
        for _ in range(4):
            await jobs.start("publisher", Work("publish", big, "x"))
        with pytest.raises(InputError, match="running already"):
            await jobs.start("publisher", Work("publish", big, "x"))

    began = time.monotonic()
    run(tmp_path, body)
    assert time.monotonic() - began < 20


WORK = """
import time
from hazeglass.errors import DataError
from hazeglass.studio.jobs import run, too_late_to_cancel

def wait():
    for _ in range(100):
        time.sleep(0.1)

def interrupted_library(request, report):
    report("waiting")
    try:
        wait()
    except KeyboardInterrupt:
        raise DataError("cannot be read to its end") from None

def finished(request, report):
    too_late_to_cancel()
    report("waiting")
    time.sleep(0.5)
    return {"name": "r"}

def refused(request, report):
    report("waiting")
    raise DataError("not a number")

run({"interrupted_library": interrupted_library, "finished": finished, "refused": refused})
"""


@pytest.mark.parametrize(
    ("operation", "cancelled", "state"),
    [
        ("interrupted_library", True, "cancelled"),  # an error that the interrupt caused is not an error
        ("finished", True, "done"),
        ("finished", False, "done"),
        ("refused", False, "failed"),
    ],
)
def test_a_cancelled_worker_says_what_became_of_its_work(operation, cancelled, state):
    with subprocess.Popen(
        [sys.executable, "-P", "-c", WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        worker.stdin.write(json.dumps({"operation": operation}) + "\n")
        worker.stdin.flush()
        assert json.loads(worker.stdout.readline())["step"] == "waiting"
        if cancelled:
            worker.stdin.close()
        last = json.loads(worker.stdout.readlines()[-1])
    assert last["state"] == state
    assert (state == "failed") == ("error" in last)
