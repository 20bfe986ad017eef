"""Four ways to put a number on the paper's noise. The first two are the paper's and are NOT A GUARANTEE.

They are kept so that its table can be reproduced. The other two hold for the released rows, if the range of the data
were public (the paper takes it, and sigma, from the data). All at delta = 1e-5 except the first, which has no delta.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.lattice import DiscreteGaussian

from .protocol import noise_sd

__all__ = ["DELTA", "paper_theorem_epsilon", "printed_epsilon", "true_epsilon"]

Floats = npt.NDArray[np.float64]
DELTA = 1e-5
_SMALLEST_SCALE = 2.0**-6
_ABSURD = 1e6


def sensitivity(rows: Floats) -> float:
    """The paper's Delta_f = 2 (max - min)^2 / n, over all cells."""
    return float(2 * (rows.max() - rows.min()) ** 2 / len(rows))


def printed_epsilon(rows: Floats, decibels: float) -> float:
    """What Table 2 prints: Delta_f / sigma. Not a guarantee: no delta, and it carries the unit of the data."""
    return sensitivity(rows) / noise_sd(rows, decibels)


def paper_theorem_epsilon(rows: Floats, decibels: float, kind: str) -> float:
    """The epsilon at delta = 1e-5 of the mu in the paper's theorems. Not a guarantee: attacks exceed it.

    Continuous: mu = Delta_f / (sigma sqrt(2 C0)), C0 = min over columns of sum x^2 / n^2, columns centred.
    Discrete: mu = (Delta_f + 2 K) / (sqrt(2 n) K sigma), K = min |x| / n over the centred cells.
    """
    n, sigma, change = len(rows), noise_sd(rows, decibels), sensitivity(rows)
    centred = rows - rows.mean(axis=0)
    if kind == "continuous":
        smallest = float(np.square(centred).sum(axis=0).min()) / n**2
        return _epsilon(change / (sigma * math.sqrt(2 * smallest)))
    smallest = float(np.abs(centred).min()) / n
    if smallest == 0:
        return math.inf
    return _epsilon((change + 2 * smallest) / (math.sqrt(2 * n) * smallest * sigma))


def true_epsilon(rows: Floats, decibels: float, kind: str, unit: str) -> float:
    """The epsilon at delta = 1e-5 that releasing X + E has for a cell ('entry') or a whole row ('record')."""
    sigma, span = noise_sd(rows, decibels), float(rows.max() - rows.min())
    cells = 1 if unit == "entry" else rows.shape[1]
    if kind == "integer":
        if sigma < _SMALLEST_SCALE:
            return math.inf  # the noise is 0 in every cell: the rows are published as they are
        mu = DiscreteGaussian(sigma).mu(round(span))
    else:
        mu = span / sigma
    return _epsilon(mu * math.sqrt(cells))


def _epsilon(mu: float) -> float:
    """Epsilon at DELTA; for the absurd mu of nearly no noise by its asymptote, where the second term has vanished."""
    if mu > _ABSURD:
        return mu**2 / 2 - mu * float(ndtri(DELTA))
    return GaussianDP(mu).epsilon(DELTA)
