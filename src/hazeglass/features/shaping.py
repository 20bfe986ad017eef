"""How stages of moments follow from what was released before them: their matrices, centres and radii.

Stage k maps rows x (scores, or standardised cells) to y = A_k x - c_k, clips them to the ball of radius r_k and
releases their moments. A matrix that makes the rows nearly round lets noise of one size serve all directions: with M
the covariance that a stage released and t the noise of its entries, c = 2 sqrt(p) t is what noise alone makes of an
eigenvalue, and the next matrix is the symmetric root of A (M_+ + c I)^-1 A. Clipping and noise do not change under
rotations, so any root would do; the symmetric one is written like moments. All of this is arithmetic on public and
released numbers: the promise does not depend on it (docs/maths/shaping.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaincc

from hazeglass.features.scores import STEPS

FloatArray = npt.NDArray[np.float64]

MOST_STAGES = 8
BOX = 1.0  # scores are moved into [-BOX, BOX] where single cells are protected: more would be noise
_ABOVE_NOISE = 1.3  # spectral edges of noise by which a leading eigenvalue must exceed 1 for shaping to begin
_MANY, _ABOVE_BULK = 100, 1.35  # columns; and the same of how far below 1 eigenvalues reach
_ROUND = 0.85  # share of the directions that rise above the noise when shaping ends
_NOISE_WANTED = 0.5  # of the sampling error: with less noise than that in all stages together, the radius grows
_LARGEST_GROWTH = 6.0
_LONGEST = 4.0  # clipped rows are not supposed to have been longer than that, squared
# What undoing of clipping gets wrong between two directions, as a share of what clipping took of rows' squared length:
# on the scores of half of some hundred real tables at most .08, of three in four .13, of nine in ten .19; .01 to .09
# on made ones that are no Gaussian copula (docs/maths/widening.md).
OTHER_SHAPE = 0.1
_RESOLVED = 0.6  # share of the directions that rise above the noise from which that counts when a radius is chosen
_LEAST_COSINES = 1.3
LINEAR_STEPS, LARGEST_LINEAR = 1 << 16, 64.0  # the lattice of the linear scale, and the most that a cell is there
_MAP_BITS = 50  # of the largest sum of a row of the map times cells: exact in 64-bit floats
_LARGEST_STRETCH, _SMALLEST_STRETCH = 2.0**16, 1e-6  # of a direction by a map; beyond lies rounding alone


@dataclass(frozen=True, eq=False)
class Shape:
    """What a stage does to rows before it clips them.

    map        A, symmetric; None for the identity
    centre     c, on the scale of A x
    length     the expected squared length of the rows, from which the radius follows
    share      of the mu^2 that is left, which the stage spends
    beside     how many entries a row has behind these, which no stage moves: indicators of levels
    left       how much of the mu^2 that the first stage left is left; 0 before
    """

    map: FloatArray | None
    centre: FloatArray
    length: float
    share: float
    beside: int = 0
    left: float = 0.0

    @property
    def part(self) -> float:
        """Which part of the mu^2 for all stages but the first the stage spends; 1 for the first, which judges alone."""
        return self.share * self.left or 1.0

    @property
    def biased(self) -> bool:
        """Whether rows are nearly round, so that what undoing gets wrong is worse than noise; never in the first of
        several stages, which shows by what it clips how long rows are."""
        return self.length > _RESOLVED * self.centre.size and (self.left > 0 or self.share == 1.0)

    def radius(self, features: str, rows: float, mu: float, *, indicators: int = 0) -> float:
        """Of the ball for a stage that spends `mu` on so many rows.

        `indicators` beside them add to the noise, and not to what is clipped. Cosines of ranks are bounded: a ball a
        little larger than their mean length holds nearly all rows, and one twice as large, squared, holds all.
        """
        biased = self.biased and features == "columns"
        square = squared_radius(self.length, rows, mu, part=self.part, biased=biased, indicators=indicators)
        if features == "cosines":
            square = min(max(square, _LEAST_COSINES * self.length), 2 * self.length)
        return math.sqrt(square)

    @property
    def whole_map(self) -> FloatArray | None:
        """What all entries of a row are multiplied by."""
        if self.map is None or not self.beside:
            return self.map
        whole = np.eye(self.centre.size + self.beside)
        whole[: self.centre.size, : self.centre.size] = self.map
        return whole

    @property
    def whole_centre(self) -> FloatArray:
        """What is taken off all entries of a row."""
        return np.concatenate([self.centre, np.zeros(self.beside)])


def first_shape(features: int, *, shaped: bool, beside: int = 0) -> Shape:
    """Rows as they are; all the budget at once where no further stage is to come."""
    return Shape(None, np.zeros(features), float(features), 1 / MOST_STAGES if shaped else 1.0, beside)


def next_shape(
    before: Shape, radius: float, mean: FloatArray, second: FloatArray, noise_sd: float, stage: int, largest: float
) -> Shape:
    """The shape of stage `stage` (counting from 0), from the released moments of the one before, its radius and noise.

    `largest` bounds a coordinate of the rows, so that maps can be kept exact. Of the moments only those of the entries
    that are shaped count.
    """
    p = before.centre.size
    mean, second = mean[:p], second[:p, :p]
    values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    kept, edge = np.maximum(values, 0.0), 2 * math.sqrt(p) * noise_sd
    left = before.left * (1 - before.share) if stage > 1 else 1.0
    kept = kept * lengthened(kept, radius**2)
    apart = float(np.sum(kept / (kept + edge)))
    old = np.eye(p) if before.map is None else before.map
    # Of many columns the spectrum itself shows how far noise and sampling reach: nearly as far below 1 as above.
    reach = _ABOVE_NOISE * edge if p <= _MANY else _ABOVE_BULK * max(edge, 1 - float(values[0]))
    if stage == 1 and values[-1] <= 1 + reach:
        return Shape(before.map, before.centre + mean, before.length, 1.0, before.beside, left)
    inner = old @ (vectors / (kept + edge)) @ vectors.T @ old
    spectrum, axes = np.linalg.eigh((inner + inner.T) / 2)
    # Where rows do not vary at all, every stage would stretch them further, until the map's last bits no longer hold
    # its other directions and it has no inverse.
    most = min(_LARGEST_STRETCH, 2.0 ** (_MAP_BITS - 4) / (largest * p**1.5))
    stretch = np.clip(np.sqrt(np.maximum(spectrum, 0.0)), _SMALLEST_STRETCH, most)
    found = exact_map((axes * stretch) @ axes.T, largest)
    centre = found @ np.linalg.solve(old, before.centre + mean)
    last = stage >= MOST_STAGES - 1 or (stage > 1 and apart > _ROUND * p)
    share = 1.0 if last else 1 / (MOST_STAGES - stage)
    return Shape(found, centre, apart, share, before.beside, left)


def lengthened(values: FloatArray, squared_radius: float) -> float:
    """How much longer rows are, squared, than they are when clipped; `values` are the clipped rows' eigenvalues.

    A squared length is taken for a multiple of a chi-square variable with its own mean and variance. One number for all
    directions: what is left of clipping is undone by whoever reads the release.
    """
    total = float(values.sum())
    if not 0 < total < squared_radius:
        return 1.0 if total <= 0 else _LONGEST
    unit = total * float(np.sum((values / total) ** 2))
    half = total / unit / 2

    def clipped(factor: float) -> float:
        at = squared_radius / (2 * factor * unit)
        return float(factor * total * gammainc(half + 1, at) + squared_radius * gammaincc(half, at))

    low, high = 1.0, _LONGEST
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if clipped(middle) < total else (low, middle)
    return low


def exact_map(matrix: FloatArray, largest: float) -> FloatArray:
    """The matrix in multiples of a power of two, so coarse that products with cells of few bits are exact in any order.

    `largest` is the most that a cell can be, in units of its own lattice.
    """
    symmetric = (matrix + matrix.T) / 2
    sums = float(np.abs(symmetric).sum(axis=1).max()) * largest
    step = 2.0 ** (math.ceil(math.log2(max(sums, 1e-300))) - _MAP_BITS)
    return np.asarray(np.rint(symmetric / step) * step)


def largest_entry(scale: str | None) -> float:
    """The most that an entry of a row can be, in units of its lattice: what maps must leave room for."""
    return LINEAR_STEPS * LARGEST_LINEAR if scale == "linear" else 8.0 * STEPS


def squared_radius(
    length: float, rows: float, mu: float, *, part: float = 1.0, biased: bool = False, indicators: int = 0
) -> float:
    """The radius, squared, for columns themselves: g (length + 1).

    While noise rules g is 1, which clips some 40 % of Gaussian rows. Where the noise of all stages together, for g = 1
    and in sampling errors v = ((length + 1)/mu)/sqrt(rows), falls below 1/2, g makes it 1/2, until hardly anything is
    clipped. Where bias counts, g is at least what makes noise and bias least together: (g v)^2 + rows (c lost(g))^2, c
    lost(g) being what undoing gets wrong of rows like Gaussian ones.
    """
    least = length + 1
    noise = (least + indicators) / (mu * math.sqrt(rows)) * math.sqrt(part)
    wanted = float(np.clip(_NOISE_WANTED / noise, 1.0, _LARGEST_GROWTH))
    if not biased or length <= 0:
        return least * wanted

    def slope(growth: float) -> float:
        lost, beyond = _clipped_off(length, growth * least)
        return growth * noise**2 - rows * OTHER_SHAPE**2 * lost * beyond * least / length

    low, high = 1.0, _LARGEST_GROWTH
    for _ in range(60 if slope(low) < 0 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return least * max(low, wanted)


def _clipped_off(length: float, square: float) -> tuple[float, float]:
    """Which share of the squared length of Gaussian rows, `length` on average in as many directions, a ball takes off,
    and which share of the rows it touches."""
    half, at = length / 2, square / 2
    beyond = float(gammaincc(half, at))
    return max(0.0, 1 - float(gammainc(half + 1, at)) - square / length * beyond), beyond
