"""Shared by all tests: repeatable noise, a small plan, a small table; helpers of this folder are imported by name."""

import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

from hazeglass.publisher import noise
from hazeglass.publisher.plan import Plan

sys.path.insert(0, str(Path(__file__).parent))

# The gate tries the same noise and the same examples every time: it fails where the code is wrong, not by chance.
# HAZEGLASS_FRESH=1 tries others (`make trust` does).
FRESH = bool(os.environ.get("HAZEGLASS_FRESH"))

# What counts is what an example shows, not how long it took on a busy machine.
settings.register_profile("hazeglass", deadline=None, derandomize=not FRESH)
settings.load_profile("hazeglass")


class _RepeatableSystem:
    """The operating system as the publisher's bits know it, its secrets made from the test's name and a counter."""

    def __init__(self):
        self._name, self._calls, self._process = "", 0, os.getpid()

    def begin(self, name):
        self._name, self._calls = name, 0

    def urandom(self, size):
        if not self._name or os.getpid() != self._process:  # a fork has bits of its own, as it would have in earnest
            return os.urandom(size)
        self._calls += 1
        return hashlib.shake_256(f"{self._name} {self._calls}".encode()).digest(size)


_SYSTEM = _RepeatableSystem()


def pytest_configure():
    if not FRESH:
        noise.os = _SYSTEM


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _SYSTEM.begin(item.nodeid)


def plan_document(form="moments", protects="record", columns=("a", "b", "c"), **release):
    return {
        "release": {"title": "Test", "form": form, "protects": protects, **release},
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "columns": [{"name": name, "kind": "continuous", "lower": -4.0, "upper": 4.0} for name in columns],
    }


@pytest.fixture
def make_plan():
    """A plan from keyword arguments; `budget` and `columns_as` replace whole sections."""

    def make(budget=None, columns_as=None, **release):
        document = plan_document(**release)
        if budget is not None:
            document["budget"] = budget
        if columns_as is not None:
            document["columns"] = columns_as
        return Plan.from_dict(document)

    return make


@pytest.fixture
def table():
    """600 rows of three columns: a chain a - b - c."""
    rng = np.random.default_rng(7)
    a = rng.standard_normal(600)
    b = 0.8 * a + 0.6 * rng.standard_normal(600)
    c = 0.8 * b + 0.6 * rng.standard_normal(600)
    return pa.table({"a": a, "b": b, "c": c})


@pytest.fixture
def plan_text():
    """A complete plan.toml."""
    return _PLAN


_PLAN = """\
[release]
title = "Test"
form = "moments"
protects = "record"
[budget]
epsilon = 1.0
delta = 1e-6
[[columns]]
name = "a"
kind = "continuous"
lower = -4.0
upper = 4.0
[[columns]]
name = "b"
kind = "continuous"
lower = -4.0
upper = 4.0
[[columns]]
name = "c"
kind = "continuous"
lower = -4.0
upper = 4.0
"""


@pytest.fixture(scope="session")
def cluster():
    """Two local dask workers, each a process of its own; started once, because that takes seconds."""
    distributed = pytest.importorskip("distributed", reason="dask is not installed: pip install 'hazeglass[dask]'")
    local = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    )
    with local, distributed.Client(local, direct_to_workers=True) as client:
        client.wait_for_workers(2)
        yield local
