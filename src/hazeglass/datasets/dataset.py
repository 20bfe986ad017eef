"""A table with what is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from hazeglass.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Dataset", "Edges", "pairs"]

Edges = frozenset[frozenset[str]]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows, names, and the true graph where there is one.

    data         array of shape (rows, columns), as measured
    columns      their names
    truth        the true edges as unordered pairs of names, or None
    kind         'continuous' or 'integer'
    name         what `hazeglass datasets` calls it
    note         what a reader must know before trusting a result on it
    scaling      what the paper does to the rows first: 'none' or 'z-score'
    truths       every candidate for the truth, by name, where there are several or where each is a guess
    column_info  more about the columns (a region, a party, genres): one value per column
    row_info     more about the rows (a date, a pH): one value per row
    """

    data: FloatArray
    columns: tuple[str, ...]
    truth: Edges | None
    kind: Literal["continuous", "integer"]
    licence: str
    source: str
    name: str = field(default="", kw_only=True)
    note: str = field(default="", kw_only=True)
    scaling: Literal["none", "z-score"] = field(default="none", kw_only=True)
    truths: Mapping[str, Edges] = field(default_factory=dict, kw_only=True)
    column_info: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, kw_only=True)
    row_info: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, kw_only=True)

    def __repr__(self) -> str:
        edges = "no known graph" if self.truth is None else f"{len(self.truth)} true edges"
        rows, columns = self.data.shape
        size = f"{rows:,} rows x {columns} {self.kind} columns"
        return f"{type(self).__name__}({self.name or 'made up'}: {size}, {edges})"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table with named columns."""
        import pyarrow as pa

        return pa.table({name: self.data[:, k] for k, name in enumerate(self.columns)})

    def scaled(self) -> FloatArray:
        """The rows as the paper uses them: z-scored by column (dividing by n), or as they are."""
        if self.scaling == "none":
            return self.data.copy()
        return np.asarray((self.data - self.data.mean(axis=0)) / self.data.std(axis=0))

    def truth_matrix(self, which: str | None = None) -> npt.NDArray[np.bool_]:
        """The true graph as a symmetric matrix in the order of the columns; `which` names one of `truths`."""
        edges = self.truth if which is None else self._named_truth(which)
        if edges is None:
            known = f" It has these guesses: {', '.join(self.truths)}." if self.truths else ""
            raise DataError(f"{self.name or 'this data set'} has no true graph.{known}")
        place = {name: k for k, name in enumerate(self.columns)}
        matrix = np.zeros((len(place), len(place)), dtype=np.bool_)
        for a, b in edges:
            matrix[place[a], place[b]] = matrix[place[b], place[a]] = True
        return matrix

    def _named_truth(self, which: str) -> Edges:
        if which not in self.truths:
            raise DataError(f"the truth must be one of {', '.join(self.truths) or '(none)'}, got {which!r}.")
        return self.truths[which]


def pairs(first: list[str], second: list[str]) -> Edges:
    """Unordered pairs of names from two parallel lists; a name joined to itself is no edge."""
    return frozenset(frozenset((a, b)) for a, b in zip(first, second, strict=True) if a != b)
