"""statement.html: one printable page for the person who must approve a release."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from hazeglass.bundle.columns import ABSENCE, Column, response_of
from hazeglass.bundle.manifest import Manifest
from hazeglass.guarantee.explain import Explanation, explain
from hazeglass.present.charts import Axis, Line, chart
from hazeglass.present.pages import render

FORMS = {
    "table": "every row, with noise added to every cell",
    "moments": "noisy means and noisy means of products of columns; no rows",
    "synthetic": "made-up rows drawn from noisy moments; no real row",
}
_MOST_FILES = 6
_SIZE = (360, 215)


@dataclass(frozen=True)
class ColumnGroup:
    """Neighbouring columns that are treated alike."""

    names: tuple[str, ...]
    first: Column

    @property
    def words(self) -> str:
        """What its cells are made of: a transform, a part of a date, or whether another is missing."""
        one = self.first
        of = "" if one.source is None else f" of {one.source}"
        if one.part == ABSENCE:
            return f"whether {one.source} is missing"
        if one.part or one.since:
            return f"{one.part}{of}" if one.part else f"days since {one.since}{of}"
        return one.transform or of.strip() or "none"

    @property
    def kept(self) -> float:
        """How often a level is answered truly."""
        return response_of(self.first).kept


def statement(manifest: Manifest) -> str:
    """The page as HTML text."""
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    return render(
        "statement.html",
        manifest=manifest,
        words=words,
        what=FORMS[manifest.form],
        facts=_public_facts(manifest),
        curve=_curve(words),
        tradeoff=_tradeoff(words),
        groups=_groups(manifest.columns),
        reasons=any(column.reason for column in manifest.columns),
        files=manifest.files[:_MOST_FILES],
        more_files=max(0, len(manifest.files) - _MOST_FILES),
    )


def _public_facts(manifest: Manifest) -> list[str]:
    """What a reader learns about the data without any noise: how many, and in which order."""
    if manifest.persons is None:
        facts = [
            "The number of rows is public: neighbouring datasets replace one unit and have the same number of rows."
        ]
    elif manifest.row_counts == "public":
        facts = ["The number of persons is public, and so is the number of rows that each of them has."]
    else:
        facts = ["The number of persons is public. How many rows they have is not: it is released with noise."]
    if manifest.order == "shuffled":
        facts.append("The rows were put into a random order that is not recorded.")
    elif manifest.order == "kept":
        facts.append("The order of the rows is public: they stand as they did in the data.")
    if any(column.levels for column in manifest.columns):
        facts.append("Levels are a public list: a cell that held anything else counts as missing.")
    if manifest.unit.together > 1:
        facts.append(
            f"Up to {manifest.unit.together} columns are made of one cell of the data. The promise is for that cell: "
            "all of them change with it."
        )
    if any(column.response is not None for column in manifest.columns):
        facts.append(
            "Cells of categorical columns were answered at random: with the true level in as many of them as the table "
            "below says, and else with any other, missing being one of them. The rows hold the levels' numbers, from "
            "0; the number behind the last level is a missing cell."
        )
    if manifest.quoted_newlines:
        facts.append(
            "Quoted cells of a CSV could go over several lines. The promise then needs a file without a stray quote, "
            "because one takes the rows behind it, which are other people's, into its own."
        )
    return facts


def _curve(words: Explanation) -> Markup:
    """Epsilon at every delta."""
    points = [(delta, epsilon) for epsilon, delta in words.curve]
    x = Axis("delta", min(d for d, _ in points), max(d for d, _ in points), log=True)
    y = Axis("epsilon", 0.0, max(max(e for _, e in points), 1e-9))
    mark = words.delta if x.low <= words.delta <= x.high else None
    title = f"Epsilon for each delta; {words.epsilon:.4g} at {words.delta:g}"
    return chart(x, y, [Line(points, dots=True)], title=title, size=_SIZE, mark=mark)


def _tradeoff(words: Explanation) -> Markup:
    """What the best attack can do, beside blind guessing."""
    rate = Axis("wrongly accused", 0.0, 1.0)
    hits = Axis("rightly accused", 0.0, 1.0)
    best = [(alpha, 1 - missed) for alpha, missed in words.tradeoff]
    title = "The best attack's right accusations for each rate of wrong ones; the broken line is blind guessing"
    return chart(rate, hits, [Line([(0.0, 0.0), (1.0, 1.0)], "blind"), Line(best)], title=title, size=_SIZE)


def _groups(columns: tuple[Column, ...]) -> list[ColumnGroup]:
    """Runs of columns with the same kind, bounds, reason, transform and noise."""

    def alike(column: Column) -> tuple[object, ...]:
        noise = None if column.cell_noise is None else (column.cell_noise.family, column.cell_noise.variance)
        read = (column.levels, column.source, column.part, column.since, column.response)
        return (column.kind, column.lower, column.upper, column.reason, column.transform, noise, read)

    runs = [list(run) for _, run in groupby(columns, key=alike)]
    return [ColumnGroup(tuple(column.name for column in run), run[0]) for run in runs]
