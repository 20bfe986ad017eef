"""The search for a radius, step by step: what is asked, what it costs, and where it ends without noise."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.lattice import RoundedGaussian
from hazeglass.guarantee.sensitivity import Unit
from hazeglass.publisher import noise, radius
from hazeglass.publisher.randomness import SeededBits
from hazeglass.publisher.rows import Rows


@settings(deadline=None)  # the first example computes the table of the staircase, which all scales above 256 share
@given(st.integers(1, 50), st.floats(1e-4, 9e-3), st.integers(2, 10**6))
def test_a_radius_is_searched_for_with_noise_for_all_its_answers(max_rows, mu, n):
    """Six of a bisection, and one for how many rows persons have."""
    grid = radius.radius_grid(4)
    within = np.linspace(0, n, grid.size).astype(np.int64)
    unit = Unit("person", max_rows=max_rows)
    found = radius.search_radius(within, None, grid, unit, GaussianDP(mu), SeededBits(1))
    needed = Fraction(max_rows) ** 2 * 7 / Fraction(mu) ** 2
    assert Fraction(found.noise_scale) ** 2 >= needed
    assert found.noise_scale <= math.sqrt(needed) * (1 + 1e-9) + 1
    assert len(found.answers) == 7
    assert found.radius in grid
    law = RoundedGaussian(found.noise_scale)
    assert found.total_variation == pytest.approx(7 * noise.total_variation(law), abs=0)


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
    grid, n = radius.radius_grid(4), 100_000
    for k in range(0, 64, 7):
        within = np.full(64, int(share * n))
        within[:k] = 0
        within[63] = n
        found = radius.search_radius(within, n, grid, Unit("record"), GaussianDP(100.0), _Silent())
        assert found.radius == (grid[k] if share > 0.95 else grid[63])
        assert all(abs(answer - within[np.searchsorted(grid, r)]) <= 1 for r, answer in found.answers)


def test_the_grid_reaches_from_a_sixty_fourth_of_the_box_to_all_of_it():
    grid = radius.radius_grid(9)
    assert len(grid) == 64 == 2**radius.SEARCH_STEPS
    assert (grid[0], grid[-1]) == (pytest.approx(3 / 64), pytest.approx(3.0))
    assert np.all(np.diff(np.log(grid)) == pytest.approx(math.log(64) / 63))


def test_rows_as_long_as_a_radius_lie_within_it(make_plan):
    data = pa.table({"a": [4.0, 2.0, 0.0], "b": [0.0, 0.0, 0.0], "c": [0.0, 0.0, 0.0]})
    rows = Rows(make_plan(), open_table(data))
    counts = radius.rows_within(rows, np.array([0.25, 0.5, 0.75, 1.0]), Serial())
    assert counts.tolist() == [1, 2, 2, 3]
