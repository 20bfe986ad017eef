"""Small matrices want one BLAS thread: on a busy machine two of them mostly wait for each other."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

__all__ = ["single_threaded_if_small"]

_SMALL = 300  # columns; below, an eigendecomposition takes milliseconds and gains nothing from threads


def single_threaded_if_small(columns: int) -> AbstractContextManager[Any]:
    """Limit the linear algebra to one thread for the block, unless the matrices are large."""
    if columns > _SMALL:
        return nullcontext()
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits


@cache
def _controller() -> Any:
    """Looking the libraries up takes milliseconds, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
