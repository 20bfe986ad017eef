"""The plan: everything a release needs to know that is public, and nothing taken from the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hazeglass.bundle.columns import ABSENCE, Column, origins, together
from hazeglass.bundle.manifest import Form, Publication, Season, Series
from hazeglass.compute.text import TextFormat
from hazeglass.errors import PlanError, PrivacyRefusal
from hazeglass.guarantee.budget import Lifetime
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.units import CELL_UNITS, Period, Unit, UnitName
from hazeglass.publisher.choice import check_lifetime, lifetime_of, listed
from hazeglass.publisher.choice import check_plan as check_period
from hazeglass.publisher.plan_columns import (
    check_describable,
    check_names,
    check_series,
    columns_of,
    expanded,
    series_of,
)
from hazeglass.publisher.plan_file import (
    check_categories,
    check_section,
    check_structure,
    column_entry,
    column_of,
    differing,
    plain_document,
    plain_value,
    plan_text,
    read_plan,
    toml_document,
    write_new_file,
)

if TYPE_CHECKING:
    from hazeglass.publisher.preview import Preview
    from hazeglass.publisher.scaffold import Given

_QUOTED_DELTA = 1e-6
_LARGEST_WHOLE = 2**50
_SMALLEST_MU = 1e-20
_SMALLEST_RADIUS = 1e-6  # of the box's: rows clipped to less than that would all be the public centre
_UNSAID: Any = None  # in the place of a value that follows from the others
_USUAL_TEXT = TextFormat()
# Keys of [release] that a plan says where they were given, and what others are where it does not say them.
_OF_UNITS = ("readings", "id_column", "max_rows", "persons", "period_column", "period", "row_counts")
_OF_ROWS = ("order", "adaptive", "clip_radius", "lags", "order_column", "order_step", "series_column", "seasons")
_USUAL = {"scale": "scores", "dependence": "linear", "round_integers": False, "exact": False, "rows": "independent"}
_NEEDED_BY = {"readings": ("readings",), "person": ("id_column", "max_rows")}  # and possible nowhere else


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """What will be released, what is protected, and how well. A plan that cannot be kept cannot be made.

    The arguments are the keys of a plan.toml; its [text] is a :class:`TextFormat`. The budget is `mu`, or `epsilon`
    and `delta`. What is left out is filled in: `adaptive` (counts and stages where nothing speaks for one stage), and
    for a budget in `mu` the `delta` of 1e-6 and the `epsilon` that `mu` means there. `scale` is how moments see a
    column: by its rank, or as it is. `rows` says whether each stands alone or follows others in time; `order_column`
    is what they follow by, and of a table in a warehouse what tells its rows apart.
    """

    title: str
    form: Form
    columns: tuple[Column, ...]
    protects: UnitName = "record"
    epsilon: float = _UNSAID
    delta: float = _UNSAID
    mu: float | None = None
    readings: int | None = None
    id_column: str | None = None
    max_rows: int | None = None
    persons: int | None = None
    period_column: str | None = None
    period: str | None = None
    periods: int | tuple[str, ...] | None = None
    row_counts: Literal["public"] | None = None
    order: Literal["shuffled", "kept"] | None = None
    scale: Literal["scores", "linear"] = "scores"
    dependence: Literal["linear", "curved"] = "linear"
    adaptive: bool = _UNSAID
    clip_radius: float | Literal["private"] | None = None
    round_integers: bool = False
    exact: bool = False
    rows: Literal["independent", "series"] = "independent"
    lags: int | None = None
    order_column: str | None = None
    order_step: float | str | None = None
    series_column: str | None = None
    seasons: tuple[Season, ...] | None = None
    text: TextFormat = _USUAL_TEXT
    publication: Publication | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", columns_of(self.columns))
        for field in fields(self):
            object.__setattr__(self, field.name, plain_value(getattr(self, field.name), field.name))
        if self.seasons is not None:
            object.__setattr__(self, "seasons", tuple(self.seasons))
        object.__setattr__(self, "periods", listed(self.periods))
        check_section("release", self._release(self.adaptive))
        check_section("lifetime", self._lifetime)
        check_section(
            "budget", _said(**({"epsilon": self.epsilon} if self.mu is None else {"mu": self.mu}), delta=self.delta)
        )
        if self.publication is not None:
            check_section("publication", _said(**vars(self.publication)))
        _check_unit(self)
        check_names(self)
        _ = self.rows_of, self.lifetime  # refused where they cannot be
        self._settle_budget()
        _check_form(self)
        if self.adaptive is _UNSAID:
            object.__setattr__(self, "adaptive", self._adaptive_by_default)
        _check_mechanism(self)
        if self.series is not None:
            check_series(self, self.series)
        if self.lifetime is not None:
            check_lifetime(self)
        check_describable(self)

    @classmethod
    def load(cls, path: str | Path, data: Any = None) -> Plan:
        """Read a plan.toml; one with patterns (`match`) needs the `data` whose names they choose among."""
        return cls.from_dict(toml_document(read_plan(path), Path(path).name), data)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], data: Any = None) -> Plan:
        """The plan of a document with the keys of a plan.toml."""
        document = expanded(plain_document(document), data)
        columns = check_structure(document, column_of)
        return cls(
            **document["release"],
            **document["budget"],
            **document.get("lifetime", {}),
            columns=columns,
            text=TextFormat(**document.get("text", {})),
            publication=Publication(**document["publication"]) if document.get("publication") else None,
        )

    @classmethod
    def from_frame(cls, data: Any, bounds: Mapping[str, Given] | None = None, **settings: Any) -> Plan:
        """A plan for a table's columns, by their names and declared types; no cell is looked at.

        `bounds` are (lower, upper) by name or pattern ("sensor_*"), the first that fits, or a list of levels. Numbers
        and truths are taken, of other columns those with bounds or levels; `settings` are a Plan's arguments.
        """
        from hazeglass.publisher.scaffold import frame_columns

        columns = frame_columns(data, bounds or {}, settings)
        return cls(**{"title": "My release", "form": "moments", **settings}, columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """The document with the keys of a plan.toml; :meth:`from_dict` makes the same plan of it."""
        budget = {"epsilon": self.epsilon} if self.mu is None else {"mu": self.mu}
        text = self.text.to_dict()
        return {
            "release": self._release(None if self.adaptive == self._adaptive_by_default else self.adaptive),
            **({"lifetime": self._lifetime} if self._lifetime else {}),
            **({"text": text} if text else {}),
            **({"publication": _said(**vars(self.publication))} if self.publication else {}),
            "budget": {**budget, "delta": self.delta},
            "columns": [column_entry(column) for column in self.columns if column.part != ABSENCE],
        }

    def save(self, path: str | Path) -> None:
        """Write a plan.toml, never in the place of another file."""
        write_new_file(path, plan_text(self.to_dict()))

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def unit(self) -> Unit:
        """What is protected."""
        made = together(self.columns) if self.protects in CELL_UNITS else 1
        return Unit(self.protects, readings=self.readings or 1, max_rows=self.max_rows or 1, together=made)

    @cached_property
    def rows_of(self) -> Period | None:
        """The period whose rows alone are released; None for all rows."""
        return check_period(self, tuple(origins(self.columns)))

    @cached_property
    def lifetime(self) -> Lifetime | None:
        """Which running release this is; None where it stands alone."""
        return lifetime_of(self, tuple(origins(self.columns)))

    @property
    def chosen_by(self) -> tuple[str, ...]:
        """The data's columns that say which rows are used."""
        return tuple(one for one in (self.id_column, self.period_column) if one is not None)

    @cached_property
    def series(self) -> Series | None:
        """How rows in time are read; None where each stands alone."""
        return series_of(self)

    @property
    def stacked(self) -> int:
        """How many rows before it a row is stacked with."""
        return 0 if self.series is None else self.series.lags

    @cached_property
    def guarantee(self) -> GaussianDP:
        """The promise."""
        return GaussianDP.from_budget(self.epsilon, self.delta) if self.mu is None else GaussianDP(self.mu)

    @property
    def shuffled(self) -> bool:
        """Whether rows are released in a secret order."""
        return self.form == "table" and self.order != "kept"

    def preview(self, rows: int) -> Preview:
        """Cost and expected quality for `rows` rows, without touching any data."""
        from hazeglass.publisher.preview import preview

        return preview(self, rows)

    def __repr__(self) -> str:
        promise = f"epsilon = {self.epsilon:.4g} at delta = {self.delta:g}"
        return f"<Plan: {self.title!r}, {self.form}, {len(self.columns)} columns, protects {self.protects}, {promise}>"

    def _repr_html_(self) -> str:
        from hazeglass.publisher.preview import plan_html

        return plan_html(self)

    @property
    def _adaptive_by_default(self) -> bool:
        """Counts and stages unless something in the plan speaks for one stage."""
        return self.form != "table" and self.protects != "column" and self.clip_radius is None and not self.periods

    @property
    def _lifetime(self) -> dict[str, Any]:
        return _said(periods=list(self.periods) if isinstance(self.periods, tuple) else self.periods)

    def _release(self, adaptive: bool | None) -> dict[str, Any]:
        """The keys of [release] that say something."""
        said = {key: getattr(self, key) for key in (*_OF_UNITS, *_OF_ROWS)} | {"adaptive": adaptive}
        if self.seasons is not None:
            said["seasons"] = list(self.seasons)
        unusual = differing({key: getattr(self, key) for key in _USUAL}, _USUAL)
        return {"title": self.title, "form": self.form, "protects": self.protects, **_said(**said), **unusual}

    def _settle_budget(self) -> None:
        """Fill in what the given numbers mean, and refuse two promises in one plan."""
        epsilon: float | None = self.epsilon
        delta: float | None = self.delta
        if self.mu is None:
            if epsilon is None or delta is None:
                missing = "epsilon" if epsilon is None else "delta"
                raise PlanError(f"[budget] must give epsilon and delta (or mu), and {missing} is missing. Add it.")
            _check_mu(self.guarantee.mu)
            return
        _check_mu(self.mu)
        delta = _QUOTED_DELTA if delta is None else delta
        means = self.guarantee.epsilon(delta)
        if epsilon not in (None, means):
            raise PlanError("[budget] must give either mu, or epsilon and delta, got both. Keep one.")
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "epsilon", means)


def _said(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _check_mu(mu: float) -> None:
    if mu < _SMALLEST_MU:
        raise PlanError(
            f"[budget] means mu = {mu:.3g}, and with less than {_SMALLEST_MU:g} a release is noise and nothing else. "
            "Raise the budget."
        )


def _check_unit(plan: Plan) -> None:
    """The sizes of a unit are given where the unit has them, and nowhere else."""
    needs = _NEEDED_BY.get(plan.protects, ())
    for key in needs:
        if getattr(plan, key) is None:
            raise PlanError(f"protects = {plan.protects!r} needs {key} in [release], and the plan has none. Add it.")
    allowed = (*needs, "persons", "row_counts") if plan.protects == "person" else needs
    for key in ("readings", "id_column", "max_rows", "persons", "row_counts"):
        if key not in allowed and getattr(plan, key) is not None:
            raise PlanError(f"{key} has no meaning with protects = {plan.protects!r}. Remove it, or change protects.")


def _check_form(plan: Plan) -> None:
    """Keys that only some forms have."""
    form, unit, p = plan.form, plan.protects, len(plan.columns)
    if form == "table":
        if unit == "person" and plan.row_counts is None:
            raise PrivacyRefusal(
                "a table that protects persons is refused: the file would show how many rows each person has. Use "
                'form = "moments" or "synthetic", or say row_counts = "public" where that number is no secret.'
            )
        if unit == "person" and plan.order == "kept":
            raise PrivacyRefusal('a table that protects persons must not show where rows stand. Remove order = "kept".')
    else:
        for key in ("row_counts", "order"):
            if getattr(plan, key) is not None:
                raise PlanError(f"{key} has no meaning with form = {form!r}, which releases no row. Remove it.")
        if unit == "column":
            raise PlanError(
                f'protects = "column" needs form = "table": replacing a column moves its whole row of the moment '
                f"matrix, got form = {form!r}. Use a table, or protect readings."
            )
        if unit in ("entry", "readings") and p < 2:
            raise PlanError(f'moments that protect {unit} need at least 2 columns, got {p}. Use protects = "record".')
    if plan.round_integers and form != "synthetic":
        raise PlanError('round_integers needs form = "synthetic". Remove it.')
    for column in plan.columns:
        if (
            plan.round_integers
            and column.kind == "integer"
            and max(abs(column.lower), abs(column.upper)) > _LARGEST_WHOLE
        ):
            raise PlanError(
                f"column {column.name!r}: round_integers needs bounds within 2^50 of 0, because made-up rows may lie "
                "beyond them and must fit 64 bits. Narrow the bounds, or leave round_integers out."
            )
        if column.noise == "discrete" and (form != "table" or plan.clip_radius is not None):
            raise PlanError(
                f'column {column.name!r}: noise = "discrete" needs form = "table" without clip_radius. Remove it.'
            )


def _check_mechanism(plan: Plan) -> None:
    """Stages and clipping go together."""
    form, unit, radius = plan.form, plan.protects, plan.clip_radius
    if plan.adaptive and form == "table":
        raise PlanError('adaptive = true needs form = "moments" or "synthetic", got form = "table". Remove it.')
    if plan.scale != "scores" and not plan.adaptive:
        raise PlanError('scale = "linear" needs adaptive moments or synthetic rows. Remove it, or adaptive = false.')
    if plan.exact and (form != "synthetic" or (plan.adaptive and plan.scale == "scores")):
        raise PlanError(
            'exact = true needs form = "synthetic" with scale = "linear" or adaptive = false: rows of the scale of '
            "scores keep ranks, not means and covariances. Remove it, or choose such a scale."
        )
    if plan.adaptive and radius is not None:
        raise PlanError("clip_radius belongs to one-stage releases: remove it, or set adaptive = false.")
    if form != "table":
        check_categories(plan.columns, plan.adaptive and plan.scale == "scores" and plan.dependence == "linear")
    if radius is not None and unit not in ("record", "person"):
        raise PlanError(f'clip_radius needs protects = "record" or "person", got {unit!r}. Remove clip_radius.')
    if radius is not None and form == "table" and any(column.kind == "categorical" for column in plan.columns):
        raise PlanError("clip_radius needs a table without categorical columns, whose cells have no length. Remove it.")
    if radius == "private" and form == "table":
        raise PlanError('clip_radius = "private" needs form = "moments" or "synthetic"; give a number for a table.')
    box = math.sqrt(len(plan.columns))
    if isinstance(radius, float) and not radius <= box:
        raise PlanError(
            f"clip_radius must be at most sqrt(number of columns) = {box:.4g}, the radius of the box all "
            f"values lie in, got {radius:g}. Lower it, or leave it out."
        )
    if isinstance(radius, float) and radius < _SMALLEST_RADIUS * box:
        raise PlanError(
            f"clip_radius must be at least {_SMALLEST_RADIUS * box:.4g}, a millionth of the radius of the box all "
            f"values lie in, got {radius:g}. Raise it, or leave it out."
        )
    adaptive_rows = plan.adaptive and unit in ("record", "person") and plan.scale == "scores"
    if plan.dependence == "curved" and (form != "moments" or not adaptive_rows):
        raise PlanError(
            'dependence = "curved" needs form = "moments", protects = "record" or "person", scale = "scores", and '
            "adaptive stages."
        )
