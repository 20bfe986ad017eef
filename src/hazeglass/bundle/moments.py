"""Released moments and the file they travel in: one row per number, moments.parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hazeglass.errors import BundleError
from hazeglass.features.harmonics import DEGREES, Feature, features_of

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
_ENTRIES_AT_ONCE = 1 << 20
MOMENT_COLUMNS = ["stage", "left", "left_power", "right", "right_power", "value", "noise_sd"]


@dataclass(frozen=True, eq=False)
class ReleasedMoments:
    """Noisy mean and second moments of one stage's features, with the standard deviation of each entry's noise."""

    features: tuple[Feature, ...]
    mean: FloatArray
    second: FloatArray
    mean_noise_sd: FloatArray
    second_noise_sd: FloatArray

    def covariance(self, n: int) -> FloatArray:
        """Unbiased covariance of the features: the noise of a mean, squared, is taken back from the diagonal."""
        product = np.outer(self.mean, self.mean) - np.diag(self.mean_noise_sd**2)
        return np.asarray((self.second - product) * n / (n - 1))

    def linear_part(self) -> ReleasedMoments:
        """The moments of the columns themselves."""
        kept = np.array([k for k, feature in enumerate(self.features) if feature.power == 1])
        both = np.ix_(kept, kept)
        return ReleasedMoments(
            tuple(self.features[k] for k in kept),
            self.mean[kept],
            self.second[both],
            self.mean_noise_sd[kept],
            self.second_noise_sd[both],
        )


def moment_rows(features: int) -> int:
    """How many numbers a stage releases."""
    return features + features * (features + 1) // 2


def moment_batches(features: int) -> int:
    """In how many batches, and so in how many row groups, a stage is written at most."""
    return 1 + -(-features // _matrix_rows(features))


def _matrix_rows(features: int) -> int:
    """How many rows of the matrix go into a batch."""
    return max(1, _ENTRIES_AT_ONCE // features)


def moments_schema() -> pa.Schema:
    """Columns of moments.parquet; `right` is null where the row is a mean."""
    import pyarrow as pa

    types = [pa.int8(), pa.string(), pa.int8(), pa.string(), pa.int8(), pa.float64(), pa.float64()]
    return pa.schema(list(zip(MOMENT_COLUMNS, types, strict=True)))


def moments_to_arrow(stages: Sequence[ReleasedMoments]) -> Iterator[pa.RecordBatch]:
    """All stages, one after the other: each one's means, then the rows of its matrix from the diagonal on."""
    import pyarrow as pa

    schema = moments_schema()
    for number, stage in enumerate(stages, start=1):
        columns = pa.array([feature.column for feature in stage.features])
        powers = pa.array([feature.power for feature in stage.features], type=pa.int8())
        for left, right, value, noise in _entries(stage):
            at_left, at_right = pa.array(left), pa.array(right, mask=right < 0)
            kind = pa.array(np.full(left.size, number, dtype=np.int8))
            names = columns.take(at_left), powers.take(at_left), columns.take(at_right), powers.take(at_right)
            yield pa.RecordBatch.from_arrays([kind, *names, pa.array(value), pa.array(noise)], schema=schema)


def _entries(stage: ReleasedMoments) -> Iterator[tuple[IndexArray, IndexArray, FloatArray, FloatArray]]:
    """Numbers of the features, value and noise of every entry, some at a time; a mean has -1 for its right feature."""
    p = len(stage.features)
    yield np.arange(p), np.full(p, -1), stage.mean, stage.mean_noise_sd
    step = _matrix_rows(p)
    for start in range(0, p, step):
        i, j = np.triu_indices(min(step, p - start), 0, p - start)
        i, j = i + start, j + start
        yield i, j, stage.second[i, j], stage.second_noise_sd[i, j]


def moments_from_arrow(table: pa.Table, stage: int, names: tuple[str, ...], kind: str) -> ReleasedMoments:
    """One stage back from the file, refused when an entry is missing, unknown or not a number."""
    import pyarrow.compute as pc

    features = features_of(names, kind)
    p = len(features)
    table = table.filter(pc.equal(table["stage"], stage))
    left, right = (_feature_numbers(table, side, names, DEGREES[kind]) for side in ("left", "right"))
    value, noise = (table[name].to_numpy().astype(np.float64) for name in ("value", "noise_sd"))
    is_mean = table["right"].is_null().to_numpy()
    if (left < 0).any() or (right[~is_mean] < 0).any():
        raise BundleError("moments.parquet names a column that release.json does not. Ask for a new copy.")
    mean, mean_sd = np.full(p, np.nan), np.full(p, np.nan)
    second, second_sd = np.full((p, p), np.nan), np.full((p, p), np.nan)
    mean[left[is_mean]], mean_sd[left[is_mean]] = value[is_mean], noise[is_mean]
    i, j = left[~is_mean], right[~is_mean]
    second[i, j] = second[j, i] = value[~is_mean]
    second_sd[i, j] = second_sd[j, i] = noise[~is_mean]
    if not all(np.isfinite(part).all() for part in (mean, mean_sd, second, second_sd)):
        raise BundleError("moments.parquet lacks an entry or holds a value that is not a number. Ask for a new copy.")
    return ReleasedMoments(features, mean, second, mean_sd, second_sd)


def _feature_numbers(table: pa.Table, side: str, names: tuple[str, ...], degrees: int) -> IndexArray:
    """The number of the feature on one side of every entry, -1 where there is no such feature."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known_names = pa.array(names, type=pa.string())
    # Each name that occurs is looked up once, and numbers take its place: a long one is never repeated in memory.
    chunks = table[side].dictionary_encode().chunks
    numbers = [pc.index_in(chunk.dictionary, known_names).take(chunk.indices) for chunk in chunks]
    column = pc.fill_null(pa.chunked_array(numbers, type=pa.int32()), -1).to_numpy()
    power = pc.fill_null(table[f"{side}_power"], 0).to_numpy()
    known = (column >= 0) & (power >= 1) & (power <= degrees)
    return np.where(known, column.astype(np.int64) * degrees + power - 1, -1)
