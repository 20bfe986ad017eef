"""Known noise, however people state it: one variance, one per column, a matrix, or one per cell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hazeglass.errors import InputError

__all__ = ["noise_matrix"]

FloatArray = npt.NDArray[np.float64]


def noise_matrix(noise_cov: npt.ArrayLike, columns: int, rows: int | None = None) -> FloatArray:
    """The covariance of the noise in a row, as a (p, p) matrix.

    A number is the variance in every column; p numbers are the variances per column; a (p, p) array is the covariance;
    an (n, p) array is the variance of each cell, of which the mean over the rows counts.

    >>> noise_matrix([1.0, 4.0], 2).tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """
    noise = np.asarray(noise_cov, dtype=np.float64)
    if not np.all(np.isfinite(noise)):
        raise InputError("noise_cov must be finite, and holds NaN or infinity.")
    if noise.ndim == 0:
        matrix = np.eye(columns) * float(noise)
    elif noise.shape == (columns,):
        matrix = np.diag(noise)
    elif noise.shape == (columns, columns):
        matrix = noise
    elif rows is not None and noise.shape == (rows, columns):
        matrix = np.diag(noise.mean(axis=0))
    else:
        per_cell = f", or {rows}x{columns} for one variance per cell" if rows else ""
        raise InputError(
            f"noise_cov must be {columns}x{columns} to match the data{per_cell}, got {noise.shape}. "
            "Pass a number, one per column, or 0.0 for clean data."
        )
    if np.any(np.diag(matrix) < 0) or not np.allclose(matrix, matrix.T):
        raise InputError("noise_cov must be a covariance: symmetric, with no negative variance.")
    return matrix
