"""A Wishart prior and a decision rule (Kuismin and Sillanpää 2016): what the paper calls G-Wishart.

Rows are N(0, inverse of Omega), and Omega has the conjugate prior W(nu, inverse of (nu - p - 1) diag(S)), under which
the covariance has mean diag(S). The posterior is then known in closed form:

    Omega | rows  ~  W(nu + n, V),     V = inverse of ((nu - p - 1) diag(S) + n S)
    mean (nu + n) V,   mode (nu + n - p - 1) V,   variance of entry (i, j) = (nu + n) (V_ij^2 + V_ii V_jj)

nu is the one that makes the rows most likely (empirical Bayes). The decision rule sets an entry of the mode to zero
where zero is within `alpha` posterior standard deviations of the mean. (The article's abstract says that entries "zero
or near zero can be detected and shrunk to zero" with the help of the posterior; this form of the rule, the diagonal
target and the search for nu are ours.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.errors import SolverInputError
from hazeglass.glasso.linalg import FloatArray, cholesky, inverse, logdet

from .estimate import Estimate, check_alpha, usable_covariance

__all__ = ["WishartPosterior", "g_wishart", "log_evidence", "wishart_posterior"]

_LEAST_BEYOND, _MOST_BEYOND = 1e-3, 1e6  # nu - p - 1: from nearly no prior to almost nothing else


@dataclass(frozen=True, eq=False)
class WishartPosterior:
    """W(degrees, scale), the posterior of the precision."""

    degrees: float
    scale: FloatArray
    prior_degrees: float

    @property
    def mean(self) -> FloatArray:
        """E Omega."""
        return self.degrees * self.scale

    @property
    def mode(self) -> FloatArray:
        """Where the posterior density is largest."""
        return (self.degrees - len(self.scale) - 1) * self.scale

    @property
    def standard_deviation(self) -> FloatArray:
        """Of each entry of Omega."""
        diagonal = np.diagonal(self.scale)
        return np.asarray(np.sqrt(self.degrees * (self.scale**2 + np.outer(diagonal, diagonal))))


def g_wishart(covariance: ArrayLike, alpha: float = 1.96, *, rows: int, prior_degrees: float | None = None) -> Estimate:
    """Posterior mode of the precision, entries that the posterior cannot tell from zero set to zero.

    Parameters
    ----------
    covariance : array of shape (p, p)
        S; an indefinite one is repaired first (see `usable_covariance`).
    alpha : float
        How many posterior standard deviations an entry must be away from zero. The score of an edge is that number.
    rows : int
        How many rows S comes from. The posterior knows nothing of noise that was subtracted: it is then too sure.
    prior_degrees : float, optional
        nu > p + 1; left out, the most likely one.

    Examples
    --------
    >>> import numpy as np
    >>> g_wishart(np.eye(3), rows=100).adjacency.any()
    np.False_
    """
    alpha = check_alpha(alpha)
    posterior = wishart_posterior(usable_covariance(covariance), rows, prior_degrees)
    distance = np.abs(posterior.mean) / posterior.standard_deviation
    np.fill_diagonal(distance, 0.0)
    kept = distance > alpha
    precision = np.where(kept | np.eye(len(kept), dtype=bool), posterior.mode, 0.0)
    return Estimate("G-Wishart", alpha, np.where(kept, distance, 0.0), precision)


def wishart_posterior(S: FloatArray, rows: int, prior_degrees: float | None = None) -> WishartPosterior:
    """The posterior at the given nu, or at the most likely one."""
    if rows < 1:
        raise SolverInputError(f"rows must be >= 1, got {rows}.")
    p = len(S)
    if prior_degrees is None:
        prior_degrees = _most_likely_degrees(S, rows)
    if not prior_degrees > p + 1:
        raise SolverInputError(f"prior_degrees must be > p + 1 = {p + 1}, got {prior_degrees}.")
    factor = cholesky(_posterior_inverse_scale(S, rows, prior_degrees))
    if factor is None:
        raise SolverInputError(f"prior_degrees = {prior_degrees:.6g} is too near p + 1 for this singular covariance.")
    return WishartPosterior(prior_degrees + rows, inverse(factor), prior_degrees)


def log_evidence(S: FloatArray, rows: int, prior_degrees: float) -> float:
    """log p(rows | nu), the precision integrated out; -infinity where rounding leaves no posterior."""
    from scipy.special import multigammaln

    p = len(S)
    factor = cholesky(_posterior_inverse_scale(S, rows, prior_degrees))
    if factor is None:
        return -np.inf
    prior_logdet = float(np.sum(np.log((prior_degrees - p - 1) * np.diagonal(S))))
    total = prior_degrees + rows
    gammas = multigammaln(total / 2, p) - multigammaln(prior_degrees / 2, p)
    volume = prior_degrees * prior_logdet - total * logdet(factor)
    return float(gammas + volume / 2 - rows * p / 2 * np.log(np.pi))


def _posterior_inverse_scale(S: FloatArray, rows: int, prior_degrees: float) -> FloatArray:
    return np.asarray(rows * S + np.diag((prior_degrees - len(S) - 1) * np.diagonal(S)))


def _most_likely_degrees(S: FloatArray, rows: int) -> float:
    """nu by a search over log(nu - p - 1): a grid to find the hill, then its top."""
    from scipy.optimize import minimize_scalar

    p = len(S)

    def cost(log_beyond: float) -> float:
        return -log_evidence(S, rows, p + 1 + float(np.exp(log_beyond)))

    grid = np.linspace(np.log(_LEAST_BEYOND), np.log(_MOST_BEYOND), 60)
    best = int(np.argmin([cost(point) for point in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    top = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-6})
    return float(p + 1 + np.exp(top.x))
