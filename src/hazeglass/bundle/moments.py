"""Released moments and the file they travel in: one row per number, moments.parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.features import Feature, features_of
from hazeglass.errors import BundleError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MOMENT_COLUMNS",
    "ReleasedMoments",
    "moment_rows",
    "moments_from_arrow",
    "moments_schema",
    "moments_to_arrow",
]

FloatArray = npt.NDArray[np.float64]
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


def moments_schema() -> pa.Schema:
    """Columns of moments.parquet; `right` is null where the row is a mean."""
    import pyarrow as pa

    types = [pa.int8(), pa.string(), pa.int8(), pa.string(), pa.int8(), pa.float64(), pa.float64()]
    return pa.schema(list(zip(MOMENT_COLUMNS, types, strict=True)))


def moments_to_arrow(stages: Sequence[ReleasedMoments]) -> pa.RecordBatch:
    """All stages, one after the other."""
    import pyarrow as pa

    schema = moments_schema()
    records = [record for k, stage in enumerate(stages) for record in _records(k + 1, stage)]
    columns = zip(*records, strict=True)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _records(number: int, stage: ReleasedMoments) -> Iterator[tuple[Any, ...]]:
    for i, left in enumerate(stage.features):
        yield number, left.column, left.power, None, None, stage.mean[i], stage.mean_noise_sd[i]
    for i, left in enumerate(stage.features):
        for j in range(i, len(stage.features)):
            right = stage.features[j]
            value, noise = stage.second[i, j], stage.second_noise_sd[i, j]
            yield number, left.column, left.power, right.column, right.power, value, noise


def moments_from_arrow(table: pa.Table, stage: int, names: tuple[str, ...], kind: str) -> ReleasedMoments:
    """One stage back from the file, refused when an entry is missing, unknown or not a number."""
    features = features_of(names, kind)
    index = {(feature.column, feature.power): k for k, feature in enumerate(features)}
    p = len(features)
    mean, mean_sd = np.full(p, np.nan), np.full(p, np.nan)
    second, second_sd = np.full((p, p), np.nan), np.full((p, p), np.nan)
    for row in table.to_pylist():
        if row["stage"] != stage:
            continue
        left = index.get((row["left"], row["left_power"]))
        right = None if row["right"] is None else index.get((row["right"], row["right_power"]))
        if left is None or (right is None and row["right"] is not None):
            raise BundleError("moments.parquet names a column that release.json does not. Ask for a new copy.")
        if right is None:
            mean[left], mean_sd[left] = row["value"], row["noise_sd"]
        else:
            second[left, right] = second[right, left] = row["value"]
            second_sd[left, right] = second_sd[right, left] = row["noise_sd"]
    if not all(np.isfinite(part).all() for part in (mean, mean_sd, second, second_sd)):
        raise BundleError("moments.parquet lacks an entry or holds a value that is not a number. Ask for a new copy.")
    return ReleasedMoments(features, mean, second, mean_sd, second_sd)
