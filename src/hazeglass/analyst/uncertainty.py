"""How the error of a covariance estimate is distributed, in a form that every release shares.

To first order the error is  U E U^T  with E symmetric: off-diagonal entries of E independent with variances `off`, the
diagonal of E with covariance `diagonal`. That holds for

    Gaussian rows with covariance V = U diag(l) U^T:   off_ab = l_a l_b / n, diagonal = diag(2 l_a^2 / n)
    isotropic noise of sd t on the sums (sqrt(2) t on the diagonal): adds t^2 to off, 2 t^2 I to diagonal, in any basis
    rows clipped to a ball, widened again:   both, times the derivative of the widening (analyst/clipping.py)

See docs/maths/inference.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["ErrorModel"]

FloatArray = npt.NDArray[np.float64]

# Up to so many columns the variances are exact; beyond, they are those of a few leading products, which are two where
# rows were not clipped and fade quickly where they were.
_EXACT, _LEADING = 60, 12


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """The error U E U^T of a symmetric matrix; `basis` is U, which need not be orthogonal."""

    basis: FloatArray
    off: FloatArray
    diagonal: FloatArray

    @classmethod
    def of_gaussian_rows(cls, total: FloatArray, n: int) -> ErrorModel:
        """Sampling error of the covariance of n Gaussian rows whose covariance is `total`."""
        values, vectors = np.linalg.eigh(total)
        values = np.maximum(values, 0.0)
        return cls(vectors, np.outer(values, values) / n, np.diag(2 * values**2 / n))

    def plus_isotropic(self, sd: float) -> ErrorModel:
        """Add noise of standard deviation `sd` (sqrt(2) times that on the diagonal); needs an orthogonal basis."""
        return ErrorModel(self.basis, self.off + sd**2, self.diagonal + 2 * sd**2 * np.eye(len(self.off)))

    def plus_noisy_mean(self, mean: FloatArray, sd: float) -> ErrorModel:
        """Add the error of subtracting mean mean^T when each entry of the mean has noise of standard deviation `sd`.

        In the (orthogonal) basis that error is d_a e_b + d_b e_a + e_a e_b. The squares of the noisy mean exceed those
        of the true one by sd^2, which is what is taken off again.
        """
        squares = (self.basis.T @ mean) ** 2
        added = np.maximum(sd**2 * (squares[:, None] + squares[None, :]) - sd**4, 0.0)
        return ErrorModel(self.basis, self.off + added, self.diagonal + 2 * np.diag(np.diag(added)))

    def rescaled(self, factors: FloatArray) -> ErrorModel:
        """The error of the matrix whose rows and columns were multiplied by `factors`."""
        return ErrorModel(factors[:, None] * self.basis, self.off, self.diagonal)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """One draw of the error, for a parametric bootstrap."""
        p = len(self.off)
        off = np.triu(rng.standard_normal((p, p)) * np.sqrt(self.off), 1)
        values, vectors = np.linalg.eigh(self.diagonal)
        diagonal = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(p))
        return np.asarray(self.basis @ (off + off.T + np.diag(diagonal)) @ self.basis.T)

    def entry_sd(self) -> FloatArray:
        """Standard deviation of every entry."""
        return self._entry_sd

    @cached_property
    def _entry_sd(self) -> FloatArray:
        return np.asarray(np.sqrt(np.maximum(self._forms.variance(self.basis, 0.0), 0.0)))

    def partial_correlation_sd(self, precision: FloatArray) -> FloatArray:
        """Standard deviation of every partial correlation when the matrix is inverted near `precision`.

        d rho_ij = a E b + (rho_ij / 2)(a E a + b E b), with a, b the loadings of i and j.
        """
        scale = np.sqrt(np.diag(precision))
        loadings = precision @ self.basis / scale[:, None]
        correlation = -precision / np.outer(scale, scale)
        return np.asarray(np.sqrt(np.maximum(self._forms.variance(loadings, correlation), 0.0)))

    @cached_property
    def _forms(self) -> _QuadraticForms:
        return _QuadraticForms.of(self.off, self.diagonal)


@dataclass(frozen=True, eq=False)
class _QuadraticForms:
    """Variances of bilinear forms x E y, with the independent part of E's variances as a sum of few products.

    If off_ab = sum_r c_r f_ra f_rb and the diagonal has variances 2 off_aa, then
    cov(x E y, z E w) = sum_r c_r [F_r(x, z) F_r(y, w) + F_r(x, w) F_r(y, z)],  F_r(x, y) = sum_a f_ra x_a y_a.
    Sampling error of Gaussian rows is one such product and isotropic noise another; what is left of the diagonal's
    covariance is added by itself. Few columns keep every product, so that the answer is exact.

    weights, factors  c_r and f_r
    rest              what the diagonal has beyond 2 off_aa: a covariance, or for many columns its variances alone
    """

    weights: FloatArray
    factors: FloatArray
    rest: FloatArray

    @classmethod
    def of(cls, off: FloatArray, diagonal: FloatArray) -> _QuadraticForms:
        natural = off - np.diag(np.diag(off)) + np.diag(np.diag(diagonal)) / 2
        weights, vectors = np.linalg.eigh(natural)
        if len(off) <= _EXACT:
            return cls(weights, vectors.T, diagonal - np.diag(np.diag(diagonal)))
        kept = np.argsort(-np.abs(weights))[:_LEADING]
        covered = vectors[:, kept] ** 2 @ weights[kept]
        return cls(weights[kept], vectors[:, kept].T, np.diag(diagonal) - 2 * covered)

    def variance(self, vectors: FloatArray, tilt: FloatArray | float) -> FloatArray:
        """Var of v_i E v_j + (tilt_ij / 2)(v_i E v_i + v_j E v_j) for all i, j."""
        total = np.zeros((len(vectors), len(vectors)))
        for weight, factor in zip(self.weights, self.factors, strict=True):
            gram = (vectors * factor) @ vectors.T
            own = np.diag(gram)
            product = np.outer(own, own)
            across = gram * (own[:, None] + own[None, :])
            both = 2 * (own**2)[:, None] + 2 * (own**2)[None, :] + 4 * gram**2
            total += weight * (product + gram**2 + 2 * tilt * across + tilt**2 / 4 * both)
        total += self._diagonal_rest(vectors, tilt)
        return (total + total.T) / 2

    def _diagonal_rest(self, vectors: FloatArray, tilt: FloatArray | float) -> FloatArray:
        """The same functionals of a diagonal E with covariance `rest` (a vector: variances alone)."""
        tilts = np.broadcast_to(np.asarray(tilt, dtype=np.float64), (len(vectors), len(vectors)))
        squares = vectors**2
        total = np.empty((len(vectors), len(vectors)))
        for i, vector in enumerate(vectors):
            rows = vector * vectors + tilts[i][:, None] / 2 * (squares[i] + squares)
            total[i] = rows**2 @ self.rest if self.rest.ndim == 1 else np.einsum("ja,ja->j", rows @ self.rest, rows)
        return total
