"""Tables of pairs from noisy numbers: shrunk as far as noise demands, raked to shares, rounded alike everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from hazeglass.features.marginal import normal_means
from hazeglass.markov import tables
from hazeglass.markov.tables import Estimates


def test_noise_alone_leaves_no_table():
    rng = np.random.default_rng(1)
    rows, columns = np.full(8, 1 / 8), np.full(6, 1 / 6)
    left = sum(
        tables.of_deviation(1e-3 * rng.standard_normal((8, 6)), rows, columns, 1e-3) is not None for _ in range(50)
    )
    assert left <= 10


def test_shrinking_brings_a_matrix_of_low_rank_closer():
    rng = np.random.default_rng(2)
    true = 0.02 * np.outer(rng.standard_normal(9), rng.standard_normal(7))
    gains = []
    for _ in range(20):
        noisy = true + 0.004 * rng.standard_normal(true.shape)
        gains.append(np.linalg.norm(tables.shrunk(noisy, 0.004, (9, 7)) - true) / np.linalg.norm(noisy - true))
    assert np.mean(gains) < 0.65


def test_nothing_is_shrunk_without_noise():
    matrix = np.random.default_rng(3).standard_normal((4, 5))
    np.testing.assert_allclose(tables.shrunk(matrix, 0.0, (4, 5)), matrix, atol=1e-9)


@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 99))
def test_raked_tables_have_the_sums_and_no_negative_cell(rows, columns, seed):
    rng = np.random.default_rng(seed)
    sums = [share / share.sum() for share in (rng.random(rows) + 0.05, rng.random(columns) + 0.05)]
    found = tables.raked(np.outer(*sums) + 0.05 * rng.standard_normal((rows, columns)), *sums, 0.01)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=0), sums[1], atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), sums[0], atol=2e-2)


@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.2, 0.8])
def test_tables_of_normal_scores_are_those_of_the_normal_distribution(rho):
    from scipy.special import ndtri

    ranks, others = np.array([0.0, 0.1, 0.5, 0.9, 1.0]), np.array([0.0, 0.3, 0.7, 1.0])
    found = tables.of_normals(ranks, others, rho, 0.0)
    normal = multivariate_normal(cov=[[1, rho], [rho, 1]])
    ends = np.clip(ndtri(ranks), -9, 9), np.clip(ndtri(others), -9, 9)
    below = normal.cdf(np.stack(np.meshgrid(*ends, indexing="ij"), axis=2))
    np.testing.assert_allclose(found, np.diff(np.diff(below, axis=0), axis=1), atol=4e-3)


def test_leaves_tell_less_than_scores_by_what_is_made_up_for():
    """Cells are drawn evenly inside leaves; lumps are leaves in the data as well."""
    ranks = tables.cut([], 16)
    kept, means = tables.told(ranks, []), normal_means(ranks[:-1], ranks[1:])
    assert kept == pytest.approx(float(np.diff(ranks) @ means**2), abs=1e-3)
    assert 0.97 < kept < 0.99
    made = tables.of_normals(ranks, ranks, 0.6 / kept**2, 0.0)
    assert means @ made @ means == pytest.approx(0.6, abs=5e-3)
    lumps = [(1e-5, 0.7)]
    assert tables.told(tables.cut(lumps, 16), lumps) > kept


def test_scores_within_levels_have_the_released_covariances():
    rng = np.random.default_rng(5)
    level = rng.choice(3, p=[0.2, 0.5, 0.3], size=400_000)
    z = np.array([-0.8, 0.1, 0.7])[level] + rng.standard_normal(level.size)
    rank = np.argsort(np.argsort(z)) / z.size
    shares = np.bincount(level) / level.size
    ranks = np.linspace(0, 1, 9)
    score = (z - z.mean()) / z.std()
    cross = np.array([np.mean(score * (level == k)) for k in range(3)])
    found = tables.of_classes(ranks, shares, cross, 1e-6)
    true = np.histogram2d(rank, level, bins=[ranks, np.arange(4) - 0.5])[0] / level.size
    assert np.abs(found - true).sum() / 2 < 0.02


def test_cosines_give_back_a_curve():
    """A parabola of ranks has no first waves in common and much of the second."""
    from scipy.special import ndtri

    from hazeglass.features.harmonics import cosines

    rng = np.random.default_rng(6)
    u = rng.random(300_000)
    w = np.abs(2 * u - 1) + 0.15 * rng.random(u.size)
    v = (np.argsort(np.argsort(w)) + 0.5) / w.size
    one, other = (cosines(ndtri(np.clip(x, 1e-9, 1 - 1e-9))) for x in (u, v))
    ranks = np.linspace(0, 1, 7)
    found = tables.of_waves(ranks, ranks, one.T @ other / u.size, 1e-6)
    true = np.histogram2d(u, v, bins=[ranks, ranks])[0] / u.size
    assert np.abs(found - true).sum() / 2 < 0.65 * np.abs(true - 1 / 36).sum() / 2


@given(st.integers(0, 1000))
def test_rounding_is_the_same_where_estimates_differ_in_their_last_digits(seed):
    rng = np.random.default_rng(seed)
    shares = [share / share.sum() for share in (rng.random(9), rng.random(12))]
    table = tables.raked(np.outer(*shares) * (0.5 + rng.random((9, 12))), *shares)
    first = Estimates(tuple(shares), {(0, 1): (table, 1e-3)})
    offset = first.offset
    elsewhere = [x * (1 + 1e-11 * rng.standard_normal(x.shape)) for x in (*shares, table)]
    second = Estimates(tuple(elsewhere[:2]), {(0, 1): (elsewhere[2], 1e-3)})
    one, other = first.whole(offset), second.whole(offset)
    assert 0 <= offset < 1 << 20
    assert np.array_equal(one.shares, other.shares)
    assert np.array_equal(one.pairs, other.pairs)


def test_leaves_end_where_lumps_do():
    ranks = tables.cut([(0.3, 0.92)], 12)
    assert {0.3, 0.92} <= set(ranks.tolist())
    assert not np.any((ranks > 0.3) & (ranks < 0.92))
    assert ranks[0] == 0.0
    assert ranks[-1] == 1.0
