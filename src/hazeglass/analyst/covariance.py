"""What any release comes down to: the covariance of its columns' features, and how its error is distributed.

Each column owns a block of features: for linear dependence itself alone, for curved dependence Hermite functions of
it. Whatever is recovered starts from this one value, whoever made it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.error_model import ErrorModel, block_sandwich, own_blocks, widened_error
from hazeglass.analyst.folds import scatter_of
from hazeglass.bundle.manifest import Stage
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Engine, Serial
from hazeglass.errors import InputError
from hazeglass.features.clipping import widen
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import spread

_DOUBT = 2.0  # standard errors
# A larger block's own eigenvalues are kept above this: whitening must not blow up a direction that only noise fills.
_FLOOR = 0.05


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
    hidden      columns of which the noise hides a direction
    notes       what a reader must know of how it came about
    """

    names: tuple[str, ...]
    n: int
    covariance: FloatArray
    error: ErrorModel
    mean: FloatArray | None = None
    whitener: FloatArray | None = None
    hidden: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

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
    def whitening(self) -> FloatArray:
        """The whitener, the identity where there is none."""
        if self.whitener is not None:
            return self.whitener
        return np.broadcast_to(np.eye(self.size), (len(self.names), self.size, self.size))

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
        hidden = tuple(name for name, out in zip(self.names, values[:, 0] < doubt, strict=True) if out)
        least = np.maximum(doubt, _FLOOR if size > 1 else 0.0)
        values = np.maximum(values, least[:, None])
        raised = self.covariance.copy()
        transposed = vectors.transpose(0, 2, 1)
        raised.reshape(p, size, p, size)[np.arange(p), :, np.arange(p), :] = (vectors * values[:, None]) @ transposed
        notes = (*self.notes, _hidden_note(hidden, size)) if hidden else self.notes
        found = replace(self, covariance=raised, hidden=hidden, notes=notes)
        if not whiten:
            return found
        whitener = (vectors / np.sqrt(values)[:, None]) @ transposed
        error = self.error.carried(whitener)
        return replace(found, covariance=block_sandwich(whitener, raised), error=error, whitener=whitener)

    def block_sd(self) -> FloatArray:
        """For every pair of columns, the root of the summed variances of its block."""
        p, size = len(self.names), self.size
        total = self.error.entry_variance.reshape(p, size, p, size).sum(axis=(1, 3))
        return np.asarray(np.sqrt((total + total.T) / 2))

    def typical_variance(self) -> float:
        """Mean variance of an entry between two columns."""
        between = spread(1 - np.eye(len(self.names)), self.size) > 0
        return float(np.mean(self.error.entry_variance[between]))

    def effective_rows(self) -> float:
        """Rows of clean data that would leave as much error in a typical entry, once standardised."""
        return 1.0 / self.typical_variance()


def _hidden_note(hidden: tuple[str, ...], size: int) -> str:
    what = f"{len(hidden)} column{'s' if len(hidden) > 1 else ''} ({some_of(hidden)})"
    if size == 1:
        return (
            f"The noise hides {what}: a corrected variance within two standard errors of zero. No edge of such a "
            "column can be trusted; it takes more rows, a larger epsilon, or the moments form."
        )
    return (
        f"The noise hides part of {what}: its value, its square and its cube cannot be told apart. It takes more rows "
        "or a larger epsilon to see the shape of what depends on it."
    )


def some_of(names: tuple[str, ...] | list[str]) -> str:
    """The first few names, for a note."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def covariance_of(release: Release, engine: Engine | None = None, *, curved: bool = False) -> NoisyCovariance:
    """The corrected covariance of a release: of its columns (table), or of the last stage's features (moments).

    Of a curved stage only the columns themselves are taken, unless `curved` asks for all features.
    """
    if release.form == "table":
        return _of_table(release, engine or Serial())
    moments, stage = release.moments()[-1], release.manifest.stages[-1]
    if curved:
        found = covariance_of_moments(moments, release.n)
        note = (
            f"Rows were clipped to length {stage.radius:.3g} together with their squares and cubes; strengths are "
            "those of clipped rows."
        )
        return replace(found, notes=(note,)) if stage.clipped else found
    return _of_linear_part(moments.linear_part(), stage, release.n)


def covariance_of_rows(rows: FloatArray, noise: FloatArray, names: tuple[str, ...]) -> NoisyCovariance:
    """cov(X~) minus the known covariance of the noise in a row."""
    return _without_noise(np.cov(rows, rowvar=False).reshape(len(names), len(names)), noise, len(rows), names)


def covariance_of_moments(moments: ReleasedMoments, n: int) -> NoisyCovariance:
    """Of all features of one stage, as they were released."""
    names = tuple(dict.fromkeys(feature.column for feature in moments.features))
    covariance = moments.covariance(n)
    error = ErrorModel.of_gaussian_rows(covariance, n).plus_isotropic(_noise_sd(moments))
    mean_sd = float(moments.mean_noise_sd[0])
    if len(names) == len(moments.features):
        return NoisyCovariance(names, n, covariance, error.plus_noisy_mean(moments.mean, mean_sd))
    return NoisyCovariance(names, n, covariance, error.plus_tied_mean(moments.mean, mean_sd), moments.mean)


def noise_of(release: Release) -> FloatArray:
    """The covariance of the noise in each row of a table release (exact variances, no correlation)."""
    return np.diag([column.cell_noise.variance if column.cell_noise else 0.0 for column in release.columns])


def noise_matrix(noise_cov: npt.ArrayLike, columns: int, rows: int | None = None) -> FloatArray:
    """Known noise, however people state it, as the (p, p) covariance of the noise in a row.

    A number is the variance in every column; p numbers are the variances per column; a (p, p) array is the covariance;
    an (n, p) array is the variance of each cell, of which the mean over the rows counts.

    >>> noise_matrix([1.0, 4.0], 2).tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """
    noise = np.asarray(noise_cov, dtype=np.float64)
    if not np.all(np.isfinite(noise)):
        raise InputError("noise_cov must be finite, and holds NaN or infinity.")
    if noise.ndim == 0:
        matrix = np.eye(columns) * float(noise)
    elif noise.shape == (columns,):
        matrix = np.diag(noise)
    elif noise.shape == (columns, columns):
        matrix = noise
    elif rows is not None and noise.shape == (rows, columns):
        matrix = np.diag(noise.mean(axis=0))
    else:
        per_cell = f", or {rows}x{columns} for one variance per cell" if rows else ""
        raise InputError(
            f"noise_cov must be {columns}x{columns} to match the data{per_cell}, got {noise.shape}. "
            "Pass a number, one per column, or 0.0 for clean data."
        )
    if np.any(np.diag(matrix) < 0) or not np.allclose(matrix, matrix.T):
        raise InputError("noise_cov must be a covariance: symmetric, with no negative variance.")
    return matrix


def _without_noise(observed: FloatArray, noise: FloatArray, n: int, names: tuple[str, ...]) -> NoisyCovariance:
    return NoisyCovariance(names, n, observed - noise, ErrorModel.of_gaussian_rows(observed, n))


def _noise_sd(moments: ReleasedMoments) -> float:
    """The standard deviation of the noise in a second moment of two features."""
    return float(moments.second_noise_sd[0, -1]) if len(moments.features) > 1 else 0.0


def _of_table(release: Release, engine: Engine) -> NoisyCovariance:
    observed = scatter_of(release, engine).covariance()
    found = _without_noise(observed, noise_of(release), release.n, release.manifest.names)
    radius = release.manifest.clip_radius
    if radius is None:
        return found
    note = f"Rows were clipped to length {radius:.3g}; the covariance is that of clipped rows."
    return replace(found, notes=(note,))


def _of_linear_part(moments: ReleasedMoments, stage: Stage, n: int) -> NoisyCovariance:
    """The covariance of one stage's columns; second moments of clipped rows are widened again."""
    plain = covariance_of_moments(moments, n)
    if not stage.clipped:
        return plain
    clipped = f"Rows were clipped to length {stage.radius:.3g}"
    if stage.features != "linear":
        note = f"{clipped} together with their squares and cubes; the covariance is that of the clipped rows."
        return replace(plain, notes=(note,))
    widening = widen(moments.second, stage.radius, moments.mean)
    if widening is None:
        note = f"{clipped}, too tightly to widen their second moments again; the covariance is that of clipped rows."
        return replace(plain, notes=(note,))
    note = (
        f"{clipped}, which about {100 * widening.share_clipped:.2g} % of them exceed; their second moments were "
        "widened again under a Gaussian model."
    )
    mean_sd = float(moments.mean_noise_sd[0]) / widening.mean_kept
    error = widened_error(widening, n, _noise_sd(moments)).plus_noisy_mean(widening.mean, mean_sd)
    wide = widening.row_covariance(n, moments.mean_noise_sd)
    return replace(plain, covariance=wide, error=error, notes=(note,))
