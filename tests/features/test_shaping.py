"""How stages follow from released numbers: maps that are exact and can be undone, rules to start, stop and clip."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hazeglass.features.scores import STEPS
from hazeglass.features.shaping import (
    LARGEST_LINEAR,
    LINEAR_STEPS,
    MOST_STAGES,
    OTHER_SHAPE,
    Shape,
    exact_map,
    first_shape,
    largest_entry,
    lengthened,
    next_shape,
    squared_radius,
)

SCALES = ("scores", "linear")
WIDE = 1e6  # a radius that clips nothing


def chain(p, rho=0.95):
    return rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))


def stages(covariance, noise_sd, scale="scores", mean=None):
    """All shapes that follow when every stage releases what it should, with no more than rounding."""
    p = len(covariance)
    mean = np.zeros(p) if mean is None else mean
    found = [first_shape(p, shaped=True)]
    for number in range(1, MOST_STAGES):
        last = found[-1]
        if last.share == 1.0:
            break
        through = np.eye(p) if last.map is None else last.map
        y = through @ mean - last.centre
        second = through @ covariance @ through.T + np.outer(y, y)
        found.append(next_shape(last, WIDE, y, second, noise_sd, number, largest_entry(scale)))
    return found


@pytest.mark.parametrize("scale", SCALES)
@given(st.integers(1, 30), st.floats(1e-12, 1e12), st.integers(0, 2**32 - 1))
def test_a_map_is_symmetric_near_its_matrix_and_exact_in_any_order(scale, p, size, seed):
    rng = np.random.default_rng(seed)
    matrix = size * rng.standard_normal((p, p))
    largest = largest_entry(scale)
    found = exact_map(matrix, largest)
    assert np.array_equal(found, found.T)
    assert found == pytest.approx((matrix + matrix.T) / 2, abs=np.abs(matrix).sum() * largest * 2.0**-49)
    cells = np.rint(rng.uniform(-largest, largest, p))
    whole = [sum(Fraction(a) * Fraction(c) for a, c in zip(row, cells, strict=True)) for row in found.tolist()]
    for order in (np.arange(p), rng.permutation(p)):
        assert [Fraction(one) for one in (found[:, order] @ cells[order]).tolist()] == whole


def test_maps_leave_room_for_the_largest_score_and_the_largest_linear_cell():
    assert largest_entry("scores") >= 6 * STEPS
    assert largest_entry("linear") == LINEAR_STEPS * LARGEST_LINEAR


def test_rows_become_round_stage_by_stage_and_the_last_takes_what_is_left():
    covariance = chain(12)
    found = stages(covariance, 0.001, mean=np.full(12, 0.3))
    assert found[0].map is None
    assert 2 < len(found) < MOST_STAGES
    assert [shape.share == 1.0 for shape in found] == [False] * (len(found) - 1) + [True]
    last = found[-1].map
    values = np.linalg.eigvalsh(last @ covariance @ last.T)
    assert values.min() > 0.9
    assert values.max() < 1.1
    assert found[-1].centre == pytest.approx(last @ np.full(12, 0.3))
    assert 0.85 * 12 < found[-1].length <= 12


def test_independent_columns_are_not_shaped_and_get_everything_in_the_second_stage():
    first, second = stages(np.eye(6), 0.05)
    assert second.map is None
    assert (first.share, second.share) == (1 / MOST_STAGES, 1.0)
    assert second.length == first.length == 6


def test_the_mean_of_a_stage_is_the_centre_of_the_next():
    _, second = stages(np.eye(4), 0.05, mean=np.array([0.5, 0.0, -2.0, 0.1]))
    assert second.centre == pytest.approx([0.5, 0.0, -2.0, 0.1])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("noise_sd", [1e-12, 1e-7, 1e-4, 0.02])
@pytest.mark.parametrize("kind", ["equal columns", "a constant column", "all constant", "nearly equal"])
def test_columns_that_do_not_vary_leave_every_map_an_inverse(scale, noise_sd, kind):
    """A direction without variance is stretched at every stage; without a limit the map lost its other directions."""
    p, rng = 5, np.random.default_rng(0)
    loads = np.ones((p, 1)) if kind != "a constant column" else np.array([[1.0], [1.0], [1.0], [0.9], [0.0]])
    covariance = loads @ loads.T * (kind != "all constant")
    if kind == "nearly equal":
        covariance += 1e-9 * np.eye(p)
    centre = rng.standard_normal(p)
    for shape in stages(covariance * 3, noise_sd, scale, centre):
        assert np.all(np.isfinite(shape.centre))
        assert 0 <= shape.length <= p
        if shape.map is not None:
            assert np.linalg.cond(shape.map) < 1e12
            assert np.linalg.solve(shape.map, shape.centre) == pytest.approx(centre, abs=1e-3)


def test_numbers_full_of_noise_give_a_shape_all_the_same():
    rng = np.random.default_rng(1)
    for noise in (1.0, 1e6, 1e15):
        second = noise * rng.standard_normal((7, 7))
        shape = first_shape(7, shaped=True)
        for number in range(1, MOST_STAGES):
            shape = next_shape(shape, 3.0, noise * rng.standard_normal(7), second + second.T, noise, number, 8192.0)
            assert np.all(np.isfinite(shape.centre))
            assert shape.map is None or np.all(np.isfinite(shape.map))
        assert shape.share == 1.0


def test_the_shares_of_all_stages_add_up_to_one():
    shares = [1 / (MOST_STAGES - number) for number in range(MOST_STAGES)]
    left = 1.0
    for share in shares:
        left -= share * left
    assert left == pytest.approx(0)
    assert first_shape(3, shaped=False).share == 1.0
    assert Shape(None, np.zeros(2), 2.0, shares[-1]).share == 1.0


@given(st.floats(0.1, 1000), st.floats(2, 1e9), st.floats(1e-6, 1e3))
def test_the_radius_grows_with_the_budget_and_never_falls_below_what_clips_forty_per_cent(length, rows, mu):
    least = squared_radius(length, rows, mu)
    assert length + 1 <= least <= 6 * (length + 1) * (1 + 1e-12)
    assert squared_radius(length, rows, 2 * mu) >= least
    assert squared_radius(length, 2 * rows, mu) >= least
    shape = Shape(None, np.zeros(3), length, 0.5)
    assert shape.radius("columns", rows, mu) == pytest.approx(math.sqrt(least))
    assert shape.radius("cosines", rows, mu) ** 2 >= 1.3 * length * (1 - 1e-12)
    assert squared_radius(length, rows, mu, biased=True) >= least


def test_with_little_noise_hardly_a_normal_row_is_clipped():
    rng, p = np.random.default_rng(0), 10
    lengths = np.linalg.norm(rng.standard_normal((50_000, p)), axis=1)
    shape = first_shape(p, shaped=True)
    tight, loose = shape.radius("columns", 1000, 0.01), shape.radius("columns", 1e8, 10.0)
    assert np.mean(lengths > tight) == pytest.approx(0.36, abs=0.03)
    assert np.mean(lengths > loose) < 1e-4


@pytest.mark.parametrize("share", [0.7, 1.0, 1.5])
@pytest.mark.parametrize("p", [2, 10, 60])
def test_rows_are_taken_for_as_long_as_they_were_before_they_were_clipped(p, share):
    rng = np.random.default_rng(p)
    rows = rng.standard_normal((40_000, p)) * np.linspace(0.5, 1.5, p)
    lengths = np.sum(np.square(rows), axis=1)
    radius = share * lengths.mean()
    clipped = rows * np.sqrt(np.minimum(1, radius / lengths))[:, None]
    values = np.linalg.eigvalsh(clipped.T @ clipped / len(rows))
    assert lengthened(values, radius) * values.sum() == pytest.approx(lengths.mean(), rel=0.05)


@pytest.mark.parametrize("values", [[0.0, 0.0], [1e-300, 0.0], [5.0, 5.0], [1e200, 1.0], [1.0, 1e-12]])
def test_no_numbers_make_rows_shorter_or_more_than_twice_as_long(values):
    for radius in (1e-6, 1.0, 10.0, 1e12):
        assert 1.0 <= lengthened(np.array(values), radius) <= 4.0


def test_the_ball_grows_until_undoing_and_noise_err_alike():
    """Found by trying: of all balls the one whose noise and bias together are least."""
    shape = Shape(None, np.zeros(10), 9.5, 1.0, left=1.0)
    rows, mu = 50_000, 0.08
    rng = np.random.default_rng(0)
    lengths = rng.chisquare(9.5, 400_000)
    noise = 10.5 / (mu * math.sqrt(rows))

    def error(growth):
        lost = np.mean(np.maximum(lengths - growth * 10.5, 0)) / 9.5
        return (growth * noise) ** 2 + rows * (OTHER_SHAPE * lost) ** 2

    tried = np.linspace(1, 6, 501)
    best = tried[np.argmin([error(growth) for growth in tried])]
    assert 1.2 < best < 3
    assert shape.radius("columns", rows, mu) ** 2 == pytest.approx(10.5 * best, rel=0.02)


def test_the_ball_stays_where_noise_is_worse_than_bias_or_rows_are_not_yet_round():
    alone = Shape(None, np.zeros(10), 10.0, 1.0, left=1.0)
    assert alone.radius("columns", 500, 0.05) ** 2 == pytest.approx(11.0)
    stretched = Shape(None, np.zeros(10), 3.0, 0.5, left=1.0)
    assert not stretched.biased
    assert stretched.part == 0.5
    assert not first_shape(10, shaped=True).biased
    assert first_shape(10, shaped=False).biased
    assert first_shape(10, shaped=True).part == first_shape(10, shaped=False).part == 1.0


def test_noise_counts_as_that_of_all_stages_together():
    """Four stages of a quarter each have the noise of one with all of the budget, and the same ball."""
    one = Shape(None, np.zeros(10), 10.0, 1.0, left=1.0)
    last_of_four = Shape(None, np.zeros(10), 10.0, 1.0, left=0.25)
    assert last_of_four.part == 0.25
    assert last_of_four.radius("columns", 1e6, 0.5) == pytest.approx(one.radius("columns", 1e6, 1.0))


@pytest.mark.parametrize(("structure", "shaped"), [(0.0, False), (1.0, True)])
def test_noise_and_sampling_of_many_columns_are_no_structure(structure, shaped):
    """400 columns of 1,500 rows with noise: the largest eigenvalue exceeds that of noise alone, and says nothing."""
    p, n, noise_sd = 400, 1500, 0.02
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((n, p)) + structure * rng.standard_normal((n, 1))
    rows /= np.sqrt(1 + structure**2)
    noise = np.triu(rng.standard_normal((p, p)) * noise_sd)
    second = rows.T @ rows / n + noise + np.triu(noise, 1).T
    assert np.linalg.eigvalsh(second)[-1] > 1 + 1.3 * 2 * math.sqrt(p) * noise_sd
    following = next_shape(first_shape(p, shaped=True), WIDE, np.zeros(p), second, noise_sd, 1, largest_entry("scores"))
    assert (following.map is not None) is shaped
