"""Neighbours of rows in time, of periods and of dates: what says which rows follow each other is replaced, too."""

import json
import math
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

import hazeglass as hg
from hazeglass.compute import tables
from hazeglass.compute.engines import Serial
from hazeglass.publisher import marginals, moments
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.plan_file import PLAN_SCHEMA
from hazeglass.publisher.rows import Rows

from .layouts import PLANS, make_plan

ROWS = 240
NUMBERS = tuple(hg.Column(name, "continuous", lower=-4, upper=4) for name in "xy")
GAPS = {"rows": "series", "order_column": "t", "order_step": "1 hour", "series_column": "s"}
DATES = (
    hg.Column("hour", "ordinal", source="t", part="hour"),
    hg.Column("day", "continuous", lower=0, upper=20, source="t", since="2024-01-01"),
)
WISHES = {
    "record, gaps": {**GAPS, "lags": 2},
    "record, gaps, seasons": {**GAPS, "seasons": ("hour", "weekday"), "scale": "linear"},
    "entry, gaps, seasons": {**GAPS, "seasons": ("hour",), "protects": "entry"},
    "record, period": {"period_column": "s", "period": "b"},
    "record, dates": {"columns": (*NUMBERS, *DATES)},
    "entry, dates": {"columns": (*NUMBERS, *DATES), "protects": "entry"},
}
ODD = (None, math.nan, math.inf, -1e308, "3", "text", "2024-01-02T24:00", "9999-12-31T23:59:59", "a", b"\xff", pd.NA)
ORDERS = (*ODD, datetime.min, "2024-01-01T05:00+23:59", datetime(2024, 1, 3, 7), pd.NaT, "12:30", 10**400)


def plan_of(name):
    wish = {"form": "moments", "mu": 3.0, "columns": NUMBERS, **WISHES[name]}
    return Plan(title="Meters", delta=1e-6, **wish)


def frame():
    """Hours with a gap, of two series."""
    rng = np.random.default_rng(1)
    hours = np.arange(ROWS) + 5 * (np.arange(ROWS) > 100)
    columns = {name: np.clip(np.cumsum(rng.normal(size=ROWS)) / 4, -4, 4) for name in "xy"}
    columns["t"] = [datetime(2024, 1, 1) + timedelta(hours=int(hour)) for hour in hours]
    columns["s"] = ["a"] * 150 + ["b"] * (ROWS - 150)
    return pd.DataFrame({name: pd.Series(list(cells), dtype=object) for name, cells in columns.items()})


def neighbours(plan, places):
    """One cell or one row replaced; where a period or a cell is protected, what says which rows they are stays."""
    rng = np.random.default_rng(2)
    for place in places:
        other = frame()
        own = ["x", "y", *("t" for one in plan.columns if one.source == "t")]
        if plan.protects == "entry":
            own = [own[rng.integers(len(own))]]
        elif plan.series is not None:
            own += ["t", "s"]
        for name in own:
            odd = ORDERS if name == "t" else ODD
            other.at[place, name] = odd[rng.integers(len(odd))]
        yield other


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    monkeypatch.setattr(tables, "_PIECE_ROWS", 37)
    monkeypatch.setattr(tables, "BLOCK_ROWS", 11)


def opened(plan, data):
    return Rows(plan, tables.open_table(data))


@pytest.mark.parametrize("name", WISHES)
def test_no_neighbour_moves_an_answer_farther_than_the_promise_pays_for(name, monkeypatch):
    plan, asked, counted = plan_of(name), [], []
    sums, counts = moments.exact_sums, marginals.exact_counts
    monkeypatch.setattr(
        moments, "exact_sums", lambda rows, *how: asked.append((how[0], how[1], how[3])) or sums(rows, *how)
    )
    monkeypatch.setattr(
        marginals,
        "exact_counts",
        lambda rows, borders, engine: counted.append(borders) or counts(rows, borders, engine),
    )
    drawn = moments.publish_moments(opened(plan, frame()), plan, Serial(), SeededBits(5))
    noises = [one.noise_scale * one.mu for one in drawn.marginals.rounds]

    def answers(data):
        rows = opened(plan, data)
        found = [np.concatenate(counts(rows, borders, Serial())) for borders in counted]
        stages = []
        for stage, encoder, through in asked:
            first, second, number = sums(rows, stage, encoder, Serial(), through)
            lower = np.tril_indices(stage.size, -1)
            stages.append(
                np.concatenate(
                    [
                        first * stage.mean_weight / stage.steps,
                        second[lower] / stage.steps**2,
                        np.diag(second) / (math.sqrt(2) * stage.steps**2),
                        [number * stage.count_weight],
                    ]
                )
            )
            assert stage.count_weight or number == rows.n  # a number without noise is public
        return found, stages

    whole, worst = answers(frame()), 0.0
    for other in neighbours(plan, (0, 100, 101, 149, 150, 188, 189, ROWS - 1)):
        found = answers(other)
        moved = [np.linalg.norm(b - a) / noise for a, b, noise in zip(whole[0], found[0], noises, strict=True)]
        limits = [stage.tau * stage.mu for stage, _, _ in asked]
        moved += [np.linalg.norm(b - a) / limit for a, b, limit in zip(whole[1], found[1], limits, strict=True)]
        assert max(moved) <= 1 + 1e-9
        worst = max(worst, *moved)
    assert worst > 0.3  # neighbours differ in earnest


NOISED = ("n", "created", "files", "rounds", "stages", "standard")


@pytest.mark.parametrize("name", WISHES)
def test_nothing_but_noised_numbers_shows_which_neighbour_was_published(name, tmp_path, capsys):
    plan, seen = plan_of(name), []
    for number, data in enumerate([frame(), *neighbours(plan, (101, 189))]):
        out, told = tmp_path / str(number), []
        hg.publish(data, plan, out, engine="serial", simulate_seed=3, progress=told.append)
        printed = capsys.readouterr()
        lines = [line for line in printed.err.splitlines() if not line.startswith("publisher only:")]
        files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*"))
        document = json.loads((out / "release.json").read_text())
        passes = len(document["rounds"]) + len(document["stages"])
        assert len(told) % passes == 0
        seen.append((printed.out, lines, files, {k: v for k, v in document.items() if k not in NOISED}, set(told)))
    assert all(one == seen[0] for one in seen)


def test_every_key_of_a_plan_is_published_by_the_tests_of_what_may_leave():
    """A key that none of them says has no neighbours: add a plan here or to PLANS in layouts.py."""
    documents = [plan.to_dict() for plan in (*map(plan_of, WISHES), *map(make_plan, PLANS))]
    said = {key for one in documents for section in (one["release"], *one["columns"]) for key in section}
    known = PLAN_SCHEMA["properties"]
    keys = {*known["release"]["properties"], *known["columns"]["items"]["properties"]}
    assert keys - said == {"reason"}  # words of the publisher's own
