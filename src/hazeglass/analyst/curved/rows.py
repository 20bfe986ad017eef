"""Blocks of features from rows, clean or with known noise in their cells, with error bars from the rows themselves.

The covariance of the features is a mean over rows of the matrix M_r = (f_r - m)(f_r - m)^T, and with noisy cells its
diagonal blocks are replaced by unbiased ones (deconvolve.py). So the covariance of anything linear in it is that of the
same thing row by row, divided by n: no model of the rows is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hazeglass.analyst.curved.blocks import FeatureBlocks
from hazeglass.analyst.curved.deconvolve import (
    clean_powers,
    even_moments,
    features_from_powers,
    products_from_powers,
)
from hazeglass.analyst.factor import FloatArray
from hazeglass.bundle.features import DEGREES, expand
from hazeglass.bundle.manifest import CellNoise
from hazeglass.errors import InputError

__all__ = ["RowError", "blocks_of_rows"]

_CHUNK_NUMBERS = 4_000_000  # numbers held at once while going through the rows
_SIZE = DEGREES["hermite"]


def blocks_of_rows(
    rows: FloatArray, noise: Sequence[CellNoise | None], names: tuple[str, ...], notes: tuple[str, ...] = ()
) -> FeatureBlocks:
    """Features of standardised rows.

    Clean rows are clamped as the publisher clamps them. Noisy cells cannot be: a clamp has no unbiased counterpart.
    """
    n, p = rows.shape
    variances = np.array([even_moments(cell)[0] for cell in noise])
    deviations = _deviations(rows, variances, names)
    z = (rows - rows.mean(axis=0)) / deviations
    if not variances.any():
        features, excess = expand(z, "hermite"), None
    else:
        features, excess = _corrected_features(z, noise, deviations)
    mean = features.mean(axis=0)
    centred = features - mean
    covariance = centred.T @ centred / (n - 1)
    if excess is not None:
        for k in range(p):
            span = slice(k * _SIZE, (k + 1) * _SIZE)
            covariance[span, span] += excess[:, k].mean(axis=0)
    error = RowError(centred, excess, np.eye(p * _SIZE))
    return FeatureBlocks.of(names, n, mean, covariance, error, notes)


def _deviations(rows: FloatArray, noise: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """Corrected standard deviations; where the noise hides a variance, those of the noisy cells."""
    observed = rows.var(axis=0, ddof=1)
    if not np.all(observed > 0):
        flat = names[int(np.argmin(observed))]
        raise InputError(f"every column must vary, and {flat!r} holds one value only. Leave it out.")
    clean = observed - noise
    doubt = 2 * observed * np.sqrt(2 / len(rows))
    return np.asarray(np.sqrt(np.where(clean > doubt, clean, observed)))


def _corrected_features(
    z: FloatArray, noise: Sequence[CellNoise | None], deviations: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Unbiased features, and what the products within each column lack: shape (rows, columns, 3, 3)."""
    n, p = z.shape
    features, excess = np.empty((n, p * _SIZE)), np.empty((n, p, _SIZE, _SIZE))
    for k, (cell, deviation) in enumerate(zip(noise, deviations, strict=True)):
        moments = [m / deviation**power for m, power in zip(even_moments(cell), (2, 4, 6), strict=True)]
        powers = clean_powers(z[:, k], moments)
        own = features_from_powers(powers)
        features[:, k * _SIZE : (k + 1) * _SIZE] = own
        excess[:, k] = products_from_powers(powers) - np.einsum("ra,rb->rab", own, own)
    return features, excess


@dataclass(frozen=True, eq=False)
class RowError:
    """The error of a mean over rows of load (f f^T + excess) load^T.

    features  centred features, one row each
    excess    what products within a column need besides, shape (rows, columns, K, K); None for clean rows
    load      what the error is carried by
    """

    features: FloatArray
    excess: FloatArray | None
    load: FloatArray

    def carried(self, B: FloatArray) -> RowError:
        """The error B Delta B^T."""
        return RowError(self.features, self.excess, B @ self.load)

    def entry_variance(self) -> FloatArray:
        """Variance of every entry."""
        q = len(self.load)
        first, second = np.zeros((q, q)), np.zeros((q, q))
        for matrices in self._matrices():
            first += matrices.sum(axis=0)
            second += np.square(matrices).sum(axis=0)
        n = len(self.features)
        return np.asarray((second / n - (first / n) ** 2) / n)

    def block_covariances(self, size: int) -> FloatArray:
        """Covariance of the entries of every block i < j, row by row."""
        p = len(self.load) // size
        i, j = np.triu_indices(p, 1)
        first, second = np.zeros((i.size, size**2)), np.zeros((i.size, size**2, size**2))
        for matrices in self._matrices():
            blocks = matrices.reshape(len(matrices), p, size, p, size)[:, i, :, j, :]
            entries = blocks.reshape(i.size, len(matrices), size**2)  # numpy puts the indexed pairs first
            first += entries.sum(axis=1)
            second += entries.transpose(0, 2, 1) @ entries
        n = len(self.features)
        mean = first / n
        return np.asarray((second / n - np.einsum("pa,pb->pab", mean, mean)) / n)

    def _matrices(self) -> Iterator[FloatArray]:
        """load (f f^T + excess) load^T for some rows at a time."""
        q = len(self.load)
        step = max(1, _CHUNK_NUMBERS // q**2)
        for start in range(0, len(self.features), step):
            f = self.features[start : start + step] @ self.load.T
            matrices = np.einsum("ra,rb->rab", f, f)
            if self.excess is not None:
                matrices += self._carried_excess(self.excess[start : start + step])
            yield matrices

    def _carried_excess(self, excess: FloatArray) -> FloatArray:
        rows, p, size, _ = excess.shape
        spread = np.zeros((rows, p * size, p * size))
        for k in range(p):
            span = slice(k * size, (k + 1) * size)
            spread[:, span, span] = excess[:, k]
        return np.asarray(self.load @ spread @ self.load.T)
