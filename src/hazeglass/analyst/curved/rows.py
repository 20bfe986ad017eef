"""Blocks of features from rows, clean or with known noise in their cells.

With noisy cells the features are polynomials that are unbiased for those of the clean cells, and the products within a
column are corrected themselves (deconvolve.py). The sampling error is that of the features as they are, noise included:
their covariance before the correction takes the place of V in errors.py, as it does for linear recovery.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hazeglass.analyst.curved.blocks import FeatureBlocks
from hazeglass.analyst.curved.deconvolve import (
    clean_powers,
    even_moments,
    features_from_powers,
    products_from_powers,
)
from hazeglass.analyst.curved.errors import MomentError
from hazeglass.bundle.features import DEGREES, expand
from hazeglass.bundle.manifest import CellNoise
from hazeglass.errors import InputError
from hazeglass.glasso.linalg import FloatArray

__all__ = ["blocks_of_rows"]

_CHUNK_NUMBERS = 4_000_000  # numbers held at once while going through the rows
_LOUD = 0.25  # noise variance beside that of the clean column
_SIZE = DEGREES["hermite"]


def blocks_of_rows(
    rows: FloatArray, noise: Sequence[CellNoise | None], names: tuple[str, ...], notes: tuple[str, ...] = ()
) -> FeatureBlocks:
    """Features of standardised rows.

    Clean rows are clamped as the publisher clamps them. Noisy cells cannot be: a clamp has no unbiased counterpart.
    """
    n, p = rows.shape
    moments = np.array([even_moments(cell) for cell in noise])
    deviations = _deviations(rows, moments[:, 0], names)
    centre = rows.mean(axis=0)
    scaled = moments / deviations[:, None] ** np.array([2, 4, 6])
    first, second = np.zeros(p * _SIZE), np.zeros((p * _SIZE, p * _SIZE))
    lacking = np.zeros((p, _SIZE, _SIZE))
    step = max(1, _CHUNK_NUMBERS // (9 * p))
    for start in range(0, n, step):
        features, excess = _features((rows[start : start + step] - centre) / deviations, scaled)
        first += features.sum(axis=0)
        second += features.T @ features
        if excess is not None:
            lacking += excess.sum(axis=0)
    mean = first / n
    observed = (second / n - np.outer(mean, mean)) * n / (n - 1)
    covariance = observed.copy()
    _add_to_diagonal(covariance, lacking / (n - 1))
    spread = observed / np.sqrt(n)
    share = scaled[:, 0]
    notes = (*notes, _noise_note(names, share)) if np.any(share > _LOUD) else notes
    return FeatureBlocks.of(names, n, mean, covariance, MomentError(((spread, spread),)), notes)


def _features(z: FloatArray, moments: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Unbiased features, and what the products within each column lack: shape (rows, columns, 3, 3), or None."""
    if not moments.any():
        return expand(z, "hermite"), None
    n, p = z.shape
    features, excess = np.empty((n, p * _SIZE)), np.empty((n, p, _SIZE, _SIZE))
    for k in range(p):
        powers = clean_powers(z[:, k], moments[k])
        own = features_from_powers(powers)
        features[:, k * _SIZE : (k + 1) * _SIZE] = own
        excess[:, k] = products_from_powers(powers) - np.einsum("ra,rb->rab", own, own)
    return features, excess


def _add_to_diagonal(matrix: FloatArray, blocks: FloatArray) -> None:
    for k, block in enumerate(blocks):
        span = slice(k * _SIZE, (k + 1) * _SIZE)
        matrix[span, span] += block


def _deviations(rows: FloatArray, noise: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """Corrected standard deviations; where the noise hides a variance, those of the noisy cells."""
    observed = rows.var(axis=0, ddof=1)
    if not np.all(observed > 0):
        flat = names[int(np.argmin(observed))]
        raise InputError(f"every column must vary, and {flat!r} holds one value only. Leave it out.")
    clean = observed - noise
    doubt = 2 * observed * np.sqrt(2 / len(rows))
    return np.asarray(np.sqrt(np.where(clean > doubt, clean, observed)))


def _noise_note(names: tuple[str, ...], share: FloatArray) -> str:
    loud = [name for name, ratio in zip(names, share, strict=True) if ratio > _LOUD]
    shown = ", ".join(loud[:5]) + (", ..." if len(loud) > 5 else "")
    return (
        f"Noise is more than a quarter of the variance of {len(loud)} column{'s' if len(loud) > 1 else ''} ({shown}): "
        "cubes of such cells have heavy tails, and p-values come out too small unless rows are many. Read faint edges "
        "with care."
    )
