"""A table with what is known about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Dataset", "Edges"]

Edges = frozenset[frozenset[str]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, names, and the true graph where there is one.

    data     array of shape (rows, columns)
    columns  their names
    truth    the true edges as unordered pairs of names, or None
    kind     'continuous' or 'integer'
    """

    data: npt.NDArray[np.float64]
    columns: tuple[str, ...]
    truth: Edges | None
    kind: Literal["continuous", "integer"]
    licence: str
    source: str

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table with named columns."""
        import pyarrow as pa

        return pa.table({name: self.data[:, k] for k, name in enumerate(self.columns)})
