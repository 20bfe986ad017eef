"""Stages pooled: the stated variances are those of many releases, and early stages add what their noise allows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hazeglass.analyst.pooling import StageMoments, pool, undo
from hazeglass.features.shaping import first_shape, next_shape, squared_radius

P = 8
UPPER = np.triu_indices(P, 1)


def chain(strength):
    return strength ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))


def stage_of(rows, radius, mu, rng):
    """Moments of rows clipped to a ball, with float noise that spends mu."""
    n, p = rows.shape
    y = rows * np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]
    weight = min(radius / 2, radius / (n * mu) ** 0.25)
    t = (radius**2 + weight**2) / (mu * n)
    noise = np.triu(t * rng.standard_normal((p, p)), 1)
    noise += noise.T + np.diag(math.sqrt(2) * t * rng.standard_normal(p))
    mean = y.mean(axis=0) + t / weight * rng.standard_normal(p)
    return StageMoments(mean, y.T @ y / n + noise, t, t / weight, np.eye(p), np.zeros(p), radius)


def shaped(rows, mu, rng):
    """Stages as the publisher's rules make them."""
    left, shape, found = mu**2, first_shape(rows.shape[1], shaped=True), []
    while True:
        here = math.sqrt(shape.share * left)
        matrix = np.eye(rows.shape[1]) if shape.map is None else shape.map
        radius = math.sqrt(squared_radius(shape.length, len(rows), here))
        one = stage_of(rows @ matrix.T - shape.centre, radius, here, rng)
        found.append(replace(one, map=matrix, centre=shape.centre))
        left -= here**2
        if shape.share == 1.0:
            return found
        shape = next_shape(shape, radius, one.mean, one.second, one.noise_sd, len(found), 6 * 1024)


@pytest.mark.parametrize(("n", "strength", "mu"), [(10_000, 0.5, 0.24), (10_000, 0.9, 0.24), (30_000, 0.6, 2.0)])
def test_stated_variances_are_those_of_many_releases(n, strength, mu):
    truth = chain(strength)
    root, precision = np.linalg.cholesky(truth), np.linalg.inv(truth)
    errors, stated, of_precision, gaps = [], [], [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = pool(shaped(0.2 + rng.standard_normal((n, P)) @ root.T, mu, rng), n)
        errors.append(found.covariance - truth)
        stated.append(found.error.entry_variance)
        of_precision.append(found.error._variance(precision @ found.error.basis))
        gaps.append(found.disagreement[0] / max(1, found.disagreement[1]))
    errors, through = np.array(errors), np.array([precision @ error @ precision for error in errors])
    ratio = np.sqrt(np.mean(errors**2, axis=0) / np.mean(stated, axis=0))
    assert ratio[UPPER].mean() == pytest.approx(1, abs=0.1)
    assert np.diag(ratio).mean() == pytest.approx(1, abs=0.1)
    ratio = np.sqrt(np.mean(through**2, axis=0) / np.mean(of_precision, axis=0))
    assert ratio[UPPER].mean() == pytest.approx(1, abs=0.06)
    assert np.abs(errors.mean(axis=0) / errors.std(axis=0)).max() * math.sqrt(60) < 4.5
    assert np.mean(gaps) < 1.25  # stages agree


def test_two_stages_alike_are_as_good_as_one_with_twice_the_budget():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((5000, P)) @ np.linalg.cholesky(chain(0.5)).T
    one, other = (stage_of(rows, 4.0, 0.2, rng) for _ in range(2))
    both = pool([one, other], 5000)
    assert both.noise.entry_variance[UPPER].mean() == pytest.approx(
        pool([one], 5000).noise.entry_variance[UPPER].mean() / 2, rel=0.2
    )
    assert both.covariance == pytest.approx(
        (pool([one], 5000).covariance + pool([other], 5000).covariance) / 2, abs=0.03
    )


def test_a_stage_that_cannot_be_undone_is_left_out_unless_it_is_the_last():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((5000, P))
    good, bad = stage_of(rows, 4.0, 1.0, rng), stage_of(rows, 1.0, 1.0, rng)
    assert not undo(bad, 5000).converged
    assert np.array_equal(pool([bad, good], 5000).covariance, pool([good], 5000).covariance)
    last = pool([good, bad], 5000)
    assert not last.stages[-1].converged
    assert last.covariance == pytest.approx(undo(bad, 5000).covariance)


def test_a_map_and_a_centre_are_taken_back():
    rng = np.random.default_rng(3)
    truth, mean = chain(0.7), np.linspace(-0.5, 0.5, P)
    rows = mean + rng.standard_normal((200_000, P)) @ np.linalg.cholesky(truth).T
    values, vectors = np.linalg.eigh(truth)
    matrix = (vectors / np.sqrt(values)) @ vectors.T
    made = stage_of(rows @ matrix - matrix @ mean, 2.5, 50.0, rng)
    found = pool([replace(made, map=matrix, centre=matrix @ mean)], 200_000)
    assert found.covariance == pytest.approx(truth, abs=0.02)
    assert found.mean == pytest.approx(mean, abs=0.02)
    assert 0.5 < found.stages[0].share_clipped < 0.8


def test_the_variance_of_the_trace_is_that_of_draws():
    rng = np.random.default_rng(4)
    found = pool(shaped(rng.standard_normal((5000, P)) @ np.linalg.cholesky(chain(0.8)).T, 0.3, rng), 5000)
    traces = [np.trace(found.noise.sample(rng)) for _ in range(4000)]
    assert np.var(traces) == pytest.approx(found.noise.trace_variance(), rel=0.1)
