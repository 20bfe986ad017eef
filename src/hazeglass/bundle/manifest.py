"""What a release says about itself: frozen values that become release.json and come back from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Real
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from hazeglass.errors import BoundsMissingError, BundleError, HazeglassError, PlanError
from hazeglass.features.harmonics import FeatureKind
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.units import Unit

FORMAT = "hazeglass-release"
FORMAT_VERSION = "3.0"
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
Form = Literal["table", "moments", "synthetic"]
Scale = Literal["scores", "linear", "public"]
Kind = Literal["continuous", "integer"]
Noise = Literal["rounded", "discrete"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NOISES: tuple[Noise, ...] = get_args(Noise)
_NARROWEST, _FARTHEST = 1e-100, 1e100  # half a range and a bound: squares beyond would vanish or overflow
_MOST_VALUES = 2**29  # of a whole-numbered column; borders of leaves do not tell more of them apart
_UNSAID: Any = None
FloatArray = npt.NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class Transform:
    """A public, increasing function applied to clamped values before anything else."""

    apply: Callable[[FloatArray], FloatArray]
    lowest: float
    label: str


TRANSFORMS: dict[str, Transform] = {
    "log": Transform(np.log, 0.0, "log({})"),
    "log1p": Transform(np.log1p, 0.0, "log(1 + {})"),
    "sqrt": Transform(np.sqrt, 0.0, "sqrt({})"),
    "asinh": Transform(np.arcsinh, -math.inf, "asinh({})"),
}


@dataclass(frozen=True)
class CellNoise:
    """Noise of one column of a table: value = offset + step * (integer + noise), noise on the integers."""

    family: str
    scale: float
    step: float
    offset: float
    variance: float


@dataclass(frozen=True)
class Column:
    """A column as the public knows it. Released values are on the transformed scale.

    `lower` and `upper` come from what is publicly known about the quantity, and `reason` says how; a column without
    them is refused. `cell_noise` is what a release says of a table's column; a plan leaves it out.
    """

    name: str
    kind: Kind
    lower: float = _UNSAID
    upper: float = _UNSAID
    transform: str | None = None
    noise: Noise = "rounded"
    reason: str = ""
    cell_noise: CellNoise | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_words(self)
        missing = [key for key in ("lower", "upper") if getattr(self, key) is None]
        if missing:
            raise BoundsMissingError(
                f"column {self.name[:100]!r} has no {' and no '.join(missing)} bound. Bounds must come from what is "
                "publicly known about the quantity, never from the data; write them into the plan."
            )
        for key in ("lower", "upper"):
            object.__setattr__(self, key, _number(self, key))
        _check_bounds(self)

    def transformed(self, values: FloatArray) -> FloatArray:
        """The public transform of values that already lie within the bounds."""
        return values if self.transform is None else TRANSFORMS[self.transform].apply(values)

    @property
    def whole(self) -> bool:
        """Whether its released values could be whole numbers: a transform leaves none."""
        return self.kind == "integer" and self.transform is None

    @property
    def label(self) -> str:
        """What the released values are, for people: 'log(raf)'."""
        return self.name if self.transform is None else TRANSFORMS[self.transform].label.format(self.name)

    @property
    def centre(self) -> float:
        """Middle of the transformed bounds: the public stand-in for a missing cell."""
        low, high = self._ends
        return low / 2 + high / 2

    @property
    def half_width(self) -> float:
        """Half the length of the transformed bounds."""
        low, high = self._ends
        return high / 2 - low / 2

    @property
    def _ends(self) -> tuple[float, float]:
        low, high = self.transformed(np.array([self.lower, self.upper]))
        return float(low), float(high)


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
    """What, beside the released numbers, the synthetic rows follow from."""

    seed: int
    integers_rounded: bool


@dataclass(frozen=True)
class LedgerReference:
    """The event of the publisher's ledger that charged this release: whose ledger, which event, and its digest."""

    dataset: str
    event: int
    digest: str


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
    form: Form
    unit: Unit
    n: int
    persons: int | None = None
    order: Literal["shuffled", "kept"] | None = None
    row_counts: Literal["public"] | None = None
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
    def whole_columns(self) -> tuple[bool, ...]:
        """Which columns of rows hold whole numbers: a ball shared with others leaves a column no lattice of its own."""
        table = self.form == "table" and self.clip_radius is None
        whole = table or (self.synthetic is not None and self.synthetic.integers_rounded)
        return tuple(whole and column.whole for column in self.columns)

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


def unit_step(column: Column, scale: Scale | None) -> float:
    """Between the values of a whole-numbered column on [-1, 1]; 0 for others, and where a transform has bent them or
    they are so many that they might as well be real numbers.

    Ranks do not change under a transform, so that scores leave it out.
    """
    whole = column.kind == "integer" and (scale == "scores" or column.transform is None)
    return 2 / (column.upper - column.lower) if whole and column.upper - column.lower < _MOST_VALUES else 0.0


def _check_words(column: Column) -> None:
    """Everything but the bounds is one of the words it may be."""
    if not (isinstance(column.name, str) and 1 <= len(column.name) <= 1000):
        raise PlanError(f"a column's name must be text of 1 to 1000 characters, got {_short(column.name)}.")
    where = f"column {column.name[:100]!r}"
    if not _is_text(column.name):
        raise PlanError(f"titles and names must be Unicode text, got {column.name[:60]!a}. Write it anew.")
    for key, allowed in (("kind", KINDS), ("noise", NOISES), ("transform", (None, *TRANSFORMS))):
        value = getattr(column, key)
        if not isinstance(value, str | None) or value not in allowed:
            choices = ", ".join(repr(choice) for choice in allowed if choice is not None)
            raise PlanError(f"{where}: {key} must be one of {choices}, got {_short(value)}.")
    if not (isinstance(column.reason, str) and len(column.reason) <= 2000 and _is_text(column.reason)):
        raise PlanError(f"{where}: reason must be text of at most 2000 characters, got {_short(column.reason)}.")
    if column.noise == "discrete" and (column.kind != "integer" or column.transform is not None):
        raise PlanError(f'{where}: noise = "discrete" needs kind = "integer" and no transform.')


def _number(column: Column, key: str) -> float:
    value = getattr(column, key)
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise PlanError(f"column {column.name[:100]!r}: {key} must be of type number, got {_short(value)}.")
    try:
        return float(value)
    except OverflowError:
        raise PlanError(
            f"column {column.name[:100]!r}: bounds must lie within {_FARTHEST:g} of 0, got {_short(value)}."
        ) from None


def _check_bounds(column: Column) -> None:
    """The bounds are the ends of a range that the transform and the arithmetic can bear."""
    where, lower, upper = f"column {column.name[:100]!r}", column.lower, column.upper
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise PlanError(f"{where}: lower must be below upper and both finite, got {lower:g} and {upper:g}.")
    if max(abs(lower), abs(upper)) > _FARTHEST:
        raise PlanError(f"{where}: bounds must lie within {_FARTHEST:g} of 0, got {lower:g} and {upper:g}.")
    lowest = -math.inf if column.transform is None else TRANSFORMS[column.transform].lowest
    if lower < lowest:
        raise PlanError(f"{where}: transform = {column.transform!r} needs lower >= {lowest:g}, got {lower:g}.")
    if column.transform == "log" and lower <= 0:
        raise PlanError(f"{where}: transform = 'log' needs lower > 0, got {lower:g}. Use log1p, or raise lower.")
    if column.kind == "integer" and not (lower.is_integer() and upper.is_integer()):
        raise PlanError(f"{where} is an integer column: its bounds must be whole, got {lower:g} and {upper:g}.")
    if not _NARROWEST < column.half_width < math.inf:
        raise PlanError(f"{where}: the bounds {lower:g} and {upper:g} leave no usable range. Choose others.")


def _is_text(value: str) -> bool:
    """Whether it can be written: half a surrogate pair is no character."""
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ------------------------------------------------------------------------------------------------- to and from JSON

_NESTED = {
    "unit": Unit,
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
    return kind(**values)


def _column(entry: Mapping[str, Any]) -> Column:
    noise = entry["cell_noise"]
    try:
        return Column(**{**entry, "cell_noise": None if noise is None else CellNoise(**noise)})
    except HazeglassError as error:
        raise BundleError(f"release.json has a column that no plan can have: {error} Do not rely on it.") from None
