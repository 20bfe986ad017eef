"""Data sets: ones we make, with a truth that is known exactly, and those of the paper, read from a folder."""

from hazeglass.datasets.dataset import Dataset
from hazeglass.datasets.download import fetch
from hazeglass.datasets.feeder import FeederData, make_feeder
from hazeglass.datasets.loaders import (
    load_adult,
    load_asia,
    load_cell_signalling,
    load_chickenpox,
    load_child,
    load_fmri,
    load_grid8,
    load_grid11,
    load_grid115,
    load_home_loads,
    load_insurance,
    load_lawmakers,
    load_movielens,
    load_soil,
)

__all__ = [
    "Dataset",
    "FeederData",
    "fetch",
    "load_adult",
    "load_asia",
    "load_cell_signalling",
    "load_chickenpox",
    "load_child",
    "load_fmri",
    "load_grid8",
    "load_grid11",
    "load_grid115",
    "load_home_loads",
    "load_insurance",
    "load_lawmakers",
    "load_movielens",
    "load_soil",
    "make_feeder",
]
