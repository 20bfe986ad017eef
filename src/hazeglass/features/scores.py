"""How the cells of a column become scores, by what is known of it: one table for every column.

A cell's score is looked up: borders lie at the quantiles of the column's distribution for even steps of the score, and
an interval's score is the mean of the normal in it. Inside a drawn leaf it is one of many (docs/maths/marginals.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from hazeglass.features.marginal import Marginal, normal_means, with_ends

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STEPS = 1024  # of a score
DRAWS = 256  # scores that a drawn leaf, or a missing cell, is drawn from
_LEVEL = 64  # scores follow the cell in steps of 1/64
_HIGHEST = 4.0  # scores beyond are those of the tail


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Cells to scores, in whole numbers of 1/1024: the entry of the interval between cuts that a cell lies in.

    cuts    increasing; interval k lies between cuts k - 1 and k
    first   the interval's first entry in `values`
    draws   how many entries it has: 1, or DRAWS of which one is drawn
    values  the entries
    """

    cuts: FloatArray
    first: IntArray
    draws: IntArray
    values: IntArray


def score_table(known: Marginal) -> ScoreTable:
    """The scores of one column; the last interval is not reached by any cell and is that of missing ones."""
    grid = np.arange(-int(_HIGHEST * _LEVEL), int(_HIGHEST * _LEVEL) + 1) / _LEVEL
    cuts = known.quantile(ndtr(grid))
    borders = known.borders[1:-1]
    drawn = known.drawn
    leaf = np.searchsorted(known.borders, cuts, side="right") - 1
    inside = (leaf >= 0) & (leaf < drawn.size)
    edge = np.isin(cuts, known.borders)
    keep = ~(inside & ~edge & drawn[np.clip(leaf, 0, drawn.size - 1)])
    sides = borders[drawn[:-1] | drawn[1:]]
    cuts = np.unique(np.concatenate([cuts[keep], sides]))
    cuts = cuts[(cuts > known.borders[0]) & (cuts < known.borders[-1])]
    ends = np.concatenate([[known.borders[0]], cuts, [known.borders[-1]]])
    cumulative = with_ends(known.cdf(ends))
    middle = (ends[:-1] + ends[1:]) / 2
    is_drawn = drawn[np.clip(np.searchsorted(known.borders, middle, side="right") - 1, 0, drawn.size - 1)]
    draws = np.append(np.where(is_drawn, DRAWS, 1), DRAWS)
    low, high = np.append(cumulative[:-1], 0.0), np.append(cumulative[1:], 1.0)
    part = np.concatenate([np.arange(count) for count in draws])
    width = np.repeat((high - low) / draws, draws)
    begin = np.repeat(low, draws) + part * width
    values = np.rint(normal_means(begin, begin + width) * STEPS).astype(np.int64)
    return ScoreTable(cuts, np.cumsum(draws) - draws, draws, values)
