"""The publisher's side: choose a file, fill the plan, look ahead, publish.

It never opens the data itself: plans and ledgers in, public numbers and words out; rows are read by the worker.
"""

from __future__ import annotations

import math
import shutil
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from hazeglass.compute.places import SUFFIXES
from hazeglass.errors import BoundsMissingError, InputError, PlanError
from hazeglass.studio.side import Answers, Side, framed_page, number_in, read_json, zipped

__all__ = ["PublisherSide", "confirmation", "ledger_state", "look_ahead", "new_ledger", "remove_partial", "warm_up"]

_LARGEST_PLAN = 16 << 20
_LEDGER_MARK = slice(68, 72)  # where an SQLite file says whose it is


class PublisherSide(Side):
    """Routes below /publisher."""

    name = "publisher"
    worker = "hazeglass.studio.publisher_worker"

    def gets(self) -> Answers:
        """Results."""
        return {"jobs/{job}/bundle.zip": self.bundle, "jobs/{job}/statement.html": self.statement}

    def posts(self) -> Answers:
        """Work, and questions about plans and ledgers."""
        return {
            "look": self.look,
            "plan/read": self.read,
            "plan/text": self.text,
            "preview": self.preview,
            "ledger": self.ledger,
            "ledger/new": self.ledger_new,
            "check": self.check,
            "publish": self.publish,
        }

    def file_kind(self, path: Path) -> str | None:
        """Data, plans and ledgers."""
        if path.name.lower().endswith(tuple(SUFFIXES)):
            return "data"
        if path.suffix.lower() == ".toml":
            return "plan"
        return "ledger" if _is_ledger(path) else None

    async def look(self, request: Request) -> Response:
        """Start reading a file's names and kinds."""
        data = self._data((await read_json(request)).get("data"))
        return await self.start({"operation": "look", "data": str(data)}, data.name)

    async def read(self, request: Request) -> Response:
        """A plan.toml as the form understands it."""
        path = self._folders.resolve((await read_json(request)).get("plan"))
        return JSONResponse(await run_in_threadpool(read_plan, path))

    async def text(self, request: Request) -> Response:
        """The form as a plan.toml."""
        from hazeglass.publisher.plan_file import plan_text

        document = plan_document(await read_json(request))
        return PlainTextResponse(await run_in_threadpool(plan_text, document))

    async def preview(self, request: Request) -> Response:
        """What the promise means and what the release will be good for."""
        body = await read_json(request)
        rows = number_in(body, "rows", whole=True)
        return JSONResponse(await run_in_threadpool(look_ahead, plan_document(body), rows))

    async def ledger(self, request: Request) -> Response:
        """A ledger's state."""
        path = self._folders.resolve((await read_json(request)).get("ledger"))
        return JSONResponse(await run_in_threadpool(ledger_state, path))

    async def ledger_new(self, request: Request) -> Response:
        """Start a ledger."""
        body = await read_json(request)
        path = self._folders.new_place(body.get("folder"), body.get("name"))
        return JSONResponse(await run_in_threadpool(new_ledger, path, body))

    async def check(self, request: Request) -> Response:
        """Everything that can be refused before the rows are read, and the promise in one sentence."""
        body = await read_json(request)
        wanted = self._wanted(body)
        sentence = await run_in_threadpool(confirmation, plan_document(body), wanted["ledger"])
        return JSONResponse({"sentence": sentence, "name": Path(wanted["out"]).name})

    async def publish(self, request: Request) -> Response:
        """Start publishing."""
        body = await read_json(request)
        document = plan_document(body)
        wanted = self._wanted(body)
        await run_in_threadpool(confirmation, document, wanted["ledger"])
        out = Path(wanted["out"])
        work = {"operation": "publish", "document": document, **wanted}
        return await self.start(work, out.name, target=out, clean_up=lambda: remove_partial(out))

    async def bundle(self, request: Request) -> Response:
        """The release as a .zip."""
        folder = self._release(request)
        return zipped(folder, folder.name)

    async def statement(self, request: Request) -> Response:
        """The release's own privacy statement."""
        return framed_page(self._release(request) / "statement.html")

    def _release(self, request: Request) -> Path:
        target = self.finished(request, "publish").target
        if target is None or not (target / "statement.html").is_file():
            raise InputError("the release is not where it was written any more; it was moved or removed.")
        return target

    def _data(self, place: Any) -> Path:
        path = self._folders.resolve(place)
        if self.kind(path) != "data":
            raise InputError(f"the data must be a file that ends in {', '.join(SUFFIXES)}; choose such a file.")
        return path

    def _wanted(self, body: dict[str, Any]) -> dict[str, Any]:
        """The places and the number of rows of a request to publish, all checked."""
        from hazeglass.bundle.writer import check_new

        check_reasons(plan_document(body))
        out = self._folders.new_place(body.get("folder"), body.get("name"))
        check_new(out)
        ledger = body.get("ledger")
        rows = number_in(body, "rows", whole=True)
        if rows < 2:
            raise InputError(f"a release needs at least 2 rows, and {rows} was given as their number.")
        return {
            "data": str(self._data(body.get("data"))),
            "out": str(out),
            "ledger": None if ledger is None else str(self._folders.resolve(ledger)),
            "rows": rows,
        }


def _is_ledger(path: Path) -> bool:
    from hazeglass.publisher.ledger_events import APPLICATION_ID

    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(_LEDGER_MARK.stop)[_LEDGER_MARK] == APPLICATION_ID.to_bytes(4, "big")


def remove_partial(out: Path) -> None:
    """What a killed worker left beside the place of its release."""
    literal = out.name.replace("[", "[[]")
    for folder in out.parent.glob(f".{literal}.partial-*"):
        shutil.rmtree(folder, ignore_errors=True)


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
    from hazeglass.present.statement import FORMS
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
        f"You publish {len(plan.columns)} columns ({FORMS[plan.form]}) and promise for good that {plan.unit.in_words} "
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
