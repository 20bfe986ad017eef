"""What any release comes down to: a covariance estimate, and how its error is distributed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.clipping import widened_error
from hazeglass.analyst.scatter import scatter_of
from hazeglass.analyst.uncertainty import ErrorModel
from hazeglass.bundle.manifest import Stage
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Engine, Serial
from hazeglass.features.clipping import widen

__all__ = ["NoisyCovariance", "covariance_of", "covariance_of_rows", "noise_of", "rows_of"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyCovariance:
    """An estimate of a covariance from noisy data: the noise's own part is subtracted, so it may be indefinite."""

    names: tuple[str, ...]
    n: int
    covariance: FloatArray
    error: ErrorModel
    notes: tuple[str, ...] = ()

    def with_covariance(self, covariance: FloatArray) -> NoisyCovariance:
        """The same error about another value."""
        return replace(self, covariance=covariance)

    def rescaled(self, factors: FloatArray) -> NoisyCovariance:
        """The same for columns multiplied by `factors`."""
        covariance = self.covariance * np.outer(factors, factors)
        return NoisyCovariance(self.names, self.n, covariance, self.error.rescaled(factors), self.notes)


def covariance_of(release: Release, engine: Engine | None = None) -> NoisyCovariance:
    """The corrected covariance of a release: of the released columns (table), or of the last stage's rows (moments)."""
    if release.form == "table":
        return _from_table(release, engine or Serial())
    return _from_moments(release.moments()[-1], release.manifest.stages[-1], release)


def covariance_of_rows(rows: FloatArray, noise: FloatArray, names: tuple[str, ...]) -> NoisyCovariance:
    """cov(X~) minus the known covariance of the noise in a row."""
    observed = np.cov(rows, rowvar=False).reshape(len(names), len(names))
    return _without_noise(observed, noise, len(rows), names)


def rows_of(release: Release) -> FloatArray:
    """The rows of a table release."""
    table = release.table()
    return np.column_stack([table.column(name).to_numpy() for name in release.manifest.names]).astype(np.float64)


def noise_of(release: Release) -> FloatArray:
    """The covariance of the noise in each row of a table release (exact variances, no correlation)."""
    return np.diag([column.cell_noise.variance if column.cell_noise else 0.0 for column in release.columns])


def _without_noise(
    observed: FloatArray, noise: FloatArray, n: int, names: tuple[str, ...], notes: tuple[str, ...] = ()
) -> NoisyCovariance:
    return NoisyCovariance(names, n, observed - noise, ErrorModel.of_gaussian_rows(observed, n), notes)


def _from_table(release: Release, engine: Engine) -> NoisyCovariance:
    observed = scatter_of(release, engine).covariance()
    notes: tuple[str, ...] = ()
    if release.manifest.clip_radius is not None:
        notes = (
            f"Rows were clipped to length {release.manifest.clip_radius:.3g}; the covariance is that of clipped rows.",
        )
    return _without_noise(observed, noise_of(release), release.n, release.manifest.names, notes)


def _from_moments(moments: ReleasedMoments, stage: Stage, release: Release) -> NoisyCovariance:
    """The covariance of one stage's columns; second moments of clipped rows are widened again."""
    n, names = release.n, release.manifest.names
    linear = moments.linear_part()
    covariance = linear.covariance(n)
    noise_sd = float(linear.second_noise_sd[0, -1]) if len(names) > 1 else 0.0
    mean_sd = float(linear.mean_noise_sd[0])
    plain = ErrorModel.of_gaussian_rows(covariance, n).plus_isotropic(noise_sd).plus_noisy_mean(linear.mean, mean_sd)
    if not stage.clipped:
        return NoisyCovariance(names, n, covariance, plain)
    clipped = f"Rows were clipped to length {stage.radius:.3g}"
    if stage.features != "linear":
        note = f"{clipped} together with their squares and cubes; the covariance is that of the clipped rows."
        return NoisyCovariance(names, n, covariance, plain, (note,))
    widening = widen(linear.second, stage.radius, linear.mean)
    if widening is None:
        note = f"{clipped}, too tightly to widen their second moments again; the covariance is that of clipped rows."
        return NoisyCovariance(names, n, covariance, plain, (note,))
    note = (
        f"{clipped}, which about {100 * widening.share_clipped:.2g} % of them exceed; their second moments were "
        "widened again under a Gaussian model."
    )
    wide = widening.row_covariance(n, linear.mean_noise_sd)
    error = widened_error(widening, n, noise_sd).plus_noisy_mean(widening.mean, mean_sd / widening.mean_kept)
    return NoisyCovariance(names, n, wide, error, (note,))
