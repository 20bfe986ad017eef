"""What the paper compares with, each from a covariance alone: `method(covariance, alpha) -> Estimate`.

The covariance may have had known noise subtracted, and may then be indefinite. `usable_covariance` states the one
rule for that: it is moved to the nearest positive semidefinite matrix in the max norm, and a warning says how far.
All work on the scale they are given; `as_correlation` makes alpha mean the same for every column.
"""

from hazeglass.baselines.estimate import Estimate, as_correlation, usable_covariance
from hazeglass.baselines.neighbourhood import neighbourhood_selection

__all__ = ["Estimate", "as_correlation", "neighbourhood_selection", "usable_covariance"]
