"""The two grids made again agree with the files, with pandapower's own solution, and with a closed form."""

import builtins

import numpy as np
import pytest
from hazeglass_experiments import grids
from hazeglass_experiments.grids import Grid, grid_from_case, voltage_magnitudes

from hazeglass import datasets
from hazeglass.errors import DataError, MissingExtraError

# pandapower warns about its own use of pandas; what it computes is what counts here.
pytestmark = pytest.mark.filterwarnings("ignore")

Z, SOURCE = 0.8 + 0.6j, 20.0
GRID = Grid(("bus",), (), np.array([[1 / Z]]), np.array([SOURCE / Z]), 20.0)


@pytest.fixture(scope="module")
def pandapower():
    pytest.importorskip("pandapower", reason="pandapower is not installed: pip install 'hazeglass[grid]'")
    import pandapower
    import pandapower.networks

    return pandapower


@pytest.mark.parametrize("name", ["grid11", "grid115"])
def test_the_grid_made_again_is_the_one_in_the_files(name, data_dir, pandapower):
    """Names and lines exactly, voltages to 2e-7: the home loads in the folder are rounded to five digits."""
    made = getattr(grids, f"make_{name}")(data_dir)
    read = getattr(datasets, f"load_{name}")(data_dir)
    assert made.columns == read.columns
    assert made.truth == read.truth
    assert np.abs(made.data - read.data).max() < 2e-7
    assert np.array_equal(made.data.std(axis=0) > 0, read.data.std(axis=0) > 0)


@pytest.mark.parametrize(("case_name", "last"), [("create_kerber_dorfnetz", 115), ("create_cigre_network_mv", 11)])
def test_one_hour_agrees_with_newton_s_method(case_name, last, pandapower):
    case = getattr(pandapower.networks, case_name)()
    buses = list(range(1, last + 1))  # bus 0 is the slack
    grid = grid_from_case(case, buses, [str(bus) for bus in buses])
    p, q = np.zeros((1, len(buses))), np.zeros((1, len(buses)))
    for load in case.load.itertuples():
        if load.bus in buses:
            p[0, buses.index(load.bus)] += load.p_mw
            q[0, buses.index(load.bus)] += load.q_mvar
    pandapower.runpp(case, tolerance_mva=1e-12, max_iteration=50, numba=False)
    assert np.abs(voltage_magnitudes(grid, p, q)[0] - case.res_bus.vm_pu[buses].to_numpy()).max() < 1e-11


def test_without_pandapower_the_message_says_how_to_get_it(monkeypatch, tmp_path):
    really_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("pandapower"):
            raise ImportError(name)
        return really_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install 'hazeglass\[grid\]'"):
        grids.make_grid11(tmp_path)


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
