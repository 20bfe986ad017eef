"""How kernels are compiled: once, cached on disk, without the interpreter's lock.

Reassociation lets sums use the vector units; NaN and infinity keep their meaning, because penalties may be
infinite. Counters begin at an entry that holds 0, or at 0.0, not at the literal 0: its type would change on the way,
and the whole function be typed once more for each such step. Where no folder for the cache is writable (a read-only
installation), kernels live in memory only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_OPTIONS = {
    "fastmath": {"contract", "reassoc", "nsz"},
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
_njit: Any = numba.njit  # its stubs do not know the last option


def announce_compilation(compiled: Any) -> None:
    """Say once, through logging, that a call will first compile for some seconds."""
    if getattr(compiled, "signatures", True):
        return  # compiled or loaded before in this process, or numba was told to compile nothing
    folder = getattr(compiled.stats, "cache_path", None)
    name = f"{compiled.py_func.__module__.rpartition('.')[2]}.{compiled.py_func.__qualname__}-*.nbi"
    if folder is None or not any(Path(folder).glob(name)):
        logging.getLogger("hazeglass").warning("compiling the solvers for this machine: once, a few seconds")


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call; Python calls it."""
    try:
        return _njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found nowhere to write its cache
        return _njit(**_OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A part of kernels, never called from Python: without that entrance and a cache of its own it compiles faster."""
    return _njit(no_cpython_wrapper=True, **_OPTIONS)(function)
