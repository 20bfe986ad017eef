"""How kernels are compiled: once, cached on disk, without the interpreter's lock.

Reassociation lets sums use the vector units; NaN and infinity keep their meaning, because penalties may be
infinite. Where no folder for the cache is writable (a read-only installation), kernels live in memory only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

FAST = {"contract", "reassoc", "nsz"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call."""
    try:
        return njit(cache=True, fastmath=FAST, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # numba found nowhere to write its cache
        return njit(fastmath=FAST, nogil=True, error_model="numpy")(function)
