"""Covariances to try solvers on: clean, and indefinite in the ways that subtracting noise makes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def sample_covariance(p: int, n: int, seed: int) -> Matrix:
    """Covariance of n rows from a Gaussian with a random sparse precision."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.uniform(0.2, 0.5, (p, p)) * rng.choice([-1, 1], (p, p)) * (rng.random((p, p)) < 2.0 / p), 1)
    precision = upper + upper.T
    precision += np.diag(np.sum(np.abs(precision), axis=0) + 0.5)
    rows = rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision), size=n)
    return np.atleast_2d(np.cov(rows, rowvar=False, bias=True))


def table_corrected(p: int, n: int, noise: float, seed: int) -> Matrix:
    """Noise added to every cell, its variance subtracted from the diagonal afterwards."""
    rng = np.random.default_rng(seed)
    mix = np.eye(p) + rng.standard_normal((p, p)) / np.sqrt(p)
    rows = rng.standard_normal((n, p)) @ mix + noise * rng.standard_normal((n, p))
    return np.atleast_2d(np.cov(rows, rowvar=False, bias=True)) - noise**2 * np.eye(p)


def symmetric_noise(p: int, n: int, noise: float, seed: int) -> Matrix:
    """A covariance with independent noise on every entry, as a moments release has."""
    rng = np.random.default_rng(seed)
    dirt = rng.standard_normal((p, p))
    return sample_covariance(p, n, seed) + noise * (dirt + dirt.T) / np.sqrt(2)


def negative_diagonal(p: int, n: int, seed: int) -> Matrix:
    """One corrected variance came out negative."""
    S = sample_covariance(p, n, seed)
    S[p // 2, p // 2] = -0.1 * np.mean(np.diagonal(S))
    return S


def indefinite_family(kind: int, p: int, seed: int) -> Matrix:
    """Six families: table-corrected at three noise levels, symmetric noise at two, one negative diagonal."""
    n = max(2, 2 * p)
    if kind < 3:
        return table_corrected(p, n, (0.5, 1.5, 4.0)[kind], seed)
    if kind < 5:
        return symmetric_noise(p, n, (0.1, 0.6)[kind - 3], seed)
    return negative_diagonal(p, n, seed)
