"""Rows in time: which rows follow each other, and how many of them moments are taken of together.

A stack is a row with its `lags` rows before it. Rows stand as they are in the data; a row follows the one before it
where both have the same series, and their order cells lie one `order_step` apart. Nothing of that is taken from the
data but, row by row, whether it does: how many stacks there are is released with noise (docs/maths/series.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from hazeglass.errors import InputError

Season = Literal["hour", "weekday"]
SEASONS: dict[Season, int] = {"hour": 24, "weekday": 7}
SEASON_NAMES = {size: f"({name})" for name, size in SEASONS.items()}  # of features in moments.parquet
MOST_LAGS = 50
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_WORDS = re.compile(r"([0-9]{1,6}) (second|minute|hour|day|week)s?")


@dataclass(frozen=True)
class Series:
    """How rows in time are read.

    lags           how many rows before a row are stacked with it
    order_column   tells gaps: its cells say when a row was taken; None where every row follows the one before it
    order_step     how far apart rows are that follow each other: a number, or for dates words like "15 minutes"
    series_column  whose rows these are: none follows a row of another series
    seasons        means by hour of the day or day of the week are taken off first
    """

    lags: int = 1
    order_column: str | None = None
    order_step: float | str | None = None
    series_column: str | None = None
    seasons: tuple[Season, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.lags <= MOST_LAGS:
            raise InputError(f"lags must be a whole number from 1 to {MOST_LAGS}, got {self.lags}.")
        if (self.order_column is None) != (self.order_step is None):
            raise InputError(
                "order_column needs order_step, how far apart rows are that follow each other (1, or for dates "
                '"15 minutes"), and order_step needs order_column. Give both or neither.'
            )
        if isinstance(self.order_step, str) and (_WORDS.fullmatch(self.order_step) is None or self.step <= 0):
            raise InputError(
                'order_step must be a number above 0, or for dates words like "15 minutes", "1 hour" or "1 day", got '
                f"{self.order_step[:60]!r}."
            )
        if self.order_step is not None and not 0 < self.step < 1e300:
            raise InputError(f"order_step must be above 0 and finite, got {self.order_step!r}.")
        if self.order_column is not None and self.order_column == self.series_column:
            raise InputError("order_column and series_column must be two columns. Name another one.")
        if len(set(self.seasons)) != len(self.seasons) or not set(self.seasons) <= set(get_args(Season)):
            raise InputError(f"seasons must be among {', '.join(SEASONS)}, each once, got {list(self.seasons)}.")
        if self.seasons and not self.dated:
            raise InputError('seasons need an order_column of dates, with an order_step like "1 hour". Add both.')

    @property
    def dated(self) -> bool:
        """Whether the order cells are dates."""
        return isinstance(self.order_step, str)

    @property
    def step(self) -> float:
        """The step in units of the order column, which are days where it holds dates."""
        if isinstance(self.order_step, str):
            found = _WORDS.fullmatch(self.order_step)
            return int(found[1]) * _UNITS[found[2]] / 86_400 if found else 0.0
        return float(self.order_step or 0.0)

    @property
    def size(self) -> int:
        """How many rows a stack has."""
        return self.lags + 1

    @property
    def sources(self) -> tuple[str, ...]:
        """The data's columns that say which rows follow each other."""
        return tuple(name for name in (self.order_column, self.series_column) if name is not None)

    @property
    def season_levels(self) -> tuple[int, ...]:
        """How many levels each season has."""
        return tuple(SEASONS[season] for season in self.seasons)

    @property
    def in_words(self) -> str:
        """How rows follow each other, as it reads in a sentence."""
        rule = "every row follows the one before it"
        if self.order_column is not None:
            rule = f"a row follows the one before it where {self.order_column!r} is {self.order_step} later"
        if self.series_column is not None:
            also = "and" if self.order_column is not None else "where"
            rule = rule if self.order_column is not None else "a row follows the one before it"
            rule += f" {also} {self.series_column!r} is the same"
        return rule
