"""An estimate of a covariance from noisy data, with the distribution of its error: what every recovery starts from.

Each column owns a block of features: for linear dependence itself alone, for curved dependence functions of it.

The covariance of functions of rows is corrected for known noise in their cells. If y = x + noise, the noise symmetric
with known moments m_2, m_4, m_6, then g_0 = 1 and

    g_k(y) = y^k - sum over even j of (k choose j) m_j g_{k-j}(y)

have E[g_k(y) | x] = x^k exactly: Hermite polynomials, where the noise is Gaussian. Noise in different cells is
independent, so products of such features of different columns are unbiased as they are; products within a column are
polynomials up to degree 6 and are corrected themselves. The sampling error is that of the features as they are, noise
included: their covariance before the correction takes the place of V, as it does for the columns themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.error_model import ErrorModel, block_sandwich, own_blocks
from hazeglass.bundle.columns import CellNoise
from hazeglass.errors import InputError
from hazeglass.features.harmonics import DEGREES, cosines, to_features
from hazeglass.features.scores import normal_density
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import spread
from hazeglass.guarantee.lattice import RoundedGaussian, lattice_noise

_DOUBT = 2.0  # standard errors
# A larger block's own eigenvalues are kept above this: whitening must not blow up a direction that only noise fills.
_FLOOR = 0.05


@dataclass(frozen=True, eq=False)
class LevelGroups:
    """The levels of a categorical column as far as they are told apart: numbers of the levels in each group, and its
    share of the cells."""

    members: tuple[tuple[int, ...], ...]
    shares: FloatArray

    @property
    def merged(self) -> bool:
        """Whether a group has several levels."""
        return any(len(own) > 1 for own in self.members)

    @property
    def basis(self) -> FloatArray:
        """Orthonormal rows, all of them orthogonal to the roots of the shares."""
        roots = np.sqrt(self.shares / self.shares.sum())
        return np.asarray(np.linalg.svd(roots[None])[2][1:])

    def whitener(self, levels: int) -> FloatArray:
        """W: indicators of the levels, about their shares, to features of covariance I, one fewer than groups.

        Indicators of one row add up to 1, so their covariances with anything add up to 0, and only noise could make W
        see a vector of equal entries: it does not.
        """
        together = np.zeros((len(self.members), levels))
        for row, own in zip(together, self.members, strict=True):
            row[list(own)] = 1.0
        found = (self.basis / np.sqrt(self.shares)) @ together
        return np.asarray(found - found.mean(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class NoisyCovariance:
    """An estimate of a covariance from noisy data: the noise's own part is subtracted, so it may be indefinite.

    names       the columns; each owns `size` rows of the covariance, one column after the other
    n           how many rows of data it stands for
    covariance  of the features
    error       the distribution of its error
    mean        of the features themselves, where it is needed to draw them as curves
    whitener    (p, size, size): `covariance` and `error` are those of each block of features times its own; None: as
                the features are
    functions   which functions of a column its features are, where it has several: 'hermite', 'cosines' or 'levels'
    hidden      columns of which the noise hides a direction
    notes       what a reader must know of how it came about
    bent        how much noise in its marginal bends each column: a share of its variance, None for none
    astray      which share of its variance such bends may have in common with one other column, where rows swing
    swing       how much more often long rows are than Gaussian ones are (:func:`checks.swing`); 0 where they are not
    distrusted  why its error bars would be wrong, where the release contradicts the model they rest on
    groups      where there are categorical columns, the levels of each, None for an ordered one: blocks of fewer
                features than `size` are filled up with independent ones that have no error
    ridge       what noise adds to the covariance as an operator, to rank pairs by
    parts       the releases it was pooled from, where there were several, each by itself on the same scale
    plain       the same, its error not widened by doubt about the shape of columns: pairs are ranked by it
    """

    names: tuple[str, ...]
    n: int
    covariance: FloatArray
    error: ErrorModel
    mean: FloatArray | None = None
    whitener: FloatArray | None = None
    functions: str = "hermite"
    hidden: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    bent: FloatArray | None = None
    astray: FloatArray | None = None
    swing: float = 0.0
    distrusted: str | None = None
    groups: tuple[LevelGroups | None, ...] = ()
    ridge: FloatArray | None = None
    parts: tuple[NoisyCovariance, ...] = ()
    plain: NoisyCovariance | None = None

    def __post_init__(self) -> None:
        rows = len(self.error.basis)
        if self.covariance.shape != (rows, rows) or rows % len(self.names):
            raise InputError(
                f"a covariance must have as many features for each of its {len(self.names)} columns, and its error as "
                f"many rows; got {self.covariance.shape} and {rows}."
            )

    @property
    def size(self) -> int:
        """Features per column."""
        return len(self.covariance) // len(self.names)

    @property
    def live(self) -> npt.NDArray[np.int64]:
        """Features of each column, without those that only fill up its block."""
        if not self.groups:
            return np.full(len(self.names), self.size)
        return np.array([1 if one is None else one.shares.size - 1 for one in self.groups])

    @property
    def _between(self) -> npt.NDArray[np.bool_]:
        """Entries between the features of two columns."""
        alive = (np.arange(self.size) < self.live[:, None]).ravel()
        return np.asarray((spread(1 - np.eye(len(self.names)), self.size) > 0) & alive[:, None] & alive[None, :])

    @property
    def whitening(self) -> FloatArray:
        """The whitener, the identity where there is none."""
        if self.whitener is not None:
            return self.whitener
        return np.broadcast_to(np.eye(self.size), (len(self.names), self.size, self.size))

    @property
    def itself(self) -> FloatArray:
        """The column itself as a sum of its features, as far as they know it; 1 where it is its only feature."""
        if self.functions == "cosines":
            return np.array(score_in_cosines())
        return np.asarray(np.eye(self.size)[0])

    @property
    def standard_deviations(self) -> FloatArray:
        """What each column itself was divided by."""
        return np.asarray(1 / self.whitening[:, 0, 0])

    def standardised(self, *, whiten: bool = True) -> NoisyCovariance:
        """Every column's own block made the identity; for blocks of one, the correlation scale.

        Directions of a column within two standard errors of zero are raised to that first, and the column counts as
        hidden. The floor keeps the scale finite; the column's error bars stay as wide as its noise is. With
        whiten=False that is all.
        """
        p, size = len(self.names), self.size
        values, vectors = np.linalg.eigh(own_blocks(self.covariance, size))
        doubt = _DOUBT * np.sqrt(np.diag(self.error.entry_variance).reshape(p, size).max(axis=1))
        low = values[:, 0] < (1 - 1e-9) * doubt
        hidden = tuple(name for name, out in zip(self.names, low, strict=True) if out and name not in self.hidden)
        least = np.maximum(doubt, _FLOOR if size > 1 else 0.0)
        values = np.maximum(values, least[:, None])
        raised = self.covariance.copy()
        transposed = vectors.transpose(0, 2, 1)
        raised.reshape(p, size, p, size)[np.arange(p), :, np.arange(p), :] = (vectors * values[:, None]) @ transposed
        notes = (*self.notes, hidden_note(hidden, size)) if hidden else self.notes
        found = replace(self, covariance=raised, hidden=(*self.hidden, *hidden), notes=notes)
        if not whiten:
            return found
        whitener = (vectors / np.sqrt(values)[:, None]) @ transposed
        error = self.error.carried(whitener)
        whole = whitener @ self.whitening
        ridge = None if self.ridge is None else block_sandwich(whitener, self.ridge)
        return replace(found, covariance=block_sandwich(whitener, raised), error=error, whitener=whole, ridge=ridge)

    def block_sd(self) -> FloatArray:
        """For every pair of columns, the root of the summed variances of its block."""
        p, size = len(self.names), self.size
        total = self.error.entry_variance.reshape(p, size, p, size).sum(axis=(1, 3))
        return np.asarray(np.sqrt((total + total.T) / 2))

    def typical_variance(self) -> float:
        """Mean variance of an entry between two columns."""
        return float(np.mean(self.error.entry_variance[self._between]))

    def effective_rows(self) -> float:
        """Rows of clean data that would leave as much error in a typical entry, once standardised."""
        return 1.0 / float(np.median(self.error.entry_variance[self._between]))


@dataclass(frozen=True, eq=False)
class Stacked:
    """Rows with those before them: their covariance, and its error in the two parts that series tell apart.

    noisy     of the stacks, column by column and of each from the latest row on, with both parts as its error
    sampling  what is left without privacy noise
    noise     the privacy noise as independent entries in the basis
    draw      one draw of that noise in the basis, with entries that go together; None where there is no noise
    """

    noisy: NoisyCovariance
    sampling: ErrorModel
    noise: ErrorModel | None = None
    draw: Callable[[np.random.Generator], FloatArray] | None = None


@cache
def score_in_cosines() -> tuple[float, ...]:
    """Coefficients of a score in the cosines of its rank, E[Z f_k(Z)]; what they leave out is 5 % of its variance."""
    z = np.linspace(-8, 8, 4001)
    return tuple((cosines(z) * (z * normal_density(z))[:, None]).sum(axis=0) * (z[1] - z[0]))


def hidden_note(hidden: tuple[str, ...], size: int) -> str:
    what = f"{len(hidden)} column{'s' if len(hidden) > 1 else ''} ({some_of(hidden)})"
    if size == 1:
        return (
            f"The noise hides {what}: a corrected variance within two standard errors of zero. No edge of such a "
            "column can be trusted; it takes more rows or less noise (a larger epsilon)."
        )
    return (
        f"The noise hides part of {what}: functions of it cannot be told apart. It takes more rows "
        "or a larger epsilon to see the shape of what depends on it."
    )


def some_of(names: tuple[str, ...] | list[str]) -> str:
    """The first few names, for a note."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


# z, (z^2 - 1)/sqrt(2), (z^3 - 3z)/sqrt(6) as rows of coefficients of 1, z, z^2, z^3
FEATURES = np.array(
    [[0.0, 1.0, 0.0, 0.0], [-math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0], [0.0, -3 / math.sqrt(6), 0.0, 1 / math.sqrt(6)]]
)
_SIZE = DEGREES["hermite"]
_ENUMERATED = 60.0  # lattice steps: above, closed forms are exact to rounding
_CHUNK_NUMBERS = 4_000_000  # numbers held at once while going through the rows
_LOUD = 0.25  # noise variance beside that of the clean column


def covariance_of_features(
    rows: FloatArray, noise: Sequence[CellNoise | None], names: tuple[str, ...], notes: tuple[str, ...] = ()
) -> NoisyCovariance:
    """Of standardised rows.

    Clean rows are clamped as the publisher clamps them. Noisy cells cannot be: a clamp has no unbiased counterpart.
    """
    n, p = rows.shape
    moments = np.array([even_moments(cell) for cell in noise])
    deviations = _deviations(rows, moments[:, 0], names)
    centre = rows.mean(axis=0)
    scaled = moments / deviations[:, None] ** np.array([2, 4, 6])
    first, second = np.zeros(p * _SIZE), np.zeros((p * _SIZE, p * _SIZE))
    lacking = np.zeros((p, _SIZE, _SIZE))
    step = max(1, _CHUNK_NUMBERS // (9 * p))
    for start in range(0, n, step):
        features, excess = _features((rows[start : start + step] - centre) / deviations, scaled)
        first += features.sum(axis=0)
        second += features.T @ features
        if excess is not None:
            lacking += excess.sum(axis=0)
    mean = first / n
    observed = (second / n - np.outer(mean, mean)) * n / (n - 1)
    covariance = observed.copy()
    covariance.reshape(p, _SIZE, p, _SIZE)[np.arange(p), :, np.arange(p), :] += lacking / (n - 1)
    loud = [name for name, share in zip(names, scaled[:, 0], strict=True) if share > _LOUD]
    notes = (*notes, _noise_note(loud)) if loud else notes
    return NoisyCovariance(names, n, covariance, ErrorModel.of_gaussian_rows(observed, n), mean, notes=notes)


def even_moments(noise: CellNoise | None) -> tuple[float, float, float]:
    """E noise^2, ^4, ^6 in the unit of the column; exact for both families, as is the variance."""
    if noise is None:
        return 0.0, 0.0, 0.0
    second, fourth, sixth = _lattice_moments(noise.family, noise.scale)
    return second * noise.step**2, fourth * noise.step**4, sixth * noise.step**6


@cache
def _lattice_moments(family: str, scale: float) -> tuple[float, float, float]:
    if scale > _ENUMERATED:
        s2 = scale * scale
        if family != RoundedGaussian.name:
            return s2, 3 * s2**2, 15 * s2**3
        # a Gaussian plus a uniform on one step: their moments multiply out
        return s2 + 1 / 12, 3 * s2**2 + s2 / 2 + 1 / 80, 15 * s2**3 + 15 * s2**2 / 4 + 3 * s2 / 16 + 1 / 448
    k = np.arange(1, math.ceil(40 * scale) + 2, dtype=np.float64)
    mass = 2 * np.exp(lattice_noise(family, scale).log_pmf(k))
    return math.fsum(k**2 * mass), math.fsum(k**4 * mass), math.fsum(k**6 * mass)


def clean_powers(y: FloatArray, moments: Sequence[float]) -> FloatArray:
    """g_0(y) .. g_6(y), one row per cell; `moments` are m_2, m_4, m_6 on the scale of y."""
    powers = np.ones((len(y), 7))
    for k in range(1, 7):
        powers[:, k] = y**k
        for j in range(2, k + 1, 2):
            powers[:, k] -= math.comb(k, j) * moments[j // 2 - 1] * powers[:, k - j]
    return powers


def features_from_powers(powers: FloatArray) -> FloatArray:
    """Unbiased values of the three features of a column."""
    return np.asarray(powers[:, :4] @ FEATURES.T)


def products_from_powers(powers: FloatArray) -> FloatArray:
    """Unbiased values of the products of a column's features with each other, shape (rows, 3, 3)."""
    coefficients = np.array([[np.convolve(a, b) for b in FEATURES] for a in FEATURES])
    return np.asarray(np.einsum("rk,abk->rab", powers, coefficients))


def _features(z: FloatArray, moments: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Unbiased features, and what the products within each column lack: shape (rows, columns, 3, 3), or None."""
    if not moments.any():
        return to_features(z, "hermite"), None
    n, p = z.shape
    features, excess = np.empty((n, p, _SIZE)), np.empty((n, p, _SIZE, _SIZE))
    for k in range(p):
        powers = clean_powers(z[:, k], moments[k])
        own = features_from_powers(powers)
        features[:, k] = own
        excess[:, k] = products_from_powers(powers) - np.einsum("ra,rb->rab", own, own)
    return features.reshape(n, -1), excess


def _deviations(rows: FloatArray, noise: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """Corrected standard deviations; where the noise hides a variance, those of the noisy cells."""
    observed = observed_variances(rows, names)
    clean = observed - noise
    doubt = 2 * observed * np.sqrt(2 / len(rows))
    return np.asarray(np.sqrt(np.where(clean > doubt, clean, observed)))


def observed_variances(rows: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """Variances of the cells as they are; a column that does not vary is refused."""
    observed = np.asarray(rows.var(axis=0, ddof=1))
    if not np.all(observed > 0):
        flat = names[int(np.argmin(observed))]
        raise InputError(f"every column must vary, and {flat!r} holds one value only. Leave it out.")
    return observed


def _noise_note(loud: list[str]) -> str:
    return (
        f"Noise is more than a quarter of the variance of {len(loud)} column{'s' if len(loud) > 1 else ''} "
        f"({some_of(loud)}): cubes of such cells have heavy tails, and p-values come out too small unless rows are "
        "many. Read faint edges with care."
    )
