"""The estimators keep scikit-learn's conventions and agree with it where it applies."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.covariance import GraphicalLasso
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import hazeglass as hg
from hazeglass.errors import ConvergenceWarning, InputError, RepairWarning


def chain(n, p=5, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.standard_normal(n)]
    for _ in range(p - 1):
        columns.append(0.7 * columns[-1] + 0.7 * rng.standard_normal(n))
    return np.column_stack(columns)


@pytest.mark.filterwarnings("ignore::hazeglass.errors.HazeglassWarning")
@parametrize_with_checks([hg.CorrectedGraphicalLasso(), hg.CorrectedGraphicalLassoCV(alphas=5, cv=3)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
def test_clean_rows_agree_with_scikit_learn(alpha):
    X = chain(300)
    settings = {"scale": "covariance", "weights": "uniform", "penalize_diagonal": False, "tol": 1e-10}
    ours = hg.CorrectedGraphicalLasso(alpha, **settings).fit(X)
    theirs = GraphicalLasso(alpha, tol=1e-7, enet_tol=1e-10, max_iter=1000).fit(X)
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


@pytest.mark.parametrize(
    "estimator",
    [
        hg.CorrectedGraphicalLassoCV(),
        hg.CorrectedGraphicalLassoCV(scoring="mse", n_jobs=2),
        hg.CorrectedGraphicalLasso(alpha="ebic"),
        hg.CorrectedGraphicalLasso(alpha="stars"),
    ],
)
def test_every_way_of_choosing_finds_the_chain(estimator):
    fitted = estimator.fit(chain(2000, 6))
    support = np.abs(fitted.precision_) > 1e-8
    if (
        fitted.get_params().get("alpha") != "stars"
    ):  # stricter: with few columns, edges of equal strength enter together
        assert all(support[k, k + 1] for k in range(5))
    assert isinstance(fitted.alpha_, float)


@pytest.mark.filterwarnings("ignore:cv chose the smallest penalty")
def test_cross_validation_reports_every_fold_of_the_penalties_it_was_given():
    alphas, X, folds = [0.3, 0.02, 0.1], chain(300, 4), KFold(4, shuffle=True, random_state=0)
    fitted = hg.CorrectedGraphicalLassoCV(alphas=alphas, cv=folds, weights="uniform").fit(X)
    results = fitted.cv_results_
    assert results["alphas"].tolist() == [0.3, 0.1, 0.02]
    scores = np.array([results[f"split{k}_test_score"] for k in range(4)])
    np.testing.assert_allclose(results["mean_test_score"], scores.mean(axis=0))
    np.testing.assert_allclose(results["std_test_score"], scores.std(axis=0))
    assert fitted.alpha_ == results["alphas"][np.argmax(results["mean_test_score"])]
    train, held = next(folds.split(X))
    scale = np.sqrt(np.var(X, axis=0))
    one = hg.graphical_lasso(np.cov(X[train].T) / np.outer(scale, scale), 0.1).precision
    outside = np.cov(X[held].T) / np.outer(scale, scale)
    assert scores[0, 1] == pytest.approx(np.linalg.slogdet(one)[1] - np.sum(outside * one), abs=1e-4)


def test_weights_of_your_own_free_and_forbid_edges():
    X, weights = chain(500, 4), np.ones((4, 4))
    weights[0, 1] = weights[1, 0] = np.inf
    fitted = hg.CorrectedGraphicalLasso(0.05, weights=weights).fit(X)
    assert fitted.precision_[0, 1] == 0
    np.testing.assert_array_equal(
        hg.CorrectedGraphicalLasso(0.05, weights=np.ones((4, 4))).fit(X).precision_,
        hg.CorrectedGraphicalLasso(0.05, weights="uniform").fit(X).precision_,
    )


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


@pytest.mark.parametrize(
    "settings", [{"scale": "x"}, {"weights": "x"}, {"weights": np.ones((2, 2))}, {"alpha": "x"}, {"max_iter": 0}]
)
def test_wrong_settings_are_named(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        hg.CorrectedGraphicalLasso(**settings).fit(chain(50, 3))


@pytest.mark.parametrize("settings", [{"scoring": "x"}, {"alphas": 0}, {"alphas": [0.1, -1.0]}, {"alphas": []}])
def test_wrong_settings_of_cross_validation_are_named(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        hg.CorrectedGraphicalLassoCV(**settings).fit(chain(50, 3))


def test_folds_need_two_rows():
    with pytest.raises(InputError, match="at least 2 rows"):
        hg.CorrectedGraphicalLassoCV(cv=10).fit(chain(15, 3))


def test_max_iter_ends_the_solver():
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        hg.CorrectedGraphicalLasso(0.001, solver="admm", max_iter=2).fit(chain(100, 6))
