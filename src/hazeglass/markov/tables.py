"""Tables of pairs of columns from noisy estimates: shrunk by their noise, without negative cells, raked to the shares.

A deviation D from independence is known with noise of one size in every cell, and where columns depend on each other it
has few directions. So its singular values y (in units of the noise) are shrunk as is best for a matrix of low rank with
a x b free cells (Gavish and Donoho 2017): sqrt((y^2 - a - b)^2 - 4 a b) / y where y > sqrt(a) + sqrt(b), else 0. A pair
of which nothing is left has no table: the field has no edge there, and what the two share comes through others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from hazeglass.features.marginal import normal_means
from hazeglass.markov.field import ONE, Tables

FloatArray = npt.NDArray[np.float64]

_RAKES, _PARTS = 30, 8
_LEAST = 0.02  # of its noise: what a cell holds at least that noise may have emptied
_NARROW, _FAR = 0.2, 3.0  # the least spread of a level's scores, and how far out their mean can lie
_STRONGEST, _TINY, _EDGE, _NEAR = 0.998, 1e-30, 9.0, 1e-3
_LARGEST_OFFSET = 1 << 20


@dataclass(frozen=True, eq=False)
class Estimates:
    """Shares of every column's states, and for each pair of columns (i < j) that depend on each other its table and the
    noise of a cell."""

    shares: tuple[FloatArray, ...]
    pairs: Mapping[tuple[int, int], tuple[FloatArray, float]]

    @property
    def offset(self) -> int:
        """With which offset no number is close to where it would be rounded to another, in 1/2^20 of a unit.

        Estimates differ by rounding from one computer to the next, whole numbers must not: the offset stands in a
        release, and leads to the same ones.
        """
        every = [*self.shares, *(table.ravel() for table, _ in self.pairs.values())]
        parts = np.sort(np.mod(np.concatenate(every) * ONE, 1.0))
        gaps = np.diff(np.append(parts, parts[0] + 1.0))
        widest = int(np.argmax(gaps))
        return int(np.mod(1.0 - parts[widest] - gaps[widest] / 2, 1.0) * _LARGEST_OFFSET)

    def whole(self, offset: int) -> Tables:
        """In whole numbers of 1/2^20, rounded down after the offset was added."""

        def rounded(numbers: FloatArray) -> npt.NDArray[np.int64]:
            return np.floor(numbers * ONE + offset / _LARGEST_OFFSET).astype(np.int64)

        shares = [np.maximum(rounded(one), 0) for one in self.shares]
        for one in shares:
            one[np.argmax(one)] += ONE - one.sum()
        sizes = tuple(one.size for one in shares)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        p, size = len(sizes), int(ends[-1])
        pairs, edges = np.zeros((size, size), dtype=np.int64), np.zeros((p, p), dtype=bool)
        floor = np.ones((p, p), dtype=np.int64)
        for (i, j), (table, noise) in self.pairs.items():
            own, other = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
            pairs[own, other] = np.maximum(rounded(table), 0)
            pairs[other, own] = pairs[own, other].T
            edges[i, j] = edges[j, i] = True
            floor[i, j] = floor[j, i] = 1 << int(np.clip(np.rint(np.log2(max(noise * ONE, 1.0))), 0, 20))
        return Tables(sizes, np.concatenate(shares), pairs, edges, floor)


def shrunk(deviation: FloatArray, noise: float, freedom: tuple[int, int]) -> FloatArray:
    """What is left of a matrix with noise of this size in so many free rows and columns; all of it without noise."""
    left, values, right = np.linalg.svd(deviation, full_matrices=False)
    a, b = max(freedom[0], 1), max(freedom[1], 1)
    noise = max(noise, 1e-12)
    y = values / noise
    inside = np.sqrt(np.maximum((y**2 - a - b) ** 2 - 4 * a * b, 0.0))
    kept = np.where(y > np.sqrt(a) + np.sqrt(b), inside / np.maximum(y, 1e-12) * noise, 0.0)
    return np.asarray((left * kept) @ right)


def centred(deviation: FloatArray) -> FloatArray:
    """Without means of rows and columns, which a deviation from independence does not have."""
    flat = deviation - deviation.mean(axis=0) - deviation.mean(axis=1)[:, None]
    return np.asarray(flat + deviation.mean())


def raked(table: FloatArray, rows: FloatArray, columns: FloatArray, noise: float = 0.0) -> FloatArray:
    """The table without negative cells, brought to the given sums of rows and columns by turns."""
    apart = np.outer(rows, columns)
    found = np.maximum(table, np.minimum(0.1 * apart, _LEAST * noise) + 1e-12)
    for _ in range(_RAKES):
        found = found * (rows / np.maximum(found.sum(axis=1), _TINY))[:, None]
        found = found * (columns / np.maximum(found.sum(axis=0), _TINY))
    return np.asarray(found)


def of_deviation(
    deviation: FloatArray, rows: FloatArray, columns: FloatArray, noise: float, *, shrink: bool = True
) -> FloatArray | None:
    """The table of two columns of levels; None where nothing is left of its deviation."""
    left = centred(deviation)
    left = shrunk(left, noise, (rows.size - 1, columns.size - 1)) if shrink else left
    return raked(np.outer(rows, columns) + left, rows, columns, noise) if left.any() else None


def of_normals(
    ranks: FloatArray, others: FloatArray, correlation: float, noise: float, *, shrink: bool = True
) -> FloatArray | None:
    """The table of two ordered columns cut at these ranks, whose scores are normal with this correlation; None where
    noise explains it."""
    rho = float(shrunk(np.array([[correlation]]), noise, (1, 1))[0, 0]) if shrink else correlation
    if rho == 0.0:
        return None
    rho = float(np.clip(rho, -_STRONGEST, _STRONGEST))
    parts = (np.arange(_PARTS) + 0.5) / _PARTS
    z = ndtri(np.clip(ranks[:-1, None] + np.diff(ranks)[:, None] * parts, 1e-9, 1 - 1e-9))
    below = ndtr((ndtri(others) - rho * z[..., None]) / np.sqrt(1 - rho**2))
    rows, columns = np.diff(ranks), np.diff(others)
    return raked(np.diff(below, axis=2).mean(axis=1) * rows[:, None], rows, columns)


def of_classes(
    ranks: FloatArray, shares: FloatArray, cross: FloatArray, noise: float, *, shrink: bool = True
) -> FloatArray | None:
    """The table of an ordered column cut at these ranks and one of levels, whose indicators have the covariances
    `cross` with the scores: scores are normal within a level. None where noise explains it."""
    left = cross - cross.mean()
    left = shrunk(left[None, :], noise, (1, shares.size - 1))[0] if shrink else left
    if not left.any():
        return None
    doubt = 2 * noise if shrink else 0.0
    known = shares / np.sqrt(shares**2 + doubt**2 + 1e-18)  # a rare level's mean is hardly known: it is drawn to 0
    means = np.clip(known**2 * left / np.maximum(shares, 1e-9), -_FAR, _FAR)
    means -= shares @ means
    spread = np.sqrt(max(1 - float(shares @ means**2), _NARROW**2))
    below = ndtr((ndtri(ranks) - means[:, None]) / spread)
    return raked((np.diff(below, axis=1) * shares[:, None]).T, np.diff(ranks), shares)


def of_waves(
    ranks: FloatArray, others: FloatArray, products: FloatArray, noise: float, *, shrink: bool = True
) -> FloatArray | None:
    """The table of two ordered columns cut at these ranks from the means of products of their cosines sqrt(2) cos(pi k
    F); None where noise explains them."""
    left = shrunk(products, noise, (len(products), len(products))) if shrink else products
    if not left.any():
        return None
    rows, columns = np.diff(ranks), np.diff(others)
    waves, other_waves = _waves(ranks, len(products)), _waves(others, len(products))
    inverse = np.linalg.pinv((waves * rows[:, None]).T @ waves, rcond=1e-3)
    other_inverse = np.linalg.pinv((other_waves * columns[:, None]).T @ other_waves, rcond=1e-3)
    lift = 1 + waves @ inverse @ left @ other_inverse @ other_waves.T
    return raked(np.outer(rows, columns) * np.maximum(lift, 0.01), rows, columns)


def _waves(ranks: FloatArray, degrees: int) -> FloatArray:
    """Means of the cosines between each two ranks."""
    k = np.pi * np.arange(1, degrees + 1)
    return np.asarray(np.sqrt(2) * np.diff(np.sin(ranks[:, None] * k), axis=0) / (k * np.diff(ranks)[:, None]))


def cut(lumps: Sequence[tuple[float, float]], leaves: int) -> FloatArray:
    """Ranks at which an ordered column is cut into about so many leaves, even in scores; a lump is one leaf."""
    inner = ndtr(np.linspace(-2.3, 2.3, leaves - 1))
    for low, high in lumps:
        inner = np.append(inner[(inner <= low) | (inner >= high)], [low, high])
    inner = np.unique(inner[(inner > 1e-4) & (inner < 1 - 1e-4)])
    kept = [0.0]
    ends = {end for lump in lumps for end in lump}
    for rank in inner:
        if rank - kept[-1] > 1e-3 or rank in ends:
            kept.append(float(rank))
    return np.array([*kept, 1.0])


def told(ranks: FloatArray, lumps: Sequence[tuple[float, float]]) -> float:
    """Which share of a score's variance its leaf tells: inside a leaf that is no lump rows follow nothing."""
    share, mean = np.diff(ranks), normal_means(ranks[:-1], ranks[1:])
    ends = np.clip(ndtri(ranks), -_EDGE, _EDGE)
    squares = share - np.diff(ends * np.exp(-(ends**2) / 2)) / np.sqrt(2 * np.pi)
    smooth = [not any(a - _NEAR <= low and high <= b + _NEAR for a, b in lumps) for low, high in pairwise(ranks)]
    return float(1 - np.sum(np.maximum(squares - share * mean**2, 0.0)[smooth]))
