"""What a plan says of rows in time, and what such a plan cannot be combined with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hazeglass.bundle.columns import origins
from hazeglass.bundle.series import SEASON_NAMES, Series
from hazeglass.errors import InputError, PlanError

if TYPE_CHECKING:
    from hazeglass.publisher.plan import Plan

SERIES_KEYS = ("lags", "order_column", "order_step", "series_column", "seasons")


def series_of(plan: Plan) -> Series | None:
    """The keys of [release] about rows in time; refused where one is given and rows are none."""
    said = {key: getattr(plan, key) for key in SERIES_KEYS if getattr(plan, key) is not None}
    if plan.rows == "independent":
        said.pop("order_column", None)  # it tells rows of a table in a warehouse apart
        if said:
            raise PlanError(f'{min(said)} has no meaning without rows = "series". Remove it, or say that rows follow.')
        return None
    try:
        return Series(**{**said, "seasons": tuple(said.get("seasons", ()))})
    except InputError as error:
        raise PlanError(str(error)) from None


def check_series(plan: Plan, series: Series) -> None:
    """Refuse, in one sentence, what stacks of rows are not derived for."""
    if plan.form != "moments" or not plan.adaptive or plan.dependence != "linear":
        raise PlanError(
            'rows = "series" needs form = "moments", adaptive stages and dependence = "linear". Change the plan, or '
            "leave rows out."
        )
    if plan.period_column is not None:
        raise PlanError(
            'rows of one period are chosen before they could follow each other, so rows = "series" takes no '
            "period_column. Remove one of the two."
        )
    unordered = [column.name for column in plan.columns if not column.ordered]
    if unordered:
        raise PlanError(
            f"rows in time need columns with an order, and {unordered[0]!r} is categorical. Leave it out, or make it "
            "several binary columns."
        )
    if series.seasons and any(column.kind not in ("continuous", "integer") for column in plan.columns):
        raise PlanError("seasons need columns of numbers, continuous or integer. Leave others out, or seasons.")
    if series.seasons and set(plan.names) & set(SEASON_NAMES.values()):
        raise PlanError(f"{' and '.join(SEASON_NAMES.values())} are names of seasons. Rename the column.")
    taken = set(origins(plan.columns))
    for name in series.sources:
        if name in taken:
            raise PlanError(
                f"{name!r} says which rows follow each other, which is not protected, so it must not be a released "
                "column as well. Remove its [[columns]] entry."
            )
        if plan.text.names and name not in plan.text.names:
            raise PlanError(f"the plan names column {name!r}, which is not among text.names. Correct one of the two.")
