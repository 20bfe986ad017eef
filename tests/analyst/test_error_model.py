"""Error models agree with simulation: rows, noisy sums, clipped rows, and what inversion makes of them."""

import math

import numpy as np
import pytest

from hazeglass.analyst import error_model
from hazeglass.analyst.error_model import ErrorModel, _diagonal_form, _mixed_form, _quadratic_form, widened_error
from hazeglass.features import clipping
from hazeglass.features.clipping import widen


def chain_covariance(p, rho=0.6):
    return rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))


def symmetric_noise(rng, p, sd):
    noise = np.triu(rng.standard_normal((p, p)) * sd, 1)
    return noise + noise.T + np.diag(rng.standard_normal(p) * math.sqrt(2) * sd)


def partial(matrix):
    precision = np.linalg.inv(matrix)
    scale = np.sqrt(np.diag(precision))
    return -precision / np.outer(scale, scale)


def assert_sds_agree(stated, draws, tolerance=0.12):
    upper = np.triu_indices(stated.shape[0], 1)
    ratio = draws.std(axis=0)[upper] / stated[upper]
    assert np.all(np.abs(ratio - 1) < tolerance), ratio.round(2)


def test_entries_and_partial_correlations_of_noisy_sums():
    p, n, sd = 5, 2000, 0.02
    sigma = chain_covariance(p)
    rng = np.random.default_rng(0)
    model = ErrorModel.of_gaussian_rows(sigma, n).plus_isotropic(sd)
    root = np.linalg.cholesky(sigma)
    draws = []
    for _ in range(1500):
        x = rng.standard_normal((n, p)) @ root.T
        draws.append(x.T @ x / n + symmetric_noise(rng, p, sd))
    draws = np.array(draws)
    assert_sds_agree(np.sqrt(model.entry_variance), draws)
    assert_sds_agree(model.partial_correlation_sd(np.linalg.inv(sigma)), np.array([partial(s) for s in draws]))


def test_rescaling_does_not_change_partial_correlations():
    sigma = chain_covariance(4)
    model = ErrorModel.of_gaussian_rows(sigma, 500).plus_isotropic(0.01)
    factors = np.array([0.5, 3.0, 1.0, 10.0])
    scaled = model.carried(factors[:, None, None])
    precision = np.linalg.inv(sigma)
    assert scaled.entry_variance == pytest.approx(model.entry_variance * np.outer(factors, factors) ** 2)
    assert scaled.partial_correlation_sd(precision / np.outer(factors, factors)) == pytest.approx(
        model.partial_correlation_sd(precision)
    )


def clip(x, radius):
    return x * np.minimum(1, radius / np.linalg.norm(x, axis=1))[:, None]


def test_unclipping_recovers_the_covariance_of_gaussian_rows():
    p, n = 8, 400_000
    sigma = chain_covariance(p, 0.7)
    x = np.random.default_rng(1).multivariate_normal(np.zeros(p), sigma, size=n)
    clipped = clip(x, math.sqrt(p))
    moments = clipped.T @ clipped / n
    answer = widen(moments, math.sqrt(p))
    before = np.abs(np.linalg.inv(moments) - np.linalg.inv(sigma)).max()
    after = np.abs(np.linalg.inv(answer.covariance) - np.linalg.inv(sigma)).max()
    assert answer.share_clipped == pytest.approx(np.mean(np.linalg.norm(x, axis=1) > math.sqrt(p)), abs=0.02)
    assert before > 0.3
    assert after < 0.05


@pytest.mark.parametrize("offset", [0.5, 4.0])
def test_unclipping_allows_for_a_mean_away_from_the_centre_of_the_ball(offset):
    """Half a standard deviation is what a noisy first stage leaves; four is a badly chosen public centre."""
    p, n = 6, 200_000
    sigma, mean = chain_covariance(p), offset * np.array([1.0, 0.5, -0.3, 0.8, 0.0, -1.0])
    x = np.random.default_rng(4).multivariate_normal(mean, sigma, size=n)
    radius = math.sqrt(np.mean(np.sum(x**2, axis=1)))
    clipped = clip(x, radius)
    answer = widen(clipped.T @ clipped / n, radius, clipped.mean(axis=0))
    blind = widen(np.cov(clipped, rowvar=False), radius)
    assert np.abs(blind.covariance - sigma).max() > 0.08
    assert np.abs(answer.covariance - sigma).max() < 0.02
    assert np.abs(answer.mean - mean).max() < 0.02


def test_noise_in_a_mean_that_is_subtracted_is_part_of_the_error():
    p, sd = 4, 0.2
    rng = np.random.default_rng(5)
    mean = np.array([0.5, -0.3, 0.0, 0.1])
    means = mean + sd * rng.standard_normal((20_000, p))
    draws = -np.einsum("ki,kj->kij", means, means)
    nothing = ErrorModel(np.eye(p), np.zeros((p, p)), np.zeros((p, p)))
    # on average over the noisy means, which is what an analyst has
    stated = np.sqrt(np.mean([nothing.plus_noisy_mean(m, sd).entry_variance for m in means[:2000]], axis=0))
    np.testing.assert_allclose(stated, draws.std(axis=0), rtol=0.25)


def test_errors_are_carried_through_the_widening():
    p, n, sd, radius = 4, 1000, 0.02, 2.0
    sigma = chain_covariance(p)
    rng = np.random.default_rng(2)
    root = np.linalg.cholesky(sigma)
    draws, stated = [], None
    for _ in range(600):
        x = clip(rng.standard_normal((n, p)) @ root.T, radius)
        answer = widen(x.T @ x / n + symmetric_noise(rng, p, sd), radius)
        draws.append(answer.covariance)
    draws = np.array(draws)
    reference = clip(rng.standard_normal((400_000, p)) @ root.T, radius)
    stated = widened_error(widen(reference.T @ reference / 400_000, radius), n, sd)
    assert_sds_agree(np.sqrt(stated.entry_variance), draws, 0.15)
    assert_sds_agree(stated.partial_correlation_sd(np.linalg.inv(sigma)), np.array([partial(s) for s in draws]), 0.15)


def test_rows_clipped_beyond_telling_are_given_up():
    p, radius = 6, 1.0
    x = np.random.default_rng(3).standard_normal((5000, p)) * 30
    clipped = clip(x, radius)
    assert widen(clipped.T @ clipped / 5000 * 1.0001, radius) is None


def test_no_clipping_leaves_the_covariance_alone():
    sigma = chain_covariance(5) * 0.01
    answer = widen(sigma, 5.0)
    assert answer.covariance == pytest.approx(sigma)
    plain = ErrorModel.of_gaussian_rows(sigma, 100).plus_isotropic(0.001)
    assert widened_error(answer, 100, 0.001).entry_variance == pytest.approx(plain.entry_variance, rel=0.1)


def test_many_columns_use_a_few_products_and_lose_nothing_that_matters(monkeypatch):
    """Beyond the exact size the variances come from leading products: compare with the exact answer at p = 70."""
    p, radius = 70, 8.0
    sigma = chain_covariance(p)
    widening = widen(sigma * 0.9, radius)
    quick = widened_error(widening, 4000, 0.01)
    monkeypatch.setattr("hazeglass.analyst.error_model._EXACT", p)
    exact = widened_error(widening, 4000, 0.01)
    precision = np.linalg.inv(sigma)
    np.testing.assert_allclose(np.sqrt(quick.entry_variance), np.sqrt(exact.entry_variance), rtol=0.02)
    np.testing.assert_allclose(
        quick.partial_correlation_sd(precision), exact.partial_correlation_sd(precision), rtol=0.03
    )


def row_products(vectors, tilt, i, j):
    """v_i v_j + (tilt_ij / 2)(v_i^2 + v_j^2), entry by entry."""
    return vectors[i] * vectors[j] + tilt[i, j] / 2 * (vectors[i] ** 2 + vectors[j] ** 2)


def test_forms_in_matrix_products_are_the_sums_they_stand_for():
    rng = np.random.default_rng(0)
    one, other, tilt = rng.standard_normal((3, 6, 6))
    tilt, weights = (tilt + tilt.T) / 2, rng.random(6)
    matrix = rng.standard_normal((6, 6)) @ np.diag(rng.random(6))
    matrix = matrix + matrix.T
    diagonal, quadratic = (form(one, tilt, w) for form, w in ((_diagonal_form, weights), (_quadratic_form, matrix)))
    mixed = _mixed_form(one, other, tilt, weights)
    for i, j in ((0, 1), (2, 2), (5, 3)):
        r, s = row_products(one, tilt, i, j), row_products(other, tilt, i, j)
        assert diagonal[i, j] == pytest.approx(r**2 @ weights)
        assert mixed[i, j] == pytest.approx((r * s) @ weights)
        assert quadratic[i, j] == pytest.approx(r @ matrix @ r)


def test_leading_parts_of_a_quadratic_form_are_all_of_it_where_its_rank_is_low(monkeypatch):
    rng = np.random.default_rng(1)
    vectors, tilt = rng.standard_normal((2, 70, 70)) / 8
    tilt, loads = (tilt + tilt.T) / 2, rng.standard_normal((70, 3))
    matrix = loads @ loads.T
    exact = _quadratic_form(vectors, tilt, matrix)
    monkeypatch.setattr(error_model, "_FORM_STEPS", 0)
    assert np.allclose(_quadratic_form(vectors, tilt, matrix), exact)


@pytest.mark.parametrize("radius", [1.0, 1.3])
def test_clipped_rows_of_many_columns_have_the_error_that_a_larger_sample_gives(monkeypatch, radius):
    """Closely spaced eigenvalues and few draws: slopes between them must not blow up the error."""
    p, n = 160, 50_000
    rng = np.random.default_rng(2)
    sigma = np.kron(np.eye(p // 8), np.full((8, 8), 0.3)) + 0.7 * np.eye(p)
    sigma += (noise := rng.standard_normal((p, p)) * 0.002) + noise.T
    found = widen(0.8 * sigma, radius * math.sqrt(p), np.zeros(p))
    assert found is not None
    many = [widened_error(found, size, sd).entry_variance for size, sd in ((n, 0.0), (math.inf, 0.01))]
    upper = np.triu_indices(p, 1)
    scale = float(np.mean(np.diag(found.covariance)))
    assert n * np.median(many[0][upper]) == pytest.approx(scale**2, rel=0.15)
    monkeypatch.setattr(error_model, "_MANY", 1000)
    error_model._derivative.cache_clear()
    monkeypatch.setattr(clipping, "_MOST_CELLS", 1 << 22)
    clipping._normal_points.cache_clear()
    closer = widen(0.8 * sigma, radius * math.sqrt(p), np.zeros(p))
    monkeypatch.setattr(error_model, "_divided_differences", smooth_slopes)
    for (size, sd), known in zip(((n, 0.0), (math.inf, 0.01)), many, strict=True):
        sampled = widened_error(closer, size, sd).entry_variance
        assert np.median(known[upper] / sampled[upper]) == pytest.approx(1, abs=0.05)
    clipping._normal_points.cache_clear()


def smooth_slopes(narrow, wide, jacobian):
    """The slope of the eigenvalues as a smooth function, which no noise of single ones disturbs."""
    slope = np.sum(narrow * wide) / np.sum(narrow**2)
    return np.where(np.eye(narrow.size, dtype=bool), np.diag(jacobian), slope)
