"""Plans, previews and ledgers as the publisher's page sees them: public numbers in, public words out."""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hazeglass.errors import BoundsMissingError, InputError, PlanError

__all__ = [
    "check_reasons",
    "confirmation",
    "ledger_state",
    "look_ahead",
    "new_ledger",
    "plan_document",
    "read_plan",
    "warm_up",
]

_LARGEST_PLAN = 16 << 20
_RELEASED = {
    "table": "every row of {} columns, with noise in every cell,",
    "moments": "noisy means and products of {} columns, and no row,",
    "synthetic": "made-up rows of {} columns, drawn from noisy moments, and no real row,",
}


def plan_document(body: dict[str, Any]) -> dict[str, Any]:
    """The plan inside a request."""
    document = body.get("document")
    if not isinstance(document, dict):
        raise InputError("the request must hold the plan as 'document'.")
    return document


def look_ahead(document: dict[str, Any], rows: int) -> dict[str, Any]:
    """The preview of a plan whose bounds may still be missing.

    Errors are relative to the bounds, so the numbers hold wherever the bounds will lie; only the lattice of integer
    columns in a table moves them a little.
    """
    from hazeglass.publisher.plan import Plan

    look = Plan.from_dict(_with_stand_ins(document)).preview(rows)
    return {
        "rows": look.rows,
        "columns": look.columns,
        "form": look.form,
        "mu": look.promise.mu,
        "epsilon": look.promise.epsilon,
        "delta": look.promise.delta,
        "unit": look.promise.unit,
        "promise": list(look.promise.promise),
        "not_promised": list(look.promise.not_promised),
        "odds": [asdict(odds) for odds in look.promise.odds],
        "chosen": asdict(look.chosen),
        "forms": [asdict(form) for form in look.forms],
        "rows_for_equal_noise": look.rows_for_equal_noise,
        "supposed_spread": look.supposed_spread,
    }


def _with_stand_ins(document: dict[str, Any]) -> dict[str, Any]:
    """Columns without usable bounds get bounds of their own, so that the page can look ahead from the start."""
    columns = document.get("columns")
    if not isinstance(columns, list):
        return document
    filled = [
        {"name": f"column {k + 1}", "kind": "continuous", "lower": -1.0, "upper": 1.0} if _blank(column) else column
        for k, column in enumerate(columns)
    ]
    release = document.get("release")
    titled = {**release, "title": release.get("title") or "untitled"} if isinstance(release, dict) else release
    public = {key: value for key, value in document.items() if key != "text"}  # how cells are written moves no number
    return {**public, "release": titled, "columns": filled}


def _blank(column: Any) -> bool:
    if not isinstance(column, dict):
        return False
    lower: Any = column.get("lower")
    upper: Any = column.get("upper")
    return not (_is_number(lower) and _is_number(upper) and lower < upper)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_reasons(document: dict[str, Any]) -> None:
    """In the studio every pair of bounds comes with the reason for it."""
    for column in document.get("columns") or ():
        if isinstance(column, dict) and not str(column.get("reason") or "").strip():
            raise BoundsMissingError(
                f"column {str(column.get('name'))[:100]!r} has no reason for its bounds. Say in a few words how anyone "
                "could know them without seeing the data."
            )


def confirmation(document: dict[str, Any], ledger: str | None) -> str:
    """What publishing will promise, in one sentence; refused where the plan or the ledger refuses it."""
    from hazeglass.guarantee.explain import explain
    from hazeglass.publisher.ledger import Ledger, charge_of
    from hazeglass.publisher.plan import Plan

    plan = Plan.from_dict(document)
    after = ""
    if ledger is not None:
        book = Ledger.open(ledger)
        book.check(charge_of(plan))
        after = f", and mu = {plan.guarantee.mu:.4g} is charged to the budget of {book.summary().dataset!r}"
    odds = explain(plan.guarantee, plan.unit, plan.delta).odds[1]
    small = f"{plan.delta:g}".replace("e-0", "e-").replace("-", "\u2011")  # a hyphen at which no line breaks
    return (
        f"You publish {_RELEASED[plan.form].format(len(plan.columns))} and promise for good that {plan.unit.in_words} "
        f"stays hidden: whoever knows everything else and may accuse wrongly in 1 case of 100 is right in at most "
        f"{100 * odds.true_positive_rate:.3g} of 100 (epsilon = {plan.epsilon:.4g} at delta = {small}){after}."
    )


def read_plan(path: Path) -> dict[str, Any]:
    """A plan.toml, complete or not, as a document whose budget is epsilon and delta."""
    from hazeglass.guarantee.gdp import GaussianDP
    from hazeglass.publisher.plan_file import check_structure

    if path.suffix.lower() != ".toml" or path.stat().st_size > _LARGEST_PLAN:
        raise PlanError("a plan is a .toml file of at most 16 MiB; choose another.")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        raise PlanError(f"{path.name} must be TOML in UTF-8, and it cannot be read as that.") from None
    check_structure(document)
    budget = document["budget"]
    if "mu" in budget:
        delta = float(budget.get("delta", 1e-6))
        budget = {"epsilon": GaussianDP(float(budget["mu"])).epsilon(delta), "delta": delta}
    return {**document, "budget": budget}


def ledger_state(path: Path) -> dict[str, Any]:
    """Total, spent, left, and every charge."""
    from hazeglass.guarantee.gdp import GaussianDP
    from hazeglass.publisher.ledger import Ledger

    book = Ledger.open(path)
    summary = book.summary()
    delta = summary.delta or 1e-6
    spent = GaussianDP(summary.mu_spent).epsilon(delta) if summary.mu_spent > 0 else 0.0
    return {
        "file": path.name,
        "dataset": summary.dataset,
        "unit": summary.unit.in_words,
        "mu_total": summary.mu_total,
        "mu_spent": summary.mu_spent,
        "mu_remaining": summary.mu_remaining,
        "delta": delta,
        "epsilon_spent": spent,
        "releases": summary.releases,
        "unfinished": summary.unfinished,
        "history": [
            {"title": entry.charge.label, "mu": entry.charge.mu, "state": entry.state, "at": entry.charged_at}
            for entry in book.history()[-50:]
        ],
    }


def new_ledger(path: Path, body: dict[str, Any]) -> dict[str, Any]:
    """Make a ledger that protects the unit the plan protects."""
    from hazeglass.publisher.ledger import Ledger
    from hazeglass.publisher.plan import Plan

    dataset = body.get("dataset")
    if not isinstance(dataset, str) or not 0 < len(dataset.strip()) <= 200:
        raise InputError("a ledger needs the name of the dataset whose budget it keeps, in 1 to 200 characters.")
    release = plan_document(body).get("release")
    plan = Plan.from_dict(
        {
            "release": {**(release if isinstance(release, dict) else {}), "title": dataset},
            "budget": {"epsilon": body.get("epsilon"), "delta": body.get("delta")},
            "columns": [{"name": f"{k}", "kind": "continuous", "lower": 0, "upper": 1} for k in range(2)],
        }
    )
    budget = {"epsilon": body["epsilon"], "delta": body["delta"]}
    Ledger.create(path, dataset.strip(), **budget, unit=plan.unit, id_column=plan.id_column)
    return ledger_state(path)


def warm_up() -> None:
    """Import and try what the first preview needs, so that it answers as fast as the others."""
    column = {"name": "x", "kind": "continuous"}
    release, budget = {"title": "x", "form": "moments"}, {"epsilon": 1.0, "delta": 1e-6}
    look_ahead({"release": release, "budget": budget, "columns": [column, {**column, "name": "y"}]}, 1000)
