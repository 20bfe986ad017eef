"""Rows from any release of moments, at no further cost in privacy: they follow from its numbers and a seed alone.

Columns are in the unit of the data again: transforms undone, whole numbers whole, levels as words, and cells missing as
often as the release says. Several copies come each from numbers with noise of their own, so that what differs between
them shows how much noise a result carries (docs/maths/markov.md).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.columns import ABSENCE, Column, unit_step
from hazeglass.bundle.contents import as_words
from hazeglass.bundle.manifest import Manifest, SyntheticNote
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.bundle.reader import Release, load
from hazeglass.bundle.synthetic import FieldRows, SyntheticRows, synthetic_rows, warn_of
from hazeglass.bundle.targets import present
from hazeglass.errors import DataError, InputError, quotes_no_cell
from hazeglass.features.marginal import Marginal, often_missing
from hazeglass.markov.draw import Check

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray = npt.NDArray[np.float64]

MOST_ROWS, MOST_COPIES, _LARGEST_SEED = 1 << 30, 100, 2**53 - 1
_UNDONE: dict[str, Callable[[FloatArray], FloatArray]] = {
    "log": np.exp,
    "log1p": np.expm1,
    "sqrt": np.square,
    "asinh": np.sinh,
}


def synthesize(
    release: Release | str | Path, rows: int, *, seed: int | None = None, exact: bool = False, missing: bool = True
) -> pa.Table:
    """Rows that look like those behind a release and follow from its numbers alone.

    Parameters
    ----------
    release : a release of moments, or of synthetic rows, or its place (it is verified first)
    rows : how many
    seed : the same seed gives the same rows; None takes a new one
    exact : rows whose sample mean and covariance are exactly the released ones, whatever the bounds say; for releases
        on the linear or the public scale
    missing : whether cells are missing as often as in the data; a column that says where cells of another are missing
        then takes effect and is left out

    Returns
    -------
    pyarrow.Table
        Its schema's metadata holds under b"hazeglass" what was checked, as JSON.

    Warns
    -----
    ConvergenceWarning
        where the rows do not have what was released, as chains that hardly move may leave it
    """
    release = load(release) if isinstance(release, str | Path) else release
    if not isinstance(release, Release):
        raise InputError(f"rows are drawn from a release or its place, got {type(release).__name__}.")
    made = Synthesis(release, rows, _seed(seed), exact=exact, missing=missing)
    table = made.table()
    made.warn()
    return table.replace_schema_metadata({b"hazeglass": json.dumps(made.checked()).encode()})


@dataclass(eq=False)
class Synthesis:
    """Rows to be drawn from a release; copy 0 is drawn from the released numbers themselves.

    copy  others are drawn from the released numbers with noise of the stated size added to each
    """

    release: Release
    rows: int
    seed: int
    exact: bool = False
    missing: bool = True
    copy: int = 0
    progress: Callable[[float], None] | None = None

    def __post_init__(self) -> None:
        if self.release.form == "table":
            raise InputError(
                "rows are drawn from moments, and this is a table: its rows have noise in every cell. Read them with "
                "release.table(), or `hazeglass export`."
            )
        if self.release.manifest.series is not None:
            raise InputError(
                "rows in time cannot be drawn: the release holds moments of rows with those before them, and drawn "
                "rows would follow nothing. Publish the rows as independent for that."
            )
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or not 1 <= self.rows <= MOST_ROWS:
            raise InputError(f"rows must be a whole number from 1 to {MOST_ROWS:,}, got {self.rows!r}.")
        if self.exact and self.release.manifest.scale == "scores":
            raise InputError(
                "exact rows need a release on the linear or the public scale; this one is on the scale of scores, "
                "whose rows keep ranks. Leave exact out."
            )

    @cached_property
    def manifest(self) -> Manifest:
        """That of the release with a note on these rows."""
        offset = 0 if self.release.manifest.synthetic is None else self.release.manifest.synthetic.offset
        return replace(self.release.manifest, synthetic=SyntheticNote(self.seed, True, self.exact, offset))

    @cached_property
    def marginals(self) -> tuple[Marginal, ...]:
        """What is known of every column."""
        known = self.release.marginals()
        if self.copy == 0:
            return known
        gaps = often_missing(known)
        return tuple(_noisier_counts(one, self._rng(k), missing=k in gaps) for k, one in enumerate(known))

    def _rng(self, *of: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, self.copy, *of))

    @cached_property
    def made(self) -> SyntheticRows:
        """How they are drawn; as many as a covariance takes at least."""
        moments: Sequence[ReleasedMoments] = self.release.moments()
        extra = 1.0
        if self.copy:
            # Numbers that were released with noise got more of it: together they have the square root of 2 as much.
            moments, extra = [_noisier(one, self._rng(1000, k)) for k, one in enumerate(moments)], 2**0.5
        least = len(self.manifest.columns) + 2
        with np.errstate(all="ignore"):
            made = synthetic_rows(self.manifest, moments, self.marginals, max(self.rows, least), extra)
        if isinstance(made, FieldRows):
            made.progress = self.progress
        return made

    @property
    def check(self) -> Check | None:
        """How well rows have the released tables; None where they have the released correlations by construction."""
        return self.made.check

    def checked(self) -> dict[str, Any]:
        """The same for files."""
        found: dict[str, Any] = {"rows": self.rows, "seed": self.seed, "copy": self.copy, "exact": self.exact}
        names = self.manifest.names
        if self.check is not None:
            found |= {
                "model": "a pairwise Markov field",
                "pairs": len(self.check.agreement),
                "worst_agreement": round(self.check.worst, 4),
                "apart": [[names[i], names[j]] for i, j in self.check.apart],
                "stuck": [names[k] for k in self.check.stuck],
                "passed": self.check.passed,
            }
        else:
            found |= {"model": "normal numbers behind every column", "passed": True}
        return found

    def warn(self) -> None:
        """Say where rows do not have what was released."""
        warn_of(self.made, self.manifest.names)

    def tables(self) -> Iterator[pa.Table]:
        """The rows, some at a time."""
        import pyarrow as pa

        left, there = self.rows, present(self.marginals) if self.marginals else np.ones(len(self.manifest.columns))
        for number, block in enumerate(self.made.blocks()):
            block, rng = block[:left], self._rng(2000, number)
            left -= len(block)
            hidden = _hidden(self.manifest.columns, block, there, rng) if self.missing else {}
            names, arrays = [], []
            for k, column in enumerate(self.manifest.columns):
                if column.part == ABSENCE and self.missing:
                    continue
                names.append(column.name)
                arrays.append(_cells(column, block[:, k], hidden.get(k)))
            yield pa.table(arrays, names=names)
            if not left:
                return

    def table(self) -> pa.Table:
        """The rows."""
        import pyarrow as pa

        return pa.concat_tables(self.tables())


def _seed(seed: int | None) -> int:
    if seed is None:
        return secrets.randbelow(_LARGEST_SEED)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST_SEED:
        raise InputError(f"seed must be a whole number from 0 to 2^53 - 1, or None, got {seed!r}.")
    return seed


def _hidden(
    columns: Sequence[Column], block: FloatArray, there: FloatArray, rng: np.random.Generator
) -> dict[int, npt.NDArray[np.bool_]]:
    """Which cells are missing: where a column of its own says so, else by chance."""
    sources = {column.source: k for k, column in enumerate(columns) if column.part == ABSENCE}
    found = {}
    for k, column in enumerate(columns):
        if column.missing == "informative" and column.name in sources:
            found[k] = block[:, sources[column.name]] > 0.5
        elif there[k] < 1 and column.part != ABSENCE:
            found[k] = rng.random(len(block)) >= there[k]
    return found


def _cells(column: Column, cells: FloatArray, hidden: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Words, whole numbers or amounts, in the unit of the data."""
    import pyarrow as pa

    if column.levels:
        numbers = np.clip(np.rint(cells), 0, len(column.levels) - 1)
        return as_words(numbers if hidden is None else np.where(hidden, len(column.levels), numbers), column.levels)
    if column.transform in _UNDONE:  # rounding may lead beyond the bounds
        cells = np.clip(_UNDONE[column.transform](cells), column.lower, column.upper)
    plain = column.transform is None or column.transform in _UNDONE
    if column.counted and plain and unit_step(column, "scores") > 0:
        return pa.array(np.rint(cells).astype(np.int64), mask=hidden)
    return pa.array(cells + 0.0, mask=hidden)


def _noisier(moments: ReleasedMoments, rng: np.random.Generator) -> ReleasedMoments:
    """The moments with noise of the stated size once more."""
    p = len(moments.mean)
    upper = np.triu(rng.standard_normal((p, p)))
    noise = (upper + np.triu(upper, 1).T) * moments.second_noise_sd
    mean = moments.mean + rng.standard_normal(p) * moments.mean_noise_sd
    return replace(moments, mean=mean, second=moments.second + noise)


def _noisier_counts(known: Marginal, rng: np.random.Generator, *, missing: bool) -> Marginal:
    """The counts of all rounds with their noise once more; those of missing cells only where some are missing."""
    rounds = []
    for one in known.rounds:
        noise = one.noise_sd * rng.standard_normal(one.counts.size + 1)
        rounds.append(replace(one, counts=one.counts + noise[1:], missing=one.missing + missing * float(noise[0])))
    return replace(known, rounds=tuple(rounds))


# -------------------------------------------------------------------------------------- real rows, for a publisher


@quotes_no_cell
def raw_cells(raw: Path, columns: Sequence[Column]) -> tuple[FloatArray, list[str]]:
    """Cells on the released (transformed) scale, NaN where one is missing or cannot be read, and which columns exist.

    Columns made of parts of dates, or of whether another's cells are missing, are left out.
    """
    table = _read(raw)
    made, names = np.full((table.num_rows, len(columns)), np.nan), []
    for k, column in enumerate(columns):
        name = column.source or column.name
        if column.part is not None or column.since is not None or name not in table.column_names:
            continue
        names.append(column.name)
        made[:, k] = _numbers(table[name], column)
    if not names:
        raise InputError("the rows have none of the release's columns. Name the file that was published.")
    return made, names


def _read(raw: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    try:
        if raw.suffix.lower() == ".parquet":
            return pq.read_table(raw)
        return csv.read_csv(raw)
    except OSError as error:
        raise DataError(f"cannot read {str(raw)!r}: {error.strerror or 'it is no table'}.") from None
    except pa.ArrowInvalid:
        raise DataError(f"{str(raw)!r} must be a .parquet or a .csv with a line of names and commas.") from None


def _numbers(cells: pa.ChunkedArray, column: Column) -> FloatArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.levels:
        words = pc.utf8_trim_whitespace(pc.cast(cells, pa.string()))
        found = pc.index_in(words, pa.array(column.levels, pa.string()))
        return np.asarray(pc.fill_null(pc.cast(found, pa.float64()), float("nan")).to_numpy())
    words = pc.cast(cells, pa.string())
    plain = pc.match_substring_regex(words, r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
    numbers = pc.cast(pc.utf8_trim_whitespace(pc.if_else(plain, words, pa.scalar(None, pa.string()))), pa.float64())
    values = np.asarray(pc.fill_null(numbers, float("nan")).to_numpy())
    return column.transformed(np.clip(values, column.lower, column.upper))
