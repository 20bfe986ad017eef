"""Rows whose columns may each look ordinary and that are no Gaussian copula, made and measured.

What real tables do and Gaussian copulas do not: whole rows are far out together, regimes change means or dependence,
volatility comes in bursts, effects multiply, experiments hold single columns down. Every kind is drawn from parameters
of its own that do not change with the seed; `rows_of(name, n, seed)` draws rows, `real(name)` reads a table.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from graphs import precision_of
from hazeglass.features.marginal import normal_means
from hazeglass.features.scores import Link, latent_correlations, link_of

FloatArray = npt.NDArray[np.float64]
DATA = Path(os.environ.get("HAZEGLASS_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
POPULATION = 400_000  # rows that stand for all there could be
COLUMNS = 12
_MANY_ROWS = 0.002  # a share of them that have the same value


def _gaussian(family: str, n: int, rng: np.random.Generator, number: int = 1) -> FloatArray:
    """Standard normal rows on one fixed graph."""
    covariance = np.linalg.inv(precision_of(family, COLUMNS, np.random.default_rng(77 + number)))
    root = np.linalg.cholesky(covariance) / np.sqrt(np.diag(covariance))[:, None]
    return np.asarray(rng.standard_normal((n, COLUMNS)) @ root.T)


def _strong(n: int, rng: np.random.Generator, number: int = 1) -> FloatArray:
    """A tree with correlations of .7 to .9."""
    fixed, z = np.random.default_rng(55 + number), rng.standard_normal((n, COLUMNS))
    for k in range(1, COLUMNS):
        parent, strength = fixed.integers(0, k), fixed.uniform(0.7, 0.9)
        z[:, k] = strength * z[:, parent] + np.sqrt(1 - strength**2) * z[:, k]
    return z


def _student(n: int, rng: np.random.Generator, degrees: float, family: str) -> FloatArray:
    """A Student copula."""
    z = _strong(n, rng) if family == "tree" else _gaussian(family, n, rng)
    return z / np.sqrt(rng.chisquare(degrees, n) / degrees)[:, None]


def _swinging(n: int, rng: np.random.Generator, size: float) -> FloatArray:
    """A common factor exp(size N) on half of the columns."""
    z = _gaussian("random", n, rng)
    z[:, : COLUMNS // 2] *= np.exp(size * rng.standard_normal(n))[:, None]
    return z


def _regimes(n: int, rng: np.random.Generator) -> FloatArray:
    """Four experiments with the same graph's signs and other strengths, one of them on another graph."""
    which = rng.integers(0, 4, n)
    return np.stack([_gaussian("random", n, rng, k) for k in range(4)])[which, np.arange(n)]


def _held_down(n: int, rng: np.random.Generator) -> FloatArray:
    """Nine experiments, each shifting two columns of a causal chain and damping one, as in cell signalling."""
    fixed, which = np.random.default_rng(9), rng.integers(0, 9, n)
    weights = np.triu(fixed.uniform(0.4, 0.9, (COLUMNS, COLUMNS)) * (fixed.random((COLUMNS, COLUMNS)) < 0.25), 1)
    shift, gain = np.zeros((9, COLUMNS)), np.ones((9, COLUMNS))
    for k in range(1, 9):
        shift[k, fixed.choice(COLUMNS, 2, replace=False)] = fixed.choice([-2.5, 2.0], 2)
        gain[k, fixed.integers(COLUMNS)] = 0.2
    x = np.zeros((n, COLUMNS))
    for k in range(COLUMNS):
        x[:, k] = gain[which, k] * (x @ weights[:, k]) + rng.standard_normal(n) + shift[which, k]
    return np.asarray(np.exp(0.8 * x))


def _shifts(n: int, rng: np.random.Generator) -> FloatArray:
    """Three groups of rows with means apart, along directions that cross the graph."""
    centres = np.random.default_rng(3).normal(0, 1.2, (3, COLUMNS))
    return _gaussian("chain", n, rng) + centres[rng.choice(3, n, p=[0.6, 0.3, 0.1])]


def _outliers(n: int, rng: np.random.Generator) -> FloatArray:
    """One row in 33 is five times as long and has no graph."""
    z, bad = _gaussian("chain", n, rng), rng.random(n) < 0.03
    z[bad] = 5 * rng.standard_normal((int(bad.sum()), COLUMNS))
    return z


def _volatile(n: int, rng: np.random.Generator) -> FloatArray:
    """GARCH(1, 1) of a common volatility; rows in order, Gaussian given it."""
    z, variance, last = _gaussian("hubs", n, rng), np.empty(n), 1.0
    common = np.square(z).mean(axis=1)
    for t in range(n):
        variance[t] = last
        last = 0.02 + 0.28 * variance[t] * common[t] + 0.70 * variance[t]
    return z * np.sqrt(variance)[:, None]


def _expression(n: int, rng: np.random.Generator) -> FloatArray:
    """Counts of genes: effects multiply, every cell has a depth of its own, small means count as zeros."""
    level = np.exp(0.6 * _gaussian("random", n, rng, 5) + np.linspace(-0.5, 3, COLUMNS))
    depth = rng.gamma(3.0, 1 / 3.0, n)[:, None]
    return rng.poisson(level * depth * rng.gamma(4.0, 0.25, (n, COLUMNS))).astype(float)


def _saturating(n: int, rng: np.random.Generator) -> FloatArray:
    """Columns that follow others along a parabola and a threshold, not along a line."""
    z = _gaussian("chain", n, rng)
    z[:, 3] = 0.7 * (z[:, 0] ** 2 - 1) + 0.7 * z[:, 3]
    z[:, 6] = np.maximum(z[:, 4], 0) + 0.5 * z[:, 6]
    z[:, 9] = z[:, 7] * np.abs(z[:, 8]) + 0.5 * z[:, 9]
    return z


def _ceilinged(n: int, rng: np.random.Generator) -> FloatArray:
    """Answers on scales of which most people take the end, with a common habit."""
    z = _strong(n, rng, 4) + 0.5 * rng.standard_exponential((n, 1))
    return np.asarray(np.round(np.clip(1.4 * z + 4, 0, 6)))


MADE: dict[str, Callable[[int, np.random.Generator], FloatArray]] = {
    "Gaussian": lambda n, rng: _gaussian("random", n, rng),
    "Gaussian tree": lambda n, rng: _strong(n, rng),
    "Student 3": lambda n, rng: _student(n, rng, 3, "random"),
    "Student 6": lambda n, rng: _student(n, rng, 6, "hubs"),
    "Student 4 tree": lambda n, rng: _student(n, rng, 4, "tree"),
    "half swings": lambda n, rng: _swinging(n, rng, 0.7),
    "regimes": _regimes,
    "held down": _held_down,
    "shifts": _shifts,
    "outliers": _outliers,
    "volatile": _volatile,
    "expression": _expression,
    "curves": _saturating,
    "ceilings": _ceilinged,
}
WHOLE = ("expression", "ceilings", "chickenpox", "films")  # kinds that are whole numbers


def rows_of(name: str, n: int, seed: int) -> FloatArray:
    return MADE[name](n, np.random.default_rng(seed))


@lru_cache
def bounds_of(name: str) -> tuple[FloatArray, FloatArray]:
    """Generous public bounds: those of all rows there could be, and a half beyond on either side."""
    rows = rows_of(name, POPULATION // 4, 1 << 40)
    low, high = rows.min(axis=0), rows.max(axis=0)
    if name in WHOLE:
        return np.zeros(len(low)), np.ceil(high * 1.5)
    return low - (high - low) / 2, high + (high - low) / 2


@lru_cache
def population(name: str) -> FloatArray:
    """Partial correlations of scores if there were no end of rows."""
    return own_partials(rows_of(name, POPULATION, 1 << 41))


def own_partials(rows: FloatArray) -> FloatArray:
    """Of the rows' own normal scores: what they say without noise and without clipping.

    Between columns with values that many rows share, of the normals behind them.
    """
    inverse = np.linalg.inv(own_correlations(rows))
    scale = np.sqrt(np.diag(inverse))
    return np.asarray(-(inverse / np.outer(scale, scale))[np.triu_indices(len(inverse), 1)])


def own_correlations(rows: FloatArray) -> FloatArray:
    """Likewise. Scores that were drawn inside each value would have its mean score in their products."""
    scores, links = zip(*map(_mean_scores, rows.T), strict=True)
    products = np.array(scores) @ np.array(scores).T / len(rows)
    np.fill_diagonal(products, 1.0)
    return np.asarray(latent_correlations(products, links)[0])


def _mean_scores(column: FloatArray) -> tuple[FloatArray, Link]:
    """The mean score of each cell's value, and what such scores say of the normal behind the column."""
    _, place, often = np.unique(column, return_inverse=True, return_counts=True)
    shared = often > _MANY_ROWS * len(column)
    ends = np.concatenate([[0.0], np.cumsum(often) / len(column)])
    means = normal_means(ends[:-1], ends[1:])
    edges = np.flatnonzero(np.concatenate([[True], shared[1:] | shared[:-1], [True]]))  # runs of rare values are smooth
    borders = stats.norm.ppf(np.minimum(ends[edges], 1.0))
    borders[-1] = np.inf
    scores = means[place]
    return scores / (1.0 if shared.any() else scores.std()), link_of(borders, shared[edges[:-1]])


# ------------------------------------------------------------------------------------------------- tables of others


def _csv(path: str, **options: Any) -> FloatArray:
    import pandas as pd

    with gzip.open(DATA / path, "rt") if path.endswith(".gz") else (DATA / path).open() as file:
        return np.asarray(pd.read_csv(file, **options).select_dtypes("number"), dtype=np.float64)


def _movies() -> FloatArray:
    """How users rate the twelve most rated films; a film that was not rated is 0."""
    ratings = _csv("movielens/ratings.csv.gz")
    film, often = np.unique(ratings[:, 1], return_counts=True)
    chosen, users = film[np.argsort(-often)[:COLUMNS]], np.unique(ratings[:, 0], return_inverse=True)[1]
    rows = np.zeros((users.max() + 1, COLUMNS))
    for k, one in enumerate(chosen):
        at = ratings[:, 1] == one
        rows[users[at], k] = ratings[at, 2]
    return rows


REAL: dict[str, Callable[[], tuple[FloatArray, float, float]]] = {
    "cell signalling": lambda: (np.log(_csv("sachs/sachs.csv.gz")), 0.0, float(np.log(1e4))),
    "home loads": lambda: (_csv("home_loads/homes_hourly_kwh.csv.gz"), 0.0, 30.0),
    "grid8": lambda: (_csv("grid8_stanford/voltages_fixpf.csv.gz")[:, 1:], 0.9, 1.1),
    "chickenpox": lambda: (_csv("chickenpox/hungary_chickenpox.csv"), 0.0, 1000.0),
    "films": lambda: (_movies(), 0.0, 5.0),
}
