"""What a graph can be recovered from: a release in any form, or plain rows, as they are or as normal scores."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hazeglass.analyst.covariance import covariance_of, covariance_of_rows, noise_matrix, stacks_of, stacks_of_rows
from hazeglass.analyst.graph import Origin
from hazeglass.analyst.noisy import NoisyCovariance, Stacked, covariance_of_features, observed_variances, some_of
from hazeglass.analyst.select import RowsInMemory, RowsOnDisk, rows_of
from hazeglass.analyst.series import still_in_time
from hazeglass.bundle.columns import CellNoise
from hazeglass.bundle.reader import Release, load
from hazeglass.compute.engines import Engine
from hazeglass.compute.places import SUFFIXES
from hazeglass.errors import InputError, quotes_no_cell
from hazeglass.glasso.linalg import FloatArray

_MOST_CELLS = 1 << 25  # of a table held in memory at once, for folds and subsamples: 256 MiB
_LARGEST_CELL = 1e70  # products of four cells must not overflow
_TABLES = tuple(SUFFIXES)
_MOST_NOISE = 0.1  # share of a column's variance that ranks can bear
_BINS = 40


@dataclass(frozen=True, eq=False)
class NormalScores:
    """Every column mapped to a standard normal through its ranks (a Gaussian copula).

    The covariance of `values` minus `noise` estimates the correlations of the hidden normals.

    values  s/v, one column per column
    ranked  s itself, for those who want a column and not an estimate
    noise   variance that ties and cell noise add to each column of `values`
    """

    values: FloatArray
    ranked: FloatArray
    noise: FloatArray
    note: str


@dataclass(frozen=True, eq=False)
class Source:
    """Named columns, what is known of them, and what fit.json says of where they came from.

    clean   rows that came without a release
    noise   the covariance of the error in such a row, where it is known
    cells   the noise in the cells of a table, column by column; None for a column without
    scores  the rows as normal scores, when those were asked for
    """

    names: tuple[str, ...]
    origin: Origin
    release: Release | None = None
    clean: FloatArray | None = None
    noise: FloatArray | None = None
    cells: tuple[CellNoise | None, ...] = ()
    scores: NormalScores | None = None
    rows_before: int = 0

    @property
    def lags(self) -> int:
        """How many rows before it a row in time is read with; 0 where rows are independent."""
        series = None if self.release is None else self.release.manifest.series
        return self.rows_before if series is None else series.lags

    def in_time(self, lags: int) -> Source:
        """The same rows as a series."""
        if self.release is not None and self.lags != lags:
            raise InputError(
                f"lags is for rows: this release was made with {self.lags or 'none'}, which the publisher's plan "
                'decides (rows = "series", lags). Leave it out.'
            )
        if self.clean is not None and (self.noise is not None or not 1 <= lags <= (len(self.clean) - 4) // 2):
            raise InputError(
                f"lags must be 1 to {(len(self.clean) - 4) // 2} for {len(self.clean)} rows without known error, got "
                f"{lags}."
            )
        return replace(self, rows_before=lags)

    @property
    def made_for_curves(self) -> bool:
        """Whether functions of the columns were released that show curves."""
        release = self.release
        return release is not None and release.form != "table" and release.manifest.stages[-1].features == "cosines"

    def covariance(self, engine: Engine, *, curved: bool) -> NoisyCovariance:
        """The corrected covariance of the columns, or of their features."""
        if curved:
            return self._features()
        if self.scores is not None:
            noisy = covariance_of_rows(self.scores.values, np.diag(self.scores.noise), self.names)
            return replace(noisy, notes=(self.scores.note,))
        if self.release is not None:
            return covariance_of(self.release, engine)
        return covariance_of_rows(np.asarray(self.clean), self._noise(), self.names)

    def stacks(self) -> Stacked:
        """Of rows in time, what their stacks say."""
        if self.release is not None:
            return stacks_of(self.release)
        rows = np.asarray(self.clean) if self.scores is None else self.scores.values
        found = stacks_of_rows(rows, self.lags, self.names)
        return replace(found, noisy=replace(found.noisy, distrusted=still_in_time(rows, self.lags)))

    def cut(self, deviations: FloatArray, engine: Engine) -> RowsInMemory | RowsOnDisk | None:
        """Rows to cut into folds and subsamples: in memory where they fit; None where there are none."""
        if self.scores is not None:
            return RowsInMemory(self.scores.values, np.diag(self.scores.noise), deviations)
        release = self.release
        if release is not None and release.form == "table" and release.n * len(self.names) > _MOST_CELLS:
            return RowsOnDisk(release, self._noise(), deviations, engine)
        rows = self._rows()
        return None if rows is None else RowsInMemory(rows, self._noise(), deviations)

    def as_normal_scores(self) -> Source:
        """The same columns, each mapped to a standard normal through its ranks."""
        rows = self._rows()
        if rows is None:
            raise InputError(
                f"marginals = 'normal-scores' needs rows to rank, and a {self.origin.form} release has none of its "
                "own. Use 'as-is'; the publisher can choose a transform in the plan."
            )
        noise = self._noise()
        if np.any(noise != np.diag(np.diag(noise))):
            raise InputError(
                "marginals = 'normal-scores' needs errors that are independent between columns, and noise_cov has "
                "covariances. Use 'as-is'."
            )
        origin = replace(self.origin, marginals="normal-scores")
        return replace(self, origin=origin, scores=normal_scores(rows, np.diag(noise), self.names))

    def _rows(self) -> FloatArray | None:
        """The rows in memory, or None where there are none."""
        if self.release is not None:
            return rows_of(self.release) if self.release.form == "table" else None
        return self.clean

    def _noise(self) -> FloatArray:
        """The covariance of the noise in a row."""
        if self.noise is not None:
            return self.noise
        return np.diag([0.0 if cell is None else cell.variance for cell in self.cells])

    def _features(self) -> NoisyCovariance:
        rows = self._rows()
        if rows is None:
            if self.release is None or not self.made_for_curves:
                raise InputError(
                    f"dependence = 'curved' needs cosines of columns, and this {self.origin.form} release has none. "
                    "Ask the publisher for one with dependence = \"curved\" in its plan, or use 'linear'."
                )
            return covariance_of(self.release, curved=True)
        if self.noise is not None:
            raise InputError(
                "dependence = 'curved' needs rows without error, because an error's covariance says nothing of its "
                "cubes. Leave noise_cov out, or use 'linear'."
            )
        if self.scores is None:
            return covariance_of_features(rows, self.cells, self.names)
        if any(cell is not None for cell in self.cells):
            raise InputError(
                "curved dependence of normal scores needs rows without noise, and these have some. Use marginals = "
                "'as-is', which corrects squares and cubes for the noise exactly, or dependence = 'linear'."
            )
        return covariance_of_features(self.scores.ranked, self.cells, self.names, (self.scores.note,))


def is_rows(place: str | Path) -> bool:
    """Whether a path names rows and not a release."""
    named = str(place) == "-" or str(place).lower().endswith(_TABLES)
    return named and not Path(place, "release.json").is_file()


def source_of(data: Any, noise_cov: npt.ArrayLike | None = None) -> Source:
    """A release, the place of one, or rows: a data frame, an array, or the path of a CSV or Parquet file."""
    if isinstance(data, str | Path) and not is_rows(data):
        data = load(data)
    if not isinstance(data, Release):
        return _of_rows(data, noise_cov)
    if noise_cov is not None:
        raise InputError("noise_cov is for rows: a release states its own noise. Leave it out.")
    unordered = [column.name for column in data.columns if column.response is not None]
    if unordered:
        raise InputError(
            f"a graph with levels that have no order ({some_of(unordered)}) is recovered from moments, and this is a "
            'table. Ask the publisher for form = "moments".'
        )
    cells = tuple(column.cell_noise for column in data.columns) if data.form == "table" else ()
    return Source(data.manifest.names, Origin.of(data.manifest), data, cells=cells)


@quotes_no_cell
def _of_rows(data: Any, noise_cov: npt.ArrayLike | None) -> Source:
    """Rows as they are: nothing protects them, and fit.json says so."""
    from hazeglass.compute.tables import blocks, check_names, floats, open_table
    from hazeglass.compute.text import BROKEN_LINES, guess_header

    table = open_table(data, guess_header(data) if isinstance(data, str | Path) else None)
    names, unread = tuple(name for name in table.names if name not in table.index), Counter[str]()
    check_names(names)
    none = np.zeros((0, len(names)))
    rows = np.concatenate([none, *(floats(batch, names) for batch in blocks(table, names, unread=unread))])
    if broken := unread.pop(BROKEN_LINES, 0):
        raise InputError(f"every line must have the fields of the header, but {broken:,} do not. Correct them.")
    if text := [name for name in names if unread[name]]:
        raise InputError(
            f"rows must hold a number in every cell, but these columns hold text: {some_of(text)}. Leave those columns "
            "out, or give their words numbers."
        )
    if empty := [name for name, column in zip(names, rows.T, strict=True) if not np.isfinite(column).all()]:
        raise InputError(
            "rows must hold a number in every cell, but cells of these columns are missing or infinite: "
            f"{some_of(empty)}. Fill them, or drop their rows."
        )
    if np.abs(rows).max(initial=0.0) > _LARGEST_CELL:
        raise InputError(f"rows must lie within {_LARGEST_CELL:g} of 0, and some cells do not. Rescale their columns.")
    if len(rows) < 4:
        raise InputError(f"a graph needs at least 4 rows, got {len(rows)}.")
    constant = np.flatnonzero((rows == rows[0]).all(axis=0))
    if constant.size:
        name = names[constant[0]]
        raise InputError(f"column {name!r} is the same in every row, so nothing can depend on it. Drop it.")
    origin = Origin("Clean rows" if noise_cov is None else "Rows with known error", "rows", len(rows))
    noise = None if noise_cov is None else noise_matrix(noise_cov, len(names), len(rows))
    return Source(names, origin, clean=rows, noise=noise, cells=(None,) * len(names))


def normal_scores(rows: FloatArray, noise_variance: FloatArray, names: tuple[str, ...]) -> NormalScores:
    """Scores of every column; refused where noise is more than a tenth of a column's variance.

    For a column without ties the score of the k-th smallest of n values is close to Phi^-1((k - 1/2)/n). Equal values
    stand for an interval of the normal, and their score is its conditional mean s = E[Z | interval]. With v = Var(s),
    s/v is the hidden normal Z plus an error of variance 1/v - 1 that is uncorrelated with Z: exactly the form of rows
    with known noise, so ties are corrected like any other noise. Between two columns with ties this is first order in
    their correlation (docs/maths/marginals.md says how far that goes).

    Noise in the cells blurs ranks. While it is small its variance on the scale of the scores is the mean squared slope
    of the map times its variance; where it is not small the map itself is wrong and the scores are refused.
    """
    share = noise_variance / observed_variances(rows, names)
    worst = int(np.argmax(share))
    if share[worst] > _MOST_NOISE:
        raise InputError(
            f"marginals = 'normal-scores' needs noise below {100 * _MOST_NOISE:.0f} % of a column's variance, and in "
            f"{names[worst]!r} it is {100 * share[worst]:.0f} %: the ranks would be those of the noise. Use 'as-is'."
        )
    ranked = np.column_stack([_conditional_means(column) for column in rows.T])
    kept = ranked.var(axis=0)
    noise = 1 / kept - 1
    for k, variance in enumerate(noise_variance):
        if variance > 0:
            noise[k] += _squared_slope(rows[:, k], ranked[:, k]) * variance / kept[k] ** 2
    note = "Columns were mapped to standard normals through their ranks: edges are those of a Gaussian copula."
    coarse = [name for name, part in zip(names, kept, strict=True) if part < 0.95]
    if coarse:
        note += (
            f" Ties were corrected for ({some_of(coarse)}); strong correlations between such columns come out a little "
            "high."
        )
    return NormalScores(ranked / kept, ranked, noise, note)


def _conditional_means(column: FloatArray) -> FloatArray:
    """E[Z | interval] for the interval of the standard normal that each value of the column stands for."""
    _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    cuts = ndtri(np.concatenate([[0.0], np.cumsum(counts)[:-1] / len(column), [1.0]]))
    density = np.exp(-(cuts**2) / 2) / np.sqrt(2 * np.pi)
    means = (density[:-1] - density[1:]) * len(column) / counts
    return np.asarray(means[inverse])


def _squared_slope(column: FloatArray, score: FloatArray) -> float:
    """Mean squared slope of the map from values to scores, over bins of equally many rows."""
    order = np.argsort(column, kind="stable")
    slopes = []
    for part in np.array_split(order, min(_BINS, len(order) // 10)):
        x, s = column[part], score[part]
        spread = float(np.var(x))
        if spread > 0:
            slopes.append(float(np.mean((x - x.mean()) * (s - s.mean()))) / spread)
    return float(np.mean(np.square(slopes))) if slopes else 0.0
