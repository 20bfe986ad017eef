"""What a release says about itself: frozen values that become release.json and come back from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.features import FeatureKind
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.sensitivity import Unit

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "TRANSFORMS",
    "CellNoise",
    "Column",
    "Form",
    "Manifest",
    "Part",
    "RadiusSearch",
    "Stage",
    "SyntheticNote",
    "Transform",
]

FORMAT = "hazeglass-release"
FORMAT_VERSION = "2.0"
Form = Literal["table", "moments", "synthetic"]
FloatArray = npt.NDArray[np.float64]


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
    """A column as the public knows it. Released values are on the transformed scale."""

    name: str
    kind: Literal["continuous", "integer"]
    lower: float
    upper: float
    transform: str | None = None
    noise: Literal["rounded", "discrete"] = "rounded"
    cell_noise: CellNoise | None = None

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
        low, high = self.transformed(np.array([self.lower, self.upper]))
        return float(low / 2 + high / 2)

    @property
    def half_width(self) -> float:
        """Half the length of the transformed bounds."""
        low, high = self.transformed(np.array([self.lower, self.upper]))
        return float(high / 2 - low / 2)


@dataclass(frozen=True)
class Stage:
    """One set of noisy moments and everything public about how it was made.

    Rows are x = (u - centre) / scale, u being the cell on [-1, 1] by the public bounds (`features` says which functions
    of them); rows are clipped to the l2 ball of `radius`; the sums of x and x x^T get noise of
    standard deviation tau / mean_weight and tau (sqrt(2) tau on the diagonal), on lattices of 1/steps and 1/steps^2.
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
class Part:
    """A file of the bundle."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """release.json: the truth about a release."""

    title: str
    form: Form
    unit: Unit
    n: int
    columns: tuple[Column, ...]
    mu: float
    epsilon: float
    delta: float
    delta_slack: float
    simulation: bool
    versions: Mapping[str, str]
    created: str
    clip_radius: float | None = None
    stages: tuple[Stage, ...] = ()
    radius_search: RadiusSearch | None = None
    synthetic: SyntheticNote | None = None
    files: tuple[Part, ...] = ()
    epsilon_delta_curve: tuple[tuple[float, float], ...] = ()
    attack_odds: tuple[tuple[float, float], ...] = ()

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
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "title": self.title,
            "form": self.form,
            "unit": asdict(self.unit),
            "n": self.n,
            "columns": [_column_json(column) for column in self.columns],
            "mu": self.mu,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "delta_slack": self.delta_slack,
            "epsilon_delta_curve": [{"epsilon": e, "delta": d} for e, d in self.epsilon_delta_curve],
            "attack_odds": [{"false_positive_rate": f, "true_positive_rate": t} for f, t in self.attack_odds],
            "simulation": self.simulation,
            "clip_radius": self.clip_radius,
            "stages": [{**asdict(s), "centre": list(s.centre), "scale": list(s.scale)} for s in self.stages],
            "radius_search": _search_json(self.radius_search),
            "synthetic": None if self.synthetic is None else asdict(self.synthetic),
            "created": self.created,
            "versions": dict(self.versions),
            "files": [asdict(part) for part in self.files],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Manifest:
        """Rebuild from a document that the schema has accepted."""
        return cls(
            title=document["title"],
            form=document["form"],
            unit=Unit(**document["unit"]),
            n=document["n"],
            columns=tuple(_column_from_json(entry) for entry in document["columns"]),
            mu=document["mu"],
            epsilon=document["epsilon"],
            delta=document["delta"],
            delta_slack=document["delta_slack"],
            simulation=document["simulation"],
            versions=document["versions"],
            created=document["created"],
            clip_radius=document["clip_radius"],
            stages=tuple(_stage_from_json(entry) for entry in document["stages"]),
            radius_search=_search_from_json(document["radius_search"]),
            synthetic=None if document["synthetic"] is None else SyntheticNote(**document["synthetic"]),
            files=tuple(Part(**entry) for entry in document["files"]),
            epsilon_delta_curve=tuple((p["epsilon"], p["delta"]) for p in document["epsilon_delta_curve"]),
            attack_odds=tuple((p["false_positive_rate"], p["true_positive_rate"]) for p in document["attack_odds"]),
        )


def _column_json(column: Column) -> dict[str, Any]:
    """A column's entry; where the noise of its cells is stated, the plan's wish for a family says nothing more."""
    entry = asdict(column)
    del entry["noise"]
    return entry


def _column_from_json(entry: Mapping[str, Any]) -> Column:
    noise = entry["cell_noise"]
    return Column(**{**entry, "cell_noise": None if noise is None else CellNoise(**noise)})


def _stage_from_json(entry: Mapping[str, Any]) -> Stage:
    return Stage(**{**entry, "centre": tuple(entry["centre"]), "scale": tuple(entry["scale"])})


def _search_json(search: RadiusSearch | None) -> dict[str, Any] | None:
    if search is None:
        return None
    return {**asdict(search), "answers": [{"radius": r, "rows": k} for r, k in search.answers]}


def _search_from_json(entry: Mapping[str, Any] | None) -> RadiusSearch | None:
    if entry is None:
        return None
    return RadiusSearch(**{**entry, "answers": tuple((a["radius"], a["rows"]) for a in entry["answers"])})
