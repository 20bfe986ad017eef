"""Cholesky factors of symmetric matrices: the one test of positive definiteness used everywhere.

Matrices are symmetric and C-ordered, so their transpose is handed to LAPACK without a copy.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]


def cholesky(A: FloatArray, *, overwrite: bool = False) -> FloatArray | None:
    """The upper factor R with R'R = A (rubbish below the diagonal), or None where A is not positive definite."""
    factor = A.T if overwrite and A.flags.c_contiguous else np.array(A.T, dtype=np.float64, order="F")
    if _lapack("dpotrf", factor) != 0:
        return None
    pivots = np.diagonal(factor)
    return factor if bool(np.all(np.isfinite(pivots)) and np.all(pivots > 0)) else None


def _lapack(name: str, matrix: FloatArray) -> int:
    """Run dpotrf or dpotri on the upper half of a Fortran-ordered matrix, in place; returns LAPACK's info."""
    size, info = ctypes.c_int(matrix.shape[0]), ctypes.c_int(0)
    _routine(name)(b"U", ctypes.byref(size), matrix.ctypes.data, ctypes.byref(size), ctypes.byref(info))
    return info.value


@cache
def _routine(name: str) -> Any:
    """The routine in scipy's LAPACK, called through ctypes: scipy's own wrapper keeps other threads waiting."""
    from scipy.linalg import cython_lapack

    table: Any = cython_lapack.__pyx_capi__
    capsule = table[name]
    read = ctypes.pythonapi
    read.PyCapsule_GetName.restype, read.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    read.PyCapsule_GetPointer.restype = ctypes.c_void_p
    read.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = read.PyCapsule_GetPointer(capsule, read.PyCapsule_GetName(capsule))
    pointer = ctypes.c_void_p
    return ctypes.CFUNCTYPE(None, ctypes.c_char_p, pointer, pointer, pointer, pointer)(address)


def logdet(factor: FloatArray) -> float:
    """log det A from its Cholesky factor."""
    return 2.0 * float(np.sum(np.log(np.diagonal(factor))))


def inverse(factor: FloatArray) -> FloatArray:
    """The full symmetric inverse of A from its Cholesky factor (which is overwritten)."""
    half = np.asfortranarray(factor)
    info = _lapack("dpotri", half)
    if info != 0:  # pragma: no cover (a factor with positive pivots always inverts)
        raise np.linalg.LinAlgError(f"dpotri failed with info={info}")
    full = np.ascontiguousarray(half.T)  # C order: the valid half is now the lower one
    mirror_lower(full)
    return full


def mirror_lower(A: FloatArray, block: int = 64) -> None:
    """Copy the lower triangle of A onto the upper one, in place and block by block so that it stays in cache."""
    p = A.shape[0]
    for start in range(0, p, block):
        stop = min(start + block, p)
        corner = A[start:stop, start:stop]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        A[start:stop, stop:] = A[stop:, start:stop].T


def soft_threshold(A: FloatArray, threshold: FloatArray | float) -> FloatArray:
    """A moved towards zero by `threshold`, entry by entry; entries smaller than that become 0."""
    shrunk = np.abs(A)
    shrunk -= threshold
    np.maximum(shrunk, 0.0, out=shrunk)
    return np.copysign(shrunk, A, out=shrunk)
