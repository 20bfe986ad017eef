"""Graphical lasso for any symmetric matrix, each answer with a certificate; it knows nothing of releases.

    minimise over T > 0:   -log det T + tr(S T) + sum_ij alpha w_ij |T_ij|

S may be indefinite: a covariance from which known noise was subtracted often is. See docs/maths/solvers.md.
"""

from __future__ import annotations

from hazeglass.glasso.api import Solution, graphical_lasso, graphical_lasso_path, largest_alpha
from hazeglass.glasso.distance import nearest_psd_max_norm

__all__ = ["Solution", "graphical_lasso", "graphical_lasso_path", "largest_alpha", "nearest_psd_max_norm"]
