"""How far one record or cell moves the moments of stacked rows: by brute force, and against the formula."""

import math

import numpy as np
import pytest

from hazeglass.guarantee.units import Unit, count_weight, moments_distance
from hazeglass.publisher.sums import stacked


def ball(x, radius):
    return x * np.minimum(1.0, radius / np.maximum(np.linalg.norm(x, axis=0), 1e-300))


def answer(rows, ends, lags, radius, weight, counted):
    """The number of stacks, their sum and the sum of their products, in units of the noise on each."""
    x = stacked(rows, lags)[:, ends[lags:]]
    x = ball(x, radius)
    products = x @ x.T
    upper = np.triu_indices(len(x), 1)
    return np.concatenate(
        [[counted * x.shape[1]], weight * x.sum(axis=1), products[upper], np.diag(products) / math.sqrt(2)]
    )


@pytest.mark.parametrize("lags", [1, 2, 4])
def test_no_record_moves_stacks_by_more_than_is_paid_for(lags):
    """Whatever its cells become, and also where its order cell can no longer be read: then its stacks vanish."""
    rng, p, n = np.random.default_rng(lags), 3, 24
    radius, weight = 1.3, 0.4
    claimed = moments_distance(Unit("record"), columns=p * (lags + 1), radius=radius, mean_weight=weight, lags=lags)
    counted = count_weight(radius)
    worst = 0.0
    for _ in range(400):
        rows = rng.normal(size=(p, n)) * rng.choice([0.02, 1.0, 20.0])
        ends = rng.random(n) < rng.choice([1.0, 0.7])
        other, gone = rows.copy(), ends.copy()
        t = int(rng.integers(n))
        other[:, t] = rng.choice([-1, 1]) * rng.choice([1.0, 30.0]) * (rows[:, t] if rng.random() < 0.5 else 1.0)
        if rng.random() < 0.3:
            gone[t : t + lags + 1] = False
        settings = lags, radius, weight, counted
        worst = max(worst, float(np.linalg.norm(answer(rows, ends, *settings) - answer(other, gone, *settings))))
    assert worst <= claimed * (1 + 1e-9)


def test_the_bound_is_met_where_rows_before_and_behind_are_the_middle():
    """A record alone among zeros fills a block of its own in every stack, and one stack reaches r^2 + a^2 by itself."""
    radius, weight, p = 1.0, 0.5, 2
    one = moments_distance(Unit("record"), columns=p, radius=radius, mean_weight=weight)
    claimed = moments_distance(Unit("record"), columns=2 * p, radius=radius, mean_weight=weight, lags=1)
    assert claimed == pytest.approx(2 * one)
    # Both stacks of a record move alike when all rows are alike: x beside x becomes x beside y and y beside x.
    best = 0.0
    for angle in np.linspace(0, 2 * np.pi, 400):
        for length in (0.3, 1.0, 3.0, 100.0):
            rows = np.tile(np.array([[50.0], [0.0]]), (1, 5))
            other = rows.copy()
            other[:, 2] = length * 50.0 * np.array([np.cos(angle), np.sin(angle)])
            both = [answer(x, np.ones(5, bool), 1, radius, weight, 0.0) for x in (rows, other)]
            best = max(best, float(np.linalg.norm(both[0] - both[1])))
    assert 0.6 * claimed < best <= claimed


@pytest.mark.parametrize("lags", [1, 3])
def test_no_cell_and_no_cells_of_a_column_move_stacks_by_more(lags):
    rng, p, n, box, weight = np.random.default_rng(lags), 3, 20, 1.0, 0.3
    for k, unit in ((1, Unit("entry")), (4, Unit("readings", readings=4))):
        claimed = moments_distance(
            unit, columns=p * (lags + 1), radius=math.sqrt(p * (lags + 1)), mean_weight=weight, box=box, lags=lags
        )
        for _ in range(300):
            rows = rng.choice([-1.0, 1.0, 0.3], size=(p, n))
            other = rows.copy()
            places = rng.choice(n, k, replace=False) if rng.random() < 0.5 else np.arange(5, 5 + k)
            other[0, places] = -rows[0, places] if rng.random() < 0.7 else rng.uniform(-1, 1, k)
            both = [answer(x, np.ones(n, bool), lags, 1e9, weight, 0.0) for x in (rows, other)]
            assert np.linalg.norm(both[0] - both[1]) <= claimed * (1 + 1e-9)


@pytest.mark.parametrize("lags", [1, 2])
@pytest.mark.parametrize("own", [True, False])
def test_no_person_moves_stacks_by_more_than_is_paid_for(lags, own):
    """Somebody's rows vanish wherever they stand and another's appear wherever they like, and part what followed.

    `own`: rows follow rows of the same person only; otherwise every row follows the one before it.
    """
    rng, p, most, radius, weight = np.random.default_rng(10 * lags + own), 2, 3, 1.3, 0.4
    person = Unit("person", max_rows=most)
    claimed = moments_distance(person, columns=p * (lags + 1), radius=radius, mean_weight=weight, lags=lags)
    settings = lags, radius, weight, count_weight(radius)

    def answered(rows, ids):
        follows = np.concatenate([[False], ids[1:] == ids[:-1]]) if own else np.arange(ids.size) > 0
        place = np.arange(ids.size)
        ends = place - np.maximum.accumulate(np.where(follows, 0, place)) >= lags
        return answer(rows, ends, *settings)

    worst = 0.0
    for _ in range(600):
        n = int(rng.integers(6, 18))
        ids, rows = rng.integers(1, 4, n), rng.normal(size=(p, n)) * rng.choice([0.05, 1.0, 20.0])
        if rng.random() < 0.5:
            rows = np.repeat(rng.normal(size=(p, 1)), n, axis=1) * 30.0
        both = []
        for count in rng.integers(0, most + 1, 2):
            places = np.sort(rng.integers(0, n + 1, count))
            theirs = np.sign(rng.normal()) * (rows[:, :1] * -5.0 + rng.normal(size=(p, count)) * rng.choice([0.0, 9.0]))
            both.append(answered(np.insert(rows, places, theirs, axis=1), np.insert(ids, places, 9)))
        worst = max(worst, float(np.linalg.norm(both[0] - both[1])))
    assert 0.1 * claimed < worst <= claimed * (1 + 1e-9)
