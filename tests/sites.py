"""Simulated releases of one small chain of columns, several of them: for what pools and what compares."""

import numpy as np
import pandas as pd

import hazeglass as hg
from simulate import simulate

P, N, LOUD = 5, 1500, 0.5  # mu
NAMES = tuple(f"x{k + 1}" for k in range(P))


def chain(link=0.5):
    precision = np.eye(P)
    for k in range(P - 1):
        precision[k, k + 1] = precision[k + 1, k] = -link
    return precision


def rows_of(precision, n, rng, shift=0.0):
    covariance = np.linalg.inv(precision)
    scale = np.sqrt(np.diag(covariance))
    return pd.DataFrame(shift + rng.multivariate_normal(np.zeros(P), covariance, n) / scale, columns=NAMES)


def plan_of(mu=LOUD, form="moments", names=NAMES, **release):
    return hg.Plan.from_dict(
        {
            "release": {"title": "Site", "form": form, **release},
            "budget": {"mu": mu},
            "columns": [{"name": name, "kind": "continuous", "lower": -8.0, "upper": 8.0} for name in names],
        }
    )


def sites(count=4, plan=None, precision=None, seed=0, shifts=None, n=N):
    rng = np.random.default_rng(seed)
    shifts = shifts or [0.0] * count
    return [
        simulate(rows_of(chain() if precision is None else precision, n, rng, shift), plan or plan_of(), 100 * seed + k)
        for k, shift in enumerate(shifts)
    ]
