"""Data sets: ones we make, with a truth that is known exactly."""

from hazeglass.datasets.dataset import Dataset
from hazeglass.datasets.feeder import FeederData, make_feeder

__all__ = ["Dataset", "FeederData", "make_feeder"]
