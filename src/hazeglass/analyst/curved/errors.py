"""How the error of the features' covariance is distributed, when only their moments were released.

To first order the error Delta is a sum of independent parts, each of which has

    cov(a Delta b, c Delta d) = 1/2 [P(a,c) Q(b,d) + Q(a,c) P(b,d) + P(a,d) Q(b,c) + Q(a,d) P(b,c)]

for two symmetric matrices P and Q, where P(a, c) = a^T P c:

    sampling of n rows       P = Q = V / sqrt(n), V the covariance of the features
    noise on second moments  P = Q = t I
    noise on the means       P = 2 s^2 m m^T, Q = I, m the means that are subtracted

Noise is exactly Gaussian. For sampling the form is that of Gaussian rows; where it is used to test whether two columns
are independent given the others it needs only that their residuals are (docs/maths/curved.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.glasso.linalg import FloatArray

__all__ = ["MomentError"]


@dataclass(frozen=True, eq=False)
class MomentError:
    """The error of a covariance as a sum of parts (P, Q)."""

    parts: tuple[tuple[FloatArray, FloatArray], ...]

    @classmethod
    def of_moments(cls, moments: ReleasedMoments, n: int) -> MomentError:
        """Sampling error of n rows and the noise that the release states."""
        values, vectors = np.linalg.eigh(moments.covariance(n))
        spread = (vectors * np.maximum(values, 0.0)) @ vectors.T / np.sqrt(n)
        unit = np.eye(len(spread))
        noise = float(moments.second_noise_sd[0, -1]) * unit
        mean = 2 * float(moments.mean_noise_sd[0]) ** 2 * np.outer(moments.mean, moments.mean)
        return cls(((spread, spread), (noise, noise), (mean, unit)))

    def carried(self, B: FloatArray) -> MomentError:
        """The error B Delta B^T."""
        return MomentError(tuple((B @ P @ B.T, B @ Q @ B.T) for P, Q in self.parts))

    def entry_variance(self) -> FloatArray:
        """Variance of every entry."""
        total = np.zeros_like(self.parts[0][0])
        for P, Q in self.parts:
            one, other = np.diag(P), np.diag(Q)
            total += (np.outer(one, other) + np.outer(other, one)) / 2 + P * Q
        return total

    def block_covariances(self, size: int) -> FloatArray:
        """Covariance of the entries of every block i < j, row by row: shape (pairs, size^2, size^2)."""
        p = len(self.parts[0][0]) // size
        i, j = np.triu_indices(p, 1)
        total = np.zeros((i.size, size, size, size, size))
        for P, Q in self.parts:
            for A, B in ((P, Q), (Q, P)):
                a = A.reshape(p, size, p, size).transpose(0, 2, 1, 3)
                b = B.reshape(p, size, p, size).transpose(0, 2, 1, 3)
                total += np.einsum("pac,pbd->pabcd", a[i, i], b[j, j]) / 2
                total += np.einsum("pad,pbc->pabcd", a[i, j], b[j, i]) / 2
        return total.reshape(i.size, size * size, size * size)
