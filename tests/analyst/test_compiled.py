"""Compiling a kernel leaves the process as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from numba.core import event

from hazeglass.analyst.solvers.compiled import _OPTIONS, _njit


class Watch(event.Listener):
    """Whether the collector was on when a compilation began and when it had ended, seen after our own listener."""

    def __init__(self) -> None:
        self.on: list[bool] = []

    def on_start(self, event: event.Event) -> None:
        self.on.append(gc.isenabled())

    def on_end(self, event: event.Event) -> None:
        self.on.append(gc.isenabled())


@pytest.fixture
def watch() -> Iterator[Watch]:
    found = Watch()
    event.register("numba:compile", found)
    yield found
    event.unregister("numba:compile", found)


def first(x):  # type: ignore[no-untyped-def]
    return x[0]


def broken(x):  # type: ignore[no-untyped-def]
    return x.no_such_thing


@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize("module", ["hazeglass.somewhere", "elsewhere"])
def test_the_collector_rests_while_a_kernel_compiles(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, collecting: bool, module: str
) -> None:
    for function in (first, broken):
        monkeypatch.setattr(function, "__module__", module)
    (gc.enable if collecting else gc.disable)()
    try:
        assert _njit(**_OPTIONS)(first)(np.ones(3)) == 1.0
        with pytest.raises(Exception, match="no_such_thing"):
            _njit(**_OPTIONS)(broken)(np.ones(3))
        assert gc.isenabled() == collecting
    finally:
        gc.enable()
    during = collecting and module == "elsewhere"
    assert watch.on == [during, collecting] * 2
