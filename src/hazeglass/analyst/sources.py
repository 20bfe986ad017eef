"""What a graph can be recovered from: a release in any form, or plain rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass._version import __version__
from hazeglass.analyst.curved.blocks import FeatureBlocks, blocks_of_moments
from hazeglass.analyst.curved.rows import blocks_of_rows
from hazeglass.analyst.moments import NoisyCovariance, covariance_of, covariance_of_rows, noise_of, rows_of
from hazeglass.analyst.noise_cov import noise_matrix
from hazeglass.analyst.scores import NormalScores, normal_scores
from hazeglass.analyst.selection import FoldSource, RowSource, StreamedRows
from hazeglass.bundle.manifest import CellNoise
from hazeglass.bundle.reader import Release, load
from hazeglass.compute.engines import Engine
from hazeglass.errors import InputError, quotes_no_cell

__all__ = ["Source", "source_of"]

FloatArray = npt.NDArray[np.float64]
_MOST_CELLS = 1 << 25  # of a table held in memory at once, for folds and subsamples: 256 MiB
_LARGEST_CELL = 1e70  # products of four cells must not overflow
_TABLES = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class Source:
    """Named columns, what is known of them, and what fit.json says of where they came from.

    clean   rows that came without a release
    noise   the covariance of the error in such a row, where it is known
    cells   the noise in the cells of a table, column by column; None for a column without
    scores  the rows as normal scores, when those were asked for
    """

    names: tuple[str, ...]
    n: int
    form: str
    record: dict[str, Any]
    release: Release | None = None
    clean: FloatArray | None = None
    noise: FloatArray | None = None
    cells: tuple[CellNoise | None, ...] = ()
    scores: NormalScores | None = None

    @property
    def made_for_curves(self) -> bool:
        """Whether squares and cubes were released."""
        return (
            self.release is not None
            and self.form == "moments"
            and self.release.manifest.stages[-1].features == "hermite"
        )

    def rows(self) -> FloatArray | None:
        """The rows in memory, or None where there are none."""
        if self.release is not None:
            return rows_of(self.release) if self.form == "table" else None
        return self.clean

    def row_source(self, deviations: FloatArray, engine: Engine) -> RowSource | None:
        """Rows to cut into folds and subsamples: in memory where they fit; None where there are none."""
        if self.scores is not None:
            return FoldSource(self.scores.values, np.diag(self.scores.noise), deviations)
        if self.release is not None and self.form == "table" and self.n * len(self.names) > _MOST_CELLS:
            return StreamedRows(self.release, noise_of(self.release), deviations, engine)
        rows = self.rows()
        return None if rows is None else FoldSource(rows, self._noise(), deviations)

    def covariance(self, engine: Engine) -> NoisyCovariance:
        """The corrected covariance of the columns."""
        if self.scores is not None:
            noisy = covariance_of_rows(self.scores.values, np.diag(self.scores.noise), self.names)
            return replace(noisy, notes=(self.scores.note,))
        if self.release is not None:
            return covariance_of(self.release, engine)
        return covariance_of_rows(np.asarray(self.clean), self._noise(), self.names)

    def _noise(self) -> FloatArray:
        """The covariance of the noise in a row."""
        if self.noise is not None:
            return self.noise
        return np.diag([0.0 if cell is None else cell.variance for cell in self.cells])

    def blocks(self) -> FeatureBlocks:
        """The covariance of the columns' features."""
        rows = self.rows()
        if rows is not None:
            return self._blocks_of_rows(rows)
        if self.release is None or not self.made_for_curves:
            raise InputError(
                f"dependence = 'curved' needs squares and cubes, and this {self.form} release has none. Ask the "
                "publisher for one with dependence = \"curved\" in its plan, or use 'linear'."
            )
        stage = self.release.manifest.stages[-1]
        note = (
            f"Rows were clipped to length {stage.radius:.3g} together with their squares and cubes; strengths are "
            "those of clipped rows."
        )
        return blocks_of_moments(self.release.moments()[-1], self.n, (note,) if stage.clipped else ())

    def _blocks_of_rows(self, rows: FloatArray) -> FeatureBlocks:
        if self.noise is not None:
            raise InputError(
                "dependence = 'curved' needs rows without error, because an error's covariance says nothing of its "
                "cubes. Leave noise_cov out, or use 'linear'."
            )
        if self.scores is None:
            return blocks_of_rows(rows, self.cells, self.names)
        if any(cell is not None for cell in self.cells):
            raise InputError(
                "curved dependence of normal scores needs rows without noise, and these have some. Use marginals = "
                "'as-is', which corrects squares and cubes for the noise exactly, or dependence = 'linear'."
            )
        return blocks_of_rows(self.scores.ranked, self.cells, self.names, (self.scores.note,))

    def as_normal_scores(self) -> Source:
        """The same columns, each mapped to a standard normal through its ranks."""
        rows = self.rows()
        if rows is None:
            raise InputError(
                f"marginals = 'normal-scores' needs rows to rank, and a {self.form} release has none of its own. Use "
                "'as-is'; the publisher can choose a transform in the plan."
            )
        noise = self._noise()
        if np.any(noise != np.diag(np.diag(noise))):
            raise InputError(
                "marginals = 'normal-scores' needs errors that are independent between columns, and noise_cov has "
                "covariances. Use 'as-is'."
            )
        return replace(self, scores=normal_scores(rows, np.diag(noise), self.names))


def source_of(data: Any, noise_cov: npt.ArrayLike | None = None) -> Source:
    """A release, the place of one, or rows: a data frame, an array, or the path of a CSV or Parquet file."""
    if isinstance(data, str | Path) and not str(data).lower().endswith(_TABLES):
        data = load(data)
    if not isinstance(data, Release):
        return _of_rows(data, noise_cov)
    if noise_cov is not None:
        raise InputError("noise_cov is for rows: a release states its own noise. Leave it out.")
    return _of_release(data)


def _of_release(release: Release) -> Source:
    manifest = release.manifest
    record = {
        "hazeglass": __version__,
        "title": manifest.title,
        "form": manifest.form,
        "n": manifest.n,
        "unit": manifest.unit.name,
        "unit_readings": manifest.unit.readings,
        "unit_max_rows": manifest.unit.max_rows,
        "mu": manifest.mu,
        "epsilon": manifest.epsilon,
        "delta": manifest.delta,
        "simulation": manifest.simulation,
    }
    source = Source(manifest.names, release.n, release.form, record, release)
    if release.form != "table":
        return source
    return replace(source, cells=tuple(column.cell_noise for column in release.columns))


@quotes_no_cell
def _of_rows(data: Any, noise_cov: npt.ArrayLike | None) -> Source:
    """Rows as they are: nothing protects them, and fit.json says so."""
    from hazeglass.compute.lines import BROKEN_LINES
    from hazeglass.compute.tables import blocks, check_names, floats, open_table

    table, unread = open_table(data), Counter[str]()
    check_names(table.names)
    rows = np.concatenate([floats(batch, table.names) for batch in blocks(table, table.names, unread=unread)])
    for name, cells in (+unread).items():
        what = (
            "lines do not have the fields of the header"
            if name == BROKEN_LINES
            else f"cells of {name!r} are no numbers"
        )
        raise InputError(f"rows must hold a number in every cell, but {cells:,} {what}. Correct or leave them out.")
    if not np.isfinite(rows).all():
        raise InputError("rows must hold a number in every cell, and some are missing or infinite. Fill or drop them.")
    if np.abs(rows).max(initial=0.0) > _LARGEST_CELL:
        raise InputError(f"rows must lie within {_LARGEST_CELL:g} of 0, and some cells do not. Rescale their columns.")
    if len(rows) < 4:
        raise InputError(f"a graph needs at least 4 rows, got {len(rows)}.")
    constant = np.flatnonzero((rows == rows[0]).all(axis=0))
    if constant.size:
        name = table.names[constant[0]]
        raise InputError(f"column {name!r} is the same in every row, so nothing can depend on it. Drop it.")
    nothing = dict.fromkeys(("unit", "unit_readings", "unit_max_rows", "mu", "epsilon", "delta"))
    record = {
        "hazeglass": __version__,
        "title": "Clean rows" if noise_cov is None else "Rows with known error",
        "form": "rows",
        "n": len(rows),
        **nothing,
        "simulation": False,
    }
    noise = None if noise_cov is None else noise_matrix(noise_cov, len(table.names), len(rows))
    return Source(table.names, len(rows), "rows", record, clean=rows, noise=noise, cells=(None,) * len(table.names))
