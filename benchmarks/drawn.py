"""A moments release of Gaussian rows that nobody holds: what its counts and sums would be is drawn from a covariance.

The publisher's own code runs, noise and stages included. Only the pass over rows is replaced: one sample covariance
is drawn (Wishart, by Bartlett's factor) and every stage sees it, clipped as Gaussian rows of that covariance would be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

import hazeglass as hg
from graphs import make_plan
from hazeglass.bundle.manifest import Part
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.features.clipping import _normal_points
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.publish import write_moments
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.sums import PieceSums, Sums
from simulate import SimulatedRelease, _Collector

FloatArray = npt.NDArray[np.float64]


class DrawnRows(Rows):
    """n rows with the given correlations, a third of the bounds wide, known by their sums alone."""

    def __init__(self, plan: hg.Plan, n: int, correlation: FloatArray, rng: np.random.Generator) -> None:
        super().__init__(plan, open_table(np.zeros((2, len(correlation))), plan.text))
        self.n, self.rng = n, rng
        root = np.linalg.cholesky(correlation)
        p = len(root)
        factor = np.tril(rng.standard_normal((p, p)), -1)
        np.fill_diagonal(factor, np.sqrt(rng.chisquare(n - 1 - np.arange(p))))
        factor = root @ factor
        self.covariance = factor @ factor.T / n
        self.mean = root @ rng.standard_normal(p) / np.sqrt(n)

    def run(self, engine: Any, work: Any, key: bytes = b"") -> Iterator[Any]:
        """What all rows together come to."""
        del engine, key
        yield self._sums(work) if isinstance(work, PieceSums) else self._counts(work.cuts)

    def _counts(self, cuts: tuple[FloatArray, ...]) -> list[npt.NDArray[np.int64]]:
        # make_plan's bounds lie three standard deviations away
        shares = [np.diff(ndtr(np.concatenate([[-np.inf], 3 * one, [np.inf]]))) for one in cuts]
        return [np.append(self.rng.multinomial(self.n, share / share.sum()), 0) for share in shares]

    def _sums(self, work: PieceSums) -> Sums:
        stage, through = work.stage, work.through
        centre = np.array(stage.centre)
        mean = (self.mean if through is None else through @ self.mean) - centre
        inner = self.covariance if through is None else through @ self.covariance @ through
        values, vectors = np.linalg.eigh(inner)
        squares = _normal_points(len(values)) ** 2
        squares /= squares.mean(axis=0)
        lengths = squares @ values + mean @ mean
        shrink = np.minimum(1.0, stage.radius**2 / lengths)
        kept = values * (shrink @ squares) / len(squares)
        second = (vectors * kept) @ vectors.T + shrink.mean() * np.outer(mean, mean)
        first = np.sqrt(shrink).mean() * mean
        whole = np.rint(self.n * stage.steps**2 * second).astype(np.int64)
        return Sums(np.rint(self.n * stage.steps * first).astype(np.int64), whole, self.n)


def drawn_release(precision: FloatArray, n: int, seed: int, **budget: float) -> SimulatedRelease:
    """The moments release of n Gaussian rows with this precision, under the budget (mu, or epsilon and delta)."""
    covariance = np.linalg.inv(precision)
    scale = np.sqrt(np.diag(covariance))
    plan = make_plan("moments", len(precision), **budget)
    rows = DrawnRows(plan, n, covariance / np.outer(scale, scale), np.random.default_rng(seed))
    collector = _Collector()
    manifest = write_moments(rows, collector, Serial(), SeededBits(seed))
    files = tuple(Part(name, "", 0) for name in sorted(collector.tables))
    return SimulatedRelease(Path(), replace(manifest, files=files), collector.tables)
