"""How the error of a covariance estimate is distributed, in a form that every release shares.

To first order the error is  U E U^T  with E symmetric: off-diagonal entries of E independent with variances `off`, the
diagonal of E with covariance `diagonal`. That holds for

    Gaussian rows with covariance V = U diag(l) U^T:   off_ab = l_a l_b / n, diagonal = diag(2 l_a^2 / n)
    isotropic noise of sd t on the sums (sqrt(2) t on the diagonal): adds t^2 to off, 2 t^2 I to diagonal, in any basis
    rows clipped to a ball, widened again:   both, times the derivative of the widening (:func:`widened_error`)

All of it is, but for some of the diagonal, a sum of parts with

    cov(a D b, c D d) = 1/2 [P(a,c) Q(b,d) + Q(a,c) P(b,d) + P(a,d) Q(b,c) + Q(a,d) P(b,c)],    P(a,c) = a^T P c,

from which variances of entries, of partial correlations and of whole blocks follow. See docs/maths/inference.md and
docs/maths/curved.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from hazeglass.features.clipping import Widening
from hazeglass.glasso.linalg import FloatArray, cholesky

# Up to so many features the variances are exact; beyond, they are those of a few leading products, which are two where
# rows were not clipped and fade quickly where they were.
_EXACT, _LEADING = 60, 12
_ROUNDING = 1e-13  # relative
_FADED = 1e-5  # relative: a leading product below this changes no digit that is shown
_MANY = 128  # columns from which moments of clipped rows are those of columns that hardly share a length
_CLOSE = 0.02  # relative
_SMOOTH = 2e-3  # an `excess` below that of any coarse column counts as none
_FORM_STEPS = 2e10  # of exact quadratic forms; beyond, their leading parts
# Error of a partial correlation beside the shares of its columns' own parts that noise in marginals bent; measured.
BENDING = 0.9
_LEAST_LEFT = 0.25  # of a variance, when what the diagonal overstates is taken off


def block_multiply(blocks: FloatArray, matrix: FloatArray) -> FloatArray:
    """B @ matrix for the block-diagonal B whose blocks are given, shape (p, size, size)."""
    p, size, _ = blocks.shape
    return np.asarray((blocks @ matrix.reshape(p, size, -1)).reshape(p * size, -1))


def block_sandwich(blocks: FloatArray, matrix: FloatArray) -> FloatArray:
    """B matrix B^T for the block-diagonal B, exactly symmetric where the matrix is symmetric."""
    whole = block_multiply(blocks, np.ascontiguousarray(block_multiply(blocks, matrix).T))
    return (whole + whole.T) / 2


def own_blocks(matrix: FloatArray, size: int) -> FloatArray:
    """The blocks on the diagonal, shape (p, size, size)."""
    columns = np.arange(len(matrix) // size)
    return np.asarray(matrix.reshape(len(columns), size, -1, size)[columns, :, columns, :])


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """The error U E U^T of a symmetric matrix; `basis` is U, which need not be orthogonal.

    tied     d, in the basis: what d e^T + e d^T with independent e adds beside E; its entries are tied to each other
    stretch  what every entry of the error is multiplied by, about 1 but for pairs that are known less well
    own      variances of further errors that pairs of a column share, as independent errors of the diagonal
    excess   by which share U E U^T overstates the error of each diagonal entry: 0, but above where the diagonal is
             known and pairs are divided by what coarse columns leave of them
    """

    basis: FloatArray
    off: FloatArray
    diagonal: FloatArray
    tied: FloatArray | None = None
    stretch: FloatArray | None = None
    own: FloatArray | None = None
    excess: FloatArray | None = None

    @classmethod
    def of_gaussian_rows(cls, total: FloatArray, n: int) -> ErrorModel:
        """Sampling error of the covariance of n Gaussian rows whose covariance is `total`."""
        values, vectors = np.linalg.eigh(total)
        values = np.maximum(values, 0.0)
        return cls(vectors, np.outer(values, values) / n, np.diag(2 * values**2 / n))

    def plus_isotropic(self, sd: float) -> ErrorModel:
        """Add noise of standard deviation `sd` (sqrt(2) times that on the diagonal); needs an orthogonal basis."""
        return replace(self, off=self.off + sd**2, diagonal=self.diagonal + 2 * sd**2 * np.eye(len(self.off)))

    def plus_noisy_mean(self, mean: FloatArray, sd: float) -> ErrorModel:
        """Add the error of subtracting mean mean^T when each entry of the mean has noise of standard deviation `sd`.

        In the (orthogonal) basis that error is d_a e_b + d_b e_a + e_a e_b. The squares of the noisy mean exceed those
        of the true one by sd^2, which is what is taken off again.
        """
        squares = (self.basis.T @ mean) ** 2
        added = np.maximum(sd**2 * (squares[:, None] + squares[None, :]) - sd**4, 0.0)
        return replace(self, off=self.off + added, diagonal=self.diagonal + 2 * np.diag(np.diag(added)))

    def plus_tied_mean(self, mean: FloatArray, sd: float) -> ErrorModel:
        """The same with the covariances between entries, which blocks of several numbers need; to first order."""
        return replace(self, tied=sd * (self.basis.T @ mean))

    def carried(self, blocks: FloatArray) -> ErrorModel:
        """The error of B S B^T, B block-diagonal."""
        return replace(self, basis=block_multiply(blocks, self.basis))

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """One draw of the error, for a parametric bootstrap."""
        p = len(self.off)
        off = np.triu(rng.standard_normal((p, p)) * np.sqrt(self.off), 1)
        drawn = off + off.T + np.diag(self._diagonal_root @ rng.standard_normal(p))
        if self.tied is not None:
            product = np.outer(self.tied, rng.standard_normal(p))
            drawn = drawn + product + product.T
        drawn = self.basis @ drawn @ self.basis.T
        if self.excess is not None:
            drawn = drawn - np.diag(self.excess * np.diag(drawn))
        if self.own is not None:
            drawn = drawn + np.diag(np.sqrt(self.own) * rng.standard_normal(self.own.size))
        return np.asarray(drawn if self.stretch is None else drawn * self.stretch)

    @cached_property
    def _diagonal_root(self) -> FloatArray:
        if len(self.diagonal) > _EXACT:
            factor = cholesky(self.diagonal)
            if factor is not None:
                return np.asarray(np.triu(factor).T)
        values, vectors = np.linalg.eigh(self.diagonal)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    @cached_property
    def entry_variance(self) -> FloatArray:
        """Variance of every entry, `own` apart: it is the share of a column in the errors of its pairs."""
        found = np.maximum(self._variance(self.basis), 0.0)
        if self.excess is not None:
            found = found - np.diag(np.diag(found) * (1 - (1 - self.excess) ** 2))
        return np.asarray(found if self.stretch is None else found * self.stretch**2)

    def trace_variance(self) -> float:
        """Variance of the sum of the diagonal of U E U^T."""
        gram = self.basis.T @ self.basis
        own = np.diag(gram)
        off = self.off * gram**2
        return float(2 * (off.sum() - np.trace(off)) + own @ self.diagonal @ own)

    def partial_correlation_sd(self, precision: FloatArray) -> FloatArray:
        """Standard deviation of every partial correlation when the matrix is inverted near `precision`.

        d rho_ij = a E b + (rho_ij / 2)(a E a + b E b), with a, b the loadings of i and j.
        """
        scale = np.sqrt(np.diag(precision))
        correlation = -precision / np.outer(scale, scale)
        load = precision / scale[:, None]
        main = self._variance(load @ self.basis, correlation)
        total = main + self._diagonal_variance(load, correlation)
        found = np.sqrt(np.maximum(total, _LEAST_LEFT * np.maximum(main, 0.0)))
        return np.asarray(found if self.stretch is None else found * self.stretch)

    def _diagonal_variance(self, load: FloatArray, tilt: FloatArray) -> FloatArray:
        """What `own` and `excess` add to the variance of a D b + (tilt / 2)(a D a + b D b), a and b rows of `load`."""
        own = np.zeros(len(load)) if self.own is None else self.own
        excess = np.zeros(len(load)) if self.excess is None else self.excess
        total = _diagonal_form(load, tilt, own)
        coarse = np.flatnonzero(np.abs(excess) > _SMOOTH)
        if coarse.size == 0:
            return total
        some, taken = load[:, coarse], excess[coarse]
        squares = np.zeros((coarse.size, coarse.size))
        for weight, gram, _ in self._products(self.basis):
            squares += weight * gram[np.ix_(coarse, coarse)] ** 2
            total -= 4 * weight * _mixed_form(some, load @ gram[:, coarse], tilt, taken)
        return total + 2 * _quadratic_form(some, tilt, squares * np.outer(taken, taken))

    def block_covariances(self, load: FloatArray, size: int) -> FloatArray:
        """Covariance of the entries of every block i < j of load D load^T, row by row: (pairs, size^2, size^2)."""
        vectors = load @ self.basis
        p = len(vectors) // size
        i, j = np.triu_indices(p, 1)
        total = np.zeros((i.size, size, size, size, size))
        for weight, *both in self._products(vectors):
            one, other = (matrix.reshape(p, size, p, size).transpose(0, 2, 1, 3) for matrix in both)
            for P, Q in ((one, other), (other, one)):
                total += weight / 2 * np.einsum("pac,pbd->pabcd", P[i, i], Q[j, j])
                total += weight / 2 * np.einsum("pad,pbc->pabcd", P[i, j], Q[j, i])
        found = total.reshape(i.size, size * size, size * size)
        for seen, rest in ((vectors, self._forms[2]), (load, self.own)):
            if rest is not None and rest.any():
                apart = seen.reshape(p, size, -1)
                rows = (apart[i][:, :, None] * apart[j][:, None]).reshape(i.size, size * size, -1)
                found = found + (rows * rest if rest.ndim == 1 else rows @ rest) @ rows.transpose(0, 2, 1)
        if self.stretch is not None:  # pairs of columns share it
            found = found * np.square(self.stretch[i * size, j * size])[:, None, None]
        return np.asarray(found)

    @cached_property
    def _forms(self) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """E's independent part as a sum of few products: weights c_r, factors f_r, and the rest of its diagonal.

        If off_ab = sum_r c_r f_ra f_rb and the diagonal has variances 2 off_aa, then P = Q = diag(f_r) for each r.
        Sampling error of Gaussian rows is one such product and isotropic noise another. What the diagonal has beyond
        2 off_aa is a covariance, or for many features its variances alone; None where nothing is left.
        """
        natural = self.off - np.diag(np.diag(self.off)) + np.diag(np.diag(self.diagonal)) / 2
        many = len(natural) > _EXACT
        weights, vectors = _leading(natural, _LEADING) if many else np.linalg.eigh(natural)
        sizes = np.abs(weights)
        # Those not far above the smallest leading one are of a bulk, for which a few do not stand.
        least = (
            max(_FADED * sizes.max(), min(4 * sizes.min(), 0.1 * sizes.max()))
            if many
            else _ROUNDING * sizes.max(initial=0.0)
        )
        kept = np.flatnonzero(np.abs(weights) > least)
        rest = self.diagonal - np.diag(np.diag(self.diagonal))
        if many:
            rest = np.diag(self.diagonal) - 2 * vectors[:, kept] ** 2 @ weights[kept]
        some = np.abs(rest).max(initial=0.0) > _ROUNDING * np.diag(self.diagonal).max(initial=0.0)
        return weights[kept], vectors[:, kept].T, rest if some else None

    def _products(self, vectors: FloatArray) -> Iterator[tuple[float, FloatArray, FloatArray]]:
        """Weight, P and Q of every part, seen through vectors in the basis; the rest of the diagonal is not here."""
        weights, factors, _ = self._forms
        for weight, factor in zip(weights.tolist(), factors, strict=True):
            gram = (vectors * factor) @ vectors.T
            yield weight, gram, gram
        if self.tied is not None:
            along = math.sqrt(2) * (vectors @ self.tied)
            yield 1.0, np.outer(along, along), vectors @ vectors.T

    def _variance(self, vectors: FloatArray, tilt: FloatArray | None = None) -> FloatArray:
        """Var of v_i E v_j + (tilt_ij / 2)(v_i E v_i + v_j E v_j) for all i, j."""
        total = np.zeros((len(vectors), len(vectors)))
        for weight, P, Q in self._products(vectors):
            p, q, both = np.diag(P), np.diag(Q), P * Q
            part = (np.outer(p, q) + np.outer(q, p)) / 2 + both
            if tilt is not None:
                across = P * (q[:, None] + q[None, :]) + Q * (p[:, None] + p[None, :])
                own = p * q
                part += tilt * across + tilt**2 / 2 * (own[:, None] + own[None, :] + 2 * both)
            total += weight * part
        rest = self._forms[2]
        if rest is not None:
            total += (_diagonal_form if rest.ndim == 1 else _quadratic_form)(vectors, tilt, rest)
        return np.asarray((total + total.T) / 2)


# Forms in r_ij = v_i v_j + (tilt_ij / 2)(v_i^2 + v_j^2), entry by entry, for the rows v of a matrix and all i, j.


def _leading(matrix: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """The eigenvalues of a symmetric matrix that are largest in size, and their vectors."""
    from scipy.sparse.linalg import eigsh

    if not matrix.any() or len(matrix) <= 2 * most:
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors
    values, vectors = eigsh(matrix, most, v0=np.ones(len(matrix)), tol=1e-9)
    return values, vectors


def _diagonal_form(vectors: FloatArray, tilt: FloatArray | None, weights: FloatArray) -> FloatArray:
    """sum_a weights_a r_ija^2."""
    if not weights.any():
        return np.zeros((len(vectors), len(vectors)))
    squares = vectors**2
    both = (squares * weights) @ squares.T
    if tilt is None:
        return np.asarray(both)
    cubes = (squares * weights * vectors) @ vectors.T
    fourth = np.diag(both)
    return np.asarray(both + tilt * (cubes + cubes.T) + tilt**2 / 4 * (fourth[:, None] + fourth[None, :] + 2 * both))


def _mixed_form(one: FloatArray, other: FloatArray, tilt: FloatArray, weights: FloatArray) -> FloatArray:
    """sum_a weights_a r_ija r'_ija, r' with the rows of another matrix."""
    product, first, second = one * other, one**2, other**2
    both = (product * weights) @ product.T
    cubes = (one * second * weights) @ one.T + (other * first * weights) @ other.T
    crossed = (first * weights) @ second.T
    own = np.diag(crossed)
    return np.asarray(
        both + tilt / 2 * (cubes + cubes.T) + tilt**2 / 4 * (own[:, None] + own[None, :] + crossed + crossed.T)
    )


def _quadratic_form(vectors: FloatArray, tilt: FloatArray | None, matrix: FloatArray) -> FloatArray:
    """sum_ab r_ija matrix_ab r_ijb: exact, or for many rows a few leading parts and the rest of the diagonal."""
    rows, size = vectors.shape
    total = np.zeros((rows, rows))
    squares = vectors**2
    if rows**2 * size**2 <= _FORM_STEPS:
        for i in range(rows):
            products = vectors[i] * vectors
            if tilt is not None:
                products += tilt[i][:, None] / 2 * (squares[i] + squares)
            total[i] = np.einsum("ja,ja->j", products @ matrix, products)
        return total
    values, axes = _leading(matrix, 2 * _LEADING)
    total += _diagonal_form(vectors, tilt, np.diag(matrix) - axes**2 @ values)
    for value, vector in zip(values, axes.T, strict=True):
        sums = (vectors * vector) @ vectors.T
        if tilt is not None:
            ends = squares @ vector
            sums += tilt / 2 * (ends[:, None] + ends[None, :])
        total += value * sums**2
    return total


def widened_error(widening: Widening, n: float, noise_sd: float) -> ErrorModel:
    """Sampling error and noise of clipped moments, times the derivative of the widening (features/clipping.py).

    In the eigenbasis the clipped products have uncorrelated off-diagonal entries (each sign of g is a fair coin), and
    the derivative of an isotropic matrix function is (l_a - l_b)/(m_a - m_b) off the diagonal, the Jacobian dl/dm on
    it. `noise_sd` is the standard deviation of the isotropic noise in the entries of the clipped moments.
    """
    squares, shrink = widening.squares, widening.shrink
    # Sampling errors are those of products about the mean; the mean itself is subtracted.
    spread = np.maximum(widening.wide - widening.offset**2, 0.0)
    sampling_off = sampling_diagonal = np.zeros_like(widening.vectors)
    if math.isfinite(n):
        products = np.outer(spread, spread) * _mean_products(shrink**2, squares)
        means = spread * (shrink @ squares) / len(squares)
        sampling_off, sampling_diagonal = products / n, (products - np.outer(means, means)) / n
    jacobian, slope = _derivative(widening)
    off = slope**2 * (sampling_off + noise_sd**2)
    diagonal = jacobian @ (sampling_diagonal + 2 * noise_sd**2 * np.eye(len(jacobian))) @ jacobian.T
    return ErrorModel(widening.vectors, off, diagonal)


@lru_cache(1)
def _derivative(widening: Widening) -> tuple[FloatArray, FloatArray]:
    """That of the widening, on the diagonal and off it; sampling error and noise both ask for it."""
    positive = np.maximum(widening.wide, 0.0)
    moments = _moments_jacobian(positive, widening.squares, widening.shrink)
    jacobian = np.asarray(np.linalg.inv(moments), dtype=np.float64)
    return jacobian, _divided_differences(widening.narrow, widening.wide, jacobian)


def _moments_jacobian(positive: FloatArray, squares: FloatArray, shrink: FloatArray) -> FloatArray:
    """d m_a / d l_b = c_a [a = b] - l_a E[1(clipped) (shrink / |x|^2) g_a^2 g_b^2]."""
    lengths = np.maximum(squares @ positive, np.finfo(float).tiny)
    pull = np.where(shrink < 1, shrink / lengths, 0.0)
    kept = shrink @ squares / len(squares)
    return np.asarray(np.diag(kept) - positive[:, None] * _mean_products(pull, squares))


def _mean_products(weight: FloatArray, squares: FloatArray) -> FloatArray:
    """E[weight g_a^2 g_b^2] for all a and b, weight being a function of the length of x.

    Of many columns no two have a share in the length that matters, and it is E[weight g_a^2] E[weight g_b^2] /
    E[weight], three times that for a = b: closer than the mean over a sample would be.
    """
    if squares.shape[1] <= _MANY:
        return np.asarray((weight[:, None] * squares).T @ squares / len(squares))
    own, mean = weight @ squares / len(squares), float(weight.mean())
    found = np.outer(own, own) / (mean or 1.0)
    np.fill_diagonal(found, 3 * np.diag(found))
    return found


def _divided_differences(narrow: FloatArray, wide: FloatArray, jacobian: FloatArray) -> FloatArray:
    gap = narrow[:, None] - narrow[None, :]
    # Eigenvalues that lie closer than the error of the integral behind them have no slope of their own.
    nearby = _CLOSE if narrow.size > _MANY else 1e-6
    close = np.abs(gap) <= nearby * float(np.abs(narrow).max())
    own = np.diag(jacobian)
    limit = 0.5 * (own[:, None] + own[None, :]) - 0.5 * (jacobian + jacobian.T)
    difference = (wide[:, None] - wide[None, :]) / np.where(close, 1.0, gap)
    return np.where(close, np.where(np.eye(narrow.size, dtype=bool), own, limit), difference)
