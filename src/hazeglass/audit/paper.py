"""Attacks on the paper's own claims, on data of the shape it uses (7466 rows, 11 columns).

Nothing here is a mechanism hazeglass offers: these are the paper's, so that its mu can be set beside what an attack
certifies. docs/maths/audit.md derives the statistics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.audit.attack import in_chunks
from hazeglass.guarantee.lattice import DiscreteGaussian
from hazeglass.publisher.noise import draw
from hazeglass.publisher.randomness import BitSource

__all__ = ["CentredCounts", "PaperCovariance", "PaperTable", "paper_sigma"]

Floats = npt.NDArray[np.float64]
ROWS, COLUMNS = 7466, 11


def paper_sigma(mu: float) -> float:
    """The noise for which the paper claims mu = Delta_f / (sigma sqrt(2 C0)), cells being -1 or 1.

    Delta_f = 2 (max - min)^2 / n = 8 / n, and C0 = sum of x^2 / n^2 = 1 / n in every column.
    """
    return 8 / ROWS / (mu * math.sqrt(2 / ROWS))


def _normals(bits: BitSource) -> np.random.Generator:
    """The paper's noise is floating point; only its seed comes from the bits."""
    return np.random.default_rng([int(word) for word in bits.uint64(4)])


@dataclass(frozen=True)
class PaperTable:
    """The released rows X + E: one cell is -1 under D and 1 under D', and the attacker reads that cell."""

    mu: float
    statistics: tuple[str, ...] = ("the cell",)
    cells: int = 1

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """The noisy cell itself."""
        return (2.0 * side - 1.0 + paper_sigma(self.mu) * _normals(bits).standard_normal(runs))[:, None]


@dataclass(frozen=True)
class PaperCovariance:
    """The released covariance S = (X + E)^T (X + E) / n alone.

    All columns are equal, half the cells -1 and half 1, except that one cell of the first column is -1 under D.
    With v = (1, -1/10, ..., -1/10) the products of X and E cancel in v^T S v = sum of (row . v)^2 / n: what is left of
    the noise is quadratic in sigma, far less than the claim counts on.
    """

    mu: float
    statistics: tuple[str, ...] = ("v'Sv",)
    cells: int = ROWS * COLUMNS

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """v^T S v of every release."""
        column = np.where(np.arange(ROWS) % 2 == 0, 1.0, -1.0)
        table = np.tile(column[:, None], (1, COLUMNS))
        table[0, 0] = 2.0 * side - 1.0
        v = np.full(COLUMNS, -1.0 / (COLUMNS - 1))
        v[0] = 1.0
        rng, sigma = _normals(bits), paper_sigma(self.mu)

        def chunk(count: int) -> Floats:
            scores = np.empty((count, 1))
            for run in range(count):
                released = rng.standard_normal((ROWS, COLUMNS))
                released *= sigma
                released += table
                covariance = released.T @ released / ROWS
                scores[run] = v @ covariance @ v
            return scores

        return in_chunks(chunk, runs, self.cells)


@dataclass(frozen=True)
class CentredCounts:
    """Counts minus their column mean, plus integer noise: every fraction shows the column's sum modulo n.

    The claim is mu = (Delta_f + 2 K) / (sqrt(2 n) K sigma), K = min |x| / n over the centred cells,
    Delta_f = 2 range^2 / n. The column holds 1 and -1 in turn; one cell is 1 under D and 2 under D', so that the sum
    is 0 or 1.
    """

    mu: float
    statistics: tuple[str, ...] = ("sum modulo n",)
    cells: int = 1

    @property
    def sigma(self) -> float:
        """The noise for which the paper claims mu, at the smaller K of the two sides."""
        smallest = (1 - 1 / ROWS) / ROWS
        sensitivity = 2 * 3.0**2 / ROWS
        return (sensitivity + 2 * smallest) / (math.sqrt(2 * ROWS) * smallest * self.mu)

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """The sum modulo n, read off one cell that did not change."""
        column = np.where(np.arange(ROWS) % 2 == 0, 1.0, -1.0)
        column[0] += side
        cell = (column - column.mean())[1]
        released = cell + draw(DiscreteGaussian(self.sigma), runs, bits)
        return np.asarray(np.rint(-released * ROWS) % ROWS)[:, None]
