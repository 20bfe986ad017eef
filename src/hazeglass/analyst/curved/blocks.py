"""What curved recovery works on: the covariance of every column's features, whitened block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hazeglass.analyst.curved.errors import MomentError
from hazeglass.analyst.curved.whiten import block_whitener, raised_blocks
from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.glasso.linalg import FloatArray

__all__ = ["BlockError", "FeatureBlocks", "blocks_of_moments"]


_DOUBT = 2.0


class BlockError(Protocol):
    """How the error of a covariance of features is distributed."""

    def carried(self, B: FloatArray) -> BlockError:
        """The error B Delta B^T."""

    def entry_variance(self) -> FloatArray:
        """Variance of every entry."""

    def block_covariances(self, size: int) -> FloatArray:
        """Covariance of the entries of every block i < j, row by row."""


@dataclass(frozen=True, eq=False)
class FeatureBlocks:
    """Whitened covariance of p columns' features, `size` to a column, and the distribution of its error.

    mean      means of the features themselves, before whitening
    whitener  block diagonal; `covariance` and `error` are those of whitener @ features
    hidden    columns of which the noise hides a direction
    """

    names: tuple[str, ...]
    n: int
    size: int
    mean: FloatArray
    covariance: FloatArray
    error: BlockError
    whitener: FloatArray
    hidden: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        n: int,
        mean: FloatArray,
        covariance: FloatArray,
        error: BlockError,
        notes: tuple[str, ...] = (),
    ) -> FeatureBlocks:
        """Whiten a covariance of features and its error; directions of a column that noise fills are raised first."""
        size = len(covariance) // len(names)
        variances = np.diag(error.entry_variance()).reshape(len(names), size)
        doubt = _DOUBT * np.sqrt(variances.max(axis=1))
        raised, columns = raised_blocks(covariance, size, doubt)
        hidden = tuple(names[k] for k in columns)
        whitener = block_whitener(raised, size)
        whitened = whitener @ raised @ whitener.T
        whole = (whitened + whitened.T) / 2
        notes = (*notes, _hidden_note(hidden)) if hidden else notes
        return cls(names, n, size, mean, whole, error.carried(whitener), whitener, hidden, notes)

    def entry_sd(self) -> float:
        """Root mean square standard deviation of an entry off the diagonal blocks."""
        p = len(self.names)
        off = np.repeat(np.repeat(~np.eye(p, dtype=bool), self.size, axis=0), self.size, axis=1)
        return float(np.sqrt(self.error.entry_variance()[off].mean()))

    def block_sd(self) -> FloatArray:
        """Root of the summed variances of every block."""
        p = len(self.names)
        variance = self.error.entry_variance().reshape(p, self.size, p, self.size)
        total = variance.sum(axis=(1, 3))
        return np.asarray(np.sqrt((total + total.T) / 2))


def blocks_of_moments(moments: ReleasedMoments, n: int, notes: tuple[str, ...] = ()) -> FeatureBlocks:
    """From the moments of a curved release."""
    names = tuple(dict.fromkeys(feature.column for feature in moments.features))
    error = MomentError.of_moments(moments, n)
    return FeatureBlocks.of(names, n, moments.mean, moments.covariance(n), error, notes)


def _hidden_note(hidden: tuple[str, ...]) -> str:
    shown = ", ".join(hidden[:5]) + (", ..." if len(hidden) > 5 else "")
    plural = "s" if len(hidden) > 1 else ""
    return (
        f"The noise hides part of {len(hidden)} column{plural} ({shown}): its value, its square and its cube cannot be "
        "told apart. It takes more rows or a larger epsilon to see the shape of what depends on it."
    )
