"""Released numbers and the files they travel in: counts in marginals.parquet, moments in moments.parquet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.columns import Column
from hazeglass.bundle.contents import REACH, on_lattice
from hazeglass.bundle.manifest import SEASON_NAMES, Manifest, Series, Stage
from hazeglass.errors import BundleError
from hazeglass.features.fitting import Counts
from hazeglass.features.harmonics import Feature, features_of
from hazeglass.features.marginal import MOST_LEAVES
from hazeglass.guarantee.budget import Lifetime
from hazeglass.guarantee.lattice import RoundedGaussian
from hazeglass.guarantee.units import Unit

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
_ENTRIES_AT_ONCE, _LAST_BITS = 1 << 20, 1e-12
# Columns of moments.parquet; `right` is null where the row is a mean.
MOMENT_COLUMNS = {
    "stage": "int8",
    "left": "string",
    "left_power": "int8",
    "right": "string",
    "right_power": "int8",
    "value": "double",
    "noise_sd": "double",
    "map": "double",
}
# Of marginals.parquet; the bounds of a leaf are on [-1, 1], and both 0 in the row of missing cells.
MARGINAL_COLUMNS = {"round": "int8", "column": "string", "lower": "double", "upper": "double", "count": "int64"}
MOST_INDICATORS = 127  # levels of a categorical column: their numbers are written in one byte


@dataclass(frozen=True, eq=False)
class ReleasedMoments:
    """Noisy mean and second moments of one stage's features, with the standard deviation of each entry's noise.

    map  the symmetric matrix that rows were multiplied by before they were clipped; None for the identity
    """

    features: tuple[Feature, ...]
    mean: FloatArray
    second: FloatArray
    mean_noise_sd: FloatArray
    second_noise_sd: FloatArray
    map: FloatArray | None = None

    def __repr__(self) -> str:
        columns = len({feature.column for feature in self.features})
        return f"<ReleasedMoments: mean and second moments of {len(self.features)} features of {columns} columns>"

    def covariance(self, n: int) -> FloatArray:
        """Unbiased covariance of the features: the noise of a mean, squared, is taken back from the diagonal."""
        product = np.outer(self.mean, self.mean) - np.diag(self.mean_noise_sd**2)
        return np.asarray((self.second - product) * n / (n - 1))


def moment_rows(features: int) -> int:
    """How many numbers a stage releases."""
    return features + features * (features + 1) // 2


def moment_batches(features: int) -> int:
    """In how many batches, and so in how many row groups, a stage is written at most."""
    return 1 + -(-features // _matrix_rows(features))


def _matrix_rows(features: int) -> int:
    """How many rows of the matrix go into a batch."""
    return max(1, _ENTRIES_AT_ONCE // features)


def schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """Of one of the two files."""
    import pyarrow as pa

    return pa.schema(list(columns.items()))


def moments_to_arrow(stages: Sequence[ReleasedMoments]) -> Iterator[pa.RecordBatch]:
    """All stages, one after the other: each one's means, then the rows of its matrix from the diagonal on."""
    import pyarrow as pa

    schema = schema_of(MOMENT_COLUMNS)
    for number, stage in enumerate(stages, start=1):
        columns = pa.array([feature.column for feature in stage.features])
        powers = pa.array([feature.power for feature in stage.features], type=pa.int8())
        for left, right, *values in _entries(stage):
            at_left, at_right = pa.array(left), pa.array(right, mask=right < 0)
            kind = pa.array(np.full(left.size, number, dtype=np.int8))
            names = columns.take(at_left), powers.take(at_left), columns.take(at_right), powers.take(at_right)
            yield pa.RecordBatch.from_arrays([kind, *names, *map(pa.array, values)], schema=schema)


def _entries(stage: ReleasedMoments) -> Iterator[tuple[IndexArray, IndexArray, FloatArray, FloatArray, FloatArray]]:
    """Numbers of the features, value, noise and map of every entry, some at a time; a mean has -1 on its right."""
    p = len(stage.features)
    yield np.arange(p), np.full(p, -1), stage.mean, stage.mean_noise_sd, np.zeros(p)
    step = _matrix_rows(p)
    for start in range(0, p, step):
        i, j = np.triu_indices(min(step, p - start), 0, p - start)
        i, j = i + start, j + start
        mapped = (i == j).astype(np.float64) if stage.map is None else stage.map[i, j]
        yield i, j, stage.second[i, j], stage.second_noise_sd[i, j], mapped


def stage_features(columns: Sequence[Column], stage: Stage) -> tuple[Feature, ...]:
    """What a stage took moments of: columns, or functions of them; behind them the levels of categorical columns."""
    if stage.features == "seasons":  # of every column once, and the levels of each season
        levels = (Feature(SEASON_NAMES[size], level) for size in stage.levels for level in range(1, size + 1))
        return (*(Feature(one.name, 1) for one in columns), *levels)
    if stage.lags:  # of a column the latest cell first, then the ones before it
        own = [columns[k] for k in stage.of] if stage.of else columns
        return tuple(Feature(one.name, 1 + lag) for one in own for lag in range(stage.lags + 1))
    if stage.of:
        return features_of(tuple(columns[k].name for k in stage.of), stage.features)
    numbers = features_of(tuple(one.name for one in columns if one.ordered or not stage.levels), stage.features)
    if not stage.levels:
        return numbers
    apart = ((one.name, len(one.levels)) for one in columns if not one.ordered)
    return (*numbers, *(Feature(name, level) for name, levels in apart for level in range(1, levels + 1)))


def moments_from_arrow(table: pa.Table, number: int, columns: Sequence[Column], stage: Stage) -> ReleasedMoments:
    """One stage back from the file, refused when an entry is missing, unknown or not a number."""
    import pyarrow.compute as pc

    features = stage_features(columns, stage)
    p = len(features)
    table = table.filter(pc.equal(table["stage"], number))
    left, right = (_feature_numbers(table, side, features) for side in ("left", "right"))
    value, noise, mapped = (table[name].to_numpy().astype(np.float64) for name in ("value", "noise_sd", "map"))
    is_mean = table["right"].is_null().to_numpy()
    if (left < 0).any() or (right[~is_mean] < 0).any():
        raise BundleError("moments.parquet names a column that release.json does not. Ask for a new copy.")
    if not (_in_order(left, right, p) and np.array_equal(is_mean, table["right_power"].is_null().to_numpy())):
        raise BundleError("moments.parquet does not hold every entry once and in order. Ask for a new copy.")
    mean, mean_sd = np.full(p, np.nan), np.full(p, np.nan)
    second, second_sd, through = (np.full((p, p), np.nan) for _ in range(3))
    mean[left[is_mean]], mean_sd[left[is_mean]] = value[is_mean], noise[is_mean]
    i, j = left[~is_mean], right[~is_mean]
    for matrix, entries in ((second, value), (second_sd, noise), (through, mapped)):
        matrix[i, j] = matrix[j, i] = entries[~is_mean]
    if not all(np.isfinite(part).all() for part in (mean, mean_sd, second, second_sd, through)):
        raise BundleError("moments.parquet holds a value that is not a number. Ask for a new copy.")
    unsaid = mapped[is_mean].any() or (not stage.mapped and not np.array_equal(through, np.eye(p)))
    if unsaid or np.signbit(mapped[is_mean] if stage.mapped else mapped).any():
        raise BundleError("moments.parquet holds a map where release.json states none. Do not rely on it.")
    return ReleasedMoments(features, mean, second, mean_sd, second_sd, through if stage.mapped else None)


def _in_order(left: IndexArray, right: IndexArray, p: int) -> bool:
    """The means, whose right is -1, and then the rows of the matrix from the diagonal on."""
    below, above = left[:p], left[p:]
    means = np.array_equal(below, np.arange(p)) and bool(np.all(right[:p] == -1))
    return means and np.array_equal(above * (2 * p - above - 1) // 2 + right[p:], np.arange(p * (p + 1) // 2))


def _feature_numbers(table: pa.Table, side: str, features: Sequence[Feature]) -> IndexArray:
    """The number of the feature on one side of every entry, -1 where there is no such feature."""
    import pyarrow.compute as pc

    sizes = Counter(feature.column for feature in features)  # in the order of the features
    last = np.cumsum(list(sizes.values()))
    column = _places(table[side], sizes)
    power = pc.fill_null(table[f"{side}_power"], 0).to_numpy()
    size = np.array(list(sizes.values()))[column]
    known = (column >= 0) & (power >= 1) & (power <= size)
    return np.where(known, last[column] - size + power - 1, -1)


def _places(words: pa.ChunkedArray, names: Iterable[str]) -> IndexArray:
    """Where each word stands among the names; -1 where it does not, or is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = pa.array(list(names), type=pa.string())
    # Each name that occurs is looked up once, and numbers take its place: a long one is never repeated in memory.
    chunks = words.dictionary_encode().chunks
    places = [pc.index_in(chunk.dictionary, known).take(chunk.indices) for chunk in chunks]
    return np.asarray(pc.fill_null(pa.chunked_array(places, type=pa.int32()), -1).to_numpy(), dtype=np.int64)


def pooled_rows(stages: Sequence[Stage]) -> int:
    """The number of rows of a release whose stages each state one: the mean by how well each is known.

    >>> made = {"mu": 1.0, "radius": 2.0, "clipped": True, "mean_weight": 1.0, "tau": 1.0, "steps": 1}
    >>> made |= {"family": "rounded-gaussian", "centre": ()}
    >>> pooled_rows([Stage(**made, rows=90, count_weight=1.0), Stage(**made, rows=120, count_weight=2.0)])
    114
    """
    if not all(stage.count_weight for stage in stages):
        return stages[-1].rows
    weights = [(stage.count_weight / stage.tau) ** 2 for stage in stages]
    return round(sum(w * stage.rows for w, stage in zip(weights, stages, strict=True)) / sum(weights))


def released_rows(series: Series | None, unit: Unit, rows: int, stages: Sequence[Stage]) -> int:
    """The number of rows that a release states: the public one, or where persons are protected what stages make of it.

    Of stacked records that of the data is public, and only the number of stacks is not; of persons in time it is the
    number of stacks.
    """
    if series is None:
        return pooled_rows(stages)
    return pooled_rows([one for one in stages if one.lags]) if unit.name == "person" else rows


def whole_scale(scale: float) -> float:
    """The next whole number: never too little noise, and exact."""
    return float(math.ceil(scale * (1 + 1e-15)))


def noise_of(stage: Stage, fine: int = 1) -> tuple[RoundedGaussian, RoundedGaussian, RoundedGaussian]:
    """On the sums of a stage's rows, of their squares, and of products of two features, in steps of their lattices,
    which are `fine` times as fine as the stage's."""
    tau, squares = stage.tau * fine, stage.steps**2
    scales = tau * stage.steps / stage.mean_weight, math.sqrt(2) * tau * squares, tau * squares
    mean, square, other = (RoundedGaussian(whole_scale(scale)) for scale in scales)
    return mean, square, other


def most_rows(manifest: Manifest) -> int:
    """At most how many rows are behind a release, by its public numbers."""
    return manifest.n if manifest.persons is None else manifest.persons * manifest.unit.max_rows


def running_rows(lifetime: Lifetime, most: int) -> int:
    """The number of rows so far that the draws give, moved to where it can lie."""
    found = math.fsum(w * count for w, count in zip(lifetime.weights, lifetime.counts, strict=True)) / lifetime.fine
    return int(np.clip(np.rint(found), 2, most))


def running_moments(draws: Sequence[ReleasedMoments], manifest: Manifest, lifetime: Lifetime) -> ReleasedMoments:
    """The moments of all rows so far, from the noisy sums of every draw."""
    stage, weights, first = manifest.stages[0], np.array(lifetime.weights), draws[0]
    draw = replace(stage, tau=stage.tau / lifetime.error)
    for one in draws:
        _check_noised(one, draw, most_rows(manifest), 1, lifetime.fine)
    return ReleasedMoments(
        first.features,
        np.tensordot(weights, [one.mean for one in draws], 1) / stage.rows,
        np.tensordot(weights, [one.second for one in draws], 1) / stage.rows,
        first.mean_noise_sd * lifetime.error / stage.rows,
        first.second_noise_sd * lifetime.error / stage.rows,
    )


def check_moments(released: ReleasedMoments, manifest: Manifest, number: int) -> ReleasedMoments:
    """The moments of a stage, once they are seen to have its noise."""
    stage = manifest.stages[number]
    _check_noised(released, stage, most_rows(manifest), stage.rows)
    return released


def _check_noised(released: ReleasedMoments, stage: Stage, most: int, rows: int, fine: int = 1) -> None:
    """The noise stated beside each number is that of the stage; none lies off its lattice, or farther out than `most`
    rows and noise can make it. Sums were divided by `rows`, and lattices are `fine` times as fine as the stage's."""
    off_diagonal = released.second_noise_sd[~np.eye(len(released.mean), dtype=bool)]
    of_stage = released.mean_noise_sd, np.diag(released.second_noise_sd), off_diagonal
    step, square = 1 / (stage.steps * fine), 1 / (stage.steps**2 * fine)
    for stated, noise, one in zip(of_stage, noise_of(stage, fine), (step, square, square), strict=True):
        expected = math.sqrt(noise.variance) * one / rows
        if stated.size and not (np.ptp(stated) == 0 and math.isclose(stated[0], expected, rel_tol=_LAST_BITS)):
            raise BundleError("moments.parquet states other noise than release.json. Do not rely on it.")
    mean = most * stage.longest + REACH * (stage.tau / stage.mean_weight + 2 * step)
    second = most * stage.longest**2 + REACH * (np.sqrt(2) * stage.tau + 2 * square)
    for found, largest, one in ((released.mean, mean, step), (released.second, second, square)):
        if not np.abs(found).max() <= largest / rows:
            raise BundleError("moments.parquet holds a number that is too large for any noise. Do not rely on it.")
        if not all(on_lattice(row, one / rows) for row in np.atleast_2d(found)):  # few at a time
            raise BundleError("moments.parquet holds a number off its lattice, without noise. Do not rely on it.")
    if not _of_rows_and_noise(released.second * rows, most * stage.longest**2, second):
        raise BundleError("moments.parquet holds sums that rows and noise cannot make. Do not rely on it.")


def _of_rows_and_noise(second: FloatArray, length: float, largest: float) -> bool:
    """Whether sums of squares are not below 0, together no more than rows are long, and products no more than they."""
    own, reach = np.diag(second), largest - length
    whole, roots = length + math.sqrt(own.size) * reach, np.sqrt(np.maximum(own, 0.0) + reach)
    apart = np.abs(second) - np.outer(roots, roots)
    np.fill_diagonal(apart, 0.0)
    return bool(own.min() >= -reach and own.sum() <= whole and apart.max() <= reach)


# ------------------------------------------------------------------------------------------------------------ marginals


def most_counts(columns: Sequence[Column]) -> int:
    """At most how many counts a round releases: of leaves or levels, and of missing cells."""
    return sum(max(MOST_LEAVES, len(column.levels)) + 1 for column in columns)


def marginals_to_arrow(names: tuple[str, ...], rounds: Sequence[Sequence[Counts]]) -> Iterator[pa.RecordBatch]:
    """Round after round, column after column, its leaves in order and then its missing cells."""
    import pyarrow as pa

    schema = schema_of(MARGINAL_COLUMNS)
    for number, columns in enumerate(rounds, start=1):
        sizes = [one.counts.size + 1 for one in columns]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(sum(sizes), number, dtype=np.int8)),
                pa.array(names).take(pa.array(np.repeat(np.arange(len(names)), sizes))),
                pa.array(np.concatenate([[*one.borders[:-1], 0.0] for one in columns])),
                pa.array(np.concatenate([[*one.borders[1:], 0.0] for one in columns])),
                pa.array(np.concatenate([[*one.counts, one.missing] for one in columns]).astype(np.int64)),
            ],
            schema=schema,
        )


def marginals_from_arrow(table: pa.Table, manifest: Manifest, noise_sds: Sequence[float]) -> list[list[Counts]]:
    """The counts of every round and column, refused where they are not in order."""
    p = len(manifest.names)
    wrong = BundleError("marginals.parquet does not hold the counts of every column in order. Ask for a new copy.")
    if any(part.null_count for part in table.columns):
        raise wrong
    number = table["round"].to_numpy().astype(np.int64)
    column = _places(table["column"], manifest.names)
    lower, upper = (table[name].to_numpy().astype(np.float64) for name in ("lower", "upper"))
    count = table["count"].to_numpy().astype(np.float64)
    place = (number - 1) * p + column
    expected = np.arange(len(manifest.rounds) * p)
    if (column < 0).any() or not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise wrong
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    if not np.array_equal(place[starts], expected):
        raise wrong
    reach = REACH * (np.array(noise_sds)[number - 1] + 2)
    if not np.all((count >= -reach) & (count <= most_rows(manifest) + reach)):
        raise BundleError("marginals.parquet holds a count that no noise reaches. Do not rely on it.")
    rounds: list[list[Counts]] = [[] for _ in manifest.rounds]
    for k, (start, end) in enumerate(zip(starts, [*starts[1:], place.size], strict=True)):
        low, high = lower[start : end - 1], upper[start : end - 1]
        borders = np.append(low, high[-1:])
        adjacent = np.array_equal(low[1:], high[:-1]) and bool(np.all(np.diff(borders) > 0))
        if end - start < 2 or not adjacent or lower[end - 1] != 0 or upper[end - 1] != 0:
            raise wrong
        whole, most = count[start:end].sum(), most_rows(manifest)  # every row is in one leaf, or missing
        room = REACH * (noise_sds[k // p] + 2) * math.sqrt(end - start)
        if not (most if manifest.persons is None else 0) - room <= whole <= most + room:
            raise BundleError("marginals.parquet counts more or fewer rows than there are. Do not rely on it.")
        counts = Counts(borders, count[start : end - 1], float(count[end - 1]), noise_sds[k // p])
        rounds[k // p].append(counts)
    return rounds
