"""statement.html: what a person who must approve a release needs to know, and on a second sheet what a board asks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from markupsafe import Markup

from hazeglass._version import __version__
from hazeglass.bundle.columns import ABSENCE, Column, response_of
from hazeglass.bundle.manifest import Manifest, Publication, Stage
from hazeglass.guarantee.gdp import Explanation, GaussianDP, explain
from hazeglass.guarantee.units import CELL_UNITS
from hazeglass.present.charts import Axis, Line, chart
from hazeglass.present.pages import Page, notes_html, render

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


def summary_html(manifest: Manifest, title: str) -> str:
    """A release in a few sentences, for notebooks."""
    return notes_html(title, explain(manifest.guarantee, manifest.unit, manifest.delta).promise)


def statement(manifest: Manifest) -> Page:
    """The page as HTML text."""
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    said = {key: value for key, value in vars(manifest.publication or Publication()).items() if value is not None}
    text = render(
        "statement.html",
        manifest=manifest,
        words=words,
        what=_released(manifest),
        stages=_stages(manifest),
        said=said,
        questions=_questions(manifest, words),
        facts=_public_facts(manifest),
        curve=_curve(words),
        tradeoff=_tradeoff(words),
        groups=_groups(manifest.columns),
        reasons=any(column.reason for column in manifest.columns),
        files=manifest.files[:_MOST_FILES],
        more_files=max(0, len(manifest.files) - _MOST_FILES),
    )
    return Page(text)


def _released(manifest: Manifest) -> str:
    """What the release holds; moments stand beside the counts that they were made with."""
    counts = "noisy counts of each column's cells, " if manifest.form == "moments" and manifest.rounds else ""
    return counts + FORMS[manifest.form]


def _stages(manifest: Manifest) -> list[str]:
    """What every stage spent, and on what; stages that follow each other and differ in their length alone together."""

    def alike(stage: Stage) -> tuple[str, str, bool]:
        of = {"presence": f"which cells of {len(stage.of)} columns are there", "cosines": "cosines of ranks"}
        of["seasons"] = "means by hour or weekday"
        return f"{stage.mu:.4g}", of.get(stage.features, "the columns"), stage.clipped

    words = []
    for (mu, what, clipped), run in groupby(manifest.stages, key=alike):
        stages = list(run)
        ends = ", ".join(f"{stage.radius if clipped else stage.box or 0.0:.4g}" for stage in stages)
        end = f"length{'s' if len(stages) > 1 else ''}" if clipped else "cells within"
        words.append(f"mu = {mu}{' each' if len(stages) > 1 else ''} for {what}, {end} {ends}")
    return words


def _questions(manifest: Manifest, words: Explanation) -> list[tuple[str, str]]:
    """What NIST SP 800-226 has a reader ask of a claim of differential privacy, with this release's answers."""
    said, unit = manifest.publication or Publication(), manifest.unit
    number, unsaid = "persons" if unit.name == "person" else "rows", "not stated"
    book = manifest.ledger
    composed = (
        f"This release was charged to the ledger of {book.dataset}, as its event {book.event}; the ledger refuses what "
        "would exceed the total."
        if book is not None
        else "No ledger was kept: who published the same rows before must add those promises to this one."
    )
    others = f" {words.cautions[0]}" if words.cautions else ""
    return [
        (
            "What is released, and for what?",
            f"{_released(manifest)}. Intended use: {said.intended_use or 'not stated'}.",
        ),
        ("Who answers for it?", f"{said.curator or 'Not stated'}. Questions: {said.contact or 'no contact stated'}."),
        ("What is the unit of privacy?", f"{unit.in_words}. Neighbouring data replace one such unit by any other."),
        ("What is the budget?", f"{words.promise[0]} {words.promise[1]}{others}"),
        ("Why this unit and this budget?", said.justification or "No justification was stated."),
        ("How do releases add up?", f"{composed} Promises of mu compose to the root of the sum of their squares."),
        (
            "What is trusted?",
            "The publisher, who holds the rows (the central model); the operating system's randomness; the bounds, "
            "which must not come from the data. The reader of the release is not trusted with anything.",
        ),
        (
            "What was not protected?",
            f"The number of {number}, the columns' names, kinds and bounds, and the plan; facts about the population; "
            "how long publishing took.",
        ),
        (
            "How was the noise made, and who checked it?",
            "As exact integers, so that no rounding of floating-point numbers leaks; at most "
            f"{manifest.delta_slack:.2g} is added to delta. `hazeglass verify` derives the promise again, `hazeglass "
            "audit` attacks the mechanism.",
        ),
        ("Where, and under which terms?", f"Region: {said.region or unsaid}. Licence: {said.licence or unsaid}."),
    ]


def intruder_page(title: str, unit: str, quick: bool, result: Any) -> Page:
    """The motivated-intruder test of a plan's mechanism as a page, from the result of an audit."""
    rows = [
        {
            "name": ", ".join((finding.form, finding.unit, finding.noise)),
            "claimed": f"{finding.claimed_mu:.4g}",
            "certified": "any" if math.isinf(finding.certified_mu) else f"{finding.certified_mu:.4g}",
            "most": f"{100 * GaussianDP(finding.claimed_mu).best_accuracy:.3g} of 100",
            "least": "100 of 100" if math.isinf(finding.certified_mu) else f"{_right(finding.certified_mu):.3g} of 100",
            "holds": finding.holds,
        }
        for finding in result.findings
    ]
    worst = max(rows, key=lambda row: float(str(row["most"]).split()[0]))
    conclusion = (
        "No attack did better than the promise allows. Whatever an intruder tries, the right candidate of two is named "
        f"in at most {worst['most']} cases."
        if not result.broken
        else "An attack did better than the promise allows. Do not publish with this plan, and report it."
    )
    text = render(
        "intruder.html",
        title=title,
        unit=unit,
        attacks=len(rows),
        runs="in a quick run" if quick else "in a full run",
        confidence=f"{100 * result.confidence:g}",
        rows=rows,
        holds=not result.broken,
        conclusion=conclusion,
        version=__version__,
    )
    return Page(text)


def _right(mu: float) -> float:
    return 100 * (GaussianDP(mu).best_accuracy if mu > 0 else 0.5)


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
    if (period := manifest.period) is not None:
        facts.append(
            f"Only rows with {period.column} = {period.value} are in this release. Which rows these are is public, and "
            "so is their number; a row is in the releases of one period and of no other."
        )
    if (life := manifest.lifetime) is not None:
        facts.append(
            f"This is running release {life.step} of {len(life.periods)}: it is about all rows up to {life.column} = "
            f"{life.periods[life.step - 1]}, of each person no more than {manifest.unit.max_rows} in all periods "
            "together, the first by period. The promise is kept by all of these releases together, and does not add up "
            "over them. It supposes that each period is drawn once, which the ledger sees to, and that rows of earlier "
            "periods were the same whenever a release was made."
        )
    if manifest.order == "shuffled":
        facts.append("The rows were put into a random order that is not recorded.")
    elif manifest.order == "kept":
        facts.append("The order of the rows is public: they stand as they did in the data.")
    if manifest.series is not None:
        series = manifest.series
        places = "that rows stand where they do in the data is public (in a database, their order and series cells are)"
        if manifest.unit.name in CELL_UNITS:
            places = (
                "the cells of the order and series columns are public: the promise is for cells of released columns"
            )
        elif manifest.unit.name == "person":
            places = "where a person's rows stand among those of others is not public"
        facts.append(
            f"Rows are in time: each was taken together with the {_before(series.lags)} before it; {places}; "
            f"{series.in_words}. How many rows do is released with noise, and where a row's order cannot be read, no "
            "row is taken together with it."
        )
        if series.seasons:
            facts.append(f"Means by {' and '.join(series.seasons)} were released with noise and taken off first.")
    elif manifest.form != "table":
        facts.append(
            "Rows are declared independent: error bars made from this release suppose that no row says anything of the "
            "next. The promise does not."
        )
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


def _before(lags: int) -> str:
    return "row" if lags == 1 else f"{lags} rows"


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
