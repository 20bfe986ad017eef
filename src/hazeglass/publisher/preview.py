"""What a release will cost and what it will be good for, from the plan and the number of rows alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from itertools import combinations_with_replacement
from numbers import Integral, Real
from typing import Any, Literal

from scipy.optimize import brentq
from scipy.special import chdtri, chndtrinc, ndtr, ndtri

from hazeglass.bundle.columns import response_of
from hazeglass.bundle.manifest import Form
from hazeglass.errors import InputError
from hazeglass.features.harmonics import DEGREES, SEASON_SHARE
from hazeglass.features.marginal import MOST_ROUNDS
from hazeglass.features.shaping import MOST_STAGES
from hazeglass.guarantee.gdp import Explanation, GaussianDP, explain
from hazeglass.publisher.moments import design_stages
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.plan_columns import SERIES_KEYS, cautions
from hazeglass.publisher.table import TableMechanism

# Without the data, its spread inside the bounds must be supposed: a standard deviation of a third of the half-width
# means that bounds lie three standard deviations from the middle.
SUPPOSED_SPREAD = 1 / 3
FDR, POWER = 0.1, 0.8
_STRONG = 0.5  # few edges of real data are stronger
_TIMES_FAINTER = 1.5  # curved moments are worth their price while linear ones see edges at most so much fainter
_WHITENING = 1.25  # what whitening the cosines of a column does to the noise
# A dependence of this strength explains about a tenth of a column's variance; who would miss it should not look for it.
WORTHWHILE = 0.3


@dataclass(frozen=True)
class FormPreview:
    """One form's quality. Errors are standard deviations of a correlation between two unrelated columns."""

    form: str
    sampling_error: float
    privacy_error: float
    detectable: float

    @property
    def ratio(self) -> float:
        """Privacy noise in units of the sampling error that would be there anyway."""
        return self.privacy_error / self.sampling_error


@dataclass(frozen=True)
class DependenceAdvice:
    """The smallest partial correlation that linear moments show, the smallest strength that curved ones do."""

    linear_detectable: float
    curved_detectable: float
    advice: Literal["linear", "curved"]
    chosen: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """For people who have not decided yet."""
        linear, curved = _from(self.linear_detectable), _from(self.curved_detectable)
        first = (
            f'Linear or curved: with dependence = "linear" this budget shows partial correlations {linear}; with '
            f'"curved" it shows dependence of any smooth shape {curved} in strength.'
        )
        if self.advice == "curved":
            return (first, 'Advice: "curved", unless you know that only straight lines matter and they may be faint.')
        if self.curved_detectable > WORTHWHILE:
            return (
                first,
                f'Advice: "linear"; a curve that explains a tenth of a column (strength {WORTHWHILE}) is lost.',
            )
        return (first, 'Advice: "linear", which sees much fainter edges, unless you look for curves.')


@dataclass(frozen=True)
class KindsPreview:
    """The smallest strength that two columns of these kinds show, levels being as frequent as each other."""

    kinds: tuple[str, str]
    detectable: float


@dataclass(frozen=True)
class Preview:
    """Cost and expected quality of a plan.

    cell_noise      tables: standard deviation of the noise in a cell, in the column's own (transformed) unit
    variance_noise  other forms: standard deviation of the noise in the column's variance, in that unit squared
    dependence      adaptive moments: what linear and curved ones would show, and which to use
    kinds           adaptive moments of several kinds of columns: what strength each pair of kinds can show
    passes          fewest and most passes over the rows; how many it takes follows from what is released on the way
    """

    rows: int
    columns: int
    form: Form
    promise: Explanation
    chosen: FormPreview
    forms: tuple[FormPreview, ...]
    cell_noise: dict[str, float]
    variance_noise: dict[str, float]
    rows_for_equal_noise: float | None
    supposed_spread: float
    dependence: DependenceAdvice | None
    kinds: tuple[KindsPreview, ...]
    passes: tuple[int, int]
    cautions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {**asdict(self), "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        """What a graph from this release can be expected to show, in plain words."""
        smallest, best = self.chosen.detectable, min(self.forms, key=lambda form: form.detectable)
        if smallest < _STRONG:
            return f"Edges with a partial correlation of {smallest:.2g} or more will mostly be found."
        if best.detectable < smallest / 2:
            remedy = f'form = "{best.form}" would show those from {best.detectable:.2g}'
        else:
            remedy = "more rows, fewer columns or a larger epsilon could change that"
        if smallest < 1:
            return f"Expect an almost empty graph: only edges above {smallest:.2g} will mostly be found; {remedy}."
        return f"Nothing will be seen: with this plan no edge can be found, however strong; {remedy}."

    def __repr__(self) -> str:
        return f"<Preview: {self.form}, {self.rows:,} rows, {self.columns} columns. {self.verdict}>"

    def _repr_html_(self) -> str:
        from hazeglass.present.pages import notes_html

        return notes_html(f"Preview of a {self.form} release", (*self.promise.promise, self.verdict, *self.cautions))


def preview(plan: Plan, rows: int) -> Preview:
    """Look ahead without touching any data."""
    said: object = rows
    if not isinstance(said, Integral) or rows < 2:
        got = rows if isinstance(said, Real) else type(rows).__name__
        raise InputError(f"rows must be a whole number of at least 2, got {got}. Give how many rows the data has.")
    forms = tuple(_form_preview(other, rows) for other in _alternatives(plan))
    return Preview(
        rows=rows,
        columns=len(plan.columns),
        form=plan.form,
        promise=explain(plan.guarantee, plan.unit, plan.delta),
        chosen=_form_preview(plan, rows),
        forms=forms,
        cell_noise=_cell_noise(plan, rows),
        variance_noise=_variance_noise(plan, rows),
        rows_for_equal_noise=_rows_for_equal_noise(plan),
        supposed_spread=SUPPOSED_SPREAD,
        dependence=dependence_advice(plan, rows, _call_threshold(len(plan.columns)), POWER),
        kinds=kinds_preview(plan, rows),
        passes=passes(plan),
        cautions=cautions(plan, rows),
    )


def plan_html(plan: Plan) -> str:
    """A plan as a notebook shows it: what it promises, and its columns in a few words."""
    from hazeglass.present.pages import notes_html

    words = explain(plan.guarantee, plan.unit, plan.delta).promise[:2]
    some = ", ".join(plan.names[:12]) + (f" and {len(plan.names) - 12} more" if len(plan.names) > 12 else "")
    return notes_html(f"Plan: {plan.title}", (*words, f"{plan.form}; columns: {some}", *cautions(plan)))


def epsilon_to_see(plan: Plan, rows: int, partial_correlation: float) -> float | None:
    """The epsilon at which a partial correlation of this size would be found; None if sampling error alone hides it."""
    if not 0 < partial_correlation < 1:
        raise InputError(f"the partial correlation must lie strictly between 0 and 1, got {partial_correlation!r}.")
    if _smallest_edge(1 / math.sqrt(rows), len(plan.columns)) >= partial_correlation:
        return None

    def excess(log_mu: float) -> float:
        mu = min(1e3, math.exp(log_mu))
        looser = replace(plan, mu=mu, epsilon=GaussianDP(mu).epsilon(plan.delta))
        return _form_preview(looser, rows).detectable - partial_correlation

    low, high = math.log(1e-4), math.log(1e3)
    if excess(high) > 0:
        return None
    if excess(low) < 0:
        return GaussianDP(1e-4).epsilon(plan.delta)
    return GaussianDP(math.exp(brentq(excess, low, high, xtol=1e-6))).epsilon(plan.delta)


def _alternatives(plan: Plan) -> list[Plan]:
    """The same promise in every form that can make it; beside a lifetime, spent on one release."""
    if plan.lifetime is not None:
        one = replace(plan, periods=None, period_column=None, period=None)
        return [plan, *(other for other in _alternatives(one) if other.form != plan.form)]
    plain = tuple(replace(column, noise="rounded") for column in plan.columns)
    unit = plan.unit.name

    alone: dict[str, Any] = {"rows": "independent", **dict.fromkeys(SERIES_KEYS)}

    def other(form: Form) -> Plan:
        return replace(
            plan if form == "moments" or plan.series is None else replace(plan, **alone),
            form=form,
            columns=plain,
            adaptive=form != "table" and unit != "column",
            clip_radius=None,
            scale="scores" if form == "table" else plan.scale,
            dependence="linear",
            round_integers=False,
            exact=False,
            order=None,
            row_counts="public" if form == "table" and plan.unit.name == "person" else None,
        )

    if unit == "column" or (unit in ("entry", "readings") and len(plain) < 2):
        return [other("table")]
    return [other("moments"), other("table"), other("synthetic")]


def _form_preview(plan: Plan, rows: int) -> FormPreview:
    sampling = 1 / math.sqrt(rows)
    privacy = _table_error(plan, rows) if plan.form == "table" else _moments_error(plan, rows)
    detectable = _smallest_edge(math.hypot(sampling, privacy), len(plan.columns))
    return FormPreview(plan.form, sampling, privacy, min(1.0, detectable))


def _table_error(plan: Plan, rows: int) -> float:
    """Noise of variance N beside a signal of variance 1 turns 1/n into (1 + N)^2 / n."""
    columns = TableMechanism.design(plan, rows).columns
    ratios = [
        # A level that is answered truly with P and else with q is seen through a factor of P - q.
        1 / (response_of(c).kept - response_of(c).other) ** 2 - 1
        if c.cell_noise is None
        else c.cell_noise.variance / (SUPPOSED_SPREAD * c.half_width) ** 2
        for c in columns
    ]
    inflation = 1 + sum(ratios) / len(ratios)
    return math.sqrt((inflation**2 - 1) / rows)


def _moments_error(plan: Plan, rows: int) -> float:
    """tau / n on the scale of the last stage, which is the data's own where the plan is adaptive.

    Scores in a box keep only what lies inside it of a correlation.
    """
    last = design_stages(plan, rows)[-1]
    if plan.series is not None and plan.series.seasons:
        last = replace(last, tau=last.tau / math.sqrt(1 - SEASON_SHARE))
    variance = 1.0 if plan.adaptive else SUPPOSED_SPREAD**2
    if plan.adaptive and last.box is not None:
        variance = float(ndtr(last.box) - ndtr(-last.box)) ** 2
    return last.tau / rows / variance


def _smallest_edge(error: float, columns: int) -> float:
    """The partial correlation found with power 0.8 at a false-discovery rate of 0.1.

    Supposing that about one edge per column is real, Benjamini-Hochberg calls p-values up to about
    FDR * (edges found) / (pairs).
    """
    return float((ndtri(1 - _call_threshold(columns) / 2) + ndtri(POWER)) * error)


def _call_threshold(columns: int) -> float:
    """The largest p-value that is called an edge, supposing about one real edge per column."""
    pairs = max(1.0, columns * (columns - 1) / 2)
    return min(FDR, FDR * max(1.0, POWER * columns) / pairs)


def _cell_noise(plan: Plan, rows: int) -> dict[str, float]:
    """Standard deviation of the noise in a cell, in the column's (transformed) unit; tables only."""
    if plan.form != "table":
        return {}
    columns = TableMechanism.design(plan, rows).columns
    return {column.name: math.sqrt(column.cell_noise.variance) for column in columns if column.cell_noise}


def _variance_noise(plan: Plan, rows: int) -> dict[str, float]:
    """Standard deviation of the noise in a column's variance, in the square of the column's unit; not for tables.

    The noise in the covariance of two columns is the geometric mean of theirs, divided by sqrt(2).
    """
    if plan.form == "table":
        return {}
    last = design_stages(plan, rows)[-1]
    spread = SUPPOSED_SPREAD if plan.adaptive else 1.0
    noise = math.sqrt(2) * last.tau / rows * spread**2
    return {column.name: noise * column.half_width**2 for column in plan.columns}


def _rows_for_equal_noise(plan: Plan) -> float | None:
    """Rows at which privacy noise and sampling error are the same size; a table's ratio does not depend on rows."""
    if plan.form == "table":
        return None

    def log_ratio(log_rows: float) -> float:
        rows = max(2, round(math.exp(log_rows)))
        return math.log(_moments_error(plan, rows) * math.sqrt(rows))

    low, high = math.log(2), math.log(1e12)
    if log_ratio(low) <= 0 or log_ratio(high) >= 0:
        return None
    return math.exp(brentq(log_ratio, low, high, xtol=1e-3))


def dependence_advice(plan: Plan, rows: int, threshold: float, power: float) -> DependenceAdvice | None:
    """For moments that could be either: found means a p-value of `threshold`, with this power.

    Curved moments see more kinds of dependence and pay for it twice: rows of 3p features need three times the noise of
    rows of p columns, and a test of nine numbers needs a stronger signal than a test of one (docs/maths/curved.md).
    """
    if plan.form != "moments" or not plan.adaptive or plan.unit.name not in ("record", "person"):
        return None
    if not all(column.ordered for column in plan.columns) or plan.series is not None:
        return None
    sampling = 1 / math.sqrt(rows)
    kinds = (replace(plan, scale="scores", dependence=kind) for kind in ("linear", "curved"))
    linear, curved = (design_stages(kind, rows)[-1].tau / rows for kind in kinds)
    one = float(ndtri(1 - threshold / 2) + ndtri(power))
    degrees = DEGREES["cosines"] ** 2
    nine = math.sqrt(float(chndtrinc(chdtri(degrees, threshold), degrees, 1 - power)))
    linear_detectable = min(1.0, one * math.hypot(sampling, linear))
    curved_detectable = min(1.0, nine * math.hypot(sampling, _WHITENING * curved))
    worthwhile = curved_detectable <= min(WORTHWHILE, _TIMES_FAINTER * linear_detectable)
    advice: Literal["linear", "curved"] = "curved" if worthwhile else "linear"
    return DependenceAdvice(linear_detectable, curved_detectable, advice, plan.dependence)


def kinds_preview(plan: Plan, rows: int) -> tuple[KindsPreview, ...]:
    """For every pair of kinds among the columns, each with as many levels as its columns have on average.

    A coarse column keeps part of a correlation, so that what is found is divided by that and its noise with it. Of k
    levels there are k - 1 features, whose noise is larger by sqrt(k); a test of several numbers needs a stronger signal
    than a test of one (docs/maths/levels.md).
    """
    if plan.form == "table" or not plan.adaptive or len({column.kind for column in plan.columns}) < 2:
        return ()
    threshold, noise = _call_threshold(len(plan.columns)), _moments_error(plan, rows)
    made = {}
    for kind in dict.fromkeys(column.kind for column in plan.columns):
        levels = [len(column.levels) for column in plan.columns if column.kind == kind]
        made[kind] = _kind_costs(kind, max(2, round(sum(levels) / len(levels))))
    found = []
    for one, other in combinations_with_replacement(made, 2):
        if one == other and sum(column.kind == one for column in plan.columns) < 2:
            continue
        (own, width), (theirs, breadth) = made[one], made[other]
        degrees = own * theirs
        signal = math.sqrt(float(chndtrinc(chdtri(degrees, threshold), degrees, 1 - POWER)) / min(own, theirs))
        error = math.hypot(noise * width * breadth, 1 / math.sqrt(rows) * math.sqrt(_coarse(one) * _coarse(other)))
        found.append(KindsPreview((one, other), min(1.0, signal * error)))
    return tuple(found)


def _kind_costs(kind: str, levels: int) -> tuple[int, float]:
    """Features of a column, and what its kind multiplies the noise of one by."""
    return (levels - 1, math.sqrt(levels)) if kind == "categorical" else (1, _coarse(kind))


def _coarse(kind: str) -> float:
    """What seeing a hidden normal in few levels multiplies errors by."""
    return {"binary": math.pi / 2, "ordinal": 1.15}.get(kind, 1.0)


def passes(plan: Plan) -> tuple[int, int]:
    """Fewest and most passes over the rows: counts, which cells are there, stages."""
    if plan.form == "table":
        return 1, 1
    if plan.lifetime is not None:
        return plan.lifetime.step, plan.lifetime.step  # one for every period so far
    if not plan.adaptive:
        return (2, 2) if plan.clip_radius == "private" else (1, 1)
    one_stage = plan.dependence == "curved" or plan.unit.name in ("entry", "readings")
    fewest, most = (3, MOST_ROUNDS + 2) if one_stage else (4, MOST_ROUNDS + 1 + MOST_STAGES)
    before = 0 if plan.series is None else bool(plan.series.sources) + bool(plan.series.seasons)
    return fewest + before, most + before


def _from(smallest: float) -> str:
    return f"from {smallest:.2g}" if smallest < 1 else "of no size"
