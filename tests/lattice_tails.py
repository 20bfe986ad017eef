"""How likely noise on the integers is to lie beyond k, which only tests ask."""

import math

import numpy as np
from scipy import special

from hazeglass.guarantee.lattice import ENUMERATION_LIMIT, RoundedGaussian


def tail(noise, k):
    """P(|X| > k) for integers k >= 0."""
    k = np.asarray(k, dtype=np.float64)
    if isinstance(noise, RoundedGaussian):
        return 2 * special.ndtr(-(k + 0.5) / noise.scale)
    if noise.scale > ENUMERATION_LIMIT:
        # Euler-Maclaurin about k + 1/2; the next term is below 1e-11 of the tail at this scale and 38 scales out.
        u = (k + 0.5) / noise.scale
        density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
        return 2 * (special.ndtr(-u) - u * density / (24 * noise.scale**2))
    support = np.arange(math.ceil(40 * noise.scale) + 2)
    tails = np.cumsum(np.exp(noise.log_pmf(support))[::-1])[::-1]
    inside = np.minimum(k, support[-2]).astype(np.int64)
    return np.where(k < support[-1], 2 * tails[inside + 1], 0.0)
