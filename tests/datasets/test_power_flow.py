"""One bus behind one line has a closed form; the solver must give it."""

import numpy as np
import pytest

from hazeglass.datasets.power_flow import Grid, voltage_magnitudes
from hazeglass.errors import DataError

Z, SOURCE = 0.8 + 0.6j, 20.0
GRID = Grid(("bus",), (), np.array([[1 / Z]]), np.array([SOURCE / Z]), 20.0)


def test_one_bus_behind_one_line():
    """|v|^4 + |v|^2 (2 (r p + x q) - E^2) + |z|^2 |s|^2 = 0, the larger root."""
    rng = np.random.default_rng(0)
    p, q = rng.uniform(0, 20, (50, 1)), rng.uniform(0, 10, (50, 1))
    b = 2 * (Z.real * p + Z.imag * q) - SOURCE**2
    squared = (-b + np.sqrt(b**2 - 4 * abs(Z) ** 2 * (p**2 + q**2))) / 2
    assert np.allclose(voltage_magnitudes(GRID, p, q), np.sqrt(squared) / 20.0, rtol=1e-13)


def test_no_load_leaves_the_voltage_of_the_source():
    nothing = np.zeros((3, 1))
    assert np.allclose(voltage_magnitudes(GRID, nothing, nothing), 1.0)


def test_more_than_the_line_can_carry_is_refused():
    too_much = np.full((1, 1), 500.0)
    with pytest.raises(DataError, match="more than the grid can carry"):
        voltage_magnitudes(GRID, too_much, too_much)
