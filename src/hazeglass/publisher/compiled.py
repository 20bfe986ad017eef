"""How the publisher's kernels are compiled. Importing this module imports numba: do it only where one runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["compiled", "elementwise"]

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def compiled(function: Kernel) -> Kernel:
    """numba.njit, cached on disk where a cache can be written; without the interpreter's lock, so threads run at once.

    numba refuses to decorate where neither the package's folder nor the user's cache can be written.
    A read-only installation is no reason not to publish; it costs some seconds of compilation in each process.
    """
    return _compiled(function)


def elementwise(function: Kernel) -> Kernel:
    """The same for loops over floats: they divide as NumPy does, without a test that would rule vectors out.

    Sums and products are not contracted, so the bits are those of the same steps in NumPy.
    """
    return _compiled(function, error_model="numpy")


def _compiled(function: Kernel, **options: Any) -> Kernel:
    try:
        kernel: Any = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:
        kernel = numba.njit(nogil=True, **options)(function)
    return kernel  # type: ignore[no-any-return]
