"""The publisher's worker: the only process of the studio that opens the data.

python -m hazeglass.studio.publisher_worker
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hazeglass.errors import DataError, quotes_no_cell
from hazeglass.studio.jobs import Report, run, too_late_to_cancel

__all__ = ["look", "publish"]


@quotes_no_cell
def look(request: dict[str, Any], report: Report) -> dict[str, Any]:
    """Names and kinds of the columns, and how a CSV seems to be written; no value and no count."""
    from hazeglass.publisher.scaffold import look_at

    report("reading the names of the columns")
    found = look_at(request["data"])
    if not found.numbers:
        raise DataError("a release needs at least one column of numbers, and this file has none.")
    columns = [{"name": name, "kind": kind} for name, kind in found.kinds.items()]
    return {"columns": columns, "text": {} if found.text is None else found.text.to_dict()}


def publish(request: dict[str, Any], report: Report) -> dict[str, Any]:
    """Publish as `hazeglass publish` does; the release appears complete or not at all."""
    from hazeglass.bundle.reader import load
    from hazeglass.publisher.plan import Plan
    from hazeglass.publisher.publish import publish as publish_rows

    plan = Plan.from_dict(request["document"])
    out = Path(request["out"])
    try:
        release = publish_rows(
            request["data"],
            plan,
            out,
            ledger=request["ledger"],
            progress=_Progress(report, _passes(plan), request["rows"]),
        )
        too_late_to_cancel()
    except KeyboardInterrupt:
        if not out.exists():
            raise
        release = load(out)  # it was complete before the wish to cancel arrived
    manifest = release.manifest
    return {
        "name": out.name,
        "title": manifest.title,
        "form": manifest.form,
        "rows": manifest.n,
        "rows_stated": request["rows"],
        "columns": len(manifest.columns),
        "mu": manifest.mu,
        "epsilon": manifest.epsilon,
        "delta": manifest.delta,
    }


def _passes(plan: Any) -> int:
    """How often the rows are read for noise."""
    return 1 + int(plan.adaptive) + int(plan.clip_radius == "private")


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
        words = f"adding noise, pass {self._pass} of {self._passes}" if self._passes > 1 else "adding noise"
        self._report(words, min(1.0, share))


if __name__ == "__main__":
    run({"look": look, "publish": publish})
