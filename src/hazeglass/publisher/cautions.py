"""What a careful colleague would ask about a plan before it is published, and what is refused unless insisted on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hazeglass.errors import PrivacyRefusal
from hazeglass.guarantee.gdp import VERY_WEAK_EPSILON, explain

if TYPE_CHECKING:
    from hazeglass.publisher.plan import Plan

__all__ = ["cautions", "check_strength", "names_an_id"]

_WIDE, _FEW_ROWS = 1000, 5
_PEOPLE = re.compile(
    r"(?i)\b(?:patient|person|people|customer|client|user|household|student|pupil|citizen|employee)s?\b"
)
_ID = re.compile(
    r"[a-z](?:I[dD]|Uuid|UUID)$|(?i:(?:^|[\W_])(?:id|uuid|guid|ssn|iban|e-?mail|phone)$|^(?:customer|patient|person|user|client"
    r"|subject|participant|household|account|member|student)(?:[_ .-]?(?:no|nr|number|key|code|name))?$)"
)


def names_an_id(name: str) -> bool:
    """Whether a column is called as columns are that say whose row it is."""
    return _ID.search(name) is not None


def cautions(plan: Plan, rows: int | None = None) -> tuple[str, ...]:
    """What a careful colleague would ask about a plan, from what it says and from the number of rows."""
    said = list(explain(plan.guarantee, plan.unit, plan.delta).cautions)
    if plan.protects in ("entry", "readings", "record") and (found := _PEOPLE.search(plan.title)):
        said.append(
            f"The title speaks of {found[0].lower()}, and this plan protects {plan.unit.in_words}. Does one of them "
            'have several rows? Then use protects = "person" with id_column and max_rows.'
        )
    wide = [one.name for one in plan.columns if one.transform is None and 0 < (one.lower or 0) * _WIDE < one.upper]
    if wide and (plan.form == "table" or plan.scale == "linear"):
        more = f" and {len(wide) - 1} more" if len(wide) > 1 else ""
        said.append(
            f"The bounds of {wide[0]!r}{more} lie a factor of {_WIDE} or more apart: if most values are near the lower "
            'one, noise hides them. transform = "log" helps, and so do moments with scale = "scores".'
        )
    if rows is not None and rows < _FEW_ROWS * len(plan.columns):
        said.append(f"{rows:,} rows are few for {len(plan.columns)} columns: leave out columns you can do without.")
    if rows is not None and plan.delta * rows > 1:
        said.append(
            f"delta = {plan.delta:g} is more than 1 in {rows:,}: a release could show one whole row in that chance. "
            "Lower it well below 1 / rows."
        )
    return tuple(said)


def check_strength(plan: Plan, weak_on_purpose: bool = False) -> None:
    """A promise that hardly protects is made on purpose or not at all."""
    if plan.epsilon > VERY_WEAK_EPSILON and not weak_on_purpose:
        raise PrivacyRefusal(
            f"{explain(plan.guarantee, plan.unit, plan.delta).cautions[0]} Above {VERY_WEAK_EPSILON:g} a release is "
            "refused unless you insist with `--weak-on-purpose` (weak_on_purpose=True). Or lower epsilon."
        )
