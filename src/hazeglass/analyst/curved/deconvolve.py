"""Polynomials of noisy cells that are unbiased for polynomials of the clean ones.

If y = x + noise, the noise symmetric with known moments m_2, m_4, m_6, then g_0 = 1 and

    g_k(y) = y^k - sum over even j of (k choose j) m_j g_{k-j}(y)

have E[g_k(y) | x] = x^k exactly: Hermite polynomials, where the noise is Gaussian. Noise in different cells is
independent, so products of such features of different columns are unbiased as they are; products within a column are
polynomials up to degree 6 and are corrected themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from hazeglass.bundle.manifest import CellNoise
from hazeglass.glasso.linalg import FloatArray
from hazeglass.guarantee.lattice import RoundedGaussian, lattice_noise

__all__ = ["FEATURES", "clean_powers", "even_moments", "features_from_powers", "products_from_powers"]

# z, (z^2 - 1)/sqrt(2), (z^3 - 3z)/sqrt(6) as rows of coefficients of 1, z, z^2, z^3
FEATURES = np.array(
    [[0.0, 1.0, 0.0, 0.0], [-math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0], [0.0, -3 / math.sqrt(6), 0.0, 1 / math.sqrt(6)]]
)
_ENUMERATED = 60.0  # lattice steps: above, closed forms are exact to rounding


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
    m = {2: moments[0], 4: moments[1], 6: moments[2]}
    powers = np.ones((len(y), 7))
    for k in range(1, 7):
        powers[:, k] = y**k
        for j in range(2, k + 1, 2):
            powers[:, k] -= math.comb(k, j) * m[j] * powers[:, k - j]
    return powers


def features_from_powers(powers: FloatArray) -> FloatArray:
    """Unbiased values of the three features of a column."""
    return np.asarray(powers[:, :4] @ FEATURES.T)


def products_from_powers(powers: FloatArray) -> FloatArray:
    """Unbiased values of the products of a column's features with each other, shape (rows, 3, 3)."""
    coefficients = np.array([[np.convolve(a, b) for b in FEATURES] for a in FEATURES])
    return np.asarray(np.einsum("rk,abk->rab", powers, coefficients))
