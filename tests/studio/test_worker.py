"""How a worker process ends, and what it says then."""

import json
import subprocess
import sys

import pytest

WORK = """
import time
from hazeglass.errors import DataError
from hazeglass.studio.worker import run, too_late_to_cancel

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
