"""Rows drawn from a field, and how well they have what the field was to have.

Rows are the states of fresh chains, which begin at the tree and know nothing of those of the fit: where they do not
arrive at the tables, fit or chains have failed, and the check says so. Then every column is raked to its shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.markov.field import ONE, Field, IntArray, States, Tables, counted, planted

FloatArray = npt.NDArray[np.float64]

_BURN_IN, _BETWEEN = 30, 5  # sweeps before the first rows of a chain, and between two rows of it
BLOCK = 1 << 14  # chains
_AGREES, _STUCK = 3.0, 0.5
_CHECKED = 16  # blocks that the check looks at


@dataclass(frozen=True)
class Check:
    """How well drawn rows agree with the tables, and whether chains moved.

    agreement  for each pair with a table, by its columns: how far the rows' table is from it, in what noise and so
               many rows explain
    stuck      columns whose states still follow those in which the chains began
    drawn      the rows' tables
    """

    agreement: dict[tuple[int, int], float]
    stuck: tuple[int, ...]
    drawn: Mapping[tuple[int, int], FloatArray]

    @property
    def worst(self) -> float:
        """Of all pairs; 0 where there are none."""
        return max(self.agreement.values(), default=0.0)

    @property
    def apart(self) -> tuple[tuple[int, int], ...]:
        """The pairs whose tables rows do not have."""
        return tuple(pair for pair, ratio in self.agreement.items() if ratio > _AGREES)

    def complaint(self, names: Sequence[str]) -> str | None:
        """What is wrong, for columns of these names; None where nothing is."""
        parts = []
        if self.apart:
            pairs = ", ".join(f"{names[i]} and {names[j]}" for i, j in self.apart[:3])
            parts.append(f"{len(self.apart)} pairs of columns do not have the released tables ({pairs})")
        if self.stuck:
            columns = ", ".join(names[k] for k in self.stuck[:5])
            parts.append(f"chains hardly moved in {len(self.stuck)} columns ({columns})")
        if not parts:
            return None
        return (
            f"the synthetic rows are not as good as the release: {'; '.join(parts)}. Columns that say the same thing "
            "twice do this: leave one of them out of the plan, or do not rely on these pairs."
        )

    @property
    def passed(self) -> bool:
        """Whether rows have all tables, and chains forgot where they began."""
        return not self.apart and not self.stuck


def draw(field: Field, seed: int, n: int) -> Iterator[States]:
    """Blocks of rows, n in all."""
    for _, block in _drawn(field, seed, n):
        yield block


def _drawn(field: Field, seed: int, n: int) -> Iterator[tuple[States | None, States]]:
    """Blocks of rows; with the first, the states in which its chains began."""
    begun, streams = planted(field.tables, seed, min(n, BLOCK), number=1)
    states, done, before = begun.copy(), 0, _BURN_IN
    while done < n:
        field.moved(states, streams, before)
        block = states[: n - done].copy()
        field.raked(block, streams[: n - done].copy(), _quota(field.tables, len(block), streams))
        yield (None if done else begun), block
        done, before = done + len(block), _BETWEEN


def _quota(tables: Tables, n: int, streams: npt.NDArray[np.uint64]) -> IntArray:
    """How many of n rows have each state: the shares, rounded with an offset that differs from block to block."""
    offset = int(streams[0] >> np.uint64(44))
    ends = np.cumsum(tables.shares)
    before = np.repeat(ends[tables.at[1:] - 1] - ONE, tables.sizes)
    upper = (n * (ends - before) + offset) // ONE
    lower = (n * (ends - tables.shares - before) + offset) // ONE
    return np.asarray(upper - lower)


def check(field: Field, seed: int, n: int) -> Check:
    """Draw up to so many rows and compare them with the tables."""
    tables, n = field.tables, min(n, _CHECKED * BLOCK)
    found = np.zeros(tables.pairs.shape, dtype=np.int64)
    stuck: tuple[int, ...] = ()
    for begun, block in _drawn(field, seed, n):
        found += counted(tables, block)
        if begun is not None:
            stuck = _stuck(tables, begun, block)
    agreement, drawn = {}, {}
    for i, j in zip(*np.nonzero(np.triu(tables.edges)), strict=True):
        at = tables.part(int(i)), tables.part(int(j))
        drawn[int(i), int(j)] = found[at] / n
        gap = found[at] / n - tables.pairs[at] / ONE
        freedom = (tables.sizes[i] - 1) * (tables.sizes[j] - 1)
        noise = freedom * (tables.floor[i, j] / ONE) ** 2 + 1 / n
        agreement[int(i), int(j)] = float(np.sqrt(np.sum(gap**2) / noise))
    return Check(agreement, stuck, drawn)


def _stuck(tables: Tables, begun: States, ended: States) -> tuple[int, ...]:
    """Columns in which more chains have their first state than chance explains."""
    found = []
    for k in range(len(tables.sizes)):
        shares = tables.shares[tables.part(k)] / ONE
        chance = float(shares @ shares)
        same = float(np.mean(begun[:, k] == ended[:, k]))
        noise = 4 * np.sqrt(max(chance * (1 - chance), 0.0) / len(begun))
        if same - chance > _STUCK * (1 - chance) + noise:
            found.append(k)
    return tuple(found)
