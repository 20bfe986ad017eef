"""Large matrices on the CPU (NumPy) or on a device (torch), in one spelling.

Code for many columns is written with what both kinds of array share: operators, `@`, `.T`, `.sum()`, `.diagonal()`,
slices. What they do not share stands here. Neither torch nor SciPy is imported unless an array of torch comes in, or
SciPy is there: the code that needs this file runs where little else is installed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = Any  # numpy.ndarray or torch.Tensor
FloatArray: TypeAlias = npt.NDArray[np.float64]

_LANCZOS = 160  # steps
_STRIP = 1 << 23  # entries that are worked on at a time


def is_tensor(A: Array) -> bool:
    """Whether torch holds it."""
    return not isinstance(A, np.ndarray)


def on(like: Array, host: npt.ArrayLike) -> Array:
    """Numbers of the host, beside `like`."""
    if not is_tensor(like):
        return np.asarray(host, dtype=np.float64)
    import torch

    return torch.as_tensor(np.asarray(host, dtype=np.float64), device=like.device)


def to_host(A: Array) -> Any:
    """As a NumPy array."""
    return A.cpu().numpy() if is_tensor(A) else A


def roughly(A: Array) -> Array:
    """A copy in half the memory, seven digits of each entry."""
    return A.float() if is_tensor(A) else A.astype(np.float32)


def diagonal_matrix(values: Array) -> Array:
    """With these numbers, and nothing beside them."""
    if not is_tensor(values):
        return np.diag(values)
    import torch

    return torch.diag(values)


def set_diagonal(A: Array, values: Array | float) -> None:
    """In place."""
    if is_tensor(A):
        diagonal = A.diagonal()
        diagonal.fill_(values) if isinstance(values, float) else diagonal.copy_(values)
    else:
        np.fill_diagonal(A, values)


def strips(A: Array) -> Iterator[slice]:
    """The rows in pieces: what is computed entry by entry never holds more than a piece beside its result."""
    size = max(1, _STRIP // max(1, A.shape[1]))
    for begin in range(0, len(A), size):
        yield slice(begin, min(begin + size, len(A)))


def largest(A: Array, B: Array | float) -> Array:
    """The larger of each two."""
    if not is_tensor(A):
        return np.maximum(A, B)
    return A.clip(min=B)


def sandwich(G: Array, A: Array) -> Array:
    """G A G^T, exactly symmetric."""
    found = G @ A @ G.T
    return symmetric(found)


def symmetric(A: Array) -> Array:
    """(A + A^T) / 2."""
    return (A + A.T) / 2


def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues, smallest first, and vectors."""
    if not is_tensor(A):
        return np.linalg.eigh(A)
    import torch

    values, vectors = torch.linalg.eigh(A)
    return values, vectors


def factor(A: Array) -> Array | None:
    """The lower Cholesky factor, or None where A is not positive definite."""
    if not is_tensor(A):
        try:
            return np.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            return None
    import torch

    found, info = torch.linalg.cholesky_ex(A)
    return found if int(info) == 0 else None


def inverse(A: Array) -> Array | None:
    """Of a symmetric positive definite matrix; None where it is none."""
    if not is_tensor(A):
        with suppress(ImportError):
            from hazeglass.glasso.linalg import cholesky
            from hazeglass.glasso.linalg import inverse as completed

            found = cholesky(A)
            return None if found is None else completed(found)
    root = factor(A)
    if root is None:
        return None
    if not is_tensor(A):
        half = np.linalg.inv(root)
        return half.T @ half
    import torch

    return torch.cholesky_inverse(root)


def general_inverse(A: Array) -> Array:
    """Of any matrix that has one."""
    found = inverse(A)
    if found is not None:
        return found
    if not is_tensor(A):
        return np.linalg.inv(A)
    import torch

    return torch.linalg.inv(A)


def triangle_of(rows: list[Array]) -> Array:
    """All of them in coordinates of their own: R with R^T R the products of the rows, one column a row."""
    if not is_tensor(rows[0]):
        return np.linalg.qr(np.concatenate(rows).T, mode="r")
    import torch

    return torch.linalg.qr(torch.cat(rows).T, mode="r")[1]


def leading(A: Array, most: int, error: float = 1e-6) -> tuple[FloatArray, Array]:
    """The eigenvalues of a symmetric matrix that are largest in size, largest first, and their vectors as columns.

    Lanczos' method, every new direction made orthogonal to all before it, until their errors are so small beside the
    largest; or as good as they are after many steps, in a bulk that has no leading ones.
    """
    p = len(A)
    start = on(A, np.random.default_rng(0).standard_normal(p) / math.sqrt(p) + 1)
    steps = min(p, _LANCZOS)
    Q = on(A, np.zeros((steps, p)))
    Q[0] = start / float((start**2).sum()) ** 0.5
    alphas, betas = np.zeros(steps), np.zeros(steps)
    done = steps
    for k in range(steps):
        after = A @ Q[k]
        alphas[k] = float(after @ Q[k])
        for _ in range(2):
            after = after - Q[: k + 1].T @ (Q[: k + 1] @ after)
        betas[k] = float((after**2).sum()) ** 0.5
        checked = k + 1 == steps or (k >= 2 * most and k % 10 == 0)
        small = betas[k] <= 1e-14 * max(float(np.abs(alphas).max()), 1e-300)
        if checked or small:
            values, vectors = _tridiagonal(alphas[: k + 1], betas[:k])
            order = np.argsort(-np.abs(values))[:most]
            missed = np.abs(betas[k] * vectors[-1, order]).max()
            if small or k + 1 == steps or missed <= error * np.abs(values).max():
                done = k + 1
                break
        Q[k + 1] = after / betas[k]
    return values[order], Q[:done].T @ on(A, vectors[:, order])


def _tridiagonal(diagonal: FloatArray, beside: FloatArray) -> tuple[FloatArray, FloatArray]:
    found = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    return found[0], found[1]


def two_sided(z: npt.ArrayLike) -> FloatArray:
    """P(|Z| >= z) of a standard normal."""
    scaled = np.asarray(z, dtype=np.float64) / math.sqrt(2)
    try:
        from scipy.special import erfc
    except ImportError:
        import torch

        return np.asarray(torch.special.erfc(torch.as_tensor(scaled)).numpy())
    return np.asarray(erfc(scaled))
