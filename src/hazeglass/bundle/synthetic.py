"""The mean and covariance that synthetic rows have: the publisher gives them to the rows, a reader finds them again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import Column, Manifest, Stage
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.errors import BundleError
from hazeglass.features.clipping import widen

FloatArray = npt.NDArray[np.float64]

_FLOOR = 1e-9
# Undoing the clipping is an iteration; where it hardly converges, another processor's roundings show in the 5th digit.
_TOLERANCE = 1e-3
_LARGEST_WHOLE = 2.0**53  # rounded cells are moved into this range


@dataclass(frozen=True, eq=False)
class SyntheticTarget:
    """What the rows have exactly: their mean in the unit of the released (transformed) columns, their covariance in the
    stage's, because columns of very different units have no common scale; integers before they are rounded.

    unit      what one unit of the stage is in the released columns
    widened   whether the moments of clipped rows were widened
    moved     the largest change of an entry, on the stage's scale, that made the covariance positive definite
    """

    mean: FloatArray
    covariance: FloatArray
    unit: FloatArray
    widened: bool
    moved: float


def synthetic_target(
    stage: Stage, moments: ReleasedMoments, columns: tuple[Column, ...], n: int, *, widened: bool
) -> SyntheticTarget:
    """From one stage's moments: widened if asked for and possible, moved to the nearest covariance if need be."""
    widening = widen(moments.second, stage.radius, moments.mean) if widened else None
    if widening is None:
        stage_mean, covariance = moments.mean, moments.covariance(n)
    else:
        stage_mean, covariance = widening.mean, widening.row_covariance(n, moments.mean_noise_sd)
    covariance, moved = _repaired(covariance)
    half = np.array([column.half_width for column in columns])
    unit_mean = np.array(stage.centre) + np.array(stage.scale) * stage_mean
    mean = np.array([column.centre for column in columns]) + half * unit_mean
    unit = np.array(stage.scale) * half
    return SyntheticTarget(mean, covariance, unit, widening is not None, moved)


def _repaired(covariance: FloatArray) -> tuple[FloatArray, float]:
    """The nearest matrix in the Frobenius norm without an eigenvalue below a floor, and the largest change of an entry.

    Noise may leave no eigenvalue above 0, so the floor is a share of the largest in size, whatever its sign.
    """
    values, vectors = np.linalg.eigh(covariance)
    floor = _FLOOR * max(float(np.abs(values).max()), _FLOOR)
    if values[0] >= floor:
        return covariance, 0.0
    repaired = (vectors * np.maximum(values, floor)) @ vectors.T
    return np.asarray(repaired), float(np.abs(repaired - covariance).max())


def check_synthetic(manifest: Manifest, moments: ReleasedMoments, blocks: Iterable[FloatArray]) -> None:
    """Refuse rows with another mean or covariance than the released moments give, as far as rounding allows.

    Where the note says that moments were widened and this computer's iteration does not converge, nothing is known to
    compare with, and the rows are only read.
    """
    try:
        with np.errstate(all="ignore"):  # a forger's numbers may be anything; what is not a number is refused below
            right = _have_moments(manifest, moments, blocks)
    except np.linalg.LinAlgError:
        right = False
    if not right:
        raise BundleError(
            "the synthetic rows do not have the mean and covariance that the released moments give. Do not rely on it."
        )


def _have_moments(manifest: Manifest, moments: ReleasedMoments, blocks: Iterable[FloatArray]) -> bool:
    assert manifest.synthetic is not None
    stated = manifest.synthetic.widened
    target = synthetic_target(manifest.stages[-1], moments, manifest.columns, manifest.n, widened=stated)
    covariance = target.covariance
    first, second = np.zeros(len(target.mean)), np.zeros(covariance.shape)
    for block in blocks:
        rows = (block - target.mean) / target.unit
        first += rows.sum(axis=0)
        second += rows.T @ rows
    if target.widened != stated:  # rows in the ball cannot be longer than it on average, and then nothing is widened
        return bool(np.maximum(np.linalg.eigvalsh(moments.second), 0.0).sum() < manifest.stages[-1].radius ** 2)
    mean = first / manifest.n
    found = (second - manifest.n * np.outer(mean, mean)) / (manifest.n - 1)
    rounding = _rounding(manifest, target)
    largest = float(np.linalg.eigvalsh(covariance)[-1])
    deviation = np.sqrt(np.diag(covariance) + _TOLERANCE * largest)
    both = np.outer(deviation, rounding)
    mean_allowed = _TOLERANCE * np.sqrt(largest) + rounding
    allowed = _TOLERANCE * largest + both + both.T + np.outer(rounding, rounding)
    return bool(np.all(np.abs(mean) <= mean_allowed) and np.all(np.abs(found - covariance) <= allowed))


def _rounding(manifest: Manifest, target: SyntheticTarget) -> FloatArray:
    """By how much rounding may move a cell, on the stage's scale; there is no telling where cells reach beyond 2^53."""
    reach = np.abs(target.mean) + target.unit * np.sqrt(manifest.n * np.diag(target.covariance))
    moved = np.where(reach < _LARGEST_WHOLE, 0.5, np.inf)
    return np.where(manifest.whole_columns, moved / target.unit, 0.0)
