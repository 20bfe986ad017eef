"""Gaussian rows on three families of graphs, and releases of them in memory: shared by the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import hazeglass as hg

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from simulate import simulate  # the tests' own

__all__ = ["FAMILIES", "make_plan", "precision_of", "simulate", "standardised_rows", "true_partials"]

FAMILIES = ("chain", "random", "hubs")
BOUND = 5.0

FloatArray = npt.NDArray[np.float64]


def precision_of(family: str, p: int, rng: np.random.Generator) -> FloatArray:
    """A precision matrix with entries between 0.15 and 0.4 on the graph, before its diagonal is made large enough."""
    links = np.zeros((p, p), dtype=bool)
    if family == "chain":
        links[np.arange(p - 1), np.arange(1, p)] = True
    elif family == "random":
        links = np.triu(rng.uniform(size=(p, p)) < 2.0 / p, 1)
    else:
        for hub in range(0, p, 10):
            links[hub, hub + 1 : min(hub + 7, p)] = True
    values = np.where(links, rng.uniform(0.15, 0.4, (p, p)) * rng.choice([-1, 1], (p, p)), 0.0)
    values = values + values.T
    floor = -np.linalg.eigvalsh(values)[0]
    return values + np.eye(p) * max(1.0, 1.15 * floor)


def true_partials(precision: FloatArray) -> FloatArray:
    """Partial correlations of the pairs i < j."""
    scale = np.sqrt(np.diag(precision))
    return np.asarray(-(precision / np.outer(scale, scale))[np.triu_indices(len(precision), 1)])


def standardised_rows(precision: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Gaussian rows whose standard deviation is a third of the bounds, as the preview supposes."""
    covariance = np.linalg.inv(precision)
    root = np.linalg.cholesky(covariance) / np.sqrt(np.diag(covariance))[:, None]
    return np.asarray(rng.standard_normal((n, len(precision))) @ root.T * (BOUND / 3))


def make_plan(form: str, p: int, **budget: float) -> hg.Plan:
    """Record unit, bounds three standard deviations away; the budget is mu, or epsilon and delta."""
    column = {"kind": "continuous", "lower": -BOUND, "upper": BOUND}
    return hg.Plan.from_dict(
        {
            "release": {"title": "Simulation", "form": form},
            "budget": budget,
            "columns": [{"name": f"x{k + 1}", **column} for k in range(p)],
        }
    )
