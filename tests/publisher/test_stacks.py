"""Rows in time: which of them are stacked, across every border of blocks and pieces and across no gap."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.compute.engines import Serial, get_engine
from hazeglass.compute.tables import open_table
from hazeglass.errors import PlanError
from hazeglass.features.shaping import first_shape
from hazeglass.guarantee.budget import BudgetFilter
from hazeglass.publisher.marginals import publish_marginals
from hazeglass.publisher.moments import column_encoder, exact_sums, stage_of
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.sums import stacked


def plan_of(**more):
    columns = [hg.Column(name, "continuous", lower=-4, upper=4) for name in "abc"]
    return hg.Plan(
        title="Rows in time",
        **{"form": "moments", "epsilon": 3.0, "delta": 1e-6, "columns": columns, "rows": "series", **more},
    )


def table_of(n, **beside):
    rng = np.random.default_rng(3)
    return pa.table({**{name: rng.normal(size=n) for name in "abc"}, **beside})


def made(plan, table, **options):
    """The stage, the encoder and the exact sums of a series."""
    rows = Rows(plan, open_table(table))
    marginals = publish_marginals(rows, plan, Serial(), SeededBits(1), BudgetFilter(1.0))
    encoder = column_encoder(plan, marginals.columns, b"k" * 32)
    shape = first_shape(encoder.width(3), shaped=False)
    stage = stage_of(plan.unit, rows.public_size, 1.0, encoder, shape)
    return rows, stage, encoder


def by_hand(plan, stage, encoder, rows, ends):
    """Every stack by itself, row by row."""
    lags, total, second, count = plan.stacked, 0, 0, 0
    from hazeglass.publisher.sums import clip_to_lattice

    (block,) = rows.blocks()
    x = np.empty((3, rows.n))
    encoder.rows(rows.cells, block, 0, x)
    for t in range(lags, rows.n):
        if ends[t]:
            y = np.concatenate([[x[k, t - lag] for lag in range(lags + 1)] for k in range(3)])
            z = clip_to_lattice(y[None] - np.array(stage.centre), steps=stage.steps, radius=stage.radius)
            z = z.astype(np.int64)[0]
            total, second, count = total + z, second + np.outer(z, z), count + 1
    return total, second, count


@pytest.mark.parametrize("lags", [1, 3])
def test_sums_are_those_of_stacks_made_one_by_one(lags):
    plan = plan_of(lags=lags, order_column="when", order_step=2, series_column="home")
    n = 150
    when = np.arange(n) * 2.0
    when[40:] += 1
    when[90:] += 6
    home = np.array(["x"] * 70 + ["y"] * 80)
    ok = np.ones(n, bool)
    ok[[0, 40, 70, 90]] = False
    cells = when.tolist()
    cells[120] = None  # cannot be read: it follows nothing, and nothing follows it
    ok[[120, 121]] = False
    table = table_of(n, when=pa.array(cells), home=pa.array(home))
    run = np.zeros(n, int)
    for t in range(1, n):
        run[t] = run[t - 1] + 1 if ok[t] else 0
    rows, stage, encoder = made(plan, table)
    first, second, count = exact_sums(rows, stage, encoder, Serial())
    expected = by_hand(plan, stage, encoder, rows, run >= lags)
    assert count == expected[2] == int((run >= lags).sum())
    assert np.array_equal(first, expected[0])
    assert np.array_equal(second, expected[1])


@pytest.mark.parametrize("lags", [1, 4])
def test_the_same_bits_however_rows_are_cut_and_whoever_reads_them(lags, tmp_path, monkeypatch):
    n = 5003
    when = np.cumsum(1 + (np.random.default_rng(1).random(n) < 0.01)).astype(float)
    table = table_of(n, when=pa.array(when))
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=97)
    plan = plan_of(lags=lags, order_column="when", order_step=1)
    rows, stage, encoder = made(plan, table)
    whole = exact_sums(rows, stage, encoder, Serial())
    for source, engine, block, piece, tile in (
        (table, "threads", 1 << 16, 1 << 20, 7),
        (table, "threads", 3, 5, 2),
        (table, "serial", 1, 1, 1),
        (str(tmp_path / "d.parquet"), "threads", 64, 100, 33),
    ):
        if piece == 1 and lags > 1:
            table_small = table.slice(0, 400)
            again, _, _ = made(plan, table_small)
            source, expected = table_small, exact_sums(again, stage, encoder, Serial())
        else:
            expected = whole
        monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", block)
        monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", piece)
        monkeypatch.setattr("hazeglass.publisher.sums._tile_rows", lambda features, tile=tile: tile)
        if piece == 1 and lags == 1:
            continue
        found = exact_sums(Rows(plan, open_table(source)), stage, encoder, get_engine(engine))
        monkeypatch.undo()
        assert found[2] == expected[2]
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])


def test_of_persons_only_the_rows_that_are_used_are_stacked(tmp_path, monkeypatch):
    """A row beyond the cap, or without an id, is as if it were not there, however the rows are cut into pieces."""
    rng, most = np.random.default_rng(4), 3
    ids = [None if k == 7 else f"p{k}" for k in np.repeat(np.arange(60), rng.integers(1, 6, 60))]
    ids[10], ids[30] = ids[12], ids[33]  # rows of others stand between those of one person
    table, plan = (
        table_of(len(ids), who=ids),
        plan_of(protects="person", id_column="who", max_rows=most, series_column="who", lags=2),
    )
    used = [k for k, one in enumerate(ids) if one is not None and ids[:k].count(one) < most]
    ends = np.array([k >= 2 and len({ids[used[j]] for j in (k - 2, k - 1, k)}) == 1 for k in range(len(used))])
    rows, stage, encoder = made(plan, table)
    assert (rows.n, rows._follows.stacks) == (len(used), ends.sum())
    expected = by_hand(plan, stage, encoder, rows, ends)
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=11)
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 20)
    for found in (
        exact_sums(Rows(plan, open_table(table)), stage, encoder, Serial()),
        exact_sums(Rows(plan, open_table(str(tmp_path / "d.parquet"))), stage, encoder, get_engine("threads")),
    ):
        assert found[2] == expected[2]
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])


def test_dates_are_told_apart_by_the_step_in_words(tmp_path):
    start = np.datetime64("2025-03-29T22:00", "s")
    when = start + np.arange(200) * np.timedelta64(900, "s")
    when[100:] += np.timedelta64(3600, "s")  # an hour is missing
    plan = plan_of(order_column="when", order_step="15 minutes")
    rows = Rows(plan, open_table(table_of(200, when=pa.array(when))))
    assert rows._follows.stacks == 198
    lines = ["a,b,c,when", *(f"0.1,0.2,{k % 3},{str(one).replace('T', ' ')}" for k, one in enumerate(when))]
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    assert Rows(plan, open_table(str(tmp_path / "d.csv")))._follows.stacks == 198


def test_stacks_of_fewer_rows_than_they_need_are_none():
    assert stacked(np.ones((2, 3)), 3).shape == (8, 0)
    assert stacked(np.arange(6.0).reshape(2, 3), 1).tolist() == [[1, 2], [0, 1], [4, 5], [3, 4]]


def test_a_release_of_a_series_says_how_many_stacks_there_are_with_noise_alone(tmp_path):
    plan = plan_of(lags=2)
    table = table_of(600)
    release = hg.publish(table, plan, tmp_path / "r")
    manifest = release.manifest
    assert (release.n, manifest.series.lags) == (600, 2)
    assert all(stage.count_weight > 0 and stage.lags == 2 and stage.size == 9 for stage in manifest.stages)
    assert len({stage.rows for stage in manifest.stages}) > 1 or manifest.stages[0].rows != 598


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"form": "synthetic"}, 'needs form = "moments"'),
        ({"adaptive": False}, "adaptive stages"),
        ({"dependence": "curved"}, "adaptive stages"),
        ({"order_column": "a", "order_step": 1}, "must not be a released column"),
        ({"order_column": "when"}, "needs order_step"),
        ({"order_column": "when", "order_step": "15 fortnights"}, 'like "15 minutes"'),
        ({"order_column": "when", "order_step": -1}, "above 0"),
        ({"lags": 51}, "at most 50"),
        ({"rows": "independent", "lags": 1}, "no meaning without"),
        ({"seasons": ["hour"]}, "order_column of dates"),
    ],
)
def test_what_cannot_be_stacked_is_refused_in_one_sentence(keys, words):
    with pytest.raises(PlanError, match=words):
        plan_of(**keys)


def test_a_plan_of_a_series_is_written_and_read_again(tmp_path):
    plan = plan_of(lags=2, order_column="when", order_step="1 hour", series_column="home")
    plan.save(tmp_path / "plan.toml")
    assert hg.Plan.load(tmp_path / "plan.toml") == plan


def test_pieces_without_a_row_may_stand_anywhere(tmp_path, monkeypatch):
    """Rows of nobody leave a piece as empty as a header alone does, and neither shows in whether there is a release."""
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 1)
    table = table_of(90, when=np.arange(90.0) % 30, who=np.repeat(["x", "y", "z"], 30))
    plan = plan_of(order_column="when", order_step=1, series_column="who", lags=2)
    persons = replace(plan, protects="person", id_column="who", max_rows=30, persons=3)

    def sums(plan, name, table, cuts):
        folder = tmp_path / name
        folder.mkdir()
        for k, (start, end) in enumerate(pairwise(cuts)):
            pq.write_table(table.slice(start, end - start), folder / f"{k}.parquet")
        rows, stage, encoder = made(plan, folder)
        return [np.asarray(one).tolist() for one in exact_sums(rows, stage, encoder, Serial())]

    whole = sums(plan, "whole", table, [0, 90])
    for name, cuts in (("first", [0, 0, 90]), ("middle", [0, 45, 45, 90]), ("last", [0, 90, 90])):
        assert sums(plan, name, table, cuts) == whole
    for start in (0, 30, 60):
        nobody = [None if start <= k < start + 30 else word for k, word in enumerate(table["who"].to_pylist())]
        some = table.set_column(table.column_names.index("who"), "who", pa.array(nobody))
        assert sums(persons, f"without {start}", some, [0, 30, 60, 90])[2] == 56
    none = table.set_column(table.column_names.index("who"), "who", pa.nulls(90, pa.string()))
    assert sums(persons, "nobody", none, [0, 30, 90])[2] == 0
