"""Clipped rows are on the lattice and inside the ball, always: the promise is computed for that ball."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hazeglass as hg
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.errors import InputError
from hazeglass.guarantee.lattice import RoundedGaussian, total_variation
from hazeglass.guarantee.units import SEARCH_STEPS, Unit, radius_grid
from hazeglass.publisher import sums
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.sums import clip_to_lattice, lattice_rows, row_lengths


def stage_of(steps, radius, scored):
    """As much of a stage as clipping needs."""
    return SimpleNamespace(steps=steps, radius=radius, clipped=radius is not None, scored=scored)


@settings(max_examples=200)
@given(st.integers(1, 40), st.integers(20, 2**16), st.floats(0.3, 1.0), st.integers(0, 2**32 - 1))
def test_rounded_rows_never_leave_the_ball(p, steps, share, seed):
    radius = share * np.sqrt(p)
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((50, p)) * 10.0 ** rng.uniform(-3, 3, (50, 1))
    rows[0] = radius / np.sqrt(p)
    z = clip_to_lattice(rows, steps=steps, radius=radius)
    exact = [sum(int(v) ** 2 for v in row) for row in z]
    assert np.array_equal(z, np.rint(z))
    assert max(exact) <= (radius * steps) ** 2


@pytest.mark.parametrize(("steps", "whole"), [(1000, 10), (4096, 21), (10_007, 40)])
def test_no_error_of_a_long_sum_lets_a_row_out_of_the_ball(steps, whole):
    """Equal cells are all rounded up together, which moves a row by sqrt(p)/2, the most there is.

    So radii just below that corner of the lattice; lengths in whole numbers, and the radius as the fraction it is.
    """
    p = 100_000
    rows = np.random.default_rng(0).uniform(max(0.05, 2 * whole / steps), 1, 40)[:, None].repeat(p, axis=1)
    for short in (1e-13, 3e-13, 6e-13, 9e-13, 2e-12, 1e-11):
        radius = whole * math.sqrt(p) / steps * (1 - short)
        for z in (
            clip_to_lattice(rows, steps=steps, radius=radius),
            lattice_rows(np.ascontiguousarray(rows.T), np.zeros(p), stage_of(steps, radius, p)).T,
        ):
            squared = np.square(z.astype(np.int64)).sum(axis=1)
            assert max(map(int, squared)) <= (Fraction(radius) * steps) ** 2


def test_rows_inside_the_ball_are_only_rounded():
    rows = np.array([[0.3, -0.2], [0.0, 0.1]])
    assert np.array_equal(clip_to_lattice(rows, steps=1000, radius=1.4), np.rint(rows * 1000))


def test_rounding_has_no_drift_towards_zero():
    rows = np.random.default_rng(1).uniform(0.2, 0.8, (200_000, 1))
    z = clip_to_lattice(rows, steps=10, radius=None)
    assert abs((z / 10 - rows).mean()) < 5 * 0.03 / np.sqrt(200_000)


@settings(max_examples=50, deadline=None)  # the first example compiles
@given(st.integers(1, 60), st.sampled_from([None, 0.4, 1.0]), st.integers(0, 2**32 - 1))
def test_the_fast_way_gives_the_same_bits(p, share, seed):
    rng = np.random.default_rng(seed)
    rows, centre = rng.uniform(-1, 1, (70, p)), rng.uniform(-1, 1, p)
    radius = None if share is None else share * np.sqrt(p)
    expected = clip_to_lattice(rows - centre, steps=5000, radius=radius)
    found = lattice_rows(rows.T.copy(), centre, stage_of(5000, radius, len(centre)))
    assert np.array_equal(found.T, expected)
    alone = lattice_rows(rows[3:4].T.copy(), centre, stage_of(5000, radius, len(centre)))
    assert np.array_equal(alone[:, 0], expected[3])  # whoever else is in the block


def test_a_rows_length_is_the_same_bits_in_any_block():
    rows = np.random.default_rng(0).standard_normal((1000, 37)) * 1e3
    whole = row_lengths(rows)
    assert np.array_equal(whole[123:129], row_lengths(rows[123:129]))
    assert np.array_equal(whole, row_lengths(np.asfortranarray(rows)))
    assert np.array_equal(whole[5:6], row_lengths(rows[5:6]))


@pytest.mark.parametrize("radius", [0.05, 0.1])
def test_a_lattice_too_coarse_for_the_ball_is_refused(radius):
    """sqrt(4)/2 steps go to rounding, so a ball of one step has no room; one of two steps has."""
    with pytest.raises(InputError, match="too coarse"):
        clip_to_lattice(np.ones((1, 4)), steps=10, radius=radius)
    assert np.abs(clip_to_lattice(np.ones((1, 4)), steps=10, radius=0.2)).max() <= 1


def rows(n, sd, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table({name: rng.standard_normal(n) * sd for name in "abc"})


def test_the_radius_is_near_the_95_percent_quantile(make_plan, tmp_path):
    data = rows(50_000, 0.5)
    release = hg.publish(data, make_plan(clip_radius="private"), tmp_path / "r")
    lengths = np.linalg.norm(np.column_stack([data[n].to_numpy() for n in "abc"]) / 4, axis=1)
    search = release.manifest.radius_search
    ratio = radius_grid(3)[1] / radius_grid(3)[0]
    assert search.radius == pytest.approx(np.quantile(lengths, 0.95), rel=2 * (ratio - 1))
    assert release.manifest.stages[0].radius == search.radius


def test_the_split_adds_up_and_is_in_the_manifest(make_plan, tmp_path):
    release = hg.publish(rows(500, 1.0), make_plan(clip_radius="private"), tmp_path / "r")
    search, stage = release.manifest.radius_search, release.manifest.stages[0]
    assert search.mu**2 == pytest.approx(0.05 * release.guarantee.mu**2)
    assert math.hypot(search.mu, stage.mu) == pytest.approx(release.guarantee.mu)
    assert len(search.answers) == SEARCH_STEPS == 6


def test_the_answers_carry_the_noise_their_price_needs(make_plan, tmp_path):
    """One row moves a count by at most 1: as many times (1/scale)^2 as counts are answered is at most mu^2."""
    for unit, extra in (("record", {}), ("person", {"id_column": "who", "max_rows": 5})):
        data = rows(300, 1.0).append_column("who", pa.array(range(300)))
        plan = make_plan(clip_radius="private", protects=unit, **extra)
        search = hg.publish(data, plan, tmp_path / unit).manifest.radius_search
        moved = extra.get("max_rows", 1)
        answers = SEARCH_STEPS + (unit == "person")  # how many rows there are is asked as well
        assert len(search.answers) == answers
        assert 0.95 * search.mu <= math.sqrt(answers) * moved / search.noise_scale <= search.mu


def test_answers_are_noisy_counts(make_plan, tmp_path):
    data = rows(4000, 0.5)
    lengths = np.linalg.norm(np.column_stack([data[n].to_numpy() for n in "abc"]) / 4, axis=1)
    z = []
    for k in range(40):
        plan = make_plan(clip_radius="private", budget={"mu": 0.5})
        search = hg.publish(data, plan, tmp_path / str(k)).manifest.radius_search
        z += [(answer - np.sum(lengths <= radius)) / search.noise_scale for radius, answer in search.answers]
    assert abs(np.mean(z)) < 5 / math.sqrt(len(z))
    assert np.var(z) == pytest.approx(1, abs=5 * math.sqrt(2 / len(z)))


@settings(deadline=None)  # the first example computes the table of the staircase, which all scales above 256 share
@given(st.integers(1, 50), st.floats(1e-4, 9e-3), st.integers(2, 10**6))
def test_a_radius_is_searched_for_with_noise_for_all_its_answers(max_rows, mu, n):
    """Six of a bisection, and one for how many rows persons have."""
    grid = sums.radius_grid(4)
    within = np.linspace(0, n, grid.size).astype(np.int64)
    unit = Unit("person", max_rows=max_rows)
    found = sums.search_radius(within, None, grid, unit, mu, SeededBits(1))
    needed = Fraction(max_rows) ** 2 * 7 / Fraction(mu) ** 2
    assert Fraction(found.noise_scale) ** 2 >= needed
    assert found.noise_scale <= math.sqrt(needed) * (1 + 1e-9) + 1
    assert len(found.answers) == 7
    assert found.radius in grid
    law = RoundedGaussian(found.noise_scale)
    assert found.total_variation == pytest.approx(7 * total_variation(law), abs=0)


class _Silent:
    """No noise at all, to see what is asked."""

    simulation = True

    def uint64(self, count):
        return np.full(count, 1 << 63, dtype=np.uint64)

    def fill(self, words):
        words[:] = np.uint64(1 << 63)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.949, 0.951, 1.0])
def test_without_noise_the_search_ends_at_the_first_radius_that_holds_95_per_cent(share):
    """Up to `share` of the rows lie within the k-th radius, the others within the last alone."""
    grid, n = sums.radius_grid(4), 100_000
    for k in range(0, 64, 7):
        within = np.full(64, int(share * n))
        within[:k] = 0
        within[63] = n
        found = sums.search_radius(within, n, grid, Unit("record"), 100.0, _Silent())
        assert found.radius == (grid[k] if share > 0.95 else grid[63])
        assert all(abs(answer - within[np.searchsorted(grid, r)]) <= 1 for r, answer in found.answers)


def test_the_grid_reaches_from_a_sixty_fourth_of_the_box_to_all_of_it():
    grid = sums.radius_grid(9)
    assert len(grid) == 64 == 2**SEARCH_STEPS
    assert (grid[0], grid[-1]) == (pytest.approx(3 / 64), pytest.approx(3.0))
    assert np.all(np.diff(np.log(grid)) == pytest.approx(math.log(64) / 63))


def test_rows_as_long_as_a_radius_lie_within_it(make_plan):
    data = pa.table({"a": [4.0, 2.0, 0.0], "b": [0.0, 0.0, 0.0], "c": [0.0, 0.0, 0.0]})
    rows = Rows(make_plan(), open_table(data))
    counts = sums.rows_within(rows, np.array([0.25, 0.5, 0.75, 1.0]), Serial())
    assert counts.tolist() == [1, 2, 2, 3]
