"""Matrices of zeros that take memory only where something is written."""

from __future__ import annotations

from mmap import ACCESS_COPY, mmap

import numpy as np

from hazeglass.analyst.factor import FloatArray

WORTH_A_MAPPING = 1 << 19  # entries


def blank(p: int) -> FloatArray:
    """np.zeros((p, p)) for a matrix that will stay mostly zero.

    NumPy asks for large pages, and then one entry fills two megabytes: the two answers for ten thousand columns in
    groups of a hundred take 1.6 GB instead of 0.1. An anonymous mapping of our own has small pages.
    """
    if p * p < WORTH_A_MAPPING:
        return np.zeros((p, p))
    return np.frombuffer(mmap(-1, 8 * p * p, access=ACCESS_COPY), np.float64).reshape(p, p)
