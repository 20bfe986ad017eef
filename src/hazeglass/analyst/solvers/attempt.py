"""What every solver takes and hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hazeglass.analyst.factor import FloatArray
from hazeglass.analyst.objective import Certificate
from hazeglass.analyst.penalty import Penalty


@dataclass(frozen=True, eq=False)
class Attempt:
    """The best certified answer a solver found, if any; `unbounded` means it proved that there is none."""

    certificate: Certificate | None
    n_iter: int
    unbounded: bool = False

    def reached(self, tol: float) -> bool:
        return self.certificate is not None and self.certificate.gap <= tol * self.certificate.precision.shape[0]


@dataclass(frozen=True, eq=False)
class Start:
    """Where to begin: a positive definite precision and (nearly) its inverse."""

    precision: FloatArray
    covariance: FloatArray

    def part(self, rows: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Start:
        """The start of a subset of the columns; its precision is positive definite as well."""
        block = np.ix_(rows, rows)
        return Start(self.precision[block], self.covariance[block])


class Solver(Protocol):
    """Minimise f over T > 0 until gap/p <= tol; max_iter None means the solver's own limit."""

    def __call__(
        self, S: FloatArray, penalty: Penalty, *, tol: float, max_iter: int | None = None, start: Start | None = None
    ) -> Attempt: ...
