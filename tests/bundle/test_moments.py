"""moments.parquet and marginals.parquet hold every number once, in a fixed order, and give the same numbers back."""

import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from hazeglass.bundle.columns import Column
from hazeglass.bundle.manifest import Stage
from hazeglass.bundle.moments import (
    MARGINAL_COLUMNS,
    MOMENT_COLUMNS,
    ReleasedMoments,
    marginals_from_arrow,
    marginals_to_arrow,
    moment_rows,
    moments_from_arrow,
    moments_to_arrow,
    schema_of,
)
from hazeglass.errors import BundleError
from hazeglass.features.fitting import Counts
from hazeglass.features.harmonics import features_of


def made(names, kind, seed, mapped=False):
    features = features_of(names, kind)
    p = len(features)
    rng = np.random.default_rng(seed)
    second, noise, through = rng.normal(size=(p, p)), rng.uniform(1, 2, (p, p)), rng.normal(size=(p, p))
    sums = rng.normal(size=p), second + second.T, rng.uniform(1, 2, p), noise + noise.T
    return ReleasedMoments(features, *sums, through + through.T if mapped else None)


def columns_of(names):
    return [Column(name, "continuous", -1.0, 1.0) for name in names]


def stage_of(names, kind, mapped=False, of=()):
    """As much of a stage as reading its moments needs."""
    size = len(features_of(names, kind))
    made = {"mu": 1.0, "radius": 1.0, "clipped": True, "mean_weight": 1.0, "tau": 1.0, "steps": 1, "family": ""}
    return Stage(**made, centre=(0.0,) * size, features=kind, mapped=mapped, of=of)


def test_entries_stand_in_their_order_and_come_back(monkeypatch):
    names = ("a", "bb", "c c")
    kinds = {"presence": False, "columns": False, "cosines": True}
    stages = [made(names, kind, 2, mapped) for kind, mapped in kinds.items()]
    for at_once in (1, 10, 1 << 20):
        monkeypatch.setattr("hazeglass.bundle.moments._ENTRIES_AT_ONCE", at_once)
        table = pa.Table.from_batches(moments_to_arrow(stages), schema_of(MOMENT_COLUMNS))
        expected = []
        for number, stage in enumerate(stages, start=1):
            f = stage.features
            expected += [(number, f[i].column, f[i].power, None, None, stage.mean[i]) for i in range(len(f))]
            expected += [
                (number, f[i].column, f[i].power, f[j].column, f[j].power, stage.second[i, j])
                for i in range(len(f))
                for j in range(i, len(f))
            ]
        assert [tuple(row.values())[:6] for row in table.to_pylist()] == expected
        for number, (stage, (kind, mapped)) in enumerate(zip(stages, kinds.items(), strict=True), start=1):
            again = moments_from_arrow(table, number, columns_of(names), stage_of(names, kind, mapped))
            assert again.features == stage.features
            assert (again.map is None) == (not mapped)
            assert again.map is None or np.array_equal(again.map, stage.map)
            for key in ("mean", "second", "mean_noise_sd", "second_noise_sd"):
                assert np.array_equal(getattr(again, key), getattr(stage, key))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], "every entry once and in order"),
        (lambda rows: rows[::-1], "every entry once and in order"),
        (lambda rows: [{**rows[0], "right_power": 7}, *rows[1:]], "every entry once and in order"),
        (lambda rows: [*rows[:-1], rows[0]], "every entry once and in order"),
        (lambda rows: [{**rows[0], "left": "z"}, *rows[1:]], "names a column"),
        (lambda rows: [{**rows[0], "left_power": 2}, *rows[1:]], "names a column"),
        (lambda rows: [*rows[:-1], {**rows[-1], "right": "z"}], "names a column"),
        (lambda rows: [*rows[:-1], {**rows[-1], "value": None}], "is not a number"),
        (lambda rows: [*rows[:-1], {**rows[-1], "noise_sd": float("inf")}], "is not a number"),
        (lambda rows: [*rows[:-1], {**rows[-1], "map": None}], "is not a number"),
        (lambda rows: [*rows[:-1], {**rows[-1], "map": 2.0}], "holds a map where release.json states none"),
        (lambda rows: [{**rows[0], "map": -0.0}, *rows[1:]], "holds a map where release.json states none"),
        (lambda rows: [{**rows[0], "map": 1.0}, *rows[1:]], "holds a map where release.json states none"),
    ],
)
def test_a_damaged_entry_is_refused(change, message):
    rows = pa.Table.from_batches(
        moments_to_arrow([made(("a", "b"), "columns", 1)]), schema_of(MOMENT_COLUMNS)
    ).to_pylist()
    table = pa.Table.from_pylist(change(rows), schema_of(MOMENT_COLUMNS))
    with pytest.raises(BundleError, match=message):
        moments_from_arrow(table, 1, columns_of(("a", "b")), stage_of(("a", "b"), "columns"))


def test_a_thousand_columns_take_a_moment():
    names = tuple(f"column {k}" for k in range(1000))
    stage = made(names, "columns", 3)
    started = time.process_time()
    table = pa.Table.from_batches(moments_to_arrow([stage]), schema_of(MOMENT_COLUMNS))
    again = moments_from_arrow(table, 1, columns_of(names), stage_of(names, "columns"))
    assert time.process_time() - started < 3
    assert table.num_rows == moment_rows(1000)
    assert np.array_equal(again.second, stage.second)


def test_a_stage_of_some_columns_names_those_alone():
    names = ("a", "b", "c")
    some = made(("a", "c"), "presence", 1)
    table = pa.Table.from_batches(moments_to_arrow([some]), schema_of(MOMENT_COLUMNS))
    again = moments_from_arrow(table, 1, columns_of(names), stage_of(("a", "c"), "presence", of=(0, 2)))
    assert again.features == some.features
    with pytest.raises(BundleError, match="names a column"):
        moments_from_arrow(table, 1, columns_of(names), stage_of(("a", "b"), "presence", of=(0, 1)))


def leaves(borders, counts, missing, noise_sd):
    return Counts(np.array(borders), np.array(counts), missing, noise_sd)


COUNTS = [  # two rounds of two columns
    [leaves([-1.0, -0.5, 1.0], [3.0, -4.0], 2.0, 1.5), leaves([-2.0, 0.0, 2.0], [5.0, 6.0], -1.0, 1.5)],
    [leaves([-1.0, -0.25, 0.0, 1.0], [1.0, 2.0, 3.0], 0.0, 2.5), leaves([-2.0, 2.0], [11.0], 0.0, 2.5)],
]


def counted(change=lambda rows: rows):
    """The counts through the file and back, changed on the way."""
    batches = marginals_to_arrow(("a", "b"), COUNTS)
    rows = pa.Table.from_batches(batches, schema_of(MARGINAL_COLUMNS)).to_pylist()
    manifest = SimpleNamespace(names=("a", "b"), rounds=(None, None), n=10, persons=None)
    return marginals_from_arrow(pa.Table.from_pylist(change(rows), schema_of(MARGINAL_COLUMNS)), manifest, [1.5, 2.5])


def test_counts_stand_in_their_order_and_come_back():
    for mine, found in zip(COUNTS, counted(), strict=True):
        for one, again in zip(mine, found, strict=True):
            assert np.array_equal(one.borders, again.borders)
            assert np.array_equal(one.counts, again.counts)
            assert (one.missing, one.noise_sd) == (again.missing, again.noise_sd)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[:-1],
        lambda rows: [*rows[:2], *rows[3:]],  # the missing cells of a column
        lambda rows: rows[3:] + rows[:3],
        lambda rows: rows[6:] + rows[:6],  # the rounds the other way round
        lambda rows: [rows[1], rows[0], *rows[2:]],
        lambda rows: [*rows, rows[-1]],
        lambda rows: [{**rows[0], "column": "z"}, *rows[1:]],
        lambda rows: [{**rows[0], "round": 2}, *rows[1:]],
        lambda rows: [{**row, "round": row["round"] + 1} for row in rows],
        lambda rows: [{**rows[0], "upper": -0.6}, *rows[1:]],
        lambda rows: [{**rows[0], "lower": -0.5}, *rows[1:]],
        lambda rows: [{**rows[0], "lower": float("nan")}, *rows[1:]],
        lambda rows: [{**rows[0], "lower": float("-inf")}, *rows[1:]],
        lambda rows: [],
        *(lambda rows, key=key: [{**rows[0], key: None}, *rows[1:]] for key in MARGINAL_COLUMNS),
    ],
)
def test_counts_out_of_order_or_incomplete_are_refused(change):
    with pytest.raises(BundleError, match="does not hold the counts of every column in order"):
        counted(change)
