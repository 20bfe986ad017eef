"""Clipped rows are on the lattice and inside the ball, always: the promise is computed for that ball."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hazeglass.errors import InputError
from hazeglass.publisher.clip import clip_to_lattice, row_lengths, standardise_to_lattice


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
    rows, centre, scale = rng.uniform(-1, 1, (70, p)), rng.uniform(-1, 1, p), rng.uniform(0.01, 1, p)
    radius = None if share is None else share * np.sqrt(p)
    expected = clip_to_lattice((rows - centre) / scale, steps=5000, radius=radius)
    for layout in (rows, np.asfortranarray(rows)):
        assert np.array_equal(standardise_to_lattice(layout, centre, scale, steps=5000, radius=radius), expected)
    used = np.array(rows, order="F")
    assert np.array_equal(standardise_to_lattice(used, centre, scale, steps=5000, radius=radius, out=used), expected)
    before, beside = rows.copy(), np.empty(rows.shape, order="F")
    standardise_to_lattice(rows, centre, scale, steps=5000, radius=radius, out=beside)
    assert np.array_equal(beside, expected)
    assert np.array_equal(rows, before)


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
