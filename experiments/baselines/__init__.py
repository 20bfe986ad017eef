"""What the paper compares with, each from a covariance alone: `method(covariance, alpha) -> Estimate`.

run.py puts them beside ours.

The covariance may have had known noise subtracted, and may then be indefinite. `usable_covariance` states the one
rule for that, which all but the adaptive graphical lasso (whose solver needs no repair) follow with a warning.
All work on the scale they are given; `as_correlation` makes alpha mean the same for every column.
"""

from .adaptive import adaptive_graphical_lasso
from .columns import clime, neighbourhood_selection, scio
from .estimate import Estimate, as_correlation, entry_scores, usable_covariance
from .wishart import g_wishart

__all__ = [
    "Estimate",
    "adaptive_graphical_lasso",
    "as_correlation",
    "clime",
    "entry_scores",
    "g_wishart",
    "neighbourhood_selection",
    "scio",
    "usable_covariance",
]
