"""What a release says about itself: frozen values that become release.json and come back from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
FORMAT_VERSION = "2.0"
Form = Literal["table", "moments", "synthetic"]
Kind = Literal["continuous", "integer"]
Noise = Literal["rounded", "discrete"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NOISES: tuple[Noise, ...] = get_args(Noise)
_NARROWEST, _FARTHEST = 1e-100, 1e100  # half a range and a bound: squares beyond would vanish or overflow
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
class Stage:
    """One set of noisy moments and everything public about how it was made.

    Rows are x = (u - centre) / scale, u being the cell on [-1, 1] by the public bounds (`features` says which functions
    of them); rows are clipped to the l2 ball of `radius`; the sums of x and x x^T get noise of
    standard deviation tau / mean_weight and tau (sqrt(2) tau on the diagonal), on lattices of 1/steps and 1/steps^2,
    and are divided by `rows`: the number of rows, or, where persons are protected and it is secret (`count_weight`
    above 0), that number with noise of standard deviation tau / count_weight, moved into its public range.
    """

    mu: float
    radius: float
    clipped: bool
    mean_weight: float
    tau: float
    steps: int
    family: str
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    features: FeatureKind = "linear"
    rows: int = 0
    count_weight: float = 0.0


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
    """What stands between the released moments and the synthetic rows."""

    widened: bool
    repaired_by: float
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


def pooled_rows(stages: Sequence[Stage]) -> int:
    """The number of rows of a release whose stages each state one: the mean by how well each is known.

    >>> made = {"mu": 1.0, "radius": 2.0, "clipped": True, "mean_weight": 1.0, "tau": 1.0, "steps": 1}
    >>> made |= {"family": "rounded-gaussian", "centre": (), "scale": ()}
    >>> pooled_rows([Stage(**made, rows=90, count_weight=1.0), Stage(**made, rows=120, count_weight=2.0)])
    114
    """
    if not all(stage.count_weight for stage in stages):
        return stages[-1].rows
    weights = [(stage.count_weight / stage.tau) ** 2 for stage in stages]
    return round(sum(w * stage.rows for w, stage in zip(weights, stages, strict=True)) / sum(weights))


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

_NESTED = {"unit": Unit, "radius_search": RadiusSearch, "synthetic": SyntheticNote, "ledger": LedgerReference}
_NESTED_LISTS = {"stages": Stage, "files": Part}
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
