"""What a release says about itself: frozen values that become release.json and come back from it.

Rows in time: which rows follow each other, and how many of them moments are taken of together.

A stack is a row with its `lags` rows before it. Rows stand as they are in the data; a row follows the one before it
where both have the same series, and their order cells lie one `order_step` apart. Nothing of that is taken from the
data but, row by row, whether it does: how many stacks there are is released with noise (docs/maths/series.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args

from hazeglass.bundle.columns import CellNoise, Column, Scale
from hazeglass.errors import BundleError, HazeglassError, InputError
from hazeglass.features.harmonics import FeatureKind
from hazeglass.guarantee.budget import Lifetime
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.units import Period, Unit, lattice_steps

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
        conditions = [] if self.order_column is None else [f"{self.order_column!r} is {self.order_step} later"]
        conditions += [] if self.series_column is None else [f"{self.series_column!r} is the same"]
        if not conditions:
            return "every row follows the one before it"
        return f"a row follows the one before it where {' and '.join(conditions)}"


FORMAT = "hazeglass-release"
FORMAT_VERSION = "3.0"
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
Form = Literal["table", "moments", "synthetic"]
_ADDRESS = re.compile(r"https?://[^\s\x00-\x20\x7f]+", re.IGNORECASE)
T = TypeVar("T")


@dataclass(frozen=True)
class Round:
    """One round of noisy counts: how many cells of each column lie in each leaf of a public partition, or are missing.

    Every count gets rounded Gaussian noise of scale `noise_scale`; partitions and counts stand in marginals.parquet.
    """

    mu: float
    noise_scale: float


@dataclass(frozen=True)
class Standard:
    """The linear scale: x = (u - centre) / scale by the released marginals, moved into [-largest, largest]."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    largest: float


@dataclass(frozen=True)
class Stage:
    """One set of noisy moments and everything public about how it was made.

    Rows are y = A x - centre, x being what `features` says of the columns (`of`: their numbers) on the release's scale,
    A the map in moments.parquet (the identity where `mapped` is false). They are clipped to the l2 ball of `radius`, or
    where cells are protected each entry to `box`; the sums of y and y y^T get noise of standard deviation
    tau / mean_weight and tau (sqrt(2) tau on the diagonal), on lattices of 1/steps and 1/steps^2,
    and are divided by `rows`: the number of rows, or, where persons are protected and it is secret (`count_weight`
    above 0), that number with noise of standard deviation tau / count_weight, moved into its public range.
    Behind the numbers of a row stand, for every categorical column, 0 and 1 for each of its `levels`: a 1 at the cell's
    own. No map touches them, and no row is clipped for them.
    In a running release (:class:`~hazeglass.guarantee.budget.Lifetime`) this is about the running sums, and tau is
    their noise's; `mu` is what all of the lifetime's releases cost together.
    With `lags` above 0 a row is a stack of as many data rows and one more, column by column from the latest to the
    first, and `rows` is the number of stacks, which is secret.
    """

    mu: float
    radius: float
    clipped: bool
    mean_weight: float
    tau: float
    steps: int
    family: str
    centre: tuple[float, ...]
    features: FeatureKind = "columns"
    of: tuple[int, ...] = ()
    box: float | None = None
    mapped: bool = False
    rows: int = 0
    count_weight: float = 0.0
    levels: tuple[int, ...] = ()
    lags: int = 0

    @property
    def size(self) -> int:
        """How many features a row has."""
        return len(self.centre)

    @property
    def scored(self) -> int:
        """How many of them are numbers, and not indicators of levels."""
        return len(self.centre) - sum(self.levels)

    @property
    def longest(self) -> float:
        """The most that a row is long, its indicators included."""
        return math.hypot(self.radius, math.sqrt(len(self.levels)))

    def lattice(self, rows: int) -> int:
        """The steps that follow for at most so many rows from all else that is said of a stage."""
        largest = max(self.box or self.radius, 1.0 if self.levels else 0.0)
        radius = self.radius if self.clipped else None
        return lattice_steps(rows, largest, self.tau, self.mean_weight, self.scored, radius)


@dataclass(frozen=True)
class RadiusSearch:
    """A clip radius bought from the data: noisy answers to 'how many rows are at most this long?'."""

    mu: float
    quantile: float
    noise_scale: float
    answers: tuple[tuple[float, int], ...]
    radius: float
    total_variation: float


@dataclass(frozen=True)
class SyntheticNote:
    """What, beside the released numbers, the synthetic rows follow from.

    exact   whether their mean and covariance are exactly the released ones, bounds and distributions notwithstanding
    offset  with which released numbers are rounded, so that rounding is the same on every computer
    """

    seed: int
    integers_rounded: bool
    exact: bool = False
    offset: int = 0

    def fits(self, manifest: Manifest) -> bool:
        """Whether a plan leads to it: rows of scores keep ranks, and only fields are fitted to rounded numbers."""
        return not (self.exact and manifest.scale == "scores") and (not self.offset or manifest.drawn_from_field)


@dataclass(frozen=True)
class LedgerReference:
    """The event of the publisher's ledger that charged this release: whose ledger, which event, and its digest."""

    dataset: str
    event: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What a publisher may say of a publication beside its promise; readers, catalogues and registries ask for it."""

    curator: str | None = None
    contact: str | None = None
    intended_use: str | None = None
    region: str | None = None
    sector: str | None = None
    licence: str | None = None
    justification: str | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        """Catalogues make a link of the address, and some links are programs."""
        if isinstance(self.address, str) and not _ADDRESS.fullmatch(self.address):
            raise InputError("the address of a publication must begin with https:// or http:// and have no spaces.")


@dataclass(frozen=True)
class Part:
    """A file of the bundle."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """release.json: the truth about a release, its fields in the order of the document."""

    title: str
    publication: Publication | None = None
    form: Form
    unit: Unit
    n: int
    persons: int | None = None
    period: Period | None = None
    lifetime: Lifetime | None = None
    order: Literal["shuffled", "kept"] | None = None
    row_counts: Literal["public"] | None = None
    series: Series | None = None
    quoted_newlines: bool = False
    columns: tuple[Column, ...]
    mu: float
    epsilon: float
    delta: float
    delta_slack: float
    epsilon_delta_curve: tuple[tuple[float, float], ...] = ()
    attack_odds: tuple[tuple[float, float], ...] = ()
    simulation: bool
    clip_radius: float | None = None
    scale: Scale | None = None
    rounds: tuple[Round, ...] = ()
    standard: Standard | None = None
    stages: tuple[Stage, ...] = ()
    radius_search: RadiusSearch | None = None
    synthetic: SyntheticNote | None = None
    ledger: LedgerReference | None = None
    created: str
    versions: Mapping[str, str]
    files: tuple[Part, ...] = ()

    @property
    def guarantee(self) -> GaussianDP:
        """The promise."""
        return GaussianDP(self.mu)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def drawn_from_field(self) -> bool:
        """Whether rows are drawn from a Markov field: normal numbers have neither levels nor curves."""
        last = self.stages[-1] if self.stages else None
        return last is not None and self.scale == "scores" and (bool(last.levels) or last.features == "cosines")

    @property
    def moment_sets(self) -> tuple[Stage, ...]:
        """What moments.parquet holds, one after the other: stages, or draws of a lifetime."""
        return self.stages if self.lifetime is None else self.stages * self.lifetime.step

    @property
    def whole_columns(self) -> tuple[bool, ...]:
        """Which columns of rows hold whole numbers: a ball shared with others leaves a column no lattice of its own."""
        table = self.form == "table" and self.clip_radius is None
        rounded = table or (self.synthetic is not None and self.synthetic.integers_rounded)
        made_up = self.synthetic is not None  # numbers of levels are whole wherever they are made up
        return tuple(column.whole and (rounded or (made_up and bool(column.levels))) for column in self.columns)

    def to_json(self) -> dict[str, Any]:
        """The document that is written as release.json."""
        document = {"format": FORMAT, "format_version": FORMAT_VERSION, **_plain(self)}
        for column in document["columns"]:
            del column["noise"]  # the plan's wish for a family; the noise of its cells is stated
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Manifest:
        """Rebuild from a document that the schema has accepted."""
        made = {name: value for name, value in document.items() if name not in ("format", "format_version")}
        for name, kind in _NESTED.items():
            made[name] = None if made[name] is None else _made(kind, made[name])
        for name, kind in _NESTED_LISTS.items():
            made[name] = [_made(kind, entry) for entry in made[name]]
        made["columns"] = [_column(entry) for entry in made["columns"]]
        return _made(cls, made)


# ------------------------------------------------------------------------------------------------- to and from JSON

_NESTED = {
    "unit": Unit,
    "period": Period,
    "lifetime": Lifetime,
    "publication": Publication,
    "series": Series,
    "standard": Standard,
    "radius_search": RadiusSearch,
    "synthetic": SyntheticNote,
    "ledger": LedgerReference,
}
_NESTED_LISTS = {"rounds": Round, "stages": Stage, "files": Part}
# What the two numbers of a pair are called there.
_PAIRS = {
    "epsilon_delta_curve": ("epsilon", "delta"),
    "attack_odds": ("false_positive_rate", "true_positive_rate"),
    "answers": ("radius", "rows"),
}


def _plain(value: Any) -> Any:
    """Dataclasses to dictionaries, tuples to lists, pairs to dictionaries."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not is_dataclass(value):
        return dict(value) if isinstance(value, Mapping) else value
    entry = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    for name in _PAIRS.keys() & entry.keys():
        entry[name] = [dict(zip(_PAIRS[name], pair, strict=True)) for pair in entry[name]]
    return entry


def _made(kind: type[T], entry: Mapping[str, Any]) -> T:
    """The other way for one dataclass, whatever is nested in it being made already."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    for name in _PAIRS.keys() & values.keys():
        first, second = _PAIRS[name]
        values[name] = tuple((pair[first], pair[second]) for pair in values[name])
    try:
        return kind(**values)
    except InputError as error:
        raise BundleError(f"release.json says what no plan can: {error} Do not rely on it.") from None


def _column(entry: Mapping[str, Any]) -> Column:
    noise = entry["cell_noise"]
    try:
        return Column(**{**entry, "cell_noise": None if noise is None else CellNoise(**noise)})
    except HazeglassError as error:
        raise BundleError(f"release.json has a column that no plan can have: {error} Do not rely on it.") from None
