"""Data sets: ones we make, with a truth that is known exactly, and those of the paper, read from a folder."""

from hazeglass.datasets.cell_signalling import load_cell_signalling
from hazeglass.datasets.chickenpox import load_chickenpox
from hazeglass.datasets.dataset import Dataset
from hazeglass.datasets.download import fetch
from hazeglass.datasets.feeder import FeederData, make_feeder
from hazeglass.datasets.fmri import load_fmri
from hazeglass.datasets.grids import load_grid8, load_grid11, load_grid115, load_home_loads
from hazeglass.datasets.lawmakers import load_lawmakers
from hazeglass.datasets.movielens import load_movielens
from hazeglass.datasets.soil import load_soil

__all__ = [
    "Dataset",
    "FeederData",
    "fetch",
    "load_cell_signalling",
    "load_chickenpox",
    "load_fmri",
    "load_grid8",
    "load_grid11",
    "load_grid115",
    "load_home_loads",
    "load_lawmakers",
    "load_movielens",
    "load_soil",
    "make_feeder",
]
