"""The plan: everything a release needs to know that is public, and nothing taken from the data."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hazeglass.bundle.manifest import TRANSFORMS, Column, Form
from hazeglass.errors import BoundsMissingError, PlanError
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.sensitivity import Unit
from hazeglass.publisher.plan_schema import check_structure

if TYPE_CHECKING:
    from hazeglass.publisher.preview import Preview

__all__ = ["Plan"]

_QUOTED_DELTA = 1e-6
_NARROWEST, _FARTHEST = 1e-100, 1e100  # half a range and a bound: squares beyond would vanish or overflow


@dataclass(frozen=True)
class Plan:
    """What will be released, what is protected, and how well. Made by :meth:`load` or :meth:`from_dict`."""

    title: str
    form: Form
    unit: Unit
    guarantee: GaussianDP
    delta: float
    columns: tuple[Column, ...]
    adaptive: bool
    clip_radius: float | Literal["private"] | None = None
    dependence: Literal["linear", "curved"] = "linear"
    id_column: str | None = None
    round_integers: bool = False

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan.toml."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise PlanError(
                f"there is no plan {str(path)!r}. `hazeglass plan new DATA --out {path}` makes one."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise PlanError(f"the plan {str(path)!r} cannot be read as UTF-8 text: {type(error).__name__}.") from None
        try:
            document = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise PlanError(f"{path.name} must be valid TOML: {error}.") from None
        return cls.from_dict(document)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Plan:
        """Build and check a plan from the same keys a plan.toml has."""
        check_structure(document)
        release, budget = document["release"], document["budget"]
        unit = _unit(release)
        columns = tuple(_column(entry) for entry in document["columns"])
        _check_columns(columns, release.get("id_column"))
        guarantee, delta = _budget(budget)
        plan = cls(
            title=release["title"],
            form=release["form"],
            unit=unit,
            guarantee=guarantee,
            delta=delta,
            columns=columns,
            adaptive=_adaptive(release),
            clip_radius=_clip_radius(release),
            dependence=release.get("dependence", "linear"),
            id_column=release.get("id_column"),
            round_integers=release.get("round_integers", False),
        )
        plan._check()
        return plan

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def epsilon(self) -> float:
        """The epsilon of the promise at the plan's delta."""
        return self.guarantee.epsilon(self.delta)

    def preview(self, rows: int) -> Preview:
        """Cost and expected quality for `rows` rows, without touching any data."""
        from hazeglass.publisher.preview import preview

        return preview(self, rows)

    def _check(self) -> None:
        """Rules that tie several keys together."""
        unit, p = self.unit.name, len(self.columns)
        if self.form != "table":
            _check_moments(self, unit, p)
        elif self.clip_radius is not None and unit not in ("record", "person"):
            raise PlanError(f'clip_radius needs protects = "record" or "person", got {unit!r}. Remove clip_radius.')
        elif self.clip_radius == "private":
            raise PlanError('clip_radius = "private" needs form = "moments" or "synthetic"; give a number for a table.')
        if isinstance(self.clip_radius, float) and self.clip_radius > math.sqrt(p):
            raise PlanError(
                f"clip_radius must be at most sqrt(number of columns) = {math.sqrt(p):.4g}, the radius of the box all "
                f"values lie in, got {self.clip_radius:g}. Lower it, or leave it out."
            )
        if self.dependence == "curved" and (self.form != "moments" or not self.adaptive):
            raise PlanError(
                'dependence = "curved" needs form = "moments", protects = "record" or "person", and adaptive stages.'
            )
        if self.round_integers and self.form != "synthetic":
            raise PlanError('round_integers needs form = "synthetic". Remove it.')
        for column in self.columns:
            if column.noise == "discrete" and (self.form != "table" or self.clip_radius is not None):
                raise PlanError(
                    f'column {column.name!r}: noise = "discrete" needs form = "table" without clip_radius. Remove it.'
                )


def _check_moments(plan: Plan, unit: str, p: int) -> None:
    if unit == "column":
        raise PlanError(
            f'protects = "column" needs form = "table": replacing a column moves its whole row of the moment matrix, '
            f"got form = {plan.form!r}. Use a table, or protect readings."
        )
    if unit in ("entry", "readings") and p < 2:
        raise PlanError(f'moments that protect {unit} need at least 2 columns, got {p}. Use protects = "record".')
    if unit in ("entry", "readings") and plan.clip_radius is not None:
        raise PlanError(f'clip_radius needs protects = "record" or "person", got {unit!r}. Remove clip_radius.')


def _unit(release: Mapping[str, Any]) -> Unit:
    name = release.get("protects", "record")
    needs = {"readings": ("readings",), "person": ("id_column", "max_rows")}.get(name, ())
    for key in needs:
        if key not in release:
            raise PlanError(f"protects = {name!r} needs {key} in [release], and the plan has none. Add it.")
    for key in ("readings", "id_column", "max_rows"):
        if key in release and key not in needs:
            raise PlanError(f"{key} has no meaning with protects = {name!r}. Remove it, or change protects.")
    return Unit(name, readings=release.get("readings", 1), max_rows=release.get("max_rows", 1))


def _budget(budget: Mapping[str, Any]) -> tuple[GaussianDP, float]:
    if "mu" in budget:
        if "epsilon" in budget:
            raise PlanError("[budget] must give either mu, or epsilon and delta, got both. Keep one.")
        return GaussianDP(float(budget["mu"])), float(budget.get("delta", _QUOTED_DELTA))
    if "epsilon" not in budget or "delta" not in budget:
        missing = "epsilon" if "epsilon" not in budget else "delta"
        raise PlanError(f"[budget] must give epsilon and delta (or mu), and {missing} is missing. Add it.")
    return GaussianDP.from_budget(budget["epsilon"], budget["delta"]), float(budget["delta"])


def _adaptive(release: Mapping[str, Any]) -> bool:
    """Two stages unless something in the plan speaks for one."""
    possible = release["form"] != "table" and release.get("protects", "record") in ("record", "person")
    asked = release.get("adaptive")
    if asked and not possible:
        raise PlanError('adaptive = true needs form = "moments" or "synthetic" and protects = "record" or "person".')
    if asked and "clip_radius" in release:
        raise PlanError("clip_radius belongs to one-stage releases: remove it, or set adaptive = false.")
    if asked is not None:
        return bool(asked)
    return possible and "clip_radius" not in release


def _clip_radius(release: Mapping[str, Any]) -> float | Literal["private"] | None:
    given = release.get("clip_radius")
    return given if given is None or given == "private" else float(given)


def _column(entry: Mapping[str, Any]) -> Column:
    name, kind = entry["name"], entry["kind"]
    missing = [key for key in ("lower", "upper") if key not in entry]
    if missing:
        raise BoundsMissingError(
            f"column {name!r} has no {' and no '.join(missing)} bound. Bounds must come from what is publicly "
            "known about the quantity, never from the data; write them into the plan."
        )
    lower, upper = float(entry["lower"]), float(entry["upper"])
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise PlanError(f"column {name!r}: lower must be below upper and both finite, got {lower:g} and {upper:g}.")
    if max(abs(lower), abs(upper)) > _FARTHEST:
        raise PlanError(f"column {name!r}: bounds must lie within {_FARTHEST:g} of 0, got {lower:g} and {upper:g}.")
    transform = entry.get("transform")
    lowest = -math.inf if transform is None else TRANSFORMS[transform].lowest
    if lower < lowest:
        raise PlanError(f"column {name!r}: transform = {transform!r} needs lower >= {lowest:g}, got {lower:g}.")
    if transform == "log" and lower <= 0:
        raise PlanError(
            f"column {name!r}: transform = 'log' needs lower > 0, got {lower:g}. Use log1p, or raise lower."
        )
    if kind == "integer" and not (lower.is_integer() and upper.is_integer()):
        raise PlanError(f"column {name!r} is an integer column: its bounds must be whole, got {lower:g} and {upper:g}.")
    noise = entry.get("noise", "rounded")
    if noise == "discrete" and (kind != "integer" or transform is not None):
        raise PlanError(f'column {name!r}: noise = "discrete" needs kind = "integer" and no transform.')
    column = Column(name=name, kind=kind, lower=lower, upper=upper, transform=transform, noise=noise)
    if not _NARROWEST < column.half_width < math.inf:
        raise PlanError(f"column {name!r}: the bounds {lower:g} and {upper:g} leave no usable range. Choose others.")
    return column


def _check_columns(columns: Sequence[Column], id_column: str | None) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise PlanError(f"column names must be unique, but the plan names {column.name!r} twice. Remove one.")
        if column.name == id_column:
            raise PlanError(f"the id column {id_column!r} must not be released: remove its [[columns]] entry.")
        seen.add(column.name)
