"""The same rows, counts and sums, bit for bit, however the data are cut, whoever works on them, and in every pass."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hazeglass as hg
from hazeglass.bundle.columns import Column
from hazeglass.compute.engines import Serial, get_engine
from hazeglass.compute.tables import open_table
from hazeglass.features.fitting import Counts
from hazeglass.features.harmonics import cosines
from hazeglass.features.marginal import Marginal, first_borders
from hazeglass.features.scores import STEPS, score_table
from hazeglass.features.shaping import Shape, exact_map, first_shape, largest_entry
from hazeglass.publisher import marginals
from hazeglass.publisher import sums as exact
from hazeglass.publisher.marginals import Encoder, _words, exact_counts, standard_of
from hazeglass.publisher.moments import exact_sums, stage_of
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Cells, Rows
from hazeglass.publisher.sums import clip_to_lattice

COLUMNS = (
    Column("a", "continuous", -4.0, 4.0),
    Column("b", "integer", 0, 30),
    Column("c", "continuous", 1.0, 1e4, "log"),
    Column("d", "integer", 0, 1),
)
KEY = bytes(range(32))
BORDERS = [first_borders(2 / (one.upper - one.lower) if one.kind == "integer" else 0.0) for one in COLUMNS]
ENCODERS = ("scores", "cosines", "linear", "presence")


def plan_of(**release):
    return Plan(**{"title": "t", "form": "moments", "mu": 1.0, "columns": COLUMNS, **release})


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    values = {
        "a": rng.standard_normal(n),
        "b": rng.poisson(3, n).astype(float),
        "c": np.exp(rng.standard_normal(n)) + 1,
        "d": rng.integers(0, 2, n).astype(float),
    }
    for column in values.values():
        column[rng.random(n) < 0.1] = np.nan
    return pa.table(values)


def known(rows, plan):
    steps = [0.0 if one.kind == "continuous" else 2 / (one.upper - one.lower) for one in plan.columns]
    counts = exact_counts(rows, BORDERS, Serial())
    return [
        Marginal((Counts(borders, one[:-1].astype(float), float(one[-1]), 1.0),), step)
        for borders, one, step in zip(BORDERS, counts, steps, strict=True)
    ]


def stage_and_encoder(kind, rows, plan, *, mapped=False):
    if kind == "presence":
        encoder = Encoder("scores", "presence", of=(0, 2, 3))
        return stage_of(plan.unit, rows.public_size, 1.0, encoder, first_shape(3, shaped=True)), encoder, None
    columns = known(rows, plan)
    if kind == "linear":
        encoder = Encoder("linear", "columns", standard=standard_of(columns))
    else:
        encoder = Encoder.of_scores(columns, "cosines" if kind == "cosines" else "columns", KEY)
    width = encoder.width(len(plan.columns))
    shape = Shape(None, np.zeros(width), float(width), 1.0)
    if mapped:
        rng = np.random.default_rng(5)
        matrix = exact_map(rng.standard_normal((width, width)), largest_entry(encoder.scale))
        shape = Shape(matrix, rng.standard_normal(width), float(width), 1.0)
    return stage_of(plan.unit, rows.public_size, 1.0, encoder, shape), encoder, shape.map


@pytest.mark.parametrize(
    ("kind", "mapped"), [*((kind, False) for kind in ENCODERS), ("scores", True), ("linear", True)]
)
def test_sums_and_counts_are_the_same_for_every_engine_block_and_source(kind, mapped, tmp_path, monkeypatch):
    plan, table = plan_of(), data(20_001)
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=997)
    rows = Rows(plan, open_table(table))
    made = stage_and_encoder(kind, rows, plan, mapped=mapped)
    counts = np.concatenate(exact_counts(rows, BORDERS, Serial()))
    first, second, _ = exact_sums(rows, made[0], made[1], Serial(), made[2])
    for source, engine, block, piece, tile in (
        (table, "threads", 1 << 16, 1 << 20, 1 << 14),
        (table, "threads", 1001, 5_000, 333),
        (str(tmp_path / "d.parquet"), "serial", 777, 1 << 20, 100),
    ):
        monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", block)
        monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", piece)
        monkeypatch.setattr(exact, "_tile_rows", lambda features, tile=tile: tile)
        again = Rows(plan, open_table(source))
        assert np.array_equal(np.concatenate(exact_counts(again, BORDERS, get_engine(engine))), counts)
        found = exact_sums(again, made[0], made[1], get_engine(engine), made[2])
        assert np.array_equal(found[0], first)
        assert np.array_equal(found[1], second)


@pytest.mark.parametrize("kind", ENCODERS)
def test_sums_are_exactly_those_of_the_rows_in_whole_numbers(kind):
    """Each row encoded alone, clipped by the slow way, and added up as Python adds integers."""
    plan, n = plan_of(), 300
    rows = Rows(plan, open_table(data(n)))
    stage, encoder, _ = stage_and_encoder(kind, rows, plan)
    (block,) = rows.blocks()
    x = np.empty((stage.size, n))
    for row in range(n):
        encoder.rows(Cells(plan), [column[row : row + 1] for column in block], row, x[:, row : row + 1])
    z = clip_to_lattice(x.T - np.array(stage.centre), steps=stage.steps, radius=stage.radius).astype(np.int64)
    whole = [[int(entry) for entry in row] for row in z]
    first, second, _ = exact_sums(rows, stage, encoder, Serial())
    assert first.tolist() == [sum(row[i] for row in whole) for i in range(stage.size)]
    expected = [[sum(row[i] * row[j] for row in whole) for j in range(stage.size)] for i in range(stage.size)]
    assert second.tolist() == expected


@pytest.mark.parametrize("scale", ["scores", "linear"])
@pytest.mark.parametrize("rows", [1, 3, 64, 1000])
def test_maps_give_a_row_the_same_bits_in_whatever_block_it_stands(scale, rows):
    """A product of floats would not: its sums depend on how the library cuts the matrix."""
    rng = np.random.default_rng(rows)
    p, steps, largest = 37, STEPS if scale == "scores" else 1 << 16, largest_entry(scale)
    matrix = exact_map(rng.standard_normal((p, p)) * 10.0 ** rng.uniform(-3, 3, (p, 1)), largest)
    cells = np.rint(rng.uniform(-1, 1, (p, 1000)) * largest) / steps
    cells[:, 0] = largest / steps  # the longest row that there can be
    whole = matrix @ cells
    blocks = [matrix @ np.ascontiguousarray(cells[:, k : k + rows]) for k in range(0, 1000, rows)]
    assert np.array_equal(np.concatenate(blocks, axis=1), whole)
    order = rng.permutation(p)
    assert np.array_equal(matrix[:, order] @ cells[order], whole)  # nor does the order of the sum matter


# ------------------------------------------------------------------------------------------------- drawn scores


@settings(max_examples=40)
@given(st.integers(1, 20), st.integers(0, 3 << 16), st.integers(1, 300), st.integers(0, 299))
def test_words_depend_on_the_number_of_the_row_and_its_column_alone(columns, start, rows, cut):
    whole = _words(KEY, columns, start, rows)
    assert whole.shape == (rows, columns)
    cut = min(cut, rows - 1)
    assert np.array_equal(_words(KEY, columns, start + cut, rows - cut), whole[cut:])


def test_words_over_the_end_of_a_nonce_are_those_of_either_side_and_no_two_rows_share_them():
    edge = 1 << 16
    around = _words(KEY, 3, edge - 4, 8)
    assert np.array_equal(around[:4], _words(KEY, 3, edge - 4, 4))
    assert np.array_equal(around[4:], _words(KEY, 3, edge, 4))
    assert np.unique(_words(KEY, 3, 0, 1000)).size > 2990
    assert not np.array_equal(_words(bytes(32), 3, 0, 5), _words(KEY, 3, 0, 5))


def test_words_are_uniform_in_every_bit():
    bits = np.unpackbits(_words(KEY, 5, 0, 20_000).view(np.uint8)).reshape(-1, 32)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(100_000)


@pytest.mark.parametrize("kind", ["scores", "cosines", "linear"])
def test_the_rows_of_others_keep_their_bits_when_a_person_before_them_vanishes(kind, monkeypatch):
    """Whoever comes later moves up, and so do their words: with the same words they must be the same rows.

    The draws being independent and their key secret, a neighbour's words may be dealt out so that the others keep
    theirs. So here every row has the same word, and nothing else may differ: not by its place in a tile or a block.
    """
    monkeypatch.setattr(marginals, "_words", lambda key, p, start, n: np.full((n, p), 0xABCDEF12, np.uint32))
    monkeypatch.setattr(exact, "_tile_rows", lambda features: 7)
    scale = {"scale": "linear"} if kind == "linear" else {}
    plan = plan_of(protects="person", id_column="who", max_rows=4, persons=100, **scale)
    ids = [k // 4 for k in range(200)]
    table = data(200).append_column("who", pa.array(ids))
    rows = Rows(plan, open_table(table))
    stage, encoder, through = stage_and_encoder(kind, rows, plan, mapped=True)
    whole = exact_sums(rows, stage, encoder, Serial(), through)
    for gone in (1, 3, 4, 199):
        parts = [Rows(plan, open_table(part)) for part in (table.slice(0, gone), table.slice(gone))]
        some = [exact_sums(part, stage, encoder, Serial(), through) for part in parts]
        assert all(np.array_equal(a + b, both) for a, b, both in zip(*some, whole, strict=True))


@pytest.mark.parametrize("features", ["columns", "cosines"])
def test_scores_are_those_of_their_table_looked_up_one_by_one(features):
    """The compiled loop against NumPy: intervals by bisection over all cuts, entries by the bits of the word."""
    plan = plan_of()
    rows = Rows(plan, open_table(data(3000)))
    columns = known(rows, plan)
    encoder = Encoder.of_scores(columns, features, KEY)
    (block,) = rows.blocks()
    size = 3 if features == "cosines" else 1
    out = np.empty((4 * size, 3000))
    encoder.rows(rows.cells, block, 17, out)
    words, units = _words(KEY, 4, 17, 3000), rows.cells.units(block)
    for k, one in enumerate(columns):
        table, word, u = score_table(one), words[:, k].astype(np.int64), units[k]
        spread = u + one.step * (((word & 0xFFFFFF) + 0.5) / 2**24 - 0.5)
        at = np.where(np.isnan(u), table.first.size - 1, np.searchsorted(table.cuts, spread, side="right"))
        entry = table.first[at] + np.where(table.draws[at] > 1, word >> 24, 0)
        scores = table.values[entry] / STEPS
        expected = scores[None] if size == 1 else np.rint(cosines(scores) * STEPS).T / STEPS
        assert np.array_equal(out[k * size : (k + 1) * size], expected)


# ----------------------------------------------------------------------------------- whole releases, every engine

RELEASES = {
    "record": {},
    "person": {"form": "synthetic", "protects": "person", "id_column": "who", "max_rows": 2},
    "entry": {"protects": "entry"},
    "readings": {"form": "synthetic", "protects": "readings", "readings": 3},
    "linear": {"form": "synthetic", "scale": "linear"},
    "curved": {"dependence": "curved"},
    "one stage": {"form": "synthetic", "adaptive": False},
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_seed_gives_the_same_release_on_every_engine(name, tmp_path, monkeypatch, cluster):
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 400)
    plan = plan_of(**RELEASES[name])
    table = data(1000).append_column("who", pa.array([k // 2 for k in range(1000)]))
    hashes = []
    for engine in ("serial", "threads", f"dask:{cluster.scheduler_address}"):
        release = hg.publish(table, plan, tmp_path / engine[:4], engine=engine, simulate_seed=11)
        release.check_values()
        hashes.append([(part.path, part.sha256) for part in release.manifest.files])
    assert hashes[0] == hashes[1] == hashes[2]
