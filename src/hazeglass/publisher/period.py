"""The rows of one period: those in which a public column says so.

Which period a row is in is no secret and stays as it is when the row is replaced; so it is compared as ids are, in one
canonical form for all types and spellings. A row whose period is missing or cannot be read is in none.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from hazeglass.errors import DataError, PlanError
from hazeglass.guarantee.units import PERIOD_UNITS, Period

if TYPE_CHECKING:  # a ledger opens at once, without tables
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from hazeglass.compute.tables import TableSource
    from hazeglass.compute.text import TextFormat
    from hazeglass.publisher.plan import Plan

__all__ = ["canonical_period", "check_plan", "check_source", "in_period"]


def check_plan(plan: Plan, sources: tuple[str, ...]) -> Period | None:
    """The period whose rows are released, if the plan has one; refused where it cannot be one. `sources` are the names
    of the data's columns that are released."""
    column, value = plan.period_column, plan.period
    if column is None and value is None:
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
            "them add up. Remove it, or protect record, entry or readings."
        )
    if column in sources:
        raise PlanError(
            f"the period column {column!r} is the same in every row of a release: remove its [[columns]] entry."
        )
    if canonical_period(value, plan.text)[0] == "":
        raise PlanError(f"period must be a value that a cell can have, got {value[:100]!r}. Write one as the data do.")
    return Period(column, value)


def check_source(period: Period, source: TableSource) -> None:
    """Refuse a column that other types would read otherwise: under another name the same rows could be released twice,
    and charged once. Text and whole numbers have one form, whatever holds them."""
    from hazeglass.compute.tables import CsvFiles

    kind = "text" if isinstance(source, CsvFiles) else source.kinds(period.column)[period.column]
    if kind not in ("text", "integer", "categorical"):
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
