"""What an attack is: scores, one row a run and one column a statistic, from runs of the mechanism on D or on D'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hazeglass.publisher.randomness import BitSource

__all__ = ["Attack", "Together", "contrasted", "in_chunks"]

Floats = npt.NDArray[np.float64]
_CELLS = 1 << 21  # a chunk's worth of noisy numbers


class Attack(Protocol):
    """A mechanism, a pair of neighbours and the statistics that tell them apart."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """What the columns of the scores are."""

    @property
    def cells(self) -> int:
        """Noisy numbers drawn in one run: what a run costs."""

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """Scores of independent runs on D (side 0) or D' (side 1), shape (runs, statistics)."""


def in_chunks(run: Callable[[int], Floats], runs: int, cells: int) -> Floats:
    """Stack `run(count)` until there are enough, so that memory does not grow with the number of runs."""
    chunk = max(1, _CELLS // cells)
    return np.concatenate([run(min(chunk, runs - start)) for start in range(0, runs, chunk)])


@dataclass(frozen=True)
class Together:
    """Two releases of the same data. `mus` are their promises.

    Both likelihood ratios added show whether promises compose as stated. Their contrast, each in units of its noise,
    has no business telling D from D' better; it does when the two releases share noise, because then it cancels.
    """

    first: Attack
    second: Attack
    mus: tuple[float, float]
    statistics: tuple[str, ...] = ("likelihood ratio", "contrast of the releases")

    @property
    def cells(self) -> int:
        return self.first.cells + self.second.cells

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """Both releases, run one after the other on the same bits."""
        return in_chunks(lambda count: self._chunk(side, count, bits), runs, self.cells)

    def _chunk(self, side: int, runs: int, bits: BitSource) -> Floats:
        left, right = (attack.scores(side, runs, bits)[:, 0] for attack in (self.first, self.second))
        return contrasted(left, right, *self.mus)


def contrasted(left: Floats, right: Floats, left_mu: float, right_mu: float) -> Floats:
    """The two statistics of a pair of likelihood ratios."""
    return np.column_stack([left + right, left / left_mu - right / right_mu])
