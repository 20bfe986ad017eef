"""The estimators keep scikit-learn's conventions and agree with it where it applies."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.covariance import GraphicalLasso
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import hazeglass as hg
from hazeglass.errors import InputError, RepairWarning


def chain(n, p=5, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.standard_normal(n)]
    for _ in range(p - 1):
        columns.append(0.7 * columns[-1] + 0.7 * rng.standard_normal(n))
    return np.column_stack(columns)


@pytest.mark.filterwarnings("ignore::hazeglass.errors.HazeglassWarning")
@parametrize_with_checks([hg.CorrectedGraphicalLasso(), hg.CorrectedGraphicalLassoCV(select="ebic")])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
def test_clean_rows_agree_with_scikit_learn(alpha):
    X = chain(300)
    ours = hg.CorrectedGraphicalLasso(alpha, scale="covariance", weights="uniform", penalize_diagonal=False).fit(X)
    theirs = GraphicalLasso(alpha, tol=1e-5, enet_tol=1e-8, max_iter=1000).fit(X)
    np.testing.assert_allclose(ours.precision_, theirs.precision_, atol=1e-4)
    np.testing.assert_allclose(ours.covariance_, theirs.covariance_, atol=1e-4)
    np.testing.assert_allclose(ours.location_, theirs.location_)


@pytest.mark.parametrize("stated", ["number", "vector", "matrix", "cells"])
def test_noise_however_stated_is_taken_out(stated):
    n, p = 200_000, 4
    X = chain(n, p)
    rng = np.random.default_rng(1)
    noise = {
        "number": 0.5,
        "vector": np.array([0.5, 0.1, 1.0, 0.3]),
        "matrix": np.diag([0.5, 0.1, 1.0, 0.3]) + 0.05,
        "cells": rng.uniform(0.1, 0.9, (n, p)),
    }[stated]
    if stated == "cells":
        noisy = X + rng.standard_normal((n, p)) * np.sqrt(noise)
    else:
        full = noise if stated == "matrix" else np.diag(np.broadcast_to(noise, p))
        noisy = X + rng.multivariate_normal(np.zeros(p), full, n)
    fitted = hg.CorrectedGraphicalLasso(1e-4, noise_cov=noise).fit(noisy)
    np.testing.assert_allclose(fitted.covariance_, np.cov(X, rowvar=False), atol=0.03)
    naive = hg.CorrectedGraphicalLasso(1e-4).fit(noisy)
    assert np.abs(naive.covariance_ - np.cov(X, rowvar=False)).max() > 0.3


@pytest.mark.parametrize("noise", [np.zeros(3), np.zeros((3, 3)), -1.0, np.nan, np.array([[0, 1.0], [0, 0]])])
def test_noise_of_the_wrong_shape_is_refused(noise):
    with pytest.raises(InputError, match="noise_cov must be"):
        hg.CorrectedGraphicalLasso(noise_cov=noise).fit(chain(50, 2))


@pytest.mark.parametrize("select", ["cv", "mse", "ebic", "stars"])
def test_every_way_of_choosing_finds_the_chain(select):
    X = chain(2000, 6)
    fitted = hg.CorrectedGraphicalLassoCV(select=select).fit(X)
    support = np.abs(fitted.precision_) > 1e-8
    assert all(support[k, k + 1] for k in range(5))
    assert fitted.alpha_ in fitted.alphas_
    assert len(fitted.alphas_) == len(fitted.scores_)


def test_names_survive_pandas_and_polars():
    X = chain(100, 3)
    for frame in (pd.DataFrame(X, columns=list("abc")), pl.DataFrame(X, schema=list("abc"))):
        assert hg.CorrectedGraphicalLasso(0.1).fit(frame).feature_names_in_.tolist() == ["a", "b", "c"]


def test_cloning_pickling_grids_and_pipelines_work():
    X = chain(300, 3)
    estimator = hg.CorrectedGraphicalLasso(0.05, noise_cov=0.1, weights="uniform")
    assert clone(estimator).get_params() == estimator.get_params()
    fitted = estimator.fit(X)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.precision_, fitted.precision_)
    search = GridSearchCV(hg.CorrectedGraphicalLasso(), {"alpha": [0.01, 0.1, 0.5]}, cv=3).fit(X)
    assert search.best_params_["alpha"] in (0.01, 0.1)
    make_pipeline(StandardScaler(), hg.CorrectedGraphicalLasso(0.1)).fit(X)


def test_an_indefinite_covariance_is_repaired_as_little_as_needed():
    X = chain(40, 8) + 3.0 * np.random.default_rng(0).standard_normal((40, 8))
    with pytest.warns(RepairWarning, match="indefinite"):
        fitted = hg.CorrectedGraphicalLasso(0.01, noise_cov=9.0).fit(X)
    assert np.linalg.eigvalsh(fitted.precision_)[0] > 0


@pytest.mark.parametrize(("settings", "message"), [({"scale": "x"}, "scale"), ({"weights": "x"}, "weights")])
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        hg.CorrectedGraphicalLasso(**settings).fit(chain(50, 3))
    with pytest.raises(InputError, match="select"):
        hg.CorrectedGraphicalLassoCV(select="x").fit(chain(50, 3))
