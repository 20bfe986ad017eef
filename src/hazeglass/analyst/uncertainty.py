"""How the error of a covariance estimate is distributed, in a form that every release shares.

To first order the error is  U E U^T  with E symmetric: off-diagonal entries of E independent with variances `off`, the
diagonal of E with covariance `diagonal`. That holds for

    Gaussian rows with covariance V = U diag(l) U^T:   off_ab = l_a l_b / n, diagonal = diag(2 l_a^2 / n)
    isotropic noise of sd t on the sums (sqrt(2) t on the diagonal): adds t^2 to off, 2 t^2 I to diagonal, in any basis
    rows clipped to a ball, widened again:   both, times the derivative of the widening (analyst/clipping.py)

See docs/maths/inference.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["ErrorModel"]

FloatArray = npt.NDArray[np.float64]


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
        p = len(self.basis)
        variance = np.empty((p, p))
        for i, functionals in self._entries(self.basis):
            variance[i] = self._variance(functionals)
        sd: FloatArray = np.sqrt(variance)
        return sd

    def partial_correlation_sd(self, precision: FloatArray) -> FloatArray:
        """Standard deviation of every partial correlation when the matrix is inverted near `precision`."""
        scale = np.sqrt(np.diag(precision))
        loadings = precision @ self.basis / scale[:, None]
        correlation = -precision / np.outer(scale, scale)
        squares = loadings[:, :, None] * loadings[:, None, :]
        variance = np.empty_like(precision)
        for i, functionals in self._entries(loadings):
            # d rho_ij = a E b + (rho_ij / 2)(a E a + b E b), with a, b the loadings of i and j
            functionals = functionals + 0.5 * correlation[i][:, None, None] * (squares[i] + squares)
            variance[i] = self._variance(functionals)
        sd: FloatArray = np.sqrt(variance)
        return sd

    @staticmethod
    def _entries(vectors: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """For each i, the symmetric coefficient matrices of E in v_i E v_j, for all j."""
        for i, vector in enumerate(vectors):
            outer = vector[None, :, None] * vectors[:, None, :]
            yield i, 0.5 * (outer + outer.transpose(0, 2, 1))

    def _variance(self, functionals: FloatArray) -> FloatArray:
        """Var of sum_ab M_ab E_ab for every M in a stack of symmetric matrices."""
        hollow = self.off - np.diag(np.diag(self.off))
        off = 2 * np.einsum("jab,ab,jab->j", functionals, hollow, functionals)
        diagonals = np.einsum("jaa->ja", functionals)
        result: FloatArray = off + np.einsum("ja,ab,jb->j", diagonals, self.diagonal, diagonals)
        return result
