"""The rows of one period, or for persons of all periods so far: those in which a column says so.

Periods are compared as ids are, in one canonical form for all types and spellings. A row whose period is missing or
cannot be read is in none. Of records the period is no secret and stays as it is when the row is replaced; of a
person's rows it is as secret as the rows are.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from hazeglass.errors import DataError, PlanError
from hazeglass.guarantee.lifetime import MOST_PERIODS, Lifetime
from hazeglass.guarantee.units import PERIOD_UNITS, Period

if TYPE_CHECKING:  # a ledger opens at once, without tables
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from hazeglass.compute.tables import TableSource
    from hazeglass.compute.text import TextFormat
    from hazeglass.publisher.plan import Plan

__all__ = ["canonical_period", "check_lifetime", "check_plan", "check_source", "in_period", "lifetime_of", "listed"]


def check_plan(plan: Plan, sources: tuple[str, ...]) -> Period | None:
    """The period whose rows are released, if the plan has one; refused where it cannot be one. `sources` are the names
    of the data's columns that are released."""
    column, value = plan.period_column, plan.period
    if (column is None and value is None) or plan.periods is not None:
        return None
    if column is None or value is None:
        missing = "period_column" if column is None else "period"
        raise PlanError(
            f"[release] must have both period_column and period, or neither, and {missing} is missing. period_column "
            "names the data's column, and period says which of its values this release is about."
        )
    if plan.protects not in PERIOD_UNITS:
        raise PlanError(
            f"period_column has no meaning with protects = {plan.protects!r}, which is in several periods: releases of "
            "them add up. Remove it, protect record, entry or readings, or give persons a [lifetime]."
        )
    if column in sources:
        raise PlanError(
            f"the period column {column!r} is the same in every row of a release: remove its [[columns]] entry."
        )
    if canonical_period(value, plan.text)[0] == "":
        raise PlanError(f"period must be a value that a cell can have, got {value[:100]!r}. Write one as the data do.")
    return Period(column, value)


def listed(periods: Any) -> Any:
    """The names of periods: a number of them stands for 1, 2 and so on. What is no list is left to the schema."""
    if isinstance(periods, int) and not isinstance(periods, bool) and 2 <= periods <= MOST_PERIODS:
        return tuple(map(str, range(1, periods + 1)))
    if not isinstance(periods, list | tuple):
        return periods
    return tuple(str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in periods)


def lifetime_of(plan: Plan, sources: tuple[str, ...]) -> Lifetime | None:
    """Which running release the plan is for; refused where it cannot be one."""
    periods, column, value = plan.periods, plan.period_column, plan.period
    if not isinstance(periods, tuple):
        return None
    if plan.protects != "person":
        raise PlanError(
            f"[lifetime] is for releases that protect persons, got protects = {plan.protects!r}: records of different "
            "periods do not add up. Leave [lifetime] out, or protect persons."
        )
    if column is None or value is None:
        missing = "period_column" if column is None else "period"
        raise PlanError(
            f"[lifetime] needs period_column and period in [release], and {missing} is missing. The release holds all "
            "rows up to that period."
        )
    if column in sources or column == plan.id_column:
        raise PlanError(f"the period column {column!r} must not be released or be the id column. Name another one.")
    cells = [canonical_period(one, plan.text)[0] for one in periods]
    here = canonical_period(value, plan.text)[0]
    if "" in cells or len(set(cells)) != len(cells):
        raise PlanError("the periods of [lifetime] must be values that cells can have, each once. Correct the list.")
    if here not in cells:
        raise PlanError(f"period {value[:100]!r} is not among the periods of [lifetime]. Correct one of the two.")
    return Lifetime(column, periods, cells.index(here) + 1)


def check_lifetime(plan: Plan) -> None:
    """Refuse, in one sentence, what running releases are not derived for."""
    if plan.form != "moments" or plan.adaptive or plan.clip_radius == "private":
        raise PlanError(
            '[lifetime] needs form = "moments" and one stage on the public scale, fixed before the first period: '
            "remove adaptive = true, or give clip_radius as a number."
        )
    if plan.persons is None:
        raise PlanError(
            "[lifetime] needs persons, the public number of persons over all periods, because the number of ids so far "
            "would say when a person came. Add it to [release]."
        )


def check_source(period: Period | Lifetime, source: TableSource) -> None:
    """Refuse a column that other types would read otherwise: under another name the same rows could be released twice,
    and charged once. Text and numbers have one form, whatever holds them; no cell is looked at."""
    from hazeglass.compute.tables import declared_kinds

    kind = declared_kinds(source, period.column)[period.column]
    if kind in ("date", "binary"):  # floats are not refused: pandas makes them of whole numbers, one of them missing
        raise DataError(
            f"period_column must hold text or whole numbers, and {period.column!r} is declared as {kind}. Write "
            'periods as text, such as "2024-01", in every release.'
        )


def canonical_period(value: str, text: TextFormat) -> tuple[str, str]:
    """The form that all spellings of a period have, empty where it names none; and a digest of how cells are read."""
    import pyarrow as pa

    from hazeglass.compute.ids import id_column

    (cells,) = id_column(pa.array([value], pa.string()), text).to_pylist()
    how = json.dumps(text.to_dict(), sort_keys=True)
    return cells or "", hashlib.sha256(how.encode()).hexdigest()[:16]


def in_period(cells: pa.Array, value: str) -> tuple[npt.NDArray[np.bool_], int]:
    """Which rows are in the period of this canonical form, and how many are in none."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.equal(cells, value), False).to_numpy(zero_copy_only=False), cells.null_count
