"""What every solver takes and hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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


class Solver(Protocol):
    """Minimise f over T > 0 until gap/p <= tol. `start` is a positive definite precision to begin from."""

    def __call__(
        self, S: FloatArray, penalty: Penalty, *, tol: float, max_iter: int, start: FloatArray | None = None
    ) -> Attempt: ...
