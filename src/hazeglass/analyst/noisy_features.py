"""The covariance of the features of rows, clean or with known noise in their cells.

If y = x + noise, the noise symmetric with known moments m_2, m_4, m_6, then g_0 = 1 and

    g_k(y) = y^k - sum over even j of (k choose j) m_j g_{k-j}(y)

have E[g_k(y) | x] = x^k exactly: Hermite polynomials, where the noise is Gaussian. Noise in different cells is
independent, so products of such features of different columns are unbiased as they are; products within a column are
polynomials up to degree 6 and are corrected themselves. The sampling error is that of the features as they are, noise
included: their covariance before the correction takes the place of V, as it does for the columns themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from hazeglass.analyst.error_model import ErrorModel
from hazeglass.analyst.noisy import NoisyCovariance, some_of
from hazeglass.bundle.manifest import CellNoise
from hazeglass.errors import InputError
from hazeglass.features.harmonics import DEGREES, to_features
from hazeglass.glasso.linalg import FloatArray
from hazeglass.guarantee.lattice import RoundedGaussian, lattice_noise

# z, (z^2 - 1)/sqrt(2), (z^3 - 3z)/sqrt(6) as rows of coefficients of 1, z, z^2, z^3
FEATURES = np.array(
    [[0.0, 1.0, 0.0, 0.0], [-math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0], [0.0, -3 / math.sqrt(6), 0.0, 1 / math.sqrt(6)]]
)
_SIZE = DEGREES["hermite"]
_ENUMERATED = 60.0  # lattice steps: above, closed forms are exact to rounding
_CHUNK_NUMBERS = 4_000_000  # numbers held at once while going through the rows
_LOUD = 0.25  # noise variance beside that of the clean column


def covariance_of_features(
    rows: FloatArray, noise: Sequence[CellNoise | None], names: tuple[str, ...], notes: tuple[str, ...] = ()
) -> NoisyCovariance:
    """Of standardised rows.

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
    covariance.reshape(p, _SIZE, p, _SIZE)[np.arange(p), :, np.arange(p), :] += lacking / (n - 1)
    loud = [name for name, share in zip(names, scaled[:, 0], strict=True) if share > _LOUD]
    notes = (*notes, _noise_note(loud)) if loud else notes
    return NoisyCovariance(names, n, covariance, ErrorModel.of_gaussian_rows(observed, n), mean, notes=notes)


def even_moments(noise: CellNoise | None) -> tuple[float, float, float]:
    """E noise^2, ^4, ^6 in the unit of the column; exact for both families, as is the variance."""
    if noise is None:
        return 0.0, 0.0, 0.0
    second, fourth, sixth = _lattice_moments(noise.family, noise.scale)
    return second * noise.step**2, fourth * noise.step**4, sixth * noise.step**6


@cache
def _lattice_moments(family: str, scale: float) -> tuple[float, float, float]:
    if scale > _ENUMERATED:
        s2 = scale * scale
        if family != RoundedGaussian.name:
            return s2, 3 * s2**2, 15 * s2**3
        # a Gaussian plus a uniform on one step: their moments multiply out
        return s2 + 1 / 12, 3 * s2**2 + s2 / 2 + 1 / 80, 15 * s2**3 + 15 * s2**2 / 4 + 3 * s2 / 16 + 1 / 448
    k = np.arange(1, math.ceil(40 * scale) + 2, dtype=np.float64)
    mass = 2 * np.exp(lattice_noise(family, scale).log_pmf(k))
    return math.fsum(k**2 * mass), math.fsum(k**4 * mass), math.fsum(k**6 * mass)


def clean_powers(y: FloatArray, moments: Sequence[float]) -> FloatArray:
    """g_0(y) .. g_6(y), one row per cell; `moments` are m_2, m_4, m_6 on the scale of y."""
    powers = np.ones((len(y), 7))
    for k in range(1, 7):
        powers[:, k] = y**k
        for j in range(2, k + 1, 2):
            powers[:, k] -= math.comb(k, j) * moments[j // 2 - 1] * powers[:, k - j]
    return powers


def features_from_powers(powers: FloatArray) -> FloatArray:
    """Unbiased values of the three features of a column."""
    return np.asarray(powers[:, :4] @ FEATURES.T)


def products_from_powers(powers: FloatArray) -> FloatArray:
    """Unbiased values of the products of a column's features with each other, shape (rows, 3, 3)."""
    coefficients = np.array([[np.convolve(a, b) for b in FEATURES] for a in FEATURES])
    return np.asarray(np.einsum("rk,abk->rab", powers, coefficients))


def _features(z: FloatArray, moments: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Unbiased features, and what the products within each column lack: shape (rows, columns, 3, 3), or None."""
    if not moments.any():
        return to_features(z, "hermite"), None
    n, p = z.shape
    features, excess = np.empty((n, p, _SIZE)), np.empty((n, p, _SIZE, _SIZE))
    for k in range(p):
        powers = clean_powers(z[:, k], moments[k])
        own = features_from_powers(powers)
        features[:, k] = own
        excess[:, k] = products_from_powers(powers) - np.einsum("ra,rb->rab", own, own)
    return features.reshape(n, -1), excess


def _deviations(rows: FloatArray, noise: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """Corrected standard deviations; where the noise hides a variance, those of the noisy cells."""
    observed = observed_variances(rows, names)
    clean = observed - noise
    doubt = 2 * observed * np.sqrt(2 / len(rows))
    return np.asarray(np.sqrt(np.where(clean > doubt, clean, observed)))


def observed_variances(rows: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """Variances of the cells as they are; a column that does not vary is refused."""
    observed = np.asarray(rows.var(axis=0, ddof=1))
    if not np.all(observed > 0):
        flat = names[int(np.argmin(observed))]
        raise InputError(f"every column must vary, and {flat!r} holds one value only. Leave it out.")
    return observed


def _noise_note(loud: list[str]) -> str:
    return (
        f"Noise is more than a quarter of the variance of {len(loud)} column{'s' if len(loud) > 1 else ''} "
        f"({some_of(loud)}): cubes of such cells have heavy tails, and p-values come out too small unless rows are "
        "many. Read faint edges with care."
    )
