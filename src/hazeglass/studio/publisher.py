"""The publisher's side: choose a file, fill the plan, look ahead, publish.

The functions of OPERATIONS run in a worker, the only process of the studio that opens the data. The rest runs in the
studio itself: plans and ledgers in, public numbers and words out.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from starlette.responses import PlainTextResponse, Response

from hazeglass.bundle.columns import LEVELLED
from hazeglass.compute.places import SUFFIXES
from hazeglass.errors import BoundsMissingError, DataError, InputError, PlanError, quotes_no_cell
from hazeglass.studio.jobs import Job, Operation, Report, Work, too_late_to_cancel
from hazeglass.studio.side import Body, Side, framed_page, number_in, release_facts, zipped

_LARGEST_PLAN = 16 << 20
_BEGUN = "begun"  # in a job's folder: which folder its release is being made in


class PublisherSide(Side):
    """Routes below /publisher."""

    name, makes = "publisher", "publish"

    def results(self) -> Mapping[str, Callable[..., Response]]:
        """The release as a .zip, and its own privacy statement."""
        return {
            "bundle.zip": lambda job: zipped(_release(job), _release(job).name),
            "statement.html": lambda job: framed_page(_release(job) / "statement.html"),
        }

    def questions(self) -> Mapping[str, Callable[[Body], Any]]:
        """Work, and questions about plans and ledgers."""
        return {
            "look": self.look,
            "plan/read": lambda body: read_plan(self._folders.resolve(body.get("plan"))),
            "plan/text": plan_as_text,
            "preview": lambda body: look_ahead(plan_document(body), number_in(body, "rows", whole=True)),
            "ledger": lambda body: ledger_state(self._folders.resolve(body.get("ledger"))),
            "ledger/new": lambda body: new_ledger(self._new_place(body), body),
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

    def look(self, body: Body) -> Work:
        """Read a file's names and kinds."""
        data = self._data(body.get("data"))
        return Work("look", {"data": str(data)}, data.name)

    def check(self, body: Body) -> dict[str, str]:
        """Everything that can be refused before the rows are read, and the promise in one sentence."""
        wanted = self._wanted(body)
        return {"sentence": confirmation(wanted["document"], wanted["ledger"]), "name": Path(wanted["out"]).name}

    def publish(self, body: Body) -> Work:
        """Publish what passes the same checks."""
        wanted = self._wanted(body)
        confirmation(wanted["document"], wanted["ledger"])
        out = Path(wanted["out"])
        return Work("publish", wanted, out.name, target=out, clean_up=remove_partial)

    def _data(self, place: Any) -> Path:
        path = self._folders.resolve(place)
        if self.kind(path) != "data":
            raise InputError(f"the data must be a file that ends in {', '.join(SUFFIXES)}; choose such a file.")
        return path

    def _new_place(self, body: Body) -> Path:
        return self._folders.new_place(body.get("folder"), body.get("name"))

    def _wanted(self, body: Body) -> dict[str, Any]:
        """The plan, the places and the number of rows of a request to publish, all checked."""
        from hazeglass.bundle.writer import check_new

        document, ledger = plan_document(body), body.get("ledger")
        check_reasons(document)
        out = self._new_place(body)
        check_new(out)
        rows = number_in(body, "rows", whole=True)
        if rows < 2:
            raise InputError(f"a release needs at least 2 rows, and {rows} was given as their number.")
        return {
            "document": document,
            "data": str(self._data(body.get("data"))),
            "out": str(out),
            "ledger": None if ledger is None else str(self._folders.resolve(ledger)),
            "rows": rows,
        }


def _release(job: Job) -> Path:
    target = job.work.target
    if target is None or not (target / "statement.html").is_file():
        raise InputError("the release is not where it was written any more; it was moved or removed.")
    return target


def _is_ledger(path: Path) -> bool:
    from hazeglass.publisher.ledger_events import MARK

    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MARK)) == MARK


def remove_partial(workspace: Path) -> None:
    """What a killed worker left beside the place of its release; what others are making there is not touched."""
    note = workspace / _BEGUN
    if note.exists():
        shutil.rmtree(note.read_text(encoding="utf-8"), ignore_errors=True)


def plan_document(body: Body) -> dict[str, Any]:
    """The plan inside a request."""
    document = body.get("document")
    if not isinstance(document, dict):
        raise InputError("the request must hold the plan as 'document'.")
    return document


def plan_as_text(body: Body) -> Response:
    """The form as a plan.toml."""
    from hazeglass.publisher.plan_file import plan_text

    return PlainTextResponse(plan_text(plan_document(body)))


def look_ahead(document: dict[str, Any], rows: int) -> dict[str, Any]:
    """The preview of a plan whose bounds may still be missing; the promise's own facts stand beside the others.

    Errors are relative to the bounds, so the numbers hold wherever the bounds will lie; only the lattice of integer
    columns in a table moves them a little.
    """
    from hazeglass.publisher.plan import Plan

    look = Plan.from_dict(_with_stand_ins(document)).preview(rows).to_dict()
    return {**look, **look["promise"], "cautions": look["cautions"]}


def _with_stand_ins(document: dict[str, Any]) -> dict[str, Any]:
    """Columns without usable bounds or levels get bounds, so that the page can look ahead from the start."""
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
    if column.get("kind") in LEVELLED:
        levels = column.get("levels", ["false", "true"] if column["kind"] == "binary" else [])
        listed = [level for level in levels if isinstance(level, str)] if isinstance(levels, list) else []
        return "part" not in column and (len(set(listed)) < 2 or len(set(listed)) < len(levels))
    lower, upper = column.get("lower", math.nan), column.get("upper", math.nan)
    numbers = all(type(end) in (int, float) and math.isfinite(end) for end in (lower, upper))
    return not (numbers and lower < upper)


def check_reasons(document: dict[str, Any]) -> None:
    """In the studio all bounds and levels come with the reason for them."""
    for column in document.get("columns") or ():
        if isinstance(column, dict) and not str(column.get("reason") or "").strip():
            raise BoundsMissingError(
                f"column {str(column.get('name'))[:100]!r} has no reason for its bounds or levels. Say in a few words "
                "how anyone could know them without seeing the data."
            )


def confirmation(document: dict[str, Any], ledger: str | None) -> str:
    """What publishing will promise, in one sentence; refused where the plan or the ledger refuses it."""
    from hazeglass.guarantee.gdp import explain
    from hazeglass.present.statement import FORMS
    from hazeglass.publisher.account import charge_of
    from hazeglass.publisher.ledger import Ledger
    from hazeglass.publisher.plan import Plan
    from hazeglass.publisher.plan_columns import check_strength

    plan = Plan.from_dict(document)
    check_strength(plan)
    after = ""
    if ledger is not None:
        book = Ledger.open(ledger)
        charge = charge_of(plan)
        if plan.rows_of is not None:  # the file is not opened here: it is taken for one of the kind of those before
            before = [entry.charge for entry in book.history()]
            alike = [one.reading for one in before if one.period and one.period.column == plan.rows_of.column]
            charge = replace(charge, reading=alike[-1] if alike else charge.reading)
        book.check(charge)
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
    from hazeglass.publisher.plan_columns import expanded
    from hazeglass.publisher.plan_file import check_structure

    if path.suffix.lower() != ".toml" or path.stat().st_size > _LARGEST_PLAN:
        raise PlanError("a plan is a .toml file of at most 16 MiB; choose another.")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        raise PlanError(f"{path.name} must be TOML in UTF-8, and it cannot be read as that.") from None
    document = expanded(document)
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
    return {
        **asdict(summary),
        "file": path.name,
        "unit": summary.unit.in_words,
        "delta": delta,
        "epsilon_spent": GaussianDP(summary.mu_spent).epsilon(delta) if summary.mu_spent > 0 else 0.0,
        "history": [
            {"title": entry.charge.label, "mu": entry.charge.mu, "state": entry.state, "at": entry.charged_at}
            for entry in book.history()[-50:]
        ],
    }


def new_ledger(path: Path, body: Body) -> dict[str, Any]:
    """Make a ledger that protects the unit the plan protects."""
    from hazeglass.publisher.ledger import Ledger
    from hazeglass.publisher.plan import Plan

    dataset = body.get("dataset")
    if not isinstance(dataset, str) or not 0 < len(dataset.strip()) <= 200:
        raise InputError("a ledger needs the name of the dataset whose budget it keeps, in 1 to 200 characters.")
    release, budget = plan_document(body).get("release"), {key: body.get(key) for key in ("epsilon", "delta")}
    plan = Plan.from_dict(
        {
            "release": {**(release if isinstance(release, dict) else {}), "title": dataset},
            "budget": budget,
            "columns": [{"name": f"{k}", "kind": "continuous", "lower": 0, "upper": 1} for k in range(2)],
        }
    )
    Ledger.create(path, dataset.strip(), **budget, unit=plan.unit, id_column=plan.id_column)
    return ledger_state(path)


def warm_up() -> None:
    """Import and try what the first preview needs, so that it answers as fast as the others."""
    column = {"name": "x", "kind": "continuous"}
    release, budget = {"title": "x", "form": "moments"}, {"epsilon": 1.0, "delta": 1e-6}
    look_ahead({"release": release, "budget": budget, "columns": [column, {**column, "name": "y"}]}, 1000)


@quotes_no_cell
def look(request: dict[str, Any], report: Report) -> dict[str, Any]:
    """Names and kinds of the columns, and how a CSV seems to be written; no value and no count."""
    from hazeglass.bundle.columns import KINDS
    from hazeglass.publisher.scaffold import look_at

    report("reading the names of the columns")
    found = look_at(request["data"])
    kinds = {name: kind if kind in KINDS else "other" for name, kind in found.kinds.items()}
    if set(kinds.values()) <= {"other"}:
        raise DataError("a release needs at least one column of numbers or levels, and this file has none.")
    columns = [{"name": name, "kind": kind} for name, kind in kinds.items()]
    return {"columns": columns, "text": {} if found.text is None else found.text.to_dict()}


def publish(request: dict[str, Any], report: Report) -> dict[str, Any]:
    """Publish as `hazeglass publish` does; the release appears complete or not at all."""
    from hazeglass.bundle.reader import load
    from hazeglass.publisher.plan import Plan
    from hazeglass.publisher.preview import passes
    from hazeglass.publisher.publish import publish as publish_rows

    plan, out = Plan.from_dict(request["document"]), Path(request["out"])
    _note_what_is_begun(out, Path(request["workspace"]))
    progress = _Progress(report, passes(plan)[1], request["rows"])
    try:
        release = publish_rows(request["data"], plan, out, ledger=request["ledger"], progress=progress)
        too_late_to_cancel()
    except KeyboardInterrupt:
        if not out.exists():
            raise
        release = load(out)  # it was complete before the wish to cancel arrived
    return {**release_facts(release.manifest), "name": out.name, "rows_stated": request["rows"]}


def _note_what_is_begun(out: Path, workspace: Path) -> None:
    """Write down the folder that this process makes its release in, before it is there.

    Its name ends in random digits, and others may be publishing to the same place: Python itself says which is ours.
    """
    beside, start = out.resolve().parent, f".{out.name}.partial-"

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.mkdir":
            folder = Path(os.fsdecode(arguments[0]))
            if folder.parent == beside and folder.name.startswith(start):
                (workspace / _BEGUN).write_text(str(folder), encoding="utf-8")

    sys.addaudithook(hear)


class _Progress:
    """Rows done, pass by pass, as a share of the number of rows that was stated."""

    def __init__(self, report: Report, passes: int, rows: int) -> None:
        self._report, self._passes, self._rows = report, passes, rows
        self._pass, self._done = 1, 0
        report("counting the rows")

    def __call__(self, done: int) -> None:
        """Called with the rows done in this pass."""
        if done < self._done:
            self._pass += 1
        self._done = done
        share = (self._pass - 1 + min(1.0, done / self._rows)) / max(self._passes, self._pass)
        words = f"adding noise, pass {self._pass} of at most {self._passes}" if self._passes > 1 else "adding noise"
        self._report(words, min(1.0, share))


OPERATIONS: dict[str, Operation] = {"look": look, "publish": publish}
