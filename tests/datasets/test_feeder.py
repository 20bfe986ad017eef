"""The feeder's truth is the exact precision of the model its rows come from."""

import numpy as np

from hazeglass.datasets import make_feeder
from hazeglass.datasets.feeder import BOUND_PER_CENT


def test_a_year_of_quarter_hours_within_the_public_bounds():
    feeder = make_feeder()
    assert feeder.data.shape == (365 * 96, 12)
    assert np.abs(feeder.data).max() < BOUND_PER_CENT


def test_the_truth_is_lines_and_pairs_two_lines_apart():
    feeder = make_feeder(days=7)
    neighbours = {name: {n for line in feeder.lines if name in line for n in line - {name}} for name in feeder.columns}
    two_apart = {frozenset((a, b)) for near in neighbours.values() for a in near for b in near if a != b}
    assert len(feeder.lines) == 11
    assert feeder.truth == feeder.lines | two_apart
    support = {
        frozenset((feeder.columns[i], feeder.columns[j]))
        for i, j in zip(*np.nonzero(np.triu(feeder.precision, 1)), strict=True)
    }
    assert support == feeder.truth


def test_the_rows_have_the_covariance_the_model_says():
    """Whiten the rows by the true precision: what comes out must be white, up to sampling error."""
    feeder = make_feeder(seed=1)
    root = np.linalg.cholesky(feeder.precision)
    white = np.cov(feeder.data @ root, rowvar=False)
    memory = (1 + 0.36) / (1 - 0.36)
    assert np.abs(white - np.eye(12)).max() < 6 * np.sqrt(2 * 1.3 * memory / len(feeder.data))


def test_the_same_seed_gives_the_same_year():
    assert np.array_equal(make_feeder(seed=3, days=7).data, make_feeder(seed=3, days=7).data)
    assert not np.array_equal(make_feeder(seed=3, days=7).data, make_feeder(seed=4, days=7).data)


def test_a_dataset_prints_on_one_line():
    shown = repr(make_feeder(days=1))
    assert "96 rows x 12 continuous columns, 25 true edges" in shown
    assert "\n" not in shown
