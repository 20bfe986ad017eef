"""The corrected covariance is unbiased: over 500 releases its mean meets the truth in every entry, in every form.

Rows are Gaussian and fresh for every release, so that the truth is the covariance they were drawn from. Where rows are
clipped, the correction supposes exactly that: Gaussian rows.
"""

import math

import numpy as np
import pytest

import hazeglass as hg
from hazeglass.analyst.covariance import NoisyCovariance, covariance_of
from hazeglass.analyst.error_model import ErrorModel
from hazeglass.errors import InputError
from simulate import simulate

RELEASES = 500
STANDARD_ERRORS = 4
P = 4
BOUND = 20.0
SPREAD = np.array([3.0, 4.0, 2.5, 3.5])
COVARIANCE = 0.6 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P))) * np.outer(SPREAD, SPREAD)
MEAN = np.array([0.5, -1.0, 0.0, 0.3])

FORMS = {
    "table": ({"form": "table", "protects": "entry"}, 1.0),
    "table, discrete": ({"form": "table", "protects": "entry"}, 4.0),
    "one stage, entry": ({"form": "moments", "protects": "entry", "adaptive": False}, 0.2),
    "one stage, clipped": ({"form": "moments", "adaptive": False, "clip_radius": 0.35}, 0.5),
    "one stage, private radius": ({"form": "moments", "adaptive": False, "clip_radius": "private"}, 2.0),
}


def plan_for(kind):
    release, mu = FORMS[kind]
    column = {"kind": "continuous", "lower": -BOUND, "upper": BOUND}
    if kind == "table, discrete":
        column = {"kind": "integer", "noise": "discrete", "lower": -int(BOUND), "upper": int(BOUND)}
    columns = [{"name": f"x{k + 1}", **column} for k in range(P)]
    return hg.Plan.from_dict({"release": {"title": kind, **release}, "budget": {"mu": mu}, "columns": columns})


def in_the_unit_of_the_rows(release):
    """The corrected covariance; moments are released on the scale of the public bounds."""
    return covariance_of(release).covariance * (1.0 if release.form == "table" else BOUND**2)


@pytest.mark.parametrize("kind", FORMS)
def test_the_mean_over_five_hundred_releases_is_the_truth(kind):
    rng = np.random.default_rng(list(FORMS).index(kind))
    plan, root = plan_for(kind), np.linalg.cholesky(COVARIANCE)
    truth = COVARIANCE + (np.eye(P) / 12 if kind == "table, discrete" else 0.0)  # rounding to integers adds 1/12
    errors = np.empty((RELEASES, P, P))
    for k in range(RELEASES):
        rows = MEAN + rng.standard_normal((400, P)) @ root.T
        if kind == "table, discrete":
            rows = np.rint(rows).astype(np.int64)
        errors[k] = in_the_unit_of_the_rows(simulate(rows, plan, seed=k)) - truth
    ses = errors.mean(axis=0) / (errors.std(axis=0) / math.sqrt(RELEASES))
    assert np.abs(ses).max() < STANDARD_ERRORS, ses.round(1)


def test_a_covariance_whose_parts_do_not_fit_together_cannot_be_made():
    error = ErrorModel.of_gaussian_rows(np.eye(3), 100)
    for names, covariance in ((tuple("ab"), np.eye(3)), (tuple("abc"), np.eye(4))):
        with pytest.raises(InputError, match="as many features"):
            NoisyCovariance(names, 100, covariance, error)
